"""Labelings by their numbers of wrong labels, and all searches against that program (spec 7.2 and 7.4)."""

from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from maxmargin import _core
from maxmargin.sequences import ChainStructure, Tree, TreeStructure
from maxmargin.surrogates import (
    BetaScaling,
    LogLoss,
    ProbLoss,
    Slack,
    StructuredProblem,
    angular,
    binary_search,
    bisecting,
    hull_search,
    recover,
    sarawagi,
)
from maxmargin.surrogates.structure_oracle import StructureOracle
from maxmargin.surrogates.tangents import counted

K, P = 3, 2
CONVEX = [Slack(), BetaScaling(0.5), LogLoss(), ProbLoss()]


def cases(kind, rng, n, L):
    """Structure, inputs and true labels."""
    X = [rng.normal(size=(L, P)) for _ in range(n)]
    Y = [rng.integers(0, K, L) for _ in range(n)]
    normalize = bool(rng.integers(2))
    if kind == "chain":
        return ChainStructure(K, P, normalize=normalize), X, Y
    parents = [[-1, *(int(rng.integers(-1, t)) for t in range(1, L))] for _ in range(n)]
    return TreeStructure(K, P, normalize=normalize), [Tree(x, p) for x, p in zip(X, parents, strict=True)], Y


def best_scores(x, parent, weights, truth):
    """The best score for every number of wrong labels: a knapsack over subtrees in dictionaries, from the definition."""
    emission, root, leaf, table = np.split(weights, np.cumsum([K * P, K, K]))
    emission, table, L = emission.reshape(K, P), table.reshape(K, K), len(truth)
    below = [[t for t in range(L) if parent[t] == p] for p in range(L)]

    def merged(one, other):
        both = defaultdict(lambda: -np.inf)
        for i, a in one.items():
            for j, b in other.items():
                both[i + j] = max(both[i + j], a + b)
        return both

    def largest(parts):
        top = defaultdict(lambda: -np.inf)
        for part in parts:
            for i, a in part.items():
                top[i] = max(top[i], a)
        return top

    @cache
    def of(t, k):
        own = emission[k] @ x[t] + (root[k] if parent[t] < 0 else 0) + (0 if below[t] else leaf[k])
        found = {int(k != truth[t]): own}
        for child in below[t]:
            found = merged(found, largest({i: a + table[k, c] for i, a in of(child, c).items()} for c in range(K)))
        return found

    whole = {0: 0.0}
    for t in range(L):
        if parent[t] < 0:
            whole = merged(whole, largest(of(t, k) for k in range(K)))
    return np.array([whole[j] for j in range(L + 1)])


def parts_of(x, L):
    return (x.features, list(x.parent)) if isinstance(x, Tree) else (x, list(range(-1, L - 1)))


@pytest.mark.parametrize("kind", ["chain", "tree"])
def test_searches_against_the_program_of_counts(kind):
    """What finds single outputs is between nothing and the optimum, bounds are above it, and exact searches meet it."""
    rng = np.random.default_rng(0)
    for L in (1, 4, 9):
        structure, X, Y = cases(kind, rng, 4, L)
        problem = StructuredProblem(structure, X, Y, "slack")
        losses = np.arange(L + 1.0) / (L if structure.normalize else 1.0)
        for scale in (0.3, 1.0, 2.5):
            weights = scale * rng.normal(size=problem.n_features)
            # Labels that go together: many are changed at once, and the frontier has dents.
            weights[-K * K :] = scale * np.eye(K).ravel()
            for sample, truth in zip(problem.samples, Y, strict=True):
                scores = best_scores(*parts_of(sample.x, L), weights, truth)

                def oracle(sample=sample, structure=structure, weights=weights):
                    return StructureOracle(structure, sample, weights)

                for surrogate in CONVEX:
                    best = max(0.0, float(np.max(surrogate.value(scores - scores[0], losses))))
                    close = {"rel": 1e-8, "abs": 1e-9}
                    hull = hull_search(surrogate, oracle(), first=1.0)
                    assert hull.best <= best + 1e-8 and hull.upper >= best - 1e-8
                    for exact in (recover(surrogate, oracle(), hull), counted(surrogate, oracle(), hull)):
                        assert exact.exact and exact.best == pytest.approx(best, **close)
                    if not surrogate.product:
                        continue
                    for search in (bisecting, binary_search, sarawagi):
                        found = search(oracle())
                        assert found.best <= best + 1e-8 and found.upper >= best - 1e-8
                    for order in ("priority", "fifo"):
                        found = angular(oracle(), order=order)
                        assert found.exact and found.best == pytest.approx(best, **close)


