# SPDX-License-Identifier: MIT
"""Load a type description, check it, and compute every name that the templates print.

Templates decide nothing: what they print is an attribute of ElementType, Field, Conversion or Pair.
"""

import difflib
import json
import os
import re

from ferry_layout import (ALIGN_LIMIT, C_SCALARS, DEFAULT_TARGET, ENUM, LITERAL_BYTES, Member, cuda_declaration, CUDA_SCALARS, guarded,
                          initializers, opencl_declaration, opencl_type, place, round_up, scalar_align)
from ferry_names import SYSTEM_HEADERS

FORMAT_VERSION = 1
GEN_ABI = 3
VALUE_BYTES = 32  # FERRY_VALUE_BYTES of <ferry/kernel.h>
FIELD_LIMIT = 1024  # scalars and arrays of them in one struct
STRUCT_BYTES = 2**31 - 1

KINDS = {"float": 1, "bfloat": 2, "int": 3, "uint": 4, "bool": 5, "complex": 6, "struct": 7}
KIND_BITS = {
    "float": (16, 32, 64),
    "bfloat": (16,),
    "int": (8, 16, 32, 64),
    "uint": (8, 16, 32, 64),
    "bool": (8,),
    "complex": (32, 64, 128),
}

TYPE_WORDS = frozenset(
    "bool char double enum float int long short signed struct union unsigned _Bool _Complex _Float16".split())
RESERVED = TYPE_WORDS | frozenset("""
    alignas alignof and and_eq asm auto bitand bitor break case catch char8_t char16_t char32_t class compl concept const
    consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default defined delete do dynamic_cast
    else explicit export extern false for friend goto if inline mutable namespace new noexcept not not_eq nullptr operator
    or or_eq private protected public register reinterpret_cast requires restrict return sizeof static static_assert
    static_cast switch template this thread_local throw true try typedef typeid typename typeof typeof_unqual using virtual
    void volatile wchar_t while xor xor_eq _Alignas _Alignof _Atomic _Generic _Imaginary _Noreturn _Static_assert
    _Thread_local""".split())

# Parameters and variables of the functions of the generated headers: a typedef by such a name would be hidden in them.
HEADER_NAMES = frozenset("""
    access advice argument base buffer call context conversion copy count element event fields file_offset found handle index label lease
    memory number offset offset_bytes options out out_count out_pointer path place pointer policy raw ready_on region scope share
    source source_offset status stream target target_offset timeout_ns user value what written_on""".split())

TYPE_KEYS = ("ferry", "prefix", "name", "c_type", "header", "include", "kind", "bits", "bytes", "align", "fields",
             "cuda_declaration", "opencl_declaration", "enumerators", "conversions", "cpp")
FIELD_KEYS = ("name", "type", "offset", "count")
CONVERSION_KEYS = ("from", "to", "function", "include")

BUILTIN_DIR = os.path.join(os.path.dirname(os.path.realpath(__file__)), "types")


class GeneratorError(Exception):
    """Ends a run with its text as the message."""

    status = 1  # of the program


class TypeFileError(GeneratorError):
    """What is wrong with a type file: `file: key: what was wrong and what was expected`."""

    def __init__(self, path, key, message):
        text = f"{path}: {key}: {message}" if key else f"{path}: {message}"
        super().__init__("".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text))


def identity_of(kind, bits, size, align, fields):
    """FNV-1a as ferry_element_identity() of <ferry/element.h> defines it."""
    words = [KINDS[kind], bits, size, align]
    for field in fields:
        words += [KINDS[field.kind], field.bits, field.offset, field.count]
    value = 14695981039346656037
    for byte in b"".join(word.to_bytes(8, "little") for word in words):
        value = (value ^ byte) * 1099511628211 % 2**64
    return value


def include_line(path):
    """A path in <> or of Ferry's own headers stays in <>; other paths are quoted."""
    if path.startswith("<"):
        return f"#include {path}"
    return f"#include <{path}>" if path.startswith("ferry/") else f'#include "{path}"'


