"""Any structure whose loss-augmented search is a compiled function of the user."""

from __future__ import annotations

from functools import cached_property
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.core import Cut, WithFunction, function_address, numba_types

# Features are numbered with 32-bit integers.
_MOST = 2**31 - 1


def native_signature() -> Any:
    """The signature of an oracle as a numba type, for ``@numba.cfunc(native_signature())``."""
    types = numba_types("native_signature")
    reals, integers, indices = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int32))
    return types.int64(reals, integers, types.int64, reals, indices, reals, reals)


class NativeProblem(WithFunction):
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
    >>> from maxmargin.core.solvers import BCFW
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
        self.n_blocks = _positive("n_blocks", n_blocks)
        self.n_features = _positive("n_features", n_features)
        self.max_entries = self.n_features if max_entries is None else _positive("max_entries", max_entries)
        self._take(function, native_signature, reals, integers, exact)

    @cached_property
    def _data(self) -> _core.CompiledOracle:
        address = function_address(self.function, native_signature)
        return _core.CompiledOracle(address, self.reals, self.integers, self.n_blocks, self.n_features, self.max_entries)

    def make_block_data(self) -> _core.CompiledOracle:
        """Return the compiled form of this problem."""
        return self._data

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output."""
        if not 0 <= block < self.n_blocks:
            raise ValueError(f"block={block} must lie between 0 and {self.n_blocks - 1}")
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        if weights.shape != (self.n_features,):
            raise ValueError(f"weights have shape {weights.shape}, but must have shape ({self.n_features},)")
        return Cut(*self._data.ask(block, weights))


def _positive(name: str, value: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise TypeError(f"{name}={value!r} must be an integer") from None
    if not 1 <= number <= _MOST:
        raise ValueError(f"{name}={number} must lie between 1 and {_MOST}")
    return number
