/* SPDX-License-Identifier: MIT */
/* optest: runs the op cases and the graphs on a device and compares with the reference. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix.h"
#include "base/thread.h"
#include "ops/optest.h"

static const char usage[] =
    "usage: optest [options]\n"
    "  --device D           device under test (default cpu)\n"
    "  --filter TEXT        only cases that contain TEXT; with * or ?, that match it\n"
    "  --family F           only cases of that table (elementwise, matrix, ..., graphs)\n"
    "  --every N            only each N-th case: a quick look at all families\n"
    "  --from K             with --every: beginning with case K (below N): parts of a whole run\n"
    "  --range A:B          only cases A to B-1 of those, counted from 0\n"
    "  --list, --count      print the cases, or how many there are\n"
    "  --verbose            print every case, not only failures\n"
    "  --kernels            print which kernels ran how many steps of each operation\n"
    "  --bench              time the cases instead of checking them\n"
    "  --json               print the results as JSON\n"
    "  --jobs N             threads that run cases (default: the processors, at most 8)\n"
    "  --seed N             other numbers in the tensors\n"
    "  --random N[:S]       so many random graphs (default 100), the first with seed S\n"
    "  --allow-unsupported  what the device says it cannot do is skipped, not a failure\n"
    "  --may-refuse A|B     the same, but only if it, or its lack of memory, is said with one of\n"
    "                       these texts; the reason is printed\n"
    "  --once               as it is only, not again without fusion and without shared memory\n"
    "  --turn N             in one of these ways only, which N (from 1) chooses: a share\n"
    "  --liar               falsify each result; the comparison must notice every lie\n"
    "  --grad               derivatives: on ref against differences, else against ref\n"
    "  --fast               under the policy that allows f16 and integer products\n"
    "  --dump DIR           write cases and results for tests/numpy/compare.py\n";

/* ---- The list of cases ---------------------------------------------------------------------- */

typedef struct entry {
    const char *family;
    char *text;    /* owned */
    bool is_graph; /* the text is its name */
    size_t graph;  /* index of the graph */
} entry;

typedef struct case_list {
    const ot_options *opt;
    const char *family;
    entry *entries;
    size_t n, cap;
    size_t seen;   /* with --every: cases so far */
    size_t chosen; /* with --range: those of them that are left */
    bool failed;
} case_list;

/* '*' stands for any text, '?' for a character. */
static bool match_glob(const char *glob, const char *text)
{
    const char *star = NULL, *retry = NULL;
    while (*text) {
        if (*glob == '*') {
            star = glob++;
            retry = text;
        } else if (*glob == '?' || *glob == *text) {
            glob++;
            text++;
        } else if (star) {
            glob = star + 1;
            text = ++retry;
        } else {
            return false;
        }
    }
    while (*glob == '*') glob++;
    return !*glob;
}

static bool is_wanted(const ot_options *opt, const char *family, const char *text)
{
    if (opt->family && strcmp(opt->family, family) != 0) return false;
    if (!opt->filter) return true;
    if (strpbrk(opt->filter, "*?")) return match_glob(opt->filter, text);
    return strstr(text, opt->filter) != NULL;
}

static void add_entry(case_list *l, entry e)
{
    bool chosen = l->opt->every <= 1 ||
                  l->seen++ % (size_t)l->opt->every == (size_t)l->opt->from;
    const size_t at = l->chosen;
    l->chosen += chosen;
    if (!chosen || at < l->opt->first || at >= l->opt->end) {
        free(e.text);
        return;
    }
    if (l->n == l->cap) {
        l->cap = l->cap ? 2 * l->cap : 1024;
        entry *grown = realloc(l->entries, l->cap * sizeof *grown);
        if (!grown) {
            fputs("optest: out of memory\n", stderr);
            exit(2);
        }
        l->entries = grown;
    }
    l->entries[l->n++] = e;
}

static void add_case(void *user, const char *text)
{
    case_list *l = user;
    if (!is_wanted(l->opt, l->family, text)) return;
    add_entry(l, (entry){l->family, strdup(text), false, 0});
}

