#!/bin/sh
# SPDX-License-Identifier: MIT
# get.sh DIR PACKAGE...: downloads packages into DIR, in the versions of pins.txt, by pip (wheels,
# or the source package with sdist), npm or Maven, which know the servers. A file is left there
# only when its SHA-256 is that of pins.txt. sdist:NAME is the source package of one whose wheel is
# pinned too, npm:NAME the package of npm where pip has one of that name.
# Exit status: 1 cannot be had here, and why; 2 a file is not the one that was pinned.
set -eu
pins=$(cd "$(dirname "$0")" && pwd)/pins.txt
dir=${1:?usage: get.sh DIR PACKAGE...}
shift

say() { echo "fetch: $*" >&2; }
cannot() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# by_* PACKAGE VERSION: leaves its files in the folder, whatever they hold; by_pip takes
# PACKAGE==VERSION...
by_pip() {
    have python3 && python3 -m pip --version >/dev/null 2>&1 || cannot "$*: there is no pip"
    python3 -m pip download -q --retries 1 --no-deps --only-binary=:all: -d . "$@" >&2
}
# pip asks the build system of a source package for its metadata: one that knows just name and
# version answers, so that nothing of the package is run and nothing else is fetched.
by_sdist() {
    have python3 && python3 -m pip --version >/dev/null 2>&1 || cannot "$1: there is no pip"
    stub=$(mktemp -d)
    mkdir "$stub/hatchling"
    : >"$stub/hatchling/__init__.py"
    cat >"$stub/hatchling/build.py" <<EOF
import os
def get_requires_for_build_wheel(config_settings=None):
    return []
def prepare_metadata_for_build_wheel(folder, config_settings=None):
    os.makedirs(os.path.join(folder, "$1-$2.dist-info"))
    with open(os.path.join(folder, "$1-$2.dist-info", "METADATA"), "w") as f:
        print("Metadata-Version: 2.1", "Name: $1", "Version: $2", sep=chr(10), file=f)
    return "$1-$2.dist-info"
EOF
    status=0
    PYTHONPATH=$stub python3 -m pip download -q --retries 1 --no-deps --no-build-isolation \
        --no-binary "$1" -d . "$1==$2" >&2 || status=1
    rm -r "$stub"
    return $status
}
by_npm() {
    have npm || cannot "$1: there is no npm"
    npm pack --silent --fetch-retries=1 "$1@$2" >/dev/null
}
by_maven() {
    have mvn || cannot "$1: there is no Maven"
    mvn -q -B -Dstyle.color=never dependency:copy -Dartifact="$1:$2:jar:natives-linux" \
        -DoutputDirectory=. >&2
}

# check FILE PACKAGE: it is one of the package's files in the table
check() {
    expected=$(awk -v package="$2" -v file="$1" '$2 == package && $5 == file {print $4}' "$pins")
    [ -n "$expected" ] || cannot "$2: $1 is not in tools/fetch/pins.txt"
    got=$(sha256sum "$1" | cut -d ' ' -f 1)
    [ "$got" = "$expected" ] || { say "$1: expected SHA-256 $expected, got $got"; exit 2; }
}

mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
cd "$work"
# take PACKAGE: moves its files to the folder
take() {
    for file in *; do
        check "$file" "$1"
        mv "$file" "$dir/"
    done
}
wheels=''
for package; do
    pin=$(awk -v package="$package" '$2 == package {print $1, $3; exit}' "$pins")
    [ -n "$pin" ] || cannot "$package is not in tools/fetch/pins.txt"
    version=${pin#* }
    if [ "${pin% *}" = pip ]; then
        wheels="$wheels $package==$version"
    else
        name=${package#sdist:}
        "by_${pin% *}" "${name#npm:}" "$version" ||
            cannot "${pin% *} cannot fetch $package $version"
        take "$package"
    fi
done
# Wheels by one call: pip takes longer to start than to fetch.
if [ -n "$wheels" ]; then
    # shellcheck disable=SC2086
    by_pip $wheels || cannot "pip cannot fetch$wheels"
    for file in *; do
        package=$(awk -v file="$file" '$5 == file {print $2; exit}' "$pins")
        check "$file" "${package:-a wheel of$wheels}"
        mv "$file" "$dir/"
    done
fi
