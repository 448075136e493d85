/* SPDX-License-Identifier: MIT */
/* A small story model writes JSON that a schema allows.
 *     json_schema [MODEL.gguf [SCHEMA.json]]     without arguments: models/tiny-stories.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rlx/rlx.h"

static const char default_schema[] =
    "{\"type\": \"object\", \"required\": [\"who\", \"age\", \"friends\"], \"properties\": {"
    "\"who\": {\"type\": \"string\", \"pattern\": \"^[A-Z][a-z]{2,8}$\"},"
    "\"age\": {\"type\": \"integer\", \"minimum\": 1, \"maximum\": 12},"
    "\"friends\": {\"type\": \"array\", \"maxItems\": 3,"
    "\"items\": {\"enum\": [\"bird\", \"cat\", \"dog\", \"frog\"]}}},"
    "\"additionalProperties\": false}";

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = f ? calloc(1, 1 << 20) : NULL;
    if (text && fread(text, 1, (1 << 20) - 1, f) == 0)
        text[0] = 0;
    if (f)
        fclose(f);
    return text;
}

static int print_piece(void *user, const rlx_piece *p)
{
    (void)user;
    fwrite(p->text, 1, p->length, stdout);
    return 0;
}

static rlx_status write_json(rlx_model *m, rlx_grammar *g, rlx_error *err)
{
    rlx_context *c;
    rlx_generate_result result = {RLX_INIT(rlx_generate_result)};
    rlx_status st = rlx_context_create(m, &c, err);
    if (st != RLX_OK)
        return st;
    const rlx_sampling_desc lively = {RLX_INIT(rlx_sampling_desc), .temperature = 0.8, .seed = 7};
    const rlx_generate_desc how = {RLX_INIT(rlx_generate_desc), .prompt = "Once upon a time ",
                                   .max_tokens = 300, .sampling = &lively, .grammar = g};
    st = rlx_generate(c, &how, print_piece, NULL, &result, err);
    if (st == RLX_OK)
        printf("\n%zu tokens, %s\n", result.n_generated,
               result.finish == RLX_FINISH_END ? "complete" : "cut off");
    rlx_context_destroy(c);
    return st;
}

int main(int argc, char **argv)
{
    const char *root = getenv("RLX_SOURCE_DIR");
    char path[1024];
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_grammar *g = NULL;
    snprintf(path, sizeof path, "%.900s/models/tiny-stories.gguf", root ? root : ".");
    char *given = argc > 2 ? read_text(argv[2]) : NULL;
    const char *schema = given ? given : default_schema;
    rlx_status st = rlx_grammar_from_json_schema(schema, strlen(schema), NULL, &g, &err);
    if (st == RLX_OK)
        st = rlx_model_open(argc > 1 ? argv[1] : path, NULL, &m, &err);
    if (st == RLX_OK)
        st = write_json(m, g, &err);
    if (st != RLX_OK)
        fprintf(stderr, "json_schema: %s\n", err.text);
    rlx_model_close(m);
    rlx_grammar_destroy(g);
    free(given);
    return st == RLX_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
