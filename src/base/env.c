/* SPDX-License-Identifier: MIT */
/* Reads the environment. No other file of the library calls getenv. */
#include "base/env.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

static const struct {
    const char *name, *help;
} table[RX_N_ENV] = {
#define X(id, name, help) [RX_ENV_##id] = {name, help},
    RX_ENV_TABLE(X)
#undef X
};

typedef struct room {
    char *data;
    size_t cap;
} room;

const char *rx_env_text(rx_env v)
{
    const char *text = getenv(table[v].name);
    return text && *text ? text : NULL;
}

bool rx_env_flag(rx_env v)
{
    static const char *const off[] = {"0", "no", "off", "false"};
    const char *text = rx_env_text(v);
    if (!text)
        return false;
    for (size_t i = 0; i < sizeof off / sizeof off[0]; i++)
        if (!strcmp(text, off[i]))
            return false;
    return true;
}

int64_t rx_env_number(rx_env v, int64_t lo, int64_t hi, int64_t dflt)
{
    const char *text = rx_env_text(v);
    if (!text)
        return dflt;
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < lo || n > hi) {
        static atomic_bool told[RX_N_ENV];
        if (!atomic_exchange(&told[v], true))
            rx_log(RLX_LOG_WARN, "%s is ignored: expected a number from %lld to %lld, got "
                   "'%.40s'", table[v].name, (long long)lo, (long long)hi, text);
        return dflt;
    }
    return n;
}

size_t rlx_env_list(rlx_env_info *out, size_t cap)
{
    for (size_t i = 0; out && i < RX_N_ENV && i < cap; i++)
        out[i] = (rlx_env_info){table[i].name, table[i].help, rx_env_text((rx_env)i)};
    return RX_N_ENV;
}

#if defined(_WIN32)
#define CACHE_HOME "LOCALAPPDATA"
#define DATA_HOME "LOCALAPPDATA"
#define IS_ABSOLUTE(path) ((path)[0] && (path)[1] == ':')
#else
#define CACHE_HOME "XDG_CACHE_HOME"
#define DATA_HOME "XDG_DATA_HOME"
#define IS_ABSOLUTE(path) (*(path) == '/')
#endif

/* A folder of this user: `own`, else `name` in the folder that the variable `xdg` has, else `name`
 * in `usual` in the home folder. */
static bool user_dir(const char *own, const char *xdg, const char *usual, const char *name,
                     room out)
{
    const char *base = getenv(xdg), *home = getenv("HOME");
    int n = -1;
    if (own)
        n = snprintf(out.data, out.cap, "%s", own);
    else if (base && IS_ABSOLUTE(base))
        n = snprintf(out.data, out.cap, "%s/%s", base, name);
    else if (home && *home)
        n = snprintf(out.data, out.cap, "%s/%s/%s", home, usual, name);
    return n > 0 && (size_t)n < out.cap;
}

bool rx_env_cache_dir(char *out, size_t cap)
{
    return user_dir(rx_env_text(RX_ENV_CACHE_DIR), CACHE_HOME, ".cache", "rlx",
                    (room){out, cap});
}

bool rlx_cache_dir(char *out, size_t cap)
{
    return out && cap && rx_env_cache_dir(out, cap);
}

bool rx_env_store_dir(char *out, size_t cap)
{
    return user_dir(rx_env_text(RX_ENV_STORE), DATA_HOME, ".local/share", "rlx/models",
                    (room){out, cap});
}

bool rx_env_history(char *out, size_t cap)
{
    return user_dir(rx_env_text(RX_ENV_HISTORY), DATA_HOME, ".local/share",
                    "rlx/chat_history", (room){out, cap});
}

const char *rx_env_package_index(void)
{
    const char *text = getenv("PIP_INDEX_URL");
    return text && *text ? text : "https://pypi.org/simple";
}
