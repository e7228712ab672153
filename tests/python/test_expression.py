# SPDX-License-Identifier: MIT
"""Kernels from one expression: the bits of NumPy, the text of ferry-gen, and what is refused."""

import ctypes
import errno
import json
import math
import os
import subprocess
import sys
import tempfile
import textwrap

import pytest

import ferry

pytest.importorskip("jinja2")
if os.environ.get("FERRY_DEBUG") == "1":
    pytest.skip("a compiler takes the time, and the run without checks has done it", allow_module_level=True)


@pytest.fixture
def place(context):
    """A context whose devices run host functions."""
    if context.place(1).kind == "cuda":
        pytest.skip("a device of CUDA runs CUDA code")
    return context


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_the_bits_of_numpy(place, numpy, dtype):
    random = numpy.random.default_rng(3)
    x, y = (random.standard_normal(10007).astype(dtype) * 10 ** random.integers(-6, 6, 10007).astype(dtype) for _ in range(2))
    a, b = ferry.array(x, context=place), ferry.array(y, context=place)
    root = "sqrtf" if dtype == "f4" else "sqrt"
    for text, wanted in (("x[i] + y[i]", x + y), ("x[i] - y[i]", x - y), ("x[i] * y[i]", x * y), ("x[i] / y[i]", x / y),
                         (f"{root}(x[i] * x[i] + y[i] * y[i])", numpy.sqrt(x * x + y * y)), ("2 * x[i] * y[i] - x[i]", 2 * x * y - x)):
        kernel = ferry.elementwise("read T x, read T y, overwrite T z", f"z[i] = {text};", context=place)
        assert kernel(a, b).tobytes() == wanted.tobytes(), text


@pytest.mark.parametrize("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8", "?"])
def test_every_type(place, numpy, dtype):
    x = numpy.arange(100).astype(dtype)
    kernel = ferry.elementwise([f"read {dtype} x", f"update {dtype} y", "overwrite int32_t z"], ["y[i] = x[i];", "z[i] = (int32_t)i;"],
                               context=place)
    y = ferry.zeros(100, dtype, context=place)
    z = kernel(ferry.array(x, context=place), y)
    assert y.tobytes() == x.tobytes() and z.tolist() == list(range(100)) and z.dtype == "i4"


def test_types_of_a_call(place, numpy):
    scale = ferry.elementwise("T a, read T x, overwrite U y", "y[i] = a * x[i];", name="scale", context=place)
    x = ferry.array(numpy.arange(4.0), context=place)
    y = ferry.empty(4, "f4", context=place)
    assert scale(3, x, y) is y and y.tolist() == [0, 3, 6, 9]
    i = ferry.array(numpy.arange(4), context=place)
    assert scale(2, i, ferry.empty(4, "i8", context=place)).tolist() == [0, 2, 4, 6]
    twice = ferry.elementwise("update T x", "x[i] += x[i];", context=place)
    assert twice(x) is None and x.tolist() == [0, 2, 4, 6] and twice(i) is None and i.tolist() == [0, 2, 4, 6]
    two = ferry.elementwise("read T x, overwrite T y, overwrite T z", "y[i] = x[i] + 1; z[i] = x[i] + 2;", context=place)
    assert [made.tolist() for made in two(x)] == [[1, 3, 5, 7], [2, 4, 6, 8]]
    with pytest.raises(TypeError):
        two(x, i)
    with pytest.raises(ValueError, match="no array says what U is"):
        scale(3, x)
    for wrong in ("T a, read f4 x, overwrite f4 y", "read f4 x, overwrite f4 y, N n"):
        with pytest.raises(ValueError, match="that of no array"):
            ferry.elementwise(wrong, "y[i] = x[i];", context=place)


def test_shapes(place, numpy):
    add = ferry.elementwise("read f4 x, read f4 y, overwrite f4 z", "z[i] = x[i] + y[i];", context=place)
    x = ferry.array(numpy.arange(6, dtype="f4").reshape(2, 3), context=place)
    assert add(x, x).shape == (2, 3) and add(x, x).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert add(x[0], x[1]).tolist() == [3, 5, 7]
    empty = ferry.empty((0, 3), context=place)
    assert add(empty, empty).shape == (0, 3)
    assert add(x[1, 1], x[1, 1]).item() == 8
    for arguments in ((x,), (x, x, x, x), (x, x[0]), (x, 3.0), ()):
        with pytest.raises((ValueError, TypeError)):
            add(*arguments)
    with pytest.raises(ferry.WrongTypeError):
        add(x, x.astype("f8"))
    columns = numpy.asfortranarray(numpy.arange(6, dtype="f4").reshape(2, 3))
    fortran = ferry.wrap(columns, context=place)
    assert add(fortran, fortran, fortran) is fortran and add(fortran, fortran).strides == fortran.strides
    fortran.close()
    assert columns.tolist() == [[0, 2, 4], [6, 8, 10]]
    fortran = ferry.wrap(columns, context=place)
    assert ferry.reduction("read f4 x", "x[i]", context=place)(fortran) == 30
    with pytest.raises(ferry.UnsupportedError, match="the order of the dimensions of y differs from that of x"):
        add(x, fortran)
    with pytest.raises(ferry.WrongContextError):
        add(*[ferry.zeros((2, 3), context=ferry.Context("emulated:1"))] * 3)


def test_streams(emulated, numpy):
    slow = ferry.elementwise("update f8 x", "for (int k = 0; k < 1000; k++) x[i] = x[i] * 0.5 + 1;", context=emulated)
    x = ferry.array(numpy.zeros(1000), context=emulated)
    stream = ferry.Stream(emulated, 2)
    for _ in range(5):
        slow(x, stream=stream)
    assert 2 in x.places or x.copies
    assert x.tolist() == [2.0] * 1000


