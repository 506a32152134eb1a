"""A user's own oracle as compiled code: a function pointer that the compiled solver calls without Python in between.

The function finds the most violating output of a block and writes its features as pairs of an index and a value; the C
signature, what is checked and what is not are in docs/native.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from importlib import import_module
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin.core.arrays import ArrayProblem

# The class of all functions that ctypes knows.
FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
# ctypes marks functions that must be called with the interpreter's lock held.
NEEDS_THE_LOCK = 0x4


def numba_types(name: str) -> Any:
    """The types of numba, which the function of this name needs."""
    try:
        return import_module("numba").types
    except ImportError:
        raise ImportError(f"{name}() needs numba; install it with `pip install numba`") from None


class WithFunction(ArrayProblem):
    """What problems with a compiled function have in common: the function and the arrays it reads."""

    def _take(self, function: Any, signature: Callable[[], Any], reals: ArrayLike, integers: ArrayLike, exact: bool) -> None:
        # The code lives as long as the object that compiled or loaded it.
        self.function, self.exact = function, bool(exact)
        self.reals = entries_of("reals", reals, np.float64, "fiub")
        self.integers = entries_of("integers", integers, np.int64, "iub")
        function_address(function, signature)

    def __getstate__(self) -> dict[str, Any]:
        # A bare address would be that of other code elsewhere.
        if not hasattr(self.function, "address"):
            raise TypeError(
                "a problem with a compiled function is pickled only if the function is an object that has an `address` and can "
                "be pickled itself; or make the problem anew where it is needed"
            )
        return super().__getstate__()


def entries_of(name: str, values: ArrayLike, dtype: type, kinds: str) -> NDArray[Any]:
    """A contiguous one-dimensional array of this type; no copy if it is one already."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=dtype)
    if array.dtype.kind not in kinds:
        wanted = "integers" if dtype is np.int64 else "real numbers"
        raise TypeError(f"{name} must be an array of {wanted}, but has dtype {array.dtype}; convert it with astype")
    if array.dtype == np.uint64 and dtype is np.int64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"{name} contains {array.max()}, which does not fit into int64")
    return np.ascontiguousarray(array, dtype=dtype).reshape(-1)


def function_address(function: Any, signature: Callable[[], Any]) -> int:
    """Where the function's code begins."""
    if isinstance(function, FUNCTION):
        if function._flags_ & NEEDS_THE_LOCK:
            raise TypeError("function comes from ctypes.PyDLL, but is called without the interpreter's lock; use ctypes.CDLL")
        address: Any = ctypes.cast(function, ctypes.c_void_p).value
    elif hasattr(function, "address"):
        # A numba function with other arguments would read and write at random.
        own = getattr(function, "_sig", None)
        if own is not None and own != signature():
            raise TypeError(f"function has the signature {own}, but must have {signature()}: use {signature.__name__}()")
        address = function.address
    else:
        address = function
    if callable(address) or isinstance(address, bool):
        raise TypeError(
            f"function={function!r} is not compiled; compile it with @numba.cfunc({signature.__name__}()), load it with "
            "ctypes.CDLL, or write a Structure in Python"
        )
    try:
        number = index(address)
    except TypeError:
        raise TypeError(
            f"function={function!r} must be an address, a ctypes function or an object with an address, such as a numba cfunc"
        ) from None
    if not 0 < number < 2**64:
        raise ValueError(f"function has the address {number}, where no code can be; pass a function that was compiled or loaded")
    return number
