/* SPDX-License-Identifier: MIT */
/* Tests of chat templates without other programs: pieces of the language with the text they give,
 * errors with their sentence and line, bounds against hostile templates, memory that runs out. With
 * `render TEMPLATE VARIABLES.json` it prints what a template gives, for test_template_jinja.py. */
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "check.h"
#include "import/json.h"
#include "model/template.h"
#include "support/memory.h"

#define NOW 1700000000 /* 2023-11-14 22:13:20 UTC */

static rlx_error err;

/* Renders with variables as JSON text; *out is freed with rx_free. */
static rlx_status render(const char *text, size_t n, const char *variables, char **out)
{
    rx_arena arena = {0};
    const rx_json *json = NULL;
    rx_chat_template *t = NULL;
    size_t length;
    *out = NULL;
    rlx_status st = rx_json_parse(&arena, "variables", variables, strlen(variables), &json, &err);
    if (st == RLX_OK)
        st = rx_template_parse(text, n, &t, &err);
    if (st == RLX_OK)
        st = rx_template_render(t, json, NOW, out, &length, &err);
    rx_template_free(t);
    rx_arena_finish(&arena);
    return st;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \" Be terse. \"},"
    " {\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yo\"}],"
    " \"n\": 3, \"x\": 2.5, \"none\": null, \"yes\": true, \"word\": \"stra\\u00dfe\","
    " \"d\": {\"b\": 1, \"a\": [1, 2, {\"k\": \"v\"}]}, \"empty\": []}";

static const struct {
    const char *text, *want;
} pieces[] = {
    {"", ""},
    {"a\n", "a"},
    {"{{ n + 1 }}{{ n / 2 }} {{ n // 2 }} {{ -n % 2 }} {{ n ** 2 }} {{ x * 2 }}", "41.5 1 1 9 5.0"},
    {"{% if n > 2 and not none %}\nyes\n{% endif %}\nend", "yes\nend"},
    {"  {%- if yes %} a {%- endif %}  b", " a  b"},
    {"a\n  {% set q = 1 %}\nb{{ q }}", "a\nb1"},
    {"a {#- gone -#} b", "ab"},
    {"{% for m in messages %}{{ loop.index }}{{ m.role[0] }}{{ ',' if not loop.last }}{% endfor %}",
     "1s,2u,3a"},
    {"{% for m in messages if m.role != 'user' %}{{ m['role'] }}/{{ loop.length }} {% else %}-"
     "{% endfor %}", "system/2 assistant/2 "},
    {"{% for i in empty %}x{% else %}nothing{% endfor %}", "nothing"},
    {"{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i > 4 %}{% break %}"
     "{% endif %}{{ i }}{% endfor %}", "0134"},
    {"{% set ns = namespace(n=0) %}{% for i in range(1, 10, 3) %}{% set ns.n = ns.n + i %}"
     "{% endfor %}{{ ns.n }}", "12"},
    {"{% set a = 1 %}{% for i in range(2) %}{% set a = 5 %}{% endfor %}{{ a }}", "1"},
    {"{% macro m(a, b='z') %}<{{ a }}{{ b }}>{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}",
     "<1z><32>"},
    {"{% macro m() %}[{{ caller('c') }}]{% endmacro %}{% call(x) m() %}{{ x }}!{% endcall %}",
     "[c!]"},
    {"{% set t %}a{{ n }}{% endset %}{{ t | upper }}", "A3"},
    {"{% filter upper | trim %} ab {% endfilter %}", "AB"},
    {"{% raw %}{{ x }}{% endraw %}", "{{ x }}"},
    {"{{ messages[0]['content'] | trim }}{{ messages[-1].content }}{{ messages[1:]|length }}",
     "Be terse.Yo2"},
    {"{{ 'abcdef'[1:4] }}{{ 'abc'[::-1] }}{{ [1,2,3][:-1] }}", "bcdcba[1, 2]"},
    {"{{ d | tojson }}", "{\"b\": 1, \"a\": [1, 2, {\"k\": \"v\"}]}"},
    {"{{ d.a | tojson(indent=2) }}", "[\n  1,\n  2,\n  {\n    \"k\": \"v\"\n  }\n]"},
    {"{{ word | upper }}{{ word | length }}{{ word | tojson }}", "STRASSE6\"stra\xc3\x9f"
     "e\""},
    {"{{ missing }}{{ missing is defined }}{{ missing | default('m') }}{{ none is none }}",
     "FalsemTrue"},
    {"{{ 'a' in 'cat' }}{{ 'k' not in d }}{{ 2 in [1, 2] }}{{ 1 < n <= 3 }}", "TrueTrueTrueTrue"},
    {"{{ 'a-b-c'.split('-') | join('+') }}{{ ' x '.strip() }}{{ 'ab'.startswith('a') }}",
     "a+b+cxTrue"},
    {"{{ [3, 1, 2] | sort | join }}{{ ['b', 'A'] | sort }}{{ [1, 1, 2] | unique | list }}",
     "123['A', 'b'][1, 2]"},
    {"{{ messages | map(attribute='role') | join(',') }}", "system,user,assistant"},
    {"{{ (messages | selectattr('role', 'equalto', 'user') | first).content }}", "Hi"},
    {"{{ messages | rejectattr('role', 'in', ['user', 'system']) | list | length }}", "1"},
    {"{% for k, v in d | dictsort %}{{ k }}{{ v | length if v is iterable else v }}{% endfor %}",
     "a3b1"},
    {"{% for k, v in d.items() %}{{ k }}{% endfor %}{{ d.get('zz', 7) }}", "ba7"},
    {"{{ \"it's\" ~ 1 ~ none ~ 1.0 }}{{ '\\n\\u00e9\\x41' }}{{ 'a' 'b' }}",
     "it's1None1.0\n\xc3\xa9" "Aab"},
    {"{{ 1e16 }} {{ 0.1 }} {{ 1e-5 }} {{ 100.0 }} {{ 3.0 * 1.1 }}", "1e+16 0.1 1e-05 100.0 "
     "3.3000000000000003"},
    {"{{ strftime_now('%Y-%m') }}", "2023-11"},
    {"{{ '%s is %d' % ('a', 3) }}{{ '{} {}'.format(1, 'b') }}", "a is 31 b"},
    {"{{ 'x' if false }}{{ 'y' if n else 'z' }}{{ (1, 2) }}{{ {'a': none} }}",
     "y(1, 2){'a': None}"},
    {"{% generation %}g{% endgeneration %}{% set a, b = 1, 2 %}{{ a + b }}", "g3"},
    {"{{ 'a\nb' | indent(2, true) }}", "  a\n  b"},
    {"{{ range(3) | sum }}{{ [1, 5, 2] | max }}{{ '7' | int + 1 }}{{ 2.6 | round | int }}", "3583"},
};

static void test_pieces(void)
{
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        char *out;
        rlx_status st = render(pieces[i].text, strlen(pieces[i].text), variables, &out);
        if (!CHECK(st == RLX_OK && !strcmp(out, pieces[i].want)))
            printf("    %s\n    expected %s\n    got %s\n", pieces[i].text, pieces[i].want,
                   st == RLX_OK ? out : err.text);
        rx_free(out);
    }
}

