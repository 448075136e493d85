/* SPDX-License-Identifier: MIT */
/* Writes SVG pictures. */
#include "svg.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

/* What every picture of rlx begins with. */
#define MAGIC "<svg xmlns=\"http://www.w3.org/2000/svg\""

/* Seven hues of like weight, told apart by people who see few colours, then a grey. */
static const char *const palette[] = {"#3b82c4", "#e07b39", "#2a9d8f", "#c94f7c", "#8d6fc7",
                                      "#b8a038", "#5aa9e6", "#8a8f98"};

/* Greys that can be read on any ground, and better ones where the viewer tells which it is. */
static const char style[] =
    "<style>\n"
    "  text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif;\n"
    "         fill: #7d8590; font-size: 12px; }\n"
    "  .title { font-size: 16px; font-weight: 600; }\n"
    "  .label { font-size: 12.5px; }\n"
    "  .small { font-size: 11px; }\n"
    "  .value { font-size: 11.5px; font-weight: 600; }\n"
    "  .inside { font-size: 11.5px; font-weight: 600; fill: #ffffff; }\n"
    "  .grid { stroke: #8a8f98; stroke-opacity: .25; stroke-width: 1; }\n"
    "  .axis { stroke: #8a8f98; stroke-width: 1; }\n"
    "  .bound { stroke: #d1495b; stroke-width: 1.5; stroke-dasharray: 6 4; }\n"
    "  @media (prefers-color-scheme: light) {\n"
    "    text { fill: #59636e; }\n"
    "    .title { fill: #1f2328; }\n"
    "    .label, .value { fill: #3a434d; }\n"
    "    .inside { fill: #ffffff; }\n"
    "  }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #a3adb8; }\n"
    "    .title { fill: #e6edf3; }\n"
    "    .label, .value { fill: #ccd4dc; }\n"
    "    .inside { fill: #ffffff; }\n"
    "  }\n"
    "</style>\n";

static void put_escaped(FILE *f, const char *text)
{
    char *safe = term_escape(text, strlen(text), true);
    for (const char *s = safe; *s; s++) {
        switch (*s) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        default: fputc((unsigned char)*s < 0x20 ? ' ' : *s, f);
        }
    }
    free(safe);
}

bool svg_open(svg *s, const char *path, double width, double height, const char *title)
{
    *s = (svg){0};
    if (!report_open(&s->file, path, "an SVG picture"))
        return false;
    s->f = s->file.f;
    fprintf(s->f, MAGIC " width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                  "role=\"img\">\n<title>", width, height, width, height);
    put_escaped(s->f, title);
    fprintf(s->f, "</title>\n%s", style);
    return true;
}

bool svg_close(svg *s)
{
    fputs("</svg>\n", s->f);
    return report_close(&s->file, strlen(MAGIC));
}

const char *svg_colour(size_t i)
{
    return palette[i % ARRAY_LEN(palette)];
}

static void end_with_tip(svg *s, const char *element, const char *tip)
{
    if (!tip) {
        fputs("/>\n", s->f);
        return;
    }
    fputs("><title>", s->f);
    put_escaped(s->f, tip);
    fprintf(s->f, "</title></%s>\n", element);
}

void svg_rect(svg *s, svg_box b, const char *colour, const char *tip)
{
    double round = fmin(2.5, fmin(b.w, b.h) / 4);
    fprintf(s->f, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" rx=\"%.2f\" "
                  "fill=\"%s\"", b.x, b.y, fmax(b.w, 0.4), fmax(b.h, 0.4), round, colour);
    end_with_tip(s, "rect", tip);
}

void svg_text(svg *s, double x, double y, const char *kind, const char *anchor, const char *format,
              ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fprintf(s->f, "<text x=\"%.2f\" y=\"%.2f\" class=\"%s\" text-anchor=\"%s\">", x, y, kind,
            anchor);
    put_escaped(s->f, text);
    fputs("</text>\n", s->f);
}

void svg_line(svg *s, const char *kind, double x1, double y1, double x2, double y2)
{
    fprintf(s->f, "<line class=\"%s\" x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\"/>\n", kind,
            x1, y1, x2, y2);
}

void svg_dot(svg *s, double x, double y, const char *colour, const char *tip)
{
    fprintf(s->f, "<circle cx=\"%.2f\" cy=\"%.2f\" r=\"4\" fill=\"%s\"", x, y, colour);
    end_with_tip(s, "circle", tip);
}

void svg_path(svg *s, const double *points, size_t n, const char *colour)
{
    fputs("<polyline points=\"", s->f);
    for (size_t i = 0; i < n; i++)
        fprintf(s->f, "%s%.2f,%.2f", i ? " " : "", points[2 * i], points[2 * i + 1]);
    fprintf(s->f, "\" fill=\"none\" stroke=\"%s\" stroke-width=\"2.2\" stroke-linejoin=\"round\" "
                  "stroke-linecap=\"round\"/>\n", colour);
}

double svg_legend(svg *s, double x, double y, const char *colour, const char *text)
{
    svg_rect(s, (svg_box){x, y - 9.5, 11, 11}, colour, NULL);
    svg_text(s, x + 17, y, "label", "start", "%s", text);
    return x + 17 + 7.2 * (double)strlen(text) + 18;
}

double svg_tick(double max, int n)
{
    if (!(max > 0))
        return 1;
    double raw = max / n, power = pow(10, floor(log10(raw))), m = raw / power;
    return power * (m <= 1 ? 1 : m <= 2 ? 2 : m <= 5 ? 5 : 10);
}
