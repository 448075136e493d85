/* SPDX-License-Identifier: MIT */
/* Draws the losses of a training: those of the steps, smoothed, and of the validation. */
#include <math.h>
#include <stdlib.h>

#include "svg.h"
#include "train_plot.h"

#define WIDTH 860.0
#define HEIGHT 420.0
#define LEFT 64.0
#define RIGHT 24.0
#define TOP 64.0
#define BOTTOM 44.0
#define MOST_POINTS 400 /* of a line: neighbours are averaged */

typedef struct axes {
    double steps, low, high; /* of the losses */
} axes;

static double x_of(const axes *a, double step)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * step / a->steps;
}

static double y_of(const axes *a, double loss)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (a->high - loss) / (a->high - a->low);
}

static void widen(axes *a, const rlx_trainer_loss *l, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        a->steps = fmax(a->steps, (double)l[i].step);
        a->low = fmin(a->low, l[i].loss);
        a->high = fmax(a->high, l[i].loss);
    }
}

static void draw_grid(svg *s, const axes *a)
{
    const double tick = svg_tick(a->high - a->low, 6), step = svg_tick(a->steps, 8);
    for (double v = ceil(a->low / tick) * tick; v <= a->high; v += tick) {
        svg_line(s, "grid", LEFT, y_of(a, v), WIDTH - RIGHT, y_of(a, v));
        svg_text(s, LEFT - 8, y_of(a, v) + 4, "small", "end", "%.4g", v);
    }
    for (double v = 0; v <= a->steps; v += fmax(step, 1))
        svg_text(s, x_of(a, v), HEIGHT - BOTTOM + 18, "small", "middle", "%.0f", v);
    svg_line(s, "axis", LEFT, HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
    svg_text(s, WIDTH - RIGHT, HEIGHT - 8, "small", "end", "steps");
}

/* Each point is the mean of `group` losses. */
static void draw_line(svg *s, const axes *a, const rlx_trainer_loss *l, size_t n, size_t group,
                      const char *colour)
{
    double *points = cli_alloc_array(2 * (n / group + 1), sizeof *points);
    size_t k = 0;
    for (size_t at = 0; at < n; at += group) {
        double sum = 0, where = 0;
        const size_t m = n - at < group ? n - at : group;
        for (size_t i = at; i < at + m; i++) {
            sum += l[i].loss;
            where += (double)l[i].step;
        }
        points[2 * k] = x_of(a, where / (double)m);
        points[2 * k++ + 1] = y_of(a, sum / (double)m);
    }
    svg_path(s, points, k, colour);
    free(points);
}

bool train_plot(const char *path, const char *title, const rlx_trainer *t)
{
    svg s;
    size_t n, held;
    const rlx_trainer_loss *l = rlx_trainer_losses(t, false, &n);
    const rlx_trainer_loss *v = rlx_trainer_losses(t, true, &held);
    axes a = {.steps = 1, .low = 0, .high = 1e-6};
    widen(&a, l, n);
    widen(&a, v, held);
    a.high *= 1.05;
    if (!svg_open(&s, path, WIDTH, HEIGHT, title))
        return false;
    svg_text(&s, LEFT, 28, "title", "start", "%s", title);
    double x = svg_legend(&s, LEFT, 50, svg_colour(0), "loss of the steps");
    if (held)
        svg_legend(&s, x, 50, svg_colour(1), "validation");
    draw_grid(&s, &a);
    draw_line(&s, &a, l, n, n / MOST_POINTS + 1, svg_colour(0));
    if (held)
        draw_line(&s, &a, v, held, 1, svg_colour(1));
    for (size_t i = 0; i < held; i++)
        svg_dot(&s, x_of(&a, (double)v[i].step), y_of(&a, v[i].loss), svg_colour(1), NULL);
    return svg_close(&s);
}
