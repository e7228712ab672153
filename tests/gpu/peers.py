#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Measures PyTorch and CuPy with the sizes of our own benchmarks: pinned copies, and pools that hit and miss.

usage: peers.py JSON-FILE

Exit status 77 where neither is installed or neither finds a GPU.
"""

import json
import statistics
import sys
import time

SIZES = [4 << 10, 1 << 20, 16 << 20, 256 << 20]
records = []


def measure(peer, case, action, finish, count, scale, unit):
    """Returns the median over 9 rounds of `count` actions each, in seconds times `scale`."""
    action()
    finish()
    rounds = []
    for _ in range(9):
        began = time.perf_counter()
        for _ in range(count):
            action()
        finish()
        rounds.append((time.perf_counter() - began) / count)
    records.append({"bench": "peers", "case": case, "metric": peer, "unit": unit, "value": scale(statistics.median(rounds))})


def measure_torch(torch):
    for size in SIZES:
        host = torch.empty(size, dtype=torch.uint8).pin_memory()
        device = torch.empty(size, dtype=torch.uint8, device="cuda")
        count = max(1, (64 << 20) // size)
        for case, target, source in ((f"upload-{size}", device, host), (f"download-{size}", host, device)):
            measure("torch-pinned", case, lambda t=target, s=source: t.copy_(s, non_blocking=True), torch.cuda.synchronize, min(count, 1000),
                    lambda seconds, size=size: size / seconds / 1e9, "GB/s")
    measure("torch-hit", "take-8MiB", lambda: torch.empty(8 << 20, dtype=torch.uint8, device="cuda"), lambda: None, 1000, lambda s: s * 1e9, "ns")

    def miss():
        torch.cuda.empty_cache()
        torch.empty(64 << 20, dtype=torch.uint8, device="cuda")

    measure("torch-miss", "take-64MiB", miss, torch.cuda.synchronize, 5, lambda s: s * 1e9, "ns")


def measure_cupy(cupy):
    pool = cupy.get_default_memory_pool()
    measure("cupy-hit", "take-8MiB", lambda: pool.malloc(8 << 20), lambda: None, 1000, lambda s: s * 1e9, "ns")

    def miss():
        pool.free_all_blocks()
        pool.malloc(64 << 20)

    measure("cupy-miss", "take-64MiB", miss, cupy.cuda.Device().synchronize, 5, lambda s: s * 1e9, "ns")


def main():
    for name, run in (("torch", measure_torch), ("cupy", measure_cupy)):
        try:
            module = __import__(name)
            if module.cuda.is_available():
                run(module)
        except ImportError:
            print(f"{name} is not installed")
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(records, file, indent=1)
    for record in records:
        print(f"{record['case']:<20} {record['metric']:<14} {record['value']:10.4g} {record['unit']}")
    return 0 if records else 77


if __name__ == "__main__":
    sys.exit(main())
