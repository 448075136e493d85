/* SPDX-License-Identifier: MIT */
/* Sessions: a graph compiled for a device, with its weights, state and memory, ready to run. */
#ifndef RLX_SESSION_H
#define RLX_SESSION_H

#include "buffer.h"
#include "device.h"
#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A session may move between threads; calls on one session from several threads at a time are put
 * in order by the session. Different sessions run independently. */
typedef struct rlx_session rlx_session;

/* How exactly to compute. */
typedef enum rlx_policy {
    RLX_POLICY_AUTO = 0, /* exact; of models: fast for packed or half precision weights */
    RLX_POLICY_EXACT,    /* f32 graphs compute in f32 */
    RLX_POLICY_FAST      /* f16/bf16 products, activations as integers: where the device gains */
} rlx_policy;

/* Called after each stage of the compiler ("verify", "fold", "legalise", "fuse", "recompute" where
 * there is a memory budget, "plan", "schedule") with the text form of what it left. */
typedef void rlx_stage_fn(void *user, const char *stage, const char *text);

typedef struct rlx_session_desc {
    size_t struct_size;
    rlx_policy policy;
    bool no_fusion;        /* also RLX_NO_FUSION=1 */
    bool no_fold;          /* keep constant expressions */
    bool keep_all;         /* every value keeps its own memory until the next run, for debugging */
    rlx_stage_fn *on_stage;
    void *on_stage_user;
    /* rlx_session_set_buffer before anything is allocated: what has a buffer from the start takes
     * no other memory. Read during the call. */
    const rlx_binding *buffers;
    size_t n_buffers;
    bool savable;          /* rlx_session_save works: what it writes is kept */
    bool invariant;        /* under RLX_POLICY_EXACT: the bits of a row (of the first axis) of
                            * products and attention over pages do not depend on how many rows there
                            * are. Costs speed (docs/engine.md) */
    rlx_session *weights_of; /* of the same device: params that it has under the same name, of the
                            * same type and size, in memory of its own and already set, are used
                            * from there, with their packed forms: one copy. Neither session can set
                            * these again. It may be destroyed before this session */
    uint64_t memory_budget; /* bytes for the arena, weights, states, inputs and constants together,
                            * at the bounds of dimensions: where activations would take more, they
                            * are computed again when they are needed, with the same bits. What
                            * cannot fit is RLX_NO_MEMORY and says how much it takes at least. 0: no
                            * limit */
} rlx_session_desc;

/* The id of the device that runs `g` fastest, by its calibration and the work of the graph at the
 * bounds of its dimensions (RLX_DEVICE if that is set). `desc` (may be NULL) says the policy.
 * Opens no device, except to measure with RLX_CALIBRATE=1. */
RLX_API rlx_status rlx_device_choose(const rlx_graph *g, const rlx_session_desc *desc, char id[32],
                                     rlx_error *err);

/* Compiles `g` for `d`. The graph is not needed afterwards. On success the caller owns *out; on
 * failure *out is NULL. The session keeps the device open. What the device cannot run is refused
 * here; sizes of named dimensions that it has no kernel for by rlx_session_prepare, or before
 * anything of a run is submitted. */
RLX_API rlx_status rlx_session_create(rlx_device *d, const rlx_graph *g,
                                      const rlx_session_desc *desc, rlx_session **out,
                                      rlx_error *err);
/* A second session with the same program, the same weights (shared, not copied; those in buffers
 * too) and the dimensions now bound, and inputs, outputs and state of its own, in no buffers: no
 * input is given, the state is zero. On success the caller owns *out, which may outlive `s`; on
 * failure *out is NULL. */
RLX_API rlx_status rlx_session_clone(rlx_session *s, rlx_session **out, rlx_error *err);
/* Saves what the compiler made of the graph of a session (rlx_session_desc.savable), and on GPUs
 * what the driver made of the kernels that sessions of the device have used so far, so that
 * rlx_session_load skips both: save after rlx_session_prepare or a run. Weights, inputs, states and
 * dimensions are not saved. The path gets the whole new file, or keeps the old one. */
