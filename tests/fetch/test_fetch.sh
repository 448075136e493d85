#!/bin/sh
# SPDX-License-Identifier: MIT
# Downloads are pinned: the table of tools/fetch is whole, a file with another content is refused by
# name, expected and found hash, nothing downloads beside get.sh, and no server is named.
set -eu
cd "${RLX_SOURCE_DIR:-$(dirname "$0")/../..}"
failed=0
complain() { echo "$*"; failed=1; }

bad=$(awk '!/^#/ && (NF != 5 || $1 !~ /^(pip|sdist|npm|maven)$/ || $4 !~ /^[0-9a-f]+$/ ||
    length($4) != 64 || index($5, $3) == 0)' tools/fetch/pins.txt)
[ -z "$bad" ] || complain "pins.txt: malformed: $bad"

direct=$(grep -rnE 'pip download|pip", "download|npm (pack|install) |mvn ' run tools tests bench \
    --include=run --include='*.sh' --include='*.py' --include='*.cmake' |
    grep -v -e '^tools/fetch/get.sh:' -e '^tests/fetch/' || true)
[ -z "$direct" ] || complain "downloads that are not checked: $direct"
hosts=$(grep -rn '://' tools/fetch || true)
[ -z "$hosts" ] || complain "a server is named: $hosts"

# A registry that gives what was not pinned.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
printf '#!/bin/sh\necho changed >bun-webgpu-linux-x64-0.1.7.tgz\n' >"$work/bin/npm"
chmod +x "$work/bin/npm"
expected=$(awk '$2 == "bun-webgpu-linux-x64" {print $4}' tools/fetch/pins.txt)
got=$(echo changed | sha256sum | cut -d ' ' -f 1)

refuse() { # STATUS TEXT COMMAND...: it fails with this status and says this
    status=$1 text=$2
    shift 2
    found=0
    said=$(PATH="$work/bin:$PATH" "$@" 2>&1) || found=$?
    [ "$found" = "$status" ] || complain "$*: expected status $status, got $found: $said"
    case $said in *"$text"*) ;; *) complain "$*: expected '$text', got '$said'" ;; esac
}
refuse 2 "bun-webgpu-linux-x64-0.1.7.tgz: expected SHA-256 $expected, got $got" \
    sh tools/fetch/get.sh "$work/out" bun-webgpu-linux-x64
[ -z "$(ls "$work/out")" ] || complain "the changed file was kept"
printf '#!/bin/sh\necho new >bun-webgpu-linux-x64-9.tgz\n' >"$work/bin/npm"
refuse 1 "bun-webgpu-linux-x64-9.tgz is not in tools/fetch/pins.txt" \
    sh tools/fetch/get.sh "$work/out" bun-webgpu-linux-x64
printf '#!/bin/sh\nexit 1\n' >"$work/bin/npm"
refuse 1 "npm cannot fetch bun-webgpu-linux-x64 0.1.7" \
    sh tools/fetch/get.sh "$work/out" bun-webgpu-linux-x64
refuse 1 "no-such-package is not in tools/fetch/pins.txt" \
    sh tools/fetch/get.sh "$work/out" no-such-package
[ $failed = 0 ] && echo ok
exit $failed
