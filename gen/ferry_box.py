# SPDX-License-Identifier: MIT
"""The cells of a kernel of two or three dimensions: what its launch takes, and how each text finds them and their neighbours."""

# What a stencil reads beyond the array, by the constant of <ferry/generated.h>.
EDGES = {"nearest": "FERRY_EDGES_NEAREST", "none": "FERRY_EDGES_NONE", "wrap": "FERRY_EDGES_WRAP"}

# The body of the function that finds the index of a neighbour, in every language.
NEIGHBOURS = {
    "nearest": ["if (step_ < 0)", "    return at_ < (size_t)-step_ ? 0 : at_ - (size_t)-step_;",
                "return at_ + (size_t)step_ < end_ ? at_ + (size_t)step_ : end_ - 1;"],
    "wrap": ["const size_t by_ = (size_t)(step_ < 0 ? -step_ : step_) % end_;", "if (step_ < 0)",
             "    return at_ < by_ ? at_ + (end_ - by_) : at_ - by_;", "return at_ < end_ - by_ ? at_ + by_ : at_ - (end_ - by_);"],
    "none": ["(void)end_;", "return at_ + (size_t)step_;"],
}


class Box:
    """`names` are the sizes, such as rows and columns. Attributes are what templates print."""

    def __init__(self, names, radius, edges):
        self.names = names
        self.radius = radius
        self.edges = edges
        self.constant = EDGES[edges] if radius else "FERRY_EDGES_NONE"
        self.indices = [name[:-1] for name in names]
        self.extents = [f"{words}_" for index in self.indices for words in (f"first_{index}", f"{index}_count")]
        self.sizes = [*names, *self.extents]
        self.unused = [*names, f"{self.indices[0]}_count_"]  # in some host functions
        self.declared = "".join(f"size_t {name}, " for name in names) + "const ferry_box *box, "
        self.given = "".join(f"{name}, " for name in names) + "box, "
        first = 3 - len(names)
        self.values = [*names, *(f"cells_.box.{what}[{at}]" for at in range(first, 3) for what in ("first", "count"))]
        self.all_sizes = ", ".join(["1"] * first + [*names])
        self.reach = ", ".join(["0"] * first + [str(radius)] * len(names))
        self.cells = " * ".join(f"{index}_count_" for index in self.indices)
        self.lines = " * ".join(f"{index}_count_" for index in self.indices[:-1])
        self.begin = self.element([f"first_{index}_" for index in self.indices])
        self.read_begin = self.element([self._read_first(index, name) for index, name in zip(self.indices[:-1], names)] + ["0"]).removesuffix(" + 0") if radius else ""
        self.line_begin = self.element([*self.indices[:-1], "0"]).removesuffix(" + 0")
        self.width = 2 * radius + 1

    def element(self, at):
        """The number of an element by its indices."""
        found = at[0]
        for name, index in zip(self.names[1:], at[1:]):
            found = f"({found}) * {name} + {index}" if " " in found else f"{found} * {name} + {index}"
        return found

    def _read_first(self, index, name):
        """The first index that is read, as ferry_kernel_cells() finds it."""
        below = f"first_{index}_ - {self.radius}"
        if self.edges == "none":
            return below
        at_end = f" || {name} - first_{index}_ - {index}_count_ < {self.radius}" if self.edges == "wrap" else ""
        return f"(first_{index}_ < {self.radius}{at_end} ? 0 : {below})"

    # -- the host --

    @property
    def steps(self):
        """The parameters of a macro that reads a neighbour."""
        return ", ".join(f"{index}_step_" for index in self.indices)

    @property
    def line_number(self):
        """The number of a neighbour's line in the array of lines."""
        found = f"({self.indices[0]}_step_) + {self.radius}"
        for index in self.indices[1:-1]:
            found = f"({found}) * {self.width} + ({index}_step_) + {self.radius}"
        return found

    def line(self, steps, sym):
        """(its number, where it begins) of the line of the neighbours at these steps."""
        number = 0
        for step in steps:
            number = number * self.width + step + self.radius
        at = [self._neighbour(index, step, name, sym) for index, step, name in zip(self.indices, steps, self.names)]
        return number, self.element([*at, "0"]).removesuffix(" + 0")

    def _neighbour(self, index, step, name, sym):
        if step == 0:
            return index
        if self.edges == "none":
            return f"({index} {'-' if step < 0 else '+'} {abs(step)})"
        return f"{sym}_{self.edges.capitalize()}_({index}, {step}, {name})"

    # -- devices --

    def device_begin(self):
        """What stands before the loop over the cells."""
        text = f"    const size_t cells_ = {self.cells}, box_begin_ = {self.begin};\n"
        if self.radius:
            text += f"    const size_t read_begin_ = {self.read_begin};\n    (void)read_begin_;\n"
        return text

    def device_cell(self):
        """What finds the cell with the number k_."""
        last, rest, divisor = self.indices[-1], [], "column_count_"
        for at, index in enumerate(reversed(self.indices[:-1])):
            is_first = at == len(self.indices) - 2
            rest.insert(0, f"{index} = first_{index}_ + k_ / ({divisor})" + ("" if is_first else f" % {index}_count_"))
            divisor += f" * {index}_count_"
        names = [*self.indices, "i", "at_"]
        return (f"        const size_t {', '.join(rest)}, {last} = first_{last}_ + k_ % {last}_count_;\n"
                f"        const size_t i = {self.element(self.indices)}, at_ = i - box_begin_;\n"
                f"        {' '.join(f'(void){name};' for name in names)}\n")

    def device_neighbours(self, dialect, reads):
        """The function that finds the index of a neighbour, and a macro for each array of which neighbours are read."""
        body = "".join(f"    {line}\n" for line in NEIGHBOURS[self.edges])
        at = self.element([f"near_({index}, {index}_step_, {name})" for index, name in zip(self.indices, self.names)])
        macros = "".join(f"#define {one.name}({self.steps}) {one.name}[{at} - read_begin_]\n" for one in reads)
        return f"{dialect.function} size_t near_(size_t at_, int step_, size_t end_)\n{{\n{body}}}\n{macros}"
