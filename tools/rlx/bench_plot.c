/* SPDX-License-Identifier: MIT */
/* Draws benchmark results. Cases limited by arithmetic are shown in GFLOP/s, those limited by
 * memory in GB/s, each kind in a panel of its own. A panel whose cases differ only in size is drawn
 * as speed against size, any other as bars. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "svg.h"

#define WIDTH 980.0
#define LETTER 7.0       /* width of a letter of a label, about */
#define MARGIN 28.0
#define BAR 17.0
#define GAP 11.0
#define LINES_HEIGHT 300.0
#define MAX_DEVICES 16
#define COMPUTE_BOUND 4  /* flop a byte: above, GFLOP/s says more */

typedef struct panel {
    const bench_result **r;
    size_t n;
    bool compute; /* GFLOP/s, else GB/s */
    bool lines;
    size_t n_cases;
} panel;

typedef struct chart {
    svg s;
    const char *devices[MAX_DEVICES];
    size_t n_devices;
    double labels; /* room for the names of cases beside bars */
} chart;

static double speed(const panel *p, const bench_result *r)
{
    return p->compute ? r->gflops : r->gbps;
}

static const char *unit(const panel *p)
{
    return p->compute ? "GFLOP/s" : "GB/s";
}

static size_t device_index(const chart *c, const char *device)
{
    for (size_t i = 0; i < c->n_devices; i++)
        if (!strcmp(c->devices[i], device))
            return i;
    return 0;
}

static double panel_max(const panel *p)
{
    double max = 0;
    for (size_t i = 0; i < p->n; i++)
        max = fmax(max, speed(p, p->r[i]));
    return max > 0 ? max : 1;
}

static int digits_for(double v)
{
    return v < 1 ? 3 : v < 10 ? 2 : v < 1000 ? 1 : 0;
}

static char *tip_of(const bench_result *r)
{
    return cli_format("%s on %s\nmedian %.4g ms, best %.4g ms\n%.4g GFLOP/s, %.4g GB/s", r->c.name,
                      r->device, r->ms_median, r->ms_best, r->gflops, r->gbps);
}

/* ---- Which panels ---------------------------------------------------------------------------- */

/* The results come case by case, so a new name is a new case. */
static size_t count_cases(const panel *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        n += !i || strcmp(p->r[i]->c.name, p->r[i - 1]->c.name);
    return n;
}

static bool same_series(const bench_result *a, const bench_result *b)
{
    return !strcmp(a->c.op, b->c.op) && a->c.dtype == b->c.dtype &&
           !strcmp(a->c.attributes, b->c.attributes) && a->c.shapes[0].rank == b->c.shapes[0].rank;
}

static panel make_panel(const bench_result *r, size_t n, bool compute)
{
    panel p = {.compute = compute, .lines = true};
    p.r = cli_alloc_array(n + 1, sizeof(bench_result *));
    for (size_t i = 0; i < n; i++) {
        bool is_compute = r[i].c.flops > COMPUTE_BOUND * fmax(r[i].c.bytes, 1);
        if (is_compute != compute)
            continue;
        p.r[p.n++] = &r[i];
        p.lines &= same_series(&r[i], p.r[0]);
    }
    p.n_cases = count_cases(&p);
    p.lines &= p.n_cases >= 3;
    return p;
}

static double panel_height(const panel *p)
{
    if (!p->n)
        return 0;
    double bars = (double)p->n * BAR + (double)p->n_cases * GAP;
    return 48 + (p->lines ? LINES_HEIGHT + 34 : bars + 30);
}

/* ---- Bars ------------------------------------------------------------------------------------ */

