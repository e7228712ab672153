# SPDX-License-Identifier: MIT
"""The reports of the ferry command, which starts this program: ferry_report.py COMMAND ARGUMENT..."""

import signal
import sys

import ferry_measured
import ferry_trace_report
from ferry_output import Failed


def main():
    # What reads the report may go, as `head` does.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")
    sys.stderr.reconfigure(encoding="utf-8", errors="backslashreplace")
    name, *arguments = sys.argv[1:]
    try:
        return ferry_trace_report.command(arguments) if name == "trace" else ferry_measured.command(name, arguments)
    except Failed as failure:
        print(f"ferry {name}: {failure}", file=sys.stderr)
    except MemoryError:
        print(f"ferry {name}: no host memory", file=sys.stderr)
    except KeyboardInterrupt:
        return 130
    return 1


if __name__ == "__main__":
    sys.exit(main())
