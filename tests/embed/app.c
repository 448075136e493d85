/* SPDX-License-Identifier: MIT */
/* A program that embeds rlx: the version it runs on is the version it was built for. */
#include <rlx/rlx.h>

#include <stdio.h>
#include <string.h>

int main(void) {
    char built[32];
    snprintf(built, sizeof built, "%d.%d.%d", RLX_VERSION_MAJOR, RLX_VERSION_MINOR,
             RLX_VERSION_PATCH);
    printf("C: rlx %s, %s\n", rlx_version(), rlx_dtype_name(RLX_F32));
    if (strcmp(built, rlx_version()) != 0) {
        fprintf(stderr, "built for rlx %s, runs on %s\n", built, rlx_version());
        return 1;
    }
    return strcmp(rlx_dtype_name(RLX_F32), "f32") != 0;
}
