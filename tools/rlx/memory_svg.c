/* SPDX-License-Identifier: MIT */
/* Plot of a memory plan: x are the steps, y the bytes of the arena, and each tensor is a box over
 * its lifetime. */
#include "memory_svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "svg.h"
#include "term.h"
#include "trace.h"

#define WIDTH 1180.0
#define HEIGHT 640.0
#define LEFT 92.0
#define RIGHT 24.0
#define TOP 104.0
#define BOTTOM 52.0

/* Families by the beginning of an op's name; the first that fits. The order is that of colours. */
static const struct {
    const char *name, *prefixes;
} families[] = {
    {"matrix", "matmul dot_ lora_ grouped_ dequant qmatmul quantize"},
    {"elementwise", "region"},
    {"norm, softmax", "layer_norm rms_norm group_norm instance_ batch_ ada_ residual_ softmax "
                      "log_softmax swiglu gated_residual"},
    {"attention, rope", "attention rope"},
    {"convolution", "conv qconv pool im2col resize"},
    {"reduce, order", "reduce arg cum top_k sort histogram one_hot"},
    {"shape, index", "reshape transpose narrow slice expand copy concat split tile pad reverse "
                     "roll trilu gather scatter state"},
    {"other", ""},
};

static size_t family_of(const char *op)
{
    for (size_t i = 0; i + 1 < ARRAY_LEN(families); i++)
        for (const char *p = families[i].prefixes; *p; p += strspn(p, " ")) {
            size_t n = strcspn(p, " ");
            if (!strncmp(op, p, n))
                return i;
            p += n;
        }
    static const char *const recurrent[] = {"lstm", "gru", "rnn", "fft", "ifft", "rfft", "irfft",
                                            "stft", "mamba2", "selective_scan", "sample"};
    for (size_t i = 0; i < ARRAY_LEN(recurrent); i++)
        if (!strcmp(op, recurrent[i]))
            return ARRAY_LEN(families) - 1;
    return 1; /* what is left are the elementwise operations, by far the most */
}

typedef struct plan_picture {
    svg s;
    size_t n_steps;
    double bytes, x_scale, y_scale;
} plan_picture;

static double x_of(const plan_picture *p, double step)
{
    return LEFT + step * p->x_scale;
}

static double y_of(const plan_picture *p, double byte)
{
    return HEIGHT - BOTTOM - byte * p->y_scale;
}

static void draw_axes(plan_picture *p)
{
    char text[SHORT_TEXT];
    double tick = exp2(ceil(log2(p->bytes / 8)));
    for (double b = 0; b <= p->bytes * 1.0001; b += tick) {
        svg_line(&p->s, "grid", LEFT, y_of(p, b), WIDTH - RIGHT, y_of(p, b));
        svg_text(&p->s, LEFT - 10, y_of(p, b) + 4, "small", "end", "%s", short_bytes(b, text));
    }
    double step = fmax(1, svg_tick((double)p->n_steps, 24));
    for (double i = 0; i < (double)p->n_steps; i += step) {
        double x = x_of(p, i + (step > 1 ? 0 : 0.5)); /* a step is a column when they are few */
        svg_text(&p->s, x, HEIGHT - BOTTOM + 18, "small", "middle", "%.0f", i);
    }
    svg_text(&p->s, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12, "label", "middle", "step");
    svg_line(&p->s, "axis", LEFT, y_of(p, 0), WIDTH - RIGHT, y_of(p, 0));
}

/* The name of the node, or else the operation, where the box has room for it. */
static void draw_label(plan_picture *p, const rlx_step_info *step, svg_box b)
{
    const char *text = step->node[0] ? step->node : step->op;
    if (b.h >= 16 && b.w >= 7 * (double)strlen(text) + 8)
        svg_text(&p->s, b.x + b.w / 2, b.y + b.h / 2 + 4, "inside", "middle", "%s", text);
}

static void draw_tensors(plan_picture *p, const work *w, bool *seen)
{
    for (size_t i = 0; i < p->n_steps; i++) {
        rlx_step_info step = {RLX_INIT(rlx_step_info)};
        if (rlx_session_step(w->session, i, &step, NULL) != RLX_OK || !step.size)
            continue;
        size_t family = family_of(step.op);
        seen[family] = true;
        char size[SHORT_TEXT];
        size_t end = step.last_use < p->n_steps ? step.last_use + 1 : p->n_steps;
        char *tip = cli_format("step %zu: %s %s\n%s\n%s at byte %llu, until step %zu", i, step.op,
                               step.node, step.shapes, short_bytes((double)step.size, size),
                               (unsigned long long)step.offset, step.last_use);
        double gap = p->x_scale > 4 ? 1 : p->x_scale * 0.1;
        double x = x_of(p, (double)i), y = y_of(p, (double)(step.offset + step.size));
        double h = (double)step.size * p->y_scale;
        svg_box box = {x + gap / 2, y, x_of(p, (double)(end > i ? end : i + 1)) - x - gap,
                       h > 3 ? h - 1 : h};
        svg_rect(&p->s, box, svg_colour(family), tip);
        draw_label(p, &step, box);
        free(tip);
    }
}