RLX_API rlx_status rlx_session_save(rlx_session *s, const char *path, rlx_error *err);
/* A session from such a file, as rlx_session_create gives it. desc (may be NULL): only buffers,
 * savable and on_stage, the rest is as it was saved. RLX_UNSUPPORTED, with a sentence, when the
 * file is of another version of rlx, device, driver or set of kernels: compile the graph again
 * then. Damaged files are RLX_INVALID. On GPUs the file has code for the driver, which trusts it:
 * load only what you would also run. */
RLX_API rlx_status rlx_session_load(rlx_device *d, const char *path, const rlx_session_desc *desc,
                                    rlx_session **out, rlx_error *err);
/* The graph in such a file, of any device: inputs, params, states, outputs and dimensions are those
 * of the graph that was compiled, the nodes are what the compiler made of them. On success the
 * caller owns *out; on failure *out is NULL. */
RLX_API rlx_status rlx_graph_load(const char *path, rlx_graph **out, rlx_error *err);
/* Waits for running work and frees the session; NULL is fine. */
RLX_API void rlx_session_destroy(rlx_session *s);

/* ---- Weights --------------------------------------------------------------------------------- */

/* Whether a param has a value: it was set, lives in a buffer, or is that of another session. */
RLX_API bool rlx_session_has_param(rlx_session *s, const char *name);
/* Sets a weight from `bytes` bytes, which must be just its size. COPY: the data may be freed at
 * once. BORROW: the data (a mapped file, say) must outlive every session that shares the weights;
 * CPU devices then use it in place. Clones see the new weight too. */
typedef enum rlx_ownership { RLX_COPY = 0, RLX_BORROW } rlx_ownership;
RLX_API rlx_status rlx_session_set_param(rlx_session *s, const char *name, const void *data,
                                         size_t bytes, rlx_ownership own, rlx_error *err);

/* ---- Buffers --------------------------------------------------------------------------------- */

/* Lets an input, param, state or output live in `b` from the next run on (NULL: in memory of the
 * session's own again, as it was left). Waits for runs of the session. The session keeps the buffer
 * alive until it is destroyed or another one takes its place.
 *
 * The buffer is on the device of the session, has the type of the tensor or none, and at least the
 * bytes of the tensor at the bounds of its dimensions (of a param: just its bytes); the tensor is
 * dense at its beginning. What lies after an output's tensor is undefined after a run. Outputs are
 * written by their kernels where they are not part of a larger tensor or another output too; else
 * they are copied on the device. A param's packed forms are made once for all sessions that use the
 * buffer. A buffer that a run writes (output, state) is bound once in that session:
 * rlx_session_submit says so otherwise.
 *
 * What is in a buffer is set and read there: rlx_session_set_input, _set_param, _read, _feed and
 * _state_read say so, rlx_session_state_reset of all states leaves it as it is. Params: RLX_INVALID
 * while the session has clones. */
RLX_API rlx_status rlx_session_set_buffer(rlx_session *s, rlx_leaf kind, const char *name,
                                          rlx_buffer *b, rlx_error *err);

/* ---- Named dimensions ------------------------------------------------------------------------ */

/* Binds a named dimension, from 0 to its upper bound, for the runs to come. Unbound dimensions have
 * their upper bound. RLX_NOT_FOUND: the graph has no such dimension. */
RLX_API rlx_status rlx_session_bind(rlx_session *s, const char *dim, int64_t value, rlx_error *err);

/* `rows`, or a larger number that recurs. A GPU selects kernels and records a run anew for each set
 * of sizes, of which it keeps the last 64. A program whose runs may have padding binds rounded
 * sizes instead and meets what it has recorded before. `rows` itself where every size costs the
 * same (the CPU, few rows), where s is NULL, and below 1. */
RLX_API int64_t rlx_session_round_rows(const rlx_session *s, int64_t rows);

