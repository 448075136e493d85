/* SPDX-License-Identifier: MIT */
/* Hyperparameters of a model: its architecture (a row of a table), its sizes, its tensors. facts*.c
 * read and check them, arch*.c build graphs from them. */
#ifndef RX_MODEL_FACTS_H
#define RX_MODEL_FACTS_H

#include "base/error.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/arch.h"
#include "rlx/ops.h"

/* Optional parts of a layer or of the model, as bits. A tensor of tensors.def exists in models that
 * have all parts of its row. */
typedef uint64_t rx_has;
#define RX_PART(n) ((rx_has)1 << (n))
#define RX_HAS_DECODER           RX_PART(0) /* predicts tokens; else an encoder */
#define RX_HAS_ATTENTION         RX_PART(1)
#define RX_HAS_SPLIT             RX_PART(2) /* q, k, v are three tensors, else one */
#define RX_HAS_FUSED             RX_PART(3)
#define RX_HAS_QKV_BIAS          RX_PART(4) /* required; optional elsewhere */
#define RX_HAS_QK_NORM           RX_PART(5) /* of each head of q and k */
#define RX_HAS_PRE_NORM          RX_PART(6) /* norms before attention and feed-forward */
#define RX_HAS_POST_NORM         RX_PART(7) /* after them, before the residual */
#define RX_HAS_DENSE             RX_PART(8) /* feed-forward without experts */
#define RX_HAS_UP                RX_PART(9) /* ffn_up holds no gate */
#define RX_HAS_GATE              RX_PART(10) /* act(gate) * up; gate: a tensor of its own, or */
#define RX_HAS_GATE_IN_UP        RX_PART(11) /* rows of ffn_up: the gate, then up */
#define RX_HAS_EXPERTS           RX_PART(12)
#define RX_HAS_SHARED            RX_PART(13) /* an expert that all tokens use */
#define RX_HAS_MAMBA             RX_PART(14) /* either version */
#define RX_HAS_MAMBA1            RX_PART(15)
#define RX_HAS_MAMBA2            RX_PART(16)
#define RX_HAS_ENCODER           RX_PART(17)
#define RX_HAS_POSITIONS         RX_PART(18) /* a table of learned positions */
#define RX_HAS_BIASES            RX_PART(19) /* of all linear layers: required */
#define RX_HAS_ROPE              RX_PART(20)
#define RX_HAS_LAYER_NORM        RX_PART(21) /* the norms of a decoder subtract the mean */
#define RX_HAS_FFN_NORM          RX_PART(22) /* a norm before the feed-forward */
#define RX_HAS_PARALLEL          RX_PART(23) /* attention and feed-forward share their input */
#define RX_HAS_WIDE_QK_NORM      RX_PART(24) /* of all heads of q together, and of k */
#define RX_HAS_OUT_NORMS         RX_PART(25) /* post norms with biases (BERT) */
#define RX_HAS_FIRST_NORM        RX_PART(26) /* attention of the first layer has a norm before it */
#define RX_HAS_OUT_NORM          RX_PART(27) /* a norm after the last layer */
#define RX_HAS_SINKS             RX_PART(28) /* an extra logit of each head in softmax */
#define RX_HAS_EXPERT_BIASES     RX_PART(29) /* of the router and of each expert */
#define RX_HAS_SHARED_ROUTER     RX_PART(30) /* a learned gate of the shared expert */
#define RX_HAS_NEXT_NORM         RX_PART(31) /* called post_attention_norm */
#define RX_HAS_MLA               RX_PART(32) /* keys and values from a narrow latent (DeepSeek) */
#define RX_HAS_MLA_JOINED        RX_PART(33) /* one up-projection: heads are cached */
#define RX_HAS_MLA_SPLIT         RX_PART(34) /* two up-projections: the latent is cached */
#define RX_HAS_LOW_Q             RX_PART(35) /* queries from a latent, too */
#define RX_HAS_FULL_Q            RX_PART(36) /* a plain query projection */
#define RX_HAS_GATE_UP_EXPERTS   RX_PART(37) /* one bank: gate rows, then up rows */
#define RX_HAS_SPLIT_EXPERTS     RX_PART(38) /* two banks */
#define RX_HAS_DELTA             RX_PART(39) /* gated delta net in place of attention */
#define RX_HAS_DELTA_SPLIT       RX_PART(40) /* its q, k, v and z in two tensors, else one */
#define RX_HAS_DELTA_JOINED      RX_PART(41)
#define RX_HAS_Q_GATE            RX_PART(42) /* attn_q also has output gates */
#define RX_HAS_EMBED_NORM        RX_PART(43) /* encoders: of the embeddings */
#define RX_HAS_RELATIVE          RX_PART(44) /* T5: a bias of each head by distance, no scale */
#define RX_HAS_RECURRENT (RX_HAS_MAMBA | RX_HAS_DELTA)