def test_reductions(place, numpy):
    random = numpy.random.default_rng(4)
    total = ferry.reduction("read f8 x", "x[i]", context=place)
    least, greatest = (ferry.reduction("read T x", "x[i]", combine, "T", context=place) for combine in ("min", "max"))
    for count in (0, 1, 15, 16, 17, 1000, 100003):
        x = random.standard_normal(count)
        a = ferry.array(x, context=place)
        assert abs(total(a) - math.fsum(x)) <= 1e-12 * (1 + numpy.abs(x).sum()) and total(a) == total(a)
        assert (least(a), greatest(a)) == ((x.min(), x.max()) if count else (math.inf, -math.inf))
    x[500] = math.nan
    assert math.isnan(least(ferry.array(x, context=place))) and math.isnan(greatest(ferry.array(x, context=place)))
    integers = ferry.array(numpy.arange(100000, dtype="i4"), context=place)
    assert ferry.reduction("read i4 x", "(int64_t)x[i] * x[i]", "sum", "i8", context=place)(integers) == sum(i * i for i in range(100000))
    assert greatest(integers) == 99999
    out = ferry.zeros((2, 2), "f8", context=place)
    dot = ferry.reduction("f8 a, read f8 x, read f8 y", "a * x[i] * y[i]", context=place)
    ones = ferry.array(numpy.ones(10), context=place)
    assert dot(2, ones, ones, out=out) is out and out.tolist() == [[20, 0], [0, 0]]
    with pytest.raises(ValueError):
        dot(2, ones)
    with pytest.raises(ValueError):
        dot(2, ones, ones[:5])
    with pytest.raises(TypeError):
        dot(2, ones, ones, out=ferry.empty(1, "f4", context=place))
    with pytest.raises(ValueError):
        ferry.reduction("read f8 x", "x[i]", "product", context=place)


def test_names_of_types(place, numpy):
    """Wherever a dictionary names a type: NumPy's name of it, and for a type alone also the type, the dtype or the Element itself."""
    x = ferry.array(numpy.arange(4.0), context=place)
    for kind in ("f8", "float64", "double", numpy.float64, numpy.dtype("f8"), float, ferry.element("f8")):
        square = {"name": "square", "returns": kind, "parameters": ["float64 x", "uint32 n"], "body": "return x * x + n;"}
        called = {"name": "called", "parameters": ["read float64 x"], "sum": kind, "each": "square(x[i], 1)"}
        by_name = {"name": "by_name", "parameters": ["read real x"], "sum": "real", "each": "x[i]"}
        k = ferry.kernels({"typedefs": {"real": kind}, "functions": [square], "kernels": [called, by_name]}, context=place)
        assert k.called(x) == 18 and k.by_name(x) == 6
        total = ferry.reduction("read f8 x", "square(x[i], 1)", "sum", kind, functions=[square], context=place)
        assert total(x) == 18
        fused = ferry.elementwise("read f8 x", [], results={"s": ("sum", kind, "x[i]")}, context=place)
        assert fused(x) == {"s": 6}
    same = {"name": "same", "returns": "T", "parameters": ["T x"], "body": "return x;"}
    assert ferry.reduction("read T x", "same(x[i])", "sum", "T", functions=[same], context=place)(x) == 6
    with pytest.raises(ferry.ArgumentError, match="functions.0..parameters.0.: is of type 'float65'"):
        ferry.kernels({"functions": [{**same, "parameters": ["float65 x"]}], "kernels": [by_name]}, context=place)
    with pytest.raises(ferry.WrongTypeError, match="3 names no element"):
        ferry.reduction("read f8 x", "x[i]", "sum", 3, context=place)


def test_functions_and_structs(place, numpy, tmp_path):
    limited = {"name": "limited", "returns": "double", "parameters": ["double x", "double most"], "body": "return x > most ? most : x;"}
    limit = ferry.elementwise("update f8 x, f8 most", "x[i] = limited(x[i], most);", functions=[limited], context=place)
    x = ferry.array(numpy.arange(4.0), context=place)
    limit(x, 1.5)
    assert x.tolist() == [0, 1, 1.5, 1.5]
    (tmp_path / "vec.h").write_text("struct mylib_vec { float x; double y; };\n")
    described = {"ferry": 1, "prefix": "mylib", "name": "vec", "c_type": "struct mylib_vec", "kind": "struct", "header": "vec_buffer.h",
                 "include": ["vec.h"], "fields": [{"name": "x", "type": "float"}, {"name": "y", "type": "double"}]}
    (tmp_path / "vec.json").write_text(json.dumps(described))
    kernel = ferry.elementwise("update vec v, read f8 s", "v[i].x += 1; v[i].y *= s[i];", types=[tmp_path / "vec.json"], context=place)
    v = ferry.empty(4, tmp_path / "vec.json", context=place)
    v.fill((1.0, 2.0))
    kernel(v, x)
    assert numpy.asarray(v)["x"].tolist() == [2] * 4 and numpy.asarray(v)["y"].tolist() == [0, 2, 3, 3]
    any_number = ferry.elementwise("update T v", "v[i] += 1;", context=place)
    with pytest.raises(TypeError, match="mylib_vec"):
        any_number(v)


