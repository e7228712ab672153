# SPDX-License-Identifier: MIT
"""Every public name of the Python package has a docstring, and so has every public member of its classes."""

import inspect
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "lint"))
from tap import Tap  # noqa: E402

import ferry  # noqa: E402


def is_member(value):
    return callable(getattr(value, "__func__", value)) or inspect.isdatadescriptor(value) or isinstance(value, property)


def names():
    """(name, object)"""
    for name in ferry.__all__:
        public = getattr(ferry, name)
        yield name, public
        if inspect.isclass(public):
            for member, value in vars(public).items():
                if not member.startswith("_") and is_member(value):
                    yield f"{name}.{member}", value


def main():
    tap = Tap()
    found = list(names())
    tap.case("there are names", [] if len(found) > 100 else [f"only {len(found)} were found"])
    tap.case("every public name has a docstring", [name for name, value in found if not (inspect.getdoc(value) or "").strip()])
    return tap.end()


if __name__ == "__main__":
    sys.exit(main())
