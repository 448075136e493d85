/* SPDX-License-Identifier: MIT */
/* Writing files: faults at each system call, what may be replaced, links, pipes and devices,
 * permissions, temporaries of other processes. */
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "rlx/file.h"
#include "support/file_faults.h"
#include "support/memory.h"

static const rx_file_kind kind = {"a test file", "TEST", 4, 0};

static rlx_status save_text(const char *path, const char *text, rlx_error *err)
{
    return rx_outfile_save(path, &kind, &(rx_bytes){text, strlen(text)}, 1, err);
}

static bool holds(const char *path, const char *text)
{
    return file_equals(path, &(file_bytes){(char *)(uintptr_t)text, strlen(text)});
}

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    CHECK(f && fwrite(text, 1, strlen(text), f) == strlen(text) && !fclose(f));
}

/* ---- Faults ---------------------------------------------------------------------------------- */

/* Pieces below, at and above the size of the buffer. */
static rlx_status save_pieces(void *user, const char *path, int version, rlx_error *err)
{
    static char data[300000];
    (void)user;
    memset(data, 'a' + version, sizeof data);
    const rx_bytes pieces[] = {{"TEST", 4}, {data, 10}, {data, 65536}, {NULL, 0}, {data, 65530},
                               {data, 7}, {data, 100000}, {data, 1}};
    return rx_outfile_save(path, &kind, pieces, sizeof pieces / sizeof *pieces, err);
}

static rlx_status save_public(void *user, const char *path, int version, rlx_error *err)
{
    (void)user;
    const char *text = version ? "TEST of the second version" : "TEST of the first";
    return rlx_save_file(path, "a test file", 4, text, strlen(text), err);
}

/* ---- The order of the calls ------------------------------------------------------------------ */

#ifdef __linux__
static char calls[64]; /* w: write, s: sync of a file, r: rename, d: sync of a folder */

static void note_call(char call)
{
    const size_t n = strlen(calls);
    if (n + 1 < sizeof calls && (call != 'w' || !n || calls[n - 1] != 'w'))
        calls[n] = call;
}

/* In place of those of the C library. */
int fsync(int fd)
{
    struct stat st;
    note_call(!fstat(fd, &st) && S_ISDIR(st.st_mode) ? 'd' : 's');
    return fdatasync(fd);
}

