/* SPDX-License-Identifier: MIT */
/* The text form: a graph is parsed from text, run, and printed again; mistakes have line and
 * column. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <rlx/rlx.h>

static const char text[] =
    "graph \"distance\" {\n"
    "  # Euclidean distance of each row of a from b\n"
    "  %a: f32[3,2] = input \"a\"\n"
    "  %b: f32[2] = input \"b\"\n"
    "  %d = sub(%a, %b)\n"
    "  %n: f32[3] = reduce_l2(%d) {axes=[1]} \"norm\"\n"
    "  output \"distance\" = %n\n"
    "}\n";

static rlx_status run(const rlx_graph *g, float out[3], rlx_error *err)
{
    float a[] = {3, 4, 0, 0, 6, 8}, b[] = {0, 0};
    rlx_const_tensor in[] = {{"a", a, sizeof a}, {"b", b, sizeof b}};
    rlx_tensor result = {"distance", out, 3 * sizeof *out};
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    rlx_status status = rlx_device_open("auto", NULL, &device, err);
    if (status == RLX_OK)
        status = rlx_session_create(device, g, NULL, &session, err);
    if (status == RLX_OK)
        status = rlx_run(session, in, 2, &result, 1, err);
    rlx_session_destroy(session);
    rlx_device_close(device);
    return status;
}

int main(void)
{
    rlx_error err = {0};
    rlx_graph *g;
    float out[3] = {0};
    char *printed = NULL;
    size_t length;
    if (rlx_graph_parse(text, strlen(text), &g, &err) != RLX_OK || run(g, out, &err) != RLX_OK ||
        rlx_graph_print(g, &printed, &length, &err) != RLX_OK) {
        fprintf(stderr, "text_graph: %s\n", err.text);
        return 1;
    }
    printf("%s\ndistances: %g %g %g\n", printed, out[0], out[1], out[2]);
    rlx_free(printed);
    rlx_graph_destroy(g);

    static const char wrong[] = "graph \"wrong\" {\n"
                                "  %x: f32[2] = input \"x\"\n"
                                "  %y = sofmax(%x)\n"
                                "}\n";
    rlx_status status = rlx_graph_parse(wrong, strlen(wrong), &g, &err);
    printf("a mistake: %s\n", err.text);
    return status == RLX_OK || fabsf(out[0] - 5) > 1e-5f || fabsf(out[2] - 10) > 1e-5f;
}
