#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Run the tests of this folder with pytest, and print TAP.

usage: PYTHONPATH=BUILD/python [FERRY_CUDA_LIBRARY=BUILD/tests/support/libfakecuda.so] run.py [ARGUMENT-OF-PYTEST...]

Any CPython from 3.11 on will do. Consumers that it can import are tested too: pyarrow, nanoarrow, numba, torch, mypy.
"""

import os
import sys

sys.dont_write_bytecode = True


class Tap:
    """A plugin of pytest. A test with several failures, as in its end, is one case."""

    def __init__(self):
        self.count = 0
        self.cases = {}
        self.failed = []

    def pytest_addoption(self, parser):
        # The explanation of a failed `assert` asks for what the plugin of the terminal defines, which does not run here.
        parser.addoption("--verbose", action="count", default=0)

    def _case(self, name, good, comment, lines=""):
        self.count += 1
        if not good:
            self.failed.append(name)
        print(f"{'ok' if good else 'not ok'} {self.count} - {name.replace('#', '')}{comment}")
        for line in lines.splitlines():
            print(f"# {line}")
        sys.stdout.flush()

    def pytest_collectreport(self, report):
        if report.failed:
            self._case(f"{report.nodeid} is collected", False, "", report.longreprtext)
        elif report.skipped:
            self._case(report.nodeid, True, f" # SKIP {report.longrepr[2]}")

    def pytest_runtest_logreport(self, report):
        case = self.cases.setdefault(report.nodeid, {"lines": "", "comment": "", "good": True})
        if report.failed:
            case["good"] = False
            case["lines"] += report.longreprtext + "\n"
        elif report.skipped:
            case["comment"] = f" # SKIP {report.longrepr[2].removeprefix('Skipped: ')}"
        if report.when == "teardown":
            self._case(report.nodeid, **self.cases.pop(report.nodeid))

    def pytest_sessionfinish(self):
        print(f"1..{self.count}")
        for name in self.failed:  # also where a log shows its last lines alone
            print(f"# failed: {name}")


def main(arguments):
    try:
        import pytest
    except ImportError as error:
        print(f"1..0 # SKIP {error}")
        return 0
    here = os.path.dirname(os.path.abspath(__file__))
    options = ["-p", "no:cacheprovider", "-p", "no:terminal", f"--rootdir={here}"]
    return pytest.main([*options, *(arguments or [here])], [Tap()])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
