# SPDX-License-Identifier: MIT
"""Exceptions of failed calls of the library: in the words of Python, with the errno of a file and the exception of a host function."""

from __future__ import annotations

import collections
import functools
import os
import re

from . import _ferry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

# Messages of the library name what a program in C would write. What a program in Python writes instead; names of buffers,
# files and programs may contain any of the words, so that each pattern has the words around them.
_FRAMES = r" by (?:[\w.@]*\+0x[0-9a-f]+(?: \([^()]*\))?(?:, )?)+"  # where C opened something: the label says where Python did
_WORDS = [(re.compile(pattern), words) for pattern, words in (
    (r", and options\.convert is FERRY_CONVERT_NONE", ": say convert=\"saturate\", \"check\" or \"truncate\""),
    (r"a conversion with FERRY_CONVERT_CHECK cannot be asynchronous: call the function that blocks",
     "a conversion with convert=\"check\" cannot be asynchronous: copy with wait=True"),
    (r"a conversion with FERRY_CONVERT_CHECK cannot read from a file: load it into a buffer first",
     "a conversion with convert=\"check\" cannot read from a file: load the file into an array first"),
    (r"; let a stream wait for it and record an event there with FERRY_EVENT_TIMED",
     ": stream.wait(event), and then stream.record(timed=True)"),
    (r" was recorded without FERRY_EVENT_TIMED", " was recorded without timed=True"),
    (r"; do it when the callback has returned", ": do it when the function has returned"),
    (r"\": (\d+) leases? (keeps?) its memory(.*); destroy the lease first$",
     r'": \1 open accesses, ndarrays or exports keep its memory\3; leave the `with`, and `del` what has the memory'),
    (r": an open scope overlaps and one of the two writes: ", ": an open access overlaps and one of the two writes: "),
    (r"^(open|close|abandon) a lease\b", r"\1 an access"),
    (r"^export a lease\b", "export an access"),
    (r": the lease is closed$", ": the access has ended"),
    (r"Arrow arrays do not change, and the lease may write$", "Arrow arrays do not change, and the access may write"),
    (r"it cannot say that the lease is a READ lease$", "it cannot say that the access reads"),
    (r" elements of the lease$", " elements of the access"),
    (r": (\d+) scopes are open; ", r": \1 accesses are open; "),
    (r"\(\d+ scopes?\)", lambda found: found[0].replace("scope", "access")),
    (r": a scope is open$", ": an access is open"),
    (r": (argument \d+(?: \"\w+\")?): it is an empty handle$", r": \1: it is a closed array"),
    (_FRAMES + "(?=held by )", ", "),
    (r"(launch kernel \"[^\"]*\": argument \d+(?: \"\w+\")?: it is .*); pass the buffer$", r"\1; pass the array"),
    (r"(while it reads or writes elements of the other); pass another buffer for one of them$", r"\1; pass another array for one of them"),
    (r"\bthis handle of buffer (\".*\" is read-only(?:, because it wraps read-only memory)?)$", r"the array \1"),
    (r"^(wrap a stream of .*): the native handle is NULL$", r"\1: native is 0, which is no stream there"),
)]
_TRIGGERS = ("FERRY_", "options.", "lease", "scope", "<ferry/", "handle", "pass the buffer", "pass another buffer", "the callback has", "+0x")


def in_python(text: str) -> str:
    """A message of the library in the words of Python."""
    if any(word in text for word in _TRIGGERS):
        for pattern, words in _WORDS:
            text = pattern.sub(words, text)
    return text


# -- exceptions of host functions ------------------------------------------------------------------------------------------

_raised: collections.deque[tuple[str, BaseException]] = collections.deque(maxlen=16)
_SEEN = 200  # characters of the message that must agree; the library may cut the rest


def keep_raised(text: str, error: BaseException) -> None:
    """Keep what a host function raised, until the failure reaches a caller. Its frames lose their variables: arrays end with the function."""
    todo: list[BaseException | None] = [error]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        todo += [one.__cause__, one.__context__]
        trace: TracebackType | None = one.__traceback__
        while trace is not None:
            try:
                trace.tb_frame.clear()
            except RuntimeError:  # a frame that still runs
                pass
            trace = trace.tb_next
    _raised.append((text[:_SEEN], error))


def _cause_of(text: str) -> BaseException | None:
    return next((error for words, error in reversed(_raised) if words in text), None)


# -- files -----------------------------------------------------------------------------------------------------------------


@functools.cache
def _reasons() -> dict[str, int]:
    import errno

    return {os.strerror(number): number for number in errno.errorcode}


def _text_of(error: _ferry.FileError) -> str:
    """The message alone, which names the file and the reason. That of an OSError would do it twice."""
    return str(error.args[-1])


@functools.cache
def _class_of(number: int) -> type[_ferry.FileError]:
    """FileError, and also the class that Python has for this errno, such as FileNotFoundError."""
    builtin = type(OSError(number, ""))
    bases = (_ferry.FileError,) if builtin is OSError else (_ferry.FileError, builtin)
    return type("FileError", bases, {"__module__": "ferry", "__doc__": _ferry.FileError.__doc__, "__str__": _text_of,
                                     "__reduce__": lambda self: (file_error, (_text_of(self), self.filename, self.errno))})


def file_error(text: str, path: Any = None, number: int | None = None) -> _ferry.FileError:
    """The exception of a file. The messages of the library end with the reason of the system, which names its number."""
    number = number or _reasons().get(text.rpartition(": ")[2])
    made = _class_of(number)(number, text) if number else _class_of(0)(text)
    made.filename = path
    return made


def exception_of(kind: type[_ferry.Error], text: str) -> _ferry.Error:
    """The exception of a failed call."""
    made = file_error(text) if kind is _ferry.FileError else kind(in_python(text))
    cause = _cause_of(text)
    if cause is not None:
        made.__cause__ = cause
    return made