def c_string_lines(text):
    """C string literals, one for each line of `text`; octal escapes cannot run into what follows them."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "?": "\\?"}
    lines = []
    for line in text.splitlines(keepends=True):
        characters = (escapes.get(c) or (c if c.isascii() else "".join(f"\\{b:03o}" for b in c.encode()))
                      for c in line)
        lines.append('"' + "".join(characters) + '"')
    return lines


class Conversion:
    """One user-written conversion between a type and another one, built in or described by a file."""

    def __init__(self, source, target, way, other, function, include):
        self.source = source  # ElementType
        self.target = target
        self.other = other  # one of the two
        self.way = way  # "from" or "to" the other type
        self.name = f"{way}_{self._short(other)}"
        self.function = function
        self.include = include

    @property
    def owner(self):
        return self.target if self.way == "from" else self.source

    def _short(self, element):
        """A type of another project is called by its full name."""
        return element.name if element.prefix in ("ferry", self.owner.prefix) else element.sym

    @property
    def array_function(self):
        return f"{self.owner.prefix}_convert_{self._short(self.source)}_to_{self._short(self.target)}"

    @property
    def run_function(self):
        return f"{self.owner.sym}_run_{self.name}"


class ElementType:
    """One element type, checked. Attributes are what templates print."""

    def __init__(self, path, data, target=DEFAULT_TARGET, outer=(), shallow=False):
        """`outer` are the files of structs that hold this one; `shallow` leaves conversions unread."""
        self.path = path
        self.read_files = [path]
        self.target = target
        self.outer = (*outer, os.path.realpath(path))
        self.given_keys = data.keys()
        check = Checker(path, data)
        check.absent("export", "belongs to versions before 2; generated functions are inline and export nothing")
        check.keys(data, "", TYPE_KEYS, ("ferry", "prefix", "name", "c_type", "header", "kind"))
        check.version()
        self.source = os.path.basename(path)
        self.name = check.name()
        self.prefix = check.prefix()
        self.kind = check.choice("kind", KINDS)
        self.c_type = check.c_type(self.kind)
        self.header = check.header()
        self.include = check.includes()
        self.enumerators = check.enumerators()
        if self.kind == "struct":
            self._load_struct(check)
        else:
            self._load_scalar(check)
        self.conversions = []
        # A second header for one C++ type is an error in C++, and two libraries may each have one for uint16_t.
        self.has_cpp_element = check.flag("cpp", self.kind == "struct" or self.prefix == "ferry")
        self._name_everything()
        if not shallow:
            self.conversions = check.conversions(self)
        self._name_conversions()

    def _load_scalar(self, check):
        for key in ("bytes", "align", "fields", "cuda_declaration", "opencl_declaration"):
            check.absent(key, f"belongs to structs only; kind '{self.kind}' is described by 'bits'")
        self.bits = check.bits(self.kind, self.c_type)
        self.bytes = self.bits // 8
        self.align = scalar_align(self.kind, self.bits)
        self.fields = []
        self.rows = []
        self.initializers = []
        self.cuda_text = self.opencl_text = ""

    def _load_struct(self, check):
        check.absent("bits", "belongs to scalars only; a struct is described by its 'fields'")
        self.bits = 0
        given = check.given("bytes", 1, STRUCT_BYTES)
        align = check.align(given)
        self.members = check.members(self, given or STRUCT_BYTES)
        natural = max(member.align for member in self.members)
        place(self.members, align or ALIGN_LIMIT)
        self.align = align or natural
        if self.align > ALIGN_LIMIT:
            check.fail("align", f"is {self.align} by the fields; expected at most {ALIGN_LIMIT}")
        self.bytes = given or round_up(max(member.end for member in self.members), self.align)
        check.places(self.members, self.bytes)
        if self.bytes % self.align:
            check.fail("bytes", f"is {self.bytes}; expected a multiple of {self.align}, the alignment of the fields")
        self.fields = check.flat(self.members)
        self.rows = [row for member in self.members for row in member.rows()]
        # A declaration in CUDA C++ of the user's own may hold members that no field describes.
        self.lists_every_member = "cuda_declaration" not in check.data and not self.c_type.startswith("union ")
        self.initializers = initializers(self.members, "source->") if self.lists_every_member else []
        identity = identity_of("struct", 0, self.bytes, self.align, self.fields)
        guard = f"FERRY_CUDA_{self.c_type.split(' ')[-1]}_{identity:016x}"
        self.cuda_text = check.declaration("cuda_declaration", "CUDA C++", guard) or check.literal(
            "cuda_declaration", cuda_declaration(self.c_type, guard, self.members, self.bytes, self.align) or "",
            "is derived from the fields and")
        guard = guard.replace("FERRY_CUDA_", "FERRY_OPENCL_", 1)
        self.opencl_type = opencl_type(self.c_type)
        self.opencl_text = check.declaration("opencl_declaration", "OpenCL C", guard) or self._derived_opencl_text(guard)

    def _derived_opencl_text(self, guard):
        """The struct in OpenCL C by its fields; "" where they do not say it, or where the user's declaration says more than they."""
        if "cuda_declaration" in self.given_keys:
            return ""
        text = opencl_declaration(self.c_type, guard, self.members, self.bytes, self.align) or ""
        return text if len(text) <= LITERAL_BYTES else ""

    def _name_everything(self):
        self.sym = f"{self.prefix}_{self.name}"
        self.full_name = self.name if self.prefix == "ferry" else self.sym  # in messages
        self.handle = f"{self.sym}_buffer"
        self.guard = f"{self.sym.upper()}_BUFFER_H"
        self.element_guard = f"{self.sym.upper()}_ELEMENT_H"
        self.gen_abi = GEN_ABI
        self.include_line = include_line(self.header)
        self.include_lines = [include_line(path) for path in self.include]
        self.kind_constant = "FERRY_KIND_" + self.kind.upper()
        self.is_struct = self.kind == "struct"
        self.identity = f"UINT64_C(0x{identity_of(self.kind, self.bits, self.bytes, self.align, self.fields):016x})"
        self.value_by_pointer = self.bytes > VALUE_BYTES
        self.cuda_lines = c_string_lines(self.cuda_text)
        self.opencl_lines = c_string_lines(self.opencl_text)
        self.flags = {field.name.split(".")[-1].split("[")[0] for field in self.fields if field.kind == "bool"}
        self.title = self._title()

    def _name_conversions(self):
        others = unique([c.other for c in self.conversions])
        # Of a user's type only what a conversion needs is here, so that two types may convert to each other.
        self.other_elements = [other for other in others if other.prefix != "ferry"]
        self.conversion_includes = unique(["#include <ferry/generated.h>"] + [
            line for other in others for line in ([other.include_line] if other.prefix == "ferry" else other.include_lines)
        ]) if others else []
        self.conversion_includes = [line for line in self.conversion_includes if line not in self.include_lines]
        self.function_includes = unique([include_line(c.include) for c in self.conversions if c.include])

    def _title(self):
        if self.is_struct:
            return f"{self.c_type}, {self.bytes} bytes, aligned to {self.align}"
        words = {"float": f"IEEE-754 binary{self.bits}", "bfloat": "bfloat16", "int": f"signed, {self.bits} bits",
                 "uint": f"unsigned, {self.bits} bits", "bool": "one byte, 0 or 1",
                 "complex": f"two IEEE-754 binary{self.bits // 2}"}
        return f"{self.c_type} ({words[self.kind]})"


