# shellcheck shell=sh
# SPDX-License-Identifier: MIT
# Read by scripts that try packages and projects. They set `log`, the file that the output of the running step goes to.
passed=0

die() { printf '%s: %s\n' "$(basename "$0" .sh)" "$*" >&2; exit 1; }
ok() { printf 'ok - %s\n' "$*"; passed=$((passed + 1)); }

# Quiet unless it fails.
run() {
    # shellcheck disable=SC2154 # the reader sets it
    "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; die "failed: $*"; }
}