int rename(const char *from, const char *to)
{
    note_call('r');
    return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

static int note_write(void *user, const char *call, size_t *bytes)
{
    (void)user;
    (void)bytes;
    if (!strcmp(call, "write"))
        note_call('w');
    return 0;
}

/* The bytes are on the disk before the name is, and the name when the call returns. */
static void test_order(void)
{
    rlx_error err = {0};
    rx_outfile_set_hook(note_write, NULL);
    for (int version = 0; version < 2; version++) {
        memset(calls, 0, sizeof calls);
        CHECK_OK(save_pieces(NULL, "ordered", version, &err), &err);
        if (!CHECK(!strcmp(calls, "wsrd")))
            printf("    %s\n", calls);
    }
    rx_outfile_set_hook(NULL, NULL);
    CHECK(!unlink("ordered"));
}
#else
static void test_order(void) {}
#endif

/* ---- What may be replaced -------------------------------------------------------------------- */

static void test_kinds(void)
{
    rlx_error err = {0};
    const struct {
        const char *bytes, *found;
        size_t n;
    } others[] = {
        {"GGUF\3\0\0\0", "found a GGUF file", 8}, {"\x93NUMPY\1\0", "found a NumPy file", 8},
        {"RLXSEQ\0\1", "found a saved chat", 8}, {"Milk, bread\n", "found a text file", 12},
        {"\x10\0\0\0\0\0\0\0{\"a\":1}", "found a safetensors file", 15},
        {"\x7f" "ELF\2\1", "found a file of another kind", 6}, {"TES", "found a text file", 3},
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        file_bytes want = {(char *)(uintptr_t)others[i].bytes, others[i].n};
        FILE *f = fopen("other", "wb");
        CHECK(f && fwrite(want.data, 1, want.n, f) == want.n && !fclose(f));
        CHECK_FAILS(save_text("other", "TEST", &err), RLX_INVALID, &err, others[i].found);
        CHECK(strstr(err.text, "'other'") && strstr(err.text, "expected a test file"));
        CHECK(file_equals("other", &want));
    }
    put_file("other", "");
    CHECK_OK(save_text("other", "TEST 1", &err), &err);
    CHECK_OK(save_text("other", "TEST 2", &err), &err);
    CHECK(holds("other", "TEST 2"));
    /* What comes to be there while the file is written is seen, too. */
    rx_outfile f;
    CHECK_OK(rx_outfile_open("late", &kind, &f, &err), &err);
    put_file("late", "notes");
    CHECK_FAILS(rx_outfile_commit(&f, &err), RLX_INVALID, &err, "'late' was not replaced");
    CHECK(holds("late", "notes") && count_files(".") == 2);
    CHECK_FAILS(save_text("", "TEST", &err), RLX_INVALID, &err, "is empty");
    CHECK_FAILS(save_text(NULL, "TEST", &err), RLX_INVALID, &err, "is NULL");
    CHECK_FAILS(save_text("no/such", "TEST", &err), RLX_IO, &err, "'no/such'");
    CHECK_FAILS(save_text("other/file", "TEST", &err), RLX_IO, &err, "Not a directory");
    unlink("late");
    unlink("other");
}

static void test_permissions(void)
{
    rlx_error err = {0};
    struct stat st;
    const mode_t old = umask(027);
    CHECK_OK(save_text("file", "TEST", &err), &err);
    CHECK(!stat("file", &st) && (st.st_mode & 07777) == 0640);
    CHECK(!chmod("file", 0604));
    CHECK_OK(save_text("file", "TEST 2", &err), &err);
    CHECK(!stat("file", &st) && (st.st_mode & 07777) == 0604);
    CHECK(!chmod("file", 0444));
    CHECK_FAILS(save_text("file", "TEST 3", &err), RLX_IO, &err, "it is read-only");
    CHECK(holds("file", "TEST 2"));
    umask(old);
    /* A hard link keeps the old bytes. */
    CHECK(!chmod("file", 0644) && !link("file", "other"));
    CHECK_OK(save_text("file", "TEST 3", &err), &err);
    CHECK(holds("file", "TEST 3") && holds("other", "TEST 2"));
    unlink("other");
    unlink("file");
    if (geteuid() == 0) /* root may write everywhere */
        return;
    CHECK(!mkdir("closed", 0500));
    CHECK_FAILS(save_text("closed/file", "TEST", &err), RLX_IO, &err, "Permission denied");
    rmdir("closed");
}

static bool is_link(const char *path)
{
    struct stat st;
    return !lstat(path, &st) && S_ISLNK(st.st_mode);
}

static void test_links(void)
{
    rlx_error err = {0};
    CHECK(!mkdir("a", 0777) && !mkdir("b", 0777) && !symlink("../b/two", "a/one") &&
          !symlink("file", "b/two"));
    CHECK_OK(save_text("a/one", "TEST 1", &err), &err); /* it hangs in the air */
    CHECK_OK(save_text("a/one", "TEST 2", &err), &err);
    CHECK(is_link("a/one") && is_link("b/two") && !is_link("b/file") && holds("b/file", "TEST 2"));
    CHECK(count_files("a") == 1 && count_files("b") == 2);
    put_file("b/file", "notes");
    CHECK_FAILS(save_text("a/one", "TEST", &err), RLX_INVALID, &err, "'a/one' was not replaced");
    CHECK(!symlink("loop", "loop"));
    CHECK_FAILS(save_text("loop", "TEST", &err), RLX_IO, &err, "more than 40 links");
    unlink("loop");
    unlink("a/one");
    unlink("b/two");
    unlink("b/file");
    rmdir("a");
    rmdir("b");
}

/* ---- Pipes, devices, folders ----------------------------------------------------------------- */

static void test_streams(void)
{
    rlx_error err = {0};
    struct stat st;
    char text[32] = "";
    CHECK(!mkdir("folder", 0777) && !mkfifo("pipe", 0666));
    CHECK_FAILS(save_text("folder", "TEST", &err), RLX_IO, &err, "it is a folder");
    CHECK_FAILS(save_text("folder/", "TEST", &err), RLX_IO, &err, "it is a folder");
    CHECK_FAILS(save_text("pipe", "TEST", &err), RLX_IO, &err, "a pipe that no one reads");
    int reader = open("pipe", O_RDONLY | O_NONBLOCK);
    CHECK_OK(save_text("pipe", "TEST", &err), &err);
    CHECK(read(reader, text, sizeof text) == 4 && !memcmp(text, "TEST", 4));
    close(reader);
    CHECK(!stat("pipe", &st) && S_ISFIFO(st.st_mode) && count_files("folder") == 0);
    CHECK_OK(save_text("/dev/null", "TEST", &err), &err);
    CHECK(!stat("/dev/null", &st) && S_ISCHR(st.st_mode));
    int ends[2];
    CHECK(!pipe(ends));
    snprintf(text, sizeof text, "/dev/fd/%d", ends[1]);
    CHECK_OK(save_text(text, "TEST", &err), &err);
    CHECK(read(ends[0], text, sizeof text) == 4);
    close(ends[0]);
    close(ends[1]);
    CHECK_FAILS(save_text("/dev/fd/999", "TEST", &err), RLX_IO, &err, "'/dev/fd/999'");
    struct sockaddr_un at = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int s = socket(AF_UNIX, SOCK_STREAM, 0);
    if (CHECK(s >= 0 && !bind(s, (struct sockaddr *)&at, sizeof at)))
        CHECK_FAILS(save_text("socket", "TEST", &err), RLX_IO, &err, "it is a socket");
    close(s);
    unlink("socket");
    unlink("pipe");
    rmdir("folder");
}

/* A pipe, a folder or a device that shall be read is refused at once. */
static void test_reading(void)
{
    rlx_error err = {0};
    rx_file f;
    CHECK(!mkfifo("pipe", 0666));
    CHECK_FAILS(rx_file_open("pipe", &f, &err), RLX_IO, &err, "it is a pipe; expected a regular");
    CHECK_FAILS(rx_file_open(".", &f, &err), RLX_IO, &err, "it is a folder");
    CHECK_FAILS(rx_file_open("/dev/zero", &f, &err), RLX_IO, &err, "it is a character device");
    unlink("pipe");
}

/* ---- Temporaries ----------------------------------------------------------------------------- */

static int refuse_unnamed(void *user, const char *call, size_t *bytes)
{
    (void)user, (void)bytes;
    return strcmp(call, "tmpfile") ? 0 : EOPNOTSUPP;
}

/* Another process writes the same file at the same time: neither disturbs the other. */
static void test_two_writers(void)
{
    rlx_error err = {0};
    int to_child[2], to_parent[2], status = 1;
    char byte = 0;
    CHECK(!pipe(to_child) && !pipe(to_parent));
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        rx_outfile f;
        rx_outfile_set_hook(refuse_unnamed, NULL);
        bool ok = rx_outfile_open("file", &kind, &f, &err) == RLX_OK && count_files(".") == 1 &&
                  write(to_parent[1], "x", 1) == 1 && read(to_child[0], &byte, 1) == 1 &&
                  rx_outfile_write(&f, "TEST child", 10, &err) == RLX_OK &&
                  rx_outfile_commit(&f, &err) == RLX_OK;
        _exit(!ok);
    }
    CHECK(read(to_parent[0], &byte, 1) == 1);
    rx_outfile_set_hook(refuse_unnamed, NULL);
    CHECK_OK(save_text("file", "TEST parent", &err), &err);
    rx_outfile_set_hook(NULL, NULL);
    CHECK(holds("file", "TEST parent") && count_files(".") == 2);
    CHECK(write(to_child[1], "x", 1) == 1);
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(holds("file", "TEST child") && count_files(".") == 1);
    for (int i = 0; i < 2; i++) {
        close(to_child[i]);
        close(to_parent[i]);
    }
    unlink("file");
}

