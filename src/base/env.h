/* SPDX-License-Identifier: MIT */
/* The environment variables of rlx: one table, read through these functions and nowhere else. For
 * each there is an option of the API or of the command line, which takes precedence. */
#ifndef RX_BASE_ENV_H
#define RX_BASE_ENV_H

#include "rlx/base.h"

/* X(enumerator after RX_ENV_, name, help) */
#define RX_ENV_TABLE(X)                                                                          \
    X(DEVICE, "RLX_DEVICE", "device that \"auto\" opens: cpu, vulkan, vulkan:1, webgpu, ...")    \
    X(LOG, "RLX_LOG", "log level of the command line: off, error, warn, info, debug, trace")     \
    X(THREADS, "RLX_THREADS", "threads of the CPU device; default: what the process may use")    \
    X(CPU, "RLX_CPU", "most that CPU kernels use: generic, avx2, avx512, vnni, neon, ...")       \
    X(CACHE_DIR, "RLX_CACHE_DIR", "folder of pipeline and calibration caches")                   \
    X(STORE, "RLX_STORE", "folder of the models that 'rlx pull' gets")                           \
    X(HISTORY, "RLX_HISTORY", "file with what was typed in 'rlx chat'; /dev/null: none is kept")  \
    X(HUB, "RLX_HUB", "server of 'rlx pull OWNER/REPO:FILE'; default https://huggingface.co")     \
    X(CALIBRATE, "RLX_CALIBRATE", "1: measure devices never measured before choosing one")        \
    X(KERNELS, "RLX_KERNELS", "GPU kernel variants, as name=choice,...; else as calibrated")       \
    X(VULKAN_VALIDATION, "RLX_VULKAN_VALIDATION", "1: Vulkan validation layers")                 \
    X(VULKAN_ARENA_DEBUG, "RLX_VULKAN_ARENA_DEBUG", "1: log Vulkan memory; host, device: where")  \
    X(WEBGPU_BACKEND, "RLX_WEBGPU_BACKEND", "what WebGPU runs on: vulkan, metal, dx12, gl")      \
    X(WEBGPU_LIBRARY, "RLX_WEBGPU_LIBRARY", "WebGPU library to open: wgpu-native or Dawn")        \
    X(SCHEDULE, "RLX_SCHEDULE", "1: log the schedule of each compiled program")                  \
    X(DISPATCH_REPORT, "RLX_DISPATCH_REPORT", "1: log how each step of a program runs")          \
    X(DUMP_NODES, "RLX_DUMP_NODES", "1: log the largest magnitude in the results of each step")  \
    X(BENCH_DISPATCH_ONLY, "RLX_BENCH_DISPATCH_ONLY", "1: benchmarks leave out uploads and reads") \
    X(FORCE_INPUT_UPLOAD, "RLX_FORCE_INPUT_UPLOAD", "1: upload inputs that did not change too")  \
    X(NO_COOPMAT, "RLX_NO_COOPMAT", "1: no cooperative matrices (tensor cores)")                 \
    X(NO_FUSION, "RLX_NO_FUSION", "1: no fusion")                                                \
    X(FULL_BARRIER, "RLX_FULL_BARRIER", "1: a full barrier between all GPU dispatches")          \
    X(CHAIN, "RLX_CHAIN", "0: GPU dispatches wait by barriers; 1: by themselves, on any device")  \
    X(LIMITS, "RLX_LIMITS", "small device limits for tests, as name=value,...")

typedef enum rx_env {
#define X(id, name, help) RX_ENV_##id,
    RX_ENV_TABLE(X)
#undef X
    RX_N_ENV
} rx_env;

/* The text of a variable, or NULL when it is not set or empty. Valid until the environment is
 * changed. */
const char *rx_env_text(rx_env v);
/* True for any text but "0", "no", "off" and "false". */
bool rx_env_flag(rx_env v);
/* The number in a variable; `dflt` when it is not set or not a number from `lo` to `hi`, which is
 * logged. */
int64_t rx_env_number(rx_env v, int64_t lo, int64_t hi, int64_t dflt);
/* The folder for caches: RLX_CACHE_DIR, else rlx in the user's cache folder. False when the user
 * has none or it does not fit. */
bool rx_env_cache_dir(char *out, size_t cap);
/* The folder for models: RLX_STORE, else rlx/models in the user's data folder. */
bool rx_env_store_dir(char *out, size_t cap);
/* The history of rlx chat: RLX_HISTORY, else rlx/chat_history in the user's data folder. */
bool rx_env_history(char *out, size_t cap);
/* Where Python packages come from, as pip has it: PIP_INDEX_URL, else pypi.org. */
const char *rx_env_package_index(void);

#endif
