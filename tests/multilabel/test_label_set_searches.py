"""Searches for the sets of many samples at once against the same searches one by one, and against all sets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from maxmargin.multilabel import LabelSetOracle, LabelSetSearches, LabelSetStructure, RelaxedLabelSets
from maxmargin.surrogates import Slack, bisecting, hull_search

few = settings(max_examples=40, deadline=None)


@st.composite
def problems(draw, most=6):
    """A structure with some pairs, whole features, two weights with few digits, so that scores are exact, and true sets."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    L, n = draw(st.integers(1, most)), draw(st.integers(0, 5))
    density = draw(st.sampled_from([0.0, 0.5, 1.0]))
    structure = LabelSetStructure(L, 2, [(j, k) for j in range(L) for k in range(j) if rng.random() < density])
    scale = draw(st.sampled_from([0.0, 2.0**-30, 1.0, 3.0, 2.0**30]))
    weights = [scale * np.round(8 * rng.normal(size=structure.n_weights)) / 8 for _ in range(2)]
    return structure, rng.integers(-2, 3, size=(n, 2)).astype(float), weights, rng.integers(0, 2, (n, L))


def kept(found):
    """What the next search of a sample is to begin with."""
    points = {point.key: point.output for point in (*found.vertices, found.incumbent) if point.g > 0}
    asked = [step.b / step.a for step in found.trace if step.a > 0]
    return [labels.tolist() for labels in points.values()][-10:], asked[-1] if asked else 0.0


@few
@given(problems(), st.sampled_from(["hull", "bisecting"]), st.sampled_from([0.0, 1e-3, 0.3]), st.sampled_from([1, 2, 60]))
def test_all_at_once_is_one_by_one(problem, search, tolerance, max_calls):
    structure, X, both, truths = problem
    before, sets, last = None, [[] for _ in X], [None for _ in X]
    for weights in both:
        searches = LabelSetSearches(structure, X, weights, truths)
        found = getattr(searches, search)(before, tolerance=tolerance, max_calls=max_calls)
        for i, truth in enumerate(truths):
            oracle = LabelSetOracle(structure, X[i], weights, truth)
            known = [oracle.candidate(labels) for labels in sets[i]]
            if search == "hull":
                own = hull_search(Slack(), oracle, known or [oracle.opposite()], tolerance=tolerance, max_calls=max_calls)
            else:
                own = bisecting(oracle, known, start=last[i], tolerance=tolerance, max_calls=max_calls)
            assert found.labels[i].tolist() == own.incumbent.output.tolist() and found.calls[i] == own.calls
            assert (found.h[i], found.g[i], found.best[i]) == (own.incumbent.h, own.incumbent.g, own.best)
            assert found.upper[i] == own.upper and found.exact[i] == own.exact
            sets[i], weight = kept(own)
            last[i] = weight if weight > 0 else last[i]
            assert found.sets[found.offsets[i] : found.offsets[i + 1]].tolist() == sets[i]
            assert found.lam[i] == last[i] or (np.isnan(found.lam[i]) and last[i] is None)
        before = found


@few
@given(problems(), st.sampled_from([0.0, 1e-3]), st.booleans())
def test_the_best_of_all_sets_lies_between(problem, tolerance, is_sparse):
    structure, X, both, truths = problem
    searches = LabelSetSearches(structure, sparse.csr_array(X) if is_sparse else X, both[0], truths)
    hull, halves = searches.hull(tolerance=tolerance), searches.bisecting(tolerance=1e-3)
    for i, truth in enumerate(truths):
        points = list(LabelSetOracle(structure, X[i], both[0], truth).everything())
        best = max((1 + point.h) * point.g for point in points)
        for found in (hull, halves):
            assert found.best[i] == max(0.0, (1 + found.h[i]) * found.g[i])
            assert found.best[i] <= best * (1 + 1e-9) + 1e-9 and found.upper[i] >= best * (1 - 1e-9) - 1e-9
            assert found.g[i] == np.sum(found.labels[i] != truth)
            if found.exact[i]:
                assert found.best[i] == pytest.approx(best, rel=1e-6, abs=1e-6)


def test_threads_and_many_labels():
    """Enough samples for pieces, sets that the decoder may miss, and what is known of them."""
    rng, L, n = np.random.default_rng(0), 20, 150
    structure = LabelSetStructure(L, 3, [(j, k) for j in range(L) for k in range(j)])
    X, truths = rng.normal(size=(n, 3)), rng.integers(0, 2, (n, L))
    one, other = (0.3 * rng.normal(size=structure.n_weights) for _ in range(2))
    for search in (LabelSetSearches.hull, LabelSetSearches.bisecting):
        results = []
        for n_jobs in (1, 2):
            first = search(LabelSetSearches(structure, X, one, truths, n_jobs), tolerance=1e-3)
            results.append([first, search(LabelSetSearches(structure, X, other, truths, n_jobs), first, tolerance=1e-3)])
        for own, same in zip(*results, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(own, same, strict=True))
        assert (results[0][0].upper > results[0][0].best * 1.01).any()
        # Sets that are known are considered, and the last weight is where the next search begins.
        again = search(LabelSetSearches(structure, X, one, truths), results[0][0], tolerance=1e-3)
        assert (again.best >= results[0][0].best - 1e-9).all() and again.calls.sum() < results[0][0].calls.sum()


def test_bad_input():
    structure, weights, truths = LabelSetStructure(3, 1, [(0, 1), (1, 2), (0, 2)]), np.ones(6), [[0, 1, 0], [1, 1, 0]]
    X = [[1.0], [2.0]]
    with pytest.raises(TypeError, match="halves of labels"):
        LabelSetSearches(RelaxedLabelSets(3, 1, [(0, 1), (1, 2), (0, 2)]), X, weights, truths)
    with pytest.raises(ValueError, match="weights has shape"):
        LabelSetSearches(structure, X, weights[:5], truths)
    with pytest.raises(ValueError, match="finite"):
        LabelSetSearches(structure, X, weights * np.inf, truths)
    with pytest.raises(ValueError, match="X contains NaN"):
        LabelSetSearches(structure, [[1.0], [np.nan]], weights, truths)
    with pytest.raises(ValueError, match="X has 2 columns"):
        LabelSetSearches(structure, [[1.0, 2.0]], weights, truths[:1])
    for wrong in (truths[:1], [[0, 1, 0], [0, 2, 0]], [[0, 1], [0, 1]]):
        with pytest.raises(ValueError, match="truths must be zeros and ones"):
            LabelSetSearches(structure, X, weights, wrong)
    with pytest.raises(ValueError, match="n_jobs"):
        LabelSetSearches(structure, X, weights, truths, n_jobs=0)
    searches = LabelSetSearches(structure, X, weights, truths)
    for search in (searches.hull, searches.bisecting):
        for wrong in (-1.0, np.nan, np.inf):
            with pytest.raises(ValueError, match="tolerance"):
                search(tolerance=wrong)
        with pytest.raises(ValueError, match="max_calls"):
            search(max_calls=-1)
        with pytest.raises(ValueError, match="same samples"):
            search(LabelSetSearches(structure, X[:1], weights, truths[:1]).hull())
