"""Sets of labels of one sample as the oracle that searches ask: each answer is one call of the compiled decoder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from maxmargin import _core
from maxmargin._utils import Floats
from maxmargin.multilabel.structure import LabelSetStructure
from maxmargin.surrogates import Answer, Candidate, LambdaOracle


class LabelSetOracle(LambdaOracle):
    """Questions about the label sets of one sample at some weights.

    Keys of candidates are the bytes of their sets, outputs the sets themselves, int8 arrays of shape (L,) that are not to be
    written to.

    Parameters
    ----------
    structure : LabelSetStructure
        One whose outputs are sets; halves of labels (`RelaxedLabelSets`) are none.
    x : array of shape (p,) or sparse row
    weights : array of shape (L p + E,)
    truth : array of shape (L,)
        Zeros and ones.

    Examples
    --------
    >>> from maxmargin.surrogates import Slack, hull_search
    >>> structure = LabelSetStructure(3, 1, [(0, 1)])
    >>> oracle = LabelSetOracle(structure, [1.0], np.array([1.0, -0.5, -1.0, 0.75]), [1, 0, 0])
    >>> found = hull_search(Slack(), oracle, [oracle.opposite()])
    >>> found.incumbent.output, found.best, found.exact
    (array([1, 1, 0], dtype=int8), 1.25, True)
    """

    def __init__(self, structure: LabelSetStructure, x: Any, weights: Floats, truth: Any) -> None:
        if structure.relaxed:
            raise TypeError("RelaxedLabelSets may have halves of labels, and this oracle knows sets only; use LabelSetStructure")
        self.structure, self.weights = structure, np.asarray(weights, dtype=np.float64)
        if self.weights.shape != (structure.n_weights,):
            raise ValueError(f"weights has shape {self.weights.shape}, but the structure has {structure.n_weights} weights")
        self.x, self.label_set = structure.encode(x, truth)
        scores = np.ascontiguousarray(structure.unary(self.x, self.weights)[0])
        pairs = np.ascontiguousarray(structure.split(self.weights)[1])
        if not (np.isfinite(scores).all() and np.isfinite(pairs).all()):
            raise ValueError("scores of labels and pairs must be finite numbers; check x and weights")
        self._plane = _core.SetPlane(structure.pairs.graph, scores, pairs, self.label_set.view(np.uint8))
        self._losses = np.arange(structure.n_labels + 1.0)
        # Searches come to the same few sets again and again.
        self._met: dict[bytes, Candidate] = {}
        self.truth = self.candidate(self.label_set)
        self._turned = (1 - self.label_set).tobytes()

    def candidate(self, labels: Any) -> Candidate:
        """A set as a point."""
        key = np.asarray(labels, dtype=np.int8).tobytes()
        return self._met.get(key) or self._meet(*self._plane.point(key), key)

    def _meet(self, h: float, g: float, key: bytes) -> Candidate:
        found = self._met[key] = Candidate(h, g, key, np.frombuffer(key, np.int8))
        return found

    def opposite(self) -> Candidate:
        """The set that is wrong in every label: it has the largest loss, and there is no need to ask for it."""
        key = self._turned
        return self._met.get(key) or self._meet(*self._plane.point(key), key)

    def ask(self, a: float, b: float) -> Answer:
        """By the compiled decoder."""
        self.calls += 1
        h, g, key, upper = self._plane.ask(a, b)
        return Answer(self._met.get(key) or self._meet(h, g, key), upper)

    def k_best(self, a: float, b: float, k: int) -> list[Candidate]:
        """By the structure's own."""
        self.calls += 1
        return [self.candidate(y) for y in self.structure.k_best(self.x, self.weights, self.label_set, a, b, k)]

    def listed(self, a: float, b: float, k: int) -> list[Answer]:
        """The same, with bounds: infinity where the structure may miss the best set."""
        found = self.k_best(a, b, k)
        return [Answer(point, point.along(a, b) if self.structure.exact else np.inf) for point in found]

    def within(self, lam: float, low: float, high: float) -> Answer:
        """By ``decode_within``."""
        self.calls += 1
        labels = self.structure.decode_within(self.x, self.weights, self.label_set, lam, low, high)
        if labels is None:
            return Answer(None, -np.inf)
        found = self.candidate(labels)
        return Answer(found, found.along(1.0, lam))

    def everything(self) -> Iterable[Candidate]:
        """All sets of few labels; one question."""
        self.calls += 1
        return (self.candidate(y) for y in self.structure.all_outputs(self.x))

    def losses(self) -> Floats:
        """Whole numbers."""
        return self._losses

    def most_loss(self) -> float:
        """Every label can be wrong."""
        return float(self.structure.n_labels)
