# SPDX-License-Identifier: MIT
"""Kernels from one expression, which ferry-gen turns into CUDA source and into a host function in C."""

from __future__ import annotations

import functools
import operator
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

from . import _ferry
from ._arguments import context_of
from ._array import Array, c_strides, empty, zeros
from ._context import Context, Stream
from ._element import element, element_of_file, load_generator
from ._ferry import Element
from ._folders import INCLUDES, TEMPLATES
from ._kernel import Kernel, grid
from ._structs import split_types, write_type

if TYPE_CHECKING:
    import ctypes

Types = Union[Sequence[Union[str, "os.PathLike[str]"]], Mapping[str, Any]]

_ACCESSES = ("read", "update", "overwrite")
_VARIABLE = re.compile(r"[A-Z]")
_PREFIX = "py"
_NOTHING: Mapping[str, Any] = {}
_KEPT = 500  # host functions in the cache, of 20 KB each


class _HostFunction:
    """A compiled function, as Kernel takes it: code that stays loaded, and its address."""

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


def _host_functions(file: Any, kernel: Any, folders: Sequence[str]) -> list[_HostFunction]:
    """The host function of a kernel, and for a reduction that of its second part."""
    renderer = _renderer()
    source = renderer.render("kernels.h.j2", k=file)
    headers = {found.header: renderer.render("typed.h.j2", t=found) for found in file.types.values() if found.prefix != "ferry"}
    arrays, sizes = [parameter.is_buffer for parameter in kernel.parameters], [False] * len(kernel.sizes)
    entries = {kernel.sym: [*arrays, *sizes]}
    if kernel.results:
        entries = {kernel.sym: [*arrays, True, *(True for _ in kernel.results), *sizes]}
    if kernel.result:
        entries = {kernel.sym: [*arrays, True, *sizes], kernel.sym + "_into": [True, True, False]}
    for name, kinds in entries.items():
        values = ", ".join(f"&pointers[{index}]" if is_array else f"pointers[{index}]" for index, is_array in enumerate(kinds))
        source += (f"\nint32_t {name}_compiled(void **pointers, size_t *counts);\n"
                   f"int32_t {name}_compiled(void **pointers, size_t *counts)\n{{\n    void *values[] = {{{values}}};\n"
                   f"    (void)counts;\n    {name}_run(values);\n    return 0;\n}}\n")
    library = _compiled(source, headers, folders)
    return [_HostFunction(library, name + "_compiled") for name in entries]


