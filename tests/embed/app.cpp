/* SPDX-License-Identifier: MIT */
/* The same in C++: the headers are valid C++ and the names link. */
#include <rlx/rlx.h>

#include <iostream>
#include <string>

int main() {
    const std::string built = std::to_string(RLX_VERSION_MAJOR) + "." +
                              std::to_string(RLX_VERSION_MINOR) + "." +
                              std::to_string(RLX_VERSION_PATCH);
    std::cout << "C++: rlx " << rlx_version() << ", " << rlx_dtype_name(RLX_F32) << "\n";
    return built == rlx_version() && std::string(rlx_dtype_name(RLX_F32)) == "f32" ? 0 : 1;
}