/* Only files that are called like temporaries, are no links and are not locked are removed. */
static void test_leftovers(void)
{
    static const char *const kept[] = {"file.part-0123456789abcdeX", "file.part-0123456789abcde",
                                       "file.part-0123456789abcdef0", "file2.part-0123456789abcdef",
                                       "file.part-00000000aaaaaaaa"};
    rlx_error err = {0};
    const int n_kept = sizeof kept / sizeof *kept;
    for (int i = 0; i < n_kept; i++)
        put_file(kept[i], "mine");
    int locked = open(kept[n_kept - 1], O_RDONLY);
    CHECK(locked >= 0 && !flock(locked, LOCK_EX));
    put_file("file.part-0123456789abcdef", "left");
    CHECK(!symlink("target", "file.part-1111111111111111"));
    CHECK_OK(save_text("file", "TEST", &err), &err);
    CHECK(count_files(".") == n_kept + 2 && is_link("file.part-1111111111111111"));
    for (int i = 0; i < n_kept; i++)
        CHECK(holds(kept[i], "mine") && !unlink(kept[i]));
    close(locked);
    unlink("file.part-1111111111111111");
    unlink("file");
    /* The longest name there is. */
    char name[256];
    memset(name, 'n', 255);
    name[255] = 0;
    for (int named = 0; named < 2; named++) {
        rx_outfile_set_hook(named ? refuse_unnamed : NULL, NULL);
        CHECK_OK(save_text(name, "TEST", &err), &err);
        CHECK(holds(name, "TEST") && count_files(".") == 1 && !unlink(name));
    }
    rx_outfile_set_hook(NULL, NULL);
}

