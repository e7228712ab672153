# SPDX-License-Identifier: MIT
"""Kernels from one expression, which ferry-gen turns into CUDA source and into a host function in C."""

from __future__ import annotations

import errno
import functools
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _ferry
from ._arguments import context_of
from ._array import Array, c_strides, empty
from ._context import Context
from ._element import element, element_of_file, load_generator
from ._errors import file_error
from ._ferry import Element
from ._folders import INCLUDES, TEMPLATES
from ._kernel import Kernel
from ._structs import split_types, write_type

if TYPE_CHECKING:
    import ctypes
    from typing import Self

Types = Union[Sequence[Union[str, "os.PathLike[str]"]], Mapping[str, Any]]

_ACCESSES = ("read", "update", "overwrite")
_VARIABLE = re.compile(r"[A-Z]")
_PREFIX = "py"
_NOTHING: Mapping[str, Any] = {}
_KEPT = 500  # host functions in the cache, of 20 KB each


class _HostFunction:
    """A compiled host function of the library's own signature: code that stays loaded, and its address."""

    is_native = True

    def __init__(self, library: ctypes.CDLL, name: str) -> None:
        import ctypes

        self.library = library
        self.address = ctypes.cast(getattr(library, name), ctypes.c_void_p).value


def _module(name: str) -> Any:
    """A module of ferry-gen."""
    try:
        return load_generator(name)
    except ModuleNotFoundError as error:
        if error.name == "jinja2":
            raise ImportError("kernels from an expression need Jinja2 on devices other than CUDA: pip install ferry[gen]",
                              name="jinja2") from error
        raise


def _compiler() -> list[str]:
    import shlex
    import shutil

    command = shlex.split(os.environ.get("CC") or "cc")
    if not command or shutil.which(command[0]) is None:
        raise _ferry.UnsupportedError(
            "kernels from an expression need a C compiler on devices other than CUDA: install one, or name it in CC")
    return command


def _cache_folder() -> str | None:
    """The folder of compiled host functions; None when there is none that only this user can write."""
    folder = os.environ.get("FERRY_CACHE_DIR")
    if folder is None:
        base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        folder = os.path.join(base, "ferry")
    if not os.path.isabs(folder):
        return None
    folder = os.path.join(folder, "host")
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.stat(folder)
    except OSError:
        return None
    private = found.st_uid == os.geteuid() and not found.st_mode & 0o022
    return folder if private and os.access(folder, os.W_OK | os.X_OK) else None


def _trim(folder: str) -> None:
    """Leave the newest files. Another process may do the same, and loaded libraries need their files no more."""
    with os.scandir(folder) as entries:
        files = sorted((entry.stat().st_mtime_ns, entry.path) for entry in entries if entry.name.endswith(".so"))
    for _, path in files[:-_KEPT]:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass


def _seal(code: bytes) -> bytes:
    """What follows the code in a file of the cache. The loader ignores it."""
    import hashlib

    return b"ferry-host-function " + hashlib.sha256(code).digest()


def _from_cache(kept: str) -> ctypes.CDLL | None:
    """The library of a file of the cache; None without one, and for a damaged file, whose pages could end the process."""
    import ctypes

    try:
        with open(kept, "rb") as file:
            whole = file.read()
        end = len(whole) - len(_seal(b""))
        if end > 0 and _seal(whole[:end]) == whole[end:]:
            return ctypes.CDLL(kept)
    except OSError:
        pass
    return None


def _into_cache(made: str, kept: str) -> None:
    """Keep a library for other processes. What the disk cannot hold is not kept."""
    import tempfile

    part = None
    try:
        with open(made, "rb") as file:
            code = file.read()
        handle, part = tempfile.mkstemp(dir=os.path.dirname(kept))
        with open(handle, "wb") as file:
            file.write(code + _seal(code))
            file.flush()
            os.fsync(file.fileno())  # a name without its bytes would be left by a machine that stops
        os.replace(part, kept)
        part = None
        _trim(os.path.dirname(kept))
    except OSError:
        pass
    finally:
        try:
            if part:
                os.unlink(part)
        except OSError:
            pass


def _stage(cache: str | None) -> str:
    """A new folder for the compiler."""
    import tempfile

    try:
        return tempfile.mkdtemp(prefix="ferry-")
    except OSError:
        if cache is None:
            raise
        return tempfile.mkdtemp(dir=cache)


