/* SPDX-License-Identifier: MIT */
/* Embeddings: embed MODEL TEXT TEXT... prints how near in meaning each pair of texts is. */
#include <stdio.h>
#include <stdlib.h>

#include <rlx/rlx.h>

static double inner_product(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * b[i];
    return sum;
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    rlx_model *model = NULL;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    float *v = NULL;
    if (argc < 4)
        return !printf("usage: embed MODEL TEXT TEXT...\n");
    const char *const *texts = (const char *const *)argv + 2;
    size_t n = (size_t)argc - 2;
    rlx_status st = rlx_model_open(argv[1], NULL, &model, &err);
    if (st == RLX_OK) {
        rlx_model_get_info(model, &info, NULL);
        v = calloc(n, (size_t)info.embedding_width * sizeof *v);
        st = v ? rlx_embed(model, texts, n, NULL, v, NULL, &err) : RLX_NO_MEMORY;
    }
    size_t width = (size_t)info.embedding_width;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        for (size_t k = i + 1; k < n; k++)
            printf("%7.4f  %s | %s\n", inner_product(v + i * width, v + k * width, width),
                   texts[i], texts[k]);
    if (st != RLX_OK)
        fprintf(stderr, "embed: %s\n", st == RLX_NO_MEMORY ? "out of memory" : err.text);
    free(v);
    rlx_model_close(model);
    return st != RLX_OK;
}
