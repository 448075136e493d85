/* SPDX-License-Identifier: MIT */
/* Text in a picture: read DETECTOR.onnx RECOGNISER.onnx PICTURE.ppm prints the lines of text that
 * stand in it, from the top, with their boxes. Models are those of PP-OCR; the picture is a binary
 * PPM (P6). The detector gives the probability of text for each pixel; connected pixels are a line,
 * which is cut out and given to the recogniser. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rlx/rlx.h>

#define MAX_LINES 256
#define TEXT 0.3f     /* a pixel of text */
#define SURE 0.5f     /* the mean of a line of text */
#define GROW 1.6f     /* lines are found too thin */
#define LINE_HEIGHT 48

typedef struct picture {
    int w, h;
    unsigned char *rgb;
} picture;

typedef struct box {
    int x0, y0, x1, y1; /* x1 and y1 are inside */
} box;

/* A model, run for inputs of any size: its graph is built for each size. */
typedef struct reader {
    rlx_device *device;
    rlx_onnx *model;
    float *out;
    rlx_shape shape;
} reader;

static rlx_status run(reader *r, const float *x, int h, int w, rlx_error *err)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    rlx_graph *g = NULL;
    rlx_session *s = NULL;
    rlx_const_tensor weight;
    rlx_tensor_info info;
    rlx_status st = rlx_onnx_input(r->model, 0, &p, err);
    const rlx_import_value in = {p.name, RLX_F32, {4, {1, 3, h, w}}, x};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .device = r->device, .inputs = &in,
                               .n_inputs = 1};
    if (st == RLX_OK)
        st = rlx_graph_import(r->model, &d, &g, err);
    if (st == RLX_OK)
        st = rlx_session_create(r->device, g, NULL, &s, err);
    for (size_t i = 0; st == RLX_OK && rlx_onnx_param(r->model, i, &weight); i++)
        st = rlx_session_set_param(s, weight.name, weight.data, weight.bytes, RLX_BORROW, err);
    if (st == RLX_OK)
        st = rlx_session_set_input(s, p.name, x, (size_t)h * (size_t)w * 12, err);
    if (st == RLX_OK)
        st = rlx_run(s, NULL, 0, NULL, 0, err);
    if (st == RLX_OK && rlx_session_leaf(s, RLX_LEAF_OUTPUT, 0, &info)) {
        free(r->out);
        r->out = malloc(info.bytes + 1);
        r->shape = info.shape;
        st = r->out ? rlx_session_read(s, info.name, 0, r->out, info.bytes, err) : RLX_NO_MEMORY;
    }
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return st;
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static int load_picture(const char *path, picture *p)
{
    FILE *f = fopen(path, "rb");
    int most = 0;
    if (!f || fscanf(f, "P6 %d %d %d", &p->w, &p->h, &most) != 3 || most != 255 || p->w < 1 ||
        p->h < 1 || p->w > 20000 || p->h > 20000 || fgetc(f) == EOF) {
        if (f)
            fclose(f);
        return fprintf(stderr, "read: '%s' is no binary PPM of 8 bits\n", path);
    }
    const size_t n = (size_t)p->w * (size_t)p->h * 3;
    p->rgb = malloc(n);
    const int failed = !p->rgb || fread(p->rgb, 1, n, f) != n;
    fclose(f);
    return failed ? fprintf(stderr, "read: '%s' ends early\n", path) : 0;
}

