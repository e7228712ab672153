# SPDX-License-Identifier: MIT
"""What fortran_kernels.f90.j2 and fortran_kernels.c.j2 print of a file of kernels: its typed launches."""

import textwrap

from ferry_fortran import NAME_LENGTH, FortranElement
from ferry_types import TypeFileError, unique

BOUND = ("create", "destroy")  # procedures of the type, beside those of kernels
DOCUMENT_WIDTH = 96


class Argument:
    """One argument of a launch. `fortran` declares it, and `passed` is what the C function gets of it."""

    def __init__(self, name, fortran, passed, interface, c_declared, c_given):
        self.name = name
        self.fortran = fortran
        self.passed = passed
        self.interface = interface  # its declaration in the interface of the C function
        self.c_declared = c_declared
        self.c_given = c_given


def of_parameter(parameter, element):
    name = parameter.name
    if parameter.is_buffer:
        return Argument(name, f"class({element.buffer}), intent(in) :: {name}", f"{name}%raw()", f"type(c_ptr), value :: {name}", f"ferry_buffer *{name}",
                        f"{name}_")
    declared = f"{element.type}, intent(in) :: {name}"
    return Argument(name, declared, name, declared, f"const {parameter.element.c_type} *{name}", f"*{name}")


def of_size(name):
    return Argument(name, f"integer(c_size_t), intent(in) :: {name}", name, f"integer(c_size_t), value :: {name}", f"size_t {name}", name)


def of_box():
    return Argument("box", "type(ferry_box), intent(in), optional :: box", "box_at_", "type(c_ptr), value :: box", "const ferry_box *box", "box")


def of_out(name, element, c_element):
    declared = f"{element.type}, intent(out) :: {name}"
    return Argument(name, declared, name, declared, f"{c_element.c_type} *{name}", name)


class Handle:
    """A buffer of a launch, as the C function makes it of its untyped one."""

    def __init__(self, name, c_type):
        self.name = name
        self.c_type = c_type


class Launch:
    """One typed launch. Attributes are what the templates print."""

    def __init__(self, kernel, name, arguments, handles, document):
        self.bound = name
        self.sym = f"{kernel.owner.prefix}_{name}"
        self.arguments = arguments  # in the order of the C function, after the kernels
        self.handles = handles
        self.document = textwrap.wrap(document, DOCUMENT_WIDTH)
        self.has_box = any(one.name == "box" for one in arguments)
        self.status = "status_" if any(one.name.lower() == "status" for one in arguments) else "status"
        names = [one.name for one in arguments if one.name != "box"]
        self.dummies = ", ".join(["self_", *names, *(["box"] if self.has_box else []), self.status])


class Results:
    """The derived type of the results of a kernel."""

    def __init__(self, kernel, elements):
        self.name = f"{kernel.sym}_results"
        self.components = [f"{elements(one.element).type} :: {one.name}" for one in kernel.results]


class FortranKernels:
    """A file of kernels as Fortran sees it."""

    def __init__(self, file):
        self.file = file
        self.found = {}
        self.module = f"{file.sym}_launches"
        self.type_name = file.sym
        self.handle_count = 1 + sum(2 if kernel.result else 1 for kernel in file.kernels)
        self.check_name("name", self.module)
        self.results = [Results(kernel, self.element) for kernel in file.kernels if kernel.results]
        self.launches = [launch for kernel in file.kernels for launch in self.launches_of(kernel)]
        for one in self.launches:
            self.check_launch(one)
        for one in self.results:
            self.check_name("kernels", one.name)
        self.uses = sorted(f"{one.module}, only: {one.buffer}" + (f", {one.type_name}" if one.type_name else "") for one in self.found.values())
        self.result_names = ", ".join(unique([one.name for one in self.results]))

    def element(self, element):
        if element.sym not in self.found:
            self.found[element.sym] = FortranElement(element)
        return self.found[element.sym]

    def check_name(self, key, name):
        if len(name) > NAME_LENGTH:
            raise TypeFileError(self.file.path, key, f"makes the Fortran name '{name}' of {len(name)} characters; expected at most {NAME_LENGTH}")

    def check_launch(self, launch):
        """Fortran knows no case, and keeps names for kinds."""
        self.check_name("kernels", f"c_{launch.bound}_")
        if launch.bound in BOUND:
            raise TypeFileError(self.file.path, "kernels", f"has the kernel '{launch.bound}', a procedure of each Fortran type of kernels; expected another name")
        names = [one.name.lower() for one in launch.arguments]
        for name in names:
            self.check_name("kernels", name)
            if names.count(name) > 1 or name.startswith("c_"):
                raise TypeFileError(self.file.path, "kernels", f"has the kernel '{launch.bound}' with a parameter '{name}'; Fortran knows no case, and "
                                    "uses names that begin with 'c_'; expected another name")

    def launches_of(self, kernel):
        sizes = [of_size(name) for name in kernel.box.names] + [of_box()] if kernel.box else [of_size("count")] if kernel.has_count else []
        stream = Argument("stream", "class(ferry_stream), intent(in) :: stream", "stream%raw()", "type(c_ptr), value :: stream", "ferry_stream *stream", "stream")
        given = [*sizes, stream, *(of_parameter(one, self.element(one.element)) for one in kernel.parameters)]
        handles = [Handle(one.name, one.element.handle) for one in kernel.parameters if one.is_buffer]
        document = kernel.comment + " " if kernel.comment else ""
        if kernel.form in ("map", "stencil"):
            yield Launch(kernel, kernel.name, given, handles, f"{document}Queues {kernel.name} on the stream.")
            return
        out = [of_result_buffer("out", kernel.result, self)] if kernel.result else [of_result_buffer(one.name, one.element, self) for one in kernel.results]
        into = [Handle("out", kernel.result.handle)] if kernel.result else [Handle(one.name, one.element.handle) for one in kernel.results]
        what = f"the {kernel.reduction}" if kernel.result else "each result"
        yield Launch(kernel, f"{kernel.name}_into", given + out, handles + into,
                     f"{document}Queues {kernel.name} on the stream, which writes {what} to the first element of its buffer.")
        if kernel.result:
            last = of_out("out", self.element(kernel.result), kernel.result)
        else:
            declared = f"type({kernel.sym}_results), intent(out) :: out"
            last = Argument("out", declared, "out", declared, f"{kernel.sym}_results *out", "out")
        yield Launch(kernel, kernel.name, [*given, last], handles, f"{document}Computes {what}, and blocks until that is done.")


def of_result_buffer(name, element, owner):
    fortran = owner.element(element)
    return Argument(name, f"class({fortran.buffer}), intent(in) :: {name}", f"{name}%raw()", f"type(c_ptr), value :: {name}", f"ferry_buffer *{name}", f"{name}_")