def test_names(place, numpy):
    """Constants, type variables in the statements, functions of arrays, and functions of C that are inexact."""
    nearest = {"name": "nearest", "returns": "size_t", "parameters": ["read whole double t", "double x"],
               "body": "size_t best = 0; for (size_t k = 0; k < count(t); k++) { if (fabs(t[k] - x) < fabs(t[best] - x)) { best = k; } } return best;"}
    kernel = ferry.elementwise("read whole f8 table, read T x, overwrite T y", "const T at = (T)nearest(table, x[i]); y[i] = at * SCALE + sizeof(T);",
                               functions=[nearest], constants={"SCALE": 10}, context=place)
    table = ferry.array([1.0, 2.0, 4.0], context=place)
    for dtype in ("f4", "f8"):
        assert kernel(table, ferry.array(numpy.array([0, 2.5, 9], dtype), context=place)).tolist() == [n + int(dtype[1]) for n in (0, 10, 20)]
    erf = ferry.elementwise("read f8 x, overwrite f8 y", "y[i] = erf(x[i]);", inexact=True, context=place)
    assert abs(erf(table).tolist()[0] - 0.8427007929497149) < 1e-15
    with pytest.raises(ValueError, match="inexact"):
        ferry.elementwise("read f8 x, overwrite f8 y", "y[i] = erf(x[i]);", context=place)


@pytest.mark.parametrize("parameters, each, error, match", [
    ("read float x, overwrite flaot y", "y[i] = x[i];", ValueError, "flaot.*float"),
    ("read float x", "x[i];", ValueError, "no array to be written"),
    ("overwrite float y", "y[i] = tgamma(1);", ValueError, "tgamma"),
    ("overwrite float y", "y[i] = 1", ValueError, "does not end"),
    ("overwrite float i", "i[i] = 1;", ValueError, "generated code uses"),
    ("float y", "y = 1;", ValueError, "no array"),
    ("", "", ValueError, "expected"),
    ([3], "y[i] = 1;", ValueError, "expected"),
    ("overwrite float y", "y[i] = nothing;", ferry.ArgumentError, "nothing"),
])
def test_bad_expressions(emulated, parameters, each, error, match):
    with pytest.raises(error, match=match):
        ferry.elementwise(parameters, each, context=emulated)


def test_machines_without_a_compiler(emulated, monkeypatch):
    monkeypatch.setenv("CC", "/nowhere/cc")
    with pytest.raises(ferry.UnsupportedError, match="needs? a C compiler"):
        ferry.elementwise("update float x", "x[i] = 1;", context=emulated)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(NotImplementedError):
        ferry.elementwise("update float x", "x[i] = 1;", context=emulated)


