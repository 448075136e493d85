/* SPDX-License-Identifier: MIT */
/* libFuzzer target: any bytes as a model in a GGUF file: its facts, its graph, its tables. Built by
 * ./run fuzz. */
#include "base/mem.h"
#include "import/file.h"
#include "model/arch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void make_params(const rx_facts *facts, const rx_build_desc *d, const rlx_graph *g)
{
    rlx_leaf_info info;
    for (size_t i = 0; rlx_graph_leaf(g, RLX_LEAF_PARAM, i, &info); i++) {
        rlx_error err;
        const void *data;
        size_t bytes;
        bool owned;
        if (rx_arch_param(facts, d, info.name, &data, &bytes, &owned, &err) == RLX_OK && owned)
            rx_free((void *)data);
    }
}

/* The first byte also says what graph is built. */
static void build(const rx_facts *facts, uint8_t how)
{
    rlx_graph *g;
    rlx_error err;
    const rlx_dtype caches[] = {RLX_F16, RLX_F32, RLX_Q8_0, RLX_F16};
    const rx_build_desc d = {.sequences = 1 + how % 2, .context = 8, .prompt_chunk = 4,
                             .cache = caches[how / 2 % 4], .scores = how & 8};
    if (rx_arch_build(facts, &d, &g, &err) == RLX_OK)
        make_params(facts, &d, g);
    rlx_graph_destroy(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    rlx_file *file;
    rx_facts *facts;
    rlx_error err;
    if (n < 1 || rx_file_from_memory(data + 1, n - 1, "fuzz.gguf", &file, &err) != RLX_OK)
        return 0;
    if (rx_facts_read(file, NULL, 0, &facts, &err) == RLX_OK) {
        build(facts, data[0]);
        rx_facts_destroy(facts);
    }
    rlx_file_close(file);
    return 0;
}
