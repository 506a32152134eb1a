"""A user's own oracle as compiled code: a function pointer that the compiled solver calls without Python in between.

The function finds the most violating output of a block and writes its features as pairs of an index and a value; the C
signature, what is checked and what is not are in docs/native.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cached_property
from importlib import import_module
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin.cuts import Cut
from maxmargin.models.compiled import has_own_oracle

Floats = NDArray[np.float64]

# Features are numbered with 32-bit integers.
_MOST = 2**31 - 1
# The class of all functions that ctypes knows.
_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
# ctypes marks functions that must be called with the interpreter's lock held.
_NEEDS_THE_LOCK = 0x4


def native_signature() -> Any:
    """The signature of an oracle as a numba type, for ``@numba.cfunc(native_signature())``."""
    try:
        types: Any = import_module("numba").types
    except ImportError:
        raise ImportError("native_signature() needs numba; install it with `pip install numba`") from None
    reals, integers = types.CPointer(types.float64), types.CPointer(types.int64)
    indices = types.CPointer(types.int32)
    return types.int64(reals, integers, types.int64, reals, indices, reals, reals)


class NativeProblem:
    """Blocks whose most violating outputs a compiled function finds.

    Parameters
    ----------
    function : int, ctypes function or object with an ``address``
        The oracle: an address, a function of a shared library, or what ``@numba.cfunc(native_signature())`` returns. The
        object is kept alive; behind a bare address, the caller must keep the code alive.
    n_blocks : int
        Number of blocks; the function is asked for 0 to ``n_blocks - 1``.
    n_features : int
        Number of weights, d.
    reals : array of any shape, optional
        The function's data, handed to it as C-contiguous float64. An array that is so already is not copied: do not change
        it afterwards.
    integers : array of any shape, optional
        More of its data, as int64.
    max_entries : int, optional
        Most pairs the function writes for one output; ``n_features`` by default. It must never write more.
    exact : bool, default=True
        Whether the function always finds the maximum; if not, results are not certified.

    Examples
    --------
    >>> from maxmargin.solvers import BCFW
    >>> problem = NativeProblem(oracle, n, d, X, y)  # doctest: +SKIP
    >>> BCFW().solve(problem, 0.01).certified  # doctest: +SKIP
    True
    """

    def __init__(
        self,
        function: Any,
        n_blocks: int,
        n_features: int,
        reals: ArrayLike = (),
        integers: ArrayLike = (),
        *,
        max_entries: int | None = None,
        exact: bool = True,
    ) -> None:
        # The code lives as long as the object that compiled or loaded it.
        self.function = function
        self.n_blocks = _positive("n_blocks", n_blocks)
        self.n_features = _positive("n_features", n_features)
        self.max_entries = self.n_features if max_entries is None else _positive("max_entries", max_entries)
        self.reals = _numbers("reals", reals, np.float64, "fiub")
        self.integers = _numbers("integers", integers, np.int64, "iub")
        self.exact = bool(exact)
        self._data = _core.OracleData(
            _address(function), self.reals, self.integers, self.n_blocks, self.n_features, self.max_entries
        )

    @cached_property
    def block_data(self) -> _core.BlockData | None:
        """For the compiled block solvers; None if a subclass has an oracle of its own."""
        return None if has_own_oracle(self, NativeProblem) else self._data

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output."""
        if not 0 <= block < self.n_blocks:
            raise ValueError(f"block={block} must lie between 0 and {self.n_blocks - 1}")
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        if weights.shape != (self.n_features,):
            raise ValueError(f"weights have shape {weights.shape}, but must have shape ({self.n_features},)")
        return Cut(*self._data.ask(block, weights))

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Those of several blocks, one by one."""
        return [self.cut(block, weights) for block in blocks]


def _positive(name: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} must be an integer") from None
    if not 1 <= number <= _MOST:
        raise ValueError(f"{name}={number} must lie between 1 and {_MOST}")
    return number


def _numbers(name: str, values: ArrayLike, dtype: type, kinds: str) -> NDArray[Any]:
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


def _address(function: Any) -> int:
    """Where the function's code begins."""
    if isinstance(function, _FUNCTION):
        if function._flags_ & _NEEDS_THE_LOCK:
            raise TypeError("function comes from ctypes.PyDLL, but is called without the interpreter's lock; use ctypes.CDLL")
        address = ctypes.cast(function, ctypes.c_void_p).value
    elif hasattr(function, "address"):
        _check_signature(function)
        address = function.address
    else:
        address = function
    if callable(address) or isinstance(address, bool):
        raise TypeError(
            f"function={function!r} is not compiled; compile it with @numba.cfunc(native_signature()), load it with ctypes.CDLL, "
            "or write a StructuredModel in Python"
        )
    try:
        number = index(address)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"function={function!r} must be an address, a ctypes function or an object with an address, such as a numba cfunc"
        ) from None
    if not 0 < number < 2**64:
        raise ValueError(f"function has the address {number}, where no code can be; pass a function that was compiled or loaded")
    return number


def _check_signature(function: Any) -> None:
    """Refuse a numba function with other arguments: it would read and write at random."""
    signature = getattr(function, "_sig", None)
    if signature is not None and signature != native_signature():
        raise TypeError(f"function has the signature {signature}, but must have {native_signature()}: use native_signature()")
