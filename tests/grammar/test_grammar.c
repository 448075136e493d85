/* SPDX-License-Identifier: MIT */
/* Grammars: which texts are in the language of regular expressions, GBNF and JSON Schemas, what is
 * refused and with which words; masks against the answer for each token alone; forced bytes,
 * rollback, clones; hostile inputs that must end at a limit; no leak when memory runs out. */
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/tiny_model.h"

typedef rlx_status from_fn(const char *, size_t, const rlx_grammar_desc *, rlx_grammar **,
                           rlx_error *);

static rlx_error err;
static rlx_json_form form = RLX_JSON_READ;

static rlx_grammar *make(from_fn *from, const char *text)
{
    rlx_grammar *g = NULL;
    rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .form = form};
    if (!CHECK_OK(from(text, strlen(text), &d, &g, &err), &err))
        printf("    %s\n", text);
    return g;
}

/* Rows of a grammar, texts that are in its language and texts that are not, separated by \x01. */
typedef struct language {
    const char *grammar, *in, *out;
} language;

static void check_texts(rlx_grammar *g, const language *l, const char *texts, bool want)
{
    for (const char *s = texts; s;) {
        size_t n = strcspn(s, "\x01");
        bool got = !want;
        CHECK_OK(rlx_grammar_matches(g, s, n, &got, &err), &err);
        if (!CHECK(got == want))
            printf("    %s: '%.*s' is %s\n", l->grammar, (int)n, s, want ? "refused" : "taken");
        s = s[n] ? s + n + 1 : NULL;
    }
}

static void check_languages(from_fn *from, const language *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rlx_grammar *g = make(from, l[i].grammar);
        if (g && l[i].in)
            check_texts(g, &l[i], l[i].in, true);
        if (g && l[i].out)
            check_texts(g, &l[i], l[i].out, false);
        rlx_grammar_destroy(g);
    }
}

#define N_OF(a) (sizeof(a) / sizeof(a)[0])
#define AND "\x01"

static const language regexes[] = {
    {"abc", "abc", "" AND "ab" AND "abcd" AND "xabc"},
    {"a|bc|", "a" AND "bc" AND "", "b" AND "abc"},
    {"(?:ab){2,3}", "abab" AND "ababab", "ab" AND "abababab"},
    {"[a-c^-]+\\d?", "a-^" AND "b7", "7" AND "d"},
    {"[^a]", "b" AND "\xc3\xa9" AND "\xf0\x9f\x98\x80", "a" AND "" AND "bb" AND "\xc3" AND "\xff"},
    {".", "a" AND "\xe2\x82\xac", "\n" AND "\r" AND "\xe2\x80\xa8"},
    {"\\w\\W\\s\\S", "a- b" AND "_! x", "--  "},
    {"^a$|^b$", "a" AND "b", "ab"},
    {"(^a)b(c$)", "abc", "ab" AND "abcc"},
    {"x*?y+?", "y" AND "xxyy", "x"},
    {"\\u0041\\x42\\cJ\\u{43}\\uD83D\\uDE00", "AB\nC\xf0\x9f\x98\x80", "AB"},
    {"\\p{Lu}\\P{L}\\p{Nd}", "\xc3\x89-7", "e-7" AND "EE7"},
    {"[\\]\\-a]{0}b", "b", "]b"},
    {"a{,2}", "a{,2}", "aa"},
    {"(?<year>[0-9]{4})", "2024", "224"},
};

static const struct {
    const char *text;
    rlx_status status;
    const char *words;
} wrong_regexes[] = {
    {"(?=a)", RLX_UNSUPPORTED, "lookahead"}, {"(?!a)", RLX_UNSUPPORTED, "lookahead"},
    {"(?<=a)", RLX_UNSUPPORTED, "lookbehind"}, {"(a)\\1", RLX_UNSUPPORTED, "backreference"},
    {"a\\b", RLX_UNSUPPORTED, "boundary"}, {"(?i:a)", RLX_UNSUPPORTED, "flags"},
    {"(a", RLX_PARSE, "')'"}, {"a)", RLX_PARSE, "')'"}, {"[a", RLX_PARSE, "']'"},
    {"*a", RLX_PARSE, "repeat"}, {"[b-a]", RLX_PARSE, "order"}, {"a{3,2}", RLX_PARSE, "order"},
    {"\\", RLX_PARSE, "after"}, {"\\u12", RLX_PARSE, "four"}, {"\\p{Foo}", RLX_UNSUPPORTED, "Foo"},
    {"\xff", RLX_PARSE, "UTF-8"}, {"a^b", RLX_INVALID, "no text"}, {"[]", RLX_INVALID, "no text"},
    {"a{200000}", RLX_UNSUPPORTED, "100000"},
};