/* Expert weights from router logits. */
typedef enum rx_router { RX_ROUTER_UNSET = 0, RX_ROUTER_SOFTMAX, RX_ROUTER_SIGMOID,
    RX_ROUTER_SOFTMAX_OF_CHOSEN } rx_router; /* the numbers of expert_gating_func in GGUF */

/* One row per architecture, for facts that files do not state. */
typedef struct rx_arch {
    const char *name;         /* general.architecture */
    rx_has parts;
    rlx_act act;              /* of the feed-forward */
    bool pairs;               /* rotary embedding of elements 2i, 2i+1; else i, i + n/2 */
    bool scale_embedding;     /* by sqrt(width) */
    bool divide_logits;       /* logit_scale is a divisor, else a factor */
    bool norm_experts;        /* the weights of the chosen experts sum to 1 */
    bool maybe_qk_norm;       /* some files have these norms */
    bool mixed;               /* layers without a router have a dense feed-forward */
    bool weigh_input;         /* router weights scale inputs of experts, else outputs */
    rx_router router;         /* default; unset: softmax */
    double swiglu_limit;      /* > 0: gate and up are clamped, as in gpt-oss */
    bool chunked;             /* windows are chunks; the other layers have no rotary embedding and
                               * scale q by temperature (Llama 4) */
    int64_t window;           /* when the file does not say */
    int64_t window_period;    /* every n-th layer has full attention, the others a sliding window;
                               * 0: all have it */
    bool window_last;         /* of the n layers, the first one has full attention, not the last */
    double local_base;        /* of the rotary embedding in layers with a window; 0: the same */
    int64_t wide_layers;      /* models with this many layers scale by 1/sqrt(width / heads) */
    double attention_cap, final_cap; /* when the file does not say */
} rx_arch;

/* The row of an architecture, or NULL. */
const rx_arch *rx_arch_find(const char *name, size_t length);

/* ---- Tensors --------------------------------------------------------------------------------- */

typedef enum rx_role {
#define TENSOR(ID, GGUF, BERT, HF, DIMS, PARTS, NEEDED) RX_T_##ID,
#include "model/tensors.def"
#undef TENSOR
    RX_N_ROLES
} rx_role;

#define RX_NO_TENSOR UINT32_MAX

/* Columns of names in tensors.def. */
typedef enum rx_naming { RX_NAMES_GGUF, RX_NAMES_BERT, RX_NAMES_HF, RX_N_NAMINGS } rx_naming;

/* ---- Layers and the model -------------------------------------------------------------------- */

typedef struct rx_layer {
    rx_has parts;
    int64_t heads, kv_heads, hidden; /* hidden: of the feed-forward, 0 without */
    bool local;                      /* has a window */
    uint32_t tensor[RX_N_ROLES];     /* index in the file, or RX_NO_TENSOR */
} rx_layer;

typedef enum rx_rope_kind { RX_ROPE_PLAIN = 0, RX_ROPE_LINEAR, RX_ROPE_YARN, RX_ROPE_LONG
} rx_rope_kind;

