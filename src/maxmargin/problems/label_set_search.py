"""The most violating sets of labels of many samples at once, for any surrogate.

Every sample has scores of its labels, all share those of pairs. Outputs are points ``(h, g)`` of margin error and loss (Hamming: how
many labels are wrong), and the hinge is the largest ``psi(h, g)``. Four ways to find it:

- margin rescaling asks for the best set once;
- few labels are enumerated, which is exact for every surrogate;
- without pairs the best set that is wrong in g labels has those that gain most by being turned: one sort tells ``h`` for every g
  (the count program of spec 7.4, where it is trivial), which is exact too;
- elsewhere the hull of the points is searched, all samples in step (spec 10.2 with E15), and for the F1 of a set its special case,
  the ascent of Dinkelbach (spec 6.7). What lies between two corners of the hull bounds what a set inside of it could be worth.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin._types import Floats, Ints
from maxmargin.inference.label_sets import LabelPairs, all_sets
from maxmargin.surrogates import Margin, MicroF1, Surrogate

# Up to so many labels every set is looked at.
_FEW = 8
# Samples whose sets are listed at once.
_CHUNK = 512
# The hull of integer losses has at most a corner for each, but rounding must not keep a search alive.
_ROUNDS = 60
# What counts as above a line, relative to the sizes of scores.
_ROUNDING = 1e-10
# Steps of the search between two corners: the interval shrinks by 0.618 each time.
_GOLDEN = 60


class Violations(NamedTuple):
    """For n samples: the sets found (n, L), points of the relaxation if halves are among them; ``psi`` there and its derivative by
    the margin error; upper bounds of the hinges, None if these were found; and how many sets were asked for in all.
    """

    labels: Floats
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
        plane = _Plane(self, scores, pair_scores, truth)
        if type(self.surrogate) is Margin:
            return plane.asked_once()
        search, loose = self.surrogate.search, self.relaxed and not plane.separate and self.pairs.steps is None
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
        self.own = self.worth(self.truth, slice(None))
        self.of_sizes = isinstance(search.surrogate, MicroF1)
        self.separate = not pair_scores.any()
        # Of the numbers that are added up: what rounding is measured by.
        self.scale = 1.0 + np.abs(scores).sum(axis=1) + float(np.abs(pair_scores).sum()) + truth.shape[1]
        self.queries = 0

    def worth(self, labels: Floats, rows: Any) -> Floats:
        """Scores of a set, or of a point of the relaxation, for each of some samples."""
        together = (labels[:, self.pairs.pairs[:, 0]], labels[:, self.pairs.pairs[:, 1]])
        found: Floats = (labels * self.scores[rows]).sum(axis=1)
        return found + pair_values(*together, self.pair_scores) @ self.pair_scores

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
        return Violations(labels, value, slope, None if bound is None else np.maximum(bound, value), self.queries)

    # ---- exact for every surrogate ----------------------------------------------------------------------------------------------

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
            best.append(np.argmax(self._order(h, g), axis=1))
        self.queries += len(self.scores)
        return self.answer(sets[np.concatenate(best)], None)

    def sorted(self) -> Violations:
        """Labels that decide for themselves: those that gain most by being turned, for every number of them."""
        gains = self.turns * self.scores
        order = np.argsort(-gains, axis=1)
        error = np.cumsum(np.take_along_axis(gains, order, axis=1), axis=1)
        wrong = np.broadcast_to(np.arange(1.0, gains.shape[1] + 1.0), error.shape)
        n_turned = np.argmax(self._order(error, wrong), axis=1) + 1
        ranks = np.empty_like(order)
        np.put_along_axis(ranks, order, np.broadcast_to(np.arange(gains.shape[1]), order.shape), axis=1)
        self.queries += len(gains)
        return self.answer(np.where(ranks < n_turned[:, None], 1.0 - self.truth, self.truth), None)

    def _order(self, h: Floats, g: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.asarray(self.surrogate.order(h, g))
        # The truth, and the empty set if that is the truth.
        return np.where(g == 0, np.asarray(self.surrogate.order(0.0, 1.0)) * 0.0 if self.of_sizes else -np.inf, found)

    # ---- by questions ---------------------------------------------------------------------------------------------------------------

    def ascended(self) -> Violations:
        """Dinkelbach: ask for ``loss + margin error - psi * (sizes of both sets)`` with the largest psi so far, until it is zero."""
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
        n = len(self.scores)
        # Every sample's points, in columns; the truth is the first.
        H, G = np.zeros((n, 1)), np.zeros((n, 1))
        seen = [self.truth]
        value, weight = np.zeros(n), np.zeros(n)
        best = np.zeros(n, dtype=np.int64)
        slack = np.zeros(n)
        rows, unfinished = np.arange(n), np.zeros(n, dtype=bool)
        for _ in range(_ROUNDS):
            best[rows], weight[rows] = self._line(H[rows], G[rows])
            endless = np.isinf(weight[rows])
            a, b = np.where(endless, 0.0, 1.0), np.where(endless, 1.0, weight[rows])
            found, excess = self.ask(a, b, None, rows)
            h, g = self.points(found, rows)
            at = rows, best[rows]
            above = a * (h - H[at]) + b * (g - G[at])
            new = above > _ROUNDING * (self.scale[rows] + b * self.pairs.n_labels)
            slack[rows] = 0.0 if excess is None else excess + np.maximum(above, 0.0)
            labels = seen[0].copy()
            labels[rows[new]] = found[new]
            column_h, column_g = np.zeros(n), np.zeros(n)
            column_h[rows[new]], column_g[rows[new]] = h[new], g[new]
            seen.append(labels)
            H, G = np.column_stack([H, column_h]), np.column_stack([G, column_g])
            rows = rows[new]
            if len(rows) == 0:
                break
        else:
            unfinished[rows] = True
        with np.errstate(divide="ignore", invalid="ignore"):
            values = np.where(G > 0, self._order(H, G), -np.inf)
        values[:, 0] = self.surrogate.order(0.0, 1.0) * 0.0 if np.isfinite(values).any() else 0.0
        chosen = np.argmax(np.where(G > 0, values, -np.inf), axis=1)
        labels = np.stack(seen, axis=1)[np.arange(n), chosen]
        del value
        bound = self._between(H, G, best, weight, slack)
        bound[unfinished] = np.inf
        return self.answer(labels, bound)