def unique(items):
    return list(dict.fromkeys(items))


def nearest(word, known):
    """A question that names the known word that looks most like this one; nothing where none does."""
    found = difflib.get_close_matches(word.lower(), known, 1)
    return f"did you mean '{found[0]}'? " if found else ""


class Checker:
    """Reads one description key by key; every refusal names the file, the key and what was expected."""

    def __init__(self, path, data):
        self.path = path
        self.data = data

    def fail(self, key, message):
        raise TypeFileError(self.path, key, message)

    def keys(self, data, where, known, required):
        for key in data:
            if key not in known:
                self.fail(where + key, f"unknown key; {nearest(key, known)}expected one of {', '.join(known)}")
        for key in required:
            if key not in data:
                self.fail(where + key, "missing; it is required")

    def absent(self, key, why):
        if key in self.data:
            self.fail(key, why)

    def value(self, key, kind, what, data=None, where=""):
        data = self.data if data is None else data
        if key not in data:
            self.fail(where + key, f"missing; expected {what}")
        value = data[key]
        if type(value) is not kind:
            self.fail(where + key, f"is {json.dumps(value)}; expected {what}")
        return value

    def text(self, key, what, data=None, where=""):
        value = self.value(key, str, what, data, where)
        if not value:
            self.fail(where + key, f"is empty; expected {what}")
        return value

    def integer(self, key, low, high, data=None, where=""):
        what = f"a whole number from {low} to {high}"
        value = self.value(key, int, what, data, where)
        if not low <= value <= high:
            self.fail(where + key, f"is {value}; expected {what}")
        return value

    def choice(self, key, choices):
        what = f"one of {', '.join(choices)}"
        value = self.text(key, what)
        if value not in choices:
            self.fail(key, f"is '{value}'; {nearest(value, choices)}expected {what}")
        return value

    def flag(self, key, default):
        return self.value(key, bool, "true or false") if key in self.data else default

    def version(self):
        if self.value("ferry", int, f"{FORMAT_VERSION}, the version of this format") != FORMAT_VERSION:
            self.fail("ferry", f"is {self.data['ferry']}; this generator reads version {FORMAT_VERSION}")

    def name(self):
        return self.lower_name("name", "short name of the type", RESERVED - TYPE_WORDS)

    def prefix(self):
        prefix = self.lower_name("prefix", "prefix of your project's symbols", RESERVED)
        builtin = os.path.dirname(os.path.realpath(self.path)) == BUILTIN_DIR
        if prefix in ("ferry", "ferryi") and not builtin:
            self.fail("prefix", f"is '{prefix}', which belongs to the library; expected a prefix of your own project")
        return prefix

    def lower_name(self, key, purpose, refused):
        what = f"the {purpose}: lower-case letters, digits and single '_', beginning with a letter, such as 'mylib'"
        value = self.text(key, what)
        if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", value):
            self.fail(key, f"is '{value}'; expected {what}")
        if value in refused:
            self.fail(key, f"'{value}' is a reserved word of C or C++; expected another name")
        return value

    def identifier(self, key, data=None, where=""):
        value = self.text(key, "a C identifier", data, where)
        self.check_identifier(where + key, value)
        return value

    def check_identifier(self, key, value):
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
            self.fail(key, f"is '{value}'; expected a C identifier")
        if value in RESERVED:
            self.fail(key, f"'{value}' is a reserved word of C or C++; expected another name")

    def c_type(self, kind):
        what = "a C type name of plain words, such as 'float' or 'struct mylib_vec3'"
        value = self.text("c_type", what)
        words = value.split(" ")
        if not all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", word) for word in words):
            self.fail("c_type", f"is '{value}'; expected {what}, without pointers, arrays or qualifiers")
        for word in words:
            if word in RESERVED - TYPE_WORDS:
                self.fail("c_type", f"is '{value}', and '{word}' is a reserved word of C or C++; expected {what}")
        if any(word not in TYPE_WORDS for word in words[:-1]):
            self.fail("c_type", f"is '{value}', more than one name; expected {what}")
        if value in HEADER_NAMES:
            self.fail("c_type", f"is '{value}', a name of a parameter in the generated header; expected another name for the typedef, or the tag "
                      "of its struct, such as 'struct NAME'")
        if words[-1] in ("struct", "union", "enum"):
            self.fail("c_type", f"is '{value}', without a tag; expected {what}")
        expected = C_SCALARS.get(value)
        if expected and expected[0] != kind:
            self.fail("kind", f"is '{kind}', but C type '{value}' is of kind '{expected[0]}'")
        return value

    def bits(self, kind, c_type):
        bits = self.value("bits", int, f"the width of one {kind} in bits")
        widths = KIND_BITS[kind]
        if bits not in widths:
            self.fail("bits", f"is {bits}; expected {' or '.join(map(str, widths))} for kind '{kind}'")
        if c_type in C_SCALARS and C_SCALARS[c_type][1] != bits:
            self.fail("bits", f"is {bits}, but C type '{c_type}' has {C_SCALARS[c_type][1]}")
        return bits

    def header(self):
        path = self.text("header", "the path by which the generated header is included")
        self.check_path("header", path)
        if path in SYSTEM_HEADERS:
            self.fail("header", f"is '{path}', a header of C, C++ or POSIX, which the generated one would hide; expected another name, or a "
                      f"path with a folder, such as '{self.data.get('prefix', 'mylib')}/{path}'")
        return path

    def check_path(self, key, path):
        if (not re.fullmatch(r"[A-Za-z0-9_+.][A-Za-z0-9_+./-]*", path) or path.endswith("/")
                or ".." in path.split("/")):
            self.fail(key, f"is '{path}'; expected a relative include path such as 'mylib/vec3.h'")

    def check_include(self, key, path):
        angled = path.startswith("<") and path.endswith(">")
        self.check_path(key, path[1:-1] if angled else path)

    def includes(self):
        if "include" not in self.data:
            return []
        paths = self.value("include", list, "a list of include paths")
        for index, path in enumerate(paths):
            if type(path) is not str:
                self.fail(f"include[{index}]", f"is {json.dumps(path)}; expected an include path")
            self.check_include(f"include[{index}]", path)
            if path in paths[:index]:
                self.fail(f"include[{index}]", f"'{path}' is listed twice")
        return paths

    def enumerators(self):
        """The values of enumerators of the headers, by their names."""
        found = self.value("enumerators", dict, "an object of names and numbers") if "enumerators" in self.data else {}
        for name in found:
            self.check_identifier(f"enumerators.{name}", name)
            self.integer(name, -2**31, 2**31 - 1, found, "enumerators.")
        if found and not self.data.get("include"):
            self.fail("enumerators", "stands without 'include'; expected the header that declares them")
        return found

    def given(self, key, low, high):
        """The number of a key that may be left out."""
        return self.integer(key, low, high) if key in self.data else None

    def align(self, size):
        align = self.given("align", 1, ALIGN_LIMIT)
        if align and align & (align - 1):
            self.fail("align", f"is {align}; expected a power of two")
        if align and size and size % align:
            self.fail("align", f"is {align}, which does not divide 'bytes' = {size}")
        return align

    def objects(self, key, what, data=None, where=""):
        entries = self.value(key, list, f"a list of {what}", data, where)
        for index, entry in enumerate(entries):
            if type(entry) is not dict:
                self.fail(f"{where}{key}[{index}]", f"is {json.dumps(entry)}; expected an object, one of the {what}")
        return entries

    def members(self, owner, size):
        entries = self.objects("fields", "fields")
        if not entries:
            self.fail("fields", "is empty; expected every field of the struct")
        members = []
        for index, entry in enumerate(entries):
            member = self.member(entry, f"fields[{index}].", owner, size)
            if any(member.name == other.name for other in members):
                self.fail(f"fields[{index}].name", f"'{member.name}' is listed twice")
            members.append(member)
        return members

    def member(self, entry, where, owner, size):
        self.keys(entry, where, FIELD_KEYS, ("name", "type"))
        name = self.text("name", "a member designator such as 'x' or 'inner.x'", entry, where)
        for part in name.split("."):
            self.check_identifier(where + "name", part)
        c_type = self.text("type", "a C type, or the name of another type file", entry, where)
        dimensions = self.dimensions(entry, where, size)
        scalar = owner.target.scalar(c_type)
        if scalar:
            member = Member(name, dimensions, scalar[1] // 8, owner.target.align_of(*scalar), cuda_scalar(c_type, owner.target))
            member.scalar = (*scalar, ENUM.fullmatch(c_type) is not None)
        else:
            member = self.nested(name, c_type, dimensions, where, owner)
        if "offset" in entry:
            member.offset = self.integer("offset", 0, size - 1, entry, where)
        elif not member.is_plain:
            self.fail(where + "offset", f"missing; '{name}' is inside another struct, so that the offset is required. "
                      "A field of that struct's own type file needs none")
        if member.bytes > size:
            self.fail(where + "count", f"makes {member.bytes} bytes of '{name}'; expected at most {size}")
        return member

    def dimensions(self, entry, where, size):
        """[] for a scalar, else the length of each dimension."""
        count = entry.get("count", [])
        if type(count) is int:
            self.integer("count", 1, size, entry, where)
            return [count]
        what = f"a whole number from 1 to {size}, or a list of them, one for each dimension"
        if type(count) is not list or "count" in entry and not count:
            self.fail(where + "count", f"is {json.dumps(count)}; expected {what}")
        for length in count:
            if type(length) is not int or not 1 <= length <= size:
                self.fail(where + "count", f"holds {json.dumps(length)}; expected {what}")
        return count

    def nested(self, name, c_type, dimensions, where, owner):
        """A member whose type another file describes."""
        element = self.other_type(c_type, owner)
        if element is None:
            self.fail(where + "type", f"is '{c_type}'; {nearest(c_type, owner.target.scalars)}expected one of "
                      f"{', '.join(owner.target.scalars)}, 'enum NAME', or the name of a built-in type or of a type file in the same folder")
        if os.path.realpath(element.path) in owner.outer:
            self.fail(where + "type", f"is '{c_type}', the struct that holds this field; expected another type")
        owner.read_files += [path for path in element.read_files if path not in owner.read_files]
        member = Member(name, dimensions, element.bytes, element.align, element.c_type)
        if element.is_struct:
            member.element = element
        else:
            member.scalar = (element.kind, element.bits, False)
            member.align = owner.target.align_of(element.kind, element.bits)
            member.cuda_type = CUDA_SCALARS.get((element.kind, element.bits), "")
        return member

    def other_type(self, name, owner):
        """The type of NAME.json in this file's folder, or of a path from there that ends in .json, or a built-in one; None where there is none."""
        if not re.fullmatch(r"[A-Za-z0-9_+./-]+", name):
            return None
        path = os.path.join(os.path.dirname(self.path), name if name.endswith(".json") else name + ".json")
        if not os.path.isfile(path) and name in builtin_names():
            path = os.path.join(BUILTIN_DIR, name + ".json")
        if not os.path.isfile(path):
            return None
        if os.path.realpath(path) in owner.outer:
            return owner
        return load(path, owner.target, owner.outer, shallow=True)

    def places(self, members, size):
        """Members lie inside the struct and not over each other."""
        for index, member in enumerate(members):
            where = f"fields[{index}].offset"
            if member.end > size:
                self.fail(where, f"'{member.name}' ends at byte {member.end}, past 'bytes' = {size}")
            for other in members[:index]:
                if member.offset < other.end and other.offset < member.end:
                    self.fail(where, f"'{member.name}' at bytes {member.offset}..{member.end - 1} "
                              f"overlaps '{other.name}' at bytes {other.offset}..{other.end - 1}")
        if size > STRUCT_BYTES:
            self.fail("bytes", f"is {size} by the fields; expected at most {STRUCT_BYTES}")

    def flat(self, members):
        count = sum(member.count * len(member.element.fields) if member.element else 1 for member in members)
        if count > FIELD_LIMIT:
            self.fail("fields", f"hold {count} scalars and arrays of scalars; expected at most {FIELD_LIMIT}")
        return sorted((field for member in members for field in member.fields()), key=lambda field: field.offset)

    def declaration(self, key, language, guard):
        """The declaration that the file gives; None where the fields are to say it."""
        if key not in self.data:
            return None
        text = self.text(key, f"the struct's definition in {language}")
        if any(c < " " and c not in "\n\t" or "\ud800" <= c <= "\udfff" for c in text):
            self.fail(key, "holds a control character or half a pair; expected text, line ends and tabs")
        return self.literal(key, guarded(text, guard), "")

    def literal(self, key, text, why):
        if len(text.encode()) > LITERAL_BYTES:
            self.fail(key, f"{why} has {len(text.encode())} bytes; expected at most {LITERAL_BYTES}".lstrip())
        return text

    def conversions(self, owner):
        if "conversions" not in self.data:
            return []
        found = []
        for index, entry in enumerate(self.objects("conversions", "conversions")):
            conversion = self.conversion(entry, f"conversions[{index}].", owner)
            if any(conversion.name == other.name for other in found):
                self.fail(f"conversions[{index}].{conversion.way}", f"'{conversion.other.name}' is listed twice")
            found.append(conversion)
        return found

    def conversion(self, entry, where, owner):
        way = "to" if "to" in entry else "from"
        self.keys(entry, where, CONVERSION_KEYS, (way, "function"))
        if "from" in entry and "to" in entry:
            self.fail(where + "to", "stands beside 'from'; expected one of the two")
        names = builtin_names()
        name = self.text(way, f"one of {', '.join(names)}, or the name of a type file", entry, where)
        other = load(os.path.join(BUILTIN_DIR, name + ".json")) if name in names else self.other_type(name, owner)
        if other is None:
            self.fail(where + way, f"is '{name}'; {nearest(name, names)}expected a built-in type, one of {', '.join(names)}, "
                      "or the name of a type file in the same folder")
        if other is owner:
            self.fail(where + way, f"is '{name}', the type itself; expected another type")
        function = self.identifier("function", entry, where)
        include = ""
        if "include" in entry:
            include = self.text("include", "the header that declares the function", entry, where)
            self.check_include(where + "include", include)
        owner.read_files += [path for path in other.read_files if path not in owner.read_files]
        source, target = (other, owner) if way == "from" else (owner, other)
        return Conversion(source, target, way, other, function, include)


def cuda_scalar(c_type, target):
    """The same name where CUDA has it with the same width, so that pointers to the field fit the functions that take them."""
    if target is DEFAULT_TARGET and c_type in ("char", "long", "unsigned long", "size_t"):
        return c_type
    return CUDA_SCALARS[target.scalar(c_type)]


def builtin_names():
    return sorted(entry[:-5] for entry in os.listdir(BUILTIN_DIR) if entry.endswith(".json"))


def refuse_duplicates(path):
    def build(pairs):
        data = {}
        for key, value in pairs:
            if key in data:
                raise TypeFileError(path, key, "appears twice in one object; expected each key once")
            data[key] = value
        return data
    return build


def refuse_constant(path):
    def refuse(text):
        raise TypeFileError(path, "", f"not JSON: '{text}' is not a JSON number")
    return refuse


def read_object(path, what):
    """The JSON object of one file; raises TypeFileError."""
    try:
        with open(path, encoding="utf-8") as file:
            data = json.load(file, object_pairs_hook=refuse_duplicates(path), parse_constant=refuse_constant(path))
    except OSError as error:
        raise TypeFileError(path, "", f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise TypeFileError(path, "", "is not UTF-8 text; expected a JSON file") from None
    except json.JSONDecodeError as error:
        raise TypeFileError(path, f"line {error.lineno} column {error.colno}", f"not JSON: {error.msg}") from None
    except ValueError:
        raise TypeFileError(path, "", "not JSON: holds a number with too many digits") from None
    except RecursionError:
        raise TypeFileError(path, "", f"is nested too deeply; expected one object, {what}") from None
    if type(data) is not dict:
        raise TypeFileError(path, "", f"holds no object; expected one JSON object, {what}")
    return data


def load(path, target=DEFAULT_TARGET, outer=(), shallow=False):
    """The checked ElementType of one file; raises TypeFileError."""
    return ElementType(path, read_object(path, "the description of a type"), target, outer, shallow)


def is_kernels(data):
    """A file of kernels, also one that misspells the key; not a type file."""
    return "kernels" in data or not data.keys() & {"kind", "c_type"} and nearest("kernels", data) != ""
