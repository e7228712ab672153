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
"$venv/bin/pip" install --quiet pytest numpy jinja2 jsonschema pyarrow nanoarrow numba jax apache-tvm-ffi nanobind mpi4py tqdm mypy matplotlib ||
    skip "PyPI cannot be reached"
PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 FERRY_CACHE_DIR='' FERRY_CUDA_LIBRARY=$build/tests/support/libfakecuda.so \
    "$venv/bin/python" "$root/tests/python/run.py" >"$venv/tests.tap" || { grep -v '^ok' "$venv/tests.tap"; exit 1; }
# Debian's PyTorch takes only tensors without flags, as DLPack had them before 1.0.
if python3 -c 'import torch, numpy, pytest' 2>/dev/null; then
    PYTHONPATH=$build/python PYTHONDONTWRITEBYTECODE=1 FERRY_CACHE_DIR='' FERRY_CUDA_LIBRARY=$build/tests/support/libfakecuda.so \
        python3 "$root/tests/python/run.py" -k torch "$root/tests/python/test_consumers.py" >"$venv/torch.tap" || { grep -v '^ok' "$venv/torch.tap"; exit 1; }
    cat "$venv/torch.tap" >>"$venv/tests.tap"
else
    echo "skipped: PyTorch of the system (Debian: python3-torch, python3-numpy, python3-pytest)"
fi
grep '# SKIP' "$venv/tests.tap" || true
echo "$(grep -c '^ok' "$venv/tests.tap") passed, 0 failed"
