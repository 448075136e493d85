/* SPDX-License-Identifier: MIT */
/* What the driver says of the compiled kernels of a program, by
 * VK_KHR_pipeline_executable_properties, on a device that was opened to compile only. */
#include <stdio.h>
#include <string.h>

#include "vulkan/device.h"

#define MAX_STATS (sizeof((rlx_kernel_info *)0)->stats / sizeof(rlx_kernel_stat))

static double value_of(const VkPipelineExecutableStatisticKHR *s)
{
    switch (s->format) {
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR: return s->value.b32;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR: return (double)s->value.i64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR: return (double)s->value.u64;
    case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_FLOAT64_KHR: return s->value.f64;
    default: return 0;
    }
}

/* A compute pipeline is one executable, the first. */
static void ask_statistics(rx_device *d, const rx_pipeline *p, rlx_kernel_info *out)
{
    VkPipelineExecutableStatisticKHR list[MAX_STATS];
    const VkPipelineExecutableInfoKHR which = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, .pipeline = p->handle};
    const VkPipelineInfoKHR info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR,
                                    .pipeline = p->handle};
    VkPipelineExecutablePropertiesKHR executable = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR};
    uint32_t n = MAX_STATS, n_executables = 1;
    for (uint32_t i = 0; i < n; i++)
        list[i] = (VkPipelineExecutableStatisticKHR){
            .sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
    if (!d->compile_only || !d->vk.GetPipelineExecutablePropertiesKHR ||
        !d->vk.GetPipelineExecutableStatisticsKHR ||
        d->vk.GetPipelineExecutablePropertiesKHR(d->handle, &info, &n_executables,
                                                 &executable) < VK_SUCCESS || !n_executables ||
        d->vk.GetPipelineExecutableStatisticsKHR(d->handle, &which, &n, list) < VK_SUCCESS)
        return;
    out->subgroup = executable.subgroupSize ? executable.subgroupSize : out->subgroup;
    for (out->n_stats = 0; out->n_stats < n; out->n_stats++) {
        rlx_kernel_stat *to = &out->stats[out->n_stats];
        snprintf(to->name, sizeof to->name, "%.47s", list[out->n_stats].name);
        to->value = value_of(&list[out->n_stats]);
    }
}

static rlx_status describe(rx_device *d, const rx_pipeline *p, rlx_kernel_info *out,
                           rlx_error *err)
{
    rx_str s = {0};
    const bool emitted = p->kernel == RX_K_EMITTED;
    snprintf(out->name, sizeof out->name, "%s", emitted ? "emitted" : rx_kernels[p->kernel].name);
    rx_gpu_constants_print(&s, p->kernel, p->spec, p->n_spec);
    char *text;
    RLX_TRY(rx_str_take(&s, &text, NULL, err));
    snprintf(out->constants, sizeof out->constants, "%s", text + (*text == ' '));
    rx_free(text);
    out->invocations = p->spec[0];
    out->subgroup = p->subgroup;
    ask_statistics(d, p, out);
    return RLX_OK;
}

/* The pipeline of dispatch k of the program, then of those that pack its weights. */
static const rx_pipeline *pipeline_at(const rx_gpu_recording *r, size_t k)
{
    return k < r->commands->n ? r->commands->list[k].pipeline
                              : r->derived[k - r->commands->n]->pack->dispatch.pipeline;
}

rlx_status rx_vk_exec_kernel_info(rx_exec *e, size_t i, rlx_kernel_info *out, rlx_error *err)
{
    const rx_gpu_recording *r = e->base.now;
    const size_t n_run = r ? r->commands->n : 0, n = n_run + (r ? r->n_derived : 0);
    size_t n_seen = 0;
    for (size_t k = 0; k < n; k++) {
        const rx_pipeline *p = pipeline_at(r, k);
        size_t first = 0;
        while (pipeline_at(r, first) != p)
            first++;
        if (first < k || n_seen++ != i)
            continue;
        for (size_t u = 0; u < n_run; u++)
            out->n_dispatches += pipeline_at(r, u) == p;
        return describe(e->device, p, out, err);
    }
    return rx_fail(err, RLX_NOT_FOUND, "the session uses %zu kernels; kernel %zu was asked for",
                   n_seen, i);
}
