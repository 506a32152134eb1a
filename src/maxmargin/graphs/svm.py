"""Structured SVMs of labels on the nodes of graphs, and on the pixels of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Int32s
from maxmargin.core import (
    CERTIFICATE,
    SAMPLEWISE,
    Facility,
    Problem,
    SampleEstimator,
    WeightedProblem,
    check_node_labels,
    mean_accuracy,
    outside_label,
    predict,
    weighted,
)
from maxmargin.graphs.problem import GraphProblem
from maxmargin.graphs.structure import GraphStructure
from maxmargin.labeling import GRID_STEPS, grid_edges
from maxmargin.surrogates import MicroF1, Surrogate, check_convex, make_surrogate

# Features so many times larger than the smallest ones slow training down; so many are named.
_UNEVEN, _SHOWN = 30.0, 5

GRAPH: dict[str, Any] = {
    **CERTIFICATE,
    "n_features_in_": int,
    "classes_": ("classes",),
    "coef_": ("classes", "n_features_in_"),
    "edge_coef_": ("edge weights",),
    "n_edge_features_": int,
    "pairwise_": ("n_edge_features_", "classes", "classes"),
}


@dataclass(eq=False, repr=False)
class GraphSVM(SampleEstimator):
    """Labels on the nodes of graphs, with learned scores of the labels of nodes and of the pairs of labels on edges.

    A data set is a list of ``(features (L, p), edges (E, 2))`` or ``(features, edges, edge_features (E, q))``; the only feature
    of an edge is a 1 by default. Labels are a list of arrays of shape (L,), of numbers or strings. There is no intercept: add a
    constant feature to the nodes if labels are not equally frequent. Features count as they are: all weights share the
    regulariser ``1/2 ||w||^2``, which hardly sees those of features in the hundreds beside the 1 of an edge, and training takes
    more passes. Divide such features by their standard deviations first.

    Inference is exact on trees and forests, and for two labels that attract each other; elsewhere TRW-S finds labels and
    bounds what it may have missed. The primal objective is then made of the bounds, so that the gap is proved for the true
    problem, and ``oracle_gap_`` is the part of it that is due to inference. With ``inference="relaxed"`` training maximises over
    the local polytope instead, a linear program that is solved to its optimum: the gap closes, but is that of the relaxed
    objective, which is nowhere below the true one. ``certified_objective_`` says which it is.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per graph.
    pairwise : {"attractive", "symmetric", "antisymmetric", "free"}, or a list of them, default="attractive"
        What edges can say, for all of their features or for each. Attractive: a penalty for different labels, for features
        ``>= 0``. Symmetric: a score of every pair of labels, whichever end of the edge has which. Antisymmetric: scores that
        change sign with the direction of the edge. Free: a score of the first end's label with the second's.
    class_weight : "balanced" or mapping of label to number, optional
        What a wrong label costs, by the true one, with weights as in scikit-learn: the margin by which it must lose.
    inference : {"labels", "relaxed"}, default="labels"
        What training maximises over, where the best labels cannot be found for sure: labels, with a bound of what was missed, or
        marginals of nodes and edges (for graphs of hundreds of edges, not of many thousands). Prediction finds labels in either
        case.
    normalize : bool, default=True
        Divide the loss of a graph by its number of nodes; False counts wrong labels.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss is minimised: ``"margin"``, ``"slack"``, ``"beta"``, ``"log"``, ``"prob"``, ``"micro_f1"``, or an
        object of :mod:`maxmargin.surrogates`. ``"prob"`` is made for counts of wrong labels, ``normalize=False``. The best
        labeling is found on forests, on small graphs, and by minimum cuts on graphs of up to 64 nodes; elsewhere the cut has a
        bound, which the certificate counts.
    outside : label, default=0
        For ``surrogate="micro_f1"``: the label of nodes that are nothing. One minus the F1 of all other labels is bounded, graph
        by graph; there is no class weight then.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.core.Estimator`, which also tells the attributes of the certificate. Bounds are those of
        ``coef_``, row by row, and of ``edge_coef_``.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
        Weights of the node features for each label.
    n_features_in_, n_edge_features_ : int
        p and q.
    edge_coef_ : array of shape (m,)
        Weights of the edge features, one feature after the other: its penalty for different labels if it is attractive, never
        negative; scores of pairs ``k <= l`` (symmetric), ``k < l`` (antisymmetric), or of all, row by row (free).
    pairwise_ : array of shape (q, K, K)
        The same as scores of the labels of the first and the second end of an edge, for every edge feature.
    oracle_gap_ : float
        How much of ``dual_gap_`` is due to inference that is not exact.
    n_queries_ : int
        Questions to inference during training; the search of a surrogate may ask several for one cut.

    Examples
    --------
    Three labels around triangles, of which neighbours differ:

    >>> triangle = [(0, 1), (1, 2), (2, 0)]
    >>> X = [(np.eye(3)[[0, 1, 1]] + [[0, 0, 0], [0, 0, 0], [0, 0, 0.9]], triangle), (np.eye(3)[[2, 0, 1]], triangle)]
    >>> model = GraphSVM(C=100, pairwise="symmetric").fit(X, [["a", "b", "c"], ["c", "a", "b"]])
    >>> [list(map(str, labels)) for labels in model.predict(X)]
    [['a', 'b', 'c'], ['c', 'a', 'b']]
    """

    C: float = 1.0
    _: KW_ONLY
    pairwise: str | Sequence[str] = "attractive"
    class_weight: Mapping[Any, float] | str | None = None
    inference: str = "labels"
    normalize: bool = True
    surrogate: str | Surrogate = "margin"
    outside: Any = 0
    warm_start: bool = False

    of_blocks = True
    lacks: ClassVar[Mapping[Facility, str]] = SAMPLEWISE
    holds: ClassVar[Mapping[str, Any]] = GRAPH

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.inference not in ("labels", "relaxed"):
            raise ValueError(f"inference={self.inference!r} is unknown; choose 'labels' or 'relaxed'")
        if not isinstance(make_surrogate(self.surrogate), MicroF1):
            return
        if self.class_weight is not None or self.inference == "relaxed":
            which = "class_weight" if self.class_weight is not None else "inference='relaxed'"
            raise ValueError(f"surrogate='micro_f1' counts labels of nodes and knows no {which}; leave it out")

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> Problem:
        truth = check_node_labels(y)
        everything = np.concatenate([own.ravel() for own in truth]) if truth else np.zeros(0)
        self.classes_ = known_classes(everything)
        costs = label_costs(self.class_weight, self.classes_, everything)
        labels = [np.searchsorted(self.classes_, own) for own in truth]
        surrogate = make_surrogate(self.surrogate)
        check_convex(surrogate, self.solver)
        problem = GraphProblem(
            X, labels, len(self.classes_), self.pairwise, costs, self.inference == "relaxed", normalize=self.normalize,
            surrogate=surrogate, outside=outside_label(self.classes_, self.outside) if isinstance(surrogate, MicroF1) else None,
        )  # fmt: skip
        self.n_features_in_, self.n_edge_features_ = problem.structure.n_inputs, problem.structure.n_edge_inputs
        return weighted(problem, sample_weight)

    def _scaling_advice(self, problem: Problem) -> str:
        graphs = problem.problem if isinstance(problem, WeightedProblem) else problem
        advice = super()._scaling_advice(problem)
        return uneven_features(graphs, advice) if isinstance(graphs, GraphProblem) else advice

    def _keep(self, weights: Floats) -> None:
        K, p = len(self.classes_), self.n_features_in_
        self.coef_ = weights[: K * p].reshape(K, p).copy()
        self.edge_coef_ = weights[K * p :].copy()
        self.pairwise_ = self._structure().tables(self.edge_coef_)

    def _supplement(self) -> None:
        # There were only the labels 0 and 1 once, which attract each other.
        own = vars(self)
        old = own.keys().isdisjoint({"classes_", "n_edge_features_", "pairwise_"}) and {"coef_", "edge_coef_"} <= own.keys()
        if old and self.pairwise == "attractive" and np.shape(self.coef_)[:1] == (2,) and np.ndim(self.edge_coef_) == 1:
            self.classes_, self.n_edge_features_ = np.array([0, 1]), len(self.edge_coef_)
            self.pairwise_ = -np.asarray(self.edge_coef_)[:, None, None] * (1.0 - np.eye(2))

    def _structure(self) -> GraphStructure:
        return GraphStructure(self.n_features_in_, self.n_edge_features_, len(self.classes_), self.pairwise)

    def _check_fitted(self) -> None:
        structure = self._structure()
        weights = np.concatenate([self.coef_.ravel(), self.edge_coef_])
        if len(weights) != structure.n_weights:
            needed = structure.n_weights - self.coef_.size
            raise ValueError(f"edge_coef_ has {len(self.edge_coef_)} entries, but pairwise={self.pairwise!r} needs {needed}")
        if structure.bounds is not None and (weights < structure.bounds[0]).any():
            raise ValueError("edge_coef_ has a negative penalty of different labels; attractive features must not have one")
        if not np.array_equal(self.pairwise_, structure.tables(self.edge_coef_)):
            raise ValueError("pairwise_ is not what edge_coef_ says")

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """The best labels of every graph that inference finds."""
        check_is_fitted(self)
        weights = np.concatenate([self.coef_.ravel(), self.edge_coef_])
        return [self.classes_[labels] for labels in predict(self._structure(), X, weights)]

    def score(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> float:
        """Mean over the graphs of the fraction of right labels."""
        return mean_accuracy(self.predict(X), y)


@dataclass(eq=False, repr=False)
class GridSVM(GraphSVM):
    """Labels on the pixels of images, whose neighbours are joined by edges; a :class:`GraphSVM` that makes the graphs.

    A data set is a list of arrays of shape (H, W, p), features of the pixels; labels are a list of arrays of shape (H, W). All
    else is as in :class:`GraphSVM`.

    Parameters
    ----------
    C, pairwise, class_weight, inference, normalize, surrogate, outside, and those of the base
        As in :class:`GraphSVM`.
    connectivity : {4, 8}, default=4
        Neighbours of a pixel.
    edge_features : {"constant", "steps", "ends"}, default="constant"
        Features of an edge: a single 1; a 1 in the place of its step (right, down, and for 8 neighbours down right and down
        left); or the features of both ends, each step in columns of its own, so that what is seen decides which labels follow
        each other. The last wants ``pairwise="free"``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat([[0, 1, 2]], 4, axis=0).repeat(2, axis=1), np.repeat([[2, 0, 1]], 5, axis=0).repeat(2, axis=1)]
    >>> X = [np.eye(3)[labels] + 0.3 * rng.normal(size=(*labels.shape, 3)) for labels in y]
    >>> model = GridSVM(C=10, edge_features="steps", pairwise="symmetric").fit(X, y)
    >>> model.pairwise_.shape, model.predict(X)[0].shape, model.score(X, y)
    ((2, 3, 3), (4, 6), 1.0)
    """

    _: KW_ONLY
    connectivity: int = 4
    edge_features: str = "constant"

    holds: ClassVar[Mapping[str, Any]] = dict(GRAPH)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_edge_features(self.connectivity, self.edge_features)

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> Problem:
        images = check_images(X)
        return super()._prepare(self._graphs(images), check_masks(images, y), sample_weight)

    def _check_fitted(self) -> None:
        n_steps = len(GRID_STEPS[self.connectivity])
        needed = {"constant": 1, "steps": n_steps, "ends": 2 * n_steps * self.n_features_in_}[self.edge_features]
        if self.n_edge_features_ != needed:
            settings = f"connectivity={self.connectivity} and edge_features={self.edge_features!r}"
            raise ValueError(f"n_edge_features_ is {self.n_edge_features_}, but {settings} make {needed}")
        super()._check_fitted()

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """Labels of every image, shape (H, W)."""
        check_is_fitted(self)
        images = check_images(X)
        found = super().predict(self._graphs(images))
        return [labels.reshape(image.shape[:2]) for image, labels in zip(images, found, strict=True)]

    def _graphs(self, images: list[Floats]) -> list[Any]:
        return [image_graph(image, self.connectivity, self.edge_features) for image in images]


def uneven_features(problem: GraphProblem, advice: str) -> str:
    """The advice to scale features, with the names of those that are much larger than others."""
    names, sizes = [], []
    for part, kind in ((0, "nodes"), (2, "edges")):
        tables = [sample.x[part] for sample in problem.samples]
        n_rows = max(1, sum(map(len, tables)))
        # Squares of large numbers overflow, their hypotenuse does not.
        largest = np.max([np.abs(own).max(axis=0, initial=0.0) for own in tables], axis=0)
        unit = np.where(largest > 0, largest, 1.0)
        squares = np.sum([((own / unit) ** 2).sum(axis=0) for own in tables], axis=0)
        sizes += (unit * np.sqrt(squares / n_rows)).tolist()
        names += [f"feature {column} of {kind}" for column in range(len(unit))]
    used = [size for size in sizes if size > 0]
    large = [k for k, size in enumerate(sizes) if used and size > _UNEVEN * min(used)]
    if not large:
        return advice
    shown = ", ".join(names[k] for k in large[:_SHOWN]) + (f" and {len(large) - _SHOWN} more" if len(large) > _SHOWN else "")
    return (
        f"{advice}: up to {max(sizes):.3g} (root mean square) in {shown}, but {min(used):.3g} in "
        f"{names[sizes.index(min(used))]}; divide the large ones by such numbers"
    )


def check_edge_features(connectivity: int, edge_features: str) -> None:
    """Complain about parameters of grids."""
    if connectivity not in (4, 8):
        raise ValueError(f"connectivity={connectivity!r} must be 4 or 8")
    if edge_features not in ("constant", "steps", "ends"):
        raise ValueError(f"edge_features={edge_features!r} is unknown; choose 'constant', 'steps' or 'ends'")


def check_images(X: Sequence[Any]) -> list[Floats]:
    """Arrays of shape (H, W, p)."""
    images = [np.asarray(image, dtype=np.float64) for image in X]
    for k, image in enumerate(images):
        if image.ndim != 3 or 0 in image.shape:
            raise ValueError(f"image {k} must have shape (H, W, features), but has shape {image.shape}")
    return images


def check_masks(images: list[Floats], y: Sequence[ArrayLike]) -> list[NDArray[Any]]:
    """Labels of the pixels, row by row."""
    truth = [np.asarray(own) for own in y]
    for k, (image, own) in enumerate(zip(images, truth, strict=False)):
        if own.shape != image.shape[:2]:
            raise ValueError(f"image {k} has shape {image.shape}, but its labels have {own.shape}; one per pixel is needed")
    return [own.ravel() for own in truth]


def image_graph(image: Floats, connectivity: int, edge_features: str) -> tuple[Floats, Int32s, Floats]:
    """An image as a graph; features of edges are ordered by step, then first and second end."""
    nodes, n_steps = np.asarray(image.reshape(-1, image.shape[2])), len(GRID_STEPS[connectivity])
    edges, numbers = grid_edges(image.shape[:2], connectivity)
    step = numbers // len(nodes)
    if edge_features == "constant":
        features = np.ones((len(edges), 1))
    elif edge_features == "steps":
        features = np.eye(n_steps)[step]
    else:
        ends = nodes[edges].reshape(len(edges), -1)
        spread = np.zeros((len(edges), n_steps, ends.shape[1]))
        spread[np.arange(len(edges)), step] = ends
        features = spread.reshape(len(edges), -1)
    return nodes, edges, features


def label_costs(class_weight: Any, classes: NDArray[Any], labels: NDArray[Any]) -> Floats | None:
    """What a wrong label costs, by the true one, in the order of the classes."""
    if class_weight is None:
        return None
    if not isinstance(class_weight, Mapping) and class_weight != "balanced":
        raise ValueError(f"class_weight={class_weight!r} is unknown; choose 'balanced', or give every label a number")
    costs = np.asarray(compute_class_weight(class_weight, classes=classes, y=labels), dtype=np.float64)
    bad = ~((costs >= 0) & (costs < np.inf))
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(f"class_weight[{classes[at].item()!r}] = {costs[at]:g} must be finite and not negative")
    return costs


def known_classes(labels: NDArray[Any]) -> NDArray[Any]:
    """All labels that occur; 0 and 1 if there is nothing else, even if one of them is missing."""
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y contains NaN or infinity; every node needs a label")
    found = np.unique(labels)
    if found.dtype.kind in "biuf" and np.isin(found, (0, 1)).all():
        return np.array([0, 1])
    if len(found) < 2:
        raise ValueError(f"y holds the label {found[0]!r} only; at least two are needed")
    return found
