# SPDX-License-Identifier: MIT
"""Contexts over every kind of device. FERRY_CUDA_LIBRARY names the driver: one that needs no GPU."""

import os

import pytest

import ferry

KINDS = ["host", "emulated:2"] + (["cuda"] if os.environ.get("FERRY_CUDA_LIBRARY") else [])


@pytest.fixture(params=KINDS)
def context(request):
    """A context that must end without leaks: the last message of its end would say so."""
    messages = []
    made = ferry.Context(request.param, log=lambda level, message: messages.append((level, message)))
    yield made
    del made
    assert not [message for level, message in messages if level == 1], messages


@pytest.fixture
def emulated():
    return ferry.Context("emulated:2")


@pytest.fixture
def numpy():
    return pytest.importorskip("numpy")