/* ---- Errors and bounds ----------------------------------------------------------------------- */

static const struct {
    const char *text, *part;
} broken[] = {
    {"a\n{{ x", "line 2: a tag does not end"},
    {"{# a", "does not end with '#}'"},
    {"{{ 'a }}", "a string does not end"},
    {"{% if x %}a", "expected 'else' or the end tag of the block, found the end"},
    {"{% endif %}", "expected a statement that chat templates use, found 'endif'"},
    {"{% include 'x' %}", "found 'include'"},
    {"{{ 1 + }}", "expected an expression, found the end of the tag"},
    {"{{ ? }}", "unexpected character 0x3f"},
    {"{% for x of y %}", "expected 'in', found 'of'"},
    {"{% raw %}x", "has no 'endraw'"},
    {"{{ 99999999999999999999 }}", "a number is too large"},
    {"\n\n{{ missing.a }}", "line 3: 'missing' is undefined"},
    {"{{ missing() }}", "'missing' is undefined"},
    {"{{ n | nope }}", "there is no filter 'nope'"},
    {"{{ n is nope }}", "there is no test 'nope'"},
    {"{{ n + 'a' }}", "an integer + a string"},
    {"{{ n() }}", "an integer is called"},
    {"{{ n // 0 }}", "division by zero"},
    {"{{ 'a' < 1 }}", "have no order"},
    {"{% for x in 5 %}{% endfor %}", "found an integer"},
    {"{% for a, b in [[1]] %}{% endfor %}", "1 values for 2 names"},
    {"{% set d.k = 1 %}", "expected a namespace"},
    {"{{ raise_exception('no ' ~ n) }}", "the template says: no 3"},
    {"{{ 9223372036854775807 + 1 }}", "overflows"},
    {"{{ range | tojson }}", "cannot be written as JSON"},
    {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "deep"},
    {"{% for i in range(100000000) %}{% endfor %}", "chat template, line 1: "},
    {"{% for i in range(3000) %}{% for j in range(3000) %}{% endfor %}{% endfor %}", "needs more"},
    {"{{ range(4000) | reverse | sort }}", "takes more than 4000000 steps"},
    {"{{ 'aaaaaaaaaa' * 100000000 }}", "too long"},
    {"{% set ns = namespace(s='a') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}"
     "{% endfor %}", "bytes of memory"},
    {"{% set l = [] %}{% set x = l.append(l) %}{{ l }}", "deep"},
    {"{% set l = [] %}{% set x = l.append(l) %}{{ l | tojson }}", "deep"},
};

