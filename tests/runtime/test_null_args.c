/* SPDX-License-Identifier: MIT */
/* NULL for each pointer of each public function, and other sizes for each struct that may grow: the
 * calls are written by null_args.py from the headers. A call that must fail gives RLX_INVALID and a
 * sentence; none ends the program. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "import/onnx.h"
#include "rlx/rlx.h"
#include "support/onnx_model.h"
#include "support/tiny_model.h"

/* What the calls use. Each begins with a new graph and writer, and with zeros in the room. */
static union {
    unsigned char bytes[16384];
    double align;
} room, grown;
static void *slot;
static rlx_error err;
static rlx_graph *g;
static rlx_value x;
static rlx_device *device;
static rlx_session *session;
static rlx_buffer *buffer;
static rlx_file *file;
static rlx_onnx *onnx;
static rlx_meta meta;
static rlx_tokenizer *tokenizer;
static rlx_text_stream *stream;
static rlx_model *model, *encoder;
static rlx_context *context;
static rlx_chat *chat;
static rlx_generation *generation;
static rlx_gguf_writer *writer;
static rlx_grammar *grammar;
static rlx_vocabulary *vocabulary;
static rlx_grammar_state *grammar_state;
static rlx_engine *engine;
static rlx_request *request;
static rlx_trainer *trainer;
static rlx_imatrix *imatrix;
static const char *const texts[] = {"abc"};
static const char *function, *argument;
static blob bytes, encoder_bytes, onnx_bytes;

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
    memset(grown.bytes, 0, sizeof grown);
    slot = NULL;
    err = (rlx_error){0};
    g = new_graph(&x);
    rlx_gguf_writer_create("test_null_args.gguf", &writer, NULL);
    rlx_generation_create(context, &(rlx_generate_desc){RLX_INIT(rlx_generate_desc),
                                                       .prompt = "a"}, &generation, NULL);
}

static void end(void)
{
    rlx_generation_destroy(generation);
    rlx_gguf_writer_destroy(writer);
    rlx_graph_destroy(g);
    generation = NULL;
    writer = NULL;
    g = NULL;
}