def test_machines_without_jinja2():
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import sys
        sys.modules["jinja2"] = None
        import ferry
        try:
            ferry.elementwise("update float x", "x[i] = 1;", context=ferry.Context("emulated:1"))
        except ImportError as error:
            assert "pip install ferry[gen]" in str(error), error
        else:
            raise SystemExit("no ImportError")
    """)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_compiled_once(tmp_path):
    """The cache keeps a host function for other processes, and one of another text is another one."""
    log, compiler = tmp_path / "log", tmp_path / "cc"
    compiler.write_text(f"#!/bin/sh\necho compiled >>{log}\nexec cc \"$@\"\n")
    compiler.chmod(0o755)
    program = textwrap.dedent("""
        import sys, ferry
        c = ferry.Context("emulated:1")
        k = ferry.elementwise("update float x", f"x[i] = {sys.argv[1]};", context=c)
        x = ferry.empty(3, context=c)
        k(x)
        assert x.tolist() == [float(sys.argv[1])] * 3
    """)

    def compiled(value, folder):
        before = len(log.read_text().splitlines()) if log.exists() else 0
        subprocess.run([sys.executable, "-c", program, str(value)], check=True,
                       env={**os.environ, "CC": str(compiler), "FERRY_CACHE_DIR": str(folder) if folder else ""})
        return len(log.read_text().splitlines() if log.exists() else []) - before

    cache = tmp_path / "cache"
    assert [compiled(1, cache), compiled(1, cache), compiled(2, cache), compiled(2, None), compiled(2, None)] == [1, 0, 1, 1, 1]
    assert len(list((cache / "host").iterdir())) == 2
    (cache / "host").chmod(0o777)  # other users could put code there
    assert compiled(1, cache) == 1


def test_whole_arrays(place, numpy):
    keys, values = ferry.array([0.0, 1.0, 3.0], context=place), ferry.array([10.0, 20.0, 40.0], context=place)
    scale = ferry.array([2.0], context=place)
    nearest = ferry.elementwise("read whole f8 keys, read whole f8 values, read T x, read one f8 scale, overwrite f8 y", """
        size_t k = 0;
        while (k + 1 < count(keys) && keys[k + 1] <= x[i])
            k++;
        y[i] = scale * values[k];""", context=place)
    assert nearest(keys, values, ferry.array([[-1, 0], [2, 9]], "f4", context=place), scale).tolist() == [[20, 20], [40, 80]]
    with pytest.raises(IndexError, match="scale has no element"):
        nearest(keys, values, keys, ferry.empty(0, context=place))
    scatter = ferry.elementwise("read i4 at, read T x, overwrite whole T y", "y[at[i]] = x[i];", context=place)
    at, y = ferry.array([3, 0, 1], "i4", context=place), ferry.zeros(5, "f8", context=place)
    scatter(at, keys, y)
    assert y.tolist()[0] == 1 and y.tolist()[3] == 0 and y.tolist()[1] == 3
    with pytest.raises(ValueError, match="has 3 parameters"):
        scatter(at, keys)
    with pytest.raises(ValueError, match='1 "x" and 2 "y"'):
        scatter(at, y[:3], y)


def test_counts(place, numpy):
    swap = ferry.elementwise("update whole c16 a, size_t step", """
        const size_t low = i / step * 2 * step + i % step;
        const ferry_complex_double kept = a[low];
        a[low] = a[low + step];
        a[low + step] = kept;""", count=True, context=place)
    a = ferry.array(numpy.arange(8) * (1 - 1j), context=place)
    swap(a, 2, count=4)
    assert a.tolist() == [one * (1 - 1j) for one in (2, 3, 0, 1, 6, 7, 4, 5)]
    with pytest.raises(ValueError, match="needs count="):
        swap(a, 2)
    with pytest.raises(ValueError, match="made with count=True"):
        ferry.elementwise("update f8 x", "x[i] = 1;", context=place)(ferry.zeros(3, context=place), count=2)
    part = ferry.reduction("read f8 x, read whole f8 y", "x[i] * y[count(y) - 1 - i]", count=True, context=place)
    x = ferry.array([1.0, 2.0, 3.0], context=place)
    assert part(x, x, count=2) == 1 * 3 + 2 * 2
    with pytest.raises(IndexError, match="x has 3 elements, and the count is 4"):
        part(x, x, count=4)
    numbers = ferry.elementwise("overwrite f8 x", "x[i] = (double)(i + n);", count=True, context=place)
    assert numbers(count=3).tolist() == [3, 4, 5]


def test_results(place, numpy):
    step = ferry.elementwise("read one T alpha, update T x, read T p", "x[i] += alpha * p[i]; const T2 size = x[i] < 0 ? -x[i] : x[i];".replace("T2", "double"),
                             results={"xx": ("sum", "T", "x[i] * x[i]"), "most": ("max", "f8", "size"), "many": ("sum", "u8", "size > 2 ? 1 : 0")}, context=place)
    numbers = numpy.arange(4000.0) % 37 - 18
    alpha, p = ferry.array([0.5], context=place), ferry.array(numbers, context=place)
    x = ferry.zeros(4000, "f8", context=place)
    half = numbers / 2
    assert step(alpha, x, p) == {"xx": (half * half).sum(), "most": 9.0, "many": (abs(half) > 2).sum()}
    assert x.tolist() == half.tolist()
    out = {"xx": ferry.empty(1, "f8", context=place), "most": ferry.empty(3, "f8", context=place), "many": ferry.empty(1, "u8", context=place)}
    assert step(alpha, x, p, out=out) is out and out["xx"].item() == (numbers * numbers).sum() and out["most"].tolist()[0] == 18
    bounds = ferry.elementwise("read i2 x", "", results={"least": ("min", "i2", "x[i]"), "n": ("sum", "i8", "1")}, context=place)
    assert bounds(ferry.array([3, -4, 5], "i2", context=place)) == {"least": -4, "n": 3}
    with pytest.raises(ValueError, match="for each of xx, most, many"):
        step(alpha, x, p, out={"xx": x})
    with pytest.raises(ValueError, match="has 3 parameters"):
        step(alpha, x)
    with pytest.raises(ValueError, match="arguments 0 .alpha. and 4 .xx."):
        step(alpha, x, p, out={**out, "xx": alpha})
    with pytest.raises(ValueError, match="results: a is"):
        ferry.elementwise("update f8 x", "x[i] = 1;", results={"a": "sum"}, context=place)
    with pytest.raises(ValueError, match=r"results\[0\].value: uses 'x\[i \+ 1\]'"):
        ferry.elementwise("update f8 x", "x[i] = 1;", results={"a": ("sum", "f8", "x[i + 1]")}, context=place)


def test_atomics(place, numpy):
    histogram = ferry.elementwise("read u1 pixels, update whole u4 counts", "atomic_add(counts[pixels[i] % count(counts)], 1);", context=place)
    pixels = numpy.arange(100000).astype("u1")
    counts = ferry.zeros(16, "u4", context=place)
    histogram(ferry.array(pixels, context=place), counts)
    assert counts.tolist() == numpy.bincount(pixels % 16).tolist()
    with pytest.raises(ValueError, match="that is 'update whole'"):
        ferry.elementwise("update u4 x", "atomic_add(x[i], 1);", context=place)


def test_overlaps(place):
    shift = ferry.elementwise("read f8 x, overwrite f8 y", "y[i] = x[i];", context=place)
    a = ferry.array([1.0, 2.0, 3.0], context=place)
    shift(a, a)
    with pytest.raises(ValueError, match="the kernel writes"):
        shift(a[:2], a[1:])


def test_the_text_of_ferry_gen(emulated, tmp_path, monkeypatch):
    """The CUDA source and the host function are those of a header that ferry-gen writes for C programs."""
    from ferry import _expression, _folders

    seen = []
    real = _expression.Kernel
    monkeypatch.setattr(_expression, "Kernel", lambda name, **more: seen.append((name, more["source"], more.get("exact", False))) or real(name, **more))
    sources = []
    compiled = _expression._compiled
    monkeypatch.setattr(_expression, "_compiled", lambda source, *rest: sources.append(source) or compiled(source, *rest))
    ferry.elementwise("read double x, overwrite double y", "y[i] = sqrt(x[i]);", name="root", context=emulated)
    ferry.reduction("read double x", "x[i]", name="total", context=emulated)
    for name, entry in (("root", {"parameters": ["read double x", "overwrite double y"], "each": "y[i] = sqrt(x[i]);"}),
                        ("total", {"parameters": ["read double x"], "each": "x[i]", "sum": "double"})):
        (tmp_path / name).write_text(json.dumps({"ferry": 1, "prefix": "py", "header": "kernels.h", "kernels": [{"name": name, **entry}]}))
        subprocess.run([sys.executable, os.path.join(_folders.GENERATOR, "ferry_gen.py"), "--templates", _folders.TEMPLATES, "kernels",
                        tmp_path / name, "-o", tmp_path / "kernels.h"], check=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
        header = (tmp_path / "kernels.h").read_text()
        assert header in sources.pop(0)
        for entry, cuda, exact in [one for one in seen if one[0].startswith("py_" + name)]:
            literals = header[header.index(f"{entry}_source(ferry"):]
            text = ""
            for line in literals[literals.index("text[] =\n") + 9:].splitlines():
                text += json.loads(line.strip().rstrip(";"))
                if line.rstrip().endswith(";"):
                    break
            assert text == cuda and exact == (not entry.endswith("_into"))
            assert ("{FERRY_CODE_CUDA, FERRY_CODE_EXACT," in literals[:literals.index("ferry_kernel_source source")]) == exact


def test_devices_of_cuda(numpy):
    """CUDA source alone: no compiler of C is needed. The driver without a GPU runs the host function, with the arguments of the launch."""
    driver = os.environ.get("FERRY_CUDA_LIBRARY", "")
    compiler = driver.replace("libfakecuda", "libfakenvrtc")
    if "fakecuda" not in driver or not os.path.exists(compiler):
        pytest.skip("needs the driver and the compiler that need no GPU")
    done = subprocess.run([sys.executable, "-c", textwrap.dedent("""
        import ctypes, os, numpy, ferry, ferry._expression
        driver = ctypes.CDLL(os.environ["FERRY_CUDA_LIBRARY"])
        body = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.c_void_p, ctypes.c_void_p)
        kept, grids = [], []

        def register(library, name, sizes):
            run = getattr(library, name + "_runs")
            @body
            def device(parameters, grid, block):
                grids.append(ctypes.cast(grid, ctypes.POINTER(ctypes.c_uint))[0])
                run(parameters)
            table = (ctypes.c_size_t * len(sizes))(*sizes)
            driver.fakecuda_register_kernel(name.encode(), device, len(sizes), table)
            kept.append((device, table, run))

        libraries = []
        real = ferry._expression._compiled
        def noted(source, headers, folders):
            for name in ("py_y_is_a_times_x", "py_sum_of_x", "py_sum_of_x_into"):
                if f" {name}_here(" in source:
                    source += f"void {name}_runs(void **values);\\nvoid {name}_runs(void **values) {{ {name}_run(values); }}\\n"
            libraries.append(real(source, headers, folders))
            return libraries[-1]
        ferry._expression._compiled = noted
        host = ferry.Context("host")
        arguments = ("f4 a, read f4 x, overwrite f4 y", "y[i] = a * x[i];")
        ferry.elementwise(*arguments, context=host)
        ferry.reduction("read f4 x", "x[i]", "sum", "f4", context=host)
        register(libraries[0], "py_y_is_a_times_x", [4, 8, 8, 8])
        register(libraries[1], "py_sum_of_x", [8, 8, 8])
        register(libraries[1], "py_sum_of_x_into", [8, 8, 8])
        os.environ["CC"] = "/nowhere"
        c = ferry.Context("cuda")
        scale = ferry.elementwise(*arguments, context=c)
        x = ferry.array(numpy.arange(1000, dtype="f4"), context=c)
        y = scale(0.5, x)
        assert y.places == (1,) and (numpy.asarray(y) == numpy.arange(1000, dtype="f4") * numpy.float32(0.5)).all()
        assert c.stats().upload.bytes == 4000 and c.stats().download.bytes == 4000
        total = ferry.reduction("read f4 x", "x[i]", "sum", "f4", context=c)
        assert total(x) == 499500 and c.stats().upload.bytes == 4000 and c.stats().download.bytes == 4004
        grids.clear()
        scale(1, ferry.empty(10000, context=c))
        total(ferry.empty(10000, context=c))
        assert grids == [40, 10, 1], grids
    """)], capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "FERRY_NVRTC_LIBRARY": compiler})
    assert done.returncode == 0, done.stderr


def test_damaged_caches(tmp_path):
    """A file that is no library is made again; a folder that cannot be written is none."""
    program = textwrap.dedent("""
        import ferry
        c = ferry.Context("emulated:1")
        x = ferry.empty(3, context=c)
        ferry.elementwise("update float x", "x[i] = 7;", context=c)(x)
        assert x.tolist() == [7.0] * 3
    """)
    environment = {**os.environ, "FERRY_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    kept, = (tmp_path / "host").iterdir()
    kept.unlink()
    kept.write_bytes(b"nothing")
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert kept.stat().st_size > 1000
    good = kept.read_bytes()
    middle = len(good) // 3
    for bad in (b"", good[:64], good[:len(good) // 2], good[:len(good) * 4 // 5], good[:-1], good[:middle] + bytes(2000) + good[middle + 2000:]):
        kept.unlink()
        kept.write_bytes(bad)
        subprocess.run([sys.executable, "-c", program], check=True, env=environment)
        assert kept.stat().st_size == len(good)
    for folder in ("relative", "/proc/none", str(kept)):
        subprocess.run([sys.executable, "-c", program], check=True, env={**environment, "FERRY_CACHE_DIR": folder}, cwd=tmp_path)
    assert not (tmp_path / "relative").exists()


def test_full_disks(tmp_path, monkeypatch):
    """What the cache cannot hold is not kept, and nothing else happens."""
    from ferry import _expression

    context = ferry.Context("emulated:1")
    monkeypatch.setenv("FERRY_CACHE_DIR", str(tmp_path))
    (tmp_path / "stage").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "stage"))

    def fails(*arguments):
        raise OSError(errno.ENOSPC, "no space left")

    for step, name in enumerate(("fsync", "replace", "scandir")):
        with monkeypatch.context() as broken:
            broken.setattr(_expression.os, name, fails)
            x = ferry.zeros(3, context=context)
            ferry.elementwise("update f4 x", f"x[i] = {step + 1};", context=context)(x)
            assert x.tolist() == [step + 1.0] * 3
    assert [path.suffix for path in (tmp_path / "host").iterdir()] == [".so"]  # trimming fails after the file has its name


def test_misspelt_functions(place, tmp_path, monkeypatch):
    """A name that nothing declares is refused with its name. What the compiler refuses leaves no library in the cache."""
    monkeypatch.setenv("FERRY_CACHE_DIR", str(tmp_path))
    for text in ("x[i] = exq(x[i]);", "x[i] = y;"):
        with pytest.raises(ferry.ArgumentError, match="exq|y"):
            ferry.elementwise("update f4 x", text, context=place)
    with pytest.raises(ferry.CompileError, match="member"):
        ferry.elementwise("update f4 x", "x[i] = x[i].height;", context=place)
    assert not list((tmp_path / "host").iterdir())


def test_results_without_room(place):
    total = ferry.reduction("read f4 x", "x[i]", "sum", "f8", context=place)
    x = ferry.zeros(3, context=place)
    for shape in (0, (0, 3), (2, 0)):
        with pytest.raises(ferry.RangeError, match="out has no element"):
            total(x, out=ferry.zeros(shape, "f8", context=place))
    for out in (3, [0.0], "x"):
        with pytest.raises(ferry.WrongTypeError, match="out must be a ferry.Array"):
            total(x, out=out)


def test_first_use_on_threads():
    """The modules of ferry-gen are imported once, and no thread gets one that is half done."""
    program = textwrap.dedent("""
        import sys, threading, types, ferry
        sys.modules["ferry_types"] = sys.modules["ferry_layout"] = types.ModuleType("of the program")
        sys.setswitchinterval(1e-5)
        context, bad, go = ferry.Context("emulated:1"), [], threading.Barrier(6)
        x = ferry.zeros(4, context=context)
        def work():
            go.wait()
            try:
                ferry.elementwise("read T x, overwrite T y", "y[i] = x[i];", context=context)(x)
            except Exception as error:
                bad.append(repr(error))
        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        assert not bad, bad
        assert not hasattr(sys.modules["ferry_types"], "load")
    """)
    for _ in range(3):
        subprocess.run([sys.executable, "-c", program], check=True)


def test_caches_are_bounded(tmp_path, monkeypatch):
    from ferry import _expression

    monkeypatch.setenv("FERRY_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(_expression, "_KEPT", 2)
    context = ferry.Context("host")
    for value in range(4):
        ferry.elementwise("update float x", f"x[i] = {value};", context=context)
        newest = max((tmp_path / "host").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    assert len(list((tmp_path / "host").iterdir())) == 2 and newest.exists()


LIFE = {"kernels": [
    {"name": "step", "comment": "One step.", "dimensions": ["rows", "columns"], "stencil": 1, "parameters": ["read f8 now", "f8 rate", "overwrite f8 next"],
     "each": "next[i] = now(0, 0) + rate * ((now(-1, 0) + now(1, 0)) + (now(0, -1) + now(0, 1)) - 4 * now(0, 0));"},
    {"name": "heat", "dimensions": ["rows", "columns"], "parameters": ["read f8 now"], "sum": "f8", "each": "now[i]"},
    {"name": "mark", "dimensions": ["planes", "rows", "columns"], "parameters": ["update i4 x"], "each": "x[i] += (int32_t)(100 * plane + 10 * row + column);"},
    {"name": "table", "dimensions": ["rows", "columns"], "parameters": ["update whole f8 x"], "each": "x[row * columns + column] = (double)(row * column);"},
    {"name": "both", "dimensions": ["rows", "columns"], "parameters": ["update f8 x"], "each": "x[i] *= 2;",
     "results": [{"name": "all", "sum": "f8", "value": "x[i]"}, {"name": "most", "max": "f8", "value": "x[i]"}]}]}


def stepped(numpy, now, rate, mode):
    """One step of LIFE with NumPy, in the same order of operations."""
    p = numpy.pad(now, 1, mode=mode)
    return now + rate * ((p[:-2, 1:-1] + p[2:, 1:-1]) + (p[1:-1, :-2] + p[1:-1, 2:]) - 4 * now)


@pytest.mark.parametrize("edges", ["nearest", "wrap", "none"])
def test_dimensions(place, numpy, edges):
    """Stencils have the bits of NumPy: all cells and those of a box, with each kind of edges, also in parts of the host's threads."""
    described = {"kernels": [{**LIFE["kernels"][0], "edges": edges}]}
    step = ferry.kernels(described, context=place).step
    same = ferry.elementwise("read T now, T rate, overwrite T next", LIFE["kernels"][0]["each"], dimensions=("rows", "columns"), stencil=1, edges=edges, context=place)
    assert step.__doc__ == "One step."
    for shape in ((7, 9), (301, 203)):
        now = numpy.random.default_rng(5).standard_normal(shape)
        wanted = stepped(numpy, now, 0.1, {"nearest": "edge", "wrap": "wrap", "none": "edge"}[edges])
        if edges == "none":
            wanted[[0, -1], :] = wanted[:, [0, -1]] = 0
        a = ferry.array(now, context=place)
        assert step(a, 0.1).tobytes() == wanted.tobytes() == same(a, 0.1).tobytes()
        for box in (numpy.s_[2:5, 3:-1], numpy.s_[-3:-1, 1:], (slice(1, None), slice(None)), numpy.s_[3:3, 2:4]):
            if edges == "none" and box[1].stop is None:  # up to the last cell that has neighbours
                box = (box[0] if box[0].stop else slice(box[0].start, -1), slice(box[1].start, -1))
            part = ferry.array(numpy.full(shape, 7.0), context=place)
            assert step(a, 0.1, part, box=box) is part
            expected = numpy.full(shape, 7.0)
            inner = tuple(slice(1 if one.start is None and edges == "none" else one.start, one.stop) for one in box)
            expected[inner] = wanted[inner]
            assert part.tobytes() == expected.tobytes(), box


