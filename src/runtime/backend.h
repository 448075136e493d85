/* SPDX-License-Identifier: MIT */
/* What a backend gives to the runtime. Arguments were checked by session.c and device.c: names
 * exist, byte counts and ranges are right, calls on one exec never overlap, except exec_wait, which
 * any number of threads may call at any time. */
#ifndef RX_RUNTIME_BACKEND_H
#define RX_RUNTIME_BACKEND_H

#include "compile/program.h"
#include "compile/target.h"
#include "rlx/device.h"
#include "runtime/knob.h"

typedef struct rx_device rx_device;   /* an open device; each backend has its own struct */
typedef struct rx_weights rx_weights; /* the params of a program on a device, shared by clones */
typedef struct rx_exec rx_exec;       /* a program on a device with inputs, state and arena */

typedef struct rx_submit {
    size_t first_step, n_steps; /* the range of steps to run */
    bool async;                 /* return at once and run in the background if possible */
    bool timed;                 /* exec_seconds will be asked for */
} rx_submit;

/* Bytes of a value. */
typedef struct rx_range {
    uint32_t value;
    size_t offset, bytes;
} rx_range;

typedef struct rx_backend {
    const char *name;
    int rank; /* automatic choice: the available backend with the highest rank; < 0: never */

    /* Lists the devices: writes up to cap, returns how many. 0 with a sentence in `reason` (why,
     * and what to do) when there are none. Cheap after the first call; thread-safe. */
    size_t (*list)(rlx_device_info *out, size_t cap, char reason[512]);
    rlx_status (*open)(size_t index, const rlx_device_desc *desc, rx_device **out, rlx_error *err);
    void (*close)(rx_device *d);
    /* The text about features and limits as the open device uses them. NULL: as it was listed. */
    void (*describe)(rx_device *d, char *out, size_t cap);
    /* Valid as long as the device. */
    const rx_target *(*target)(rx_device *d);
    /* How the backend runs an operation in its common form: native, host or no; without a device.
     * */
    rlx_support (*op_support)(rx_op op);
    /* Names the kernels of this build; NULL: the version of the library does. */
    uint64_t (*kernels_digest)(void);
    /* Kernel variants: the table, and what programs that are bound from now on use. NULL: none. */
    const rx_knob *(*knobs)(size_t *n);
    void (*set_knobs)(rx_device *d, const rx_knobs *k);

    /* Weights: all absent at first. set may be called again; after set with RLX_BORROW the data
     * stays valid. */
    rlx_status (*weights_create)(rx_device *d, rx_program *p, rx_weights **out, rlx_error *err);
    rlx_status (*weights_set)(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err);
    void (*weights_destroy)(rx_weights *w);

    /* Takes no ownership of program and weights, which outlive the exec. State is zero at first. */
    rlx_status (*exec_create)(rx_device *d, rx_program *p, rx_weights *w, rx_exec **out,
                              rlx_error *err);
    void (*exec_destroy)(rx_exec *e);
    /* Values of all dimension expressions (rx_dims_eval) for the runs to come. Also called with
     * those it has, after runs of single steps: the next run is as those before them. */
    rlx_status (*exec_bind)(rx_exec *e, const int64_t *dims, rlx_error *err);
    /* Copies host bytes into an input or a state value, or out of any value that has memory.
     * `value` is an index into program->values; the value is dense. Waits for running work. */
    rlx_status (*exec_write)(rx_exec *e, uint32_t value, size_t offset, const void *data,
                             size_t bytes, rlx_error *err);
    rlx_status (*exec_read)(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                            rlx_error *err);
    /* For programs that run ahead of the host, both or none; NULL: the device cannot. feed: the
     * next run has in an input what an output is after all runs submitted so far, of as many bytes.
     * read_run: as read, after that run and not the last one, for ranges that were read after the
     * run before; until the second run behind it is submitted. RLX_UNSUPPORTED: it is gone. */
    rlx_status (*exec_feed)(rx_exec *e, uint32_t input, uint32_t output, size_t bytes,
                            rlx_error *err);
    rlx_status (*exec_read_run)(rx_exec *e, uint64_t ticket, const rx_range *r, void *data,
                                rlx_error *err);
    /* Runs a range of steps. Tickets grow by one with each call, from 1. A range from step 0 begins
     * a run and clears the flags. */
    rlx_status (*exec_submit)(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err);
    /* RLX_TIMEOUT, or the status of that run and all before it. */
    rlx_status (*exec_wait)(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err);
    /* RLX_FLAG_* of the last run. */
    uint32_t (*exec_flags)(rx_exec *e);
    /* Seconds that the device itself spent on the steps of the last submit that was `timed` and is
     * done; negative: not known. NULL: never known. */
    double (*exec_seconds)(rx_exec *e);
    /* The kernel that step i uses, static storage or owned by the exec. */
    const char *(*exec_kernel)(rx_exec *e, size_t step);
} rx_backend;

/* The backends of this build, best first; NULL-terminated. runtime/registry.c. */
extern const rx_backend *const rx_backends[];
extern const rx_backend rx_backend_cpu, rx_backend_vulkan, rx_backend_webgpu, rx_backend_ref,
    rx_backend_null;

/* Backends that exist but are not in this build, with the reason and what to do; ends with NULL. */
typedef struct rx_absent_backend {
    const char *name, *reason;
} rx_absent_backend;
extern const rx_absent_backend rx_absent_backends[];

#endif
