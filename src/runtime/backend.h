/* SPDX-License-Identifier: MIT */
/* What a backend gives to the runtime. Arguments were checked by session.c and device.c: names
 * exist, byte counts and ranges are right, calls on one exec never overlap, except exec_wait, which
 * any number of threads may call at any time. */
#ifndef RX_RUNTIME_BACKEND_H
#define RX_RUNTIME_BACKEND_H

#include "compile/program.h"
#include "compile/target.h"
#include "rlx/device.h"
#include "rlx/session.h"
#include "runtime/knob.h"

typedef struct rx_device rx_device;   /* an open device; each backend has its own struct */
typedef struct rx_weights rx_weights; /* the params of a program on a device, shared by clones */

/* Params that are those of other weights: params[i] is their index for param i, SIZE_MAX where it
 * has memory of its own. They are set and outlive the borrower. */
typedef struct rx_lender {
    rx_weights *weights;
    const size_t *params;
} rx_lender;
typedef struct rx_exec rx_exec;       /* a program on a device with inputs, state and arena */
typedef struct rx_buffer rx_buffer;   /* memory of a device that programs share */

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
    /* Support of an operation in its common form: native, reference, host or no; without a
     * device. */
    rlx_support (*op_support)(rx_op op);
    /* Identifies the kernels of this build in cache keys; NULL: the library version does. */
    uint64_t (*kernels_digest)(void);
    /* The driver's compiled form of the kernels used so far (freed with rx_free), and back in;
     * data of another driver is ignored. NULL: the driver gives none. */
    rlx_status (*kernels_save)(rx_device *d, void **data, size_t *bytes, rlx_error *err);
    void (*kernels_load)(rx_device *d, const void *data, size_t bytes);
    /* Kernel variants: the table, and the choice for programs bound from now on. NULL: none. */
    const rx_knob *(*knobs)(size_t *n);
    void (*set_knobs)(rx_device *d, const rx_knobs *k);

    /* Buffers: zero-initialised; they outlive their users. read: no run that writes it is in
     * flight, write: none that uses it, unless orders_writes. map: host address, or NULL where it
     * is not host-visible. changed: a submitted run or the host writes it, so packed forms are
     * rebuilt by the next run. */
    rlx_status (*buffer_create)(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err);
    void (*buffer_destroy)(rx_buffer *b);
    rlx_status (*buffer_write)(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err);
    rlx_status (*buffer_read)(rx_buffer *b, size_t offset, void *data, size_t bytes,
                              rlx_error *err);
    void *(*buffer_map)(rx_buffer *b);
    void (*buffer_changed)(rx_buffer *b);
    bool orders_runs;   /* runs of all execs execute in the order of exec_submit, except steps on
                         * the host */
    bool orders_writes; /* and writes of buffers between them */

    /* Weights: unset at first, except those with a buffer (by param; NULL: none has one) and those
     * that are lent (NULL: none is). set may be called again, on those with memory of their own;
     * with RLX_BORROW the data stays valid. use: rebinds the weight to a buffer
     * (NULL: to memory of its own) for execs bound after it; no run of an exec with these weights
     * is in flight. */
    rlx_status (*weights_create)(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 const rx_lender *from, rx_weights **out, rlx_error *err);
    rlx_status (*weights_use)(rx_weights *w, size_t param, rx_buffer *b, rlx_error *err);
    rlx_status (*weights_set)(rx_weights *w, size_t param, const void *data, size_t bytes,
                              rlx_ownership own, rlx_error *err);
    void (*weights_destroy)(rx_weights *w);

    /* Takes no ownership of program and weights, which outlive the exec. State is zero-initialised.
     * buffers: by rx_port_index (NULL: none). use: rebinds a port to a buffer (NULL: to memory of
     * its own) from the next exec_bind on; no run is in flight. */
    rlx_status (*exec_create)(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                              rx_exec **out, rlx_error *err);
    rlx_status (*exec_use)(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err);
    void (*exec_destroy)(rx_exec *e);
    /* Binds the values of all dimension expressions (rx_dims_eval) for later runs. */
    rlx_status (*exec_bind)(rx_exec *e, const int64_t *dims, rlx_error *err);
    /* rlx_session_compile: does nothing after the first bind. weights_set may run in another
     * thread. NULL: there is nothing to compile. */
    rlx_status (*exec_compile)(rx_exec *e, const int64_t *dims, rlx_error *err);
    /* Copies host bytes into an input or a state value, or out of any value that has memory.
     * `value` is an index into program->values; the value is dense. Waits for running work. */
    rlx_status (*exec_write)(rx_exec *e, uint32_t value, size_t offset, const void *data,
                             size_t bytes, rlx_error *err);
    rlx_status (*exec_read)(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                            rlx_error *err);
    /* Speculative runs: a device has both or none (NULL).
     * feed: the next run reads an input from an output of the last submitted run, on the device.
     * read_run: reads an output range of run `ticket` after a later run was submitted. Outputs are
     * double-buffered: the same range must have been read from the previous run, and
     * RLX_UNSUPPORTED is returned once two later runs were submitted. */
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
    /* The step whose kernels compute step i with the dimensions now bound: i, or a later step that
     * it is merged into; then the results of i are not written. NULL: always i. */
    size_t (*exec_computed_by)(rx_exec *e, size_t step);
    /* The text of rlx_session_print_stage; the exec is bound. NULL: there are no stages. */
    rlx_status (*exec_print)(rx_exec *e, const char *stage, char **text, rlx_error *err);
    /* Kernel i of the bound exec; RLX_NOT_FOUND. NULL: there is no compiled code to describe. */
    rlx_status (*exec_kernel_info)(rx_exec *e, size_t i, rlx_kernel_info *out, rlx_error *err);
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