static void test_discard(void)
{
    rlx_error err = {0};
    for (int named = 0; named < 2; named++) {
        rx_outfile f = {0};
        rx_outfile_discard(&f);
        rx_outfile_set_hook(named ? refuse_unnamed : NULL, NULL);
        CHECK_OK(rx_outfile_open("file", &kind, &f, &err), &err);
        CHECK_OK(rx_outfile_write(&f, "TEST", 4, &err), &err);
        CHECK(count_files(".") == named && f.bytes == 4);
        rx_outfile_discard(&f);
        rx_outfile_discard(&f);
        CHECK(count_files(".") == 0);
    }
    rx_outfile_set_hook(NULL, NULL);
}

static void test_memory(void)
{
    rlx_error err = {0};
    CHECK(!symlink("file", "link"));
    rlx_set_allocator(&counting);
    rlx_status st = RLX_NO_MEMORY;
    for (long at = 1; st != RLX_OK; at++) {
        memory_fail(at, false);
        st = save_text("link", "TEST", &err);
        CHECK(st == RLX_OK || st == RLX_NO_MEMORY);
        CHECK(memory_live() == 0 && count_files(".") <= 2);
    }
    memory_fail(0, false);
    rlx_set_allocator(NULL);
    CHECK(holds("file", "TEST"));
    unlink("link");
    unlink("file");
}

int main(void)
{
    check_file_faults("rx_outfile", save_pieces, NULL);
    check_file_faults("rlx_save_file", save_public, NULL);
    char folder[] = "outfile-XXXXXX";
    if (!CHECK(mkdtemp(folder) && !chdir(folder)))
        return check_done();
    test_order();
    test_kinds();
    test_permissions();
    test_links();
    test_streams();
    test_reading();
    test_two_writers();
    test_leftovers();
    test_discard();
    test_memory();
    CHECK(count_files(".") == 0);
    CHECK(!chdir("..") && !rmdir(folder));
    return check_done();
}
