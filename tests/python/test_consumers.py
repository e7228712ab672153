# SPDX-License-Identifier: MIT
"""Other libraries that exchange memory with arrays. consumers.sh runs this where they are; others skip those that are missing."""

import os
import subprocess
import sys
import sysconfig

import pytest

import ferry

NANOBIND = r"""
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

NB_MODULE(ferry_consumer, m)
{
    m.def("double_them", [](nanobind::ndarray<float, nanobind::ndim<1>, nanobind::c_contig, nanobind::device::cpu> x) {
        for (size_t i = 0; i < x.shape(0); i++)
            x(i) *= 2;
    });
    m.def("sum", [](nanobind::ndarray<const float, nanobind::ndim<1>, nanobind::device::cpu> x) {
        float sum = 0;
        for (size_t i = 0; i < x.shape(0); i++)
            sum += x(i);
        return sum;
    });
}
"""


def test_nanoarrow(context):
    nanoarrow = pytest.importorskip("nanoarrow")
    a = ferry.array(b"\1\2\3", context=context)
    taken = nanoarrow.Array(a)
    assert taken.to_pylist() == [1, 2, 3]
    with pytest.raises(ferry.BusyError):
        a.fill(0)
    del taken
    a.fill(7)
    assert ferry.from_arrow(nanoarrow.Array([1, 2, 3], nanoarrow.int32()), context=context).tolist() == [1, 2, 3]


def test_tvm_ffi(context, numpy):
    tvm_ffi = pytest.importorskip("tvm_ffi")
    a = ferry.array(numpy.arange(4, dtype="f4"), context=context)
    x = tvm_ffi.from_dlpack(a)
    assert tuple(x.shape) == (4,)
    b = ferry.from_dlpack(x, context=ferry.Context("host"))
    b.fill(5)
    del b, x
    ferry.empty(1, context=context)
    assert a.tolist() == [5] * 4


def test_jax(context, numpy):
    jax = pytest.importorskip("jax")
    a = ferry.array(numpy.arange(4, dtype="f4"), context=context)
    x = jax.dlpack.from_dlpack(a) * 2
    x.block_until_ready()
    assert x.tolist() == [0, 2, 4, 6]
    b = ferry.from_dlpack(x, context=context)
    assert b.is_read_only and b.tolist() == [0, 2, 4, 6]
    with pytest.raises(ValueError):
        b.fill(1)


def test_torch(context, numpy):
    torch = pytest.importorskip("torch")
    a = ferry.array([1.0, 2.0], "f4", context=context)
    t = torch.from_dlpack(a)
    t += 1
    with pytest.raises(ferry.BusyError):  # it ignores the flag of a read-only tensor
        a.tolist()
    del t
    assert a.tolist() == [2, 3]
    values = torch.ones(3)
    b = ferry.from_dlpack(values, context=context)
    b.fill(2)
    b.close()
    assert values.tolist() == [2, 2, 2]
    strided = torch.arange(6.0).reshape(2, 3)[:, ::2]
    assert ferry.from_dlpack(strided, context=context).tolist() == strided.tolist()
    if takes_flags(torch):
        t = torch.from_dlpack(a.read())
        assert t.tolist() == a.tolist() == [2, 3]
    else:
        with pytest.raises(BufferError):
            torch.from_dlpack(a.read())


def takes_flags(torch):
    """True for a PyTorch that asks for tensors of DLPack 1.0."""
    return tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 8)


def test_mpi(context, numpy):
    pytest.importorskip("mpi4py")
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"no library of MPI: {error}")
    a = ferry.array(numpy.arange(4.0), context=context)
    b = ferry.empty(4, "f8", context=context)
    with a.read(raw=True) as sent, b.overwrite(raw=True) as received:
        MPI.COMM_SELF.Sendrecv(sent, 0, 0, received, 0, 0)
    assert b.tolist() == [0, 1, 2, 3]


@pytest.fixture(scope="module")
def module(tmp_path_factory):
    """An extension module of nanobind."""
    nanobind = pytest.importorskip("nanobind")
    folder = tmp_path_factory.mktemp("nanobind")
    source, built = folder / "ferry_consumer.cpp", folder / ("ferry_consumer" + sysconfig.get_config_var("EXT_SUFFIX"))
    source.write_text(NANOBIND)
    root = os.path.dirname(nanobind.__file__)
    try:
        done = subprocess.run(["c++", "-std=c++17", "-O1", "-fPIC", "-shared", "-fvisibility=hidden", "-I", nanobind.include_dir(), "-I",
                               os.path.join(root, "ext", "robin_map", "include"), "-I", sysconfig.get_path("include"), source,
                               os.path.join(nanobind.source_dir(), "nb_combined.cpp"), "-o", built],
                              capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("no compiler of C++")
    assert done.returncode == 0, done.stderr
    sys.path.insert(0, str(folder))
    yield pytest.importorskip("ferry_consumer")
    sys.path.remove(str(folder))


def test_nanobind(context, numpy, module):
    a = ferry.array(numpy.arange(4, dtype="f4"), context=context)
    module.double_them(a)
    assert a.tolist() == [0, 2, 4, 6]
    with a.read() as h:
        assert module.sum(h) == 12
        with pytest.raises(TypeError):
            module.double_them(h)
    assert module.sum(a.read()) == 12


def test_tqdm(context, tmp_path):
    tqdm = pytest.importorskip("tqdm")
    a = ferry.array(bytes(1 << 16), context=context)
    with tqdm.tqdm(file=open(os.devnull, "w", encoding="ascii")) as bar:
        a.store(tmp_path / "bytes", progress=bar)
        assert bar.n == bar.total == 1 << 16
