"""The most violating sets of labels of many samples at once, for any surrogate.

Every sample has scores of its labels, all share those of pairs. Outputs are points ``(h, g)`` of margin error and loss (Hamming:
how many labels are wrong), and the hinge is the largest ``psi(h, g)``. Four ways to find it:

- margin rescaling asks for the best set once;
- few labels are enumerated, which is exact for every surrogate;
- without pairs the best set that is wrong in g labels has those that gain most by being turned: one sort tells ``h`` for every g
  (the count program of spec 7.4, where it is trivial), which is exact too;
- elsewhere the hull of the points is searched, all samples in step (spec 10.2 with E15), and for the F1 of a set its special
  case, the ascent of Dinkelbach (spec 6.7). Losses are whole numbers, and no set lies above a line that was asked for: that
  bounds what the search may have missed.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Ints, threads_for
from maxmargin.multilabel.inference import LabelPairs, all_sets, pair_values
from maxmargin.surrogates import Margin, MicroF1, Surrogate, compiled_surrogate

# Up to so many labels every set is looked at.
_FEW = 8
# Samples whose sets are listed at once.
_CHUNK = 512
# The hull of integer losses has at most a corner for each, but rounding must not keep a search alive.
_ROUNDS = 60
# What counts as above a line, relative to the sizes of scores.
_ROUNDING = 1e-10


class Violations(NamedTuple):
    """The most violating sets of n samples.

    Attributes
    ----------
    labels : array of shape (n, L)
        Zeros and ones, and halves where the relaxation has them; the truth where nothing violates.
    error : array of shape (n,)
        Margin errors, scores minus those of the truth.
    value, slope : arrays of shape (n,)
        ``psi`` there, and its derivative by the margin error.
    bound : array of shape (n,), or None
        Upper bounds of the hinges; None if these were found.
    queries : int
        How often a best set was asked for.
    """

    labels: Floats
    error: Floats
    value: Floats
    slope: Floats
    bound: Floats | None
    queries: int


class SetSearch:
    """Label sets with a surrogate.

    Parameters
    ----------
    pairs : LabelPairs
        Labels, and which pairs of them have scores.
    surrogate : Surrogate
        ``psi``.
    relaxed : bool
        Whether halves are outputs too, see :meth:`LabelPairs.relaxed`.
    """

    def __init__(self, pairs: LabelPairs, surrogate: Surrogate, relaxed: bool = False) -> None:
        self.pairs, self.surrogate, self.relaxed = pairs, surrogate, relaxed
        form = compiled_surrogate(surrogate)
        # How compiled searches are told of all this; None if they do not know the surrogate.
        self.form = None if form is None else (*form, relaxed, surrogate.search == "hull")

    def __getstate__(self) -> dict[str, Any]:
        # Compiled forms belong to the process.
        return {name: value for name, value in vars(self).items() if name != "_compiled"}

    @cached_property
    def _compiled(self) -> _core.SetSearch | None:
        return None if self.form is None else _core.SetSearch(self.pairs.graph, *self.form)

    def search(self, scores: Floats, pair_scores: Floats, truth: NDArray[np.int8]) -> Violations:
        """The most violating sets.

        Parameters
        ----------
        scores : array of shape (n, L)
            Of labels.
        pair_scores : array of shape (E,)
            Of pairs.
        truth : int8 array of shape (n, L)
            The true sets.
        """
        if self._compiled is not None:
            return self._found(scores, pair_scores, truth)
        return self.in_step(scores, pair_scores, truth)

    def _found(self, scores: Floats, pair_scores: Floats, truth: NDArray[np.int8]) -> Violations:
        """By the compiled search."""
        assert self._compiled is not None
        labels, error, a, b, bound, queries = self._compiled.search(
            np.ascontiguousarray(scores, dtype=np.float64),
            np.ascontiguousarray(pair_scores, dtype=np.float64),
            np.ascontiguousarray(truth).view(np.uint8),
            threads_for(len(scores)),
        )
        value = a * error + b
        missed = bound > value + 1e-9 * (1.0 + np.abs(value))
        return Violations(labels, error, value, a, np.where(missed, bound, value) if missed.any() else None, queries)

    def in_step(self, scores: Floats, pair_scores: Floats, truth: NDArray[np.int8]) -> Violations:
        """The same for surrogates of one's own, whose psi is asked for many outputs at once: all samples in step."""
        plane = _Plane(self, scores, pair_scores, truth)
        if type(self.surrogate) is Margin:
            return plane.asked_once()
        search, loose = self.surrogate.search, self.relaxed and not plane.separate and not self.pairs.is_forest
        if not loose and (search == "enumerate" or (search == "auto" and self.pairs.n_labels <= _FEW)):
            return plane.enumerated()
        if isinstance(self.surrogate, MicroF1):
            return plane.ascended()
        if plane.separate and search == "auto":
            return plane.sorted()
        return plane.on_hull()


