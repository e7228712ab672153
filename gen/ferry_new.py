# SPDX-License-Identifier: MIT
"""A type file from a C declaration, with the layout that the compiler itself computes (libclang's Python package)."""

import glob
import json
import os
import re
import shlex
import subprocess

from ferry_layout import DEFAULT_TARGET
from ferry_types import FORMAT_VERSION, ElementType, GeneratorError, load


class NewError(GeneratorError):
    """Why no type file is written: `header: declaration: what was wrong and what was expected`."""


# What clang calls a scalar after typedefs, for names that the generator does not know.
CANONICAL = {
    "FLOAT": "float", "DOUBLE": "double", "BOOL": "bool", "CHAR_S": "char", "CHAR_U": "char", "SCHAR": "signed char",
    "UCHAR": "unsigned char", "SHORT": "short", "USHORT": "unsigned short", "INT": "int", "UINT": "unsigned int", "LONG": "long",
    "ULONG": "unsigned long", "LONGLONG": "long long", "ULONGLONG": "unsigned long long", "HALF": "_Float16", "FLOAT16": "_Float16",
}


def import_clang():
    try:
        from clang import cindex
        return cindex, cindex.Index.create()
    except ImportError:
        raise NewError("ferry-gen new: needs libclang's Python package; install it with 'pip install libclang' or Debian's "
                       "python3-clang, for the Python that runs ferry-gen") from None
    except Exception as error:  # cindex.LibclangError, which names what it looked for
        raise NewError(f"ferry-gen new: libclang does not load: {error}") from None


def compiler_folder():
    """The folder of <stddef.h>, which libclang's package lacks."""
    try:
        command = [*shlex.split(os.environ.get("CC", "cc")), "-print-file-name=include"]
        folder = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError, ValueError):
        return []
    return ["-isystem", folder] if os.path.isdir(folder) else []


