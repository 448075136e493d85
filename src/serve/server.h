/* SPDX-License-Identifier: MIT */
/* The server without its transport: models, requests to replies, counters. Any number of threads
 * may call rx_server_answer concurrently. */
#ifndef RX_SERVE_SERVER_H
#define RX_SERVE_SERVER_H

#include <stdatomic.h>

#include "base/str.h"
#include "base/thread.h"
#include "serve/history.h"
#include "serve/request.h"

/* A model that is served. The fields after `users` are valid while it is loaded, for those who hold
 * it (rx_server_take). */
typedef enum rx_served_state { RX_SERVED_OUT, RX_SERVED_MOVES, RX_SERVED_READY } rx_served_state;
typedef struct rx_served {
    const char *id;          /* the name that requests use */
    const char *path;
    struct rx_served *base;  /* of an adapter: its model; the fields after `adapter` are from there
                              * then, or unused. NULL: it is a model */
    rlx_adapter *adapter;    /* open as long as the model is loaded; else NULL */
    double scale;            /* of the adapter */
    rx_served_state state;   /* MOVES: being loaded or closed */
    uint64_t bytes;          /* of memory when loaded; before that the size of its files */
    uint64_t used;           /* tick of the last use */
    size_t users;            /* requests that hold it */
    rlx_model *model;
    rlx_model_info info;
    rx_gen_backend *backend; /* NULL: an encoder */
    rlx_model *draft;        /* that guesses for it; NULL: none */
    rx_mutex lock;           /* of embeddings */
    bool knows_tools, knows_tool_role; /* by its chat template */
} rx_served;

/* Times, counted in buckets with these upper limits in seconds and one for all others. */
#define RX_N_BUCKETS 14
extern const double rx_bucket_limits[RX_N_BUCKETS];
typedef struct rx_histogram {
    atomic_ullong counts[RX_N_BUCKETS + 1];
    atomic_ullong microseconds;
} rx_histogram;
void rx_histogram_add(rx_histogram *h, double seconds);

typedef struct rx_metrics {
    atomic_ullong requests, errors, cancelled;    /* answered; with a status >= 400; client
                                                   * disconnected */
    atomic_ullong prompt_tokens, cached_tokens, generated_tokens;
    atomic_ullong guessed_tokens, accepted_tokens;
    atomic_ullong loads, evictions;               /* of models */
    atomic_llong active;                          /* requests in progress */
    rx_histogram first_token, per_token, queue;   /* seconds */
} rx_metrics;

typedef struct rx_server {
    rx_served *models;        /* their states are guarded by `lock`; `moved` signals changes */
    size_t n_models;
    rx_mutex lock;
    rx_cond moved;
    uint64_t budget;          /* bytes of all loaded models; 0: all are loaded at the start */
    uint64_t tick;
    bool loading;             /* one model at a time is loaded, so that each finds its room */
    rlx_model_desc model;     /* how models are opened */
    int64_t sequences, queue, guesses;
    const char *draft;        /* path of the draft of the first model; NULL: none */
    rx_history *history;      /* responses that others may continue */
    int64_t created;          /* seconds since 1970 */
    int64_t max_seconds;      /* limit of a request; 0: none */
    int64_t max_tokens;       /* limit of a request; 0: the context */
    atomic_bool draining, stopping;
    atomic_ullong serial;     /* of the next id */
    rx_metrics metrics;
} rx_server;

typedef struct rx_server_model {
    const char *id, *path;
    bool is_adapter;          /* of the first model; it has a name of its own */
    double scale;
} rx_server_model;

typedef struct rx_server_desc {
    const rx_server_model *models;
    size_t n_models;
    rlx_model_desc model;     /* for all of them; what it points to is needed by the server */
    uint64_t budget;          /* bytes; models are loaded on demand, and the one that was not used
                               * for the longest time is closed to make room. 0: no limit */
    int64_t sequences, queue, max_seconds, max_tokens;
    int64_t guesses;          /* as in rlx_engine_desc */
    const char *draft;        /* path of a draft for the first model; NULL: none */
} rx_server_desc;

/* Whether it can be used without being loaded first. The lock is held. */
bool rx_served_is_ready(const rx_served *m);
/* Opens the models, with a budget only the first. On success the caller ends *out with
 * rx_server_destroy. */
rlx_status rx_server_create(const rx_server_desc *d, rx_server **out, rlx_error *err);
/* No request is being answered any more. NULL is fine. */
void rx_server_destroy(rx_server *s);
/* The model of that name, the first one for NULL; NULL with an error in *e. */
rx_served *rx_server_find(rx_server *s, const char *id, rx_api_error *e);
/* The same, loaded, and kept so until rx_server_release. */
rx_served *rx_server_take(rx_server *s, const char *id, rx_api_error *e);
void rx_server_release(rx_server *s, rx_served *m); /* NULL is fine */

/* A request as the transport has it. */
typedef struct rx_call {
    const char *method, *path;
    const char *rest;         /* of the path, after that of its route */
    const char *body;
    size_t n_body;
    int fd;                   /* of the connection: a client that went away ends its request */
} rx_call;

/* More of a reply: appends to *out and returns true, or false when it is over. */
typedef bool rx_reply_fn(void *state, rx_str *out);

typedef struct rx_reply {
    int status;
    const char *type;         /* of the body; static */
    rx_str body;              /* all of it, or the begin of a stream */
    rx_reply_fn *more;        /* NULL: no stream */
    void (*end)(void *state); /* of a stream, always called */
    void *state;
    rx_str warning;           /* a header, if it is not empty */
    int retry_after;          /* seconds; 0: none */
    char allow[32];           /* the methods of the path, where that of the request is none */
    bool is_page;             /* a file of the chat page, which may ask nobody but this server */
} rx_reply;

/* Answers a request. The caller finishes body and warning, and ends the stream. */
void rx_server_answer(rx_server *s, const rx_call *c, rx_reply *r);
/* The body and status of an error, in the shape that clients of a path read. */
typedef enum rx_shape { RX_SHAPE_OPENAI, RX_SHAPE_ANTHROPIC, RX_SHAPE_OLLAMA } rx_shape;
rx_shape rx_shape_of(const char *path);
void rx_put_error(rx_str *out, const rx_api_error *e, rx_shape shape);
void rx_reply_error(rx_reply *r, const rx_api_error *e, rx_shape shape);

/* Whether the other side of a connection has closed it. */
bool rx_client_is_gone(int fd);

/* The requests, one file a family. They fill *r or *e. */
typedef void rx_answer_fn(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                          rx_api_error *e);
rx_answer_fn rx_answer_generate, rx_answer_embeddings, rx_answer_tokens, rx_answer_models,
    rx_answer_model, rx_answer_metrics, rx_answer_response, rx_answer_tags, rx_answer_show,
    rx_answer_version, rx_answer_page;

/* Tokens of a text, freed with rx_free; `special`: control tokens in it count, and what begins a
 * text is added. */
bool rx_encode(const rx_served *m, const char *text, size_t n, bool special, int32_t **ids,
               size_t *n_ids, rx_api_error *e);
/* The prompt of a chat; *text is freed with rx_free. */
bool rx_chat_prompt(const rx_served *m, const rx_api_request *r, char **text, rx_api_error *e);
/* The prompt whose continuation fills the gap between two texts, by the control tokens that models
 * of code have for it; *text is freed with rx_free. */
bool rx_fill_prompt(const rx_served *m, const rx_api_text *before, const char *after, char **text,
                    rx_api_error *e);
/* The error of a status of the library. */
bool rx_api_fail_status(rx_api_error *e, rlx_status st, const rlx_error *err);

#endif
