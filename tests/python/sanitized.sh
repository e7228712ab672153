#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of this folder with a sanitized library and extension. The interpreter is the one of the system, into which the run-time
# library of the sanitizer is loaded first, also into the programs that tests start. The test that starts a script as compiler is left out.
# usage: sanitized.sh BUILD address|thread [PYTHON]     BUILD is made if it is not there
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=$1
kind=$2
python=${3:-python3}

skip() { echo "skipped: $*"; echo "0 passed, 0 failed"; exit 0; }

"$python" -c 'import pytest, numpy' 2>/dev/null || skip "a Python with pytest and NumPy"
case $kind in
    address) sanitize=address,undefined libraries="libasan libubsan" ;;
    thread) sanitize=thread libraries=libtsan ;;
    *) echo "usage: sanitized.sh BUILD address|thread [PYTHON]" >&2; exit 2 ;;
esac
preload=
for library in $libraries; do
    preload="$preload $(gcc -print-file-name=$library.so)"
done
[ -f "$build/build.ninja" ] || CC=gcc meson setup "$build" -Dpython=enabled -Db_sanitize=$sanitize -Dtoolkit_root=/nowhere -Dbench=disabled \
    -Dexamples=disabled -Dcli=disabled -Dmpi=disabled -Dcpp=disabled -Dfortran=disabled -Dwerror=true >"$build.log" 2>&1 ||
    { cat "$build.log"; exit 1; }
build=$(CDPATH='' cd -- "$build" && pwd)
copies=$(cd "$root/python" && ls ferry/*.py ferry/*.pyi | sed 's#^#python/#')
# shellcheck disable=SC2086 # a list of targets
ninja -C "$build" python/ferry/_ferry.abi3.so $copies tests/support/libfakecuda.so tests/support/libfakenvrtc.so tests/support/libfakenvrtc_13.so >"$build.log" 2>&1 ||
    { tail -n 40 "$build.log"; exit 1; }
# Without the randomness of addresses, with which the run-time libraries of some compilers cannot start on newer kernels.
env PYTHONPATH="$build/python" FERRY_CUDA_LIBRARY="$build/tests/support/libfakecuda.so" FERRY_CACHE_DIR= PYTHONDONTWRITEBYTECODE=1 \
    PYTHONMALLOC=malloc LD_PRELOAD="$preload" ASAN_OPTIONS="detect_leaks=0:allocator_may_return_null=1:log_path=$build/address-report" \
    UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1:log_path=$build/undefined-report" \
    TSAN_OPTIONS="die_after_fork=0 exitcode=66 log_path=$build/thread-report" \
    setarch -R "$python" "$root/tests/python/run.py" -k "not stubs and not compiled_once and not test_documents" "$root/tests/python" \
    >"$build/tests.tap" 2>"$build/tests.err" ||
    { grep -v '^ok' "$build/tests.tap"; tail -n 40 "$build/tests.err"; cat "$build"/*-report* 2>/dev/null | head -n 200; exit 1; }
echo "$(grep -c '^ok' "$build/tests.tap") passed, 0 failed"