class _Expression:
    """What elementwise kernels and reductions have in common. Kernels are made for each set of types when it is first used."""

    def __init__(self, parameters: str | Sequence[str], each: str | Sequence[str], entry: dict[str, Any], name: str,
                 functions: Sequence[dict[str, Any]], types: Types, include: Sequence[str],
                 folders: Sequence[str | os.PathLike[str]], fast: bool, options: Sequence[str], count: bool, constants: Mapping[str, float | str],
                 inexact: bool, context: Context | None) -> None:
        listed = parameters.split(",") if isinstance(parameters, str) else list(parameters)
        self._words = [text.split() if isinstance(text, str) else [] for text in listed]
        self._each = each if isinstance(each, str) else list(each)
        self._entry = {**entry, "name": name, **({"fast": True} if fast else {}), **({"inexact": True} if inexact else {}), **({"count": True} if count else {}), **({"options": list(options)} if options else {})}
        self._file: dict[str, Any] = {"ferry": 1, "prefix": _PREFIX, "header": "kernels.h", "kernels": []}
        if functions:
            self._file["functions"] = list(functions)
        if constants:
            self._file["constants"] = dict(constants)
        self._paths, self._structs = split_types(types)
        if include:
            self._file["include"] = list(include)
        self._folders = [os.path.abspath(folder) for folder in folders] + [os.path.dirname(path) for path in self._paths]
        self._made: dict[tuple[str, ...], list[Kernel]] = {}
        self._own: dict[Element, Element] = {}  # the program's elements by those of the kernels
        self._lock = threading.Lock()
        self.name = name
        self.context = context_of(context)
        self._variables = sorted({word for words in self._words for word in words[:-1] if _VARIABLE.fullmatch(word)})
        arrays = {_type_of(words)[0] for words in self._words if words and words[0] in _ACCESSES and len(_type_of(words)) == 1}
        for variable in self._variables:
            if variable not in arrays:
                raise _ferry.ArgumentError(f"{name}: the type {variable} is that of no array, so that no call can name it")
        self._accesses = [words[0] if words and words[0] in _ACCESSES else "" for words in self._words]
        # Arrays that are passed whole, and values that stand in arrays, have shapes of their own.
        self._counts = [bool(access) and not _word_of(words) for words, access in zip(self._words, self._accesses)]
        self._takes_count = bool(count)
        self._counted: list[int] = []  # the parameters whose lengths the text uses
        if not self._variables:
            self._kernels({})
        else:
            self._made_of(dict.fromkeys(self._variables, element("f4")), lambda file, folders: None)  # refuses what no types make right

    def _kernels(self, bound: dict[str, Element]) -> list[Kernel]:
        """The kernels for these types."""
        key = tuple(bound[variable].name for variable in self._variables)
        with self._lock:
            if key not in self._made:
                self._made[key] = self._make(bound)
            return self._made[key]

    def _make(self, bound: dict[str, Element]) -> list[Kernel]:
        made: list[Kernel] = self._made_of(bound, self._kernels_of)
        return made

    def _made_of(self, bound: dict[str, Element], make: Callable[[Any, list[str]], Any]) -> Any:
        """What `make` makes of the file of kernels for these types, while the folder of its structs exists."""
        if not self._structs:
            return make(self._described(bound, self._paths), self._folders)
        import tempfile

        with tempfile.TemporaryDirectory(prefix="ferry-") as folder:
            written = [write_type(folder, _PREFIX, name, kind) for name, kind in self._structs.items()]
            try:
                return make(self._described(bound, [*self._paths, *written]), [*self._folders, folder])
            except _ferry.Error as error:
                raise type(error)(str(error).replace(folder + os.sep, "types: ")) from error.__cause__

    def _described(self, bound: dict[str, Element], paths: list[str]) -> Any:
        """The file of kernels for these types, checked."""
        generator = _module("ferry_kernels")
        errors = _module("ferry_types").GeneratorError
        texts = [" ".join([*words[:len(words) - len(_type_of(words)) - 1], self._name_of_type(_type_of(words), bound), *words[-1:]])
                 for words in self._words]
        entry = {**self._entry, "parameters": texts, "each": self._each}
        for key in ("sum", "min", "max"):
            if key in entry:
                entry[key] = self._name_of_type([str(entry[key])], bound)
        if "results" in entry:
            entry["results"] = [{"name": name, combine: self._name_of_type([str(dtype)], bound), "value": value}
                                for name, (combine, dtype, value) in entry["results"].items()]
            if not self._each:
                del entry["each"]
        try:
            # I is a macro of C.
            more = {"typedefs": {variable: _name_of_element(kind) for variable, kind in bound.items() if variable != "I"}, "types": paths}
            return generator.KernelFile(self.name, {**self._file, **{key: value for key, value in more.items() if value}, "kernels": [entry]})
        except errors as error:
            raise _ferry.ArgumentError(str(error)) from error

    def _kernels_of(self, file: Any, folders: list[str]) -> list[Kernel]:
        kernel = file.kernels[0]
        # A device that runs no host function needs none.
        needed = any(place.language == "" for place in self.context.places[1:])
        hosts: list[Any] = _host_functions(file, kernel, folders) if needed else [None, None]
        overlaps = {"": 0, "FERRY_OVERLAP_SAME": 1, "FERRY_OVERLAP_NONE": 2}
        listed: list[Any] = [(parameter.access, element_of_file(parameter.element), parameter.name, overlaps[parameter.overlap])
                             for parameter in kernel.parameters]
        self._counted = [kernel.parameters.index(parameter) for parameter in kernel.counted]
        for parameter, (_, kind, _, _) in zip(kernel.parameters, listed):
            if parameter.element.prefix == _PREFIX and parameter.element.name in self._structs:
                self._own[kind] = self._structs[parameter.element.name]
        result = element_of_file(kernel.result) if kernel.result else None
        partial: list[Any] = [("overwrite", result)] if result else []
        if kernel.results:
            partial = [("update", element("u8")), *(("overwrite", element_of_file(one.element), one.name, 2) for one in kernel.results)]
        first = listed + partial + ["size_t n"] * len(kernel.sizes)
        made = [Kernel(kernel.sym, source=kernel.cuda_text, host=hosts[0], options=kernel.options["cuda"],
                       opencl_source=kernel.opencl_text or None, opencl_options=kernel.options["opencl"] if kernel.opencl_text else (),
                       exact=kernel.exact, parameters=first, context=self.context)]
        if result:
            made.append(Kernel(kernel.sym + "_into", source=kernel.into_text, host=hosts[1], opencl_source=kernel.into_opencl_text or None,
                               parameters=[("read", result), ("overwrite", result, "out"), "size_t n"], context=self.context))
        return made

    def _name_of_type(self, words: list[str], bound: dict[str, Element]) -> str:
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

    def _count_of(self, arguments: Sequence[Any], count: int | None) -> tuple[int, Array | None]:
        """The number of elements of a call, and the array whose shape all others must have."""
        if self._takes_count != (count is not None):
            raise _ferry.ArgumentError(f"{self.name}: " + ("a call needs count=, the number of elements" if self._takes_count else
                                                           "count= is for kernels that were made with count=True"))
        arrays = self._arrays(arguments)
        if count is None:
            first = self._first(arrays)
            return first.size, first
        number = operator.index(count)
        if number < 0:
            raise _ferry.SizeError(f"{self.name}: {number} is no count")
        for name, value in arrays:
            if value.size < number:
                raise _ferry.RangeError(f"{self.name}: {name} has {value.size} elements, and the count is {number}")
        return number, None

    def _arrays(self, arguments: Sequence[Any]) -> list[tuple[str, Array]]:
        """The arrays of a call of which each element uses its own one."""
        arrays = []
        for words, access, counts, value in zip(self._words, self._accesses, self._counts, arguments):
            if access and not isinstance(value, Array):
                raise _ferry.WrongTypeError(f"{self.name}: {words[-1]} must be a ferry.Array")
            if counts:
                arrays.append((words[-1], value))
            elif access and _word_of(words) == "one" and value.size == 0:
                raise _ferry.RangeError(f"{self.name}: {words[-1]} has no element")
        return arrays

    def _sizes_of(self, count: int, arguments: Sequence[Any]) -> list[int]:
        """The last arguments of a launch: the count, and those of whole arrays that the text uses."""
        return [count, *(arguments[index].size for index in self._counted)]

    def _first(self, arrays: Sequence[tuple[str, Array]]) -> Array:
        """The array whose shape all others must have."""
        if not arrays:
            raise _ferry.ArgumentError(f"{self.name} needs an array")
        for name, value in arrays[1:]:
            if value.shape != arrays[0][1].shape:
                raise _ferry.ArgumentError(f"{self.name}: {name} has the shape {value.shape}, but {arrays[0][0]} has {arrays[0][1].shape}")
            if value._strides() != arrays[0][1]._strides():
                raise _ferry.UnsupportedError(f"{self.name}: the order of the dimensions of {name} differs from that of {arrays[0][0]}")
        return arrays[0][1]

    @staticmethod
    def _in_memory_order(values: Sequence[Any]) -> list[Any]:
        """The arrays of a call as they lie in memory, in which order the elements are numbered."""
        return [value._view(value.dtype, 0, (value.size,), None) if isinstance(value, Array) and value._strides() != c_strides(value.shape)
                else value for value in values]

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


