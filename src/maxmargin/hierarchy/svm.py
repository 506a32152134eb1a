"""SVMs of labels in a hierarchy: flat, with weights on every node, with normalised ones, and with weights that are learned."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Set
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Ints, check_choice, warn, with_constant
from maxmargin.core import (
    CERTIFICATE,
    Certificate,
    Problem,
    SampleEstimator,
    SupportsExactSteps,
    check_weights,
    register_codec,
    supports,
    weighted,
)
from maxmargin.core.solvers import BCFW, History, InexactOracleWarning, Solution
from maxmargin.hierarchy.closed_sets import LabelSets
from maxmargin.hierarchy.hierarchy import Hierarchy, paths_of
from maxmargin.hierarchy.norms import heaviest_antichain, node_norm, shared_weights
from maxmargin.hierarchy.problem import HierarchyProblem, HierarchySetProblem, RecursiveProblem
from maxmargin.hierarchy.structure import LOSSES, SET_LOSSES, HierarchySetStructure, HierarchyStructure
from maxmargin.hierarchy.weights import NodeWeights
from maxmargin.surrogates import Margin, StructuredProblem, Surrogate, make_surrogate

NORMS = ("flat", "path", "normalized", "shared", "recursive")
# The loss of one label that goes with a norm in the source.
_LOSS = {"flat": "zero_one", "path": "hamming", "normalized": "normalized", "shared": "normalized", "recursive": "zero_one"}
# What is added to squared norms of nodes where their weights are learned, as a part of the mean: zeros would stay zeros.
_EPSILON = 1e-4


@dataclass(eq=False, repr=False)
class HierarchicalSVM(ClassifierMixin, SampleEstimator):
    """Linear classifier of labels in a tree or graph: ``1/2 sum_n |V_n|^2 + C * sum of hinges``.

    The score of a label is the sum over the nodes n at or above it of ``sqrt(alpha_n) V_n . x``. Samples are a matrix of shape
    (n, p), dense or sparse.

    Parameters
    ----------
    hierarchy : Hierarchy, networkx.DiGraph, pairs (parent, child), array or mapping of parents, optional
        See :meth:`maxmargin.hierarchy.Hierarchy.of`. By default that of y: one level below a root or, if y has a column for
        every
        level as in HiClass, the tree of these.
    C : float, default=1.0
        Weight of the hinges.
    norm : {"normalized", "flat", "path", "shared"}
        The weights alpha. ``"flat"``: leaves only (and inner nodes that are labels); ``"path"``: 1 for every node, which makes
        deep labels
        cheap; ``"normalized"``: they add up to 1 above every leaf; ``"shared"``: the same, but the best ones are learned;
        ``"recursive"``: as ``"path"``, but with one hinge for every label, its own against all others (HR-SVM).
    multilabel : bool, default=False
        Whether a sample has a set of labels: y is a list of lists of names, or a matrix of 0 and 1 with a column per node.
    labels : {"auto", "leaves", "all"}
        Which nodes may be answered: leaves and those that y has, leaves, or all but the root.
    loss : str, default="auto"
        ``"zero_one"``, ``"hamming"`` over nodes, ``"sqrt_hamming"``, ``"normalized"``, ``"tree"`` (edges between labels); by
        default that of
        the norm. For sets ``"leaves"`` (by default), ``"hamming"`` or ``"weighted"``.
    surrogate : str or Surrogate, default="margin"
        Which hinge; see :mod:`maxmargin.surrogates`.
    fully_normalized : bool, default=False
        With ``norm="normalized"`` and one label: every margin is measured along a unit vector, and must be one.
    rho : float or "max_min", default=2.0
        Normalised weights are those of the least ``sum alpha^rho``, or of the largest smallest one.
    directional, relaxation, include_root, invariant
        As in :class:`maxmargin.hierarchy.NodeWeights` (``relaxation`` is its ``slack``).
    relaxed : bool, default=False
        Sets in graphs that are no trees: train with the linear relaxation of the search, which may answer in fractions;
        predictions
        are sets.
    rounds : int, default=20
        Most rounds of learning the weights of the shared norm. They stop by ``tol``, ``time_limit`` and ``callback``, also beside
        a Solver object.
    fit_intercept : bool, default=True
        Add a constant feature; its weights are regularised like the others.
    class_weight : "balanced" or mapping of class to number, optional
        What the hinges of a label are multiplied by, besides ``sample_weight``; for one label per sample.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate. Bounds are those of the
        (M, p) weights of all nodes, row by row, each with that of the constant at the end.

    Attributes
    ----------
    classes_ : array of shape (K,)
        Names of the labels that may be answered.
    hierarchy_ : Hierarchy
    alpha_ : array of shape (M,)
        Weights of its nodes.
    coef_, intercept_ : arrays of shape (M, p) and (M,)
        ``V``; what label scores are made of is ``sqrt(alpha_)`` times it.

    Examples
    --------
    >>> X = np.array([[2.0, 0.0], [0.0, 1.0], [0.0, -1.0], [2.1, 0.1], [0.1, 1.2], [-0.1, -1.1]])
    >>> y = ["dog", "lion", "tiger", "dog", "lion", "tiger"]
    >>> model = HierarchicalSVM([("animal", "dog"), ("animal", "cat"), ("cat", "lion"), ("cat", "tiger")], C=10.0).fit(X, y)
    >>> model.predict([[3.0, 0.0], [0.0, 2.0]]), model.certified_
    (array(['dog', 'lion'], dtype='<U5'), True)
    """

    hierarchy: Any = None
    C: float = 1.0
    _: KW_ONLY
    norm: str = "normalized"
    multilabel: bool = False
    labels: str = "auto"
    loss: str = "auto"
    surrogate: str | Surrogate = "margin"
    fully_normalized: bool = False
    rho: float | str = 2.0
    directional: bool = False
    relaxation: float = 1.0
    include_root: bool = True
    invariant: bool = False
    relaxed: bool = False
    rounds: int = 20
    fit_intercept: bool = True
    class_weight: Mapping[Any, float] | str | None = None
    max_iter: int = 10_000
    warm_start: bool = False

    holds: ClassVar[Mapping[str, Any]] = {
        **CERTIFICATE,
        "n_features_in_": int,
        "hierarchy_": Hierarchy,
        "classes_": ("classes",),
        "labels_": ("classes",),
        "alpha_": ("nodes",),
        "coef_": ("nodes", "n_features_in_"),
        "intercept_": ("nodes",),
        "form_": str,
    }

    # ---- data -----------------------------------------------------------------------------------------------------------------

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("norm", self.norm, NORMS)
        check_choice("labels", self.labels, ("auto", "leaves", "all"))
        if self.loss != "auto":
            check_choice("loss", self.loss, SET_LOSSES if self.multilabel else LOSSES)
        self._check_count("rounds")
        make_surrogate(self.surrogate)
        if not 1 <= self.relaxation < np.inf:
            raise ValueError(f"relaxation={self.relaxation!r} must be at least 1 and finite: leaves need weight")
        self._node_weights().check()
        if self.fully_normalized and (self.multilabel or self.norm != "normalized" or self.loss not in ("auto", "normalized")):
            raise ValueError("fully_normalized=True is for one label per sample, norm='normalized' and its own loss")
        if self.norm == "shared" and self.bounds is not None:
            raise ValueError("bounds are not for norm='shared', whose weights move with alpha; use norm='normalized'")
        if self.norm == "recursive" and (
            self.multilabel or self.loss not in ("auto", "zero_one") or type(make_surrogate(self.surrogate)) is not Margin
        ):
            raise ValueError(
                "norm='recursive' has a hinge of its own, every label against the others: it is for one label per sample, "
                "without loss and surrogate; leave them out, or use norm='path'"
            )

    def _node_weights(self) -> NodeWeights:
        kinds = {"flat": "flat", "path": "path", "recursive": "path"}
        kind = kinds.get(self.norm, "max_min" if self.rho == "max_min" else "rho")
        if isinstance(self.rho, str) and self.rho != "max_min":
            raise ValueError(f"rho={self.rho!r} is unknown; use a number above 1, or 'max_min'")
        rho = 2.0 if isinstance(self.rho, str) else float(self.rho)
        return NodeWeights(kind, rho, self.directional, float(self.relaxation), self.include_root, self.invariant)

    def _saved_parameters(self) -> dict[str, Any]:
        # Whatever its form, a graph of networkx or a list of edges.
        found = super()._saved_parameters()
        return found if self.hierarchy is None else {**found, "hierarchy": Hierarchy.of(self.hierarchy)}

    def _prepare(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Problem:
        surrogate = make_surrogate(self.surrogate)
        X, truth = self._read(X, y)
        weights = check_weights(sample_weight, X.shape[0])
        self.alpha_ = self._node_weights().of(self.hierarchy_)
        # Inner nodes that are labels must be able to differ from each other.
        if self.norm == "flat":
            self.alpha_[self.labels_] = 1.0
        if self.norm == "shared":
            # A node without weight would never get any; the learned weights are free to go there.
            self.alpha_ = np.maximum(self.alpha_, 1e-3 * self.alpha_.max()) / (1 + 1e-3 * len(self.alpha_))
        self._width = X.shape[1] + bool(self.fit_intercept)
        inputs = with_constant(X) if self.fit_intercept else X
        if not self.multilabel and self.class_weight is not None:
            own = compute_sample_weight(self.class_weight, self.classes_[truth])
            weights = own if weights is None else own * weights
        return self._problem(inputs, truth, surrogate, weights)

    def _problem(self, X: Any, truth: Any, surrogate: Surrogate, weights: Floats | None) -> Problem:
        self._data: Any = X, truth, surrogate, weights
        if not self.multilabel:
            structure = HierarchyStructure(self.hierarchy_, X.shape[1], self.alpha_, self.labels_, self._loss())
            if self.norm == "recursive":
                return RecursiveProblem(structure, X, truth, weights)
            return HierarchyProblem(structure, X, truth, surrogate, weights, self.fully_normalized)
        sets = HierarchySetStructure(self.hierarchy_, X.shape[1], self.alpha_, self._ends(), self._loss(), self.relaxed)
        if HierarchySetProblem.knows(sets, surrogate):
            return HierarchySetProblem(sets, X, truth, weights, surrogate)
        rows: Any = [X[k] for k in range(X.shape[0])]
        return weighted(StructuredProblem(sets, rows, list(truth), surrogate), weights)

    def _loss(self) -> str:
        return self.loss if self.loss != "auto" else "leaves" if self.multilabel else _LOSS[self.norm]

    def _ends(self) -> NDArray[np.bool_]:
        ends = np.zeros(len(self.hierarchy_), dtype=bool)
        ends[self.labels_] = True
        return ends

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Samples, and their labels by number or as sets; the hierarchy and the labels become attributes."""
        if self.multilabel:
            X = self._check_matrix(X, fitting=True)
            return X, self._read_sets(y, X.shape[0])
        if _columns(y):
            names: Any = paths_of(y)
            X, names = self._check_matrix(X, np.array(names), fitting=True)
            self.form_ = "columns"
            self.hierarchy_ = Hierarchy.from_columns(y) if self.hierarchy is None else Hierarchy.of(self.hierarchy)
        else:
            X, names = self._check_matrix(X, y, fitting=True)
            check_classification_targets(names)
            self.form_ = "names"
            if self.hierarchy is None:
                found = np.unique(names).tolist()
                root = "root"
                while root in found:
                    root += "_"
                self.hierarchy_ = Hierarchy([(root, name) for name in found], [root, *found])
            else:
                self.hierarchy_ = Hierarchy.of(self.hierarchy)
        numbers = self.hierarchy_.numbers_of_samples(names.tolist())
        if len(np.unique(numbers)) < 2:
            raise ValueError("y holds only one class; at least two are needed")
        self.labels_ = self._answers(np.unique(numbers))
        self.classes_ = self._names(self.labels_)
        return X, np.searchsorted(self.labels_, numbers)

    def _answers(self, seen: Ints) -> Ints:
        leaves = self.hierarchy_.leaves
        if self.labels == "all":
            return np.arange(1, len(self.hierarchy_))
        if self.labels == "auto":
            return np.union1d(leaves, seen)
        inner = np.setdiff1d(seen, leaves)
        if len(inner):
            name = self.hierarchy_.nodes[int(inner[0])]
            raise ValueError(f"y has the label {name!r}, which is no leaf; use labels='auto' or 'all' to answer with inner nodes")
        return leaves

    def _names(self, numbers: Ints) -> NDArray[Any]:
        names = [self.hierarchy_.nodes[k] for k in numbers]
        if all(isinstance(name, str) for name in names) or all(isinstance(name, bool | int | float) for name in names):
            return np.array(names)
        array = np.empty(len(names), dtype=object)
        array[:] = names
        return array

    def _read_sets(self, y: Any, n: int) -> NDArray[np.bool_]:
        if self.hierarchy is None:
            raise ValueError("hierarchy is needed for sets of labels; pass one of the forms of maxmargin.hierarchy.Hierarchy.of")
        self.hierarchy_ = Hierarchy.of(self.hierarchy)
        if hasattr(y, "shape") and len(y.shape) == 2:
            self.form_, chosen = "matrix", self.hierarchy_.check_indicators(y)
        else:
            self.form_, chosen = "sets", self.hierarchy_.indicators(y)
        if len(chosen) != n:
            raise ValueError(f"X has {n} samples, but y has {len(chosen)} sets of labels; they must be equal")
        ends = chosen & ~self.hierarchy_._has_child(chosen)
        self.labels_ = self._answers(np.flatnonzero(ends.any(axis=0)))
        self.classes_ = self._names(self.labels_)
        return chosen

    # ---- training -------------------------------------------------------------------------------------------------------------

    def _train(self, problem: Any) -> Floats:
        weights = self._share(problem) if self.norm == "shared" else super()._train(problem)
        self._data = None
        return weights

    def _budgets_of_loops(self) -> Set[str]:
        return {"tol", "time_limit", "callback"} if self.norm == "shared" else frozenset()

    def _share(self, problem: Any) -> Floats:
        """Learn alpha and the weights by turns: the objective is convex in both, and never rises.

        The dual point of any turn bounds the optimum over all alpha from below: with ``theta_n`` the features it adds up at
        node n,
        the bound is its loss less ``1 / (2 lambda) max sum alpha_n |theta_n|^2``, the heaviest nodes none of which is above
        another.
        """
        lam = 1.0 / (self.C * problem.n_blocks)
        X, truth, surrogate, counts = self._data
        # The loss is that of the first alpha; learned ones must not move it.
        loss_alpha, started = self.alpha_, time.perf_counter()
        best, best_alpha, upper, lower = np.zeros(problem.n_features), self.alpha_, np.inf, 0.0
        history, passes, proved = History(), 0.0, True
        for _ in range(self.rounds):
            # Block steps, also where few weights or sets would suggest cutting planes: they have the dual point that bounds need.
            steps = BCFW(steps="exact" if supports(problem, SupportsExactSteps) else "pairwise")
            solver = self._solver(problem, steps if isinstance(self.solver, str) and self.solver == "auto" else None)
            # Half the gap for the weights, half for alpha.
            solver = dataclasses.replace(solver, tol=0.3 * solver.tol)
            if self.time_limit is not None:
                left = self.time_limit - (time.perf_counter() - started)
                solver = dataclasses.replace(solver, time_limit=max(left, 1e-6))
            solution = self._solve(problem, solver)
            passes += solution.passes
            proved &= solution.certificate.proved
            rows = solution.weights.reshape(len(self.alpha_), -1)
            U = np.sqrt(self.alpha_)[:, None] * rows
            # The hinges of these weights, with the best alpha for them.
            value = (
                solution.primal - 0.5 * lam * float(rows.ravel() @ rows.ravel()) + 0.5 * lam * node_norm(self.hierarchy_, U) ** 2
            )
            lower = max(lower, self._joint_bound(solution, lam))
            if value < upper:
                upper, best, best_alpha = value, U, shared_weights(self.hierarchy_, np.linalg.norm(U, axis=1))
            certificate = Certificate(upper, lower, proved, noise=solution.certificate.noise)
            history.record(passes, upper, certificate.dual, time.perf_counter() - started)
            stop = not solution.converged or upper - lower <= self.tol * upper
            if stop or (self.callback is not None and self.callback(history)):
                break
            self.alpha_ = shared_weights(self.hierarchy_, np.linalg.norm(U, axis=1), _EPSILON)
            problem = self._shared_problem(X, truth, surrogate, counts, loss_alpha)
        self.alpha_ = best_alpha
        if certificate.proved and certificate.crossed:
            warn("the dual objective exceeds the primal one, so the gap is not a certificate", InexactOracleWarning)
        self._show(certificate.scaled(1.0 / lam), passes, history.scaled(1.0 / lam))
        root = np.sqrt(self.alpha_)[:, None]
        rows = np.divide(best.reshape(len(self.alpha_), -1), root, out=np.zeros((len(root), self._width)), where=root > 0)
        return np.asarray(rows.ravel())

    def _shared_problem(self, X: Any, truth: Any, surrogate: Surrogate, counts: Floats | None, loss_alpha: Floats) -> Any:
        problem: Any = self._problem(X, truth, surrogate, counts)
        if not self.multilabel and problem.structure.loss_of.per_node is not None and problem.structure.loss_of.root:
            kept = loss_alpha if self._loss() == "normalized" else problem.structure.loss_of.per_node
            problem.structure.loss_of = problem.structure.loss_of._replace(per_node=kept)
        elif self.multilabel and self._loss() == "weighted":
            problem.structure.per_node = loss_alpha
        return problem

    def _joint_bound(self, solution: Solution, lam: float) -> float:
        # Block solvers keep their dual point; cutting planes do not show theirs, and zero is a bound too.
        engine = getattr(solution.state, "engine", None)
        if engine is None:
            return 0.0
        rows = engine.weights().reshape(len(self.alpha_), -1)
        squares = np.einsum("nj,nj->n", rows, rows)
        return float(
            engine.dual + 0.5 * lam * squares.sum() - 0.5 * lam * heaviest_antichain(self.hierarchy_, squares / self.alpha_)
        )

    def _keep(self, weights: Floats) -> None:
        rows = weights.reshape(len(self.hierarchy_), -1)
        self.coef_ = rows[:, : self.n_features_in_].copy()
        self.intercept_ = rows[:, -1].copy() if self.fit_intercept else np.zeros(len(rows))

    def _check_fitted(self) -> None:
        if len(self.alpha_) != len(self.hierarchy_) or (np.asarray(self.alpha_) < 0).any():
            raise ValueError(f"alpha_ must be {len(self.hierarchy_)} weights, none of them negative")
        labels = np.asarray(self.labels_)
        if labels.dtype.kind not in "iu" or (labels < 0).any() or (labels >= len(self.hierarchy_)).any():
            raise ValueError("labels_ must be numbers of nodes of the hierarchy")
        if self.form_ not in ("names", "columns", "sets", "matrix"):
            raise ValueError(f"form_={self.form_!r} is unknown")

    # ---- prediction -----------------------------------------------------------------------------------------------------------

    def _node_scores(self, X: Any) -> Floats:
        check_is_fitted(self)
        X = self._check_matrix(X)
        return (np.asarray(X @ self.coef_.T) + self.intercept_) * np.sqrt(self.alpha_)

    def decision_function(self, X: Any) -> Floats:
        """Scores of labels, shape (n, K), or (n,) for two, where positive means the second; for sets those of nodes, (n, M)."""
        scores = self._node_scores(X)
        if self.multilabel:
            return scores
        members: Any = self.hierarchy_.membership(self.labels_)
        scores = np.asarray((members @ scores.T).T)
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    def predict(self, X: Any) -> Any:
        """Labels of the largest score, in the form of the y that `fit` got; for sets, the best closed ones."""
        if self.multilabel:
            chosen = LabelSets(self.hierarchy_, self._ends()).best(self._node_scores(X))
            return chosen.astype(np.int64) if self.form_ == "matrix" else self.hierarchy_.most_specific(chosen)
        scores = self.decision_function(X)
        index = (scores > 0).astype(int) if scores.ndim == 1 else np.argmax(scores, axis=1)
        found = self.classes_[index]
        if self.form_ != "columns":
            return np.asarray(found)
        parts = [str(name).split("/") for name in found]
        depth = max(len(str(name).split("/")) for name in self.classes_)
        return np.array([[*row, *[""] * (depth - len(row))] for row in parts])

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Accuracy: the part of samples whose label, or whole set of labels, is right."""
        found = self.predict(X)
        if self.form_ == "names":
            right = np.asarray(found) == np.asarray(y)
        elif self.form_ == "columns":
            right = np.array(["/".join(filter(None, row)) for row in found]) == np.array(paths_of(y))
        else:
            truths = self.hierarchy_.check_indicators(y) if self.form_ == "matrix" else self.hierarchy_.indicators(y)
            own = np.asarray(found, dtype=bool) if self.form_ == "matrix" else self.hierarchy_.indicators(found)
            right = (truths == own).all(axis=1)
        return float(np.average(right, weights=None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = self.multilabel
        return tags


def _columns(y: Any) -> bool:
    """Whether labels have a column for every level; other arrays are for scikit-learn to read."""
    shape = getattr(y, "shape", None)
    if shape is None and isinstance(y, list) and y and isinstance(y[0], list | tuple):
        return len(y[0]) > 1
    return shape is not None and len(shape) == 2 and shape[1] > 1


def _packed(hierarchy: Hierarchy) -> dict[str, Any]:
    return {"nodes": list(hierarchy.nodes), "edges": hierarchy.edges}


def _unpacked(content: Any) -> Hierarchy:
    if not isinstance(content, dict) or content.keys() != {"nodes", "edges"} or not isinstance(content["nodes"], list):
        raise TypeError("it needs nodes and edges")
    nodes, edges = [_hashable(node) for node in content["nodes"]], content["edges"]
    fine = isinstance(edges, np.ndarray) and edges.dtype.kind == "i" and edges.ndim == 2 and edges.shape[1] == 2
    if not fine or (len(edges) and (edges.min() < 0 or edges.max() >= len(nodes))):
        raise ValueError("its edges are not pairs of its nodes")
    return Hierarchy([(nodes[a], nodes[b]) for a, b in edges.tolist()], nodes)


def _hashable(name: Any) -> Any:
    """A name with tuples where JSON has lists."""
    return tuple(map(_hashable, name)) if isinstance(name, list) else name


register_codec("hierarchy", Hierarchy, _packed, _unpacked)