class _Plane:
    """Outputs of n samples as points ``(h, g)``."""

    def __init__(self, search: SetSearch, scores: Floats, pair_scores: Floats, truth: NDArray[np.int8]) -> None:
        self.pairs, self.surrogate, self.relaxed = search.pairs, search.surrogate, search.relaxed
        self.scores, self.pair_scores = scores, pair_scores
        self.truth = truth.astype(np.float64)
        # What turning a label adds to the loss; and the size of the true set, which is the loss of the empty one.
        self.turns, self.sizes = 1.0 - 2.0 * self.truth, self.truth.sum(axis=1)
        self.separate = not pair_scores.any()
        self.own = self.worth(self.truth, slice(None))
        self.of_sizes = isinstance(search.surrogate, MicroF1)
        # Of the numbers that are added up: what rounding is measured by.
        self.scale = 1.0 + np.abs(scores).sum(axis=1) + float(np.abs(pair_scores).sum()) + truth.shape[1]
        self.queries = 0

    def worth(self, labels: Floats, rows: Any) -> Floats:
        """Scores of a set, or of a point of the relaxation, for each of some samples."""
        found: Floats = (labels * self.scores[rows]).sum(axis=1)
        if self.separate:
            return found
        first, second = labels[:, self.pairs.pairs[:, 0]], labels[:, self.pairs.pairs[:, 1]]
        return found + np.asarray(pair_values(first, second, self.pair_scores) @ self.pair_scores)

    def points(self, labels: Floats, rows: Any) -> tuple[Floats, Floats]:
        """``h`` and ``g`` as the surrogate has them."""
        error = self.worth(labels, rows) - self.own[rows]
        wrong = self.sizes[rows] + (self.turns[rows] * labels).sum(axis=1)
        if self.of_sizes:
            return wrong + error, -labels.sum(axis=1) - self.sizes[rows]
        return error, wrong

    def ask(self, a: Floats, b: Floats, c: Floats | None, rows: Ints) -> tuple[Floats, Floats | None]:
        """The best ``a * score + b * loss - c * size`` of some samples, and how much more there may be."""
        self.queries += len(rows)
        unary = a[:, None] * self.scores[rows] + b[:, None] * self.turns[rows]
        if c is not None:
            unary -= c[:, None]
        pairs = self.pair_scores if (a == a[:1]).all() and len(a) and a[0] == 1 else a[:, None] * self.pair_scores
        if self.relaxed:
            return self.pairs.relaxed(unary, pairs).labels, None
        found = self.pairs.best(unary, pairs)
        labels = found.labels.astype(np.float64)
        if found.upper is None:
            return labels, None
        return labels, np.maximum(found.upper - self.pairs.scores(labels, unary, pairs), 0.0)

    def answer(self, labels: Floats, bound: Floats | None) -> Violations:
        """What was found, with its tangent; nothing where the truth is best."""
        h, g = self.points(labels, slice(None))
        is_truth = (labels == self.truth).all(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            value, slope = np.asarray(self.surrogate.value(h, g)), np.asarray(self.surrogate.gradient(h, g)[0])
        # Better than any set that is worse than the truth, whose psi is zero.
        none = is_truth | ~(value > 0)
        labels = np.where(none[:, None], self.truth, labels)
        value, slope = np.where(none, 0.0, value), np.where(none, 0.0, slope)
        error = np.where(none, 0.0, self.worth(labels, slice(None)) - self.own)
        if bound is not None:
            bound = np.where(bound <= value + _ROUNDING * self.scale, value, bound)
        return Violations(labels, error, value, slope, bound, self.queries)

    # ---- exact for every surrogate ---------------------------------------------------------------------------------------------

    def asked_once(self) -> Violations:
        """Margin rescaling."""
        ones, everyone = np.ones(len(self.scores)), np.arange(len(self.scores))
        labels, excess = self.ask(ones, ones, None, everyone)
        found = self.answer(labels, None)
        return found if excess is None else found._replace(bound=found.value + excess)

    def enumerated(self) -> Violations:
        """Every set of labels."""
        sets = all_sets(self.pairs.n_labels)
        together = (sets[:, self.pairs.pairs[:, 0]] * sets[:, self.pairs.pairs[:, 1]]) @ self.pair_scores
        best = []
        for at in range(0, len(self.scores), _CHUNK):
            rows = slice(at, at + _CHUNK)
            error = self.scores[rows] @ sets.T + together - self.own[rows, None]
            wrong = self.sizes[rows, None] + self.turns[rows] @ sets.T
            h, g = (wrong + error, -sets.sum(axis=1) - self.sizes[rows, None]) if self.of_sizes else (error, wrong)
            # The truth where nothing violates: it does so by zero, whatever psi says of it.
            ranked = self._ranked(h, g)
            ranked[(wrong == 0)] = -np.inf
            best.append(np.argmax(ranked, axis=1))
        self.queries += len(self.scores)
        return self.answer(sets[np.concatenate(best)], None)

    def sorted(self) -> Violations:
        """Labels that decide for themselves: those that gain most by being turned, for every number of them."""
        gains = self.turns * self.scores
        order = np.argsort(-gains, axis=1)
        error = np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
        wrong = np.broadcast_to(np.arange(1.0, gains.shape[1] + 1.0), error.shape)
        n_turned = np.argmax(self._ranked(error, wrong), axis=1) + 1
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(gains.shape[1]), order.shape), axis=1)
        self.queries += len(gains)
        return self.answer(np.where(ranks < n_turned[:, None], 1.0 - self.truth, self.truth), None)

    # ---- by questions ----------------------------------------------------------------------------------------------------------

    def ascended(self) -> Violations:
        """Dinkelbach: ask for ``loss + margin error - psi * (sizes of both sets)`` with the largest psi so far, until it is 0."""
        n = len(self.scores)
        level, labels, bound = np.zeros(n), self.truth.copy(), np.zeros(n)
        rows, inexact = np.arange(n), False
        for _ in range(_ROUNDS):
            ones = np.ones(len(rows))
            found, excess = self.ask(ones, ones, level[rows], rows)
            h, g = self.points(found, rows)
            value = np.where(g < 0, h / np.where(g < 0, -g, 1.0), 0.0)
            if excess is not None:
                inexact = True
                # No set is worth more than this at the level asked for, and sizes are at least one.
                most = h + level[rows] * g + excess
                bound[rows] = level[rows] + np.maximum(most, 0.0) / np.maximum(self.sizes[rows], 1.0)
            better = value > level[rows] + _ROUNDING * self.scale[rows]
            level[rows[better]], labels[rows[better]] = value[better], found[better]
            rows = rows[better]
            if len(rows) == 0:
                break
        else:
            inexact = True
            bound[rows] = np.inf
        return self.answer(labels, np.maximum(bound, level) if inexact else None)

    def on_hull(self) -> Violations:
        """Corners of the upper right hull of all points, until no set lies above the line through the best of them."""
        n, everyone = len(self.scores), np.arange(len(self.scores))
        # Every sample's points, in columns; the truth and its opposite, which has the largest loss, need no question.
        seen = [self.truth, 1.0 - self.truth]
        H, G = (np.column_stack(parts) for parts in zip(*(self.points(labels, everyone) for labels in seen), strict=True))
        # All losses there are, and the largest margin error that an output with each of them can have.
        grid = np.arange(1, (2 if self.relaxed else 1) * self.pairs.n_labels + 1) / (2 if self.relaxed else 1)
        top = np.full((n, len(grid)), np.inf)
        rows = everyone
        for _ in range(_ROUNDS):
            best, weight = self._line(H[rows], G[rows])
            a, b = np.where(weight <= 1, 1.0, 1.0 / np.maximum(weight, 1.0)), np.minimum(weight, 1.0)
            found, excess = self.ask(a, b, None, rows)
            h, g = self.points(found, rows)
            at = np.arange(len(rows)), best
            above = a * (h - H[rows][at]) + b * (g - G[rows][at])
            most = a * h + b * g + (0.0 if excess is None else excess)
            with np.errstate(divide="ignore", invalid="ignore"):
                line = (most[:, None] - b[:, None] * grid) / a[:, None]
            top[rows] = np.where(a[:, None] > 0, np.minimum(top[rows], line), top[rows])
            new = above > _ROUNDING * self.scale[rows]
            rows, found = rows[new], found[new]
            if len(rows) == 0:
                break
            # Samples that are done have the truth once more.
            labels, column_h, column_g = self.truth.copy(), np.zeros(n), np.zeros(n)
            labels[rows], column_h[rows], column_g[rows] = found, h[new], g[new]
            seen.append(labels)
            H, G = np.column_stack([H, column_h]), np.column_stack([G, column_g])
        chosen = np.argmax(self._ranked(H, G), axis=1)
        bound = np.max(self.surrogate.value(top, grid), axis=1)
        return self.answer(np.stack(seen, axis=1)[everyone, chosen], np.maximum(bound, 0.0))

    def _ranked(self, H: Floats, G: Floats) -> Floats:
        """By which outputs are compared: minus infinity for the truth, and where psi is negative."""
        with np.errstate(all="ignore"):
            value, order = np.asarray(self.surrogate.value(H, G)), np.asarray(self.surrogate.order(H, G))
        return np.where((G != 0) & (value > 0) & ~np.isnan(order), order, -np.inf)

    def _line(self, H: Floats, G: Floats) -> tuple[Ints, Floats]:
        """The corner with the largest psi, and the weight of the loss for the next question.

        Corners are best for weights between those of the edges on either side. The question goes along the tangent if its weight
        is among these; otherwise along the edge to the neighbour that is above the tangent (E15: in print, below).
        """
        over, beside = G[:, None, :] - G[:, :, None], H[:, None, :] - H[:, :, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            edges = -beside / over
        least = np.where(over < 0, edges, -np.inf).max(axis=2)
        most = np.where(over > 0, edges, np.inf).min(axis=2)
        dominated = ((over == 0) & (beside > 0)).any(axis=2)
        corner = ~dominated & (np.maximum(least, 0.0) <= most + _ROUNDING * (1.0 + np.abs(most)))
        # The truth, which comes first, if nothing violates.
        best = np.argmax(np.where(corner, self._ranked(H, G), -np.inf), axis=1)
        at = np.arange(len(H)), best
        with np.errstate(all="ignore"):
            tangent = np.asarray(self.surrogate.tangent(H[at], G[at]), dtype=np.float64)
        # At the truth every contour is level, and the loss alone counts.
        tangent = np.where(np.isnan(tangent), np.inf, tangent)
        return best, np.maximum(np.minimum(np.maximum(tangent, least[at]), most[at]), 0.0)
