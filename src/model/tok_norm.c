/* SPDX-License-Identifier: MIT */
/* The normalising steps: each writes a new text, or reports that nothing changed. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* Input text and output buffer. */
typedef struct pass {
    rx_encoder *e;
    const rx_step *step;
    const char *s;
    size_t n;
    rx_str *out;
} pass;

static void put_code(rx_str *out, uint32_t code)
{
    char bytes[4];
    rx_str_add(out, bytes, rx_utf8_put(bytes, code));
}

static bool is_ascii(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] >= 0x80)
            return false;
    return true;
}

/* ---- Normal forms ---------------------------------------------------------------------------- */

/* Sorts a run of combining characters by class; equal ones keep their order. */
static void sort_marks(uint32_t *codes, size_t n, uint32_t *scratch)
{
    size_t start[257] = {0};
    for (size_t i = 0; i < n; i++)
        start[rx_unicode_class(codes[i]) + 1]++;
    for (size_t c = 0; c < 256; c++)
        start[c + 1] += start[c];
    for (size_t i = 0; i < n; i++)
        scratch[start[rx_unicode_class(codes[i])]++] = codes[i];
    memcpy(codes, scratch, n * sizeof *codes);
}

static void order_marks(uint32_t *codes, size_t n, uint32_t *scratch)
{
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && codes[end] >= 0x300 && rx_unicode_class(codes[end]))
            end++;
        if (end - i > 1)
            sort_marks(codes + i, end - i, scratch);
        i = end + 1;
    }
}

/* Composes in place; returns the new length. */
static size_t compose(uint32_t *codes, size_t n)
{
    size_t k = 0, starter = SIZE_MAX;
    int last_class = 0;
    for (size_t i = 0; i < n; i++) {
        int class = rx_unicode_class(codes[i]);
        bool is_near = starter != SIZE_MAX && (k == starter + 1 || last_class < class);
        uint32_t both = is_near ? rx_unicode_compose(codes[starter], codes[i]) : 0;
        if (both) {
            codes[starter] = both;
            continue;
        }
        if (class == 0)
            starter = k;
        last_class = class;
        codes[k++] = codes[i];
    }
    return k;
}

static bool apply_form(pass *p)
{
    rx_encoder *e = p->e;
    size_t k = 0;
    if (is_ascii(p->s, p->n))
        return false;
    for (size_t i = 0; i < p->n;) {
        uint32_t code;
        /* the second half is scratch for sorting */
        if (!rx_grow(&e->codes, &e->cap_codes, 2 * (k + RX_MAX_DECOMPOSED), sizeof *e->codes)) {
            p->out->failed = true;
            return true;
        }
        i += rx_utf8_get(p->s + i, p->n - i, &code);
        k += rx_unicode_decompose(code, p->step->flags & RX_FORM_COMPATIBLE, e->codes + k);
    }
    order_marks(e->codes, k, e->codes + k);
    if (p->step->flags & RX_FORM_COMPOSED)
        k = compose(e->codes, k);
    for (size_t i = 0; i < k; i++)
        put_code(p->out, e->codes[i]);
    return true;
}

/* ---- Character by character ------------------------------------------------------------------ */

static bool apply_lower(pass *p)
{
    for (size_t i = 0, step; i < p->n; i += step) {
        uint32_t code, low[2];
        step = rx_utf8_get(p->s + i, p->n - i, &code);
        size_t n = rx_unicode_lower(code, low);
        for (size_t k = 0; k < n; k++)
            put_code(p->out, low[k]);
    }
    return true;
}

static bool apply_drop(pass *p)
{
    if (is_ascii(p->s, p->n) && !(p->step->flags & ~RX_IN_M))
        return false;
    for (size_t i = 0, step; i < p->n; i += step) {
        uint32_t code;
        step = rx_utf8_get(p->s + i, p->n - i, &code);
        if (!(rx_unicode_bits(code) & p->step->flags))
            rx_str_add(p->out, p->s + i, step);
    }
    return true;
}

