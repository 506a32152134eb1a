"""Trees over labels: distances by walking, separation, dominance, stretch."""

import numpy as np
import pytest

from maxmargin.labeling import HST, Metric, linkage_tree, minkowski, random_hst, random_tree, refit_heights, star
from maxmargin.labeling.label_trees import fit_heights

METRICS = {
    "truncated": Metric("linear", limit=5).table(20),
    "linear": Metric("linear").table(16),
    "uniform": Metric("potts", scale=3.0).table(10),
    "euclidean": minkowski(np.random.default_rng(0).normal(size=(16, 2))),
}


def walked(tree):
    """Distances by climbing to the lowest common ancestor."""

    def above(node):
        path = [node]
        while tree.parents[path[-1]] >= 0:
            path.append(tree.parents[path[-1]])
        return path

    found = np.zeros((tree.n_labels, tree.n_labels))
    for a in range(tree.n_labels):
        for b in range(tree.n_labels):
            ways = above(a), above(b)
            meet = next(node for node in ways[0] if node in ways[1])
            if a == b:
                continue
            if tree.heights is not None:
                found[a, b] = 2 * tree.heights[meet]
            else:
                found[a, b] = sum(tree.lengths[node] for way in ways for node in way[: way.index(meet)])
    return found


def trees(seed):
    metric = minkowski(np.random.default_rng(seed).normal(size=(9, 2)))
    drawn = random_tree(metric, 1.0 + seed % 3 + 0.5, random_state=seed)
    return [random_hst(11, 1.2 + seed % 3, random_state=seed), drawn, refit_heights(drawn, metric), linkage_tree(metric)]


@pytest.mark.parametrize("seed", range(8))
def test_distances_and_diameters_by_walking(seed):
    rng = np.random.default_rng(seed)
    for tree in trees(seed):
        distances = walked(tree)
        np.testing.assert_allclose(tree.distances, distances, rtol=1e-12)
        some = rng.choice(tree.n_labels, 4, replace=False)
        assert tree.diameter(some.tolist()) == pytest.approx(distances[np.ix_(some, some)].max())


@pytest.mark.parametrize("seed", range(8))
def test_structure_of_trees(seed):
    for tree in trees(seed):
        np.testing.assert_array_equal(tree.labels(tree.root), np.arange(tree.n_labels))
        np.testing.assert_array_equal(np.sort(tree.order), np.arange(tree.n_labels))
        seen = set(range(tree.n_labels))
        for level in tree.levels:
            for node in level:
                below = np.concatenate([tree.labels(child) for child in tree.children(node)])
                np.testing.assert_array_equal(np.sort(below), tree.labels(node))
                assert len(set(below)) == len(below)
                places = np.flatnonzero(np.isin(tree.order, below))
                assert np.ptp(places) == len(places) - 1
                assert set(tree.children(node)) <= seen
            seen |= set(level)
        assert len(seen) == len(tree.parents)


@pytest.mark.parametrize("r", [1.2, 2.0, 3.0])
@pytest.mark.parametrize("seed", range(5))
def test_random_trees_are_separated(r, seed):
    tree = random_hst(20, r, random_state=seed)
    assert tree.ratio >= r * (1 - 1e-12)
    assert 2 <= tree.n_children <= 4
    drawn = random_tree(METRICS["euclidean"], r, random_state=seed)
    assert drawn.ratio >= r * (1 - 1e-9)


def test_figure_of_the_thesis():
    tree = HST([4, 4, 5, 5, 6, 6, -1], lengths=[3, 3, 3, 3, 6, 6, 0])
    assert tree.ratio == 2
    assert (tree.distances[0, 1], tree.distances[0, 2]) == (6, 18)
    assert [tree.diameter(s) for s in ([0, 1, 2, 3], [2, 3], [2])] == [18, 6, 0]