static const language gbnfs[] = {
    {"root ::= \"a\" [b-d]* # a comment\n", "a" AND "abcd", "" AND "ae"},
    {"root ::= item (\",\" item)*\nitem ::= [0-9]+ | \"(\" root \")\"\n",
     "1" AND "1,22" AND "(1,(2))", "()" AND "(1" AND "1,"},
    {"root ::= \"x\" root \"y\" | \"z\"\n", "z" AND "xzy" AND "xxzyy", "xz" AND "xxzy"},
    {"root ::= a{2,3} b? .\na ::= \"a\"\nb ::= \"b\"+\n", "aax" AND "aaabbb\n", "ax" AND "aa"},
    {"root ::= (\n  \"a\" |\n  \"b\"\n)\n  | \"c\"\n", "a" AND "b" AND "c", "d"},
    {"root ::= \"\\x41\\u00e9\\\"\\n\" [^\\]\\x00-\\x20]", "A\xc3\xa9\"\nq",
     "A\xc3\xa9\"\n]" AND "A\xc3\xa9\"\n "},
    {"root ::= list\nlist ::= \"-\" list | \"\"\n", "" AND "---", "-x"},
    {"root ::= [a] dead | \"b\"\ndead ::= \"c\" dead\n", "b", "ac" AND "a"},
};

static const struct {
    const char *text;
    rlx_status status;
    const char *words;
} wrong_gbnfs[] = {
    {"root ::= root \"a\" | \"b\"", RLX_UNSUPPORTED, "left recursive"},
    {"root ::= e root \"a\"\ne ::= \"\" | \"x\"", RLX_UNSUPPORTED, "left recursive"},
    {"a ::= \"b\"", RLX_PARSE, "root"}, {"root ::= b", RLX_PARSE, "'b'"},
    {"root = \"b\"", RLX_PARSE, "::="}, {"root ::= \"b", RLX_PARSE, "end of a text"},
    {"root ::= [b", RLX_PARSE, "class"}, {"root ::= (\"a\"", RLX_PARSE, "')'"},
    {"root ::= \"a\"{3,2}", RLX_PARSE, "order"}, {"root ::= <think>", RLX_UNSUPPORTED, "tokens"},
    {"root ::= \"a\" root", RLX_INVALID, "comes to an end"}, {"", RLX_PARSE, "root"},
    {"root ::= \"\\q\"", RLX_PARSE, "escape"},
};