def _compiled(source: str, headers: dict[str, str], folders: Sequence[str]) -> ctypes.CDLL:
    """The shared object of a C source, which the cache keeps."""
    import ctypes  # these take longer to import than all of this package
    import hashlib
    import shutil
    import subprocess

    command = _compiler()
    # A name that nothing declares is an error of the compiler, not of the loader.
    flags = ["-O2", "-fPIC", "-shared", "-Werror=implicit-function-declaration", "-Wl,-z,defs", *(f"-I{folder}" for folder in (*INCLUDES, *folders))]
    program = shutil.which(command[0]) or command[0]
    version = os.stat(program)
    named = repr((source, sorted(headers.items()), command, flags, os.path.realpath(program), version.st_size, version.st_mtime_ns,
                  _ferry.version))
    cache = None if headers or folders else _cache_folder()  # those files may change
    kept = os.path.join(cache, hashlib.sha256(named.encode()).hexdigest() + ".so") if cache else None
    found = _from_cache(kept) if kept else None
    if found is not None:
        return found
    stage = _stage(cache)
    try:
        for name, text in headers.items():
            path = os.path.join(stage, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        with open(os.path.join(stage, "kernel.c"), "w", encoding="utf-8") as file:
            file.write(source)
        made = os.path.join(stage, "kernel.so")
        done = subprocess.run([*command, *flags, f"-I{stage}", os.path.join(stage, "kernel.c"), "-o", made, "-lm"],
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise _ferry.CompileError(f"{' '.join(command)}: {done.stderr.strip()}")
        try:
            library = ctypes.CDLL(made)
        except OSError as error:
            raise _ferry.CompileError(f"{' '.join(command)}: {error}") from error
        if kept:
            _into_cache(made, kept)
        return library
    finally:
        shutil.rmtree(stage, ignore_errors=True)


@functools.cache
def _renderer() -> Any:
    """The templates, which take longer to read than all the rest."""
    return _module("ferry_render").Renderer(TEMPLATES)


# The functions of the library that host functions call, by the table of host_function.c.
_CALLS = """#include <ferry/generated.h>
static struct {
    void *(*array)(const ferry_call *, const ferry_element *, size_t, size_t *);
    const void *(*value)(const ferry_call *, const ferry_element *, size_t, size_t *);
    size_t (*size)(const ferry_call *, size_t);
    ferry_status (*parallel)(const ferry_call *, size_t, size_t, ferry_part_function *, void *);
    int (*is_checked)(const ferry_call *);
    void *(*found)(const ferry_call *, size_t, int64_t);
} calls_;
void ferry_set_calls_(const void *calls);
void ferry_set_calls_(const void *calls) { __builtin_memcpy(&calls_, calls, sizeof(calls_)); }
#define ferry_call_array calls_.array
#define ferry_call_value calls_.value
#define ferry_call_size calls_.size
#define ferry_call_parallel calls_.parallel
#define ferry_call_is_checked calls_.is_checked
#define ferry_call_element calls_.found
"""


def _host_functions(file: Any, folders: Sequence[str]) -> dict[str, _HostFunction]:
    """The host functions of the kernels of a file by their names, also those of the second parts of reductions."""
    renderer = _renderer()
    source = _CALLS + renderer.render("kernels.h.j2", k=file)
    headers = {found.header: renderer.render("typed.h.j2", t=found) for found in file.types.values() if found.prefix != "ferry"}
    names = [name for kernel in file.kernels for name in ([kernel.sym, kernel.sym + "_into"] if kernel.result else [kernel.sym])]
    for name in names:
        head = f"ferry_status {name}_here(const ferry_call *call, void *user)"
        source += f"\n{head};\n{head} {{ return {name}_on_host(call, user); }}\n"
    library = _compiled(source, headers, folders)
    library.ferry_set_calls_(_pointer(_ferry._host_calls()))
    return {name: _HostFunction(library, name + "_here") for name in names}


def _pointer(address: int) -> ctypes.c_void_p:
    import ctypes

    return ctypes.c_void_p(address)


_FORMS = {"map": 0, "stencil": 1, "reduction": 2, "fused": 3}
_EDGES = {"none": 0, "nearest": 1, "wrap": 2}
_OVERLAPS = {"": 0, "FERRY_OVERLAP_SAME": 1, "FERRY_OVERLAP_NONE": 2}
_NUMBERS = {"read": 1, "update": 2, "overwrite": 3}


def _form_of(entry: Mapping[str, Any]) -> str:
    return next((form for key, form in (("sum", "reduction"), ("min", "reduction"), ("max", "reduction"), ("results", "fused"),
                                        ("stencil", "stencil")) if key in entry), "map")


class _Made:
    """The kernels of a checked file for one context, and what calls of them need to know."""

    def __init__(self, file: Any, folders: Sequence[str], context: Context, structs: Mapping[str, Element]) -> None:
        self.file, self.context, self.structs = file, context, structs
        # A device that runs no host function needs none.
        needed = any(place.language == "" for place in context.places[1:])
        self.hosts: Mapping[str, Any] = _host_functions(file, folders) if needed else {}

    def add(self, launcher: _Expression, kernel: Any) -> int:
        """Add a kernel of the file to what a launcher finds. Return its number there."""
        listed: list[Any] = [(parameter.access, element_of_file(parameter.element), parameter.name, _OVERLAPS[parameter.overlap])
                             for parameter in kernel.parameters]
        for parameter, (_, kind, _, _) in zip(kernel.parameters, listed):
            if parameter.element.prefix == self.file.prefix and parameter.element.name in self.structs:
                launcher._own[kind] = self.structs[parameter.element.name]
        results = [element_of_file(one.element) for one in ([kernel.reduced] if kernel.reduced else kernel.results)]
        if kernel.reduced:
            listed.append(("overwrite", results[0]))
        elif kernel.results:
            listed += [("update", element("u8")), *(("overwrite", kind, one.name, 2) for kind, one in zip(results, kernel.results))]
        first = Kernel(kernel.sym, source=kernel.cuda_text, host=self.hosts.get(kernel.sym), options=kernel.options["cuda"],
                       opencl_source=kernel.opencl_text or None, opencl_options=kernel.options["opencl"] if kernel.opencl_text else (),
                       exact=kernel.exact, parameters=listed + ["size_t n"] * len(kernel.sizes), context=self.context)
        second = None
        if kernel.reduced:
            second = Kernel(kernel.sym + "_into", source=kernel.into_text, host=self.hosts.get(kernel.sym + "_into"),
                            opencl_source=kernel.into_opencl_text or None,
                            parameters=[("read", results[0]), ("overwrite", results[0], "out"), "size_t n"], context=self.context)
        number = launcher._add(first, second, tuple(results), tuple(kernel.parameters.index(parameter) for parameter in kernel.counted))
        launcher._kinds[number] = [kind for _, kind in first.parameters]
        return number


class _Expression(_ferry.Launcher):
    """What elementwise kernels and reductions have in common: a description of one kernel, whose types may be letters. The kernels
    for the types of a call are made when they are first used; later calls run in C alone."""

    _words: list[list[str]]
    _own: dict[Element, Element]  # the program's elements by those of the kernels
    _kinds: dict[int, list[Element]]  # of the parameters of each variant
    _variables: list[str]
    _lock: threading.Lock
    _numbers: dict[tuple[str, ...], int]  # of variants, by the types of the letters
    _make: Callable[[dict[str, Element]], tuple[_Made, Any]]

    def __new__(cls, context: Context, entry: Mapping[str, Any], make: Callable[[dict[str, Element]], tuple[_Made, Any]]) -> Self:
        """`entry` describes the kernel as a file does, and `make` returns the kernels for the types that letters stand for."""
        name = entry["name"]
        listed = entry["parameters"]
        words = [text.split() if isinstance(text, str) else [] for text in listed]
        variables = sorted({word for one in words for word in one[:-1] if _VARIABLE.fullmatch(word)})
        arrays = {_type_of(one)[0] for one in words if one and one[0] in _ACCESSES and len(_type_of(one)) == 1}
        for variable in variables:
            if variable not in arrays:
                raise _ferry.ArgumentError(f"{name}: the type {variable} is that of no array, so that no call can name it")
        slots = []
        for one in words:
            access = _NUMBERS.get(one[0], 0) if one else 0
            letter = " ".join(_type_of(one))
            slots.append((access, access != 0 and not _word_of(one), _word_of(one) == "one",
                          variables.index(letter) if letter in variables else -1, one[-1] if one else ""))
        form = _form_of(entry)
        edges = entry.get("edges", "nearest") if form == "stencil" else "none"
        reach = entry.get("stencil", 0)
        dimensions = entry.get("dimensions", ())
        self = super().__new__(cls, context, name, _FORMS[form], len(dimensions) if isinstance(dimensions, (list, tuple)) else 0,
                               reach if type(reach) is int and 0 < reach < 100 else 0, _EDGES.get(edges, 0), bool(entry.get("count")), slots,
                               tuple(one["name"] for one in entry["results"]) if form == "fused" else ())
        self._words, self._variables, self._own, self._kinds = words, variables, {}, {}
        self._lock = threading.Lock()
        self._numbers = {}
        self._make = make
        if entry.get("comment"):
            self.__doc__ = entry["comment"]
        return self

    def __init__(self, *arguments: Any) -> None:
        pass

    def _variant(self, arguments: Sequence[Any]) -> int:
        """Make the kernels for the arrays of a call, and return their number."""
        bound = self._bind(arguments)
        key = tuple(bound[variable].name for variable in self._variables)
        with self._lock:
            if key not in self._numbers:
                made, kernel = self._make(bound)
                self._numbers[key] = made.add(self, kernel)
            return self._numbers[key]

    def _bind(self, arguments: Sequence[Any]) -> dict[str, Element]:
        """The types that the arrays of a call say."""
        bound: dict[str, Element] = {}
        for words, value in zip(self._words, arguments):
            variable = words[-2] if len(words) >= 2 else ""
            if variable not in self._variables or not isinstance(value, Array):
                continue
            if bound.setdefault(variable, value.dtype) is not value.dtype:
                raise _ferry.WrongTypeError(f"{self.name}: {variable} is {bound[variable].name}, but {words[-1]} is {value.dtype.name}")
        missing = [variable for variable in self._variables if variable not in bound]
        if missing:
            raise _ferry.ArgumentError(f"{self.name}: no array says what {missing[0]} is")
        return bound

    def _filled(self, arguments: tuple[Any, ...], variant: int, count: int, like: Any) -> tuple[Any, ...]:
        """The arguments of a call, with new arrays for those at the end that it has left out. They have the shape and the order of the
        array `like`, or the shape `like`, or `count` elements."""
        made = []
        for kind in self._kinds[variant][len(arguments):len(self._words)]:
            kind = self._own.get(kind, kind)
            one = empty(like.shape if isinstance(like, Array) else count if like is None else like, kind, context=self.context)
            if isinstance(like, Array) and like._strides() != c_strides(like.shape):
                one = one._view(kind, 0, like.shape, like._strides())
            made.append(one)
        return (*arguments, *made)

    def __repr__(self) -> str:
        return f"<ferry.{type(self).__name__} {self.name}({', '.join(' '.join(words) for words in self._words)})>"


def _word_of(words: list[str]) -> str:
    """The word between the access and the type, as ferry-gen reads it."""
    return words[1] if len(words) > 3 and words[0] in _ACCESSES and words[1] in ("whole", "one") else ""


def _type_of(words: list[str]) -> list[str]:
    return words[1 + bool(_word_of(words)):-1] if words and words[0] in _ACCESSES else words[:-1]


def _name_of_element(kind: Element) -> str:
    names = {("float", 32): "float", ("float", 64): "double", ("bool", 8): "bool", ("uint", 8): "byte", ("int", 32): "int",
             ("float", 16): "half", ("bfloat", 16): "bfloat16", ("complex", 64): "complex_float", ("complex", 128): "complex_double"}
    if kind.kind == "struct":
        raise _ferry.WrongTypeError(f"a type of one letter stands for numbers, not for {kind.name}: name the struct")
    return names.get((kind.kind, kind.bits), f"{kind.kind}{kind.bits}")


def _name_of_type(words: Sequence[str], bound: Mapping[str, Element] = _NOTHING) -> str:
    """The generator's name of a type."""
    text = " ".join(words)
    if text in bound:
        return _name_of_element(bound[text])
    if re.fullmatch(r"[<|=]?[a-z]+\d+|\?", text) and "_" not in text:
        try:
            return _name_of_element(element(text))
        except _ferry.Error:
            pass
    return text


def _name_of(kind: Any, bound: Mapping[str, Element] = _NOTHING) -> str:
    """The generator's name of a type that stands alone: a text, an Element, or a type or dtype of NumPy."""
    return _name_of_type(kind.split(), bound) if isinstance(kind, str) else _name_of_element(element(kind))


class Elementwise(_Expression):
    """A kernel of elementwise(), which a call runs for each element of its arrays, or for the cells of a box.

    A call queues the kernel. Overwritten arrays at the end may be left out: new ones are made. It returns the overwritten arrays.
    `stream` is a ferry.Stream; `count` the number of elements of a kernel with count=True. Of a kernel with dimensions, `box` is a tuple
    of slices, such as numpy.s_[1:9, :], and `shape` is for kernels whose arrays are all whole.
    """


class Fused(_Expression):
    """A kernel of elementwise() with results: a call runs statements for each element, and gives numbers of all of them.

    A call queues the kernel, and returns a dictionary of the results. With `out`, a dictionary of arrays, it queues the work that writes
    each result to the first element of its array, and returns `out`. The other arguments are those of Elementwise.
    """


class Reduction(_Expression):
    """A kernel of reduction(), which a call runs to get one number of all elements.

    A call returns the number, or queues the work that writes it to the first element of `out`, and returns `out`. The other arguments
    are those of Elementwise.
    """


_CLASSES = {"map": Elementwise, "stencil": Elementwise, "fused": Fused, "reduction": Reduction}


class _Description:
    """A file of kernels, or what a program says in its place, where types may have NumPy's names. `name` is the path of the file, or stands
    in messages."""

    def __init__(self, name: str | None, data: dict[str, Any], types: Types, include_folders: Sequence[str | os.PathLike[str]],
                 typedefs: Mapping[str, str], context: Context) -> None:
        self.is_file = name is not None and os.path.isabs(name)
        self.path = name or "kernels"
        self.data = data if self.is_file else {"ferry": 1, "prefix": _PREFIX, "header": "kernels.h", **data}
        self.typedefs, self.context = dict(typedefs), context
        self.paths, self.structs = split_types(types)
        own = [os.path.join(os.path.dirname(self.path), one) for one in data.get("types", ()) if isinstance(one, str)]
        folders = [os.path.abspath(folder) for folder in include_folders]
        self.folders = list(dict.fromkeys(folders + [os.path.dirname(os.path.abspath(one)) for one in (*own, *self.paths)]))

    def read(self, bound: Mapping[str, Element], then: Callable[[Any, list[str]], Any]) -> Any:
        """What `then` makes of the checked file and the folders of its headers. `bound` are types of letters."""
        if not self.structs:
            return then(self._checked(bound, self.paths), self.folders)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ferry-") as folder:
            written = [write_type(folder, self.data.get("prefix", _PREFIX), name, kind) for name, kind in self.structs.items()]
            try:
                return then(self._checked(bound, [*self.paths, *written]), [*self.folders, folder])
            except _ferry.Error as error:
                raise type(error)(str(error).replace(folder + os.sep, "types: ")) from error.__cause__

    def _checked(self, bound: Mapping[str, Element], paths: list[str]) -> Any:
        generator = _module("ferry_kernels")
        errors = _module("ferry_types").GeneratorError
        data = dict(self.data)
        if paths:
            data["types"] = [*data.get("types", ()), *paths]
        if not self.is_file and isinstance(data.get("kernels"), (list, tuple)):
            data["kernels"] = [_with_types(entry, bound) for entry in data["kernels"]]
        if not self.is_file and isinstance(data.get("functions"), (list, tuple)):
            data["functions"] = [_with_types(entry, {}) for entry in data["functions"]]
        if not self.is_file and isinstance(data.get("typedefs"), Mapping):
            data["typedefs"] = {name: _name_of(one) for name, one in data["typedefs"].items()}
        # I is a macro of C.
        letters = {variable: _name_of_element(kind) for variable, kind in bound.items() if variable != "I"}
        if letters:
            data["typedefs"] = {**data.get("typedefs", {}), **letters}
        try:
            return generator.KernelFile(self.path, data, typedefs=self.typedefs or None)
        except errors as error:
            raise _ferry.ArgumentError(str(error)) from error

    def make(self, bound: Mapping[str, Element]) -> _Made:
        """The kernels for these types of letters."""
        made: _Made = self.read(bound, lambda file, folders: _Made(file, folders, self.context, self.structs))
        return made


def _with_types(entry: Any, bound: Mapping[str, Element]) -> Any:
    """The description of a kernel or a function, with the generator's names of types in place of NumPy's and of letters."""
    if not isinstance(entry, Mapping) or not isinstance(entry.get("parameters"), (list, tuple)):
        return entry  # which ferry-gen refuses
    made = {**entry, "parameters": [_parameter_with_types(text, bound) for text in entry["parameters"]]}
    if isinstance(entry.get("results"), (list, tuple)):
        made["results"] = [dict(one) if isinstance(one, Mapping) else one for one in entry["results"]]
    for one in (made, *(made.get("results") or ())):
        for key in ("sum", "min", "max", "returns"):
            if isinstance(one, dict) and key in one:
                one[key] = _name_of(one[key], bound)
    return made


def _parameter_with_types(text: Any, bound: Mapping[str, Element]) -> Any:
    words = text.split() if isinstance(text, str) else []
    if len(words) < 2:
        return text
    return " ".join([*words[:len(words) - len(_type_of(words)) - 1], _name_of_type(_type_of(words), bound), words[-1]])


def _one(entry: dict[str, Any], file: Mapping[str, Any], types: Types, include_folders: Sequence[str | os.PathLike[str]],
         context: Context | None) -> Any:
    """The launcher of one kernel, whose types may be letters."""
    context = context_of(context)
    data = {**{key: value for key, value in file.items() if value}, "kernels": [entry]}
    description = _Description(entry["name"], data, types, include_folders, {}, context)

    def make(bound: Mapping[str, Element]) -> tuple[_Made, Any]:
        made = description.make(bound)
        return made, made.file.kernels[0]

    launcher = _CLASSES[_form_of(entry)](context, entry, make)
    if launcher._variables:  # refuses what no types make right
        description.read(dict.fromkeys(launcher._variables, element("f4")), lambda file, folders: None)
    else:
        launcher._variant(())
    return launcher


_SPOKEN = {"=": "is", "+": "plus", "-": "minus", "*": "times", "/": "over"}


def _spoken_name(each: str | Sequence[str]) -> str:
    """Return a name that keeps kernels apart in messages and traces: the words of the first statement."""
    text = (each if isinstance(each, str) else " ".join(map(str, each))).replace("[i]", "")
    words = [_SPOKEN.get(word, word) for word in re.findall(r"[A-Za-z_]\w*|\d+|[-=+*/]", text)]
    return re.sub(r"_+", "_", "_".join(words)[:48]).strip("_").lower() or "kernel"


def _entry(name: str, parameters: str | Sequence[str], each: str | Sequence[str], more: dict[str, Any], *, dimensions: Sequence[str],
           count: bool, fast: bool, inexact: bool, options: Sequence[str] | Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The description of one kernel, as a file has it."""
    listed = parameters.split(",") if isinstance(parameters, str) else list(parameters)
    entry = {"name": name, "parameters": listed, "each": each if isinstance(each, str) else list(each), **more}
    if more.get("results") is not None and not entry["each"]:
        del entry["each"]
    given = {"dimensions": list(dimensions), "count": count, "fast": fast, "inexact": inexact,
             "options": dict(options) if isinstance(options, Mapping) else list(options)}
    return {**entry, **{key: value for key, value in given.items() if value}}


def elementwise(parameters: str | Sequence[str], each: str | Sequence[str], *, name: str | None = None,
                functions: Sequence[dict[str, Any]] = (), types: Types = (), include: Sequence[str] = (),
                include_folders: Sequence[str | os.PathLike[str]] = (), fast: bool = False,
                options: Sequence[str] | Mapping[str, Sequence[str]] = (), count: bool = False,
                dimensions: Sequence[str] = (), stencil: int = 0, edges: str = "nearest",
                results: Mapping[str, tuple[str, Any, str]] | None = None, constants: Mapping[str, float | str] = _NOTHING,
                inexact: bool = False, context: Context | None = None) -> Elementwise | Fused:
    """Return a kernel that runs statements for each element, on CUDA devices and on all others.

    `parameters` are as in a file of `ferry-gen kernels`: "read double x", "update double y", "overwrite double z" are
    arrays, and "double a" is a value. A type is one of C, one of NumPy such as "f4", or a capital letter, which stands
    for the number that the arrays of a call have. `each` is statements in the part of C that is also CUDA, where i is
    the index. "read whole double t" is an array of any shape that is indexed freely, with count(t) elements, and "read one double a" a
    value in the first element of an array. With `count` a call says the number of elements, as in kernel(x, count=10).

    With `dimensions`, ("rows", "columns") or ("planes", "rows", "columns"), the arrays have these dimensions, the statements know row and
    column, and a call may name a box: kernel(x, box=numpy.s_[1:9, :]). `stencil` is how far neighbours are read, as in x(-1, 0), and `edges`
    what stands beyond the array: "nearest", "wrap" or "none".

    `functions` are descriptions of functions that it calls, as the file has them. `types` are the paths of type
    files of structs, or a dictionary of dtypes of structs by the names that the parameters use. `fast` allows fused operations on devices.
    `constants` are numbers by names that the statements may use, and `inexact` allows erf, erfc, cbrt and tgamma. A type of one letter is a
    type in the statements too.
    `name` is the kernel's in messages and traces; by default it says the statement: z_is_a_times_x.

    With `results` one launch also computes numbers of all elements: each is ("sum", "min" or "max", a type, an expression), and a
    call returns them.

    On CUDA devices the source is compiled with NVRTC. Everywhere else the C compiler `cc`, or that of the variable CC,
    compiles a host function, which is kept on disk and runs on all processors. This needs Jinja2.

    >>> import ferry
    >>> context = ferry.Context("emulated:1")
    >>> axpy = ferry.elementwise("T a, read T x, read T y, overwrite T z", "z[i] = a * x[i] + y[i];", context=context)
    >>> x = ferry.array([1.0, 2.0], context=context)
    >>> axpy(10, x, x).tolist()
    [11.0, 22.0]
    >>> step = ferry.elementwise("f8 a, update f8 r, read f8 w", "r[i] -= a * w[i];", results={"rr": ("sum", "f8", "r[i] * r[i]")}, context=context)
    >>> step(0.5, x, x)
    {'rr': 1.25}
    >>> mean = ferry.elementwise("read T x, overwrite T y", "y[i] = (x(0, -1) + x(0, 1)) / 2;", dimensions=("rows", "columns"), stencil=1, context=context)
    >>> mean(ferry.array([[1.0, 5.0, 0.0]], context=context)).tolist()
    [[3.0, 0.5, 2.5]]
    """
    name = name or _spoken_name(each)
    more: dict[str, Any] = {}
    if results is not None:
        for result, one in results.items():
            if not isinstance(one, tuple) or len(one) != 3 or one[0] not in ("sum", "min", "max") or not isinstance(one[2], str):
                raise _ferry.ArgumentError(f'results: {result} is ("sum", "min" or "max", a type, an expression), not {one!r}')
        more["results"] = [{"name": result, combine: dtype, "value": value} for result, (combine, dtype, value) in results.items()]
    if stencil:
        more["stencil"] = stencil
    if edges != "nearest":
        more["edges"] = edges
    entry = _entry(name, parameters, each, more, dimensions=dimensions, count=count, fast=fast, inexact=inexact, options=options)
    made: Elementwise | Fused = _one(entry, {"functions": list(functions), "constants": dict(constants), "include": list(include)}, types,
                                     include_folders, context)
    return made


def reduction(parameters: str | Sequence[str], each: str, combine: str = "sum", dtype: Any = "f8", *, name: str | None = None,
              functions: Sequence[dict[str, Any]] = (), types: Types = (), include: Sequence[str] = (),
              include_folders: Sequence[str | os.PathLike[str]] = (), fast: bool = False,
              options: Sequence[str] | Mapping[str, Sequence[str]] = (), count: bool = False, dimensions: Sequence[str] = (),
              constants: Mapping[str, float | str] = _NOTHING, inexact: bool = False, context: Context | None = None) -> Reduction:
    """Return a kernel that computes one number of all elements.

    `each` is one expression, whose values of type `dtype` are combined by `combine`: "sum", "min" or "max". The other
    arguments are those of elementwise(), and all arrays are read. Each run on one device gives the same bits.

    >>> import ferry
    >>> context = ferry.Context("emulated:1")
    >>> dot = ferry.reduction("read T x, read T y", "x[i] * y[i]", "sum", "T", context=context)
    >>> x = ferry.array([1.0, 2.0, 3.0], context=context)
    >>> dot(x, x)
    14.0
    """
    if combine not in ("sum", "min", "max"):
        raise _ferry.ArgumentError(f"combine is sum, min or max, not {combine!r}")
    entry = _entry(name or f"{combine}_of_{_spoken_name(each)}", parameters, each, {combine: dtype}, dimensions=dimensions, count=count, fast=fast,
                   inexact=inexact, options=options)
    made: Reduction = _one(entry, {"functions": list(functions), "constants": dict(constants), "include": list(include)}, types, include_folders, context)
    return made


class Kernels:
    """The kernels of one file of `ferry-gen kernels`: each is an attribute, an Elementwise, a Fused or a Reduction."""

    def __init__(self, name: str, kernels: Mapping[str, _Expression]) -> None:
        if not isinstance(name, str) or not isinstance(kernels, Mapping) or not all(isinstance(one, _Expression) for one in kernels.values()):
            raise TypeError("ferry.Kernels are made by ferry.kernels()")
        self._name = name
        self._kernels = dict(kernels)
        self.__dict__.update(kernels)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"{self.__dict__.get('_name')} has no kernel {name!r}; it has {', '.join(self.__dict__.get('_kernels', ()))}")

    def __getitem__(self, name: str) -> Any:
        return self._kernels[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._kernels])

    def __repr__(self) -> str:
        return f"<ferry.Kernels of {self._name}: {', '.join(self._kernels)}>"


def kernels(file: str | os.PathLike[str] | Mapping[str, Any], *, typedefs: Mapping[str, Any] = _NOTHING, types: Types = (),
            include_folders: Sequence[str | os.PathLike[str]] = (), context: Context | None = None) -> Kernels:
    """Return the kernels of a file of `ferry-gen kernels`, or of a dictionary with the same keys.

    Each is an attribute, and is called as what elementwise() and reduction() return: with its parameters in their order, and `stream`,
    `count`, `box` or `out` by name. `typedefs` replaces types of the key of this name, as `ferry-gen kernels --typedef` does. Types of a
    dictionary may have NumPy's names, "prefix" and "header" may be left out, and its type files are found from the working folder. `types`
    adds type files or dtypes to those of the file, as for elementwise(), and `include_folders` has headers that the host functions need.
    The kernels are compiled at once.

    >>> import ferry
    >>> context = ferry.Context("emulated:1")
    >>> k = ferry.kernels({"kernels": [
    ...     {"name": "scale", "parameters": ["f8 a", "update f8 x"], "each": "x[i] *= a;"},
    ...     {"name": "total", "parameters": ["read f8 x"], "each": "x[i]", "sum": "f8"}]}, context=context)
    >>> x = ferry.array([1.0, 2.0], context=context)
    >>> k.scale(3.0, x)
    >>> k.total(x)
    9.0
    """
    path: str | None = None
    if isinstance(file, Mapping):
        data = dict(file)
    else:
        path = os.path.abspath(file)
        reader = _module("ferry_types")
        try:
            data = reader.read_object(path, "a list of kernels")
        except reader.GeneratorError as error:
            if not os.path.exists(path):
                raise file_error(str(error), path, errno.ENOENT) from error
            raise _ferry.ArgumentError(str(error)) from error
    context = context_of(context)
    if not isinstance(typedefs, Mapping):
        raise _ferry.ArgumentError(f"typedefs is a dictionary of names and types, not {typedefs!r}")
    chosen = {str(name): _name_of(one) for name, one in typedefs.items()}
    made = _Description(path, data, types, include_folders, chosen, context).make({})
    found: dict[str, _Expression] = {}
    for kernel, entry in zip(made.file.kernels, data["kernels"]):
        launcher = _CLASSES[kernel.form](context, entry, _no_types)
        made.add(launcher, kernel)
        found[kernel.name] = launcher
    return Kernels(os.path.basename(path) if path else "a dictionary", found)


def _no_types(bound: Mapping[str, Element]) -> Any:
    raise _ferry.StateError("a kernel of a file has its types")  # its only variant fits every call
