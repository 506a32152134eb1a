"""Samples with a label, or a set of labels, out of a hierarchy."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin import _core
from maxmargin._utils import Floats, Ints, threads_for
from maxmargin.core import (
    ArrayProblem,
    Cut,
    SparseVector,
    SupportsLinearScores,
    Tangent,
    check_not_overridden,
    check_weights,
    compiled_features,
    row_norms,
    row_of,
)
from maxmargin.hierarchy.structure import HierarchySetStructure, HierarchyStructure
from maxmargin.surrogates import GeneralizedScaling, Margin, Slack, Surrogate, compiled_surrogate

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

    exact_steps = True

    def __init__(
        self,
        structure: HierarchyStructure,
        X: Any,
        y: Ints,
        surrogate: Surrogate | None = None,
        sample_weight: ArrayLike | None = None,
        fully_normalized: bool = False,
    ) -> None:
        check_not_overridden(structure, "HierarchyProblem")
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

    def _contents(self) -> tuple[Any, ...]:
        own, loss = self.structure, self.structure.loss_of
        names = repr(own.hierarchy.nodes), own.hierarchy.edges, own.labels, own.alpha, own.costs, loss.per_node, loss.root
        return (self.X, self.y, *names, repr(self.surrogate), repr(self.powers), self.sample_weight)

    def make_block_data(self) -> _core.BlockData | None:
        """Return the compiled form of this problem."""
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

    def __init__(self, structure: HierarchyStructure, X: Any, y: Ints, sample_weight: ArrayLike | None = None) -> None:
        check_not_overridden(structure, "RecursiveProblem")
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
    """A closed set of labels per sample.

    On trees with any surrogate of this package, all samples searched by compiled programs; on other graphs with margin rescaling,
    one integer program per sample.

    Parameters
    ----------
    structure : HierarchySetStructure
    X : array or CSR matrix of shape (n, p)
    Y : bool array of shape (n, M)
        Closed sets; see :meth:`maxmargin.hierarchy.Hierarchy.check_indicators`.
    sample_weight : array of shape (n,), optional
        The hinge of every sample is multiplied by its weight.
    surrogate : Surrogate, optional
        Which hinge; margin rescaling by default. See :meth:`knows`.

    Attributes
    ----------
    queries : int
        How often a best set was asked for, by searches of whole passes.

    Examples
    --------
    >>> from maxmargin.hierarchy import Hierarchy
    >>> sets = HierarchySetStructure(Hierarchy.from_parents([-1, 0, 0, 1, 1]), 1, np.ones(5))
    >>> Y = np.array([[1, 1, 0, 1, 0], [1, 0, 1, 0, 0]], dtype=bool)
    >>> HierarchySetProblem(sets, np.array([[1.0], [-1.0]]), Y, surrogate=Slack()).mean_cut(np.zeros(5)).loss
    3.0
    """

    exact_steps = True

    def __init__(
        self,
        structure: HierarchySetStructure,
        X: Any,
        Y: NDArray[np.bool_],
        sample_weight: ArrayLike | None = None,
        surrogate: Surrogate | None = None,
    ) -> None:
        check_not_overridden(structure, "HierarchySetProblem")
        if X.shape[0] != len(Y):
            raise ValueError(f"X has {X.shape[0]} samples, but Y has {len(Y)}; they must be equal")
        self.structure, self.X, self.Y = structure, X, np.asarray(Y, dtype=bool)
        self.surrogate = Margin() if surrogate is None else surrogate
        if not self.knows(structure, self.surrogate):
            raise ValueError(
                f"surrogate={self.surrogate!r} is not for all sets at once: that takes a tree and a convex surrogate of this "
                "package searched by 'auto' or 'hull'; use StructuredProblem"
            )
        self.relaxed = structure.relaxed
        self.sample_weight = check_weights(sample_weight, len(Y))
        self._counts = np.ones(len(Y)) if self.sample_weight is None else self.sample_weight
        self.n_blocks = len(Y)
        self.n_features = len(structure.hierarchy) * X.shape[1]
        if not structure.hierarchy.is_tree:
            self.unavailable = {SupportsLinearScores: "only hierarchies that are trees have scores of nodes"}
        # Samples whose worst answer was no set, in the last pass.
        self.fractional = 0
        self.queries = 0

    @staticmethod
    def knows(structure: HierarchySetStructure, surrogate: Surrogate) -> bool:
        """Whether these are searched all at once: margin rescaling always, others in trees if a compiled search knows them."""
        if type(surrogate) is Margin:
            return True
        form = compiled_surrogate(surrogate)
        if form is None or not structure.hierarchy.is_tree:
            return False
        # A wrong set without loss counts by its score under these, which begins a search along the hull at the wrong place.
        by_score = form.kind == "micro_f1" or (form.kind == "generalized" and form.beta == 0)
        return not by_score or bool((structure.per_node[1:] > 0).all()) or bool((structure.per_node == structure.sets.ends).all())

    def __getstate__(self) -> dict[str, Any]:
        # Compiled forms belong to the process.
        return {name: value for name, value in vars(self).items() if name not in ("_search", "_tree", "block_data")}

    def _contents(self) -> tuple[Any, ...]:
        own = self.structure
        names = repr(own.hierarchy.nodes), own.hierarchy.edges, own.alpha, own.per_node, own.sets.ends, own.relaxed
        return (self.X, self.Y, *names, repr(self.surrogate), self.sample_weight)

    @property
    def _form(self) -> tuple[str, float, float, bool]:
        form = compiled_surrogate(self.surrogate)
        assert form is not None
        return (*form, self.surrogate.search == "hull")

    @cached_property
    def _tree(self) -> _core.LabelTree:
        own = self.structure
        return _core.LabelTree(
            own.hierarchy.parent.astype(np.int32),
            own.sets.ends.astype(np.uint8),
            np.ascontiguousarray(own.per_node, dtype=np.float64),
        )

    @cached_property
    def _search(self) -> _core.ClosedSetSearch:
        return _core.ClosedSetSearch(self._tree, *self._form)

    def make_block_data(self) -> _core.BlockData | None:
        """Return the compiled form of this problem."""
        if not self.structure.hierarchy.is_tree:
            return None
        truth, roots = self.Y.astype(np.uint8), np.sqrt(self.structure.alpha)
        return _core.ClosedSetData(compiled_features(self.X), truth, self.sample_weight, self._tree, roots, *self._form)

    def _worst(self, scores: Floats, chosen: Any) -> _Sets:
        """The most violating sets for the node scores of some samples."""
        truth = self.Y[chosen]
        if self.structure.hierarchy.is_tree:
            threads = threads_for(len(truth))
            z, error, slope, loss, bound, queries = self._search.search(
                np.ascontiguousarray(scores), truth.astype(np.uint8), threads
            )
            self.queries += queries
            value = slope * error + loss
            missed = bound > value + 1e-9 * (1.0 + np.abs(value))
            return _Sets(z, slope, loss, value, np.where(missed, bound, value) if missed.any() else None)
        rewards = scores + self.structure.per_node * (1.0 - 2.0 * truth)
        z = np.asarray(self.structure.search(rewards, self.structure.relaxed), dtype=np.float64)
        self.queries += len(z)
        loss = np.abs(z - truth) @ self.structure.per_node
        return _Sets(z, np.ones(len(z)), loss, ((z - truth) * scores).sum(axis=1) + loss, None)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangents at the most violating sets; sparse."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        root, cuts = np.sqrt(self.structure.alpha), []
        for first in range(0, len(chosen), _BATCH):
            part = chosen[first : first + _BATCH]
            found = self._worst(self.structure.node_scores(self.X[part], weights), part)
            coefficients = root * (self.Y[part] - found.z) * found.slope[:, None]
            for k, block in enumerate(part):
                cut = _sparse_cut(coefficients[k], row_of(self.X, block), float(found.loss[k]))
                if found.bound is not None and found.bound[k] > found.value[k]:
                    cut = Cut(cut.psi, cut.loss, float(found.bound[k]))
                cuts.append(cut.times(self._counts[block]))
        return cuts

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all samples, by two matrix products."""
        found = self.tangent(self.scores(weights))
        return Cut(-self.features(found.gradient), found.loss, found.bound)

    # ---- as a function of scores ----------------------------------------------------------------------------------------------

    def scores(self, weights: Floats) -> Floats:
        """Of all nodes for all samples, one after the other."""
        return self.structure.node_scores(self.X, weights).ravel()

    def tangent(self, scores: Floats) -> Tangent:
        """The mean hinge."""
        own, gradient = scores.reshape(self.Y.shape), np.empty(self.Y.shape)
        hinge, loss, bound, bounded, self.fractional = 0.0, 0.0, 0.0, False, 0
        for first in range(0, self.n_blocks, _BATCH):
            part = slice(first, first + _BATCH)
            found, counts = self._worst(own[part], part), self._counts[part] / self.n_blocks
            self.fractional += int((np.abs(found.z - np.round(found.z)) > 1e-6).any(axis=1).sum())
            gradient[part] = (found.z - self.Y[part]) * (counts * found.slope)[:, None]
            hinge, loss = hinge + float(counts @ found.value), loss + float(counts @ found.loss)
            bounded |= found.bound is not None
            bound += float(counts @ (found.value if found.bound is None else found.bound))
        return Tangent(hinge, loss, gradient.ravel(), bound if bounded else None)

    def features(self, coefficients: Floats) -> Floats:
        """From scores back to weights."""
        own: Any = coefficients.reshape(self.Y.shape) * np.sqrt(self.structure.alpha)
        return np.asarray((self.X.T @ own).T).ravel()


class _Sets(NamedTuple):
    """The most violating sets, shape (n, M), with slope and loss of their cuts, their hinges, and bounds if any is open."""

    z: Floats
    slope: Floats
    loss: Floats
    value: Floats
    bound: Floats | None


def _sparse_cut(coefficients: Floats, row: Floats, loss: float) -> Cut:
    """The cut whose features are the sample times a coefficient for every node."""
    nodes, columns = np.flatnonzero(coefficients), np.flatnonzero(row)
    at = (nodes[:, None] * len(row) + columns).ravel().astype(np.int32)
    return Cut(SparseVector(at, np.outer(coefficients[nodes], row[columns]).ravel()), float(loss))
