#!/bin/sh
# SPDX-License-Identifier: MIT
# Tests the Python package of a build folder with pytest: over host, emulated and CUDA devices (a driver without a GPU), and once
# more in a checked run.
#
# usage: run.sh BUILD [PYTHON]
#
# PYTHON has pytest and, for the consumers, numpy, pyarrow, numba and mypy; what it lacks is skipped with its reason. Without it the
# script makes a virtual environment in BUILD from PyPI, or uses python3 as it is when that fails.
set -eu

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
build=$(CDPATH= cd -- "$1" && pwd)
python=${2:-}
fake=$build/tests/support/libfakecuda.so
passed=0
failed=0

if ! ls "$build"/python/ferry/_ferry.abi3.so >/dev/null 2>&1; then
    echo "skipped: this build has no Python package, for want of CPython's headers" >&2
    echo "0 passed, 0 failed"
    exit 0
fi
if [ -z "$python" ]; then
    python=$build/python-tests/bin/python
    if [ ! -x "$python" ]; then
        python3 -m venv "$build/python-tests" &&
            "$python" -m pip --quiet install pytest numpy pyarrow numba mypy >"$build/python-tests/log" 2>&1 ||
            rm -rf "$build/python-tests"
    fi
    [ -x "$python" ] || python=python3
fi
if ! "$python" -c 'import pytest' 2>/dev/null; then
    echo "skipped: $python has no pytest, and PyPI cannot be reached" >&2
    echo "0 passed, 0 failed"
    exit 0
fi

export PYTHONPATH="$build/python" PYTHONDONTWRITEBYTECODE=1
[ ! -e "$fake" ] || export FERRY_CUDA_LIBRARY="$fake"

# suite NAME [PYTEST ARGUMENTS]: adds its counts.
suite() {
    name=$1
    shift
    log=$build/python-tests.$name.log
    status=0
    (cd "$here" && "$python" -X faulthandler -m pytest -p no:cacheprovider -q -rs --tb=short "$@") >"$log" 2>&1 || status=$?
    good=$(sed -n 's/.*\b\([0-9][0-9]*\) passed.*/\1/p' "$log" | tail -n 1)
    bad=$(sed -n 's/.*\b\([0-9][0-9]*\) \(failed\|error\).*/\1/p' "$log" | tail -n 1)
    # A run that ended without a count ended by a signal.
    if [ "$status" -ne 0 ]; then
        tail -n 60 "$log" >&2
        bad=${bad:-1}
    fi
    sed -n "s/^SKIPPED/$name: skipped/p" "$log" >&2
    passed=$((passed + ${good:-0}))
    failed=$((failed + ${bad:-0}))
}

suite usual
FERRY_DEBUG=1 suite checked --deselect test_package.py::test_nothing_leaks
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