static const language schemas[] = {
    {"true", "1" AND " {\"a\": [null, true, \"x\"]} " AND "-1.5e+3", "01" AND "[1,]" AND "tru"},
    {"{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":12}",
     "-3" AND "0" AND "11" AND "11.0" AND "-0", "-4" AND "12" AND "1.5" AND "11.5" AND "1e1"},
    {"{\"minimum\":1.25,\"maximum\":10.5}", "1.25" AND "1.250" AND "10.50" AND "7" AND "\"x\"",
     "1.2499" AND "1" AND "10.51" AND "11" AND "-5"},
    {"{\"type\":\"number\",\"multipleOf\":0.25}", "0.5" AND "-3.75" AND "2" AND "1.250",
     "0.3" AND "1.255"},
    {"{\"type\":\"string\",\"pattern\":\"^a\",\"minLength\":2,\"maxLength\":3}",
     "\"ab\"" AND "\"\\u0061\\n\"" AND "\"a\\ud83d\\ude00c\"", "\"a\"" AND "\"ba\"" AND "\"abcd\""},
    {"{\"const\":{\"b\":[1,\"\\u00e9\"]}}",
     "{\"b\":[1.0,\"\\u00e9\"]}" AND "{\"b\":[1,\"\xc3\xa9\"]}",
     "{\"b\":[1]}" AND "{}" AND "{\"b\":[1,\"e\"],\"c\":1}"},
    {"{\"properties\":{\"a\":{\"type\":\"null\"},\"b\":true},\"required\":[\"b\"],"
     "\"additionalProperties\":false}",
     "{\"b\":1}" AND "{\"b\":1,\"a\":null}" AND "{\"a\":null,\"b\":0}" AND "[]",
     "{}" AND "{\"a\":null}" AND "{\"a\":1,\"b\":1}" AND "{\"b\":1,\"c\":1}" AND
     "{\"b\":1,\"b\":2}"},
    {"{\"type\":\"object\",\"patternProperties\":{\"^x\":{\"type\":\"number\"}},"
     "\"propertyNames\":{\"maxLength\":3},\"maxProperties\":2}",
     "{\"xa\":1,\"b\":\"c\"}", "{\"xa\":\"1\"}" AND "{\"abcd\":1}" AND "{\"a\":1,\"b\":2,\"c\":3}"},
    {"{\"not\":{\"required\":[\"a\"],\"properties\":{\"a\":{\"type\":\"string\"}}}}",
     "{}" AND "{\"a\":1}" AND "{\"b\":\"x\"}", "{\"a\":\"x\"}" AND "1"},
    /* what both branches allow is refused, also where a member almost tells them apart */
    {"{\"oneOf\":[{\"type\":\"object\",\"properties\":{\"t\":{\"enum\":[\"a\",\"b\"]}},"
     "\"required\":[\"t\"]},{\"properties\":{\"t\":{\"enum\":[\"b\",\"c\"]}},"
     "\"required\":[\"t\"],\"type\":\"object\"}]}",
     "{\"t\":\"a\"}" AND "{\"t\":\"c\"}", "{\"t\":\"b\"}" AND "{}" AND "[]" AND "{\"t\":\"d\"}"},
    {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}},\"type\":\"object\"},"
     "{\"properties\":{\"t\":{\"const\":2}},\"required\":[\"t\"],\"type\":\"object\"},"
     "{\"type\":\"array\"}]}",
     "{\"t\":1}" AND "{\"t\":2}" AND "{}" AND "[{}]", "{\"t\":3}" AND "1"},
    {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},"
     "{\"properties\":{\"t\":{\"const\":1.0}},\"required\":[\"t\"]},{\"properties\":{\"t\":{"
     "\"const\":2}},\"required\":[\"t\"]}],\"type\":\"object\"}",
     "{\"t\":2}", "{\"t\":1}" AND "{}"},
    {"{\"oneOf\":[{\"properties\":{\"t\":{\"const\":1}},\"required\":[\"t\"]},"
     "{\"properties\":{\"t\":{\"const\":2}},\"required\":[\"t\"]}]}",
     "{\"t\":1}" AND "{\"t\":2}", "{\"t\":3}" AND "1" AND "[]" AND "{}"},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"definitions\":{\"o\":{"
     "\"type\":\"object\"}},\"oneOf\":[{\"$ref\":\"#/definitions/o\",\"required\":[\"t\"],"
     "\"properties\":{\"t\":{\"const\":1}}},{\"required\":[\"t\"],\"properties\":{\"t\":{"
     "\"const\":2}}}]}", "{\"t\":1}" AND "{\"t\":3}" AND "\"x\"" AND "{}", "{\"t\":2}"},
    {"{\"oneOf\":[{\"multipleOf\":3},{\"multipleOf\":5}],\"type\":\"integer\"}",
     "3" AND "5" AND "-9", "15" AND "0" AND "7"},
    {"{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},"
     "\"then\":{\"required\":[\"v\"]},\"else\":{\"maxProperties\":1}}",
     "{\"k\":1,\"v\":2,\"w\":3}" AND "{\"k\":2}" AND "7", "{\"k\":1}" AND "{\"k\":2,\"v\":1}"},
    {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"integer\"},"
     "\"contains\":{\"type\":\"integer\",\"minimum\":10},\"minContains\":2,\"maxItems\":4}",
     "[\"a\",10,1,20]", "[10,20]" AND "[\"a\",10]" AND "[\"a\",10,20,30,40]" AND "[1,10]"},
    {"{\"$ref\":\"#/$defs/tree\",\"$defs\":{\"tree\":{\"type\":\"array\",\"items\":"
     "{\"$ref\":\"#/$defs/tree\"}}}}", "[[],[[]]]", "[1]" AND "[[]"},
    {"{\"allOf\":[{\"properties\":{\"a\":true}},{\"anyOf\":[{\"properties\":{\"b\":{\"const\":1}},"
     "\"required\":[\"b\"]},true]}],\"unevaluatedProperties\":false}",
     "{\"a\":1,\"b\":1}" AND "{\"a\":1}", "{\"b\":2}" AND "{\"c\":1}"},
    {"{\"dependentRequired\":{\"a\":[\"b\"]},\"dependentSchemas\":{\"b\":{\"minProperties\":2}}}",
     "{\"c\":1}" AND "{\"a\":1,\"b\":2}", "{\"a\":1}" AND "{\"b\":1}"},
    {"{\"$schema\":\"http://json-schema.org/draft-07/schema#\",\"items\":[{\"type\":\"string\"}],"
     "\"additionalItems\":false}", "[\"a\"]" AND "[]", "[1]" AND "[\"a\",1]"},
};