def test_a_labeling_below_the_hull():
    """Two nodes that like to agree: margin errors 0, -0.5, -0.9 for 0, 1 and 2 wrong labels, the second below the hull."""
    structure = ChainStructure(2, 1, normalize=False)
    weights = np.array([0.45, 0.0, 0, 0, 0, 0, 0.05, 0, 0, 0.05])
    problem = StructuredProblem(structure, [np.ones((2, 1))], [np.zeros(2, dtype=int)], "slack")
    oracle = StructureOracle(structure, problem.samples[0], weights)
    found = hull_search(Slack(), oracle)
    assert found.best == pytest.approx(0.2) and found.upper == pytest.approx(0.55)
    for exact in (recover(Slack(), oracle, found), counted(Slack(), oracle, found), angular(oracle)):
        assert exact.best == pytest.approx(0.5) and exact.exact
    assert problem.cut(0, weights).hinge(weights) == pytest.approx(0.5) and problem.cut(0, weights).bound is None


@pytest.mark.parametrize("kind", ["chain", "tree"])
def test_the_best_labelings_by_loss_and_within_cones(kind):
    """Against the list of all labelings."""
    rng = np.random.default_rng(1)
    empty = full = 0
    for _ in range(12):
        L = int(rng.integers(1, 6))
        structure, (x,), (y,) = cases(kind, rng, 1, L)
        x, y = structure.encode(x, y)
        weights = rng.normal(size=K * P + 2 * K + K * K)
        listed = list(structure.all_outputs(x))
        scores = np.array([float((structure.joint_feature(x, z).toarray() @ weights)[0]) for z in listed])
        own = scores[[np.array_equal(z, y) for z in listed]][0]
        losses = np.array([structure.loss(y, z) for z in listed])
        found = structure.best_by_loss(x, weights, y)
        assert [structure.loss(y, z) for z in found] == pytest.approx(sorted(set(losses)))
        top = {}
        for z in found:
            score = float((structure.joint_feature(x, z).toarray() @ weights)[0])
            assert score == pytest.approx(scores[losses == structure.loss(y, z)].max(), abs=1e-12)
            top[structure.loss(y, z)] = score
        np.testing.assert_array_equal(found[0], y)
        for _ in range(8):
            lam, low = np.exp(rng.normal(size=2))
            high = low * np.exp(abs(rng.normal()))
            # No labeling that is below another one with the same loss.
            inside = [
                1 + score - own + lam * loss
                for loss, score in top.items()
                if loss > 0 and 1 + score - own > 0 and low <= loss / (1 + score - own) < high
            ]
            answer = structure.decode_within(x, weights, y, lam, low, high)
            empty, full = empty + (not inside), full + bool(inside)
            assert (answer is None) == (not inside)
            if inside:
                score = float((structure.joint_feature(x, answer).toarray() @ weights)[0])
                assert 1 + score - own + lam * structure.loss(y, answer) == pytest.approx(max(inside), abs=1e-10)
    assert empty > 5 and full > 5


def test_with_one_label_nothing_is_wrong():
    structure = ChainStructure(1, 2)
    x, y = structure.encode(np.ones((3, 2)), np.zeros(3, dtype=int))
    weights = np.ones(5)
    assert len(structure.best_by_loss(x, weights, y)) == 1
    assert structure.decode_within(x, weights, y, 1.0, 0.0, np.inf) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"truth": np.array([0, 3], dtype=np.int32)}, "labels between"),
        ({"truth": np.array([0], dtype=np.int32)}, "one label for every node"),
        ({"pairwise": np.zeros((2, 3, 3))}, "pairwise must be of shape"),
        ({"parent": np.array([-1, 1], dtype=np.int32)}, "parent"),
    ],
)
def test_bad_arrays_are_refused(change, message):
    """They would make the compiled program read foreign memory."""
    arguments = {
        "unary": np.zeros((2, 3)), "pairwise": np.zeros((3, 3)), "truth": np.zeros(2, dtype=np.int32), "parent": None,
    }  # fmt: skip
    _core.forest_best_by_count(**arguments)
    with pytest.raises(ValueError, match=message):
        _core.forest_best_by_count(**(arguments | change))


def test_angular_search_needs_neither_lists_nor_k_best():
    """The cut of a long chain, whose labelings nobody lists."""
    rng = np.random.default_rng(2)
    structure, X, Y = cases("chain", rng, 3, 40)
    problem = StructuredProblem(structure, X, Y, Slack(search="angular"))
    weights = 0.3 * rng.normal(size=problem.n_features)
    losses = np.arange(41.0) / (40 if structure.normalize else 1.0)
    for x, y, cut in zip(X, Y, problem.cuts(range(3), weights), strict=True):
        found = structure.best_by_loss(x, weights, y)
        margins = [float(((structure.joint_feature(x, z) - structure.joint_feature(x, y)).toarray() @ weights)[0]) for z in found]
        best = max(0.0, float(np.max((1 + np.array(margins)) * losses)))
        assert cut.bound is None and cut.hinge(weights) == pytest.approx(best, rel=1e-9)
