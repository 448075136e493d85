/* SPDX-License-Identifier: MIT */
/* A language model over characters: one layer of attention learns a rhyme by heart and then says it
 * from its first letters. One graph trains, a second one, which shares the weights, predicts.
 *
 *   cc characters.c $(pkg-config --cflags --libs rlx) -lm -o characters && ./characters */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rlx/rlx.h>

#define BATCH 16
#define SEQ 24
#define WIDTH 48
#define CHARS 128
#define N_WEIGHTS 7

static const char text[] =
    "the moon is high, the night is deep, the foxes dance while farmers sleep; "
    "they dance along the river bend, and no one sees the dance's end. ";

static const struct weight {
    const char *name;
    rlx_dim rows, columns;
} weights[N_WEIGHTS] = {
    {"embed", CHARS, WIDTH}, {"place", SEQ, WIDTH}, {"query", WIDTH, WIDTH}, {"key", WIDTH, WIDTH},
    {"value", WIDTH, WIDTH}, {"up", WIDTH, 2 * WIDTH}, {"down", 2 * WIDTH, WIDTH},
};

static rlx_value heads(rlx_graph *g, rlx_value x, rlx_value w, rlx_dim batch)
{
    return rlx_reshape(g, rlx_matmul(g, x, w), 4, (rlx_dim[]){batch, SEQ, 2, WIDTH / 2});
}

/* Logits of the character after each of tokens [batch, SEQ]. */
static rlx_value build(rlx_graph *g, rlx_dim batch, rlx_value w[N_WEIGHTS])
{
    const rlx_attention_desc causal = {RLX_INIT(rlx_attention_desc), .causal = true,
                                       .layout = RLX_BSHD};
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    for (int i = 0; i < N_WEIGHTS; i++)
        w[i] = rlx_state(g, weights[i].name, RLX_F32, 2,
                         (rlx_dim[]){weights[i].rows, weights[i].columns});
    rlx_value tokens = rlx_input(g, "tokens", RLX_I32, 2, (rlx_dim[]){batch, SEQ});
    rlx_value x = rlx_add(g, rlx_gather(g, w[0], tokens, 0), w[1]);
    rlx_value h = rlx_rms_norm(g, x, RLX_NONE, NULL);
    h = rlx_attention(g, heads(g, h, w[2], batch), heads(g, h, w[3], batch),
                      heads(g, h, w[4], batch), RLX_NONE, &causal);
    x = rlx_add(g, x, rlx_reshape(g, h, 3, (rlx_dim[]){batch, SEQ, WIDTH}));
    h = rlx_gelu(g, rlx_matmul(g, rlx_rms_norm(g, x, RLX_NONE, NULL), w[5]));
    x = rlx_add(g, x, rlx_matmul(g, h, w[6]));
    return rlx_matmul_ex(g, rlx_rms_norm(g, x, RLX_NONE, NULL), w[0], RLX_NONE, RLX_NONE, &turned);
}

static rlx_status make_trainer(rlx_device *device, rlx_session **out, rlx_error *err)
{
    const rlx_optimizer_desc adamw = {RLX_INIT(rlx_optimizer_desc), .lr = 0.005, .clip_norm = 1};
    rlx_graph *g = rlx_graph_create("train");
    rlx_value w[N_WEIGHTS], logits = build(g, BATCH, w);
    rlx_value labels = rlx_input(g, "labels", RLX_I32, 2, (rlx_dim[]){BATCH, SEQ});
    rlx_value loss = rlx_cross_entropy(g, logits, labels, NULL);
    rlx_output(g, "loss", loss);
    rlx_optimizer(g, loss, w, N_WEIGHTS, &adamw, NULL);
    const rlx_status st = rlx_session_create(device, g, NULL, out, err);
    rlx_graph_destroy(g);
    return st;
}