def test_refused_boxes(place, numpy):
    k = ferry.kernels({"kernels": [{**LIFE["kernels"][0], "edges": "none"}, *LIFE["kernels"][1:]]}, context=place)
    a = ferry.zeros((4, 5), "f8", context=place)
    for box, error, match in (((slice(0, 2), slice(None)), IndexError, "only those from 1 to 2"), (numpy.s_[1:9, :], IndexError, "rows"),
                              (numpy.s_[1:3], TypeError, "tuple of 2 slices"), (numpy.s_[1:3:2, :], TypeError, "without a step"),
                              (numpy.s_[1, :], TypeError, "slices"), (numpy.s_["a":, :], TypeError, "box"), (numpy.s_[-9:, :], IndexError, "index -9.*size 4")):
        with pytest.raises(error, match=match):
            k.step(a, 0.5, box=box)
    for bad in (ferry.zeros(20, "f8", context=place), ferry.zeros((4, 5, 1), "f8", context=place)):
        with pytest.raises(ValueError, match="has 2 dimensions"):
            k.heat(bad)
    with pytest.raises(ferry.UnsupportedError, match="C order"):
        k.heat(ferry.wrap(numpy.asfortranarray(numpy.zeros((3, 4))), context=place))
    with pytest.raises(ValueError, match="shape"):
        k.step(a, 0.5, ferry.zeros((5, 4), "f8", context=place))
    with pytest.raises(ValueError, match=r"overlap|\"now\""):
        k.step(a, 0.5, a)
    with pytest.raises(ValueError, match="were made with dimensions="):
        ferry.elementwise("update f8 x", "x[i] = 1;", context=place)(a, box=(slice(1), slice(1)))
    with pytest.raises(TypeError, match="unexpected keyword argument 'boxes'"):
        k.heat(a, boxes=3)