static void add_family(case_list *l, const char *name, const char *const *templates)
{
    l->family = name;
    for (; *templates; templates++) {
        if (ot_expand(*templates, add_case, l)) continue;
        fprintf(stderr, "optest: cases_%s.c: malformed template: %s\n", name, *templates);
        l->failed = true;
    }
}

static void collect(case_list *l)
{
#define X(name) add_family(l, #name, rx_cases_##name);
    OT_FAMILIES(X)
#undef X
    char name[OT_GRAPH_NAME];
    const bool graphs = !l->opt->dump && !l->opt->bench && !l->opt->grad;
    for (size_t i = 0; graphs && ot_graph_name(l->opt, i, name); i++) {
        if (!is_wanted(l->opt, "graphs", name)) continue;
        add_entry(l, (entry){"graphs", strdup(name), true, i});
    }
}

/* ---- Running them --------------------------------------------------------------------------- */

typedef struct tally {
    const char *family;
    size_t count[3]; /* by ot_verdict */
    size_t lies_caught[OT_N_LIES], lies_passed[OT_N_LIES], lies_excepted[OT_N_LIES];
} tally;

typedef struct runner {
    ot_env env;
    case_list list;
    rx_mutex lock; /* of all below, and of the output */
    size_t next;
    size_t count[3];
    tally families[32];
    size_t n_families;
    ot_kernel_tally kernels;
    bool progress, first_json;
} runner;

static void count_family(runner *r, const char *family, const ot_report *report)
{
    size_t i = 0;
    while (i < r->n_families && strcmp(r->families[i].family, family) != 0) i++;
    if (i == r->n_families) r->families[r->n_families++].family = family;
    tally *t = &r->families[i];
    t->count[report->verdict]++;
    for (int lie = 0; lie < OT_N_LIES; lie++) {
        t->lies_caught[lie] += report->lies_caught[lie];
        t->lies_passed[lie] += report->lies_passed[lie];
        t->lies_excepted[lie] += report->lies_excepted[lie];
    }
}

static void print_json(runner *r, const entry *e, const ot_report *report)
{
    static const char *const verdicts[] = {"pass", "fail", "skip"};
    fputs(r->first_json ? "\n  {\"case\": " : ",\n  {\"case\": ", stdout);
    r->first_json = false;
    ot_json_string(stdout, e->text);
    printf(", \"family\": \"%s\", \"device\": \"%s\", \"result\": \"%s\"", e->family,
           r->env.opt.device, verdicts[report->verdict]);
    if (r->env.opt.bench) {
        printf(", \"ms_median\": %.6g, \"ms_best\": %.6g, \"gflops\": %.6g, \"gbps\": %.6g",
               report->ms_median, report->ms_best, report->gflops, report->gbps);
    }
    if (report->used) {
        fputs(", \"error\": ", stdout);
        ot_json_string(stdout, report->text);
    }
    putchar('}');
    fflush(stdout);
}

static void print_text(runner *r, const entry *e, const ot_report *report)
{
    static const char *const verdicts[] = {"pass", "FAIL", "skip"};
    const ot_options *opt = &r->env.opt;
    if (report->verdict == OT_FAIL) {
        if (r->progress) fputs("\r\033[K", stdout);
        printf("FAIL %s: %s\n  seed %llu\n", e->family, e->text, (unsigned long long)opt->seed);
        for (const char *p = report->text; *p;) {
            const size_t n = strcspn(p, "\n");
            printf("  %.*s\n", (int)n, p);
            p += n + (p[n] == '\n');
        }
    } else if (opt->bench && report->verdict == OT_PASS) {
        printf("%10.4f ms  %9.3f GB/s  %9.3f GFLOP/s  %s\n", report->ms_median, report->gbps,
               report->gflops, e->text);
    } else if (report->verdict == OT_SKIP && report->used) {
        if (r->progress) fputs("\r\033[K", stdout);
        printf("skip %s: %s\n  %s", e->family, e->text, report->text);
    } else if (opt->verbose) {
        printf("%s %s: %s\n", verdicts[report->verdict], e->family, e->text);
    }
    const size_t done = r->count[0] + r->count[1] + r->count[2];
    if (r->progress && done % 16 == 0) {
        printf("\r\033[K%zu of %zu, %zu failed", done, r->list.n, r->count[OT_FAIL]);
    }
    fflush(stdout);
}