class Elementwise(_Expression):
    """A kernel of elementwise(), which a call runs for each element of its arrays."""

    def __call__(self, *arguments: Any, stream: Stream | None = None, count: int | None = None) -> Any:
        """Queue the kernel. Overwritten arrays at the end may be left out: new ones are made. Return the overwritten arrays. `count` is
        the number of elements of a kernel that was made with count=True."""
        number, first_given = self._count_of(arguments, count)
        missing = range(len(arguments), len(self._words))
        if len(arguments) > len(self._words) or any(self._accesses[at] != "overwrite" or not self._counts[at] for at in missing):
            raise _ferry.ArgumentError(f"{self.name} has {len(self._words)} parameters, not {len(arguments)}")
        bound = self._bind(arguments)
        kernel, = self._kernels(bound)
        kinds = [kernel.parameters[at][1] for at in missing]
        made = [self._like(first_given, self._own.get(kind, kind)) if first_given is not None else
                empty(number, self._own.get(kind, kind), context=self.context) for kind in kinds]
        values = [*arguments, *made]
        if number:
            kernel(stream, grid(number), *self._in_memory_order(values), *self._sizes_of(number, values))
        written = [value for value, access in zip(values, self._accesses) if access == "overwrite"]
        return written[0] if len(written) == 1 else tuple(written) or None


    def _like(self, given: Array, kind: Element) -> Array:
        """A new array of the same shape and order."""
        made = empty(given.shape, kind, context=self.context)
        return made if given._strides() == c_strides(given.shape) else made._view(kind, 0, given.shape, given._strides())