def test_kernels_of_dimensions(place, numpy):
    k = ferry.kernels(LIFE, context=place)
    assert list(k) == ["step", "heat", "mark", "table", "both"] and len(k) == 5 and k["heat"] is k.heat and "both" in dir(k)
    now = numpy.arange(12.0).reshape(3, 4)
    a = ferry.array(now, context=place)
    assert k.heat(a) == 66 and k.heat(a, box=numpy.s_[1:, 2:]) == now[1:, 2:].sum() and k.heat(a, box=numpy.s_[2:1, :]) == 0
    cube = ferry.zeros((2, 3, 4), "i4", context=place)
    assert k.mark(cube, box=numpy.s_[1:, :, 2:]) is None
    wanted = numpy.zeros((2, 3, 4), "i4")
    planes, rows, columns = numpy.indices(wanted.shape)
    wanted[1:, :, 2:] = (100 * planes + 10 * rows + columns)[1:, :, 2:]
    assert cube.tobytes() == wanted.tobytes()
    flat = ferry.zeros(6, "f8", context=place)
    k.table(flat, shape=(2, 3))
    assert flat.tolist() == [0, 0, 0, 0, 1, 2]
    for shape, match in ((None, "needs shape="), ((2, 3, 1), "has 2 dimensions"), (6, "tuple")):
        with pytest.raises((ValueError, TypeError), match=match):
            k.table(flat, shape=shape)
    assert k.both(a, box=numpy.s_[:1, 1:3]) == {"all": 6.0, "most": 4.0} and k.heat(a) == 69
    outs = {"all": ferry.zeros(1, "f8", context=place), "most": ferry.zeros(2, "f8", context=place)}
    assert k.both(a, out=outs) is outs and outs["all"].item() == 138 and outs["most"].tolist() == [22, 0]
    with pytest.raises(AttributeError, match="has no kernel 'none'; it has step, heat"):
        k.none