static void test_errors(void)
{
    for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) {
        char *out;
        rlx_status st = render(broken[i].text, strlen(broken[i].text), variables, &out);
        CHECK(out == NULL && strstr(err.text, "chat template, line"));
        CHECK_FAILS(st, st == RLX_PARSE ? RLX_PARSE : RLX_INVALID, &err, broken[i].part);
        rx_free(out);
    }
}

/* A pattern many times over, which must end with an error and not with a crash. */
static void test_deep(const char *open, const char *close, int times)
{
    const size_t a = strlen(open), b = strlen(close), n = (a + b) * (size_t)times + 4;
    char *text = malloc(n), *p = text, *out;
    memcpy(p, "{{", 2);
    p += 2;
    for (int i = 0; i < times; i++, p += a)
        memcpy(p, open, a);
    for (int i = 0; i < times; i++, p += b)
        memcpy(p, close, b);
    memcpy(p, "}}", 2);
    rlx_status st = render(text, n, variables, &out);
    CHECK(st == RLX_PARSE || st == RLX_INVALID);
    rx_free(out);
    free(text);
}

/* ---- Work that is hidden in one operation ---------------------------------------------------- */

/* Long lists a and b that are equal and not one, long texts s and t. */
#define LISTS "{% set a = range(20000) | list %}{% set b = range(20000) | list %}"
#define TEXTS "{% set k = 'x' * 1000 %}{% set s = (k * 1000) ~ 'y' %}{% set t = (k * 1000) ~ 'y' %}"
#define LOOP(n, what) "{% for i in range(" #n ") %}{% if " what " %}.{% endif %}{% endfor %}"

/* Each takes few steps unless what an operation does counts by its size. */
static const char *const costly[] = {
    LISTS LOOP(2000, "a == b"),
    LISTS LOOP(2000, "[[a]] == [[b]]"),
    LISTS LOOP(2000, "{'k': a} == {'k': b}"),
    LISTS LOOP(2000, "a in [b]"),
    LISTS LOOP(2000, "a is eq(b)"),
    LISTS LOOP(2000, "[b].index(a) == 0"),
    LISTS LOOP(2000, "loop.changed(a if i % 2 else b)"),
    LISTS LOOP(2000, "[i, b] | select('eq', a) | list | length == 1"),
    LISTS "{% set d = a | map('string') | list %}" LOOP(2000, "'x'.startswith(d)"),
    TEXTS LOOP(300, "s == t"),
    TEXTS LOOP(300, "s <= t"),
    TEXTS LOOP(300, "s.startswith(t)"),
    TEXTS LOOP(300, "s.removeprefix(t) == ''"),
    TEXTS LOOP(300, "{t: 1}[s]"),
    TEXTS LOOP(300, "[s, t] | sort == [t, s]"),
    TEXTS LOOP(300, "t in s"),
    TEXTS LOOP(300, "s.find(t) == 0"),
    TEXTS LOOP(300, "s[1:] == s[2:]"),
    TEXTS "{% set c = ('b' * 100) * 100 ~ 'x' %}{{ (k * 100).strip(c) }}",
    TEXTS "{% set l = [] %}{% for i in range(300) %}{% set z = l.append(k * 50 ~ i) %}"
          "{% endfor %}{{ (l | reverse | sort)[0] | length }}",
    TEXTS "{{ ([s] * 80) | string | length }}",
    TEXTS "{{ ([s] * 80) | tojson | length }}",
    TEXTS "{{ ('%r' % ([s] * 80)) | length }}",
};

/* A call with n keywords of a macro with n parameters, and a format with n fields. */
static char *many_names(const char *open, const char *each, const char *close, int n)
{
    rx_str s = {0};
    rx_str_puts(&s, open);
    for (int i = 0; i < n; i++)
        rx_str_printf(&s, each, i, i);
    rx_str_puts(&s, close);
    return s.data;
}

