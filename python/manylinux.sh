#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds a wheel that runs on distributions from 2018 on (manylinux_2_28), and checks it with auditwheel and abi3audit. Debian's compiler would link symbols of its newer C library. The compiler here is zig, from PyPI, which has the symbols of old ones.
# usage: manylinux.sh FOLDER [PYTHON [OTHER-PYTHON...]]   the wheel goes to FOLDER, and is imported by each Python
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
out=$(mkdir -p "$1" && CDPATH='' cd -- "$1" && pwd)
shift
[ $# -gt 0 ] || set -- python3
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
glibc=2.28
machine=$(uname -m)
platform=manylinux_$(printf %s "$glibc" | tr . _)_$machine

# shellcheck source=packaging/steps.sh
. "$root/packaging/steps.sh"
log=$stage/log
skip() { echo "skipped: $*"; echo "0 passed, 0 failed"; exit 0; }

"$1" -m venv "$stage/venv" >"$log" 2>&1 || skip "virtual environments (Debian: python3-venv)"
bin=$stage/venv/bin
"$bin/pip" install --quiet ziglang auditwheel abi3audit wheel >"$log" 2>&1 || skip "PyPI cannot be reached, or has no ziglang"

# pip hides the packages of a Python that its builds run: -I finds them.
for tool in "cc -target $machine-linux-gnu.$glibc" ar; do
    program=$stage/zig-${tool%% *}
    printf '#!/bin/sh\nexec "%s" -I -m ziglang %s "$@"\n' "$bin/python" "$tool" >"$program"
    chmod +x "$program"
done
run env LDFLAGS=-s CC="$stage/zig-cc" AR="$stage/zig-ar" "$bin/pip" wheel --no-deps -w "$stage/made" "$root"
run "$bin/auditwheel" show "$stage"/made/*.whl
grep -q "$platform\|manylinux_2_27\|manylinux_2_24\|manylinux_2_17" "$log" || { cat "$log"; die "newer than $platform"; }
# The wheel's own library is in place already, so that the tag is all that changes.
run "$bin/wheel" tags --remove --platform-tag "$platform" "$stage"/made/*.whl
run "$bin/abi3audit" --strict "$stage"/made/*.whl
passed=2
ls "$stage"/made/*-cp311-abi3-*.whl >"$log" || die "build with CPython 3.11: $(ls "$stage/made")"
for python; do
    run "$python" -m venv "$stage/user"
    run "$stage/user/bin/pip" install "$stage"/made/*.whl
    run "$stage/user/bin/python" "$root/tests/python/smoke.py" host emulated:2
    rm -rf "$stage/user"
    passed=$((passed + 1))
done
cp "$stage"/made/*.whl "$out"
ls -l "$out"/ferry-*"$platform".whl
echo "$passed passed, 0 failed"
