/* SPDX-License-Identifier: MIT */
/* A C++ program that embeds rlx: y = x * x through a session held by smart pointers. */
#include <rlx/rlx.h>

#include <cstdio>
#include <memory>
#include <vector>

struct deleter {
    void operator()(rlx_graph *g) const { rlx_graph_destroy(g); }
    void operator()(rlx_device *d) const { rlx_device_close(d); }
    void operator()(rlx_session *s) const { rlx_session_destroy(s); }
};

int main()
{
    rlx_error err{};
    std::unique_ptr<rlx_graph, deleter> g(rlx_graph_create("embed"));
    const rlx_dim dims[] = {3};
    rlx_value x = rlx_input(g.get(), "x", RLX_F32, 1, dims);
    rlx_output(g.get(), "y", rlx_mul(g.get(), x, x));

    rlx_device *device = nullptr;
    rlx_session *session = nullptr;
    rlx_status s = rlx_device_open("cpu", nullptr, &device, &err);
    std::unique_ptr<rlx_device, deleter> device_owner(device);
    rlx_session_desc desc = RLX_DEFAULT(rlx_session_desc);
    desc.policy = RLX_POLICY_FAST;
    if (s == RLX_OK)
        s = rlx_session_create(device, g.get(), &desc, &session, &err);
    std::unique_ptr<rlx_session, deleter> session_owner(session);

    std::vector<float> in{1, -2, 3}, out(3);
    const rlx_const_tensor input{"x", in.data(), in.size() * sizeof(float)};
    const rlx_tensor output{"y", out.data(), out.size() * sizeof(float)};
    if (s == RLX_OK)
        s = rlx_run(session, &input, 1, &output, 1, &err);
    if (s != RLX_OK)
        std::fprintf(stderr, "%s\n", err.text);
    std::printf("C++: rlx %s, y = %g %g %g\n", rlx_version(), out[0], out[1], out[2]);
    return s != RLX_OK || out != std::vector<float>{1, 4, 9};
}
