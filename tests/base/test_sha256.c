/* SPDX-License-Identifier: MIT */
/* SHA-256: the examples of FIPS 180-4, and that pieces of any size give the same digest. */
#include <string.h>

#include "base/sha256.h"
#include "check.h"

static void expect(const char *text, size_t n, const char *digest)
{
    rx_sha256 s;
    char hex[RX_SHA256_HEX];
    for (size_t piece = 1; piece <= n + 1; piece = piece * 3 + 1) {
        rx_sha256_init(&s);
        for (size_t at = 0; at < n; at += piece)
            rx_sha256_add(&s, text + at, n - at < piece ? n - at : piece);
        rx_sha256_end(&s, hex);
        CHECK(!strcmp(hex, digest));
    }
}

int main(void)
{
    static char million[1000000];
    const char *two = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    memset(million, 'a', sizeof million);
    expect("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    expect("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    expect(two, strlen(two), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    expect(million, sizeof million,
           "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    return check_done();
}
