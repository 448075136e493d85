/* SPDX-License-Identifier: MIT */
/* system.h over Windows: its console takes and gives escape sequences (Windows 10 and later). */
#include "system.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <shellapi.h>

#include "systemd.h"

/* ---- Arguments and streams ------------------------------------------------------------------- */

static void start_console(DWORD which)
{
    HANDLE h = GetStdHandle(which);
    DWORD mode;
    if (GetConsoleMode(h, &mode))
        SetConsoleMode(h, mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING);
}

/* The arguments as UTF-8; they live as long as the process. Those of main are left where there is
 * no memory. */
static void take_arguments(int *argc, char ***argv)
{
    int n = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &n);
    char **out = wide ? calloc((size_t)n + 1, sizeof *out) : NULL;
    for (int i = 0; out && i < n; i++) {
        const int room = WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, NULL, 0, NULL, NULL);
        out[i] = room > 0 ? malloc((size_t)room) : NULL;
        if (!out[i])
            return;
        WideCharToMultiByte(CP_UTF8, 0, wide[i], -1, out[i], room, NULL, NULL);
    }
    if (out) {
        *argc = n;
        *argv = out;
    }
}

void system_start(int *argc, char ***argv)
{
    take_arguments(argc, argv);
    for (int fd = 0; fd < 3; fd++)
        _setmode(fd, _O_BINARY);
    /* The C library of Windows keeps a line of standard error until it is whole or never. */
    setvbuf(stderr, NULL, _IONBF, 0);
    SetConsoleOutputCP(CP_UTF8);
    SetConsoleCP(CP_UTF8);
    start_console(STD_OUTPUT_HANDLE);
    start_console(STD_ERROR_HANDLE);
}

void system_on_interrupt(void (*fn)(int)) { signal(SIGINT, fn); }

void system_on_end(void (*fn)(int))
{
    signal(SIGINT, fn);
    signal(SIGTERM, fn);
    signal(SIGBREAK, fn);
}

/* ---- The console ----------------------------------------------------------------------------- */

void system_screen(FILE *f, int *columns, int *rows)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    *columns = *rows = 0;
    if (!GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fileno(f)), &info))
        return;
    *columns = info.srWindow.Right - info.srWindow.Left + 1;
    *rows = info.srWindow.Bottom - info.srWindow.Top + 1;
}

static DWORD before;
static unsigned char waiting[8]; /* bytes of the last character */
static size_t n_waiting, at_waiting;

bool system_raw_begin(void)
{
    HANDLE h = GetStdHandle(STD_INPUT_HANDLE);
    if (!GetConsoleMode(h, &before))
        return false;
    return SetConsoleMode(h, ENABLE_EXTENDED_FLAGS | ENABLE_VIRTUAL_TERMINAL_INPUT);
}

void system_raw_end(void)
{
    SetConsoleMode(GetStdHandle(STD_INPUT_HANDLE), before);
}

/* The console gives UTF-16: both halves of a pair make one character. */
int system_read_key(void)
{
    HANDLE h = GetStdHandle(STD_INPUT_HANDLE);
    wchar_t c[2];
    DWORD got;
    if (at_waiting == n_waiting) {
        int units = 1;
        if (!ReadConsoleW(h, c, 1, &got, NULL) || got != 1)
            return -1;
        if (c[0] >= 0xd800 && c[0] < 0xdc00) {
            if (!ReadConsoleW(h, c + 1, 1, &got, NULL) || got != 1)
                return -1;
            units = 2;
        }
        const int n = WideCharToMultiByte(CP_UTF8, 0, c, units, (char *)waiting, sizeof waiting,
                                          NULL, NULL);
        if (n < 1)
            return -1;
        n_waiting = (size_t)n;
        at_waiting = 0;
    }
    return waiting[at_waiting++];
}

bool system_key_waits(void)
{
    DWORD n = 0;
    return at_waiting < n_waiting ||
           (GetNumberOfConsoleInputEvents(GetStdHandle(STD_INPUT_HANDLE), &n) && n > 1);
}

/* By ranges of blocks: marks that combine, then what East Asian fonts and pictures draw wide. */
int system_char_width(unsigned c)
{
    static const struct {
        unsigned first, last;
        int width;
    } ranges[] = {
        {0, 0x1f, -1}, {0x7f, 0x9f, -1}, {0x300, 0x36f, 0}, {0x483, 0x489, 0}, {0x591, 0x5bd, 0},
        {0x610, 0x61a, 0}, {0x64b, 0x65f, 0}, {0x1100, 0x115f, 2}, {0x1ab0, 0x1aff, 0},
        {0x1dc0, 0x1dff, 0}, {0x200b, 0x200f, 0}, {0x20d0, 0x20ff, 0}, {0x2e80, 0x303e, 2},
        {0x3041, 0xa4cf, 2}, {0xa960, 0xa97f, 2}, {0xac00, 0xd7a3, 2}, {0xf900, 0xfaff, 2},
        {0xfe00, 0xfe0f, 0}, {0xfe20, 0xfe2f, 0}, {0xfe30, 0xfe6f, 2}, {0xff00, 0xff60, 2},
        {0xffe0, 0xffe6, 2}, {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1faff, 2},
        {0x20000, 0x3fffd, 2},
    };
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (c >= ranges[i].first && c <= ranges[i].last)
            return ranges[i].width;
    return 1;
}

/* Whether c is in the set that begins after '['; *end becomes what follows its ']', or NULL. */
static bool in_set(const char *p, char c, const char **end)
{
    const bool negated = *p == '!' || *p == '^';
    bool found = false;
    p += negated;
    for (const char *first = p; *p && (*p != ']' || p == first); p++) {
        if (p[1] == '-' && p[2] && p[2] != ']') {
            found |= c >= p[0] && c <= p[2];
            p += 2;
        } else {
            found |= *p == c;
        }
    }
    *end = *p ? p + 1 : NULL;
    return found != negated;
}

bool system_matches(const char *pattern, const char *text)
{
    for (; *pattern; pattern++, text++) {
        const char *end;
        if (*pattern == '*') {
            do
                if (system_matches(pattern + 1, text))
                    return true;
            while (*text++);
            return false;
        }
        if (!*text)
            return false;
        if (*pattern == '[') {
            const bool in = in_set(pattern + 1, *text, &end);
            if (end) {
                if (!in)
                    return false;
                pattern = end - 1;
                continue;
            }
        }
        if (*pattern != '?' && *pattern != *text)
            return false;
    }
    return !*text;
}

/* ---- Streams into memory: a file that vanishes when it is closed ----------------------------- */

FILE *system_memory_begin(char **data, size_t *n)
{
    *data = NULL;
    *n = 0;
    return tmpfile();
}

bool system_memory_end(FILE *f, char **data, size_t *n)
{
    bool ok = !ferror(f) && !fflush(f);
    const long end = ok ? ftell(f) : -1;
    if (end >= 0)
        *data = malloc((size_t)end + 1);
    ok = *data && !fseek(f, 0, SEEK_SET) && fread(*data, 1, (size_t)end, f) == (size_t)end;
    if (ok) {
        *n = (size_t)end;
        (*data)[end] = 0;
    }
    fclose(f);
    return ok;
}

/* ---- What systemd would tell ----------------------------------------------------------------- */

int systemd_socket(void) { return 0; }
void systemd_notify(const char *state) { (void)state; }