/* A part of the picture as f32 [3, h, w] from -1 to 1, blue first, by linear interpolation. */
static void sample(const picture *p, const box *b, int h, int w, int to_w, float *to)
{
    for (int c = 0; c < 3; c++)
        for (int y = 0; y < h; y++)
            for (int x = 0; x < w; x++) {
                const float fy = ((float)y + 0.5f) * (float)(b->y1 - b->y0 + 1) / (float)h - 0.5f;
                const float fx = ((float)x + 0.5f) * (float)(b->x1 - b->x0 + 1) / (float)w - 0.5f;
                float sum = 0;
                for (int k = 0; k < 4; k++) {
                    /* fy and fx are at least -0.5: so much is cut away that it is the floor. */
                    const float ky = (float)((int)(fy + 1) - 1 + k / 2);
                    const float kx = (float)((int)(fx + 1) - 1 + k % 2);
                    const float weight = (1 - fabsf(fy - ky)) * (1 - fabsf(fx - kx));
                    int py = b->y0 + (int)ky, px = b->x0 + (int)kx;
                    py = py < b->y0 ? b->y0 : py > b->y1 ? b->y1 : py;
                    px = px < b->x0 ? b->x0 : px > b->x1 ? b->x1 : px;
                    sum += weight * (float)p->rgb[((size_t)py * (size_t)p->w + (size_t)px) * 3 +
                                                  (size_t)(2 - c)];
                }
                to[((size_t)c * (size_t)h + (size_t)y) * (size_t)to_w + (size_t)x] =
                    sum / 127.5f - 1;
            }
}

/* ---- Lines of text --------------------------------------------------------------------------- */

/* The box of the pixels above TEXT that are connected to pixel `at`, which are cleared; false when
 * their mean is too low or they are too few. */
static int take_box(float *map, int w, int h, int at, int *stack, box *b)
{
    int n = 0, count = 0;
    float sum = 0;
    *b = (box){w, h, -1, -1};
    stack[n++] = at;
    sum += map[at];
    map[at] = 0;
    while (n) {
        const int i = stack[--n], x = i % w, y = i / w;
        const int next[4] = {x > 0 ? i - 1 : -1, x < w - 1 ? i + 1 : -1, y > 0 ? i - w : -1,
                             y < h - 1 ? i + w : -1};
        b->x0 = x < b->x0 ? x : b->x0;
        b->x1 = x > b->x1 ? x : b->x1;
        b->y0 = y < b->y0 ? y : b->y0;
        b->y1 = y > b->y1 ? y : b->y1;
        count++;
        for (int k = 0; k < 4; k++)
            if (next[k] >= 0 && map[next[k]] > TEXT) {
                sum += map[next[k]];
                map[next[k]] = 0;
                stack[n++] = next[k];
            }
    }
    return count >= 12 && b->y1 - b->y0 >= 2 && sum / (float)count > SURE;
}

/* The box in the picture: grown by its area over its circumference, and scaled. */
static box grow_box(const picture *p, const box *b, int w, int h)
{
    const float bw = (float)(b->x1 - b->x0 + 1), bh = (float)(b->y1 - b->y0 + 1);
    const float by = bw * bh * GROW / (2 * (bw + bh));
    const float sx = (float)p->w / (float)w, sy = (float)p->h / (float)h;
    box r = {(int)(((float)b->x0 - by) * sx), (int)(((float)b->y0 - by) * sy),
             (int)(((float)b->x1 + 1 + by) * sx), (int)(((float)b->y1 + 1 + by) * sy)};
    r.x0 = r.x0 < 0 ? 0 : r.x0;
    r.y0 = r.y0 < 0 ? 0 : r.y0;
    r.x1 = r.x1 >= p->w ? p->w - 1 : r.x1;
    r.y1 = r.y1 >= p->h ? p->h - 1 : r.y1;
    return r;
}

static int by_place(const void *a, const void *b)
{
    const box *p = a, *q = b;
    const int apart = p->y0 + p->y1 - q->y0 - q->y1;
    return abs(apart) > p->y1 - p->y0 ? apart : p->x0 - q->x0;
}

