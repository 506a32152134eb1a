"""Samples with a label, or a set of labels, out of a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._types import Floats, Ints
from maxmargin.cuts import Cut, SparseVector
from maxmargin.problems.arrays import ArrayProblem, compiled_features
from maxmargin.problems.multiclass import row_of
from maxmargin.problems.weighted import check_weights
from maxmargin.structures.hierarchy import HierarchySetStructure, HierarchyStructure
from maxmargin.structures.rows import row_norms
from maxmargin.surrogates import GeneralizedScaling, Margin, Slack, Surrogate

# Samples whose labels are scored at once.
_BATCH = 1024
# The powers (of the loss, of the margin error's factor) of the variant in which every margin is that of unit features, (6.13).
FULLY_NORMALIZED = (0.0, -1.0)


def powers_of(surrogate: Surrogate) -> tuple[float, float] | None:
    """(a, b) if the surrogate is ``h g^b + g^a``."""
    if type(surrogate) is Margin:
        return 1.0, 0.0
    if type(surrogate) is Slack:
        return 1.0, 1.0
    if isinstance(surrogate, GeneralizedScaling) and type(surrogate).__module__.startswith("maxmargin."):
        return float(surrogate.alpha), float(surrogate.beta)
    return None


class HierarchyProblem(ArrayProblem):
    """One label per sample, all labels looked at, so that every surrogate is exact.

    Parameters
    ----------
    structure : HierarchyStructure
    X : array or CSR matrix of shape (n, p)
    y : int array of shape (n,)
        Labels 0 to K - 1.
    surrogate : Surrogate, optional
        Margin rescaling by default.
    sample_weight : array of shape (n,), optional
        The hinge of every sample is multiplied by its weight.
    fully_normalized : bool, default=False
        Instead of a surrogate: ``1 + h / g`` for wrong labels, with the loss g the norm of the difference of attributes.
    """

    offers = frozenset({"whole passes", "exact steps"})

    def __init__(
        self,
        structure: HierarchyStructure,
        X: Any,
        y: Ints,
        surrogate: Surrogate | None = None,
        sample_weight: ArrayLike | None = None,
        fully_normalized: bool = False,
    ) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        self.structure, self.X, self.y = structure, X, np.asarray(y, dtype=np.int64)
        self.surrogate = Margin() if surrogate is None else surrogate
        self.powers = FULLY_NORMALIZED if fully_normalized else powers_of(self.surrogate)
        # Tangents of a function that is not convex are no lower bounds.
        self.convex = self.exact = fully_normalized or self.surrogate.convex
        self.sample_weight = check_weights(sample_weight, len(y))
        self._counts = np.ones(len(y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks = len(y)
        self.n_features = len(structure.hierarchy) * X.shape[1]

    @property
    def capabilities(self) -> Any:
        """Exact steps only where there is a compiled form."""
        return super().capabilities if self.powers is not None else super().capabilities - {"exact steps"}

    def _contents(self) -> tuple[Any, ...]:
        own, loss = self.structure, self.structure.loss_of
        names = repr(own.hierarchy.nodes), own.hierarchy.edges, own.labels, own.alpha, own.costs, loss.per_node, loss.root
        return (self.X, self.y, *names, repr(self.surrogate), repr(self.powers), self.sample_weight)

    def _compiled(self) -> _core.BlockData | None:
        if self.powers is None:
            return None
        own, rows, loss = self.structure, self.structure.attributes, self.structure.loss_of
        per_node = None if own.costs is not None or loss.per_node is None else np.ascontiguousarray(loss.per_node)
        return _core.HierarchyData(
            compiled_features(self.X),
            self.y.astype(np.int32),
            rows.indptr.astype(np.int64),
            rows.indices.astype(np.int32),
            np.ascontiguousarray(rows.data),
            len(own.hierarchy),
            per_node,
            loss.root,
            own.costs,
            *self.powers,
            self.sample_weight,
        )

    def _worst(self, chosen: Any, weights: Floats) -> tuple[Ints, Floats, Floats]:
        """The most violating labels of some samples; what their features count, and their losses, in the tangent."""
        at = np.arange(len(chosen))
        scores, losses = self.structure.scores(self.X[chosen], weights), self.structure.losses(self.y[chosen])
        errors = scores - scores[at, self.y[chosen]][:, None]
        if self.powers is None:
            values = self.surrogate.value(errors, losses)
            slopes = np.broadcast_to(self.surrogate.gradient(errors, losses)[0], values.shape)
        else:
            with np.errstate(divide="ignore"):
                # A label without loss is as good as the truth.
                slopes = np.where(losses > 0, losses ** self.powers[1], 1.0 if self.powers[1] == 0 else 0.0)
                values = slopes * errors + np.where(losses > 0, losses ** self.powers[0], 0.0)
        values[at, self.y[chosen]] = 0.0
        best = np.argmax(values, axis=1)
        slope = slopes[at, best]
        return best, slope, values[at, best] - slope * errors[at, best]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangents at the most violating labels, by matrix products; sparse."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        found = []
        for first in range(0, len(chosen), _BATCH):
            part = chosen[first : first + _BATCH]
            for block, label, slope, loss in zip(part, *self._worst(part, weights), strict=True):
                difference = self.structure.attributes[[self.y[block]]] - self.structure.attributes[[label]]
                found.append(
                    _sparse_cut(difference.toarray().ravel() * slope, row_of(self.X, block), loss).times(self._counts[block])
                )
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by matrix products."""
        psi, total = np.zeros((len(self.structure.hierarchy), self.X.shape[1])), 0.0
        for first in range(0, self.n_blocks, _BATCH):
            part = np.arange(first, min(self.n_blocks, first + _BATCH))
            labels, slopes, losses = self._worst(part, weights)
            counts = self._counts[part]
            rows: Any = self.structure.attributes[self.y[part]] - self.structure.attributes[labels]
            factors = rows.multiply((slopes * counts)[:, None]).tocsr()
            psi += np.asarray(
                (self.X[part].T @ factors.toarray()).T if not hasattr(self.X, "tocsr") else (factors.T @ self.X[part]).toarray()
            )
            total += float(losses @ counts)
        return Cut(psi.ravel() / self.n_blocks, total / self.n_blocks)

    def diameter(self) -> float:
        """An upper bound of the norm of features: twice the longest attributes times the longest sample."""
        longest = float(np.sqrt(np.asarray(self.structure.members @ self.structure.alpha).max()))
        return 2 * longest * float((row_norms(self.X) * self._counts).max(initial=0.0))


