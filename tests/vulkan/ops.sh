#!/bin/sh
# SPDX-License-Identifier: MIT
# ops.sh OPTEST: the op suite on Vulkan; skipped where there is no such device.
said=$("$1" --device vulkan --filter "no case has this name" 2>&1)
case $said in *"is not available"*) echo "$said"; exit 77 ;; esac
exec "$1" --device vulkan
