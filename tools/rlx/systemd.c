/* SPDX-License-Identifier: MIT */
/* Socket activation and readiness, as systemd's manual pages describe them. */
#include "systemd.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define FIRST_FD 3

int systemd_socket(void)
{
    const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");
    if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid() || strtol(n, NULL, 10) < 1)
        return 0;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    return fcntl(FIRST_FD, F_SETFD, FD_CLOEXEC) ? 0 : FIRST_FD;
}

void systemd_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    if (!path || (*path != '/' && *path != '@') || strlen(path) >= sizeof a.sun_path)
        return;
    const size_t n = strlen(path);
    memcpy(a.sun_path, path, n);
    if (*path == '@')
        a.sun_path[0] = 0; /* an abstract socket */
    const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (fd < 0)
        return;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&a,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    close(fd);
}
