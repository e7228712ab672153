# SPDX-License-Identifier: MIT
"""exchange: what its consumer prints, and that the producer's memory is freed once, last.

usage: test_exchange.py EXCHANGE
"""

import sys

from support import run, run_cases

PROGRAM = sys.argv[1]


def test_output(_):
    process = run(PROGRAM)
    assert process.returncode == 0 and process.stderr == "", process.stderr
    busy, consumer, producer = process.stdout.splitlines()
    assert busy.startswith("busy: ") and "held by the consumer of examples/exchange.c" in busy, busy
    assert consumer == "the consumer has 4 x 3 floats that it may read: 1 4 8 1 5 9 1 6 10 1 7 11", consumer
    assert producer == "the producer frees its picture", producer


run_cases([("output", test_output)])