class Declaration:
    """One struct as clang sees it."""

    def __init__(self, header, name, arguments):
        self.header = header
        self.name = name
        self.cindex, index = import_clang()
        try:
            self.unit = index.parse(header, args=["-x", "c", "-std=gnu11", *arguments, *compiler_folder()])
        except self.cindex.TranslationUnitLoadError:
            raise NewError(f"{header}: cannot be read") from None
        for found in self.unit.diagnostics:
            if found.severity >= self.cindex.Diagnostic.Error:
                where = f"{found.location.file}:{found.location.line}: " if found.location.file else ""
                raise NewError(f"{header}: does not compile: {where}{found.spelling}")
        self.type = self._find()

    def fail(self, where, message):
        raise NewError(f"{self.header}: {where}: {message}")

    def _find(self):
        kinds = self.cindex.CursorKind
        words = self.name.split(" ")
        wanted = {"struct": (kinds.STRUCT_DECL,), "union": (kinds.UNION_DECL,)}.get(words[0], (kinds.TYPEDEF_DECL,))
        names = []
        for cursor in self.unit.cursor.get_children():
            is_struct = cursor.type.get_canonical().kind == self.cindex.TypeKind.RECORD
            if cursor.kind in wanted and cursor.spelling == words[-1] and is_struct:
                if cursor.type.get_canonical().get_size() < 0:
                    continue  # declared, and defined later
                return cursor.type
            if is_struct and cursor.kind in (kinds.STRUCT_DECL, kinds.TYPEDEF_DECL) and cursor.spelling:
                name = f"struct {cursor.spelling}" if cursor.kind == kinds.STRUCT_DECL else cursor.spelling
                names.append((self._distance(cursor), name))
        names = list(dict.fromkeys(name for _, name in sorted(names, key=lambda pair: pair[0])))[:3]
        self.fail(self.name, f"is not defined; expected the name of a struct, such as {' or '.join(map(repr, names)) or repr('struct name')}")
        return None

    def _distance(self, cursor):
        """0 for a declaration of the header itself, 1 for one of a header that it includes, 2 for one of a system header."""
        if cursor.location.file and os.path.realpath(cursor.location.file.name) == os.path.realpath(self.header):
            return 0
        # Old versions of the package have no method for this function of libclang.
        return 2 if self.cindex.conf.lib.clang_Location_isInSystemHeader(cursor.location) else 1

    @property
    def bytes(self):
        return self.type.get_size()

    @property
    def align(self):
        return self.type.get_align()

    def enumerators(self):
        """The enumerators that the header itself declares."""
        kinds, found = self.cindex.CursorKind, {}
        for cursor in self.unit.cursor.get_children():
            if cursor.kind == kinds.ENUM_DECL and self._distance(cursor) == 0:
                found |= {one.spelling: one.enum_value for one in cursor.get_children() if one.kind == kinds.ENUM_CONSTANT_DECL}
        return {name: value for name, value in found.items() if -2**31 <= value < 2**31}

    def fields(self, known):
        found = [self._field(cursor, known) for cursor in self.type.get_canonical().get_fields()]
        if not found:
            self.fail(self.name, "has no fields; expected a struct with at least one")
        return found

    def _field(self, cursor, known):
        has_name = re.fullmatch(r"\w+", cursor.spelling)
        where = f"{self.name}.{cursor.spelling if has_name else '(anonymous)'}"
        if cursor.is_bitfield():
            self.fail(where, "is a bit-field, which has no address; expected a member of a scalar or struct type")
        if not has_name or cursor.type.get_declaration().is_anonymous():
            self.fail(where, "is of a struct or union without a name; expected one with a name and a type file")
        one, dimensions = cursor.type, []
        while one.get_canonical().kind == self.cindex.TypeKind.CONSTANTARRAY:
            array = one if one.kind == self.cindex.TypeKind.CONSTANTARRAY else one.get_canonical()
            dimensions.append(array.element_count)
            one = array.element_type
        field = {"name": cursor.spelling, "type": self._type(where, one, known), "offset": cursor.get_field_offsetof() // 8}
        if dimensions:
            field["count"] = dimensions[0] if len(dimensions) == 1 else dimensions
        return field

    def _type(self, where, one, known):
        kinds = self.cindex.TypeKind
        names = [re.sub(r"\b(const|volatile) ", "", name) for name in self._spellings(one)]
        for name in names:
            if DEFAULT_TARGET.scalar(name) and not name.startswith("enum"):
                return name
            if name in known:
                return known[name]
        canonical = one.get_canonical()
        if canonical.kind == kinds.ENUM:
            if canonical.get_size() != 4:
                self.fail(where, f"is an enumeration of {canonical.get_size()} bytes; expected one of 4")
            return names[0] if names[0].startswith("enum ") else "enum"
        if canonical.kind == kinds.COMPLEX and canonical.get_size() in (8, 16):
            return "float _Complex" if canonical.get_size() == 8 else "double _Complex"
        if canonical.kind == kinds.RECORD:
            self.fail(where, f"is of {names[0]}, which no type file in the folder of the output describes; expected one, "
                      f"which 'ferry-gen new {self.header} {names[0]} -o NAME.json' writes")
        name = CANONICAL.get(canonical.kind.name)
        if name is None:
            self.fail(where, f"is of type '{names[0]}'; expected a scalar of C, an array, or a struct that a type file describes")
        return name

    def _spellings(self, one):
        """The type's name, and what each typedef stands for in turn."""
        while True:
            yield one.spelling
            declaration = one.get_declaration()
            if one.kind not in (self.cindex.TypeKind.TYPEDEF, self.cindex.TypeKind.ELABORATED) or not declaration.spelling:
                return
            following = declaration.underlying_typedef_type if declaration.kind == self.cindex.CursorKind.TYPEDEF_DECL else one.get_canonical()
            if following.spelling == one.spelling:
                return
            one = following


def known_types(folder, own):
    """C type and short name of each type file in a folder."""
    found = {}
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.json"))):
        if os.path.realpath(path) == os.path.realpath(own or ""):
            continue
        try:
            element = load(path, shallow=True)
        except GeneratorError:
            continue  # another project's JSON
        found[element.c_type] = os.path.basename(path)[:-5]
    return found


def c_name(text):
    words = re.findall(r"[a-z0-9]+", re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower())
    return "_".join(words).lstrip("0123456789_") or "one"


def names_of(declared, prefix, name):
    """Prefix and short name: those asked for, else mylib and vec3 of `struct mylib_vec3`."""
    words = c_name(declared.split(" ")[-1]).split("_")
    if words[-1] == "t" and len(words) > 1:
        words.pop()
    if prefix is None:
        prefix = words.pop(0) if len(words) > 1 else "my"
    elif words[:1] == [prefix] and len(words) > 1:
        words.pop(0)
    return prefix, name or "_".join(words)


def new_text(options):
    """The text of the type file."""
    declaration = Declaration(options.source, " ".join(options.declaration), options.arguments)
    known = known_types(os.path.dirname(options.output) if options.output else ".", options.output)
    fields = declaration.fields(known)
    prefix, name = names_of(declaration.name, options.prefix, options.name)
    lines = ["{", f'    "ferry": {FORMAT_VERSION},']
    for key, value in (("prefix", prefix), ("name", name), ("c_type", declaration.name),
                       ("header", options.header or f"{name}_buffer.h"), ("include", [options.include or os.path.basename(options.source)]),
                       ("kind", "struct"), ("bytes", declaration.bytes), ("align", declaration.align)):
        lines.append(f'    "{key}": {json.dumps(value)},')
    lines.append('    "fields": [')
    lines += [f"        {json.dumps(field)}{',' if field is not fields[-1] else ''}" for field in fields]
    enumerators = declaration.enumerators()
    lines.append("    ]," if enumerators else "    ]")
    if enumerators:
        lines.append(f'    "enumerators": {json.dumps(enumerators)}')
    text = "\n".join([*lines, "}", ""])
    ElementType(options.output or f"{name}.json", json.loads(text))  # which says what no type file can describe
    return text
