/* SPDX-License-Identifier: MIT */
/* What the commands for language models share: options of models and sampling, opening with a
 * progress bar, times. */
#ifndef LLM_H
#define LLM_H

#include "cli.h"
#include "json.h"

typedef struct model_options {
    const char *model, *tokenizer, *policy, *cache, *gpu_layers;
    int64_t context, prompt_chunk;
    int64_t sequences; /* set by the command; 0: one */
} model_options;

#define MODEL_OPTIONS(record, member)                                                             \
    {"model", CLI_TEXT, offsetof(record, member.model), "MODEL",                                  \
     "a GGUF file, a folder with model.safetensors, or a name of 'rlx list'"},                    \
    {"tokenizer", CLI_TEXT, offsetof(record, member.tokenizer), "FILE",                           \
     "a tokenizer.json to use instead of the model's own"},                                       \
    {"policy", CLI_TEXT, offsetof(record, member.policy), "exact|fast",                           \
     "compute in f32, or let the device round (default: fast for packed weights)"}

#define GPU_LAYERS_OPTION(record, member)                                                         \
    {"gpu-layers", CLI_TEXT, offsetof(record, member), "auto|N",                                  \
     "the last N layers are on the GPU, the others on the CPU (default auto: as many as fit)"}

#define CONTEXT_OPTIONS(record, member)                                                           \
    {"ctx", CLI_NUMBER, offsetof(record, member.context), "N",                                    \
     "tokens the context holds (default: what the model was made for, at most 4096)"},            \
    {"prompt-chunk", CLI_NUMBER, offsetof(record, member.prompt_chunk), "N",                      \
     "prompt tokens computed at once (default 512)"},                                             \
    {"cache", CLI_TEXT, offsetof(record, member.cache), "TYPE",                                   \
     "type of the K/V cache: f16 (default), f32, q8_0"},                                          \
    GPU_LAYERS_OPTION(record, member.gpu_layers)

#define LORA_OPTION(record, member)                                                               \
    {"lora", CLI_LIST, offsetof(record, member), "FILE[:X]",                                      \
     "a LoRA adapter, GGUF or a PEFT folder, and how much of it (1); may be repeated"}

typedef struct sampling_options {
    const char *temperature, *top_p, *min_p, *repeat_penalty;
    const char *typical_p, *xtc_probability, *xtc_threshold;
    const char *dry_multiplier, *dry_base, *mirostat_tau, *mirostat_eta;
    cli_opt_number top_k, seed, max_tokens;
    int64_t repeat_last, dry_allowed_length, dry_last, mirostat;
    cli_list stop, dry_breakers;
} sampling_options;

#define SAMPLING_OPTIONS(record, member)                                                          \
    {"temperature", CLI_TEXT, offsetof(record, member.temperature), "T",                          \
     "0: always the most likely token; 1: as the model says; more: wilder"},                      \
    {"top-k", CLI_SET_NUMBER, offsetof(record, member.top_k), "K",                                \
     "choose among the K most likely tokens (default 0: all)"},                                   \
    {"top-p", CLI_TEXT, offsetof(record, member.top_p), "P",                                      \
     "... among the most likely ones that together have probability P"},                          \
    {"min-p", CLI_TEXT, offsetof(record, member.min_p), "P",                                      \
     "... among those at least P times as likely as the best"},                                   \
    {"repeat-penalty", CLI_TEXT, offsetof(record, member.repeat_penalty), "X",                    \
     "makes recent tokens less likely; 1.1 is mild (default 1: off)"},                            \
    {"repeat-last", CLI_NUMBER, offsetof(record, member.repeat_last), "N",                        \
     "how many tokens are recent (default 64, at most 256)"},                                     \
    {"typical-p", CLI_TEXT, offsetof(record, member.typical_p), "P",                              \
     "... among the least surprising and boring ones with probability P"},                        \
    {"xtc-probability", CLI_TEXT, offsetof(record, member.xtc_probability), "P",                  \
     "how often to leave out the top choices but the last of them"},                              \
    {"xtc-threshold", CLI_TEXT, offsetof(record, member.xtc_threshold), "P",                      \
     "... which are those at least as likely as this (default 0.1)"},                             \
    {"dry-multiplier", CLI_TEXT, offsetof(record, member.dry_multiplier), "X",                    \
     "makes tokens that go on with a repetition less likely (try 0.8)"},                          \
    {"dry-base", CLI_TEXT, offsetof(record, member.dry_base), "X",                                \
     "... so many times more for each token repeated (default 1.75)"},                            \
    {"dry-allowed-length", CLI_NUMBER, offsetof(record, member.dry_allowed_length), "N",          \
     "... from so many tokens on (default 2)"},                                                   \
    {"dry-last", CLI_NUMBER, offsetof(record, member.dry_last), "N",                              \
     "... looking at the last N tokens (default: all)"},                                          \
    {"dry-breaker", CLI_LIST, offsetof(record, member.dry_breakers), "TEXT",                      \
     "... but not beyond this text, 'none': any; may be repeated (default: newline : \" *)"},     \
    {"mirostat", CLI_NUMBER, offsetof(record, member.mirostat), "2",                              \
     "keep the surprise of tokens near a target, in place of top-k to XTC"},                      \
    {"mirostat-tau", CLI_TEXT, offsetof(record, member.mirostat_tau), "BITS",                     \
     "... which is this (default 5)"},                                                            \
    {"mirostat-eta", CLI_TEXT, offsetof(record, member.mirostat_eta), "X",                        \
     "... and how fast to go there (default 0.1)"},                                               \
    {"seed", CLI_SET_NUMBER, offsetof(record, member.seed), "N",                                  \
     "the same seed gives the same text (default: a new one each time)"},                         \
    {"max-tokens", CLI_SET_NUMBER, offsetof(record, member.max_tokens), "N",                      \
     "stop after so many tokens; 0: no limit but the context"},                                    \
    {"stop", CLI_LIST, offsetof(record, member.stop), "TEXT",                                     \
     "stop before this text; may be repeated"}

