# SPDX-License-Identifier: MIT
"""Contexts over every kind of device. FERRY_CUDA_LIBRARY names the driver: one that needs no GPU."""

import gc
import os
import weakref

import pytest

import ferry

ENDING, FAILED = pytest.StashKey(), pytest.StashKey()
LEAKS = []
KINDS = ["host", "emulated:2"] + (["cuda"] if os.environ.get("FERRY_CUDA_LIBRARY") else [])


@pytest.fixture(params=KINDS)
def context(request):
    """A context that must end without leaks: the last message of its end would say so."""
    messages = []
    made = ferry.Context(request.param, log=lambda level, message: messages.append((level, message)))
    yield made
    # pytest still refers to the context at this moment, so pytest_runtest_protocol() checks later that the context has
    # ended.
    request.node.stash[ENDING].append((weakref.ref(made), messages))
    del made


@pytest.fixture
def visible(context):
    """Skips where the host does not reach the memory of the devices: that of fakecuda is memory of the host."""
    if any(place.kind == "cuda" for place in context.places[1:]) and "fakecuda" not in os.environ["FERRY_CUDA_LIBRARY"]:
        pytest.skip("the host does not reach the memory of a GPU")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_protocol(item):
    item.stash[ENDING] = []
    yield
    gc.collect()
    # Only tests that passed are checked for leaks, because the report of a failed test may keep contexts alive.
    for context, messages in [] if item.stash.get(FAILED, False) else item.stash[ENDING]:
        LEAKS.extend(f"{item.nodeid}: {problem}" for problem in [
            *(["the context has not ended"] if context() is not None else []),
            *(message for level, message in messages if level == 1)])


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item):
    outcome = yield
    item.stash[FAILED] = item.stash.get(FAILED, False) or outcome.get_result().failed


def pytest_sessionfinish(session):
    if LEAKS:
        print("Bail out! " + "; ".join(LEAKS).replace("\n", " "))
        session.exitstatus = 1


@pytest.fixture
def emulated():
    return ferry.Context("emulated:2")


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")
