#!/bin/sh
# SPDX-License-Identifier: MIT
# tell_story.sh EMULATOR TOOL: the command line of another machine runs a model from a path with
# letters that are not ASCII, and a conversation.
emulator=$1 tool=$2
work=$(mktemp -d) || exit 1
name=$(printf 'Gr\303\266\303\237e')
trap 'rm -rf "$work"' EXIT
cp "$RLX_SOURCE_DIR/models/tiny-stories.gguf" "$work/$name.gguf" || exit 1
model=$work/$name.gguf
said=$($emulator "$tool" generate -m "$model" --device cpu -n 30 -p 'Once upon a time') || exit 1
case $said in
*"there was a"*) ;;
*) echo "no story: $said"; exit 1 ;;
esac
said=$(printf 'Hello\n/exit\n' | $emulator "$tool" chat -m "$model" --device cpu -n 20) || exit 1
[ ${#said} -gt 10 ] || { echo "no answer: $said"; exit 1; }
$emulator "$tool" generate -m "$work/none.gguf" -p x && { echo "no failure"; exit 1; }
echo ok