static const struct {
    const char *text;
    rlx_status status;
    const char *words;
} wrong_schemas[] = {
    {"{", RLX_PARSE, "JSON Schema"}, {"[]", RLX_PARSE, "object or a boolean"},
    {"false", RLX_INVALID, "no instance"}, {"{\"type\":\"strin\"}", RLX_PARSE, "type"},
    {"{\"type\":\"string\",\"minLength\":3,\"maxLength\":2}", RLX_INVALID, "no instance"},
    {"{\"$dynamicRef\":\"#a\"}", RLX_UNSUPPORTED, "$dynamicRef"},
    {"{\"$ref\":\"http://example.com/x\"}", RLX_UNSUPPORTED, "leaves the document"},
    {"{\"$ref\":\"#/nowhere\"}", RLX_PARSE, "nowhere"},
    {"{\"$ref\":\"#\"}", RLX_UNSUPPORTED, "back to itself"},
    {"{\"pattern\":\"(?=a)\"}", RLX_UNSUPPORTED, "lookahead"},
    {"{\"$schema\":\"http://json-schema.org/draft-04/schema#\"}", RLX_UNSUPPORTED, "draft"},
    {"{\"required\":[1]}", RLX_PARSE, "required"}, {"{\"allOf\":[]}", RLX_PARSE, "allOf"},
    {"{\"minimum\":\"1\"}", RLX_PARSE, "minimum"}, {"{\"multipleOf\":0}", RLX_PARSE, "multipleOf"},
    {"{\"type\":\"object\",\"required\":[\"a\"],\"properties\":{\"a\":{\"$ref\":\"#\"}}}",
     RLX_INVALID, "no instance"},
};

static void check_refused(from_fn *from, const char *text, rlx_status status, const char *words)
{
    rlx_grammar *g = (rlx_grammar *)&err;
    memset(&err, 0, sizeof err);
    rlx_status st = from(text, strlen(text), NULL, &g, &err);
    if (!CHECK(st == status && g == NULL && strstr(err.text, words)))
        printf("    '%s': expected %s with '%s', got %s: %s\n", text, rlx_status_name(status),
               words, rlx_status_name(st), err.text);
}

static void test_front_ends(void)
{
    check_languages(rlx_grammar_from_regex, regexes, N_OF(regexes));
    check_languages(rlx_grammar_from_gbnf, gbnfs, N_OF(gbnfs));
    check_languages(rlx_grammar_from_json_schema, schemas, N_OF(schemas));
    for (size_t i = 0; i < N_OF(wrong_regexes); i++)
        check_refused(rlx_grammar_from_regex, wrong_regexes[i].text, wrong_regexes[i].status,
                      wrong_regexes[i].words);
    for (size_t i = 0; i < N_OF(wrong_gbnfs); i++)
        check_refused(rlx_grammar_from_gbnf, wrong_gbnfs[i].text, wrong_gbnfs[i].status,
                      wrong_gbnfs[i].words);
    for (size_t i = 0; i < N_OF(wrong_schemas); i++)
        check_refused(rlx_grammar_from_json_schema, wrong_schemas[i].text, wrong_schemas[i].status,
                      wrong_schemas[i].words);
}

/* ---- The form that models write -------------------------------------------------------------- */

static void test_forms(void)
{
    static const char schema[] =
        "{\"type\":\"object\",\"properties\":{\"b\":{\"type\":\"integer\"},"
        "\"a\":{\"type\":\"string\",\"format\":\"date\"}},\"required\":[\"b\"],"
        "\"additionalProperties\":{\"type\":\"null\"}}";
    static const language ordered = {
        schema, "{\"b\":1}" AND "{\"b\": 1, \"a\":\"2024-02-29\", \"z\":null}" AND "{\n  \"b\":1}",
        "{\"a\":\"2024-02-29\",\"b\":1}" AND "{\"b\":1.0}" AND "{\"b\":1,\"a\":\"2023-02-29\"}" AND
        "{\"b\":   1}" AND "{\"z\":null,\"b\":1}" AND " {\"b\":1}"};
    static const language compact = {schema, "{\"b\":1,\"a\":\"2024-02-28\"}", "{\"b\": 1}"};
    /* Spellings that are not written are no other values. */
    static const language numbers[] = {
        {"{\"not\":{\"anyOf\":[{\"const\":1},{\"type\":\"integer\",\"minimum\":7},"
         "{\"const\":0}]}}",
         "2" AND "1.5" AND "-3", "1" AND "1.0" AND "7" AND "7.0" AND "-0" AND "0.0"},
        {"{\"anyOf\":[{\"type\":\"integer\"},{\"type\":\"number\"},{\"const\":7}]}",
         "2e5" AND "7E-1" AND "-1.5e+3" AND "7", "e5" AND "2e" AND "01"},
        {"{\"if\":{\"const\":3},\"then\":{\"type\":\"number\"},\"else\":{\"type\":\"number\"}}",
         "3e1" AND "3", "\"3\"" AND "3e"},
        {"{\"enum\":[0,12.5]}", "0" AND "12.5", "0.0" AND "-0" AND "12.50"},
        {"{\"type\":\"integer\",\"minimum\":0}", "0" AND "10", "-0" AND "1.0"}};
    static const language strings = {
        "{\"type\":\"string\"}", "\"a\\n\\\"\\\\\\u0001/\xc3\xa9\"",
        "\"\\u0041\"" AND "\"\\/\"" AND "\"\\u000a\"" AND "\"\x01\"" AND "\"\\u00e9\""};
    form = RLX_JSON_WRITE;
    check_languages(rlx_grammar_from_json_schema, &strings, 1);
    check_languages(rlx_grammar_from_json_schema, numbers, N_OF(numbers));
    check_languages(rlx_grammar_from_json_schema, &ordered, 1);
    form = RLX_JSON_COMPACT;
    check_languages(rlx_grammar_from_json_schema, &compact, 1);
    form = RLX_JSON_READ;
}

