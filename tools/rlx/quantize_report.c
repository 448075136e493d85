/* SPDX-License-Identifier: MIT */
/* The table of types of 'rlx quantize' and 'rlx convert'. */
#include "quantize_report.h"

#include <math.h>

#include "cli.h"
#include "tensor.h"
#include "term.h"

void quantize_count(quantize_report *r, const rlx_file_tensor *t, double before, rlx_dtype to,
                    const rlx_quantize_rows_stats *stats)
{
    type_row *rows[] = {&r->rows[to], &r->all};
    const double elements = (double)tensor_elements(&t->shape);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        rows[i]->type = to;
        rows[i]->n_tensors++;
        rows[i]->elements += elements;
        rows[i]->before += before;
        rows[i]->after += elements / (double)rlx_dtype_block_size(to) *
                          (double)rlx_dtype_block_bytes(to);
        rows[i]->stats.squares += stats->squares;
        rows[i]->stats.error += stats->error;
    }
}

/* Error relative to the size of the weights; negative when nothing changed. */
static double relative_error(const type_row *r)
{
    return r->stats.squares > 0 ? sqrt(r->stats.error / r->stats.squares) : -1;
}

static void print_row(table *t, const char *name, const type_row *r)
{
    char text[SHORT_TEXT];
    table_cell(t, "%s", name);
    table_cell(t, "%zu", r->n_tensors);
    table_cell(t, "%s", short_count(r->elements, text));
    table_cell(t, "%s", short_bytes(r->before, text));
    table_cell(t, "%s", short_bytes(r->after, text));
    table_cell(t, "%.2f", r->elements > 0 ? 8 * r->after / r->elements : 0);
    if (relative_error(r) < 0)
        table_cell(t, "-");
    else
        table_cell(t, "%.3f %%", 100 * relative_error(r));
}

void quantize_print(const quantize_report *r)
{
    table t;
    if (r->n_fallbacks)
        printf("%zu tensors have rows that do not fit the blocks and got a wider type\n",
               r->n_fallbacks);
    putchar('\n');
    table_init(&t, "lrrrrrr", "type|tensors|elements|before|after|bits|rms error");
    for (int i = 0; i < RLX_N_DTYPES; i++)
        if (r->rows[i].n_tensors)
            print_row(&t, rlx_dtype_name(r->rows[i].type), &r->rows[i]);
    print_row(&t, "all", &r->all);
    table_print(&t, 2);
}

static void json_type(json *out, const char *key, const type_row *r)
{
    json_row(out, key);
    json_int(out, "tensors", (int64_t)r->n_tensors);
    json_int(out, "elements", (int64_t)r->elements);
    json_int(out, "bytes_before", (int64_t)r->before);
    json_int(out, "bytes_after", (int64_t)r->after);
    json_real(out, "rms_error", relative_error(r) < 0 ? 0 : relative_error(r));
    json_end(out);
}

void quantize_json(json *out, const quantize_report *r)
{
    json_object(out, "types");
    for (int i = 0; i < RLX_N_DTYPES; i++)
        if (r->rows[i].n_tensors)
            json_type(out, rlx_dtype_name(r->rows[i].type), &r->rows[i]);
    json_end(out);
    json_type(out, "all", &r->all);
}
