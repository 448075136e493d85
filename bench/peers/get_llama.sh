#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches llama.cpp as prebuilt libraries (the npm package node-llama-cpp has them for every level
# of x86-64, pinned in tools/fetch/pins.txt) into DIR and builds llama_bench against them. What is
# there already is kept.
# usage: get_llama.sh DIR; then bench/compare --llama DIR
set -eu

dir=${1:?usage: get_llama.sh DIR}
here=$(cd "$(dirname "$0")" && pwd)

mkdir -p "$dir/pkg" "$dir/src" "$dir/lib"
cd "$dir"

fetch() { # a package of npm; its files go to pkg/NAME
    name=$(echo "$1" | tr -d @ | tr / -)
    [ -d "pkg/$name" ] && return
    sh "$here/../../tools/fetch/get.sh" archives "$1"
    mkdir -p "pkg/$name"
    tar xzf archives/*.tgz -C "pkg/$name"
    rm -r archives
}

if ! ls lib/libllama.v*.so > /dev/null 2>&1; then
    fetch node-llama-cpp
    fetch @node-llama-cpp/linux-x64
    find pkg -name '*.so*' -exec cp -n {} lib/ \;
fi
if ! [ -d src/llama.cpp ]; then # the headers, from the bundle that comes with the package
    git clone --quiet "$(find pkg -name gitRelease.bundle | head -n 1)" src/llama.cpp
fi

library() { find lib -name "$1" ! -name '*vulkan*' | head -n 1; }
headers=src/llama.cpp
${CXX:-c++} -O2 -std=c++17 -Wall -Wextra -I"$headers/include" -I"$headers/ggml/include" \
    "$here/llama_bench.cpp" -o lib/llama_bench \
    "$(library 'libllama.v*.so')" "$(library 'libggml.v*.so')" lib/libggml-base.so \
    -Wl,-rpath,'$ORIGIN' -Wl,--allow-shlib-undefined
echo "built $dir/lib/llama_bench"
