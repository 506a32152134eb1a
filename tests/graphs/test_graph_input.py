"""What graph models say about labels and features that do not fit, and features of any size for rankers with neighbours."""

import re

import numpy as np
import pytest

from maxmargin import GraphSVM, GridSVM, HighOrderRankingSVM
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.graphs import GraphProblem
from maxmargin.graphs.svm import uneven_features

RNG = np.random.default_rng(0)
CHAIN = [(0, 1), (1, 2), (2, 3)]
X = [(RNG.random((4, 2)), CHAIN) for _ in range(4)]
Y = [np.array([0, 1, 0, 1])] * 4
MODEL = GraphSVM(tol=1e-2).fit(X, Y)
IMAGES = [RNG.random((3, 4, 2)) for _ in range(4)]
MASKS = [(image[..., 0] > 0.5).astype(int) for image in IMAGES]
GRID = GridSVM(tol=1e-2).fit(IMAGES, MASKS)


def with_nan(arrays, at):
    copies = [array.copy() for array in arrays]
    copies[1][at] = np.nan
    return copies


FEATURES = [features for features, _ in X]
BROKEN = [(features, CHAIN) for features in with_nan(FEATURES, (2, 1))]
WORDS = [np.array(["a", "b", "a", "b"])]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: MODEL.score(X, Y[:-1]), ValueError, "X has 4 samples, but y has the labels of 3"),
        (lambda: MODEL.score(X, [y[:3] for y in Y]), ValueError, r"y has labels of shape \(3,\) for sample 0, but \(4,\)"),
        (lambda: MODEL.score(X, None), TypeError, "y must be a list with an array of labels for every sample, but is None"),
        (lambda: GRID.score(IMAGES, MASKS[:-1]), ValueError, "X has 4 samples, but y has the labels of 3"),
        (lambda: GRID.score(IMAGES, [y[:2] for y in MASKS]), ValueError, r"shape \(2, 4\) for sample 0, but \(3, 4\)"),
        (lambda: GraphSVM().fit(X, None), ValueError, "GraphSVM requires y to be passed, but the target y is None"),
        (lambda: GridSVM().fit(IMAGES, None), ValueError, "GridSVM requires y to be passed, but the target y is None"),
        (lambda: GraphSVM().fit(X, 3), TypeError, "y must be a list with an array of labels for every sample, but is 3"),
        (lambda: GraphSVM().fit(X, [y[:3] for y in Y]), ValueError, "sample 0: there are 4 nodes and 3 labels"),
        (lambda: GraphSVM().fit(X, [y[:, None] for y in Y]), ValueError, r"labels of graph 0 have shape \(4, 1\)"),
        (lambda: GraphSVM().fit(X, [None] * 4), ValueError, "labels of graph 0 have shape"),
        (lambda: GraphSVM().fit(X, [[0, 1, None, 1]] * 4), ValueError, r"y has no label for sample 3 \(None\)"),
        (lambda: GraphSVM().fit(X, WORDS * 2 + Y[:2]), ValueError, "graph 2 has numbers, those before have text"),
        (lambda: GraphSVM().fit(X, Y[:2] + WORDS * 2), ValueError, "graph 2 has text, those before have numbers"),
        (lambda: GraphSVM().fit(X, [["a", 1, "a", 1]] * 4), ValueError, r"y mixes text and numbers \(in graph 0\)"),
        (
            lambda: GraphSVM().fit(BROKEN, Y),
            ValueError,
            "sample 1: features must be a finite array, but feature 1 of node 2 is nan",
        ),
        (lambda: MODEL.predict(BROKEN), ValueError, "sample 1: features must be a finite array, but feature 1 of node 2 is nan"),
        (lambda: GridSVM().fit(with_nan(IMAGES, (0, 0, 0)), MASKS), ValueError, "sample 1: features must be a finite array"),
        (lambda: MODEL.predict([(X[0][0], [(0.5, 1)])]), ValueError, "edges must be pairs of integers"),
        (
            lambda: MODEL.predict([(X[0][0], [(2**32, 1)])]),
            ValueError,
            "edge 0 joins 4294967296 and 1; nodes are numbered 0 to 3",
        ),
    ],
)
def test_what_is_refused(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("labels", [[["a", "b", "a", "b"]] * 4, [np.array(["a", "b", "a", "b"], object)] * 4, WORDS * 4])
def test_text_in_every_form(labels):
    model = GraphSVM(tol=1e-2).fit(X, labels)
    assert set(model.classes_) == {"a", "b"} and 0 <= model.score(X, labels) <= 1


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1e300])
def test_neighbours_rank_features_of_any_size_alike(size):
    values = np.random.default_rng(1).normal(size=(60, 3))
    relevant, groups = values[:, 0] > 0.3, np.repeat(np.arange(20), 3)
    usual = HighOrderRankingSVM(tol=1e-7).fit(values, relevant, groups=groups)
    other = HighOrderRankingSVM(tol=1e-7).fit(values * size, relevant, groups=groups)
    np.testing.assert_allclose(other.coef_ * size, usual.coef_, rtol=1e-3, atol=1e-4)
    assert other.certified_ and other.score(values * size, relevant, groups=groups) == usual.score(
        values, relevant, groups=groups
    )


def test_features_without_finite_weights_are_refused():
    values = RNG.normal(size=(30, 2))
    with pytest.raises(ValueError, match=r"feature 1 of X varies by .*e-30[67] only.*multiply it by a large number"):
        HighOrderRankingSVM().fit(values * [1, 1e-306], values[:, 0] > 0)


def test_the_warning_names_large_features():
    rng = np.random.default_rng(0)
    edges = [(0, 1), (1, 2), (2, 0)]
    y = [rng.integers(0, 3, 3) for _ in range(8)]

    def warned(scale, **arguments):
        X = [(rng.normal(size=(3, 2)) * scale, edges) for _ in y]
        with pytest.warns(ConvergenceWarning) as found:
            GraphSVM(C=100.0, max_iter=3, tol=1e-9).fit(X, y, **arguments)
        return str(found[0].message)

    uneven = r"scale the features: up to \d+ \(root mean square\) in feature 1 of nodes, but [\d.]+ in feature 0 of \w+; divide"
    assert re.search(uneven, warned([1.0, 500.0]))
    assert re.search(uneven, warned([1.0, 500.0], sample_weight=np.linspace(0.5, 1.5, len(y))))
    assert re.search("in feature 0 of nodes, feature 1 of nodes, but 1 in feature 0 of edges;", warned([1e4, 1e4]))
    # Columns of zeros are not small, but none.
    assert warned([1.0, 0.0]).endswith("or scale the features") and warned([1.0, 10.0]).endswith("or scale the features")


def test_sizes_of_features_do_not_overflow():
    wide = [(np.full((3, 8), 1e200), [(0, 1), (1, 2)])]
    advice = uneven_features(GraphProblem(wide, [np.array([0, 1, 1])]), "scale")
    assert advice.startswith("scale: up to 1e+200") and "feature 4 of nodes and 3 more, but 1 in feature 0 of edges" in advice