static void check_costly(const char *text)
{
    char *out;
    rlx_status st = render(text, strlen(text), variables, &out);
    if (!CHECK(st == RLX_INVALID && (strstr(err.text, "steps") || strstr(err.text, "bytes"))))
        printf("    %.200s\n    %s\n", text, st == RLX_OK ? "was rendered" : err.text);
    rx_free(out);
}

static void test_costs(void)
{
    for (size_t i = 0; i < sizeof costly / sizeof costly[0]; i++)
        check_costly(costly[i]);
    char *params = many_names("{% macro m(", "p%d=0,", "q=0) %}{% endmacro %}", 3000);
    char *call = many_names("{% for i in range(10) %}{{ m(", "p%d=%d,", "q=0) }}"
                            "{% endfor %}", 3000);
    char *both = many_names(params, "", call, 0);
    check_costly(both);
    char *fields = many_names("{{ (('{p2999}' * 100) * 500).format(", "p%d='',", "q=0) }}", 3000);
    check_costly(fields);
    rx_free(params);
    rx_free(call);
    rx_free(both);
    rx_free(fields);
}

/* Strings side by side become one, in memory that grows with their bytes. */
static void test_side_by_side(void)
{
    char *text = many_names("{{ (", "'a' ", ") | length }}", 100000), *out;
    memory_fail(0, false);
    rlx_set_allocator(&counting);
    CHECK_OK(render(text, strlen(text), variables, &out), &err);
    CHECK(out && !strcmp(out, "100000") && memory_calls() < 2000);
    rx_free(out);
    rlx_set_allocator(NULL);
    rx_free(text);
}

/* ---- Conversations and memory ---------------------------------------------------------------- */

static const char chatml[] =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

static rlx_status render_chat(char **out)
{
    static const rx_template_message messages[] = {{"system", "S"}, {"user", "U"}};
    rx_template_chat chat = {.messages = messages, .n_messages = 2, .add_generation_prompt = true};
    rx_chat_template *t;
    size_t length;
    *out = NULL;
    RLX_TRY(rx_template_parse(chatml, sizeof chatml - 1, &t, &err));
    rlx_status st = rx_template_render_chat(t, &chat, out, &length, &err);
    CHECK(st != RLX_OK || length == strlen(*out));
    rx_template_free(t);
    return st;
}

static void test_chat(void)
{
    char *out;
    CHECK_OK(render_chat(&out), &err);
    CHECK(out && !strcmp(out, "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n"
                              "<|im_start|>assistant\n"));
    rx_free(out);
}

static void test_memory(void)
{
    rlx_set_allocator(&counting);
    rlx_status st = RLX_NO_MEMORY;
    long n = 1;
    for (; n < 1000 && st == RLX_NO_MEMORY; n++) {
        char *out;
        memory_fail(n, true);
        st = render_chat(&out);
        rx_free(out);
        CHECK(memory_live() == 0);
    }
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        for (long at = 2; at < 13; at++) {
            char *out;
            memory_fail(at, true);
            render(pieces[i].text, strlen(pieces[i].text), variables, &out);
            rx_free(out);
            CHECK(memory_live() == 0);
        }
    rlx_set_allocator(NULL);
    CHECK(st == RLX_OK && n > 5);
}

/* ---- For the script -------------------------------------------------------------------------- */

static int render_files(const char *template_path, const char *variables_path)
{
    rx_file text = {0}, json = {0};
    char *out = NULL, *copy;
    if (rx_file_open(template_path, &text, &err) || rx_file_open(variables_path, &json, &err))
        return 2;
    copy = calloc(1, json.bytes + 1);
    memcpy(copy, json.data, json.bytes);
    rlx_status st = render((const char *)text.data, text.bytes, copy, &out);
    fputs(st == RLX_OK ? out : err.text, stdout);
    rx_free(out);
    free(copy);
    rx_file_close(&text);
    rx_file_close(&json);
    return st != RLX_OK;
}

int main(int argc, char **argv)
{
    setenv("TZ", "UTC", 1);
    if (argc == 4 && !strcmp(argv[1], "render"))
        return render_files(argv[2], argv[3]);
    test_pieces();
    test_errors();
    test_deep("(", ")", 20000);
    test_deep("[", "]", 5000);
    test_deep("-", "1", 20000);
    test_deep("not ", "1", 9000);
    test_deep("1+", "1", 20000);
    test_deep("a.", "a", 9000);
    test_deep("1|abs|", "abs", 9000);
    test_deep("{1:", "1}", 9000);
    test_deep("1 if ", "1 else ", 9000);
    test_costs();
    test_side_by_side();
    test_chat();
    test_memory();
    return check_done();
}
