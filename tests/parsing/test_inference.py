"""Dependency trees: Eisner's and Edmonds' searches against all trees of short sentences."""

import itertools

import numpy as np
import pytest
from tests.cases.parsing_cases import all_trees, is_projective, is_tree, tree_scores

from maxmargin.parsing import best_tree, best_trees, k_best_trees

KINDS = list(itertools.product([True, False], [True, False]))


def test_the_numbers_of_trees_are_those_of_the_books():
    # Cayley: (n+1)^(n-1), and n^(n-1) with a single child of the root; Fuss-Catalan for projective trees.
    assert [len(all_trees(n, False, False)) for n in range(1, 6)] == [1, 3, 16, 125, 1296]
    assert [len(all_trees(n, False, True)) for n in range(1, 6)] == [1, 2, 9, 64, 625]
    assert [len(all_trees(n, True, False)) for n in range(1, 6)] == [1, 3, 12, 55, 273]
    assert [len(all_trees(n, True, True)) for n in range(1, 6)] == [1, 2, 7, 30, 143]


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_best_tree_is_the_best_of_all(projective, single_root):
    rng = np.random.default_rng(0)
    for trial in range(150):
        n = int(rng.integers(1, 6))
        scores = rng.normal(size=(n + 1, n + 1)) if trial % 2 else rng.integers(-2, 3, (n + 1, n + 1)).astype(float)
        trees = all_trees(n, projective, single_root)
        found = best_tree(scores, projective=projective, single_root=single_root)
        assert found.score == pytest.approx(tree_scores(scores, trees).max(), abs=1e-12)
        assert tuple(found.heads) in set(map(tuple, trees.tolist()))
        assert found.score == pytest.approx(tree_scores(scores, found.heads[None])[0], abs=1e-12)


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_k_best_trees_are_all_trees_in_order(projective, single_root):
    rng = np.random.default_rng(1)
    for trial in range(40):
        n = int(rng.integers(1, 5 if projective else 4)) + 1
        scores = rng.normal(size=(n + 1, n + 1)) if trial % 2 else rng.integers(-2, 3, (n + 1, n + 1)).astype(float)
        trees = all_trees(n, projective, single_root)
        expected = np.sort(tree_scores(scores, trees))[::-1]
        k = int(rng.integers(1, len(trees) + 5))
        found = k_best_trees(scores, k, projective=projective, single_root=single_root)
        assert len(found) == min(k, len(trees))
        assert len({tuple(tree.heads) for tree in found}) == len(found)
        assert {tuple(tree.heads) for tree in found} <= set(map(tuple, trees.tolist()))
        np.testing.assert_allclose([tree.score for tree in found], expected[: len(found)], atol=1e-12)
        for tree in found:
            assert tree.score == pytest.approx(tree_scores(scores, tree.heads[None])[0], abs=1e-12)


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_labelled_trees(projective, single_root):
    rng = np.random.default_rng(2)
    for _ in range(25):
        n, n_labels = int(rng.integers(1, 4)), int(rng.integers(1, 4))
        scores = rng.normal(size=(n + 1, n + 1, n_labels))
        every = [
            (sum(scores[h, m, tag] for m, (h, tag) in enumerate(zip(heads, tags, strict=True), 1)), tuple(heads), tags)
            for heads in all_trees(n, projective, single_root).tolist()
            for tags in itertools.product(range(n_labels), repeat=n)
        ]
        every.sort(reverse=True)
        found = k_best_trees(scores, 30, projective=projective, single_root=single_root)
        assert [(tuple(tree.heads.tolist()), tuple(tree.labels.tolist())) for tree in found] == [own[1:] for own in every[:30]]
        np.testing.assert_allclose([tree.score for tree in found], [own[0] for own in every[:30]], atol=1e-12)
        best = best_tree(scores, projective=projective, single_root=single_root)
        assert (tuple(best.heads.tolist()), tuple(best.labels.tolist())) == every[0][1:]