static void run_entry(runner *r, const entry *e, ot_case *c, ot_report *report)
{
    char why[160];
    *report = (ot_report){.verdict = OT_PASS};
    if (e->is_graph) {
        ot_run_graph(&r->env, e->graph, report);
        return;
    }
    if (!ot_parse(e->text, e->family, r->env.opt.seed, c, why)) {
        ot_fail(report, "malformed case: %s", why);
        return;
    }
    c->flush = r->env.flushes;
    if (r->env.opt.grad) {
        ot_grad_case(&r->env, c, report);
    } else if (r->env.opt.bench) {
        ot_bench_case(&r->env, c, report);
    } else if (r->env.opt.dump) {
        ot_dump_case(&r->env, c, report);
    } else {
        ot_run_case(&r->env, c, report);
    }
}

static void *work(void *user)
{
    runner *r = user;
    ot_case *c = malloc(sizeof *c);
    ot_report *report = malloc(sizeof *report);
    rx_mutex_lock(&r->lock);
    while (c && report && r->next < r->list.n) {
        const entry *e = &r->list.entries[r->next++];
        rx_mutex_unlock(&r->lock);
        run_entry(r, e, c, report);
        rx_mutex_lock(&r->lock);
        r->count[report->verdict]++;
        count_family(r, e->family, report);
        ot_tally_kernels(&r->kernels, report);
        if (r->env.opt.json) {
            print_json(r, e, report);
        } else {
            print_text(r, e, report);
        }
    }
    rx_mutex_unlock(&r->lock);
    free(report);
    free(c);
    return NULL;
}

static void run_all(runner *r)
{
    rx_thread threads[64];
    int n = 0;
    if (r->env.opt.json) putchar('[');
    while (n < r->env.opt.jobs - 1 && n < 64) {
        if (!rx_thread_start(&threads[n], work, r)) break;
        n++;
    }
    work(r);
    while (n > 0) rx_thread_join(&threads[--n]);
    if (r->env.opt.json) puts("\n]");
    if (r->progress) fputs("\r\033[K", stdout);
}

static void check_engine(runner *r)
{
    ot_report report = {.verdict = OT_PASS};
    ot_check_engine(&report);
    r->count[report.verdict]++;
    if (report.used) printf("FAIL engine\n%s", report.text);
}

static void check_words(runner *r)
{
    ot_report report = {.verdict = OT_PASS};
    if (strcmp(r->env.opt.device, "cpu") == 0) ot_tally_check(&r->kernels, &report);
    r->count[report.verdict]++;
    if (report.used) printf("FAIL support\n%s", report.text);
}

/* ---- Coverage: every operation of the catalogue has a case that runs ------------------------ */

static bool has_case(const case_list *l, const char *op)
{
    const size_t n = strlen(op);
    for (size_t i = 0; i < l->n; i++) {
        const char *text = l->entries[i].text;
        if (l->entries[i].is_graph || strstr(text, "!>")) continue;
        if (strncmp(text, op, n) == 0 && (text[n] == '(' || text[n] == ' ')) return true;
    }
    return false;
}

static void check_coverage(runner *r)
{
    /* Leaves and what only the compiler makes have tests of their own, in graphs.c; custom has one
     * in runtime/test_custom.c. */
    static const char exempt[] = " input param constant state state_write region copy custom ";
    size_t missing = 0;
    for (size_t i = 0; rlx_op_name(i); i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", rlx_op_name(i));
        if (strstr(exempt, word) || has_case(&r->list, rlx_op_name(i))) continue;
        if (missing++ == 0) printf("FAIL coverage: operations without a case:");
        printf(" %s", rlx_op_name(i));
    }
    if (missing) putchar('\n');
    r->count[missing ? OT_FAIL : OT_PASS]++;
}

