"""Labelings whose decoder is a compiled function of the user."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, Ints
from maxmargin.core import WithFunction, function_address, numba_types
from maxmargin.sequences.forest import TreeWeights
from maxmargin.sequences.problem import LabelingProblem


def decoder_signature() -> Any:
    """The signature of a decoder as a numba type, for ``@numba.cfunc(decoder_signature())``."""
    types = numba_types("decoder_signature")
    reals, integers, labels = (types.CPointer(kind) for kind in (types.float64, types.int64, types.int32))
    return types.int64(reals, integers, types.int64, types.int64, types.int64, reals, reals, labels)


class DecodedProblem(WithFunction, LabelingProblem):
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
        data.set_decoder(function_address(self.function, decoder_signature), self.reals, self.integers)
        return data

    def make_block_data(self) -> _core.LabelingData:
        """Return the compiled form of this problem."""
        return self._data

    def _decode(self, blocks: Sequence[int], scores: Floats, parts: TreeWeights, offsets: Ints) -> Any:
        table = np.ascontiguousarray(parts.transition)
        parts_of = np.split(np.ascontiguousarray(scores), offsets[1:-1])
        labels = [self._data.decode(block, own, table) for block, own in zip(blocks, parts_of, strict=True)]
        return np.concatenate(labels).astype(np.int64)
