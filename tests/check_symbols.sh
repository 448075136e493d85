#!/bin/sh
# SPDX-License-Identifier: MIT
# Checks what the libraries export: librlx.so only rlx_*, librlx.a only rlx_* and rx_*, the SONAME
# is that of docs/abi.md, and every function the public headers declare is there and no other.
# usage: check_symbols.sh NM INCLUDE_DIR LIBRLX_SO LIBRLX_A
set -eu
nm=$1 include=$2 so=$3 archive=$4
failed=0

# names FILE OPTION...: the symbols FILE defines for others
names() {
    file=$1; shift
    "$nm" -g --defined-only "$@" "$file" | awk 'NF == 3 { print $3 }' | sort -u
}

# complain WHAT LIST: reports a list that should be empty
complain() {
    [ -z "$2" ] || { printf '%s:\n%s\n' "$1" "$2"; failed=1; }
}

exported=$(names "$so" -D)
complain "librlx.so exports names that do not start with rlx_" \
    "$(echo "$exported" | grep -v '^rlx_' || true)"
complain "librlx.a has global names that start with neither rlx_ nor rx_" \
    "$(names "$archive" | grep -Ev '^(rlx|rx)_' || true)"

declared=$({
    sed -n 's/^RLX_API[^(]*[ *]\(rlx_[a-z0-9_]*\)(.*/\1/p' "$include"/rlx/*.h
    sed -n 's/^RLX_FUNCTION[12](\([a-z0-9_]*\),.*/rlx_\1/p' "$include"/rlx/functions.def
} | sort -u)
[ -n "$declared" ] || complain "no function is declared in" "$include"
missing=
for name in $declared; do
    echo "$exported" | grep -qx "$name" || missing="$missing $name"
done
complain "declared in a public header, not in librlx.so" "$missing"
undeclared=
for name in $exported; do
    echo "$declared" | grep -qx "$name" || undeclared="$undeclared $name"
done
complain "in librlx.so, not declared in a public header" "$undeclared"

soname=librlx.so.$(sed -n 's/^#define RLX_VERSION_MAJOR *//p' "$include/rlx/base.h")
[ "$soname" != librlx.so.0 ] ||
    soname=$soname.$(sed -n 's/^#define RLX_VERSION_MINOR *//p' "$include/rlx/base.h")
if command -v readelf >/dev/null; then
    readelf -d "$so" | grep -qF "[$soname]" ||
        complain "SONAME is not $soname" "$(readelf -d "$so" | grep SONAME)"
fi
echo "$(echo "$exported" | wc -l) exported, $(echo "$declared" | wc -l) declared"
exit $failed
