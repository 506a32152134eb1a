"""A sample as surrogates see it: what an output means for it, with a check of everything a user's code returns."""

from __future__ import annotations

from collections.abc import Hashable
from numbers import Real
from typing import Any

import numpy as np

from maxmargin.core import Cut, SparseVector, Structure, as_vector, difference, encoded, entries

# Outputs that are kept for an audit, the latest ones.
_KEPT = 8


class Sample:
    """An input ``x`` with its ``truth``, as the structure codes them, and their joint ``feature`` of length ``n_features``.

    Its ``number`` is for messages; outputs that were found for it are in ``seen``, if they are to be kept.
    """

    def __init__(self, structure: Structure, number: int, x: Any, y: Any) -> None:
        self.x, self.truth = encoded(structure, number, x, y)
        self.number = number
        self.feature, self.n_features = as_vector(structure.joint_feature(self.x, self.truth))
        if not np.isfinite(entries(self.feature)[1]).all():
            raise ValueError(f"joint_feature of the truth of sample {number} has entries that are NaN or infinite")
        self.seen: dict[Any, Any] | None = None
        # Questions to the decoder so far; the truth and outputs to begin the next search with, by their keys; the largest loss,
        # once it is known.
        self.queries = 0
        self.own: tuple[Hashable, Any] | None = None
        self.warm: dict[Hashable, Any] = {}
        self.most_loss: float | None = None
        own = self._loss(structure, self.truth)
        if own != 0:
            raise ValueError(f"loss(y, y) must be zero, but is {own} for sample {number}")

    def _loss(self, structure: Structure, y: Any) -> float:
        loss = structure.loss(self.truth, y)
        if type(loss) is not float and not isinstance(loss, Real | np.bool_):
            raise TypeError(f"loss must return a number, but returned {loss!r} for sample {self.number}")
        if not 0 <= loss < np.inf:
            raise ValueError(f"loss must be finite and not negative or NaN, but is {loss} for sample {self.number}")
        return float(loss)

    def cut(self, structure: Structure, y: Any) -> Cut:
        """Features and loss of an output against the truth."""
        loss = self._loss(structure, y)
        feature, length = as_vector(structure.joint_feature(self.x, y))
        if length != self.n_features:
            raise ValueError(
                f"joint_feature has length {length} for an output of sample {self.number}, but {self.n_features} for its truth"
            )
        return Cut(difference(self.feature, feature), loss)

    def remember(self, cut: Cut, y: Any) -> None:
        """Keep the output for an audit, if that was asked for and it is new."""
        if self.seen is None:
            return
        parts = cut.psi if isinstance(cut.psi, SparseVector) else (cut.psi,)
        self.seen[cut.loss, *(hash(part.tobytes()) for part in parts)] = y
        if len(self.seen) > _KEPT:
            del self.seen[next(iter(self.seen))]
