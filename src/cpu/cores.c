/* SPDX-License-Identifier: MIT */
/* How many cores the process may use: the affinity mask, cut by the CPU quota of its control group
 * and of each group above it (versions 1 and 2). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/posix.h"
#include "base/thread.h"
#include "cpu/pool.h"

#if defined(__linux__)
#include <sched.h>

#define PATH_ROOM 1024

/* Reads a small file as text; false when it does not exist. */
static bool read_text(const char *path, char *text, size_t cap)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t n = read(fd, text, cap - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    return n > 0;
}

/* Whole cores in a quota of `quota` microseconds each `period`; 0: no limit. */
static int quota_cores(long long quota, long long period)
{
    if (quota <= 0 || period <= 0)
        return 0;
    long long n = (quota + period - 1) / period;
    return n < 1 << 16 ? (int)n : 0;
}

static int group_limit(const char *folder, bool v2)
{
    char path[PATH_ROOM + 64], text[128];
    long long quota = 0, period = 0;
    snprintf(path, sizeof path, "%s/%s", folder, v2 ? "cpu.max" : "cpu.cfs_quota_us");
    if (!read_text(path, text, sizeof text))
        return 0;
    if (v2) /* "max 100000" does not scan: no limit */
        return sscanf(text, "%lld %lld", &quota, &period) == 2 ? quota_cores(quota, period) : 0;
    quota = strtoll(text, NULL, 10);
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (read_text(path, text, sizeof text))
        period = strtoll(text, NULL, 10);
    return quota_cores(quota, period);
}

/* The smallest limit of the group `group` under `mount` and of its parents; 0: none. */
static int tree_limit(const char *mount, const char *group, bool v2)
{
    char folder[PATH_ROOM];
    size_t root = strlen(mount);
    int n = snprintf(folder, sizeof folder, "%s%s", mount, group);
    if (n < 0 || (size_t)n >= sizeof folder)
        return 0;
    int limit = 0;
    for (;;) {
        int here = group_limit(folder, v2);
        if (here && (!limit || here < limit))
            limit = here;
        char *slash = strrchr(folder, '/');
        if (!slash || (size_t)(slash - folder) < root)
            return limit;
        *slash = 0;
    }
}

/* Lines of /proc/self/cgroup are "id:controllers:path"; version 2 has no controllers. */
static int cgroup_limit(void)
{
    char text[4096];
    if (!read_text("/proc/self/cgroup", text, sizeof text))
        return 0;
    int limit = 0;
    char *rest = text;
    for (char *line = strtok_r(rest, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *controllers = strchr(line, ':');
        char *group = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!group)
            continue;
        *group++ = 0;
        controllers++;
        if (!strcmp(group, "/"))
            group = "";
        int here = 0;
        if (!*controllers)
            here = tree_limit("/sys/fs/cgroup", group, true);
        else if (strstr(controllers, "cpu") && !strstr(controllers, "cpuset"))
            here = tree_limit("/sys/fs/cgroup/cpu", group, false);
        if (here && (!limit || here < limit))
            limit = here;
    }
    return limit;
}

int rx_cpu_cores(void)
{
    cpu_set_t mask[8]; /* 8192 processors */
    int n = 0;
    if (!sched_getaffinity(0, sizeof mask, mask))
        n = CPU_COUNT_S(sizeof mask, mask);
    if (n < 1)
        n = rx_processors();
    int limit = cgroup_limit();
    if (limit && limit < n)
        n = limit;
    return n < 1 ? 1 : n;
}

#elif RX_WASM_THREADS

int rx_cpu_cores(void) { return 1 + rx_thread_room(); }

#else

int rx_cpu_cores(void) { return rx_processors(); }

#endif
