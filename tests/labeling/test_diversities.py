"""Costs of sets of labels: axioms, fast ways against slow ones, and what a label that leaves saves."""

import itertools

import numpy as np
import pytest

from maxmargin.labeling import (
    HST,
    L1,
    Cardinality,
    Cliques,
    Diameter,
    Energy,
    FunctionDiversity,
    Metric,
    TreeLength,
    linkage_tree,
    minkowski,
    random_hst,
    why_no_diversity,
)

FIGURE = HST([4, 4, 5, 5, 6, 6, -1], lengths=[3, 3, 3, 3, 6, 6, 0])


def mask(labels, n_labels):
    found = np.zeros((1, n_labels), dtype=bool)
    found[0, list(labels)] = True
    return found


def all_masks(n_labels):
    return (np.arange(2**n_labels)[:, None] >> np.arange(n_labels)) & 1 > 0


def diversities(n_labels, seed):
    """One of every kind, with and without an order in which diameters are simple."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(n_labels, 2))
    tree = random_hst(n_labels, 1.3, random_state=seed)
    return {
        "linear": Diameter(Metric("linear", limit=2.5, scale=1.5)),
        "potts": Diameter("potts"),
        "euclidean": Diameter(minkowski(points)),
        "path tree": Diameter(tree),
        "height tree": Diameter(linkage_tree(minkowski(points))),
        "cardinality": Cardinality(),
        "l1": L1(points),
        "tree length": TreeLength(tree),
        "tree length by heights": TreeLength(linkage_tree(minkowski(points))),
        "function": FunctionDiversity(lambda labels: np.log2(len(labels)) + 0.1 * (max(labels) - min(labels))),
    }


KINDS = list(diversities(2, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_axioms_and_bounds_by_the_diameter(kind, seed):
    n_labels = 2 + seed
    cost = diversities(n_labels, seed)[kind]
    assert why_no_diversity(cost, n_labels) is None
    masks = all_masks(n_labels)
    metric = cost.pairs(n_labels)
    diameters = np.array([max((metric[a, b] for a in s for b in s), default=0.0) for s in map(np.flatnonzero, masks)])
    costs = cost.of(masks)
    assert (diameters <= costs + 1e-12).all()
    assert (costs <= np.maximum(masks.sum(axis=1) - 1, 0) * diameters + 1e-12).all()
    for a, b in itertools.combinations(range(n_labels), 2):
        assert metric[a, b] == metric[b, a] == pytest.approx(cost.of(mask([a, b], n_labels))[0])


@pytest.mark.parametrize("kind", ["linear", "potts", "euclidean", "path tree", "height tree"])
def test_diameter_is_the_largest_distance(kind):
    cost = diversities(6, 3)[kind]
    metric = cost.pairs(6)
    for one in all_masks(6):
        labels = np.flatnonzero(one)
        largest = max((metric[a, b] for a in labels for b in labels), default=0.0)
        assert cost.of(one[None])[0] == pytest.approx(largest, abs=1e-15)


def test_diameter_of_a_truncated_line_in_closed_form():
    cost = Diameter(Metric("linear", limit=3, scale=2))
    for one in all_masks(7)[1:]:
        labels = np.flatnonzero(one)
        assert cost.of(one[None])[0] == 2 * min(labels.max() - labels.min(), 3)


def test_simple_order_is_found_where_there_is_one():
    """The fast way is taken for lines and heights, and refused for points in the plane and uneven paths."""
    costs = diversities(7, 1)
    assert costs["linear"]._distances(7)[1] is not None
    assert costs["height tree"]._distances(7)[1] is not None
    assert costs["euclidean"]._distances(7)[1] is None


def least_savings(cost, labels, alpha, n_labels):
    """By definition, over all sets."""
    found = np.zeros(n_labels)
    for label in labels:
        if label == alpha:
            continue
        rest = [other for other in labels if other not in (label, alpha)]
        some = [s for size in range(len(rest) + 1) for s in itertools.combinations(rest, size)]
        values = [
            cost.of(mask({*s, label, alpha}, n_labels))[0] - cost.of(mask({*s, alpha}, n_labels))[0] for s in some
        ]  # fmt: skip
        found[label] = min(values)
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_savings_equal_enumeration(kind, seed):
    rng = np.random.default_rng(seed)
    n_labels = 6
    cost = diversities(n_labels, seed)[kind]
    masks = rng.random((12, n_labels)) < 0.5
    masks[~masks.any(axis=1), 0] = True
    for alpha in range(n_labels):
        found = cost.savings(masks, alpha)
        for row, one in zip(found, masks, strict=True):
            np.testing.assert_allclose(row, least_savings(cost, np.flatnonzero(one).tolist(), alpha, n_labels), atol=1e-12)


def test_savings_of_steep_lines():
    """No concave function of the distance: the other end of the set matters."""
    cost = Diameter(Metric("quadratic"), validate=False)
    masks = all_masks(6)[1:]
    for alpha in range(6):
        found = cost.savings(masks, alpha)
        for row, one in zip(found, masks, strict=True):
            np.testing.assert_allclose(row, least_savings(cost, np.flatnonzero(one).tolist(), alpha, 6))


def test_many_labels_of_a_function_have_no_certain_savings():
    cost = FunctionDiversity(lambda labels: len(labels) - 1.0)
    found = cost.savings(np.ones((1, 12), dtype=bool), 0)
    assert not found.any()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda s: (max(s) - min(s)) ** 2, r"cost\(\{0, 2\}\) = 4 is more than cost\(\{0, 1\}\) \+ cost\(\{1, 2\}\) = 2"),
        (lambda s: 3.0 - len(s) if len(s) > 1 else 0.0, r"cost\(\{0, 1, 2\}\) = 0, but must be positive"),
        (lambda s: 4.0 - len(s) if len(s) > 1 else 0.0, r"cost\(\{0, 1\}\) = 2 is more than cost\(\{0, 1, 2\}\) = 1"),
        (lambda s: 1.0 if len(s) == 2 else 9.0, "is more than"),
    ],
)
def test_what_is_no_diversity_is_named(function, message):
    with pytest.raises(ValueError, match=message):
        FunctionDiversity(function, n_labels=3)


def test_single_labels_must_be_free():
    class Dear(Cardinality):
        def of(self, present):
            return present.sum(axis=1) * 1.0

    assert why_no_diversity(Dear(), 3) == "cost({0}) = 1, but must be 0 for a single label"


def test_only_few_labels_are_enumerated():
    with pytest.raises(ValueError, match="n_labels=9 must be 1 to 8"):
        why_no_diversity(Cardinality(), 9)


def test_bad_input_is_named():
    with pytest.raises(ValueError, match=r"d\(0, 2\) = 4 is longer"):
        Diameter(Metric("quadratic").table(3))
    with pytest.raises(ValueError, match=r"d\(0, 2\) = 4 is longer"):
        Energy(np.zeros((2, 3)), cliques=Cliques([[0, 1]], Diameter(Metric("quadratic"))))
    with pytest.raises(ValueError, match="must all be different"):
        L1([[0, 1], [0, 1]])
    with pytest.raises(ValueError, match="finite and not negative"):
        FunctionDiversity(lambda labels: np.nan).of(np.ones((1, 2), dtype=bool))
    for cost in (Diameter(np.array([[0, 1.0], [1, 0]])), L1([0, 1]), TreeLength(FIGURE), FunctionDiversity(len, 2)):
        with pytest.raises(ValueError, match="labels"):
            Energy(np.zeros((2, 3)), cliques=Cliques([[0, 1]], cost))


def test_figure_of_the_thesis():
    cost = Diameter(FIGURE)
    assert cost.of(np.array([[True] * 4, [False, False, True, True], [False, False, True, False]])).tolist() == [18, 6, 0]