/* ---- Masks ----------------------------------------------------------------------------------- */

static rlx_tokenizer *tokenizer;
static rlx_vocabulary *vocabulary;
static uint64_t random_state = 7;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % n;
}

static bool has_bit(const uint32_t *bits, int32_t token)
{
    return bits[token / 32] >> (token % 32) & 1;
}

/* The mask says of each token what the state says of it alone. */
static size_t check_mask(rlx_grammar_state *s, uint32_t *bits, size_t words)
{
    size_t n = 0, wrong = 0;
    const int32_t n_tokens = rlx_tokenizer_n_tokens(tokenizer);
    CHECK_OK(rlx_grammar_mask(s, bits, words, &err), &err);
    for (int32_t t = 0; t < n_tokens; t++) {
        n += has_bit(bits, t);
        wrong += has_bit(bits, t) != rlx_grammar_allows(s, t);
    }
    CHECK(wrong == 0);
    CHECK(n > 0);
    return n;
}

/* Walks at random by masks; what comes to an end must match. */
static void random_walk(rlx_grammar *g, unsigned steps)
{
    rlx_grammar_state *s;
    char text[4096];
    size_t length = 0, words = rlx_vocabulary_mask_words(vocabulary);
    uint32_t *bits = malloc(words * sizeof *bits);
    bool over = false, matches = false;
    CHECK_OK(rlx_grammar_state_create(g, vocabulary, &s, &err), &err);
    for (unsigned i = 0; i < steps && !over; i++) {
        size_t n = check_mask(s, bits, words);
        uint32_t which = random_below((uint32_t)n);
        int32_t token = 0;
        for (; !has_bit(bits, token) || which--; token++)
            ;
        over = rlx_tokenizer_is_end(tokenizer, token);
        CHECK(!over || rlx_grammar_is_complete(s));
        CHECK_OK(rlx_grammar_accept(s, token, &err), &err);
        const int32_t both[] = {rlx_token_find(tokenizer, "a", 1), token};
        rlx_text out = {text + length, sizeof text - length, 0};
        if (!over && rlx_tokenizer_decode(tokenizer, both, 2, 0, &out, &err) == RLX_OK) {
            memmove(text + length, text + length + 1, out.n - 1); /* the "a" before it */
            length += out.n - 1;
        }
    }
    bool complete = rlx_grammar_is_complete(s);
    CHECK_OK(rlx_grammar_matches(g, text, length, &matches, &err), &err);
    if (!CHECK(matches == complete))
        printf("    '%.*s' is %s\n", (int)length, text, complete ? "complete" : "open");
    rlx_grammar_state_destroy(s);
    free(bits);
}

static void test_masks(void)
{
    static const char *const texts[] = {
        "{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":20},"
        "\"n\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":250}},\"required\":[\"n\"]}",
        "{\"type\":\"array\",\"items\":{\"enum\":[\"once\",\"upon\",true,null,12.5]},"
        "\"minItems\":2}",
        "{\"type\":\"string\",\"pattern\":\"^(the|a) [a-z]+\\\\.$\"}", "true"};
    for (size_t i = 0; i < N_OF(texts); i++)
        for (form = RLX_JSON_WRITE; form <= RLX_JSON_READ; form++) {
            rlx_grammar *g = make(rlx_grammar_from_json_schema, texts[i]);
            for (int k = 0; k < 4; k++)
                random_walk(g, 12);
            rlx_grammar_destroy(g);
        }
    form = RLX_JSON_READ;
    rlx_grammar *g = make(rlx_grammar_from_gbnf, "root ::= \"x\" root \"y\" | [^\\n]{2,5}");
    for (int k = 0; k < 4; k++)
        random_walk(g, 10);
    rlx_grammar_destroy(g);
}

