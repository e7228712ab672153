# SPDX-License-Identifier: MIT
"""ferry-gen: writes headers of inline functions from JSON, the typed C API of an element type and kernels, and Fortran modules."""

import argparse
import os
import sys
import tempfile

from ferry_layout import DEFAULT_TARGET, TARGETS
from ferry_names import SYSTEM_HEADERS
from ferry_types import FORMAT_VERSION, GEN_ABI, ElementType, GeneratorError, is_kernels, load, read_object

HERE = os.path.dirname(os.path.realpath(__file__))

# command: (template, takes several type files, what it writes)
OUTPUTS = {
    "header": ("typed.h.j2", False, "the header of one type"),
    "kernels": ("kernels.h.j2", False, "the header of the kernels of one file"),
    "convert": ("convert.h.j2", True, "the header of conversions between the first type and each of the others"),
    "fortran": ("fortran.f90.j2", False, "the Fortran module of one type's buffers, or of the kernels of one file"),
    "convert-pairs": ("convert_pairs.h.j2", True, "the list of pairs of which the library makes its loops"),
}


def version_text(version):
    return f"ferry-gen {version or '(from a source tree)'}, type files of version {FORMAT_VERSION}, generated code of version {GEN_ABI}"


def make_parser(version):
    parser = argparse.ArgumentParser(prog="ferry-gen", description=__doc__.split(": ", 1)[1])
    parser.add_argument("--version", action="version", version=version_text(version),
                        help="print the version of Ferry, of type files and of generated code")
    parser.add_argument("--templates", metavar="DIR", help="folder of the templates (default: FERRY_TEMPLATES, "
                        "else the one beside this program)")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    check = commands.add_parser("check", help="only check type files and files of kernels")
    check.add_argument("types", metavar="FILE.json", nargs="+")
    add_typedef(check)
    check.add_argument("--device", action="store_true", help="also compile the texts for devices with each compiler that is installed: NVRTC, "
                       "hiprtc, and clang for OpenCL C. No GPU is needed. The exit status is 77 if none of them is installed")
    check.add_argument("--device-target", dest="device_targets", metavar="TARGET", action="append", default=[], type=device_target,
                       help="compile them for this target alone, such as sm_90, gfx942 or CL3.0; may be repeated "
                       "(default: compute_75, gfx90a and CL1.2)")
    new = commands.add_parser("new", help="write a type file from a C declaration, with the compiler's own layout")
    new.add_argument("source", metavar="HEADER.h", help="the header that declares it")
    new.add_argument("declaration", metavar="TYPE", nargs="+", help="'struct NAME', or a typedef's name")
    new.add_argument("-o", dest="output", metavar="TYPE.json", help="file to write (default: the standard output)")
    new.add_argument("--prefix", help="prefix of the functions (default: the first word of the type's name)")
    new.add_argument("--name", help="short name of the type (default: the other words)")
    new.add_argument("--header", metavar="PATH", help="path of the header to be generated (default: NAME_buffer.h)")
    new.add_argument("--include", metavar="PATH", help="path by which HEADER.h is included (default: its name)")
    new.add_argument("--cc-arg", dest="arguments", metavar="ARG", action="append", default=[], help="an argument for the compiler, such as --cc-arg=-Iinclude")
    embed = commands.add_parser("embed", help="write a header that holds the source of a kernel as a string")
    embed.add_argument("source", metavar="KERNEL.cu", help="CUDA C++, HIP C++ or OpenCL C")
    embed.add_argument("-o", dest="output", metavar="OUT.h", required=True, help="file to write")
    embed.add_argument("--name", help="name of the array (default: KERNEL_cu)")
    embed.add_argument("--depfile", metavar="D", help="also write the files it depends on, as a make rule")
    for name, (_, several, written) in OUTPUTS.items():
        command = commands.add_parser(name, help=f"write {written}")
        command.add_argument("types", metavar={"kernels": "KERNELS.json", "fortran": "FILE.json"}.get(name, "TYPE.json"), nargs="+" if several else 1)
        command.add_argument("-o", dest="output", metavar="OUT", required=True, help="file to write")
        if name in ("kernels", "fortran"):
            add_typedef(command)
        if name == "fortran":
            command.add_argument("--c", dest="c_output", metavar="OUT.c", help="of kernels: also write the C file that the module calls")
        command.add_argument("--depfile", metavar="D", help="also write the files it depends on, as a make rule")
    # argparse would keep an option after the command apart from one before it.
    for name, command in commands.choices.items():
        command.add_argument("--templates", metavar="DIR", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
        if name in ("new", "embed"):
            continue  # the compiler's own, or none
        command.add_argument("--target", choices=TARGETS, default=DEFAULT_TARGET.name,
                             help="the data model by which layouts that a file leaves out are computed (default: %(default)s)")
    return parser


def add_typedef(command):
    command.add_argument("--typedef", dest="typedefs", metavar="NAME=TYPE", action="append", default=[], type=typedef,
                         help="another type for a name of 'typedefs' in a file of kernels, such as --typedef real=float")


def typedef(text):
    """(name, type) of an argument."""
    name, equals, c_type = text.partition("=")
    if not (name and equals and c_type):
        raise argparse.ArgumentTypeError(f"'{text}' is not NAME=TYPE")
    return name, c_type


def device_target(text):
    from ferry_device import language_of
    if not language_of(text):
        raise argparse.ArgumentTypeError(f"'{text}' is no target; expected one such as sm_90, gfx942 or CL3.0")
    return text


def parse(arguments, version):
    return make_parser(version).parse_args(arguments)


def template_folder(asked, program):
    """The first of: the option, the environment, beside an installed program, beside the sources."""
    if asked or os.environ.get("FERRY_TEMPLATES"):
        return asked or os.environ["FERRY_TEMPLATES"]
    beside_program = os.path.join(os.path.dirname(os.path.realpath(program)), "..", "share", "ferry", "templates")
    if os.path.isdir(beside_program):
        return os.path.normpath(beside_program)
    return os.path.normpath(os.path.join(HERE, "..", "templates"))


def render(command, types, renderer):
    template, several, _ = OUTPUTS[command]
    if command == "kernels":
        return renderer.render(template, k=types[0])
    if command == "fortran":
        from ferry_fortran import FortranElement, wrapped
        if not isinstance(types[0], ElementType):
            from ferry_fortran_kernels import FortranKernels
            return wrapped(renderer.render("fortran_kernels.f90.j2", f=FortranKernels(types[0])))
        return wrapped(renderer.render(template, f=FortranElement(types[0])))
    if not several:
        return renderer.render(template, t=types[0])
    from ferry_pairs import ConversionSet, KernelSet
    if command == "convert-pairs":
        return renderer.render(template, k=KernelSet(types))
    return renderer.render(template, c=ConversionSet(types))


def render_c(options, described, renderer):
    """The C file that the Fortran module of a file of kernels calls."""
    if isinstance(described, ElementType):
        raise OutputError(f"ferry-gen: {options.c_output}: the module of a type calls no C file; expected --c with a file of kernels alone")
    from ferry_fortran_kernels import FortranKernels
    return renderer.render("fortran_kernels.c.j2", f=FortranKernels(described))


def own_modules():
    modules = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return sorted(path for path in modules if path and os.path.dirname(os.path.realpath(path)) == HERE)


def unique_paths(paths):
    return list({os.path.realpath(path): path for path in reversed(paths)}.values())[::-1]


def make_escape(path):
    return path.replace("\\", "\\\\").replace("$", "$$").replace("#", "\\#").replace(" ", "\\ ")


def depfile_text(output, paths):
    return f"{make_escape(output)}: " + " \\\n  ".join(map(make_escape, paths)) + "\n"


class OutputError(GeneratorError):
    """An output file cannot be written."""


def write(path, text):
    """Writes all of the file or none of it. Errors name the file that was asked for, not the temporary one beside it."""
    folder = os.path.dirname(path) or "."
    if not os.path.isdir(folder):
        raise OutputError(f"ferry-gen: {path}: cannot be written: there is no folder {folder}")
    try:
        replace(path, folder, text)
    except OSError as error:
        raise OutputError(f"ferry-gen: {path}: cannot be written: {error.strerror}") from None


def replace(path, folder, text):
    handle, temporary = tempfile.mkstemp(prefix=".ferry-gen-", dir=folder)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def refuse_system_header(output, described):
    """A header that is included by its name alone must not hide one of the system in the folder of the output."""
    name = os.path.basename(output)
    if name in SYSTEM_HEADERS and "/" not in described.header:
        raise OutputError(f"ferry-gen: {output}: would hide <{name}>, a header of C, C++ or POSIX, because 'header' in {described.source} is "
                          f"'{described.header}', without a folder; expected another name")


class DeviceError(GeneratorError):
    """Texts for devices do not compile, or could not be compiled."""


def check_texts(types, targets):
    """Compiles the texts for devices."""
    from ferry_device import NO_COMPILER, check_devices
    problems, compiled = check_devices(types, targets)
    sys.stdout.flush()
    if problems:
        raise DeviceError("\n".join(problems))
    if not compiled:
        error = DeviceError("ferry-gen: no text was compiled, because no compiler for it is installed; install NVRTC (pip install nvidia-cuda-nvrtc), "
                            "hiprtc or clang")
        error.status = NO_COMPILER
        raise error


def write_new(options):
    from ferry_new import new_text
    text = new_text(options)
    if options.output:
        write(options.output, text)
    else:
        sys.stdout.write(text)


def write_embedded(options):
    from ferry_embed import embedded
    text = embedded(options.source, options.name)
    if options.depfile:
        write(options.depfile, depfile_text(options.output, unique_paths([options.source, *own_modules()])))
    write(options.output, text)


def read_type(path, options):
    return load(path, TARGETS[options.target])


def read_kernels(path, options):
    from ferry_kernels import KernelFile
    return KernelFile(path, read_object(path, "a list of kernels"), TARGETS[options.target], dict(options.typedefs))


def read_any(path, options):
    data = read_object(path, "the description of a type, or a list of kernels")
    if is_kernels(data):
        from ferry_kernels import KernelFile
        return KernelFile(path, data, TARGETS[options.target], dict(options.typedefs))
    return ElementType(path, data, TARGETS[options.target])


def run(options, program):
    if options.command == "new":
        write_new(options)
        return
    if options.command == "embed":
        write_embedded(options)
        return
    read = {"kernels": read_kernels, "check": read_any, "fortran": read_any}.get(options.command, read_type)
    types = [read(path, options) for path in options.types]
    if options.command == "check":
        for one in types:
            for key, note in getattr(one, "notes", ()):
                print(f"{one.path}: {key}: {note}")
        if options.device or options.device_targets:
            check_texts(types, options.device_targets)
        return
    refuse_system_header(options.output, types[0])
    from ferry_render import Renderer
    renderer = Renderer(template_folder(options.templates, program))
    text = render(options.command, types, renderer)
    if getattr(options, "c_output", None):
        write(options.c_output, render_c(options, types[0], renderer))
    if options.depfile:
        read_files = [path for element in types for path in element.read_files]
        paths = unique_paths(read_files + renderer.read_files + own_modules())
        write(options.depfile, depfile_text(options.output, paths))
    write(options.output, text)


def main(arguments=None, program=None, version=None):
    options = parse(arguments, version)
    try:
        run(options, program or sys.argv[0])
    except GeneratorError as error:
        print(error, file=sys.stderr)
        return error.status
    return 0


if __name__ == "__main__":
    sys.exit(main())