typedef struct grammar_options {
    const char *schema, *grammar, *regex;
} grammar_options;

#define GRAMMAR_OPTIONS(record, member)                                                           \
    {"json-schema", CLI_TEXT, offsetof(record, member.schema), "FILE",                            \
     "the output is JSON that this JSON Schema allows ('-': standard input)"},                    \
    {"grammar", CLI_TEXT, offsetof(record, member.grammar), "FILE",                               \
     "the output is a text of this grammar in GBNF"},                                             \
    {"regex", CLI_TEXT, offsetof(record, member.regex), "TEXT",                                   \
     "the output matches this regular expression"}

/* The grammar that the options name; NULL: none. On failure the sentence is printed and the exit
 * status returned. */
int llm_grammar(const grammar_options *o, rlx_grammar **out);

/* The model of --model, or else the first argument, which is taken away. */
const char *llm_model(cli_common *c, const model_options *o);
/* What the options say of opening a model; the exit status. */
int llm_desc(const cli_common *c, const model_options *o, rlx_model_desc *d);
/* auto or N, for rlx_model_desc.gpu_layers; NULL is auto. Negative, or the exit status. */
int llm_gpu_layers(const char *text, int64_t *out);
/* What a user should know of a model that was opened with such an option. */
void llm_tell_layers(const char *text, const rlx_model *m);
/* "layers: 0 to 9 on the CPU, ..", where they are divided. */
void llm_print_layers(FILE *f, const rlx_model *m);
/* Opens the model of --model, a file or a name of the store; on failure the sentence is printed and
 * the exit status returned. *seconds (may be NULL) is how long it took. */
int llm_open(const cli_common *c, const model_options *o, rlx_model **out, double *seconds);
/* "FILE:0.5" or "FILE": *file is freed with free. */
void llm_split_scale(const char *text, char **file, double *scale);
/* The adapters of --lora. Opens them for a context, which gets them; on failure the sentence is
 * printed and the exit status returned. llm_close_lora: after the context. */
typedef struct llm_lora {
    rlx_adapter_use *uses;
    size_t n;
} llm_lora;
int llm_open_lora(const cli_list *files, rlx_model *m, rlx_context *c, llm_lora *out);
void llm_close_lora(llm_lora *l);
/* Fills sampling, stop and max_tokens. `s` has the values of options that are not given, becomes
 * the sampling of `d` and must live as long. */
int llm_sampling(const sampling_options *o, rlx_sampling_desc *s, rlx_generate_desc *d);
/* Sets what an option of that name sets, if it is a real number or a count; false: it is none. The
 * exit status of a wrong value is in *status, after its sentence. */
bool llm_set_sampling(rlx_sampling_desc *s, const char *name, const char *value, int *status);
/* The values that are set, one a line on standard error, as /set takes them. */
void llm_print_sampling(const rlx_sampling_desc *s);
/* A number given as text: `dflt` when it was not given. */
int llm_real(const char *option, const char *text, double most, double dflt, double *out);

/* The tokens of a text file, freed with free; on failure the sentence is printed. */
int llm_read_tokens(const rlx_model *m, const char *path, int32_t **ids, size_t *n);

const char *llm_finish_name(rlx_finish f);
/* Tokens for each second; 0 when there was no time. The first token counts to the prompt. */
double llm_prompt_rate(const rlx_generate_result *r);
double llm_rate(const rlx_generate_result *r);
/* "prompt: 20 tokens in 167 ms, 120.0 tokens/s; then 11 tokens in 312 ms, 35.2 tokens/s" to
 * standard error: each speed is the quotient of the two numbers before it. */
void llm_print_rates(const rlx_generate_result *r);
/* Where the model is and what it takes, to standard error. */
void llm_print_model(const rlx_model *m);
/* Time of each kind of step in the last run of the session, to standard error. */
int llm_print_profile(rlx_session *s);

#endif