/* Makes ready what a run with the dimensions now bound needs: kernels are chosen, compiled and
 * recorded. The next run does it otherwise. Weights and inputs need not be set. What a run with
 * other dimensions gave can then no longer be read. */
RLX_API rlx_status rlx_session_prepare(rlx_session *s, rlx_error *err);
/* Compiles the kernels of a run with the dimensions now bound, and keeps of the memory of such a
 * run only packed forms of weights. Other threads may set params meanwhile, so that a program
 * starts sooner. For several sets of dimensions in turn, before the first run or
 * rlx_session_prepare; does nothing afterwards, nor where no driver compiles kernels (CPU,
 * WebGPU). */
RLX_API rlx_status rlx_session_compile(rlx_session *s, rlx_error *err);
/* What came of a kernel variant. */
typedef enum rlx_tune_verdict {
    RLX_TUNE_SAME = 0, /* it changes nothing for this program and was not run */
    RLX_TUNE_SLOWER,   /* or no faster than noise */
    RLX_TUNE_FASTER,
    RLX_TUNE_WRONG,    /* its results differ by more than rounding: never taken */
    RLX_TUNE_FAILED    /* the device cannot run it */
} rlx_tune_verdict;

/* One trial; made by the library. */
typedef struct rlx_tune_trial {
    const char *kernel, *variant;  /* "gemv", "128x4" */
    double seconds, usual_seconds; /* the best run with it, and of those in turn with what is used
                                    * so far; 0: not run */
    rlx_tune_verdict verdict;
    size_t done, total;            /* trials */
} rlx_tune_trial;

/* Returns true to stop: RLX_CANCELLED, and nothing is kept. */
typedef bool rlx_tune_fn(void *user, const rlx_tune_trial *t);

typedef struct rlx_tune_desc {
    size_t struct_size;
    bool dry_run;    /* the choice is this device's, until it is closed; nothing is kept */
    rlx_tune_fn *fn; /* after each trial; may be NULL */
    void *user;
} rlx_tune_desc;

/* Measures the kernel variants of the device with the program of `s`, at the dimensions now bound
 * and with the inputs given, and keeps those that are faster in the cache folder, by device, driver
 * and kernels: programs bound from now on use them, on devices opened later too. Runs two clones of
 * the session at a time; its own results and states stay. `kernels` (may be NULL) gets the choice
 * as "name=choice,...". RLX_UNSUPPORTED where there are no variants (CPU), and with ports in
 * buffers. Variants are switched for the whole device: until it returns, no other thread may make,
 * prepare or run sessions of the device. */
RLX_API rlx_status rlx_session_tune(rlx_session *s, const rlx_tune_desc *desc, char kernels[192],
                                    rlx_error *err);
/* As rlx_session_prepare; then *text (freed with rlx_free) has the GPU dispatches of such a run
 * after a stage: "select" (kernels, constants, grids, bindings), "order" (levels and barriers) or
 * "chain" (levels that wait by counters; what is recorded). RLX_UNSUPPORTED where the device has no
 * dispatches. On failure *text is NULL. */
RLX_API rlx_status rlx_session_print_stage(rlx_session *s, const char *stage, char **text,
                                           rlx_error *err);

/* ---- Running --------------------------------------------------------------------------------- */

/* A named tensor in host memory that is read, and one that is written: dense, row-major. `bytes`
 * must be just the size of the tensor with the dimensions now bound. */
typedef struct rlx_const_tensor {
    const char *name;
    const void *data;
    size_t bytes;
} rlx_const_tensor; /* frozen */
typedef struct rlx_tensor {
    const char *name;
    void *data;
    size_t bytes;
} rlx_tensor; /* frozen */

/* Sets the inputs, runs, and reads the outputs that are named. Inputs left out keep what they were
 * given last; one never given is an error. Waits until all is done. */
RLX_API rlx_status rlx_run(rlx_session *s, const rlx_const_tensor *inputs, size_t n_inputs,
                           const rlx_tensor *outputs, size_t n_outputs, rlx_error *err);