def test_files_of_kernels(place, numpy, tmp_path):
    """A file that C programs use: typedefs, constants, enumerators of a struct's header, functions of arrays, atomics, whole, one and count."""
    (tmp_path / "fluid.h").write_text("enum phase { LIQUID, GAS = 5 };\nstruct my_cell { double mass; int phase; };\n")
    cell = {"ferry": 1, "prefix": "my", "name": "cell", "c_type": "struct my_cell", "kind": "struct", "header": "cell_buffer.h", "include": ["fluid.h"],
            "enumerators": {"LIQUID": 0, "GAS": 5}, "fields": [{"name": "mass", "type": "double"}, {"name": "phase", "type": "int"}]}
    (tmp_path / "cell.json").write_text(json.dumps(cell))
    described = {"ferry": 1, "prefix": "my", "header": "my_kernels.h", "types": ["cell.json"], "typedefs": {"real": "double"}, "constants": {"HALF": "0.5", "MANY": 3},
                 "functions": [{"name": "last", "returns": "real", "parameters": ["read whole real t"], "body": "return t[count(t) - 1];"}],
                 "kernels": [
                     {"name": "weigh", "parameters": ["read cell cells", "read whole real t", "read one real a", "overwrite real w"],
                      "each": "w[i] = cells[i].phase == GAS ? (real)(HALF * last(t) * a) : (real)cells[i].mass;"},
                     {"name": "histogram", "parameters": ["read byte pixels", "update whole uint32 counts"], "each": "atomic_add(counts[pixels[i]], 1);"},
                     {"name": "powers", "count": True, "inexact": True, "parameters": ["overwrite whole real x"], "each": "x[i] = (real)(cbrt((double)(i * MANY)));"}]}
    (tmp_path / "my.json").write_text(json.dumps(described))
    numpy_cell = numpy.dtype([("mass", "f8"), ("phase", "i4")], align=True)
    for more, dtype in (({}, "f8"), ({"typedefs": {"real": "f4"}}, "f4")):
        k = ferry.kernels(tmp_path / "my.json", context=place, **more)
        cells = ferry.empty(3, tmp_path / "cell.json", context=place)
        with cells.overwrite() as h:
            h[:] = numpy.array([(1, 0), (2, 5), (3, 5)], numpy_cell)
        t, a = ferry.array(numpy.array([1, 8], dtype), context=place), ferry.array(numpy.array([3], dtype), context=place)
        w = k.weigh(cells, t, a)
        assert w.dtype == dtype and w.tolist() == [1, 12, 12]
        pixels = numpy.random.default_rng(6).integers(0, 256, 100000).astype("u1")
        counts = ferry.zeros(256, "u4", context=place)
        k.histogram(ferry.array(pixels, context=place), counts)
        assert counts.tolist() == numpy.bincount(pixels, minlength=256).tolist()
        x = ferry.empty(4, dtype, context=place)
        k.powers(x, count=3)
        assert numpy.allclose(x.tolist()[:3], numpy.cbrt([0, 3, 6]), rtol=1e-6)
    with pytest.raises(ValueError, match="typedefs"):
        ferry.kernels(tmp_path / "my.json", typedefs={"rael": "f4"}, context=place)
    with pytest.raises(FileNotFoundError):
        ferry.kernels(tmp_path / "none.json", context=place)
    (tmp_path / "bad.json").write_text("{")
    for bad in (tmp_path / "bad.json", {}, {"kernels": 3}, {"kernels": [3]}, {"kernels": [{"name": "x", "parameters": [4], "each": "x;"}]},
                {"kernels": [{"name": "x", "parameters": ["update f8 x"], "each": "x[i] = 1;", "wrong": 3}]}):
        with pytest.raises(ferry.ArgumentError):
            ferry.kernels(bad, context=place)