struct rx_facts {
    rx_arena arena;
    const rlx_file *file;
    const rx_arch *arch;
    const char *name;
    rx_naming naming;
    const char *model_type;   /* safetensors: model_type of config.json, else NULL */
    bool norms_from_one;      /* safetensors: norms multiply by 1 + weight */
    const char *prefix;       /* of all names of a BERT: "", "bert." or "roberta." */
    bool pairs;               /* as in rx_arch; safetensors have none */
    int64_t layers, width, vocabulary, trained_context;
    int64_t head_size, value_size;
    double eps, attention_scale, embedding_scale;
    double residual_scale, logit_scale; /* of residual branches; of logits */
    double attention_cap, final_cap; /* soft caps; 0: none */
    int64_t window;                  /* of the layers that are local */
    rx_rope_kind rope;
    int64_t n_rot, rope_original;    /* rope_original: the context before scaling */
    double rope_base, rope_local_base, rope_factor, rope_attention;
    double yarn_fast, yarn_slow, yarn_extrapolation;
    const float *rope_divisors[2];   /* [n_rot / 2] of frequencies, from config.json: up to the
                                        original context and beyond; NULL: none */
    int64_t experts, experts_used, expert_hidden, shared_hidden;
    int64_t expert_groups, groups_used; /* 0: none */
    double expert_scale;
    bool norm_experts;
    rx_router router;
    int64_t extra_layers;     /* of multi-token prediction, not computed */
    int64_t kv_rank, q_rank, mla_key, mla_value; /* MLA: sizes of latents and of expanded heads */
    double yarn_log;          /* MLA: attention is scaled by (1 + this * log(factor))^2 */
    int64_t temperature_length; /* q of layers without rotary embedding, by its position: */
    double temperature_scale;   /* 1 + scale * log(1 + floor((position + 1) / length)) */
    bool unit_qk;             /* q and k have norms without weights, after the rotary embedding */
    bool yarn_exact;          /* YaRN's ramp has unrounded ends */
    int64_t ssm_conv, ssm_inner, ssm_state, ssm_rank, ssm_groups;
    bool ssm_norms;           /* norms without weights of dt, b and c */
    int64_t classes;          /* rows of RX_T_RANK_OUT */
    int64_t buckets;          /* T5: of distances, of both signs */
    int64_t types, positions; /* encoders: rows of the tables; 0: none */
    int64_t first_position;   /* row of the first token */
    rlx_pooling pooling;
    rx_layer *layer;          /* [layers] */
    uint32_t tensor[RX_N_ROLES]; /* those outside of layers */
};

/* Reads and range-checks hyperparameters from GGUF metadata or config.json. */
struct rx_json;
rlx_status rx_facts_read_gguf(rx_facts *f, rlx_error *err);
rlx_status rx_facts_read_config(rx_facts *f, const struct rx_json *config, rlx_error *err);
/* Shared by both readers: defaults, layers, ranges. */
void rx_facts_set_missing(rx_facts *f);
rlx_status rx_facts_set_layers(rx_facts *f, int64_t layers, rlx_error *err);
rlx_status rx_check_count(const char *key, int64_t v, int64_t lo, int64_t hi, rlx_error *err);
rlx_status rx_check_real(const char *key, double v, double lo, double hi, rlx_error *err);
#define RX_MAX_LAYERS 4096
/* Derived sizes, and their consistency. */
rlx_status rx_facts_check(rx_facts *f, rlx_error *err);
/* Finds the tensors and checks their shapes. */
rlx_status rx_facts_find_tensors(rx_facts *f, rlx_error *err);

/* The tensor of a role in a layer (NULL: outside of layers); false when there is none. */
bool rx_facts_tensor(const rx_facts *f, const rx_layer *layer, rx_role role, rlx_file_tensor *out);
/* All n elements of a tensor of the file in f32. arch.c */
rlx_status rx_facts_floats(const rx_facts *f, const rlx_file_tensor *t, float *out, int64_t n,
                           rlx_error *err);
/* The tensor name of a role in a naming scheme; false when it has none, or the buffer is too
 * small. */
bool rx_facts_tensor_name(rx_role role, rx_naming naming, int64_t layer, char *text, size_t size);
/* The name format in this file, NULL: none. %d is the layer; with %e there is a tensor per expert,
 * and rx_facts_tensor gives the first. */
const char *rx_facts_name_format(const rx_facts *f, rx_role role);
bool rx_facts_is_stack(const rx_facts *f, rx_role role);
bool rx_print_tensor_name(const char *format, int64_t layer, int64_t expert, char *text,
                          size_t size);
/* Conversion of safetensors vectors to GGUF's convention: x, 1 + x, -exp(x). */
typedef enum rx_change { RX_CHANGE_NONE = 0, RX_CHANGE_ONE, RX_CHANGE_DECAY, RX_N_CHANGES
} rx_change;
rx_change rx_facts_change(const rx_facts *f, rx_role role);
/* The shape by tensors.def; the file's may differ in axes of size 1. */
rlx_shape rx_facts_shape(const rx_facts *f, const rx_layer *layer, rx_role role);

#endif
