/* SPDX-License-Identifier: MIT */
/* rlx tokenize: text to token ids and back, as the tokenizer of a model does it. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "input.h"
#include "json.h"
#include "term.h"

typedef struct options {
    cli_common common;
    const char *model;
    bool decode, no_special, plain, lines;
} options;

/* ---- Encoding ------------------------------------------------------------------------------ */

static unsigned encode_flags(const options *o)
{
    return (o->no_special ? 0u : RLX_ENCODE_ADD_SPECIAL) |
           (o->plain ? 0u : RLX_ENCODE_PARSE_SPECIAL);
}

/* The bytes of one token as a text ended by 0; bytes that are no UTF-8 become U+FFFD. */
static char *piece_text(const rlx_tokenizer *t, int32_t id)
{
    rlx_text_stream *stream;
    size_t n, more;
    if (rlx_text_stream_create(t, 0, &stream, NULL) != RLX_OK)
        return cli_format("?");
    const char *text = rlx_text_stream_push(stream, id, &n);
    char *copy = cli_alloc(n + 16);
    memcpy(copy, text, n);
    text = rlx_text_stream_finish(stream, &more); /* half a character: one U+FFFD or none */
    memcpy(copy + n, text, more < 15 ? more : 15);
    rlx_text_stream_destroy(stream);
    return copy;
}

static void print_list(const rlx_tokenizer *t, const rlx_token_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        term_line(stdout, "%8d  %s", list->ids[i], rlx_token_text(t, list->ids[i], NULL));
}

static void print_list_json(const rlx_tokenizer *t, const rlx_token_list *list)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_list(&j, "ids");
    for (size_t i = 0; i < list->n; i++)
        json_int(&j, NULL, list->ids[i]);
    json_end(&j);
    json_list(&j, "tokens");
    for (size_t i = 0; i < list->n; i++)
        json_text(&j, NULL, rlx_token_text(t, list->ids[i], NULL));
    json_end(&j);
    json_list(&j, "pieces");
    for (size_t i = 0; i < list->n; i++) {
        char *text = piece_text(t, list->ids[i]);
        json_text(&j, NULL, text);
        free(text);
    }
    json_end(&j);
    json_end(&j);
}

static void print_ids(const rlx_token_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        printf("%s%d", i ? " " : "", list->ids[i]);
    putchar('\n');
}

/* Encodes a text into `list`, which grows as needed. */
static int encode(const options *o, const rlx_tokenizer *t, const char *text, size_t n,
                  rlx_token_list *list)
{
    rlx_error err = {0};
    for (;;) {
        if (rlx_tokenizer_encode(t, text, n, encode_flags(o), list, &err) != RLX_OK)
            return cli_error(&err);
        if (list->n <= list->cap)
            return EXIT_OK;
        list->cap = list->n;
        list->ids = cli_realloc_array(list->ids, list->cap, sizeof *list->ids);
    }
}

static int encode_and_print(const options *o, const rlx_tokenizer *t, const char *text, size_t n,
                            rlx_token_list *list)
{
    int status = encode(o, t, text, n, list);
    if (status)
        return status;
    if (o->common.json)
        print_list_json(t, list);
    else if (o->lines)
        print_ids(list);
    else
        print_list(t, list);
    return EXIT_OK;
}

static int encode_all(const options *o, const rlx_tokenizer *t)
{
    rlx_token_list list = {0};
    int status = EXIT_OK;
    for (size_t i = 0; i < o->common.args.n && !status; i++)
        status = encode_and_print(o, t, o->common.args.v[i], strlen(o->common.args.v[i]), &list);
    if (!o->common.args.n) {
        size_t n;
        char *text = input_read("-", &n);
        if (!text)
            return EXIT_FAILED; /* the list is empty */
        if (!o->lines)
            status = encode_and_print(o, t, text, n, &list);
        for (size_t at = 0; o->lines && at < n && !status;) {
            char *newline = memchr(text + at, '\n', n - at);
            size_t end = newline ? (size_t)(newline - text) : n;
            status = encode_and_print(o, t, text + at, end - at, &list);
            at = end + 1;
        }
        free(text);
    }
    free(list.ids);
    return status;
}

/* ---- Decoding ------------------------------------------------------------------------------ */