static bool is_chinese(uint32_t c)
{
    return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) ||
           (c >= 0x20000 && c <= 0x2a6df) || (c >= 0x2a700 && c <= 0x2b73f) ||
           (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
           (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

static bool apply_bert(pass *p)
{
    const uint32_t control = RX_IN(RX_CC) | RX_IN(RX_CF) | RX_IN(RX_CS) | RX_IN(RX_CO);
    for (size_t i = 0, step; i < p->n; i += step) {
        uint32_t code;
        step = rx_utf8_get(p->s + i, p->n - i, &code);
        if (p->step->flags & RX_BERT_CLEAN) {
            uint32_t bits = rx_unicode_bits(code);
            bool is_space = bits & RX_IN_SPACE;
            bool is_blank = code == '\t' || code == '\n' || code == '\r' ||
                            (is_space && !(bits & control));
            if (!is_blank && (code == 0 || code == RX_REPLACEMENT || bits & control))
                continue;
            if (is_blank) {
                rx_str_add(p->out, " ", 1);
                continue;
            }
        }
        bool pad = p->step->flags & RX_BERT_CHINESE && is_chinese(code);
        rx_str_add(p->out, " ", pad);
        rx_str_add(p->out, p->s + i, step);
        rx_str_add(p->out, " ", pad);
    }
    return true;
}

static bool apply_nmt(pass *p)
{
    for (size_t i = 0, step; i < p->n; i += step) {
        uint32_t c;
        step = rx_utf8_get(p->s + i, p->n - i, &c);
        if ((c >= 1 && c <= 8) || c == 0xb || (c >= 0xe && c <= 0x1f) || c == 0x7f || c == 0x8f ||
            c == 0x9f)
            continue;
        bool blank = c == 9 || c == 0xa || c == 0xc || c == 0xd || c == 0x1680 ||
                     (c >= 0x200b && c <= 0x200f) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xfeff || c == RX_REPLACEMENT;
        rx_str_add(p->out, blank ? " " : p->s + i, blank ? 1 : step);
    }
    return true;
}

/* ---- Pieces of text -------------------------------------------------------------------------- */

static bool apply_prepend(pass *p)
{
    if (p->n == 0)
        return false;
    rx_str_add(p->out, p->step->text, p->step->text_bytes);
    rx_str_add(p->out, p->s, p->n);
    return true;
}

static bool apply_replace(pass *p)
{
    size_t m = p->step->text_bytes, from = 0;
    if (m == 0)
        return false;
    for (size_t i = 0; i + m <= p->n;) {
        const char *hit = memchr(p->s + i, p->step->text[0], p->n - i);
        i = hit ? (size_t)(hit - p->s) : p->n;
        if (i + m > p->n)
            break;
        if (memcmp(p->s + i, p->step->text, m)) {
            i++;
            continue;
        }
        rx_str_add(p->out, p->s + from, i - from);
        rx_str_add(p->out, p->step->with, p->step->with_bytes);
        i += m;
        from = i;
    }
    if (from == 0)
        return false;
    rx_str_add(p->out, p->s + from, p->n - from);
    return true;
}

static bool apply_squeeze(pass *p)
{
    for (size_t i = 0; i < p->n;) {
        size_t end = i, count = 0, step = 0;
        uint32_t code;
        while (end < p->n) {
            step = rx_utf8_get(p->s + end, p->n - end, &code);
            if (p->step->flags ? !rx_unicode_is_space(code) : code != ' ')
                break;
            end += step;
            count++;
        }
        if (count >= (p->step->flags ? 1u : 2u))
            rx_str_add(p->out, p->step->with, p->step->with_bytes);
        else
            rx_str_add(p->out, p->s + i, end - i);
        if (end < p->n)
            rx_str_add(p->out, p->s + end, step);
        i = end < p->n ? end + step : end;
    }
    return true;
}

static bool apply_strip(pass *p)
{
    size_t begin = 0, end = 0;
    uint32_t code;
    for (size_t i = 0, step; i < p->n; i += step) {
        step = rx_utf8_get(p->s + i, p->n - i, &code);
        if (!rx_unicode_is_space(code))
            end = i + step;
        else if (end == 0)
            begin = i + step;
    }
    if (!(p->step->flags & 1))
        begin = 0;
    if (!(p->step->flags & 2))
        end = p->n;
    if (begin < end)
        rx_str_add(p->out, p->s + begin, end - begin);
    return true;
}

static bool apply_spaces(pass *p)
{
    bool blank = false, any = false;
    for (size_t i = 0; i < p->n; i++) {
        if (p->s[i] == ' ') {
            blank = any;
            continue;
        }
        rx_str_add(p->out, " ", blank);
        rx_str_add(p->out, p->s + i, 1);
        blank = false;
        any = true;
    }
    rx_str *out = p->out; /* U+2581 that was in the text counts at the end */
    while (out->n >= RX_SPACE_BYTES &&
           !memcmp(out->data + out->n - RX_SPACE_BYTES, RX_SPACE, RX_SPACE_BYTES))
        for (out->n -= RX_SPACE_BYTES; out->n && out->data[out->n - 1] == ' ';)
            out->n--;
    return true;
}

/* ---- The table of SentencePiece -------------------------------------------------------------- */

/* A charsmap: size of the trie, double-array trie of 32-bit units, zero-terminated texts. */
static uint32_t get_unit(const char *map, size_t i)
{
    const unsigned char *p = (const unsigned char *)map + 4 + 4 * i;
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t trie_bytes(const char *map)
{
    return get_unit(map - 4, 0);
}

rlx_status rx_tok_check_charsmap(const rlx_tokenizer *t, const char *map, size_t n, rlx_error *err)
{
    if (n < 4)
        return rx_fail(err, RLX_PARSE, "'%s': the charsmap has %zu bytes; expected at least 4",
                       t->path, n);
    uint32_t bytes = trie_bytes(map);
    if (bytes == 0 || bytes % 4 || bytes > n - 4)
        return rx_fail(err, RLX_PARSE, "'%s': the trie of the charsmap has %u bytes; expected a "
                       "multiple of 4 up to %zu", t->path, bytes, n - 4);
    if (4 + (size_t)bytes < n && map[n - 1])
        return rx_fail(err, RLX_PARSE, "'%s': the texts of the charsmap do not end in a zero byte",
                       t->path);
    return RLX_OK;
}

/* The longest key at s: its length, and the offset of its replacement; 0: none. */
static size_t find_in_map(const char *map, size_t map_bytes, const char *s, size_t n,
                          const char **text)
{
    size_t n_units = trie_bytes(map) / 4, used = 0;
    const char *texts = map + 4 + 4 * n_units, *end = map + map_bytes;
    uint32_t unit = get_unit(map, 0);
    size_t at = (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
    for (size_t i = 0; i < n; i++) {
        at ^= (unsigned char)s[i];
        if (at >= n_units)
            break;
        unit = get_unit(map, at);
        if ((unit & (1u << 31 | 0xffu)) != (unsigned char)s[i])
            break;
        at ^= (size_t)(unit >> 10) << ((unit & (1u << 9)) >> 6);
        if (!(unit >> 8 & 1) || at >= n_units)
            continue;
        uint32_t place = get_unit(map, at) & 0x7fffffffu;
        if (place < (size_t)(end - texts)) {
            *text = texts + place;
            used = i + 1;
        }
    }
    return used;
}

static bool apply_charsmap(pass *p)
{
    const rx_step *m = p->step;
    for (size_t i = 0; i < p->n;) {
        const char *text;
        uint32_t code;
        size_t used = find_in_map(m->text, m->text_bytes, p->s + i, p->n - i, &text);
        if (used) {
            rx_str_puts(p->out, text);
        } else {
            used = rx_utf8_get(p->s + i, p->n - i, &code);
            rx_str_add(p->out, p->s + i, used);
        }
        i += used;
    }
    return true;
}

/* ---- All of them ----------------------------------------------------------------------------- */

static bool (*const apply[])(pass *p) = {
    [RX_NORM_FORM] = apply_form,       [RX_NORM_LOWER] = apply_lower,
    [RX_NORM_DROP] = apply_drop,       [RX_NORM_BERT] = apply_bert,
    [RX_NORM_PREPEND] = apply_prepend, [RX_NORM_REPLACE] = apply_replace,
    [RX_NORM_SQUEEZE] = apply_squeeze, [RX_NORM_STRIP] = apply_strip,
    [RX_NORM_NMT] = apply_nmt,         [RX_NORM_CHARSMAP] = apply_charsmap,
    [RX_NORM_SPACES] = apply_spaces,
};

rlx_status rx_tok_normalise(rx_encoder *e, const char **s, size_t *n)
{
    const rlx_tokenizer *t = e->t;
    size_t next = 0;
    for (size_t i = 0; i < t->n_norms; i++) {
        pass p = {e, &t->norms[i], *s, *n, &e->norm[next]};
        p.out->n = 0;
        if (!apply[t->norms[i].kind](&p))
            continue;
        if (p.out->failed)
            return rx_encoder_no_memory(e);
        *s = p.out->n ? p.out->data : "";
        *n = p.out->n;
        next = 1 - next;
    }
    return RLX_OK;
}
