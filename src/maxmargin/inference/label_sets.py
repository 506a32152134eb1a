"""The best set of labels for scores of labels and of pairs of them (spec 11.1).

The score of a set ``y`` in {0, 1}^L is ``sum_j unary_j y_j + sum over pairs (j, k) of pairs_jk y_j y_k``. Without pairs every
label decides for itself; pairs that form a forest take a dynamic program; few labels are enumerated; pairs that all attract
take a minimum cut. For anything else the linear relaxation over ``mu_j`` and ``mu_jk`` with ``mu_jk <= mu_j``,
``mu_jk <= mu_k`` and ``mu_jk >= mu_j + mu_k - 1`` has a solution of halves and whole numbers, which a minimum cut finds in a
graph where every label is there twice, as itself and as its opposite (roof duality; Hammer, Hansen and Simeone 1984). Labels
that are whole in it are those of some best set, so that only the others, if they are few, remain to be enumerated.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._types import Floats, Int32s
from maxmargin.inference.flow import check_edges

Sets = NDArray[np.int8]

# Up to so many labels all sets are looked at for many samples at once.
_FEW = 10
# So many labels that a relaxation leaves open are enumerated.
_OPEN = 14
# Fewer samples than this are cut one by one on a forest; more are worth a program that goes through the labels in Python.
_ROWS = 16
# Samples whose sets are listed at once.
_CHUNK = 512


class BestSets(NamedTuple):
    """For n samples the best sets found, shape (n, L), and upper bounds (n,) of the best scores; None where these were found."""

    labels: Sets
    upper: Floats | None


class RelaxedSets(NamedTuple):
    """For n samples a solution of the relaxation: zeros, halves and ones of labels (n, L) and pairs (n, E); its value (n,)."""

    labels: Floats
    pairs: Floats
    value: Floats


class LabelPairs:
    """L labels with E pairs of them, and the search for the best set.

    Parameters
    ----------
    n_labels : int
        L.
    pairs : int array of shape (E, 2)
        Different labels, no pair twice. May be empty.

    Examples
    --------
    >>> pairs = LabelPairs(3, [(0, 1), (1, 2), (0, 2)])
    >>> pairs.best([[1.0, -0.5, -2.0]], [1.0, 1.0, -3.0]).labels
    array([[1, 1, 0]], dtype=int8)
    """

    def __init__(self, n_labels: int, pairs: ArrayLike) -> None:
        self.n_labels = n_labels
        self.pairs: Int32s = check_edges(pairs, n_labels)
        low, high = self.pairs.min(axis=1, initial=n_labels), self.pairs.max(axis=1, initial=-1)
        if (low == high).any():
            raise ValueError(f"label {low[(low == high).argmax()]} is paired with itself; its own score says that already")
        codes, counts = np.unique(low.astype(np.int64) * n_labels + high, return_counts=True)
        if (counts > 1).any():
            twice = int(codes[(counts > 1).argmax()])
            raise ValueError(f"the pair of labels {divmod(twice, n_labels)} is there {counts.max()} times; name every pair once")
        self.steps = _forest(n_labels, self.pairs)

    @property
    def exact(self) -> bool:
        """Whether the best set is always found, whatever the scores."""
        return self.steps is not None or self.n_labels <= _OPEN

    def __getstate__(self) -> dict[str, object]:
        # Graphs belong to the process.
        return {name: value for name, value in vars(self).items() if name not in ("_cutter", "_doubled", "_listed_pairs")}

    @cached_property
    def _cutter(self) -> _core.GraphCut:
        return _core.GraphCut(self.n_labels, self.pairs)

    @cached_property
    def _doubled(self) -> _core.GraphCut:
        # Pairs of labels, of their opposites, and of a label with the opposite of the other.
        (j, k), L = self.pairs.T, self.n_labels
        edges = np.concatenate([np.column_stack(ends) for ends in ((j, k), (j + L, k + L), (j, k + L), (k, j + L))])
        return _core.GraphCut(2 * L, np.ascontiguousarray(edges, dtype=np.int32))

    def scores(self, labels: ArrayLike, unary: Floats, pairs: Floats) -> Floats:
        """Of one set per row, shape (n,)."""
        own = np.asarray(labels, dtype=np.float64)
        j, k = self.pairs.T
        return np.asarray((own * unary).sum(axis=-1) + (own[..., j] * own[..., k] * pairs).sum(axis=-1))

    @cached_property
    def _listed_pairs(self) -> Floats:
        sets = all_sets(self.n_labels)
        return sets[:, self.pairs[:, 0]] * sets[:, self.pairs[:, 1]]

    def listed_scores(self, unary: Floats, pairs: Floats) -> Floats:
        """Of all sets, in the order of `all_sets`, shape (2^L,)."""
        return np.asarray(all_sets(self.n_labels) @ unary + self._listed_pairs @ pairs)

    def best(self, unary: ArrayLike, pairs: ArrayLike, relaxed_only: bool = False) -> BestSets:
        """The best set of every sample; of equally good ones that which the search comes to, without labels of no use.

        Parameters
        ----------
        unary : array of shape (n, L)
            Scores of the labels.
        pairs : array of shape (E,) or (n, E)
            Scores of pairs, the same for all samples or their own.
        relaxed_only : bool
            Enumerate nothing beyond what the relaxation leaves open; for tests.
        """
        unary, pairs = self._checked(unary, pairs)
        if not pairs.any():
            return BestSets((unary > 0).astype(np.int8), None)
        if self.steps is not None:
            search = self._switched if len(unary) < _ROWS else self._on_forest
            return BestSets(search(self.steps, unary, pairs), None)
        if self.n_labels <= _FEW and not relaxed_only:
            return BestSets(self._enumerated(unary, pairs), None)
        found = [self._by_cuts(own, own_pairs) for own, own_pairs in zip(unary, pairs, strict=True)]
        labels = np.array([one for one, _ in found], dtype=np.int8).reshape(unary.shape)
        if all(bound is None for _, bound in found):
            return BestSets(labels, None)
        values = self.scores(labels, unary, pairs)
        bounds = [value if bound is None else bound for value, (_, bound) in zip(values, found, strict=True)]
        return BestSets(labels, np.maximum(bounds, values))

    def relaxed(self, unary: ArrayLike, pairs: ArrayLike) -> RelaxedSets:
        """The best point of the relaxation, a set where that is tight."""
        unary, pairs = self._checked(unary, pairs)
        if not pairs.any() or self.steps is not None:
            labels = self.best(unary, pairs).labels.astype(np.float64)
        else:
            labels = np.array([self._halves(own, own_pairs)[0] for own, own_pairs in zip(unary, pairs, strict=True)])
        first, second = labels[:, self.pairs[:, 0]], labels[:, self.pairs[:, 1]]
        # What the constraints leave to a pair: as much as its lesser label if that is good, as little as they must share if not.
        both = np.where(pairs > 0, np.minimum(first, second), np.maximum(first + second - 1.0, 0.0))
        return RelaxedSets(labels, both, (labels * unary).sum(axis=1) + (both * pairs).sum(axis=1))

    def k_best(self, unary: ArrayLike, pairs: ArrayLike, k: int) -> Iterator[tuple[Sets, float]]:
        """Up to k different sets of one sample with their scores, best first.

        After every set the rest is divided by where it first differs from that set (Lawler 1972), and the best set of each part
        is found with the labels before that place fixed. Exact where `best` is.
        """
        own, own_pairs = self._checked(np.asarray(unary)[None], pairs)
        # More than all scores together, so that a label that is worth this much is fixed.
        wall = 1.0 + 2.0 * float(np.abs(own).sum() + np.abs(own_pairs).sum())
        L = self.n_labels
        labels = self.best(own, own_pairs).labels[0]
        waiting: list[tuple[float, Sets, int]] = [(float(self.scores(labels, own[0], own_pairs[0])), labels, 0)]
        for _ in range(k):
            if not waiting:
                return
            place = max(range(len(waiting)), key=lambda at: waiting[at][0])
            value, labels, fixed = waiting.pop(place)
            yield labels, value
            if fixed == L:
                continue
            # Part t has the first labels as they are, up to t, and label t turned.
            turns = np.arange(fixed, L)
            signs = np.where(np.arange(L) < turns[:, None], 1.0, 0.0) - (np.arange(L) == turns[:, None])
            walls = wall * signs * (2.0 * labels - 1.0)
            parts = self.best(own + walls, np.repeat(own_pairs, len(turns), axis=0)).labels
            values = self.scores(parts, own, own_pairs)
            waiting += [(float(score), part, int(turn) + 1) for score, part, turn in zip(values, parts, turns, strict=True)]

    def _checked(self, unary: ArrayLike, pairs: ArrayLike) -> tuple[Floats, Floats]:
        own, own_pairs = np.asarray(unary, dtype=np.float64), np.asarray(pairs, dtype=np.float64)
        if own.ndim != 2 or own.shape[1] != self.n_labels:
            raise ValueError(f"unary has shape {own.shape}, but a row of {self.n_labels} scores per sample is needed")
        if own_pairs.shape not in ((len(self.pairs),), (len(own), len(self.pairs))):
            raise ValueError(f"pairs has shape {own_pairs.shape}, but {len(self.pairs)} are needed, for all samples or each")
        return own, np.broadcast_to(own_pairs, (len(own), len(self.pairs)))

    # ---- the searches ----------------------------------------------------------------------------------------------------------

    def _on_forest(self, steps: list[tuple[int, int, int]], unary: Floats, pairs: Floats) -> Sets:
        """From the leaves up, what a label is worth with all that hangs below it, off and on; then down again."""
        n, L = unary.shape
        off, on = np.zeros((L, n)), np.array(unary.T, order="C")
        beside_off, beside_on = np.zeros((L, n), dtype=bool), np.zeros((L, n), dtype=bool)
        for child, parent, edge in steps:
            if parent < 0:
                continue
            together = on[child] + pairs[:, edge]
            beside_off[child], beside_on[child] = on[child] > off[child], together > off[child]
            off[parent] += np.maximum(off[child], on[child])
            on[parent] += np.maximum(off[child], together)
        labels = np.zeros((L, n), dtype=bool)
        for child, parent, _ in reversed(steps):
            alone = on[child] > off[child] if parent < 0 else np.where(labels[parent], beside_on[child], beside_off[child])
            labels[child] = alone
        return labels.T.astype(np.int8)

    def _switched(self, steps: list[tuple[int, int, int]], unary: Floats, pairs: Floats) -> Sets:
        """By minimum cuts: on a forest there are always labels which, taken for their opposites, leave no pair that repels."""
        labels = np.empty(unary.shape, dtype=np.int8)
        edges = np.arange(len(self.pairs))
        for row, (own, own_pairs) in enumerate(zip(unary, pairs, strict=True)):
            turned, repelling = [0] * self.n_labels, (own_pairs < 0).tolist()
            for child, parent, edge in reversed(steps):
                if parent >= 0:
                    turned[child] = turned[parent] ^ repelling[edge]
            turns = np.array(turned)
            nodes, tables = np.zeros((self.n_labels, 2)), np.zeros((len(edges), 2, 2))
            nodes[np.arange(self.n_labels), 1 - turns] = own
            tables[edges, 1 - turns[self.pairs[:, 0]], 1 - turns[self.pairs[:, 1]]] = own_pairs
            _, found = self._cutter.solve(nodes, tables)
            labels[row] = found ^ turns
        return labels

    def _enumerated(self, unary: Floats, pairs: Floats) -> Sets:
        sets, both = all_sets(self.n_labels), self._listed_pairs
        best = [
            np.argmax(unary[at : at + _CHUNK] @ sets.T + pairs[at : at + _CHUNK] @ both.T, axis=1)
            for at in range(0, len(unary), _CHUNK)
        ]
        return sets[np.concatenate(best)].astype(np.int8) if best else np.zeros((0, self.n_labels), dtype=np.int8)

    def _by_cuts(self, unary: Floats, pairs: Floats) -> tuple[Sets, float | None]:
        """The best set, or a good one with a bound."""
        if (pairs >= 0).all():
            return self._attracted(unary, pairs), None
        halves, value = self._halves(unary, pairs)
        labels = (halves > 0.5).astype(np.int8)
        free = np.flatnonzero(halves == 0.5)
        if len(free) == 0:
            return labels, None
        matrix = np.zeros((self.n_labels, self.n_labels))
        matrix[self.pairs[:, 0], self.pairs[:, 1]] = pairs
        matrix += matrix.T
        if len(free) <= _OPEN:
            # Whole labels are those of some best set, so that the others are all that is left to decide.
            sets = all_sets(len(free))
            own = unary[free] + matrix[free] @ labels
            inner = matrix[np.ix_(free, free)]
            labels[free] = sets[np.argmax(sets @ own + 0.5 * np.einsum("sj,sj->s", sets @ inner, sets))]
            return labels, None
        starts = labels, np.where(halves > 0, 1, 0).astype(np.int8)
        improved = [_climbed(start, unary, matrix) for start in starts]
        return max(improved, key=lambda one: float(self.scores(one, unary, pairs))), value

    def _attracted(self, unary: Floats, pairs: Floats) -> Sets:
        tables = np.zeros((len(pairs), 2, 2))
        tables[:, 1, 1] = pairs
        _, labels = self._cutter.solve(np.column_stack([np.zeros(len(unary)), unary]), tables)
        return labels.astype(np.int8)

    def _halves(self, unary: Floats, pairs: Floats) -> tuple[Floats, float]:
        """Zeros, halves and ones that solve the relaxation, and its value."""
        if (pairs >= 0).all():
            labels = self._attracted(unary, pairs)
            return labels.astype(np.float64), float(self.scores(labels, unary, pairs))
        half, L = 0.5 * unary, self.n_labels
        nodes = np.zeros((2 * L, 2))
        # Half of the score for a label that is on, and half for its opposite that is off; likewise for pairs.
        nodes[:L, 1], nodes[L:, 0] = half, half
        tables = np.zeros((4, len(pairs), 2, 2))
        attracting, repelling = 0.5 * np.maximum(pairs, 0.0), 0.5 * np.minimum(pairs, 0.0)
        tables[0, :, 1, 1], tables[1, :, 0, 0] = attracting, attracting
        tables[2, :, 1, 0], tables[3, :, 1, 0] = repelling, repelling
        value, sides = self._doubled.solve(nodes, tables.reshape(-1, 2, 2))
        return 0.5 * (sides[:L] + (1.0 - sides[L:])), float(value)


@cache
def all_sets(n_labels: int) -> Floats:
    """Every set of labels, shape (2^L, L): the binary numbers, the last label counting least."""
    numbers = np.arange(2**n_labels)
    sets = (numbers[:, None] >> np.arange(n_labels - 1, -1, -1)) & 1
    found = sets.astype(np.float64)
    found.setflags(write=False)
    return found


def _forest(n_labels: int, pairs: Int32s) -> list[tuple[int, int, int]] | None:
    """(child, parent, edge) with children before their parents, -1 for a root's; None if the pairs have a circle."""
    beside: list[list[tuple[int, int]]] = [[] for _ in range(n_labels)]
    for edge, (j, k) in enumerate(pairs.tolist()):
        beside[j].append((k, edge))
        beside[k].append((j, edge))
    seen, steps = [False] * n_labels, list[tuple[int, int, int]]()
    for root in range(n_labels):
        if seen[root]:
            continue
        seen[root] = True
        waiting = [(root, -1, -1)]
        while waiting:
            node, parent, edge = waiting.pop()
            steps.append((node, parent, edge))
            for other, between in beside[node]:
                if between == edge:
                    continue
                if seen[other]:
                    return None
                seen[other] = True
                waiting.append((other, node, between))
    return steps[::-1]


def _climbed(labels: Sets, unary: Floats, matrix: Floats) -> Sets:
    """Turn the label that gains most until none gains."""
    own = labels.astype(np.float64)
    gains = unary + matrix @ own
    # Every turn gains more than rounding, so that there is an end.
    least = 1e-12 * (1.0 + float(np.abs(unary).sum()))
    while True:
        turned = np.where(own > 0, -gains, gains)
        best = int(turned.argmax())
        if turned[best] <= least:
            return own.astype(np.int8)
        own[best] = 1.0 - own[best]
        gains += (2.0 * own[best] - 1.0) * matrix[best]
