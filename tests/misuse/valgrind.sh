#!/bin/sh
# SPDX-License-Identifier: MIT
# usage: valgrind.sh VALGRIND PROGRAM
# Checks that Valgrind reports writes to unused bytes of the pool as invalid, and that a second release is refused there.
set -eu

# play DEVICE MISUSE MESSAGE
play() {
    said=$(FERRY_DEVICE=$1 "$valgrind" "$program" "$2" 2>&1) || true
    case $said in
        *"$3"*) ;;
        *) printf '%s\n' "$2: valgrind does not say \"$3\":" "$said"; exit 1 ;;
    esac
}

valgrind=$1
program=$2
for misuse in "a block is written past its end" "a block is written after it was given back"; do
    play host "$misuse" "Invalid write of size 1"
done
play emulated "memory of an emulated device is written past its end" "Invalid write of size 1"
play host "a block is given back twice" "was given back already"