/* ---- Command line --------------------------------------------------------------------------- */

static bool parse_random(const char *text, ot_options *o)
{
    char *end;
    o->n_random = strtoul(text, &end, 10);
    if (*end == ':') o->random_seed = strtoull(end + 1, &end, 10);
    return end > text && !*end;
}

static bool parse_options(int argc, char **argv, ot_options *o)
{
    const struct { const char *name; bool *flag; } flags[] = {
        {"--list", &o->list},       {"--count", &o->count}, {"--verbose", &o->verbose},
        {"--bench", &o->bench},     {"--json", &o->json},
        {"--allow-unsupported", &o->allow_unsupported}, {"--fast", &o->fast},
        {"--once", &o->once},       {"--liar", &o->liar},   {"--kernels", &o->kernels},
        {"--grad", &o->grad},
    };
    const char *jobs = NULL, *seed = NULL, *every = NULL, *from = NULL, *range = NULL;
    const char *random = NULL, *turn = NULL;
    const struct { const char *name; const char **value; } texts[] = {
        {"--device", &o->device}, {"--filter", &o->filter}, {"--family", &o->family},
        {"--dump", &o->dump},     {"--jobs", &jobs},        {"--seed", &seed},
        {"--every", &every},      {"--from", &from},        {"--range", &range},
        {"--may-refuse", &o->may_refuse}, {"--random", &random},  {"--turn", &turn},
    };
    for (int i = 1; i < argc; i++) {
        bool known = false;
        for (size_t k = 0; k < sizeof flags / sizeof flags[0]; k++) {
            if (strcmp(argv[i], flags[k].name) == 0) known = *flags[k].flag = true;
        }
        for (size_t k = 0; !known && k < sizeof texts / sizeof texts[0]; k++) {
            if (strcmp(argv[i], texts[k].name) != 0 || i + 1 == argc) continue;
            *texts[k].value = argv[++i];
            known = true;
        }
        if (!known) return false;
    }
    const long processors = rx_processors();
    o->jobs = jobs ? atoi(jobs) : processors < 1 ? 1 : processors > 8 ? 8 : (int)processors;
    o->every = every ? atoi(every) : 1;
    o->from = from ? atoi(from) : 0;
    o->end = SIZE_MAX;
    if (range && sscanf(range, "%zu:%zu", &o->first, &o->end) != 2) return false;
    if (seed) o->seed = strtoull(seed, NULL, 0);
    o->n_random = 100;
    if (random && !parse_random(random, o)) return false;
    if (turn) o->turn = strtoull(turn, NULL, 0);
    if (o->bench || o->dump) o->jobs = 1;
    return true;
}

/* WGSL and SPIR-V let a device take subnormal numbers for zero; whether this one does. */
static bool flushes_subnormals(rlx_device *device)
{
    static const char text[] = "graph \"probe\" {\n  %x: f32[1] = input \"x\"\n"
                               "  %k: f32[1] = input \"k\"\n  %y = mul(%x, %k)\n"
                               "  output \"y\" = %y\n}\n";
    float x = 1e-40f, k = 1e30f, y = 1;
    const rlx_const_tensor in[] = {{"x", &x, sizeof x}, {"k", &k, sizeof k}};
    const rlx_tensor out = {"y", &y, sizeof y};
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    if (rlx_graph_parse(text, strlen(text), &g, NULL) == RLX_OK &&
        rlx_session_create(device, g, NULL, &s, NULL) == RLX_OK) {
        rlx_run(s, in, 2, &out, 1, NULL);
    }
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return y == 0;
}