class Fused(_Expression):
    """A kernel of elementwise() with results: a call runs statements for each element, and gives numbers of all of them."""

    def __call__(self, *arguments: Any, stream: Stream | None = None, out: Mapping[str, Array] | None = None, count: int | None = None) -> Any:
        """Queue the kernel, and return a dictionary of the results. With `out`, a dictionary of arrays, queue the work that writes each
        result to the first element of its array, and return `out`. `count` is the number of elements of a kernel that was made with
        count=True."""
        number, _ = self._count_of(arguments, count)
        if len(arguments) != len(self._words):
            raise _ferry.ArgumentError(f"{self.name} has {len(self._words)} parameters, not {len(arguments)}")
        names = list(self._entry["results"])
        if out is not None and sorted(out) != sorted(names):
            raise _ferry.ArgumentError(f"{self.name}: out needs an array for each of {', '.join(names)}")
        kernel, = self._kernels(self._bind(arguments))
        kinds = [kind for _, kind in kernel.parameters[len(arguments) + 1:len(arguments) + 1 + len(names)]]
        made = {}
        for name, kind in zip(names, kinds):
            given = out[name] if out is not None else empty(1, kind, context=self.context)
            if not isinstance(given, Array):
                raise _ferry.WrongTypeError(f"{self.name}: out[{name!r}] must be a ferry.Array")
            if given.size == 0:
                raise _ferry.RangeError(f"{self.name}: out[{name!r}] has no element for the result")
            made[name] = given.reshape(-1)[:1]
        # As the functions that ferry-gen writes do it, so that the order of the sums is theirs.
        blocks = min(number // 1024 + 1, 1024)
        scratch = zeros(1 + len(names) * blocks, "u8", context=self.context)
        kernel(stream, grid(blocks * 256), *self._in_memory_order(arguments), scratch, *made.values(), *self._sizes_of(number, arguments))
        return {name: one.item() for name, one in made.items()} if out is None else out


class Reduction(_Expression):
    """A kernel of reduction(), which a call runs to get one number of all elements."""

    def __call__(self, *arguments: Any, stream: Stream | None = None, out: Array | None = None, count: int | None = None) -> Any:
        """Return the number, or queue the work that writes it to the first element of `out`, and return `out`. `count` is the number of
        elements of a kernel that was made with count=True."""
        if len(arguments) != len(self._words):
            raise _ferry.ArgumentError(f"{self.name} has {len(self._words)} parameters, not {len(arguments)}")
        number, _ = self._count_of(arguments, count)
        if out is not None and not isinstance(out, Array):
            raise _ferry.WrongTypeError(f"{self.name}: out must be a ferry.Array")
        if out is not None and out.size == 0:
            raise _ferry.RangeError(f"{self.name}: out has no element for the result")
        first, second = self._kernels(self._bind(arguments))
        kind = second.parameters[1][1]
        # As the functions that ferry-gen writes do it, so that the order of the sums is theirs.
        blocks = min(number // 1024 + 1, 1024)
        partial = empty(blocks, kind, context=self.context)
        result = empty(1, kind, context=self.context) if out is None else out.reshape(-1)[:1]
        first(stream, grid(blocks * 256), *self._in_memory_order(arguments), partial, *self._sizes_of(number, arguments))
        second(stream, grid(256), partial, result, blocks)
        return result.item() if out is None else out


_SPOKEN = {"=": "is", "+": "plus", "-": "minus", "*": "times", "/": "over"}


def _spoken_name(each: str | Sequence[str]) -> str:
    """Return a name that keeps kernels apart in messages and traces: the words of the first statement."""
    text = (each if isinstance(each, str) else " ".join(map(str, each))).replace("[i]", "")
    words = [_SPOKEN.get(word, word) for word in re.findall(r"[A-Za-z_]\w*|\d+|[-=+*/]", text)]
    return re.sub(r"_+", "_", "_".join(words)[:48]).strip("_").lower() or "kernel"


def elementwise(parameters: str | Sequence[str], each: str | Sequence[str], *, name: str | None = None,
                functions: Sequence[dict[str, Any]] = (), types: Types = (), include: Sequence[str] = (),
                include_folders: Sequence[str | os.PathLike[str]] = (), fast: bool = False, options: Sequence[str] = (),
                count: bool = False, results: Mapping[str, tuple[str, str, str]] | None = None,
                constants: Mapping[str, float | str] = _NOTHING, inexact: bool = False, context: Context | None = None) -> Elementwise | Fused:
    """Return a kernel that runs statements for each element, on CUDA devices and on all others.

    `parameters` are as in a file of `ferry-gen kernels`: "read double x", "update double y", "overwrite double z" are
    arrays, and "double a" is a value. A type is one of C, one of NumPy such as "f4", or a capital letter, which stands
    for the number that the arrays of a call have. `each` is statements in the part of C that is also CUDA, where i is
    the index. "read whole double t" is an array of any shape that is indexed freely, with count(t) elements, and "read one double a" a
    value in the first element of an array. With `count` a call says the number of elements, as in kernel(x, count=10). `functions` are descriptions of functions that it calls, as the file has them. `types` are the paths of type
    files of structs, or a dictionary of dtypes of structs by the names that the parameters use. `fast` allows fused operations on devices.
    `constants` are numbers by names that the statements may use, and `inexact` allows erf, erfc, cbrt and tgamma. A type of one letter is a
    type in the statements too.
    `name` is the kernel's in messages and traces; by default it says the statement: z_is_a_times_x.

    With `results` one launch also computes numbers of all elements: each is ("sum", "min" or "max", a type, an expression), and a
    call returns them.

    On CUDA devices the source is compiled with NVRTC. Everywhere else the C compiler `cc`, or that of the variable CC,
    compiles a host function, which is kept on disk. This needs Jinja2.

    >>> import ferry
    >>> context = ferry.Context("emulated:1")
    >>> axpy = ferry.elementwise("T a, read T x, read T y, overwrite T z", "z[i] = a * x[i] + y[i];", context=context)
    >>> x = ferry.array([1.0, 2.0], context=context)
    >>> axpy(10, x, x).tolist()
    [11.0, 22.0]
    >>> step = ferry.elementwise("f8 a, update f8 r, read f8 w", "r[i] -= a * w[i];", results={"rr": ("sum", "f8", "r[i] * r[i]")}, context=context)
    >>> step(0.5, x, x)
    {'rr': 1.25}
    """
    name = name or _spoken_name(each)
    if results is not None:
        for result, one in results.items():
            if not isinstance(one, tuple) or len(one) != 3 or one[0] not in ("sum", "min", "max") or not isinstance(one[2], str):
                raise _ferry.ArgumentError(f'results: {result} is ("sum", "min" or "max", a type, an expression), not {one!r}')
        return Fused(parameters, each, {"results": dict(results)}, name, functions, types, include, include_folders, fast, options, count, constants, inexact, context)
    return Elementwise(parameters, each, {}, name, functions, types, include, include_folders, fast, options, count, constants, inexact, context)


def reduction(parameters: str | Sequence[str], each: str, combine: str = "sum", dtype: str = "f8", *, name: str | None = None,
              functions: Sequence[dict[str, Any]] = (), types: Types = (), include: Sequence[str] = (),
              include_folders: Sequence[str | os.PathLike[str]] = (), fast: bool = False, options: Sequence[str] = (),
              count: bool = False, constants: Mapping[str, float | str] = _NOTHING, inexact: bool = False,
              context: Context | None = None) -> Reduction:
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
    name = name or f"{combine}_of_{_spoken_name(each)}"
    return Reduction(parameters, each, {combine: dtype}, name, functions, types, include, include_folders, fast, options, count, constants, inexact, context)