static void test_states(void)
{
    rlx_grammar *g = make(rlx_grammar_from_regex, "(?:abc|abd)[xy]*");
    rlx_grammar_state *s, *other;
    char bytes[8];
    size_t n;
    CHECK_OK(rlx_grammar_state_create(g, NULL, &s, &err), &err);
    CHECK_OK(rlx_grammar_forced_bytes(s, bytes, sizeof bytes, &n, &err), &err);
    CHECK(n == 2 && !memcmp(bytes, "ab", 2));
    CHECK_OK(rlx_grammar_accept_bytes(s, "ab", 2, &err), &err);
    CHECK_OK(rlx_grammar_state_clone(s, &other, &err), &err);
    CHECK_OK(rlx_grammar_accept_bytes(s, "c", 1, &err), &err);
    CHECK(rlx_grammar_is_complete(s) && !rlx_grammar_is_over(s));
    CHECK(!rlx_grammar_is_complete(other));
    CHECK(rlx_grammar_accept_bytes(s, "z", 1, &err) == RLX_INVALID);
    CHECK_OK(rlx_grammar_accept_bytes(s, "x", 1, &err), &err);
    CHECK_OK(rlx_grammar_rollback(s, 2, &err), &err);
    CHECK_OK(rlx_grammar_accept_bytes(s, "d", 1, &err), &err);
    CHECK(rlx_grammar_rollback(s, 3, &err) == RLX_INVALID);
    CHECK_OK(rlx_grammar_rollback(other, 1, &err), &err);
    CHECK_OK(rlx_grammar_accept_bytes(other, "abd", 3, &err), &err);
    CHECK_OK(rlx_grammar_state_reset(s, &err), &err);
    CHECK_OK(rlx_grammar_accept_bytes(s, "ab", 2, &err), &err);
    CHECK(rlx_grammar_mask(s, (uint32_t *)bytes, 1, &err) == RLX_INVALID);
    rlx_grammar_state_destroy(other);
    rlx_grammar_state_destroy(s);
    rlx_grammar_destroy(g);
}

static void test_forced_tokens(void)
{
    rlx_grammar *g = make(rlx_grammar_from_regex, "once upon a time");
    rlx_grammar_state *s;
    int32_t tokens[32];
    size_t n, total = 0;
    CHECK_OK(rlx_grammar_state_create(g, vocabulary, &s, &err), &err);
    CHECK_OK(rlx_grammar_forced(s, tokens, 32, &n, &err), &err);
    CHECK(n > 0);
    for (size_t i = 0; i < n; i++)
        CHECK_OK(rlx_grammar_accept(s, tokens[i], &err), &err), total++;
    CHECK(rlx_grammar_is_over(s));
    CHECK_OK(rlx_grammar_rollback(s, total, &err), &err);
    CHECK(!rlx_grammar_is_complete(s));
    rlx_grammar_state_destroy(s);
    rlx_grammar_destroy(g);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* A long text through a small memory: states that nobody stands in are forgotten. */
static void test_collect(void)
{
    rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .max_bytes = 4 << 20};
    rlx_grammar *g;
    rlx_grammar_state *s;
    size_t steps = 0;
    static const char text[] = "root ::= \"[\" root \"]\" | \"x\"";
    CHECK_OK(rlx_grammar_from_gbnf(text, strlen(text), &d, &g, &err), &err);
    CHECK_OK(rlx_grammar_state_create(g, NULL, &s, &err), &err);
    for (; steps < 3000; steps++) /* each depth is a state */
        if (rlx_grammar_accept_bytes(s, "[", 1, &err) != RLX_OK)
            break;
    CHECK(steps == 3000);
    CHECK_OK(rlx_grammar_accept_bytes(s, "x", 1, &err), &err);
    for (size_t i = 0; i < 3000; i++)
        CHECK_OK(rlx_grammar_accept_bytes(s, "]", 1, &err), &err);
    CHECK(rlx_grammar_is_over(s));
    rlx_grammar_state_destroy(s);
    rlx_grammar_destroy(g);
}

/* A union of many objects told apart by a member costs no more than its branches. */
static void test_unions(void)
{
    char text[4000] = "{\"$defs\":{\"n\":{\"type\":\"integer\"}},\"oneOf\":[", one[200];
    for (int i = 0; i < 20; i++) {
        snprintf(one, sizeof one, "%s{\"type\":\"object\",\"properties\":{\"kind\":{\"const\":"
                 "\"k%d\"},\"v%d\":{\"$ref\":\"#/$defs/n\"}},\"required\":[\"kind\",\"v%d\"],"
                 "\"additionalProperties\":false}", i ? "," : "", i, i, i);
        strcat(text, one);
    }
    strcat(text, "]}");
    const language l = {text, NULL, NULL};
    rlx_grammar *g = make(rlx_grammar_from_json_schema, text);
    if (!g)
        return;
    check_texts(g, &l, "{\"kind\":\"k3\",\"v3\":5}" AND "{\"v19\":0,\"kind\":\"k19\"}", true);
    check_texts(g, &l, "{\"kind\":\"k3\",\"v4\":5}" AND "{\"kind\":\"k20\",\"v20\":5}" AND
                "{\"kind\":\"k3\"}" AND "{}" AND "5", false);
    rlx_grammar_destroy(g);
}