@pytest.mark.parametrize("name", METRICS)
def test_refitted_heights_are_the_lowest_that_dominate(name):
    metric = METRICS[name]
    for seed in range(20):
        drawn = random_tree(metric, 2.0, random_state=seed)
        tree = refit_heights(drawn, metric)
        d = tree.distances
        assert (drawn.distances >= metric - 1e-9).all()
        assert (d >= metric - 1e-12).all()
        assert (d <= drawn.distances + 1e-9).all()
        # Of three labels the two largest distances are equal.
        assert (d[:, :, None] <= np.maximum(d[:, None, :], d[None, :, :].transpose(0, 2, 1)) + 1e-12).all()
        np.testing.assert_allclose(fit_heights(drawn, metric).distances, d)
        assert all(len(tree.children(node)) > 1 for level in tree.levels for node in level)
        # No height can be less: it is attained by some pair below.
        for level in tree.levels:
            for node in level:
                below = tree.labels(node)
                assert metric[np.ix_(below, below)].max() == pytest.approx(2 * tree.heights[node])


@pytest.mark.parametrize("name", METRICS)
def test_expected_stretch_of_pairs_and_sets(name):
    metric = METRICS[name]
    n_labels = len(metric)
    apart = ~np.eye(n_labels, dtype=bool)
    rng = np.random.default_rng(1)
    sets = [rng.choice(n_labels, size=int(rng.integers(2, 7)), replace=False) for _ in range(40)]
    wide = np.array([metric[np.ix_(s, s)].max() for s in sets])
    total, of_sets = np.zeros_like(metric), np.zeros(len(sets))
    for seed in range(300):
        d = random_tree(metric, 2.0, random_state=seed).distances
        total += d / 300
        of_sets += np.array([d[np.ix_(s, s)].max() for s in sets]) / 300
    bound = 8 * (1 + np.log(n_labels))
    assert (total[apart] / metric[apart]).max() < bound
    assert (of_sets / wide).max() < bound
    # The generalisation to r keeps trees from being arbitrarily long, too.
    assert (total[apart] / metric[apart]).mean() < 12


def test_uniform_metric_refits_to_itself():
    metric = METRICS["uniform"]
    for tree in (refit_heights(random_tree(metric, random_state=3), metric), linkage_tree(metric), star(10, 3.0)):
        np.testing.assert_allclose(tree.distances, metric)
        assert tree.n_children == 10


def test_ultrametric_linkage_is_exact():
    tree = refit_heights(random_tree(METRICS["linear"], random_state=2), METRICS["linear"])
    np.testing.assert_allclose(linkage_tree(tree.distances).distances, tree.distances)


def test_seeds():
    first, again, other = (random_tree(METRICS["euclidean"], random_state=seed).distances for seed in (4, 4, 5))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_single_label():
    for tree in (random_tree([[0.0]]), linkage_tree([[0.0]]), star(1), random_hst(1)):
        assert tree.n_labels == 1
        assert tree.distances.tolist() == [[0.0]]
        assert tree.levels == []
    assert refit_heights(HST([1, -1], lengths=[1, 0]), [[0.0]]).parents.tolist() == [-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"parents": [2, 2, -1]}, "either heights"),
        ({"parents": [2, 2, -1], "heights": [0, 0, 1], "lengths": [1, 1, 0]}, "either heights"),
        ({"parents": [-1, -1], "heights": [0, 0]}, "2 roots"),
        ({"parents": [0, 2, -1], "heights": [0, 0, 0]}, "node 0 has children"),
        ({"parents": [5, 4, 3, 4, 3, -1], "heights": [0, 0, 0, 1, 1, 1]}, "cycle"),
        ({"parents": [3, 3, 4, 4, -1], "heights": [0, 0, 0, 2, 1]}, r"heights\[3\] = 2 is above its parent's 1"),
        ({"parents": [2, 2, -1], "heights": [0, 1, 2]}, "heights of leaves"),
        ({"parents": [2, 2, -1], "lengths": [1, -1, 0]}, r"lengths\[1\] = -1"),
        ({"parents": [2, 2, -1], "lengths": [1, 1]}, "shape"),
    ],
)
def test_bad_trees_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        HST(arguments.pop("parents"), **arguments)


def test_bad_metrics_are_named():
    for make in (random_tree, linkage_tree):
        with pytest.raises(ValueError, match="is longer than"):
            make(Metric("quadratic").table(4))
    with pytest.raises(ValueError, match="r=1"):
        random_tree(METRICS["linear"], 1)
    with pytest.raises(ValueError, match="lengths of edges cannot be contracted"):
        random_hst(4, random_state=0).contracted()
