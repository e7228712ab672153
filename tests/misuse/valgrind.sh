#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: valgrind.sh VALGRIND PROGRAM
# Checks that Valgrind reports writes to unused bytes of the pool as invalid.
set -eu
FERRY_DEVICE=host
export FERRY_DEVICE
for mistake in "a block is written past its end" "a block is written after it was given back"; do
    said=$("$1" "$2" "$mistake" 2>&1) || true
    case $said in
        *"Invalid write of size"*) ;;
        *) printf '%s\n' "$mistake: valgrind says nothing:" "$said"; exit 1 ;;
    esac
done
