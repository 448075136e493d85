/* SPDX-License-Identifier: MIT */
/* system.h over POSIX. */
#include "system.h"

#include <fnmatch.h>
#include <locale.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <wchar.h>

void system_start(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is an error with a sentence */
}

void system_on_interrupt(void (*fn)(int))
{
    struct sigaction on = {.sa_handler = fn, .sa_flags = SA_RESTART};
    sigemptyset(&on.sa_mask);
    sigaction(SIGINT, &on, NULL);
}

void system_on_end(void (*fn)(int))
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction on = {.sa_handler = fn, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
    sigemptyset(&on.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction old;
        if (!sigaction(numbers[i], NULL, &old) && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &on, NULL);
    }
}

/* ---- The terminal ---------------------------------------------------------------------------- */

void system_screen(FILE *f, int *columns, int *rows)
{
    struct winsize size = {0};
    const bool known = !ioctl(fileno(f), TIOCGWINSZ, &size);
    *columns = known ? size.ws_col : 0;
    *rows = known ? size.ws_row : 0;
}

static struct termios before;

bool system_raw_begin(void)
{
    if (tcgetattr(STDIN_FILENO, &before))
        return false;
    struct termios raw = before;
    raw.c_iflag &= (tcflag_t) ~(ICRNL | IXON | INPCK | ISTRIP | BRKINT);
    raw.c_lflag &= (tcflag_t) ~(ECHO | ICANON | IEXTEN | ISIG);
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    return !tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
}

void system_raw_end(void)
{
    tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

int system_read_key(void)
{
    unsigned char c;
    return read(STDIN_FILENO, &c, 1) == 1 ? c : -1;
}

bool system_key_waits(void)
{
    int n = 0;
    return ioctl(STDIN_FILENO, FIONREAD, &n) == 0 && n > 0;
}

int system_char_width(unsigned c)
{
    static bool has_locale;
    /* For wcwidth alone: numbers and messages stay as they are. */
    if (!has_locale && (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1))
        setlocale(LC_CTYPE, "C.UTF-8");
    has_locale = true;
    return wcwidth((wchar_t)c);
}

bool system_matches(const char *pattern, const char *text)
{
    return !fnmatch(pattern, text, 0);
}

/* ---- Streams into memory --------------------------------------------------------------------- */

FILE *system_memory_begin(char **data, size_t *n)
{
    return open_memstream(data, n);
}

bool system_memory_end(FILE *f, char **data, size_t *n)
{
    (void)data, (void)n;
    const bool ok = !ferror(f);
    return !fclose(f) && ok;
}