static bool open_devices(ot_env *env)
{
    rlx_error err = {0};
    if (rlx_device_open(env->opt.device, NULL, &env->device, &err)) {
        fprintf(stderr, "optest: %s\n", err.text);
        return false;
    }
    if (err.text[0]) {
        fprintf(stderr, "optest: opening %s succeeds and leaves the error \"%s\"\n",
                env->opt.device, err.text);
        return false;
    }
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(env->device, &info, NULL);
    env->is_null = strcmp(info.backend, "null") == 0;
    env->is_exact = strcmp(info.backend, "ref") == 0 && !env->opt.dump;
    if (env->is_null || strcmp(info.backend, "ref") == 0 || env->opt.bench) return true;
    env->flushes = flushes_subnormals(env->device);
    if (rlx_device_open("ref", NULL, &env->ref, &err)) {
        fprintf(stderr, "optest: %s\n", err.text);
        return false;
    }
    return true;
}

/* Family by lie: how many were caught; + how many passed, and (n) that may, with a reason. */
static void print_lies(const runner *r)
{
    printf("%-12s", "lies caught");
    for (int lie = 0; lie < OT_N_LIES; lie++) printf(" %10s", ot_lie_name((ot_lie)lie));
    putchar('\n');
    for (size_t i = 0; i < r->n_families; i++) {
        const tally *t = &r->families[i];
        printf("%-12s", t->family);
        for (int lie = 0; lie < OT_N_LIES; lie++) {
            char text[64];
            int n = snprintf(text, sizeof text, "%zu", t->lies_caught[lie]);
            if (t->lies_passed[lie]) {
                n += snprintf(text + n, sizeof text - (size_t)n, "+%zu", t->lies_passed[lie]);
            }
            if (t->lies_excepted[lie]) {
                snprintf(text + n, sizeof text - (size_t)n, "(%zu)", t->lies_excepted[lie]);
            }
            printf(" %10s", text);
        }
        putchar('\n');
    }
}

static void summarise(const runner *r)
{
    if (r->env.opt.json) return;
    if (r->env.opt.liar) print_lies(r);
    if (r->env.opt.kernels) ot_tally_print(&r->kernels);
    if (!r->env.opt.bench && !r->env.opt.dump) {
        printf("random graphs: --random %zu:%llu\n", r->env.opt.n_random,
               (unsigned long long)r->env.opt.random_seed);
    }
    for (size_t i = 0; i < r->n_families; i++) {
        const tally *t = &r->families[i];
        printf("%-12s %6zu passed, %zu failed, %zu skipped\n", t->family, t->count[OT_PASS],
               t->count[OT_FAIL], t->count[OT_SKIP]);
    }
    printf("%zu passed, %zu failed, %zu skipped\n", r->count[OT_PASS], r->count[OT_FAIL],
           r->count[OT_SKIP]);
}

int main(int argc, char **argv)
{
    static runner r = {.lock = RX_MUTEX_INIT, .first_json = true};
    ot_options *opt = &r.env.opt;
    opt->device = "cpu";
    if (!parse_options(argc, argv, opt)) {
        fputs(usage, stderr);
        return 2;
    }
    r.list.opt = opt;
    collect(&r.list);
    r.progress = isatty(1) && !opt->json && !opt->verbose && !opt->bench;
    if (opt->list) {
        for (size_t i = 0; i < r.list.n; i++) {
            printf("%s: %s\n", r.list.entries[i].family, r.list.entries[i].text);
        }
    } else if (opt->count) {
        printf("%zu\n", r.list.n);
    } else if (!open_devices(&r.env) || (opt->dump && !ot_dump_open(&r.env))) {
        r.count[OT_FAIL]++;
    } else {
        run_all(&r);
        check_engine(&r);
        if (!opt->grad) check_words(&r);
        const bool all = !opt->filter && !opt->family && opt->every <= 1 && opt->end == SIZE_MAX;
        if (all && !opt->json) check_coverage(&r);
        summarise(&r);
        if (!r.list.n) {
            fprintf(stderr, "optest: no case was selected\n");
            r.count[OT_FAIL]++;
        }
    }
    ot_dump_close(&r.env);
    ot_tally_finish(&r.kernels);
    rlx_device_close(r.env.device);
    rlx_device_close(r.env.ref);
    for (size_t i = 0; i < r.list.n; i++) free(r.list.entries[i].text);
    free(r.list.entries);
    return r.count[OT_FAIL] || r.list.failed ? 1 : 0;
}