static void report(bool ok, const char *what)
{
    if (!check_that(ok, what, __FILE__, __LINE__))
        printf("    %s, argument '%s': %s\n", function, argument, err.text);
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

/* The struct in `grown`: without a size, of a version with no field yet, or of one with a field
 * behind those known here, which is set. */
typedef enum size_case { NO_SIZE, OLDER, NEWER } size_case;
enum { NEW_FIELD = 8 };
static size_t known_size;

static void set_size(size_case which, size_t size)
{
    const size_t n = which == NO_SIZE ? 0 : which == OLDER ? sizeof n : size + NEW_FIELD;
    known_size = size;
    memcpy(grown.bytes, &n, sizeof n);
    grown.bytes[size] = which == NEWER;
}

static void refused(bool is_refused, const char *type)
{
    report(is_refused && strstr(err.text, type), "RLX_INVALID and a sentence with the struct");
}

static void sized(size_case which, bool is_input, rlx_status st, const char *type)
{
    size_t n;
    memcpy(&n, grown.bytes, sizeof n);
    if (which == NO_SIZE || (which == NEWER && is_input)) {
        if (!err.code) /* of a function that records it in its graph */
            rlx_graph_status(g, &err);
        refused(st == RLX_INVALID, type);
        return;
    }
    report(st != RLX_INVALID || !strstr(err.text, type), "a size that is taken");
    report(n == (which == OLDER ? sizeof n : known_size + NEW_FIELD), "a size that is kept");
    if (which == OLDER)
        for (size_t i = sizeof n; i < known_size; i++)
            report(!grown.bytes[i], "nothing written behind the size");
    else if (st == RLX_OK)
        report(!grown.bytes[known_size], "zero in a field that is not known");
}

static void sized_value(size_case which, rlx_value v, const char *type)
{
    const rlx_status st = rlx_graph_status(g, &err);
    if (which == OLDER)
        report(st != RLX_INVALID || !strstr(err.text, "struct_size"), "a size that is taken");
    else
        refused(!v.id && st == RLX_INVALID, type);
}

#include "null_args.inc"

static void open_objects(void)
{
    rlx_value value;
    rlx_graph *whole = new_graph(&value);
    const float zeros[6] = {0};
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "ref", .context = 16};
    bytes = tiny_model(TINY_LLAMA, 1);
    CHECK_OK(rlx_device_open("ref", NULL, &device, &err), &err);
    CHECK_OK(rlx_session_create(device, whole, NULL, &session, &err), &err);
    CHECK_OK(rlx_buffer_create(device, &(rlx_buffer_desc){RLX_INIT(rlx_buffer_desc), .bytes = 64},
                               &buffer, &err), &err);
    CHECK_OK(rlx_session_set_param(session, "p", zeros, sizeof zeros, RLX_COPY, &err), &err);
    onnx_bytes = onnx_small();
    CHECK_OK(rx_onnx_from_memory(onnx_bytes.data, onnx_bytes.n, "small.onnx", &onnx, &err), &err);
    CHECK_OK(rx_file_from_memory(bytes.data, bytes.n, "tiny.gguf", &file, &err), &err);
    CHECK(rlx_file_meta_at(file, 0, &meta));
    CHECK_OK(rlx_tokenizer_open_file(file, &tokenizer, &err), &err);
    CHECK_OK(rlx_text_stream_create(tokenizer, 0, &stream, &err), &err);
    CHECK_OK(rlx_model_open_memory(bytes.data, bytes.n, &d, &model, &err), &err);
    encoder_bytes = tiny_model(TINY_BERT, 1);
    CHECK_OK(rlx_model_open_memory(encoder_bytes.data, encoder_bytes.n,
                                   &(rlx_model_desc){RLX_INIT(rlx_model_desc),
                                                     .device = "ref"}, &encoder, &err), &err);
    CHECK_OK(rlx_context_create(model, &context, &err), &err);
    CHECK_OK(rlx_chat_create(model, NULL, &chat, &err), &err);
    CHECK_OK(rlx_engine_create(model, &(rlx_engine_desc){RLX_INIT(rlx_engine_desc), .page = 8,
                                                         .no_thread = true}, &engine, &err), &err);
    CHECK_OK(rlx_engine_submit(engine, &(rlx_request_desc){RLX_INIT(rlx_request_desc),
                                                           .prompt = "a"}, &request, &err), &err);
    CHECK_OK(rlx_grammar_from_regex("[a-z]*", 6, NULL, &grammar, &err), &err);
    CHECK_OK(rlx_vocabulary_create(tokenizer, &vocabulary, &err), &err);
    CHECK_OK(rlx_grammar_state_create(grammar, vocabulary, &grammar_state, &err), &err);
    rlx_graph_destroy(whole);
}

static void open_trainer(void)
{
    FILE *f = fopen("test_null_args.txt", "w");
    CHECK(f && fputs("abc", f) >= 0);
    if (f)
        fclose(f);
    CHECK_OK(rlx_trainer_create(model, &(rlx_trainer_desc){RLX_INIT(rlx_trainer_desc),
                                                           .data = "test_null_args.txt",
                                                           .rank = 1, .batch = 1}, &trainer, &err),
             &err);
    CHECK_OK(rlx_imatrix_create(model, &imatrix, &err), &err);
}

static void close_objects(void)
{
    rlx_imatrix_destroy(imatrix);
    rlx_trainer_destroy(trainer);
    rlx_grammar_state_destroy(grammar_state);
    rlx_vocabulary_destroy(vocabulary);
    rlx_grammar_destroy(grammar);
    rlx_chat_destroy(chat);
    rlx_request_destroy(request);
    rlx_engine_destroy(engine);
    rlx_context_destroy(context);
    rlx_model_close(model);
    rlx_model_close(encoder);
    rlx_text_stream_destroy(stream);
    rlx_tokenizer_close(tokenizer);
    rlx_file_close(file);
    rlx_onnx_close(onnx);
    blob_free(&onnx_bytes);
    rlx_session_destroy(session);
    rlx_buffer_destroy(buffer);
    rlx_device_close(device);
    blob_free(&bytes);
    blob_free(&encoder_bytes);
    unlink("test_null_args.gguf");
    unlink("test_null_args.txt");
}

int main(int argc, char **argv)
{
    const size_t n = sizeof calls / sizeof calls[0];
    size_t first = argc > 1 ? strtoul(argv[1], NULL, 10) : 0; /* one call only, to find which */
    size_t last = argc > 1 ? first + 1 : n;
    open_objects();
    open_trainer();
    for (size_t i = first; i < last && i < n; i++)
        calls[i]();
    close_objects();
    return check_done();
}
