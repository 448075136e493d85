/* SPDX-License-Identifier: MIT */
/* Devices: list those that are really there, learn why others are not, choose one and open it. */
#ifndef RLX_DEVICE_H
#define RLX_DEVICE_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* An open device. Thread-safe: any number of sessions and threads may share it. */
typedef struct rlx_device rlx_device;

typedef struct rlx_device_info {
    size_t struct_size;
    char id[32];         /* what rlx_device_open takes: "cpu", "vulkan:0", ... */
    char backend[16];    /* "cpu", "ref", "null", "vulkan", "webgpu" */
    char name[128];      /* the hardware, in the words of its driver */
    char driver[128];    /* driver and version, or the kernel set of the CPU device */
    char detail[512];    /* features and limits in short, for people */
    uint64_t memory;     /* bytes the device can use; 0 when unknown */
    uint32_t threads;    /* CPU devices: threads used */
    bool is_default;     /* the one that "auto" opens; of an open device: it was opened so */
    bool is_test;        /* ref, null: exact or checking devices, never chosen by "auto" */
    bool is_software;    /* a GPU driver that runs on the CPU: "auto" prefers the CPU device */
} rlx_device_info;

/* Writes up to `cap` devices to `out` (may be NULL when cap is 0), best first within each backend;
 * *n becomes how many there are. The first entry's struct_size is that of all entries:
 *     rlx_device_info list[16] = {{RLX_INIT(rlx_device_info)}};
 * Only devices that can be opened now are listed. */
RLX_API rlx_status rlx_device_list(rlx_device_info *out, size_t cap, size_t *n, rlx_error *err);

/* For each backend of this build: its name, whether it has a device, and if not why and what to do;
 * in a list as rlx_device_list writes it. */
typedef struct rlx_backend_info {
    size_t struct_size;
    char name[16];
    bool available;
    char reason[512]; /* empty when available */
} rlx_backend_info;
RLX_API rlx_status rlx_backend_list(rlx_backend_info *out, size_t cap, size_t *n, rlx_error *err);

/* True when `id` (as in rlx_device_open) names a device that is there. */
RLX_API bool rlx_device_is_available(const char *id);

typedef struct rlx_device_desc {
    size_t struct_size;
    uint32_t threads; /* CPU: threads to use; 0: RLX_THREADS, else what the process may use */
    uint64_t flags;   /* RLX_DEVICE_* */
} rlx_device_desc;

/* Vulkan: kernels are compiled and described (rlx_session_kernel), nothing is run, so that no
 * memory of the device is needed and drivers without hardware will do. The self-check is not made:
 * what it found before holds, else all is taken to work. Sessions are created and prepared; running
 * one is RLX_UNSUPPORTED, and weights and inputs are not kept. Other backends refuse it. */
enum { RLX_DEVICE_COMPILE_ONLY = 1 << 0 };

/* Opens a device. `id`: NULL or "auto" (RLX_DEVICE if set, else the best one), a backend ("cpu",
 * "vulkan"), a numbered device ("vulkan:1") or a part of its name ("vulkan:llvmpipe"). On success
 * the caller owns *out; on failure *out is NULL and the error says which devices there are. */
RLX_API rlx_status rlx_device_open(const char *id, const rlx_device_desc *desc, rlx_device **out,
                                   rlx_error *err);
/* Closes it; NULL is fine. Sessions keep the device alive until they are destroyed. */
RLX_API void rlx_device_close(rlx_device *d);
RLX_API rlx_status rlx_device_get_info(const rlx_device *d, rlx_device_info *out, rlx_error *err);

/* ---- Calibration ----------------------------------------------------------------------------- */

/* What a device does, for the cost model: measured once and kept in the cache folder by device,
 * driver and kernels, or else typical of its kind. */
typedef struct rlx_calibration {
    size_t struct_size;
    bool measured;           /* false: typical numbers */
    double gemm, gemm_fast;  /* flop/s of large products of f32, policy exact and policy fast */
    double bandwidth;        /* bytes/s that a large elementwise step reads and writes */
    double dispatch, submit; /* seconds that each step and each run cost besides their work */
    double upload, download; /* bytes/s of inputs and outputs */
    char kernels[192];       /* GPUs: kernel variants that are faster here than the usual ones, as
                              * "name=choice,..."; devices that are opened later use them. Those of
                              * rlx_session_tune, else those measured with the rates */
} rlx_calibration;

enum {
    RLX_CALIBRATE_NOW = 1 << 0,   /* measure now, and keep the result */
    RLX_CALIBRATE_UNTUNE = 1 << 1 /* forget what rlx_session_tune has kept for the device */
};

/* The calibration of the device that `id` (as in rlx_device_open) means. Opens it only to measure:
 * with RLX_CALIBRATE_NOW, or when RLX_CALIBRATE=1 is set and it was never measured, which takes
 * about a second, on GPUs some more. Test devices are never measured. */
RLX_API rlx_status rlx_device_calibration(const char *id, uint32_t flags, rlx_calibration *out,
                                          rlx_error *err);

/* ---- Support --------------------------------------------------------------------------------- */

/* How a device runs an operation. */
typedef enum rlx_support {
    RLX_SUPPORT_NO = 0,     /* cannot */
    RLX_SUPPORT_HOST,       /* on the CPU, with copies */
    RLX_SUPPORT_DECOMPOSED, /* rewritten into other operations that are native */
    RLX_SUPPORT_VIEW,       /* needs no work: a view, or a leaf */
    RLX_SUPPORT_NATIVE,     /* a kernel of its own */
    RLX_SUPPORT_REFERENCE   /* by the plain loops that define it, on one thread: cpu only */
} rlx_support;

/* How `backend` ("cpu", "vulkan", ...) runs operation `op` in its most common form; known without a
 * device being there; of "cpu" for the instruction set that devices would use. RLX_SUPPORT_NO for
 * unknown names. */
RLX_API rlx_support rlx_op_support(const char *backend, const char *op);
/* "native", "reference", "decomposed", "view", "host" or "no" */
RLX_API const char *rlx_support_name(rlx_support s);

#ifdef __cplusplus
}
#endif
#endif
