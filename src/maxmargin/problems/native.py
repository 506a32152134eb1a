"""A user's own oracle as compiled code: a function pointer that the compiled solver calls without Python in between.

The function finds the most violating output of a block and writes its features as pairs of an index and a value; the C
signature, what is checked and what is not are in docs/native.md.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib import import_module
from operator import index
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._types import Floats, Ints
from maxmargin.cuts import Cut
from maxmargin.problems.arrays import ArrayProblem
from maxmargin.problems.labelings import LabelingProblem
from maxmargin.structures.forest import TreeWeights

# Features are numbered with 32-bit integers.
_MOST = 2**31 - 1
# The class of all functions that ctypes knows.
_FUNCTION: Any = ctypes.CFUNCTYPE(None).__mro__[1]
# ctypes marks functions that must be called with the interpreter's lock held.
_NEEDS_THE_LOCK = 0x4


def native_signature() -> Any:
    """The signature of an oracle as a numba type, for ``@numba.cfunc(native_signature())``."""
    types = _numba_types("native_signature")
    reals, integers, indices = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int32))
    return types.int64(reals, integers, types.int64, reals, indices, reals, reals)


def decoder_signature() -> Any:
    """The signature of a decoder as a numba type, for ``@numba.cfunc(decoder_signature())``."""
    types = _numba_types("decoder_signature")
    reals, integers, labels = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int32))
    return types.int64(reals, integers, types.int64, types.int64, types.int64, reals, reals, labels)


def _numba_types(name: str) -> Any:
    try:
        return import_module("numba").types
    except ImportError:
        raise ImportError(f"{name}() needs numba; install it with `pip install numba`") from None


class _WithFunction(ArrayProblem):
    """What problems with a compiled function have in common: the function and the arrays it reads."""

    def _take(self, function: Any, signature: Callable[[], Any], reals: ArrayLike, integers: ArrayLike, exact: bool) -> None:
        # The code lives as long as the object that compiled or loaded it.
        self.function, self.exact = function, bool(exact)
        self.reals = _numbers("reals", reals, np.float64, "fiub")
        self.integers = _numbers("integers", integers, np.int64, "iub")
        _address(function, signature)

    def __getstate__(self) -> dict[str, Any]:
        # A bare address would be that of other code elsewhere.
        if not hasattr(self.function, "address"):
            raise TypeError(
                "a problem with a compiled function is pickled only if the function is an object that has an `address` and can "
                "be pickled itself; or make the problem anew where it is needed"
            )
        return super().__getstate__()


class NativeProblem(_WithFunction):
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
        self.n_blocks = _positive("n_blocks", n_blocks)
        self.n_features = _positive("n_features", n_features)
        self.max_entries = self.n_features if max_entries is None else _positive("max_entries", max_entries)
        self._take(function, native_signature, reals, integers, exact)

    @cached_property
    def _data(self) -> _core.CompiledOracle:
        address = _address(self.function, native_signature)
        return _core.CompiledOracle(address, self.reals, self.integers, self.n_blocks, self.n_features, self.max_entries)

    def _compiled(self) -> _core.CompiledOracle:
        return self._data

    def cut(self, block: int, weights: Floats) -> Cut:
        """The most violating output."""
        if not 0 <= block < self.n_blocks:
            raise ValueError(f"block={block} must lie between 0 and {self.n_blocks - 1}")
        weights = np.ascontiguousarray(weights, dtype=np.float64)
        if weights.shape != (self.n_features,):
            raise ValueError(f"weights have shape {weights.shape}, but must have shape ({self.n_features},)")
        return Cut(*self._data.ask(block, weights))


class DecodedProblem(_WithFunction, LabelingProblem):
    """Labels on the nodes of forests, whose best labeling a compiled function finds: with constraints, say.

    The library forms the scores, counts features and losses and keeps the blocks, as it does for :class:`TreeProblem`; the
    function only searches. That is much faster than a :class:`NativeProblem` with the same answers.

    Parameters
    ----------
    decoder : int, ctypes function or object with an ``address``
        An address, a function of a shared library, or what ``@numba.cfunc(decoder_signature())`` returns; see docs/native.md.
    X, y, offsets, parent, n_labels, normalize
        As for :class:`LabelingProblem`; ``parent`` says which pairs of nodes count for the transition weights.
    reals, integers : arrays of any shape, optional
        The function's data, handed to it as C-contiguous float64 and int64.
    exact : bool, default=True
        Whether the function always finds the best of the labelings it allows; if not, results are not certified. The true
        labelings must be among them.
    """

    offers = frozenset({"whole passes"})

    def __init__(
        self,
        decoder: Any,
        X: Any,
        y: ArrayLike,
        offsets: ArrayLike,
        parent: ArrayLike | None,
        n_labels: int,
        *,
        reals: ArrayLike = (),
        integers: ArrayLike = (),
        normalize: bool = True,
        exact: bool = True,
    ) -> None:
        super().__init__(X, y, offsets, parent, n_labels, normalize=normalize)
        self._take(decoder, decoder_signature, reals, integers, exact)

    @cached_property
    def _data(self) -> _core.LabelingData:
        data = self._forest_data()
        data.set_decoder(_address(self.function, decoder_signature), self.reals, self.integers)
        return data

    def _compiled(self) -> _core.LabelingData:
        return self._data

    def _decode(self, blocks: Sequence[int], scores: Floats, parts: TreeWeights, offsets: Ints) -> Any:
        table = np.ascontiguousarray(parts.transition)
        parts_of = np.split(np.ascontiguousarray(scores), offsets[1:-1])
        labels = [self._data.decode(block, own, table) for block, own in zip(blocks, parts_of, strict=True)]
        return np.concatenate(labels).astype(np.int64)


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


def _address(function: Any, signature: Callable[[], Any]) -> int:
    """Where the function's code begins."""
    if isinstance(function, _FUNCTION):
        if function._flags_ & _NEEDS_THE_LOCK:
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