static void draw_heading(plan_picture *p, const work *w, const rlx_memory_info *m, const bool *seen)
{
    char arena[SHORT_TEXT], bound[SHORT_TEXT], unshared[SHORT_TEXT];
    svg_text(&p->s, LEFT, 32, "title", "start", "Memory plan of \"%s\" on %s",
             rlx_graph_name(w->graph), w->device_info.id);
    svg_text(&p->s, LEFT, 54, "label", "start",
             "arena %s = %.2f x the peak of live bytes (%s); without reuse %s",
             short_bytes((double)m->arena_bytes, arena),
             m->arena_bound ? (double)m->arena_bytes / (double)m->arena_bound : 1.0,
             short_bytes((double)m->arena_bound, bound),
             short_bytes((double)m->unshared_bytes, unshared));
    double x = LEFT;
    for (size_t i = 0; i < ARRAY_LEN(families); i++)
        if (seen[i])
            x = svg_legend(&p->s, x, 82, svg_colour(i), families[i].name);
    svg_line(&p->s, "bound", x, 78, x + 24, 78);
    svg_text(&p->s, x + 31, 82, "label", "start", "peak of live bytes");
}

bool write_memory_svg(const work *w, const char *path)
{
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    rlx_session_memory(w->session, &m, NULL);
    plan_picture p = {.n_steps = rlx_session_n_steps(w->session),
                      .bytes = fmax(1, (double)m.arena_bytes)};
    p.x_scale = (WIDTH - LEFT - RIGHT) / (double)(p.n_steps ? p.n_steps : 1);
    p.y_scale = (HEIGHT - TOP - BOTTOM) / p.bytes;
    if (!svg_open(&p.s, path, WIDTH, HEIGHT, "memory plan"))
        return false;
    bool seen[ARRAY_LEN(families)] = {0};
    draw_axes(&p);
    draw_tensors(&p, w, seen);
    double y = y_of(&p, (double)m.arena_bound);
    svg_line(&p.s, "bound", LEFT, y, WIDTH - RIGHT, y);
    draw_heading(&p, w, &m, seen);
    return svg_close(&p.s);
}

/* ---- Trace ----------------------------------------------------------------------------------- */

static void trace_step(json *j, const rlx_step_info *step, double begin, double seconds)
{
    json_row(j, NULL);
    json_text(j, "name", step->node[0] ? step->node : step->op);
    json_text(j, "cat", step->op);
    json_text(j, "ph", "X");
    json_real(j, "ts", begin * 1e6);
    json_real(j, "dur", seconds * 1e6);
    json_int(j, "pid", 1);
    json_int(j, "tid", 1);
    json_row(j, "args");
    json_text(j, "op", step->op);
    json_text(j, "kernel", step->kernel);
    json_text(j, "support", rlx_support_name(step->support));
    json_text(j, "shapes", step->shapes);
    json_real(j, "gflops", seconds > 0 ? step->flops / seconds * 1e-9 : 0);
    json_real(j, "gbps", seconds > 0 ? step->bytes / seconds * 1e-9 : 0);
    json_end(j);
    json_end(j);
}

static void trace_name(json *j, const char *what, const char *name)
{
    json_row(j, NULL);
    json_text(j, "name", what);
    json_text(j, "ph", "M");
    json_int(j, "pid", 1);
    json_int(j, "tid", 1);
    json_row(j, "args");
    json_text(j, "name", name);
    json_end(j);
    json_end(j);
}

bool write_trace(const work *w, const step_time *times, size_t n, const char *path)
{
    report file;
    json j;
    double now = 0;
    if (!trace_begin(&file, path, "ms", &j))
        return false;
    trace_name(&j, "process_name", rlx_graph_name(w->graph));
    trace_name(&j, "thread_name", w->device_info.id);
    for (size_t i = 0; i < n; i++) {
        rlx_step_info step = {RLX_INIT(rlx_step_info)};
        if (rlx_session_step(w->session, times[i].step, &step, NULL) == RLX_OK) {
            step.kernel = times[i].kernel;
            trace_step(&j, &step, now, times[i].seconds);
        }
        now += times[i].seconds;
    }
    return trace_end(&file, &j);
}