/* The same in parts. set_input copies the data. */
RLX_API rlx_status rlx_session_set_input(rlx_session *s, const char *name, const void *data,
                                         size_t bytes, rlx_error *err);
/* Starts a run and returns; a second submit waits its turn. *ticket (may be NULL) names the run. */
RLX_API rlx_status rlx_session_submit(rlx_session *s, uint64_t *ticket, rlx_error *err);
/* Waits for that run (0: all) up to `timeout_ms` (negative: without limit). Returns the status of
 * the run, or RLX_TIMEOUT. */
RLX_API rlx_status rlx_session_wait(rlx_session *s, uint64_t ticket, int64_t timeout_ms,
                                    rlx_error *err);
/* Copies `bytes` bytes from byte `offset` of an output of the last run, waiting for it. */
RLX_API rlx_status rlx_session_read(rlx_session *s, const char *output, size_t offset, void *data,
                                    size_t bytes, rlx_error *err);

/* Loops in which a result is the next run's input (the next token, say) can submit a run before the
 * result of the one before it has reached the host, so that the device never waits:
 *
 *   submit A; feed; submit B; read_run A; feed; submit C; read_run B; ..
 *
 * feed: in the next run `input` is what `output` is after all runs submitted so far, copied on the
 * device. Type and size are the same. Setting the input later on ends it.
 * read_run: copies a whole output of run `ticket`, which one other run may have followed, and waits
 * for it; only outputs that rlx_session_read has read since dimensions were bound last.
 * Both: RLX_UNSUPPORTED where results are in the host's memory anyway (CPU devices, software and
 * integrated GPUs), or were not kept. */
RLX_API rlx_status rlx_session_feed(rlx_session *s, const char *input, const char *output,
                                    rlx_error *err);
RLX_API rlx_status rlx_session_read_run(rlx_session *s, uint64_t ticket, const rlx_tensor *to,
                                        rlx_error *err);

/* What happened in the last run, as bits; reset by the next submit. */
enum {
    RLX_FLAG_INDEX_CLAMPED = 1 << 0, /* gather or scatter met an index out of range */
    RLX_FLAG_STATE_RANGE = 1 << 1,   /* state_write met a position out of range and skipped it */
    RLX_FLAG_NARROWED = 1 << 2       /* an i64 did not fit a device's i32; the devices of this
                                      * version all have i64 and never set it */
};
RLX_API uint32_t rlx_session_flags(rlx_session *s);

/* ---- State ----------------------------------------------------------------------------------- */

/* Copies `bytes` bytes from (write: to) byte `offset` of a state, dense and row-major, after all
 * runs submitted so far. */
RLX_API rlx_status rlx_session_state_read(rlx_session *s, const char *state, size_t offset,
                                          void *data, size_t bytes, rlx_error *err);
RLX_API rlx_status rlx_session_state_write(rlx_session *s, const char *state, size_t offset,
                                           const void *data, size_t bytes, rlx_error *err);
/* Sets a state (NULL: all states) to zero. */
RLX_API rlx_status rlx_session_state_reset(rlx_session *s, const char *state, rlx_error *err);

/* ---- Looking inside -------------------------------------------------------------------------- */

/* Type and shape of input, param, state or output `i` with the dimensions now bound; false when
 * there is none. */
typedef struct rlx_tensor_info {
    const char *name; /* owned by the session */
    rlx_dtype dtype;
    rlx_shape shape;  /* numbers only */
    size_t bytes;
} rlx_tensor_info; /* frozen */
RLX_API bool rlx_session_leaf(rlx_session *s, rlx_leaf kind, size_t i, rlx_tensor_info *out);