/* Whether an enum has a string, in so much work that no step can look at all of its strings. */
static void check_enum(rlx_grammar *g, const char *string, bool want)
{
    char text[300];
    bool got = !want;
    snprintf(text, sizeof text, "\"%s\"", string);
    CHECK_OK(rlx_grammar_matches(g, text, strlen(text), &got, &err), &err);
    if (!CHECK(got == want))
        printf("    %s is %s\n", text, want ? "refused" : "taken");
}

/* Thousands of strings, some of which are the beginnings of others. */
static void test_enum(void)
{
    const rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .max_work = 3000};
    char *text = malloc(200000), run[201] = "", name[40];
    rlx_grammar *g = NULL;
    if (!CHECK(text != NULL))
        return;
    size_t n = (size_t)sprintf(text, "{\"enum\":[\"\\u00e9\\u00e8\",\"\\u00e9\\u00ea\",1");
    for (int i = 0; i < 4096; i++)
        n += (size_t)sprintf(text + n, ",\"value %d\"", i);
    for (size_t i = 0; i < 200; i += 2) {
        memset(run, 'a', i + 1);
        n += (size_t)sprintf(text + n, ",\"%s\"", run);
    }
    n += (size_t)sprintf(text + n, ",\"\",\"value 7\"]}");
    if (CHECK_OK(rlx_grammar_from_json_schema(text, n, &d, &g, &err), &err)) {
        for (int i = 4000; i < 4200; i++) {
            snprintf(name, sizeof name, "value %d", i);
            check_enum(g, name, i < 4096);
        }
        for (size_t i = 0; i < 200; i++) {
            memset(run, 'a', i + 1);
            run[i + 1] = 0;
            check_enum(g, run, i % 2 == 0);
        }
        check_enum(g, "\xc3\xa9\xc3\xa8", true);
        check_enum(g, "\xc3\xa9\xc3\xab", false);
        check_enum(g, "\xc3\xa9", false);
        check_enum(g, "", true);
        check_enum(g, "value ", false);
    }
    rlx_grammar_destroy(g);
    free(text);
}

/* Ends with a status: compiled or not, matched or not, but soon. */
static void try_hostile(from_fn *from, const char *text)
{
    rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .max_bytes = 32 << 20, .max_work = 1 << 18,
                          .form = RLX_JSON_READ};
    rlx_grammar *g = NULL;
    bool matches;
    rlx_status st = from(text, strlen(text), &d, &g, &err);
    CHECK(st == RLX_OK || st == RLX_UNSUPPORTED || st == RLX_NO_MEMORY || st == RLX_INVALID ||
          st == RLX_PARSE);
    if (st == RLX_OK) {
        st = rlx_grammar_matches(g, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 40, &matches, &err);
        CHECK(st == RLX_OK || st == RLX_UNSUPPORTED || st == RLX_NO_MEMORY);
    }
    rlx_grammar_destroy(g);
}

static void test_hostile(void)
{
    char deep[4000];
    try_hostile(rlx_grammar_from_regex, "(((((a{0,999}){0,999}){0,999}){0,999}){0,999})");
    try_hostile(rlx_grammar_from_regex, "(a|aa|aaa|b)*a[ab]{50}b[ab]{50}a(a?){500}a{500}");
    try_hostile(rlx_grammar_from_regex, "[ab]*a[ab]{24}");
    memset(deep, '(', sizeof deep - 1);
    deep[sizeof deep - 1] = 0;
    try_hostile(rlx_grammar_from_regex, deep);
    try_hostile(rlx_grammar_from_gbnf, deep);
    try_hostile(rlx_grammar_from_gbnf, "root ::= (((\"a\"{2000}){2000}){2000}){2000}");
    try_hostile(rlx_grammar_from_gbnf, "root ::= a a\na ::= b b\nb ::= c{500} | a2\n"
                                       "a2 ::= \"(\" a2 \")\"{1000} | \"\"\nc ::= a2{900}");
    try_hostile(rlx_grammar_from_gbnf, "root ::= ((\"a\"*)*)* root2\nroot2 ::= \"\" | (root2x)*\n"
                                       "root2x ::= \"a\" root2x?");
    try_hostile(rlx_grammar_from_json_schema,
                "{\"not\":{\"anyOf\":[{\"oneOf\":[{\"not\":{\"$ref\":\"#/$defs/a\"}},"
                "{\"$ref\":\"#/$defs/a\"}]}]},\"$defs\":{\"a\":{\"oneOf\":[{\"required\":[\"x\"]},"
                "{\"required\":[\"y\"]},{\"not\":{\"required\":[\"z\"]}},{\"properties\":{\"q\":"
                "{\"$ref\":\"#/$defs/a\"}}},{\"properties\":{\"r\":{\"not\":{\"$ref\":\"#\"}}}}"
                "]}}}");
    try_hostile(rlx_grammar_from_json_schema,
                "{\"allOf\":[{\"$ref\":\"#/$defs/a\"}],\"$defs\":{\"a\":{\"anyOf\":[{\"$ref\":"
                "\"#/$defs/b\"},{\"$ref\":\"#/$defs/b\"}]},\"b\":{\"anyOf\":[{\"$ref\":"
                "\"#/$defs/a\"},{\"$ref\":\"#/$defs/a\"}]}}}");
    try_hostile(rlx_grammar_from_json_schema, "{\"multipleOf\":199999,\"minimum\":3.5,"
                                              "\"maximum\":123456789012345678901234567890}");
    try_hostile(rlx_grammar_from_json_schema, "{\"minLength\":4000000000,\"pattern\":\"a.*b.*c\"}");
}