def test_one_call_of_c(place, numpy):
    """A launch that was bound before runs no Python code, whatever its arguments are."""
    scale = ferry.elementwise("T a, i4 k, read T x, overwrite T y", "y[i] = a * x[i] + k;", context=place)
    dot = ferry.reduction("read T x, read T y", "x[i] * y[i]", "sum", "T", context=place)
    step = ferry.elementwise("T a, update T r", "r[i] -= a;", results={"rr": ("sum", "T", "r[i] * r[i]")}, context=place)
    k = ferry.kernels(LIFE, context=place)
    x, y = (ferry.array(numpy.arange(20.0).reshape(4, 5), context=place) for _ in range(2))
    out, stream, box = ferry.zeros(1, "f8", context=place), ferry.Stream(place), (slice(1, 3), slice(2))
    calls = [lambda: scale(2.0, 3, x, y), lambda: scale(2.0, 3, x, y, stream=stream), lambda: dot(x, y), lambda: dot(x, y, out=out), lambda: step(0.5, x),
             lambda: step(0.5, x, out={"rr": out}), lambda: k.step(x, 0.1, y), lambda: k.step(x, 0.1, y, box=box), lambda: k.heat(x, box=box)]
    for call in calls:
        call()
        seen = []
        sys.setprofile(lambda frame, event, argument: seen.append((event, getattr(frame, "f_code", None))))
        try:
            call()
        finally:
            sys.setprofile(None)
        assert [code for event, code in seen if event == "call"] == [call.__code__], seen
        assert sum(event == "c_call" for event, _ in seen) <= 1  # setprofile()


def test_all_processors():
    """The host function of a large launch runs on several threads, and the bits do not depend on their number."""
    program = textwrap.dedent("""
        import os, sys, numpy, ferry
        context = ferry.Context("host", tuning=f"host.threads={sys.argv[1]}")
        x = ferry.array(numpy.random.default_rng(1).standard_normal(300007), context=context)
        step = ferry.elementwise("update f8 x", "x[i] = sqrt(x[i] * x[i] + 1);", results={"s": ("sum", "f8", "x[i]")}, context=context)
        total = ferry.reduction("read f8 x", "x[i]", context=context)
        before = len(os.listdir("/proc/self/task"))
        print(step(x)["s"].hex(), total(x).hex(), len(os.listdir("/proc/self/task")) - before)
    """)
    found = [subprocess.run([sys.executable, "-c", program, str(threads)], check=True, capture_output=True, text=True).stdout.split() for threads in (1, 4)]
    assert found[0][:2] == found[1][:2] and (found[0][2], found[1][2]) == ("0", "3")


def test_checked_runs_report_indices():
    """An index outside of a whole array is logged with the kernel, the argument, the index and the length."""
    program = textwrap.dedent("""
        import ferry
        log = []
        c = ferry.Context("emulated", log=lambda level, text: log.append(text))
        k = ferry.array([0, 3, 1], "i4", context=c)
        table, y = ferry.zeros(3, "f8", context=c), ferry.zeros(3, "f8", context=c)
        ferry.elementwise("read whole f8 table, read i4 k, overwrite f8 y", "y[i] = table[k[i]];", name="gather", context=c)(table, k, y)
        y.tobytes()
        print(log)
        """)
    for checked in ("1", ""):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "FERRY_DEBUG": checked})
        assert done.returncode == 0, done.stderr
        assert ('it used index 3 of argument 0 "table", which has 3 elements' in done.stdout) == (checked == "1"), done.stdout


def test_results_in_place(tmp_path):
    """On the host device the results of a launch need no memory of a pool."""
    log = os.fspath(tmp_path / "run")
    context = ferry.Context("host", allocation_log=log)
    x = ferry.zeros(1000, "f8", context=context)
    step = ferry.elementwise("update f8 x", "x[i] += 1;", results={"all": ("sum", "f8", "x[i]"), "most": ("max", "f8", "x[i]")}, context=context)
    step(x)
    before = sum(path.stat().st_size for path in tmp_path.iterdir())
    for k in range(2, 1000):
        assert step(x) == {"all": 1000.0 * k, "most": float(k)}
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == before