typedef struct rlx_memory_info {
    size_t struct_size;
    uint64_t arena_bytes;    /* planned memory of activations and outputs; on GPUs up to 64 MiB
                              * above the smallest plan, so that reuse costs fewer barriers */
    uint64_t arena_bound;    /* peak of live bytes: no plan can be smaller */
    uint64_t unshared_bytes; /* what it would take without reuse */
    uint64_t param_bytes, state_bytes, input_bytes, constant_bytes;
    uint64_t kept_arena_bytes; /* the arena if nothing were computed a second time to fit
                                * rlx_session_desc.memory_budget */
    uint64_t recomputed_steps; /* steps that are */
    double recomputed_flops;   /* and their work at the bounds */
} rlx_memory_info;
RLX_API rlx_status rlx_session_memory(const rlx_session *s, rlx_memory_info *out, rlx_error *err);

/* One step of the program and its place in memory. Strings are owned by the session. */
typedef struct rlx_step_info {
    size_t struct_size;
    const char *node;     /* name of the node, or of the node it came from */
    const char *op;
    const char *kernel;   /* of runs with the dimensions of the last one, or of rlx_session_prepare;
                           * several: "split + join". Before both "not chosen yet" */
    rlx_support support;  /* native or host */
    const char *shapes;   /* "f32[2,8] f32[8,4] -> f32[2,4]", at the bounds */
    double flops, bytes;  /* work and traffic of one run at the bounds */
    uint64_t offset, size;/* of the first result in the arena; size 0: not in the arena */
    size_t last_use;      /* last step that reads the first result; n_steps for an output */
} rlx_step_info;
RLX_API size_t rlx_session_n_steps(const rlx_session *s);
/* Step `i`, from 0; RLX_NOT_FOUND when there is none. */
RLX_API rlx_status rlx_session_step(const rlx_session *s, size_t i, rlx_step_info *out,
                                    rlx_error *err);

/* What the driver says of a compiled kernel, in its words. */
typedef struct rlx_kernel_stat {
    char name[48]; /* "VGPRs", "Register Count", ... */
    double value;
} rlx_kernel_stat; /* frozen */

/* A kernel of a GPU with its constants, as runs with the bound dimensions use it. */
typedef struct rlx_kernel_info {
    size_t struct_size;
    char name[64];
    char constants[512];    /* those that are not 0: "TA=f16 BM=128" */
    uint32_t invocations;   /* of a workgroup */
    uint32_t subgroup;      /* size that it is compiled for; 0: the driver chooses */
    uint32_t n_dispatches;  /* of a run; 0: it packs a weight */
    uint32_t n_stats;       /* those in stats; 0 where the device was not opened to compile only */
    rlx_kernel_stat stats[32];
} rlx_kernel_info;
/* Kernel `i` of the session, from 0, after rlx_session_prepare; RLX_NOT_FOUND when there is none,
 * RLX_UNSUPPORTED where steps are no kernels of a driver. */
RLX_API rlx_status rlx_session_kernel(rlx_session *s, size_t i, rlx_kernel_info *out,
                                      rlx_error *err);

/* Seconds of one run at the bounds, by the cost model: for a device with this calibration. */
RLX_API rlx_status rlx_session_estimate(const rlx_session *s, const rlx_calibration *c,
                                        double *seconds, rlx_error *err);

/* Runs once, one step at a time, with the time of each step: by the device's own clock where it has
 * one, else from the call until the step is done. After each step `fn`, if given, is called with
 * the step's index, its time and (only when want_data) the results in host memory, which are valid
 * during the call. A non-zero return stops the run: RLX_CANCELLED. The program is that of whole
 * runs: on GPUs the kernel of a step may compute earlier ones too (computed_by), which then take no
 * time and have no results. */
typedef struct rlx_step_result {
    size_t step;
    double seconds;
    size_t n_results;
    const rlx_tensor_info *infos;
    const void *const *data; /* NULL without want_data */
    const char *kernel;      /* that ran; owned by the session */
    size_t computed_by;      /* the step whose kernels compute this one: itself or a later one */
} rlx_step_result;
typedef int rlx_step_fn(void *user, const rlx_step_result *r);
RLX_API rlx_status rlx_session_run_steps(rlx_session *s, bool want_data, rlx_step_fn *fn,
                                         void *user, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