/* A grammar of n terms takes memory and time of n, not of its square. */
static void check_long(from_fn *from, const char *before, const char *term, size_t n,
                       const char *between, const char *after)
{
    const rlx_grammar_desc d = {RLX_INIT(rlx_grammar_desc), .max_bytes = 48 << 20};
    char *text = malloc(n * 16 + 64), *end = text;
    rlx_grammar *g = NULL;
    end += sprintf(end, "%s", before);
    for (size_t i = 0; i < n; i++) {
        end += sprintf(end, "%s", i ? between : "");
        end += sprintf(end, term, (int)(i * 7919 % 99991));
    }
    end += sprintf(end, "%s", after);
    CHECK_OK(from(text, (size_t)(end - text), &d, &g, &err), &err);
    rlx_grammar_destroy(g);
    free(text);
}

static void test_long(void)
{
    check_long(rlx_grammar_from_regex, "", "%05d", 20000, "", "");
    check_long(rlx_grammar_from_regex, "", "%05d", 20000, "|", "");
    check_long(rlx_grammar_from_regex, "^(", "(%d)", 2000, "", ")$");
    check_long(rlx_grammar_from_gbnf, "root ::= \"", "%05d", 20000, "", "\"");
    check_long(rlx_grammar_from_gbnf, "root ::= ", "\"%05d\"", 20000, " ", "");
    check_long(rlx_grammar_from_gbnf, "root ::= ", "\"%05d\"", 20000, " | ", "");
    check_long(rlx_grammar_from_json_schema, "{\"enum\": [", "%d", 20000, ", ", "]}");
    check_long(rlx_grammar_from_json_schema, "{\"const\": \"", "%d", 20000, "", "\"}");
}

/* ---- Running out of memory ------------------------------------------------------------------- */

static void test_no_memory(void)
{
    static const struct { from_fn *from; const char *text; } all[] = {
        {rlx_grammar_from_regex, "(^a)[b-d]+\\d{2,3}"},
        {rlx_grammar_from_gbnf, "root ::= \"(\" root \")\" | [a-c]{2}\n"},
        {rlx_grammar_from_json_schema,
         "{\"type\":[\"object\",\"array\"],\"properties\":{\"a\":{\"pattern\":\"x\"}},"
         "\"not\":{\"required\":[\"b\"]},\"anyOf\":[{\"minProperties\":1},{\"items\":{\"$ref\":"
         "\"#\"}}]}"}};
    for (size_t i = 0; i < N_OF(all); i++) {
        rlx_set_allocator(&counting);
        rlx_status st = RLX_NO_MEMORY;
        for (long at = 1; st != RLX_OK && at < 5000; at++) {
            rlx_grammar *g = NULL;
            bool matches = false;
            memory_fail(at, true);
            st = all[i].from(all[i].text, strlen(all[i].text), NULL, &g, &err);
            if (st == RLX_OK)
                st = rlx_grammar_matches(g, "((ab))", 6, &matches, &err);
            if (!CHECK(st == RLX_OK || st == RLX_NO_MEMORY))
                printf("    allocation %ld of '%s': %s\n", at, all[i].text, err.text);
            rlx_grammar_destroy(g);
            CHECK(memory_live() == 0);
        }
        CHECK(st == RLX_OK);
        memory_fail(0, false);
        rlx_set_allocator(NULL);
    }
}

static rlx_tokenizer *open_tokenizer(void)
{
    char path[1024];
    const char *root = getenv("RLX_SOURCE_DIR");
    rlx_tokenizer *t = NULL;
    snprintf(path, sizeof path, "%.500s/models/tiny-stories.gguf", root ? root : ".");
    CHECK_OK(rlx_tokenizer_open(path, &t, &err), &err);
    return t;
}

int main(void)
{
    test_front_ends();
    test_forms();
    test_states();
    test_collect();
    test_unions();
    test_enum();
    test_hostile();
    test_long();
    test_no_memory();
    tokenizer = open_tokenizer();
    if (tokenizer && CHECK_OK(rlx_vocabulary_create(tokenizer, &vocabulary, &err), &err)) {
        test_masks();
        test_forced_tokens();
    }
    rlx_vocabulary_destroy(vocabulary);
    rlx_tokenizer_close(tokenizer);
    return check_done();
}
