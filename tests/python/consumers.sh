#!/bin/sh
# SPDX-License-Identifier: MIT
# The tests of this folder with consumers of PyPI, in a virtual environment of the build folder.
# usage: consumers.sh BUILD [PYTHON]
set -eu
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
build=$(CDPATH='' cd -- "$1" && pwd)
venv=$build/consumers

skip() { echo "skipped: $*"; echo "0 passed, 0 failed"; exit 0; }

[ -e "$build/python/ferry/_ferry.abi3.so" ] || skip "the build has no Python package"
[ -x "$venv/bin/pip" ] || "${2:-python3}" -m venv "$venv" || skip "virtual environments (Debian: python3-venv)"
# JAX alone is 100 MB. The wheels of PyTorch on PyPI have 500 MB and more for GPUs, so that of the system is tested where it is there.
"$venv/bin/pip" install --quiet pytest numpy pyarrow nanoarrow numba jax apache-tvm-ffi nanobind mpi4py tqdm mypy matplotlib ||
    skip "PyPI cannot be reached"
PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 FERRY_CACHE_DIR='' FERRY_CUDA_LIBRARY=$build/tests/support/libfakecuda.so \
    "$venv/bin/python" "$root/tests/python/run.py" >"$venv/tests.tap" || { grep -v '^ok' "$venv/tests.tap"; exit 1; }
grep '# SKIP' "$venv/tests.tap" || true
echo "$(grep -c '^ok' "$venv/tests.tap") passed, 0 failed"
