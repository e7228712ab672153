# SPDX-License-Identifier: MIT
"""What an Array refuses: operators, assignment to items, and the methods of ndarrays that compute.

An array does not know at which place to compute, so that each of these would have to guess. They all raise with the same advice.
"""

from __future__ import annotations

from . import _ferry

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BINARY = {"add": "+", "sub": "-", "mul": "*", "matmul": "@", "truediv": "/", "floordiv": "//", "mod": "%", "pow": "**",
           "lshift": "<<", "rshift": ">>", "and": "&", "or": "|", "xor": "^"}
_COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNARY = {"neg": "-a", "pos": "+a", "invert": "~a", "abs": "abs(a)"}
_METHODS = """T mT H I real imag flat sum prod mean std var min max ptp any all argmin argmax cumsum cumprod dot trace diagonal ravel
    flatten transpose squeeze swapaxes resize repeat take put choose compress searchsorted nonzero sort argsort partition argpartition
    round clip conj conjugate byteswap tofile dump dumps setflags data base flags itemset""".split()


def _sentence(done: str) -> str:
    return (f"{done}: a ferry.Array does not know at which place to compute. Open it: `with a.update() as h:` gives an ndarray, "
            "np.asarray(a) a copy, and ferry.elementwise() a kernel")


def _refusal(done: str) -> Callable[..., Any]:
    def refused(self: Any, *arguments: Any) -> Any:
        raise _ferry.WrongTypeError(_sentence(done))

    return refused


class _Absent:
    """An attribute that arrays lack. hasattr() is False, so that no library takes an array for an ndarray."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type) -> Any:
        raise AttributeError(_sentence(f"a.{self.name}"), name=self.name, obj=owner if instance is None else instance)


def _dir(self: object) -> list[str]:
    return [name for name in object.__dir__(self) if name not in _METHODS]


def refuse_operators(array_type: type) -> None:
    """Give a class of arrays the operators that raise."""
    refused = {f"__{name}__": f"a {sign} x" for name, sign in (*_BINARY.items(), *_COMPARED.items())}
    refused |= {f"__r{name}__": f"x {sign} a" for name, sign in _BINARY.items()}
    refused |= {f"__i{name}__": f"a {sign}= x" for name, sign in _BINARY.items()}
    refused |= {f"__{name}__": done for name, done in _UNARY.items()}
    refused |= {"__divmod__": "divmod(a, x)", "__rdivmod__": "divmod(x, a)", "__contains__": "x in a", "__setitem__": "a[...] = x",
                "__delitem__": "del a[...]"}
    for name, done in refused.items():
        setattr(array_type, name, _refusal(done))
    for name in _METHODS:
        setattr(array_type, name, _Absent(name))
    # Operators of NumPy's arrays and scalars leave the answer to the array; functions such as np.sum() get a copy of it.
    setattr(array_type, "__array_priority__", 1e6)
    setattr(array_type, "__dir__", _dir)
