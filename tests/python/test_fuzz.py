# SPDX-License-Identifier: MIT
"""Random calls of the whole package, in processes of their own, so that one that ends says in which call it was."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("numpy")

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = float(os.environ.get("FERRY_PYTHON_FUZZ_SECONDS", "6"))


@pytest.mark.parametrize("seed", [1, 1000])
def test_random_calls(tmp_path, seed):
    log = tmp_path / "log"
    done = subprocess.run([sys.executable, os.path.join(HERE, "fuzz.py"), "--seed", str(seed), "--seconds", str(SECONDS / 2), "--log", str(log)],
                          capture_output=True, text=True, timeout=60 + 4 * SECONDS, check=False)
    calls = log.read_text(errors="replace").splitlines() if log.exists() else []
    assert done.returncode == 0, "\n".join([f"ended with {done.returncode}; the last calls:", *calls[-4:], done.stdout, done.stderr[-3000:]])