class RecursiveProblem(ArrayProblem):
    """HR-SVM (spec 12.9): every label against all others, and weights that are near those of the parent.

    ``1/2 sum_n |W_n - W_parent|^2`` is ``1/2 |V|^2`` with ``W_l = sum of V_n over the nodes at or above l``, weights of the path
    norm; the hinge of a sample is ``sum over labels l of max(0, 1 - s_l W_l . x)``, with s_l = 1 for its label and -1 for others.
    The most violating of the 2^K answers is that with all labels whose hinges are positive.

    Parameters
    ----------
    structure : HierarchyStructure
        Its attributes are used, its loss is not.
    X : array or CSR matrix of shape (n, p)
    y : int array of shape (n,)
        Labels 0 to K - 1.
    sample_weight : array of shape (n,), optional
        The hinges of every sample are multiplied by its weight.
    """

    offers = frozenset({"whole passes"})

    def __init__(self, structure: HierarchyStructure, X: Any, y: Ints, sample_weight: ArrayLike | None = None) -> None:
        if X.shape[0] != len(y):
            raise ValueError(f"X has {X.shape[0]} samples, but y has {len(y)}; they must be equal")
        self.structure, self.X, self.y = structure, X, np.asarray(y, dtype=np.int64)
        self.sample_weight = check_weights(sample_weight, len(y))
        self._counts = np.ones(len(y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks = len(y)
        self.n_features = len(structure.hierarchy) * X.shape[1]

    def _contents(self) -> tuple[Any, ...]:
        own = self.structure
        return (self.X, self.y, repr(own.hierarchy.nodes), own.hierarchy.edges, own.labels, own.alpha, self.sample_weight)

    def _violated(self, chosen: Any, weights: Floats) -> Floats:
        """The signs s of labels with a positive hinge, 0 for the others; shape (n, K)."""
        scores = self.structure.scores(self.X[chosen], weights)
        signs = np.full(scores.shape, -1.0)
        signs[np.arange(len(signs)), self.y[chosen]] = 1.0
        return np.where(signs * scores < 1.0, signs, 0.0)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangents at the most violating answers; sparse."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        found = []
        for first in range(0, len(chosen), _BATCH):
            part = chosen[first : first + _BATCH]
            violated = self._violated(part, weights)
            of_nodes = np.asarray(violated @ self.structure.attributes)
            for block, row, signs in zip(part, of_nodes, violated, strict=True):
                found.append(_sparse_cut(row, row_of(self.X, block), np.abs(signs).sum()).times(self._counts[block]))
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by matrix products."""
        psi, total = np.zeros((self.X.shape[1], len(self.structure.labels))), 0.0
        for first in range(0, self.n_blocks, _BATCH):
            part = np.arange(first, min(self.n_blocks, first + _BATCH))
            violated = self._violated(part, weights) * self._counts[part][:, None]
            psi += np.asarray(self.X[part].T @ violated)
            total += float(np.abs(violated).sum())
        of_nodes = np.asarray(self.structure.attributes.T @ psi.T)
        return Cut(of_nodes.ravel() / self.n_blocks, total / self.n_blocks)


class HierarchySetProblem(ArrayProblem):
    """A closed set of labels per sample, with margin rescaling.

    Parameters
    ----------
    structure : HierarchySetStructure
    X : array or CSR matrix of shape (n, p)
    Y : bool array of shape (n, M)
        Closed sets; see :meth:`maxmargin.hierarchies.Hierarchy.check_indicators`.
    sample_weight : array of shape (n,), optional
        The hinge of every sample is multiplied by its weight.
    """

    offers = frozenset({"whole passes"})

    def __init__(
        self, structure: HierarchySetStructure, X: Any, Y: NDArray[np.bool_], sample_weight: ArrayLike | None = None
    ) -> None:
        if X.shape[0] != len(Y):
            raise ValueError(f"X has {X.shape[0]} samples, but Y has {len(Y)}; they must be equal")
        self.structure, self.X, self.Y = structure, X, Y
        self.relaxed = structure.relaxed
        self.sample_weight = check_weights(sample_weight, len(Y))
        self._counts = np.ones(len(Y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks = len(Y)
        self.n_features = len(structure.hierarchy) * X.shape[1]
        # Samples whose worst answer was no set, in the last pass.
        self.fractional = 0

    def _contents(self) -> tuple[Any, ...]:
        own = self.structure
        names = repr(own.hierarchy.nodes), own.hierarchy.edges, own.alpha, own.per_node, own.sets.ends, own.relaxed
        return (self.X, self.Y, *names, self.sample_weight)

    def _worst(self, chosen: Any, weights: Floats) -> Any:
        rewards = self.structure.rewards(self.X[chosen], weights, self.Y[chosen], 1.0, 1.0)
        return self.structure.search(rewards, self.structure.relaxed)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangents at the most violating sets; sparse."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        root, found = np.sqrt(self.structure.alpha), []
        for first in range(0, len(chosen), _BATCH):
            part = chosen[first : first + _BATCH]
            for block, z in zip(part, self._worst(part, weights), strict=True):
                difference = self.Y[block] - np.asarray(z, dtype=np.float64)
                cut = _sparse_cut(root * difference, row_of(self.X, block), self.structure.loss(self.Y[block], z))
                found.append(cut.times(self._counts[block]))
        return found

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        psi, total, self.fractional = np.zeros((len(self.structure.hierarchy), self.X.shape[1])), 0.0, 0
        for first in range(0, self.n_blocks, _BATCH):
            part = np.arange(first, min(self.n_blocks, first + _BATCH))
            z = np.asarray(self._worst(part, weights), dtype=np.float64)
            self.fractional += int((np.abs(z - np.round(z)) > 1e-6).any(axis=1).sum())
            difference = (self.Y[part] - z) * self._counts[part][:, None]
            psi += np.asarray((self.X[part].T @ (difference * np.sqrt(self.structure.alpha))).T)
            total += float(np.abs(difference).sum(axis=0) @ self.structure.per_node)
        return Cut(psi.ravel() / self.n_blocks, total / self.n_blocks)


def _sparse_cut(coefficients: Floats, row: Floats, loss: float) -> Cut:
    """The cut whose features are the sample times a coefficient for every node."""
    nodes, columns = np.flatnonzero(coefficients), np.flatnonzero(row)
    at = (nodes[:, None] * len(row) + columns).ravel().astype(np.int32)
    return Cut(SparseVector(at, np.outer(coefficients[nodes], row[columns]).ravel()), float(loss))