def test_longer_sentences_agree_with_each_other():
    rng = np.random.default_rng(3)
    for n in (8, 17, 40):
        scores = rng.normal(size=(n + 1, n + 1))
        for projective, single_root in KINDS:
            kind = {"projective": projective, "single_root": single_root}
            best, several = best_tree(scores, **kind), k_best_trees(scores, 12, **kind)
            assert best.score == pytest.approx(several[0].score, abs=1e-9)
            assert all(a.score >= b.score - 1e-12 for a, b in itertools.pairwise(several))
            assert len({tuple(tree.heads) for tree in several}) == 12
            for tree in several:
                assert is_tree(tree.heads.tolist()) and (not projective or is_projective(tree.heads.tolist()))
                assert not single_root or list(tree.heads).count(0) == 1
        # Every restriction costs something.
        score = {kind: best_tree(scores, projective=kind[0], single_root=kind[1]).score for kind in KINDS}
        assert score[False, False] >= max(score[True, False], score[False, True]) >= score[True, True]


def test_a_tree_that_is_best_by_far_is_found_by_both():
    # Scores under which the projective tree is best of all: both searches must find it.
    rng = np.random.default_rng(4)
    for _ in range(20):
        n = 25
        heads = best_tree(rng.normal(size=(n + 1, n + 1))).heads
        scores = rng.normal(size=(n + 1, n + 1))
        scores[heads, np.arange(1, n + 1)] += 100
        for projective in (True, False):
            np.testing.assert_array_equal(best_tree(scores, projective=projective).heads, heads)


@pytest.mark.parametrize(("projective", "single_root"), KINDS)
def test_forbidden_arcs(projective, single_root):
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(150):
        n = int(rng.integers(2, 5))
        scores = np.where(rng.random((n + 1, n + 1)) < 0.45, -np.inf, rng.normal(size=(n + 1, n + 1)))
        totals = tree_scores(scores, all_trees(n, projective, single_root))
        allowed = np.sort(totals[totals > -np.inf])[::-1]
        several = k_best_trees(scores, 1000, projective=projective, single_root=single_root)
        np.testing.assert_allclose([tree.score for tree in several], allowed, atol=1e-12)
        if len(allowed):
            assert best_tree(scores, projective=projective, single_root=single_root).score == pytest.approx(allowed[0], abs=1e-12)
        else:
            refused += 1
            with pytest.raises(ValueError, match="no tree is left"):
                best_tree(scores, projective=projective, single_root=single_root)
    assert refused > 5


def test_many_sentences_at_once():
    rng = np.random.default_rng(6)
    tables = [rng.normal(size=(n + 1, n + 1, 3)) for n in (1, 5, 2, 9)]
    for projective in (True, False):
        for one, table in zip(best_trees(tables, projective=projective), tables, strict=True):
            own = best_tree(table, projective=projective)
            np.testing.assert_array_equal(one.heads, own.heads)
            np.testing.assert_array_equal(one.labels, own.labels)
    assert best_trees([]) == []


def test_bad_scores():
    with pytest.raises(ValueError, match=r"must have shape \(n \+ 1, n \+ 1\)"):
        best_tree(np.zeros((3, 4)))
    with pytest.raises(ValueError, match=r"at \[1, 2\] is not; forbid arcs by -inf"):
        best_tree([[0, 0, 0], [0, 0, np.nan], [0, 0, 0]])
    with pytest.raises(ValueError, match="overflow"):
        best_tree(np.full((3, 3), 1e301))
    with pytest.raises(ValueError, match="k=0 must be a positive integer"):
        k_best_trees(np.zeros((2, 2)), 0)
    with pytest.raises(ValueError, match="different numbers of labels"):
        best_trees([np.zeros((2, 2, 1)), np.zeros((2, 2, 2))])
    # What is not read does not matter.
    assert best_tree([[np.nan, 1], [np.nan, np.nan]]).score == 1
