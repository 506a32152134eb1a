"""Structured SVMs of labels on graphs and images whose labels have hidden states, or with hidden nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from maxmargin._utils import Floats, Ints
from maxmargin.core import CERTIFICATE, SAMPLEWISE, Facility, LatentEstimator, SampleEstimator, check_weights, encoded
from maxmargin.graphs.latent_problem import LatentGraphProblem
from maxmargin.graphs.latent_structure import LatentGraphStructure
from maxmargin.graphs.svm import check_edge_features, check_images, check_masks, image_graph, known_classes, label_costs
from maxmargin.surrogates import Surrogate, convex_surrogate

LATENT_GRAPH: dict[str, Any] = {
    **CERTIFICATE,
    "n_features_in_": int,
    "n_edge_features_": int,
    "classes_": ("classes",),
    "state_labels_": ("states",),
    "coef_": ("states", "n_features_in_"),
    "edge_coef_": ("edge weights",),
    "pairwise_": ("n_edge_features_", "states", "states"),
    "objective_": float,
}


@dataclass(eq=False, repr=False)
class LatentGraphSVM(LatentEstimator, SampleEstimator):
    """Labels on the nodes of graphs, when labels have kinds that nobody annotated, or when some nodes have no labels at all.

    Every label has ``n_states`` hidden states, with scores of their own for nodes and pairs; a hidden node has one of
    ``n_hidden_states``. Labels follow from the best states. Training guesses the states of the true labels, solves the convex
    problem that remains, and guesses again: the objective falls from round to round, but is not convex, and the certificate is
    that of the last convex problem (see :class:`maxmargin.LatentStructuredSVM`).

    A data set is as in :class:`maxmargin.GraphSVM`, or a list of ``(features (L + H, p), edges, edge_features, H)``, where the
    last H nodes are hidden; their rows of features may be zeros. Labels are a list of arrays of shape (L,).

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per graph.
    n_states : int or sequence of K ints, default=2
        Hidden states of every label, or of each in the order of ``classes_``.
    n_hidden_states : int, default=0
        States of hidden nodes.
    pairwise : {"attractive", "symmetric", "antisymmetric", "free"}, or a list of them, default="symmetric"
        What edges can say of two states, as in :class:`maxmargin.GraphSVM`.
    class_weight : "balanced" or mapping of label to number, optional
        What a wrong label costs, by the true one.
    normalize : bool, default=True
        Divide the loss of a graph by its number of labels; False counts wrong ones.
    surrogate : str or Surrogate, default="margin"
        Which bound of the loss, a convex one, as in :class:`maxmargin.GraphSVM`; the micro F1 is none of them.
    n_starts, max_rounds, bounds, solver, tol, max_iter, time_limit, random_state, verbose, callback
        As in :class:`maxmargin.structured.latent.LatentEstimator`, which also tells the attributes of rounds and certificate.
        Starts are clusters of nodes (k-means) around random ones.

    Attributes
    ----------
    classes_ : array of shape (K,)
    state_labels_ : array of shape (S,)
        Number of the class of every state; -1 for states of hidden nodes, which come last.
    coef_ : array of shape (S, p)
        Weights of the node features for each state.
    edge_coef_ : array of shape (m,)
        Weights of the edge features, see :class:`maxmargin.GraphSVM`.
    pairwise_ : array of shape (q, S, S)
        The same as scores of the states of the first and the second end of an edge, for every edge feature.
    hidden_ : list
        States of the training data, at the weights. Files do not keep them.

    Examples
    --------
    Label 1 stands at both ends of a line, which no linear score of one state can tell:

    >>> rng = np.random.default_rng(0)
    >>> places = [rng.uniform(-2, 2, 4) for _ in range(30)]
    >>> X = [(np.column_stack([place, np.ones(4)]), [(0, 1), (1, 2), (2, 3)]) for place in places]
    >>> y = [(np.abs(place) > 1).astype(int) for place in places]
    >>> model = LatentGraphSVM(C=10, n_states=[1, 2], tol=1e-2, random_state=0).fit(X, y)
    >>> model.score(X, y) > 0.9, model.state_labels_
    (True, array([0, 1, 1]))
    """

    C: float = 1.0
    _: KW_ONLY
    n_states: int | Sequence[int] = 2
    n_hidden_states: int = 0
    pairwise: str | Sequence[str] = "symmetric"
    class_weight: Mapping[Any, float] | str | None = None
    normalize: bool = True
    surrogate: str | Surrogate = "margin"

    lacks: ClassVar[Mapping[Facility, str]] = {
        **SAMPLEWISE,
        "path": "the objective is not convex, so no bound holds between two solutions",
        "warm_start": "every start guesses the states anew",
    }
    holds: ClassVar[Mapping[str, Any]] = LATENT_GRAPH
    not_saved = frozenset({"hidden_"})

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> LatentGraphProblem:
        if len(X) != len(y) or len(X) == 0:
            raise ValueError(f"there are {len(X)} graphs and {len(y)} labelings; they must be equal and not zero")
        truth = [np.asarray(own) for own in y]
        everything = np.concatenate([own.ravel() for own in truth])
        self.classes_ = known_classes(everything)
        costs = label_costs(self.class_weight, self.classes_, everything)
        # What is wrong with a graph is told when it is encoded.
        parts = X[0] if isinstance(X[0], tuple | list) else ()
        widths = [np.shape(part)[1] if np.ndim(part) == 2 else 1 for part in parts]
        self.n_features_in_, self.n_edge_features_ = (widths or [1])[0], widths[2] if len(widths) > 2 else 1
        structure = self._structure(costs)
        self.state_labels_ = structure.label_of
        labels = [np.searchsorted(self.classes_, own) for own in truth]
        return LatentGraphProblem(structure, X, labels, check_weights(sample_weight, len(X)), convex_surrogate(self.surrogate))

    def _structure(self, costs: ArrayLike | None = None) -> LatentGraphStructure:
        widths = self.n_features_in_, self.n_edge_features_
        states = self.n_states, self.n_hidden_states
        return LatentGraphStructure(*widths, len(self.classes_), *states, self.pairwise, costs, self.normalize)

    def _first_weights(self, problem: LatentGraphProblem, start: int, rng: np.random.Generator) -> None:
        """None: starts are clusters."""
        return

    def _train(self, problem: LatentGraphProblem) -> Floats:
        weights = super()._train(problem)
        self.hidden_ = problem.hidden
        return weights

    def _keep(self, weights: Floats) -> None:
        n_own = len(self.state_labels_) * self.n_features_in_
        self.coef_ = weights[:n_own].reshape(-1, self.n_features_in_).copy()
        self.edge_coef_ = weights[n_own:].copy()
        self.pairwise_ = self._structure().states.tables(self.edge_coef_)

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """The labels of the best states that inference finds, for the nodes of every graph that are not hidden."""
        return [self.classes_[labels] for labels, _ in self._pairs(X)]

    def predict_states(self, X: Sequence[Any]) -> list[Ints]:
        """The states of all nodes of every graph, hidden ones too."""
        return [states for _, states in self._pairs(X)]

    def _pairs(self, X: Sequence[Any]) -> list[tuple[Ints, Ints]]:
        check_is_fitted(self)
        structure, weights = self._structure(), np.concatenate([self.coef_.ravel(), self.edge_coef_])
        return [structure.decode(encoded(structure, k, x, None)[0], weights).output for k, x in enumerate(X)]

    def score(self, X: Sequence[Any], y: Sequence[ArrayLike]) -> float:
        """Mean over the graphs of the fraction of right labels."""
        return float(np.mean([np.mean(a == np.asarray(b)) for a, b in zip(self.predict(X), y, strict=True)]))


@dataclass(eq=False, repr=False)
class LatentGridSVM(LatentGraphSVM):
    """Labels with hidden states on the pixels of images; a :class:`LatentGraphSVM` that makes the graphs.

    A data set is a list of arrays of shape (H, W, p), features of the pixels; labels are a list of arrays of shape (H, W).

    Parameters
    ----------
    C, n_states, pairwise, class_weight, normalize, surrogate, and those of the base
        As in :class:`LatentGraphSVM`; no node is hidden.
    connectivity, edge_features
        As in :class:`maxmargin.GridSVM`.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> y = [np.kron(rng.integers(0, 2, (2, 2)), np.ones((2, 2), dtype=int)) for _ in range(12)]
    >>> X = [np.dstack([labels * rng.choice([-2, 2]), labels == 0]) + 0.1 * rng.normal(size=(4, 4, 2)) for labels in y]
    >>> model = LatentGridSVM(C=10, n_states=[1, 2], tol=0.05, random_state=0).fit(X, y)
    >>> model.predict(X)[0].shape, model.score(X, y) > 0.9
    ((4, 4), True)
    """

    _: KW_ONLY
    connectivity: int = 4
    edge_features: str = "constant"

    holds: ClassVar[Mapping[str, Any]] = dict(LATENT_GRAPH)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_edge_features(self.connectivity, self.edge_features)

    def _prepare(self, X: Sequence[Any], y: Sequence[ArrayLike], sample_weight: ArrayLike | None = None) -> LatentGraphProblem:
        images = check_images(X)
        return super()._prepare(self._graphs(images), check_masks(images, y), sample_weight)

    def _graphs(self, images: list[Floats]) -> list[Any]:
        return [image_graph(image, self.connectivity, self.edge_features) for image in images]

    def predict(self, X: Sequence[Any]) -> list[NDArray[Any]]:
        """Labels of every image, shape (H, W)."""
        images = check_images(X)
        found = super().predict(self._graphs(images))
        return [labels.reshape(image.shape[:2]) for image, labels in zip(images, found, strict=True)]

    def predict_states(self, X: Sequence[Any]) -> list[Ints]:
        """States of the pixels of every image, shape (H, W)."""
        images = check_images(X)
        found = super().predict_states(self._graphs(images))
        return [states.reshape(image.shape[:2]) for image, states in zip(images, found, strict=True)]
