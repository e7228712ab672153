#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The Python package from the build folder, without pytest and NumPy: prints TAP. run.py runs all tests.

usage: smoke.py [DEVICES...]
"""

import array
import gc
import sys
import traceback

import ferry


def values(context):
    a = ferry.array(array.array("f", [1, 2, 3]), context=context, name="smoke")
    assert a.shape == (3,) and a.dtype == "f4" and a.state == "HOST_ONLY"
    assert a.astype("i4").tolist() == [1, 2, 3] and a[1:].tolist() == [2, 3]
    a.fill(5)
    assert a.tolist() == [5, 5, 5]


def accesses(context):
    a = ferry.array(bytes(4), context=context)
    with a.update(raw=True) as access:
        memoryview(access)[1] = 7
        try:
            a.tobytes()
            raise AssertionError("an open access must conflict")
        except ferry.BusyError as error:
            assert "smoke.py" in str(error)
    with a.update(device=1) as access:
        assert access.ptr
    assert a.tolist() == [0, 7, 0, 0]


def owners(context):
    memory = bytearray(4)
    a = ferry.wrap(memory, context=context)
    with a.read(device=1):
        pass
    a.fill(3)
    del a
    gc.collect()
    assert memory == b"\3\3\3\3"


def kernels(context):
    kernel = ferry.Kernel("touch", host=lambda x: x.__setitem__(0, 9), parameters=["update u1 x"], context=context)
    a = ferry.empty(2, "u1", context=context)
    kernel(None, 2, a)
    assert a.tolist() == [9, 0]


def main(devices):
    number, failed = 0, 0
    print(f"1..{4 * len(devices)}")
    for device in devices:
        for case in (values, accesses, owners, kernels):
            number += 1
            if case is kernels and device.startswith("cuda"):
                print(f"ok {number} - kernels on {device} # SKIP a host function does not run there")
                continue
            try:
                case(ferry.Context(device))
                print(f"ok {number} - {case.__name__} on {device}")
            except Exception:
                failed += 1
                print(f"not ok {number} - {case.__name__} on {device}")
                traceback.print_exc()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["host", "emulated:2"]))
