#!/bin/sh
# SPDX-License-Identifier: MIT
# lavapipe.sh DIR: unpacks the lavapipe of Debian 12's backports into DIR, for the tests: it is some
# five times faster than the one of Debian 12 itself. Beside it RADV, which compiles for AMD's cards
# where there are none (RADV_FORCE_FAMILY). Installs nothing and needs no root. The server is that
# of the machine's own package sources; apt-get checks its signature and every hash. Leaves
# DIR/icd.json and DIR/radv.json, to be named in VK_DRIVER_FILES, with DIR/lib in LD_LIBRARY_PATH.
# Exit status 77: cannot be had here, and why; 1: what came is not what was signed.
set -eu
dir=${1:?usage: lavapipe.sh DIR}
skip() { echo "lavapipe: $*; the installed one is used"; exit 77; }

[ ! -f "$dir/icd.json" ] || [ ! -f "$dir/radv.json" ] || exit 0
system=$(. /etc/os-release 2>/dev/null && echo "$ID $VERSION_ID") || true
[ "$system" = "debian 12" ] || skip "only Debian 12 has an old one, this is ${system:-unknown}"
command -v apt-get >/dev/null && command -v dpkg >/dev/null || skip "no apt-get"
server=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' \
    'Created-By: Packages' | sed -n 's/^bookworm main //p' | head -n 1)
[ -n "$server" ] || skip "apt-get has no source of bookworm"
keys=/usr/share/keyrings/debian-archive-keyring.gpg
[ -f $keys ] || skip "no $keys"

mkdir -p "$dir"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$work/lists/partial" "$work/archives/partial" "$work/parts"
cat >"$work/sources" <<TEXT
deb [signed-by=$keys] $server bookworm-backports main
TEXT
: >"$work/status"

# A private set of package lists: those of the system stay as they are.
fetch() {
    timeout 300 apt-get -qq -o Dir::State::lists="$work/lists" \
        -o Dir::State::status="$work/status" -o Dir::Cache="$work" \
        -o Dir::Cache::archives="$work/archives" \
        -o Dir::Etc::sourcelist="$work/sources" -o Dir::Etc::sourceparts="$work/parts" \
        -o APT::Sandbox::User=root -o Acquire::Languages=none -o Acquire::Retries=2 "$@" \
        >"$work/log" 2>&1 || give_up "$1"
}

give_up() { # COMMAND
    tail -n 3 "$work/log"
    ! grep -qE 'Hash Sum mismatch|BADSIG|EXPKEYSIG|not signed' "$work/log" ||
        { echo "lavapipe: apt-get $1: the package is not what was signed"; exit 1; }
    skip "apt-get $1 failed"
}
fetch update
(cd "$work" && fetch download mesa-vulkan-drivers libdrm2 libdrm-amdgpu1) || exit $?
for package in "$work"/*.deb; do
    dpkg -x "$package" "$work/root"
done

mkdir -p "$dir/lib"
full=$(cd "$dir" && pwd)
add_driver() { # LIBRARY MANIFEST
    driver=$(find "$work/root" -name "$1")
    [ -n "$driver" ] || skip "the package has no $1"
    # New files: a program that runs with those of an earlier call keeps them.
    cp -a --remove-destination "$driver" "$work"/root/usr/lib/*/libdrm*.so* "$dir/lib/"
    missing=$(LD_LIBRARY_PATH="$full/lib" ldd "$full/lib/$1" | grep 'not found' || true)
    [ -z "$missing" ] || skip "$1 needs$missing"
    cat >"$dir/$2.part" <<TEXT
{"file_format_version": "1.0.0",
 "ICD": {"library_path": "$full/lib/$1", "api_version": "1.4.305"}}
TEXT
    mv "$dir/$2.part" "$dir/$2"
}
add_driver libvulkan_radeon.so radv.json
add_driver libvulkan_lvp.so icd.json
echo "lavapipe: unpacked into $full"
