/* SPDX-License-Identifier: MIT */
/* Speech to text: hear FOLDER TOKENIZER.json SOUND.wav prints what is said. FOLDER has the ONNX
 * models encoder_model.onnx and decoder_model_merged.onnx of Moonshine; the sound has one channel
 * of 16 bits at 16 kHz. Models are built for the sizes of their inputs, so the decoder, whose cache
 * grows, is built for each token. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rlx/rlx.h>

#define MAX_TENSORS 40
#define MAX_TOKENS 192
#define BEGIN 1
#define END 2

/* A tensor with a name; data is freed by release. */
typedef struct item {
    char name[64];
    rlx_dtype dtype;
    rlx_shape shape;
    size_t bytes;
    void *data;
} item;

typedef struct list {
    item v[MAX_TENSORS];
    size_t n;
} list;

static void release(list *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i].data);
    l->n = 0;
}

/* Adds a tensor with a copy of the data, zeros for NULL. */
static int put(list *l, const char *name, rlx_dtype t, rlx_shape shape, const void *data,
               size_t bytes)
{
    item *it = &l->v[l->n];
    if (l->n == MAX_TENSORS || !(it->data = calloc(1, bytes + 1)))
        return 1;
    snprintf(it->name, sizeof it->name, "%s", name);
    it->dtype = t;
    it->shape = shape;
    it->bytes = bytes;
    if (data)
        memcpy(it->data, data, bytes);
    l->n++;
    return 0;
}

/* Builds the graph for these inputs, runs it and adds its outputs to `out`. */
static rlx_status run(rlx_device *device, rlx_onnx *m, const list *in, list *out, rlx_error *err)
{
    rlx_import_value values[MAX_TENSORS];
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    rlx_const_tensor p;
    rlx_tensor_info info;
    for (size_t i = 0; i < in->n; i++)
        values[i] = (rlx_import_value){in->v[i].name, in->v[i].dtype, in->v[i].shape,
                                       in->v[i].data};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .device = device, .inputs = values,
                               .n_inputs = in->n};
    rlx_status st = rlx_graph_import(m, &d, &g, err);
    if (st == RLX_OK)
        st = rlx_session_create(device, g, NULL, &s, err);
    for (size_t i = 0; st == RLX_OK && rlx_onnx_param(m, i, &p); i++)
        st = rlx_session_set_param(s, p.name, p.data, p.bytes, RLX_BORROW, err);
    for (size_t i = 0; st == RLX_OK && i < in->n; i++)
        st = rlx_session_set_input(s, in->v[i].name, in->v[i].data, in->v[i].bytes, err);
    if (st == RLX_OK)
        st = rlx_run(s, NULL, 0, NULL, 0, err);
    for (size_t i = 0; st == RLX_OK && rlx_session_leaf(s, RLX_LEAF_OUTPUT, i, &info); i++)
        st = put(out, info.name, info.dtype, info.shape, NULL, info.bytes)
                 ? RLX_NO_MEMORY
                 : rlx_session_read(s, info.name, 0, out->v[out->n - 1].data, info.bytes, err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return st;
}

static item *find(list *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->v[i].name, name))
            return &l->v[i];
    return NULL;
}

/* ---- Sound ----------------------------------------------------------------------------------- */

/* The samples of a WAV file as f32 [1, n]. */
static int load_sound(const char *path, list *in)
{
    FILE *f = fopen(path, "rb");
    unsigned char head[12], chunk[8], format[16] = {0};
    size_t n = 0;
    short *samples = NULL;
    if (!f || fread(head, 1, 12, f) != 12 || memcmp(head, "RIFF", 4) || memcmp(head + 8, "WAVE", 4))
        return fprintf(stderr, "hear: '%s' is no WAV file\n", path);
    while (!samples && fread(chunk, 1, 8, f) == 8) {
        const size_t bytes = chunk[4] | (size_t)chunk[5] << 8 | (size_t)chunk[6] << 16 |
                             (size_t)chunk[7] << 24;
        if (!memcmp(chunk, "fmt ", 4) && bytes >= 16 && fread(format, 1, 16, f) == 16)
            fseek(f, (long)(bytes - 16), SEEK_CUR);
        else if (!memcmp(chunk, "data", 4) && (samples = malloc(bytes + 2)))
            n = fread(samples, 2, bytes / 2, f);
        else
            fseek(f, (long)bytes, SEEK_CUR);
    }
    fclose(f);
    const int rate = format[4] | format[5] << 8;
    if (!n || format[0] != 1 || format[2] != 1 || rate != 16000 || format[14] != 16) {
        free(samples);
        return fprintf(stderr, "hear: '%s': expected one channel of 16 bits at 16 kHz\n", path);
    }
    int failed = put(in, "input_values", RLX_F32, (rlx_shape){2, {1, (rlx_dim)n}}, NULL, 4 * n);
    for (size_t i = 0; i < n && !failed; i++)
        ((float *)in->v[0].data)[i] = (float)samples[i] / 32768;
    free(samples);
    return failed;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* The inputs of the first step: empty caches. */
static int first_inputs(rlx_onnx *decoder, const item *heard, list *in)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    const int64_t begin = BEGIN;
    int failed = 0;
    for (size_t i = 0; !failed && rlx_onnx_input(decoder, i, &p, NULL) == RLX_OK; i++) {
        if (!strcmp(p.name, "input_ids"))
            failed = put(in, p.name, RLX_I64, (rlx_shape){2, {1, 1}}, &begin, sizeof begin);
        else if (!strcmp(p.name, "encoder_hidden_states"))
            failed = put(in, p.name, RLX_F32, heard->shape, heard->data, heard->bytes);
        else if (!strcmp(p.name, "use_cache_branch"))
            failed = put(in, p.name, RLX_BOOL, (rlx_shape){1, {1}}, NULL, 1);
        else
            failed = put(in, p.name, RLX_F32, (rlx_shape){4, {1, p.dim[1], 0, p.dim[3]}}, NULL, 0);
    }
    return failed;
}