static rlx_status find_lines(reader *r, const picture *p, box *boxes, int *n, rlx_error *err)
{
    const box all = {0, 0, p->w - 1, p->h - 1};
    const int h = (p->h + 31) / 32 * 32, w = (p->w + 31) / 32 * 32;
    const size_t size = (size_t)h * (size_t)w;
    float *x = calloc(size * 3, sizeof *x);
    int *stack = malloc(size * sizeof *stack);
    rlx_status st = x && stack ? RLX_OK : RLX_NO_MEMORY;
    *n = 0;
    if (st == RLX_OK) {
        sample(p, &all, h, w, w, x);
        st = run(r, x, h, w, err);
    }
    for (size_t i = 0; st == RLX_OK && i < size && *n < MAX_LINES; i++) {
        box b;
        if (r->out[i] > TEXT && take_box(r->out, w, h, (int)i, stack, &b))
            boxes[(*n)++] = grow_box(p, &b, w, h);
    }
    qsort(boxes, (size_t)*n, sizeof *boxes, by_place);
    free(stack);
    free(x);
    return st;
}

/* Prints letter `id` of the alphabet: one a line of `letters`, 0 is none, the last is a space. */
static void print_letter(const char *letters, int64_t id)
{
    for (int64_t i = 1; i < id && letters; i++) {
        letters = strchr(letters, '\n');
        letters = letters ? letters + 1 : NULL;
    }
    if (letters && *letters)
        printf("%.*s", (int)strcspn(letters, "\r\n"), letters);
    else
        putchar(' ');
}

/* The most likely letter of each column; equal neighbours are one. */
static rlx_status read_line(reader *r, const picture *p, const box *b, rlx_error *err)
{
    const char *letters = rlx_onnx_metadata(r->model, "character");
    const int wide = (b->x1 - b->x0 + 1) * LINE_HEIGHT / (b->y1 - b->y0 + 1);
    const int w = wide < 16 ? 16 : wide > 4000 ? 4000 : wide, padded = w < 320 ? 320 : w;
    float *x = calloc((size_t)padded * LINE_HEIGHT * 3, sizeof *x);
    if (!x)
        return RLX_NO_MEMORY;
    sample(p, b, LINE_HEIGHT, w, padded, x);
    const rlx_status st = run(r, x, LINE_HEIGHT, padded, err);
    free(x);
    int64_t before = 0;
    for (int64_t t = 0; st == RLX_OK && t < r->shape.dim[1]; t++) {
        const float *row = r->out + t * r->shape.dim[2];
        int64_t best = 0;
        for (int64_t k = 1; k < r->shape.dim[2]; k++)
            best = row[k] > row[best] ? k : best;
        if (best && best != before)
            print_letter(letters, best);
        before = best;
    }
    putchar('\n');
    return st;
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    reader find = {0}, letters = {0};
    picture p = {0};
    box boxes[MAX_LINES];
    int n = 0;
    if (argc != 4)
        return !printf("usage: read DETECTOR.onnx RECOGNISER.onnx PICTURE.ppm\n");
    if (load_picture(argv[3], &p))
        return 1;
    const char *id = getenv("RLX_DEVICE");
    rlx_status st = rlx_device_open(id ? id : "cpu", NULL, &find.device, &err);
    letters.device = find.device;
    if (st == RLX_OK)
        st = rlx_onnx_open(argv[1], &find.model, &err);
    if (st == RLX_OK)
        st = rlx_onnx_open(argv[2], &letters.model, &err);
    if (st == RLX_OK)
        st = find_lines(&find, &p, boxes, &n, &err);
    for (int i = 0; i < n && st == RLX_OK; i++) {
        printf("%4d %4d %4d %4d  ", boxes[i].x0, boxes[i].y0, boxes[i].x1, boxes[i].y1);
        st = read_line(&letters, &p, &boxes[i], &err);
    }
    if (st != RLX_OK)
        fprintf(stderr, "read: %s\n", st == RLX_NO_MEMORY ? "out of memory" : err.text);
    rlx_onnx_close(find.model);
    rlx_onnx_close(letters.model);
    rlx_device_close(find.device);
    free(find.out);
    free(letters.out);
    free(p.rgb);
    return st != RLX_OK;
}
