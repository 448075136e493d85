/* SPDX-License-Identifier: MIT */
/* NULL for each pointer of each public function: the calls are written by null_args.py from the
 * headers. A call that must fail gives RLX_INVALID and a sentence; none ends the program. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/tiny_model.h"

/* What the calls use. Each begins with a new graph and writer, and with zeros in the room. */
static union {
    unsigned char bytes[16384];
    double align;
} room;
static void *slot;
static rlx_error err;
static rlx_graph *g;
static rlx_value x;
static rlx_device *device;
static rlx_session *session;
static rlx_file *file;
static rlx_meta meta;
static rlx_tokenizer *tokenizer;
static rlx_text_stream *stream;
static rlx_model *model, *encoder;
static rlx_context *context;
static rlx_chat *chat;
static rlx_generation *generation;
static rlx_gguf_writer *writer;
static const char *const texts[] = {"abc"};
static const char *function, *argument;
static blob bytes, encoder_bytes;

static int on_piece(void *user, const rlx_piece *piece)
{
    return (void)user, (void)piece, 1; /* that is enough */
}

static void on_log(void *user, rlx_log_level level, const char *text)
{
    (void)user, (void)level, (void)text;
}

static int on_step(void *user, const rlx_step_result *r)
{
    return (void)user, (void)r, 0;
}

/* y = relu(x), a param and a state. */
static rlx_graph *new_graph(rlx_value *value)
{
    const rlx_dim dims[] = {2, 3};
    rlx_graph *made = rlx_graph_create("null");
    *value = rlx_input(made, "x", RLX_F32, 2, dims);
    rlx_value p = rlx_param(made, "p", RLX_F32, 2, dims);
    rlx_value s = rlx_state(made, "s", RLX_F32, 2, dims);
    rlx_output(made, "y", rlx_add(made, rlx_relu(made, *value), rlx_add(made, p, s)));
    return made;
}

static void begin(const char *name, const char *of)
{
    function = name;
    argument = of;
    if (getenv("RLX_TEST_VERBOSE")) {
        printf("%s: %s\n", name, of);
        fflush(stdout);
    }
    memset(room.bytes, 0, sizeof room);
    slot = NULL;
    err = (rlx_error){0};
    g = new_graph(&x);
    rlx_gguf_writer_create("test_null_args.gguf", &writer, NULL);
    rlx_generation_begin(context, &(rlx_generate_desc){.prompt = "a"}, &generation, NULL);
}

static void end(void)
{
    rlx_generation_end(generation, NULL);
    rlx_gguf_writer_destroy(writer);
    rlx_graph_destroy(g);
    generation = NULL;
    writer = NULL;
    g = NULL;
}

static void report(bool ok, const char *what)
{
    if (!check_that(ok, what, __FILE__, __LINE__))
        printf("    %s with NULL for '%s': %s\n", function, argument, err.text);
}

static void any_status(rlx_status st)
{
    report(st != RLX_INTERNAL, "no internal error");
}

static void fails(rlx_status st)
{
    report(st == RLX_INVALID, "RLX_INVALID");
}

static void needs(rlx_status st)
{
    report(st == RLX_INVALID && err.text[0], "RLX_INVALID and a sentence");
}

/* A builder has recorded the error in its graph, if it has one. */
static void no_value(rlx_value v, bool has_graph)
{
    report(!v.id && (!has_graph || rlx_graph_status(g, &err) == RLX_INVALID), "an invalid value");
}

#include "null_args.inc"

static void open_objects(void)
{
    rlx_value value;
    rlx_graph *whole = new_graph(&value);
    const float zeros[6] = {0};
    const rlx_model_desc d = {.device = "ref", .context = 16};
    bytes = tiny_model(TINY_LLAMA, 1);
    CHECK_OK(rlx_device_open("ref", NULL, &device, &err), &err);
    CHECK_OK(rlx_session_create(device, whole, NULL, &session, &err), &err);
    CHECK_OK(rlx_session_set_param(session, "p", zeros, sizeof zeros, RLX_COPY, &err), &err);
    CHECK_OK(rx_file_from_memory(bytes.data, bytes.n, "tiny.gguf", &file, &err), &err);
    CHECK(rlx_file_meta_at(file, 0, &meta));
    CHECK_OK(rlx_tokenizer_from_file(file, &tokenizer, &err), &err);
    CHECK_OK(rlx_text_stream_create(tokenizer, 0, &stream, &err), &err);
    CHECK_OK(rlx_model_open_memory(bytes.data, bytes.n, &d, &model, &err), &err);
    encoder_bytes = tiny_model(TINY_BERT, 1);
    CHECK_OK(rlx_model_open_memory(encoder_bytes.data, encoder_bytes.n,
                                   &(rlx_model_desc){.device = "ref"}, &encoder, &err), &err);
    CHECK_OK(rlx_context_create(model, &context, &err), &err);
    CHECK_OK(rlx_chat_create(model, NULL, &chat, &err), &err);
    rlx_graph_destroy(whole);
}

static void close_objects(void)
{
    rlx_chat_destroy(chat);
    rlx_context_destroy(context);
    rlx_model_close(model);
    rlx_model_close(encoder);
    rlx_text_stream_destroy(stream);
    rlx_tokenizer_destroy(tokenizer);
    rlx_file_close(file);
    rlx_session_destroy(session);
    rlx_device_close(device);
    blob_free(&bytes);
    blob_free(&encoder_bytes);
    unlink("test_null_args.gguf");
}

int main(int argc, char **argv)
{
    const size_t n = sizeof calls / sizeof calls[0];
    size_t first = argc > 1 ? strtoul(argv[1], NULL, 10) : 0; /* one call only, to find which */
    size_t last = argc > 1 ? first + 1 : n;
    open_objects();
    for (size_t i = first; i < last && i < n; i++)
        calls[i]();
    close_objects();
    return check_done();
}