static rlx_status make_teller(rlx_device *device, rlx_session **out, rlx_error *err)
{
    rlx_graph *g = rlx_graph_create("tell");
    rlx_value w[N_WEIGHTS], logits = build(g, 1, w);
    rlx_output(g, "next", rlx_argmax(g, logits, &(rlx_arg_desc){RLX_INIT(rlx_arg_desc), .axis = -1,
                                                                .out = RLX_I32}));
    const rlx_status st = rlx_session_create(device, g, NULL, out, err);
    rlx_graph_destroy(g);
    return st;
}

/* Small random numbers, or the weights of another session. */
static rlx_status set_weights(rlx_session *s, rlx_session *from, rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (int i = 0; i < N_WEIGHTS && st == RLX_OK; i++) {
        float w[CHARS * WIDTH];
        const size_t n = (size_t)(weights[i].rows * weights[i].columns);
        for (size_t k = 0; k < n; k++)
            w[k] = ((float)rand() / (float)RAND_MAX - 0.5f) / sqrtf(WIDTH / 4.0f);
        if (from)
            st = rlx_session_state_read(from, weights[i].name, 0, w, n * sizeof *w, err);
        if (st == RLX_OK)
            st = rlx_session_state_write(s, weights[i].name, 0, w, n * sizeof *w, err);
    }
    return st;
}

/* Pieces of the rhyme, and of each character the next one. */
static void draw_batch(int32_t tokens[BATCH * SEQ], int32_t labels[BATCH * SEQ])
{
    const size_t n = sizeof text - 1;
    for (size_t row = 0; row < BATCH; row++) {
        const size_t begin = (size_t)rand() % n;
        for (size_t i = 0; i < SEQ; i++) {
            tokens[row * SEQ + i] = text[(begin + i) % n];
            labels[row * SEQ + i] = text[(begin + i + 1) % n];
        }
    }
}

static rlx_status train(rlx_session *s, rlx_error *err)
{
    rlx_status st = set_weights(s, NULL, err);
    for (int step = 0; step <= 200 && st == RLX_OK; step++) {
        int32_t tokens[BATCH * SEQ], labels[BATCH * SEQ];
        float loss;
        draw_batch(tokens, labels);
        const rlx_const_tensor in[] = {{"tokens", tokens, sizeof tokens},
                                       {"labels", labels, sizeof labels}};
        const rlx_tensor out = {"loss", &loss, sizeof loss};
        st = rlx_run(s, in, 2, &out, 1, err);
        if (st == RLX_OK && step % 50 == 0)
            printf("step %3d: loss %.3f\n", step, loss);
    }
    return st;
}

/* Goes on with a text, character by character, from the last SEQ of them. */
static rlx_status tell(rlx_session *s, char *said, size_t n, rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (size_t have = strlen(said); have < n && st == RLX_OK; have++) {
        const size_t first = have > SEQ ? have - SEQ : 0;
        int32_t tokens[SEQ] = {0}, next[SEQ];
        for (size_t i = first; i < have; i++)
            tokens[i - first] = said[i];
        const rlx_const_tensor in = {"tokens", tokens, sizeof tokens};
        const rlx_tensor out = {"next", next, sizeof next};
        st = rlx_run(s, &in, 1, &out, 1, err);
        said[have] = (char)next[have - first - 1];
    }
    return st;
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_session *trainer = NULL, *teller = NULL;
    char said[61] = "the moon is";
    rlx_status ok = rlx_device_open("auto", NULL, &device, &err);
    ok = ok ? ok : make_trainer(device, &trainer, &err);
    ok = ok ? ok : make_teller(device, &teller, &err);
    ok = ok ? ok : train(trainer, &err);
    ok = ok ? ok : set_weights(teller, trainer, &err);
    ok = ok ? ok : tell(teller, said, sizeof said - 1, &err);
    if (ok == RLX_OK)
        printf("%s\n", said);
    else
        fprintf(stderr, "characters: %s\n", err.text);
    rlx_session_destroy(teller);
    rlx_session_destroy(trainer);
    rlx_device_close(device);
    return ok != RLX_OK || strncmp(said, text, sizeof said - 1) != 0;
}