static void draw_bars(chart *c, const panel *p, double top)
{
    double max = panel_max(p), x0 = c->labels, width = WIDTH - x0 - MARGIN - 62;
    double tick = svg_tick(max, 5), y = top + 34, bottom = top + panel_height(p) - 40;
    svg_text(&c->s, MARGIN, top + 14, "label", "start", "%s, higher is better", unit(p));
    for (double v = 0; v <= max * 1.0001; v += tick) {
        double x = x0 + v / max * width;
        svg_line(&c->s, "grid", x, top + 28, x, bottom);
        svg_text(&c->s, x, bottom + 16, "small", "middle", "%g", v);
    }
    for (size_t i = 0; i < p->n; i++) {
        const bench_result *r = p->r[i];
        bool first = !i || strcmp(r->c.name, p->r[i - 1]->c.name);
        if (first && i)
            y += GAP;
        size_t group = 1;
        while (i + group < p->n && !strcmp(p->r[i + group]->c.name, r->c.name))
            group++;
        if (first)
            svg_text(&c->s, x0 - 10, y + (double)group * BAR / 2 + 4, "label", "end", "%s",
                     r->c.name);
        double v = speed(p, r), w = v / max * width;
        char *tip = tip_of(r);
        svg_rect(&c->s, (svg_box){x0, y + 1, w, BAR - 2.5},
                 svg_colour(device_index(c, r->device)), tip);
        free(tip);
        svg_text(&c->s, x0 + w + 6, y + BAR - 5, "value", "start", "%.*f", digits_for(v), v);
        y += BAR;
    }
    svg_line(&c->s, "axis", x0, top + 28, x0, bottom);
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* What tells the cases apart: the text after "op:type:". */
static const char *size_text(const bench_result *r)
{
    const char *at = strchr(r->c.name, ':');
    at = at ? strchr(at + 1, ':') : NULL;
    return at ? at + 1 : r->c.name;
}

static void draw_line(chart *c, const panel *p, size_t device, svg_box box, double max)
{
    double *points = cli_alloc_array(2 * (p->n + 1), sizeof *points);
    size_t n = 0, at = 0;
    const char *colour = svg_colour(device);
    for (size_t i = 0; i < p->n; i++) {
        at += i && strcmp(p->r[i]->c.name, p->r[i - 1]->c.name);
        if (strcmp(p->r[i]->device, c->devices[device]))
            continue;
        points[2 * n] = box.x + ((double)at + 0.5) / (double)p->n_cases * box.w;
        points[2 * n++ + 1] = box.y + box.h * (1 - speed(p, p->r[i]) / max);
    }
    svg_path(&c->s, points, n, colour);
    n = 0;
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->r[i]->device, c->devices[device]))
            continue;
        char *tip = tip_of(p->r[i]);
        double v = speed(p, p->r[i]);
        svg_dot(&c->s, points[2 * n], points[2 * n + 1], colour, tip);
        svg_text(&c->s, points[2 * n], points[2 * n + 1] - 10, "value", "middle", "%.*f",
                 digits_for(v), v);
        free(tip);
        n++;
    }
    free(points);
}

static void draw_lines(chart *c, const panel *p, double top)
{
    double tick = svg_tick(panel_max(p), 5), max = ceil(panel_max(p) * 1.08 / tick) * tick;
    svg_box box = {MARGIN + 56, top + 34, WIDTH - 2 * MARGIN - 56, LINES_HEIGHT - 20};
    svg_text(&c->s, MARGIN, top + 14, "label", "start", "%s:%s, %s against size", p->r[0]->c.op,
             rlx_dtype_name(p->r[0]->c.dtype), unit(p));
    for (double v = 0; v <= max * 1.0001; v += tick) {
        double y = box.y + box.h * (1 - v / max);
        svg_line(&c->s, v == 0 ? "axis" : "grid", box.x, y, box.x + box.w, y);
        svg_text(&c->s, box.x - 10, y + 4, "small", "end", "%g", v);
    }
    size_t at = 0;
    for (size_t i = 0; i < p->n; i++) {
        bool first = !i || strcmp(p->r[i]->c.name, p->r[i - 1]->c.name);
        if (!first)
            continue;
        double x = box.x + ((double)at + 0.5) / (double)p->n_cases * box.w;
        bool lower = p->n_cases > 6 && at % 2; /* long names take turns on two lines */
        svg_text(&c->s, x, box.y + box.h + (lower ? 32 : 18), "small", "middle", "%s",
                 size_text(p->r[i]));
        at++;
    }
    for (size_t d = 0; d < c->n_devices; d++)
        draw_line(c, p, d, box, max);
}

/* ---- The picture ----------------------------------------------------------------------------- */

/* The devices, in the order met, and the room that the longest name takes. */
static void lay_out(chart *c, const bench_result *r, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        c->labels = fmax(c->labels, MARGIN + 16 + LETTER * (double)strlen(r[i].c.name));
        while (k < c->n_devices && strcmp(c->devices[k], r[i].device))
            k++;
        if (k == c->n_devices && k < MAX_DEVICES)
            c->devices[c->n_devices++] = r[i].device;
    }
    c->labels = fmin(c->labels, WIDTH * 0.6);
}

static const char *name_of_device(const bench_result *r, size_t n, const char *id)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(r[i].device, id))
            return r[i].device_name;
    return "";
}

bool bench_plot(const bench_result *r, size_t n, const char *path)
{
    chart c = {.n_devices = 0};
    panel panels[] = {make_panel(r, n, true), make_panel(r, n, false)};
    double height = 100;
    lay_out(&c, r, n);
    for (size_t i = 0; i < ARRAY_LEN(panels); i++)
        height += panel_height(&panels[i]);
    bool ok = svg_open(&c.s, path, WIDTH, height, "rlx bench");
    if (ok) {
        svg_text(&c.s, MARGIN, 34, "title", "start", "rlx bench");
        double x = MARGIN, y = 84;
        for (size_t i = 0; i < c.n_devices; i++) {
            char *text = cli_format("%s (%s)", c.devices[i], name_of_device(r, n, c.devices[i]));
            x = svg_legend(&c.s, x, 60, svg_colour(i), text);
            free(text);
        }
        for (size_t i = 0; i < ARRAY_LEN(panels); i++) {
            if (panels[i].n && panels[i].lines)
                draw_lines(&c, &panels[i], y);
            else if (panels[i].n)
                draw_bars(&c, &panels[i], y);
            y += panel_height(&panels[i]);
        }
        ok = svg_close(&c.s);
    }
    for (size_t i = 0; i < ARRAY_LEN(panels); i++)
        free(panels[i].r);
    return ok;
}
