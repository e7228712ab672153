# SPDX-License-Identifier: MIT
"""What random tests of the package draw: structured dtypes of every layout."""

NUMBERS = ["?", "i1", "u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8", "<c8", "<c16", "S3", "V5"]
REFUSED = ["<M8[s]", "<m8[ms]", ">i4", "U2", "O", "<f16"]


def drawn_dtype(numpy, choose, depth=0):
    """A random dtype with fields, and whether Ferry must take it."""
    good, names, formats = True, [], []
    for index in range(choose.randint(1, 5)):
        kind = choose.random()
        if kind < 0.2 and depth < 3:
            inner, taken = drawn_dtype(numpy, choose, depth + 1)
            many = choose.random() < 0.15
            formats.append((inner, 2) if many else inner)
            good = good and taken and not many
        elif kind < 0.23:
            formats.append(choose.choice(REFUSED))
            good = False
        else:
            one = choose.choice(NUMBERS)
            formats.append((one, choose.choice([1, 3, (2, 2), (1, 4)])) if choose.random() < 0.3 else one)
        names.append(choose.choice(["x", "y", "größe", "with space"]) + str(index))
    how = choose.random()
    if how < 0.35:
        return numpy.dtype(list(zip(names, *zip(*[one if isinstance(one, tuple) else (one, 1) for one in formats])))
                           if all(isinstance(one, tuple) for one in formats) else {"names": names, "formats": formats}), good
    if how < 0.55:
        try:
            return numpy.dtype({"names": names, "formats": formats}, align=True), good
        except ValueError:
            return numpy.dtype({"names": names, "formats": formats}), good
    sizes = [numpy.dtype(one).itemsize for one in formats]
    order, offsets, at = list(range(len(sizes))), [0] * len(sizes), choose.choice([0, 0, 4, 5])
    if how > 0.8:
        choose.shuffle(order)
    for index in order:
        offsets[index] = at
        at += sizes[index] + choose.choice([0, 0, 1, 4])
    if any(numpy.dtype(one).hasobject for one in formats):
        return numpy.dtype({"names": names, "formats": formats}), False
    return numpy.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": at + choose.choice([0, 3, 8])}), good
