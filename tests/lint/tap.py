# SPDX-License-Identifier: MIT
"""Print the outcome of checks in the Test Anything Protocol."""


class Tap:
    """Each check is one case; `problems` are the lines that say what is wrong with it."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def case(self, name, problems):
        self.count += 1
        print(f"{'not ok' if problems else 'ok'} {self.count} - {name}")
        for problem in problems:
            print(f"# {problem}")
        self.failed += bool(problems)

    def skip(self, name, reason):
        self.count += 1
        print(f"ok {self.count} - {name} # SKIP {reason}")

    def end(self):
        print(f"1..{self.count}")
        return 1 if self.failed else 0