static int64_t best_token(const item *logits)
{
    const float *v = logits->data;
    const int64_t n = logits->shape.dim[2];
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = v[i] > v[best] ? i : best;
    return best;
}

/* "present.0.decoder.key" becomes "past_key_values.0.decoder.key"; those of the encoder stay as the
 * first step made them. */
static void take_caches(list *in, list *out, int first)
{
    char name[96];
    for (size_t i = 0; i < out->n; i++) {
        snprintf(name, sizeof name, "past_key_values%s", out->v[i].name + strlen("present"));
        item *to = find(in, name), *from = &out->v[i];
        if (!to || (!first && strstr(name, ".encoder.")))
            continue;
        free(to->data);
        to->data = from->data;
        to->shape = from->shape;
        to->bytes = from->bytes;
        from->data = NULL;
    }
}

static rlx_status write_words(rlx_device *device, rlx_onnx *decoder, const item *heard,
                              rlx_text_stream *text, rlx_error *err)
{
    list in = {.n = 0}, out = {.n = 0};
    rlx_status st = first_inputs(decoder, heard, &in) ? RLX_NO_MEMORY : RLX_OK;
    int64_t token = BEGIN;
    size_t length;
    for (int i = 0; st == RLX_OK && token != END && i < MAX_TOKENS; i++) {
        st = run(device, decoder, &in, &out, err);
        if (st == RLX_OK) {
            token = best_token(find(&out, "logits"));
            take_caches(&in, &out, i == 0);
            *(int64_t *)find(&in, "input_ids")->data = token;
            *(char *)find(&in, "use_cache_branch")->data = 1;
        }
        if (st == RLX_OK && token != END) {
            const char *more = rlx_text_stream_push(text, (int32_t)token, &length);
            printf("%.*s", (int)length, more);
        }
        fflush(stdout);
        release(&out);
    }
    const char *rest = rlx_text_stream_finish(text, &length);
    printf("%.*s\n", (int)length, rest);
    release(&in);
    return st;
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_onnx *encoder = NULL, *decoder = NULL;
    rlx_tokenizer *words = NULL;
    rlx_text_stream *text = NULL;
    list in = {.n = 0}, out = {.n = 0};
    char path[2][1024];
    if (argc != 4)
        return !printf("usage: hear FOLDER TOKENIZER.json SOUND.wav\n");
    snprintf(path[0], sizeof path[0], "%s/encoder_model.onnx", argv[1]);
    snprintf(path[1], sizeof path[1], "%s/decoder_model_merged.onnx", argv[1]);
    if (load_sound(argv[3], &in))
        return 1;
    const char *id = getenv("RLX_DEVICE");
    rlx_status st = rlx_device_open(id ? id : "cpu", NULL, &device, &err);
    if (st == RLX_OK)
        st = rlx_tokenizer_open(argv[2], &words, &err);
    if (st == RLX_OK)
        st = rlx_text_stream_create(words, 0, &text, &err);
    if (st == RLX_OK)
        st = rlx_onnx_open(path[0], &encoder, &err);
    if (st == RLX_OK)
        st = rlx_onnx_open(path[1], &decoder, &err);
    if (st == RLX_OK)
        st = run(device, encoder, &in, &out, &err);
    if (st == RLX_OK)
        st = write_words(device, decoder, &out.v[0], text, &err);
    if (st != RLX_OK)
        fprintf(stderr, "hear: %s\n", err.text);
    release(&in);
    release(&out);
    rlx_text_stream_destroy(text);
    rlx_tokenizer_close(words);
    rlx_onnx_close(encoder);
    rlx_onnx_close(decoder);
    rlx_device_close(device);
    return st != RLX_OK;
}