/* Ids separated by blanks, commas, brackets or newlines. */
static int read_ids(const char *text, rlx_token_list *list)
{
    for (const char *s = text; *s;) {
        s += strspn(s, " \t\r\n,[]");
        if (!*s)
            break;
        char *end;
        long id = strtol(s, &end, 10);
        if (end == s || id < 0 || id > INT32_MAX)
            return cli_fail("'%.20s': expected token ids", s);
        if (list->n == list->cap) {
            list->cap = list->cap ? 2 * list->cap : 256;
            list->ids = cli_realloc_array(list->ids, list->cap, sizeof *list->ids);
        }
        list->ids[list->n++] = (int32_t)id;
        s = end;
    }
    return EXIT_OK;
}

static int decode(const options *o, const rlx_tokenizer *t, const rlx_token_list *list)
{
    rlx_error err = {0};
    rlx_text out = {0};
    unsigned flags = o->no_special ? RLX_DECODE_SKIP_SPECIAL : 0;
    if (rlx_tokenizer_decode(t, list->ids, list->n, flags, &out, &err) != RLX_OK)
        return cli_error(&err);
    out.cap = out.n;
    out.data = cli_alloc(out.n + 1);
    rlx_tokenizer_decode(t, list->ids, list->n, flags, &out, &err);
    if (o->common.json) {
        json j = {.f = stdout};
        json_object(&j, NULL);
        json_text(&j, "text", out.data);
        json_end(&j);
    } else {
        term_write(stdout, out.data, out.n);
        putchar('\n');
    }
    free(out.data);
    return EXIT_OK;
}

static int decode_all(const options *o, const rlx_tokenizer *t)
{
    rlx_token_list list = {0};
    int status = EXIT_OK;
    size_t n;
    for (size_t i = 0; i < o->common.args.n && !status; i++)
        status = read_ids(o->common.args.v[i], &list);
    char *text = o->common.args.n ? NULL : input_read("-", &n);
    if (!text && !o->common.args.n)
        status = EXIT_FAILED;
    if (text && !o->lines)
        status = read_ids(text, &list);
    for (char *line = text && o->lines ? text : NULL; line && *line && !status;) {
        char *newline = strchr(line, '\n');
        if (newline)
            *newline = 0;
        list.n = 0;
        status = read_ids(line, &list);
        if (!status)
            status = decode(o, t, &list);
        line = newline ? newline + 1 : NULL;
    }
    if (!status && !o->lines)
        status = decode(o, t, &list);
    free(text);
    free(list.ids);
    return status;
}

static int run_tokenize(void *record)
{
    options *o = record;
    rlx_tokenizer *t;
    rlx_error err = {0};
    if (!o->model)
        o->model = cli_shift(&o->common);
    if (!o->model)
        return cli_usage("a model is needed: a file, or a name of 'rlx list'");
    char *path = cli_model_path(o->model);
    if (!path)
        return EXIT_FAILED;
    const rlx_status st = rlx_tokenizer_open(path, &t, &err);
    free(path);
    if (st != RLX_OK)
        return cli_error(&err);
    int status = o->decode ? decode_all(o, t) : encode_all(o, t);
    rlx_tokenizer_close(t);
    return status;
}

static const cli_option option_rows[] = {
    {"model", CLI_TEXT, offsetof(options, model), "MODEL",
     "a GGUF file, tokenizer.json, vocab.txt, a folder with one, or a name of 'rlx list'"},
    {"decode", CLI_FLAG, offsetof(options, decode), NULL, "ids to text"},
    {"no-special", CLI_FLAG, offsetof(options, no_special), NULL,
     "add no tokens around the text; with --decode, leave control tokens out"},
    {"plain", CLI_FLAG, offsetof(options, plain), NULL,
     "control tokens written in the text are text"},
    {"lines", CLI_FLAG, offsetof(options, lines), NULL,
     "each line of standard input on its own, one line of ids for each"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_tokenize = {
    .name = "tokenize",
    .args = "[MODEL] [TEXT...]",
    .summary = "text to token ids and back, with the tokenizer of a model",
    .run = run_tokenize,
    .options = option_rows,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_COMPUTE,
    .max_args = -1,
    .details = "Prints one token a line: its id and how the vocabulary writes it. Without TEXT\n"
               "the text (or, with --decode, the ids) comes from standard input. --json gives\n"
               "ids, tokens, and pieces: what each token stands for.",
    .examples = "  rlx tokenize --model model.gguf \"Hello there\"\n"
                "  rlx tokenize smollm2 --decode 504 3575 282\n"
                "  rlx tokenize --model . --json \"Hello there\"   a folder with tokenizer.json",
};
