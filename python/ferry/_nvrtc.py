# SPDX-License-Identifier: MIT
"""Where NVIDIA's wheels have put NVRTC, which compiles kernels."""

from __future__ import annotations

import os
import sys

# The folders below `nvidia`, in the order in which cuda-python looks for them: those of CUDA 13, and of CUDA 11 and 12.
_FOLDERS = ("cu13/lib", "cuda_nvrtc/lib")


def find() -> None:
    """Names the folders of the wheels to the library, which looks into them when it first compiles."""
    if "FERRY_NVRTC_FOLDERS" in os.environ:
        return
    places = (os.path.join(path, "nvidia", folder) for path in sys.path if path for folder in _FOLDERS)
    found = [place for place in places if os.path.isabs(place) and ":" not in place and os.path.isdir(place)]
    if found:
        os.environ["FERRY_NVRTC_FOLDERS"] = ":".join(dict.fromkeys(found))
