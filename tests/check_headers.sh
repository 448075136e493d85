#!/bin/sh
# SPDX-License-Identifier: MIT
# Compiles each public header alone, as C11 and as C++11, with every warning an error.
# usage: check_headers.sh INCLUDE_DIR CC [CXX]
set -eu
include=$1 cc=$2 cxx=${3:-}
flags="-Wall -Wextra -pedantic -Werror -fsyntax-only -I$include"
failed=0 n=0

command -v "$cxx" >/dev/null || { cxx=; echo "no C++ compiler: headers are checked as C only"; }
for header in "$include"/rlx/*.h; do
    name=rlx/${header##*/}
    echo "#include <$name>" | "$cc" -std=c11 -x c $flags - || failed=1
    [ -z "$cxx" ] || echo "#include <$name>" | "$cxx" -std=c++11 -x c++ $flags - || failed=1
    echo "$name"
    n=$((n + 1))
done
[ "$n" -gt 5 ] || { echo "no headers in $include"; exit 1; }
exit $failed
