"""Losses of the first places: the fast search, the table and enumeration find the same maximum, whatever the cut-off."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.cases.brute_force import largest_hinge, loss_by_definition

import maxmargin as mm
from maxmargin import _core
from maxmargin.ranking import Discounted, RankBiasedPrecision, check_qs_suitable, ranking_loss, solve_lists
from maxmargin.ranking.checked import MAX_PAIRS

CUT = ["ndcg", "ap", "mrr", "p", "recall"]


@st.composite
def short_lists(draw, values, longest=7):
    """Scores, relevance with both classes, and a loss whose cut-off may be longer than the list."""
    n = draw(st.integers(2, longest))
    relevant = draw(arrays(np.bool_, n).filter(lambda truth: truth.any() and not truth.all()))
    name = draw(st.sampled_from([f"{kind}@{k}" for kind in CUT for k in range(1, n + 2)] + ["rbp(p=0.8)", "rbp(p=0.3)"]))
    return draw(arrays(np.float64, n, elements=values)), relevant, name


tied = st.integers(-3, 3).map(lambda value: value / 4)
smooth = st.floats(-4, 4, width=32)
wild = st.one_of(st.floats(-1e300, 1e300), st.floats(-1e-300, 1e-300))


def check_answer(found, scores, relevant, name, scale):
    """What was found is a ranking, and has this loss and this hinge."""
    order = found.ranking()
    assert found.loss == pytest.approx(loss_by_definition(name, relevant[order]), abs=1e-12)
    values = scores.astype(float)
    reached = scale * found.loss + found.gradient.astype(float) @ (values - values.mean())
    rounding = (1e-6 if scores.dtype == np.float32 else 1e-10) * max(1.0, float(np.ptp(values)))
    assert found.hinge == pytest.approx(reached, rel=1e-9, abs=rounding)


@settings(max_examples=250, deadline=None)
@given(data=st.one_of(short_lists(tied), short_lists(smooth)), scale=st.sampled_from([1, 1, 0, 0.125, 16, -1, -0.25, -8]))
def test_short_lists_equal_enumeration(data, scale):
    scores, relevant, name = data
    best = largest_hinge(name, scores, relevant, scale)
    for method in ("auto", "table", "exhaustive"):
        found = mm.most_violating_ranking(scores, relevant, name, method=method, loss_scale=scale)
        assert found.hinge == pytest.approx(best, rel=1e-11, abs=1e-11)
        check_answer(found, scores, relevant, name, scale)


@settings(max_examples=60, deadline=None)
@given(data=short_lists(wild, 6))
@example((np.array([2.0**53, -3.0, 0.0, 0.0, 0.0, 0.0]), np.array([True, False, False, False, True, True]), "ap@3"))
def test_extreme_scales_equal_enumeration(data):
    scores, relevant, name = data
    best = largest_hinge(name, scores, relevant)
    for method in ("auto", "table"):
        found = mm.most_violating_ranking(scores, relevant, name, method=method)
        assert found.hinge == pytest.approx(best, rel=1e-9, abs=1e-11)


@settings(max_examples=100, deadline=None)
@given(data=short_lists(tied, 10), scale=st.sampled_from([1.0, 4.0, -1.0]))
def test_ties_go_to_the_positives(data, scale):
    """Of all best rankings, the one with the positives highest; here all numbers are exact."""
    scores, relevant, name = data
    name = f"p@{(1, 2, 4, 8)[int(name[-1]) % 4]}" if "@" in name else "p@4"
    found, every = (
        mm.most_violating_ranking(scores, relevant, name, method=method, loss_scale=scale) for method in ("auto", "exhaustive")
    )
    # Sums are exact, so what is equal in truth is equal here, if the number of pairs is a power of two.
    pairs = int(relevant.sum() * (~relevant).sum())
    if pairs & (pairs - 1) == 0:
        np.testing.assert_array_equal(found.interleaving, every.interleaving)


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(
        ["normal", "apart", "below", "rounded", "whole", "equal", "cauchy", "ascending", "descending", "shifted"]
    ),
    n_pos=st.sampled_from([1, 2, 7, 60]),
    n_neg=st.sampled_from([1, 3, 150, 300, 5000, 9000]),
    name=st.sampled_from(
        [f"{kind}@{k}" for kind in CUT for k in (1, 2, 5, 10, 63, 64, 65, 200)] + ["rbp(p=0.8)", "rbp(p=0.999)"]
    ),
    scale=st.sampled_from([1.0, 30.0, 0.01, -1.0, -20.0]),
    single=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
def test_long_lists_equal_the_table(kind, n_pos, n_neg, name, scale, single, seed):
    rng = np.random.default_rng(seed)
    relevant = rng.permutation(n_pos + n_neg) < n_pos
    scores = rng.standard_cauchy(n_pos + n_neg) if kind == "cauchy" else rng.normal(size=n_pos + n_neg)
    scores += relevant * {"apart": 6.0, "below": -4.0}.get(kind, 0.7)
    scores = {"rounded": scores.round(1), "whole": scores.round(), "equal": 0 * scores, "shifted": 1e-3 * scores + 1e4}.get(
        kind, scores
    )
    if kind.endswith("scending"):
        scores = np.sort(scores)[:: 1 if kind == "ascending" else -1].copy()
    scores = scores.astype(np.float32) if single else scores
    found, table = (mm.most_violating_ranking(scores, relevant, name, method=how, loss_scale=scale) for how in ("auto", "table"))
    size = max(1.0, abs(scale), float(np.ptp(scores)), 1e-4 * float(np.abs(scores).max()))
    assert found.hinge == pytest.approx(table.hinge, rel=1e-10, abs=1e-11 * size)
    check_answer(found, scores, relevant, name, scale)


def test_the_lowest_number_there_is():
    """The threshold above which negatives are looked at starts there."""
    lowest = np.finfo(np.float32).min
    scores = np.array([lowest, 0.5, lowest, 1.0, lowest, 0.75, lowest, lowest], dtype=np.float32)
    relevant = np.arange(8) == 1
    for k in (1, 2, 4, 7):
        found, every = (mm.most_violating_ranking(scores, relevant, f"mrr@{k}", method=how) for how in ("auto", "exhaustive"))
        np.testing.assert_array_equal(found.interleaving, every.interleaving)
        assert found.hinge == pytest.approx(every.hinge, rel=1e-14)


@pytest.mark.parametrize("name", [*(f"{kind}@7" for kind in CUT), "rbp(p=0.8)"])
@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_many_lists_equal_single_ones(name, scale):
    rng = np.random.default_rng(3)
    sizes = rng.integers(1, 40, 60)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    scores, truth = rng.normal(size=offsets[-1]).round(1), (rng.random(offsets[-1]) < 0.3).astype(np.uint8)
    loss = ranking_loss(name)
    for threads in (1, 3):
        delta, hinge, gradient = solve_lists(scores, truth, offsets, loss, scale, threads)
        for k, (begin, end) in enumerate(pairwise(offsets)):
            part = slice(begin, end)
            if truth[part].all() or not truth[part].any():
                assert delta[k] == hinge[k] == 0 and not gradient[part].any()
                continue
            alone = mm.most_violating_ranking(scores[part], truth[part], name, loss_scale=scale, method="table")
            assert hinge[k] == pytest.approx(alone.hinge, abs=1e-12)


@pytest.mark.parametrize("kind", CUT)
def test_a_cut_off_beyond_the_list_is_none(kind):
    rng = np.random.default_rng(0)
    for n in (9, 300, 6000):
        scores, relevant = rng.normal(size=n), np.arange(n) % 3 == 0
        found = mm.most_violating_ranking(scores, relevant, f"{kind}@{n}")
        if kind in ("p", "recall"):
            assert found.loss == 0
            assert found.hinge == pytest.approx(mm.most_violating_ranking(scores, relevant, "auc", loss_scale=0).hinge)
        else:
            whole = mm.most_violating_ranking(scores, relevant, kind)
            assert found.hinge == pytest.approx(whole.hinge, rel=1e-12)
            np.testing.assert_array_equal(found.interleaving, whole.interleaving)
        assert mm.most_violating_ranking(scores, relevant, f"{kind}@{10**30}").hinge == found.hinge


def test_the_first_places_of_a_million():
    rng = np.random.default_rng(1)
    n = 200_000
    relevant = np.zeros(n, dtype=bool)
    relevant[rng.choice(n, 40, replace=False)] = True
    scores = rng.normal(size=n) + 3.5 * relevant
    for name in ("ndcg@10", "ap@100", "recall@40"):
        for scale in (1.0, -1.0):
            found, table = (
                mm.most_violating_ranking(scores, relevant, name, loss_scale=scale, method=how) for how in ("auto", "table")
            )
            assert found.hinge == pytest.approx(table.hinge, rel=1e-10)
            np.testing.assert_array_equal(found.interleaving, table.interleaving)


@pytest.mark.parametrize("n", [20, 5000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("scale", [1.0, -1.0])
def test_numbers_that_are_none(n, value, scale):
    for where in (0, n // 2, n - 1):
        scores = np.arange(n, dtype=float)
        scores[where] = value
        for relevant in (np.arange(n) % 2 == 0, np.arange(n) % 2 == 1):
            with pytest.raises(ValueError, match=rf"scores\[{where}\] is NaN or infinite"):
                mm.most_violating_ranking(scores, relevant, "ndcg@5", loss_scale=scale)


def test_thousands_of_short_lists_equal_the_table():
    """Close calls: score differences as small as what a place is worth, positives ahead, tied and not."""
    rng = np.random.default_rng(7)
    for _ in range(3000):
        n_pos, n_neg = rng.integers(1, 7, 2)
        relevant = rng.permutation(n_pos + n_neg) < n_pos
        scores = rng.normal(size=n_pos + n_neg) / 4 + relevant * rng.choice([0.0, 0.3, 0.6])
        scores = scores.round(1) if rng.random() < 0.4 else scores
        name, scale = f"{rng.choice(CUT)}@{rng.integers(1, n_pos + n_neg)}", float(rng.choice([1.0, 0.3, -1.0]))
        hinge, other = (
            mm.most_violating_ranking(scores, relevant, name, method=how, loss_scale=scale).hinge for how in ("auto", "table")
        )
        assert hinge == pytest.approx(other, abs=1e-12)


def test_ties_between_numbers_of_positives_within():
    """To be out costs exactly what it gains; the positive stays."""
    found = mm.most_violating_ranking([0.5, 0.0], [1, 0], "p@1")
    assert found.loss == 0 and found.hinge == 0
    np.testing.assert_array_equal(found.interleaving, [1, 2])


def test_threads_share_a_table():
    rng = np.random.default_rng(2)
    relevant = (rng.permutation(9000) < 700).astype(np.uint8)
    scores = rng.normal(size=9000).round(2) + relevant
    alone, *others = (_core.solve_list(scores, relevant, "ap", "table", -1.0, threads) for threads in (1, 2, 5))
    for other in others:
        np.testing.assert_array_equal(other[2], alone[2])
        assert other[:2] == alone[:2]
    loss, hinge, gradient = solve_lists(scores, relevant, np.array([0, 9000]), ranking_loss("ap"), -1.0, 2)
    assert (loss[0], hinge[0]) == alone[:2] and np.array_equal(gradient, alone[2])


def test_methods_for_other_losses_are_refused():
    for method in ("quicksort", "sort", "greedy"):
        with pytest.raises(ValueError, match=r"loss=NDCG\(at=2\), which is not QS-suitable; use 'auto' or 'table'"):
            mm.most_violating_ranking([2.0, 1.0, 0.0], [1, 0, 1], "ndcg@2", method=method)
        # Nothing is cut off here.
        whole = mm.most_violating_ranking([2.0, 1.0, 0.0], [1, 0, 1], "ndcg@3", method=method)
        assert whole.hinge == mm.most_violating_ranking([2.0, 1.0, 0.0], [1, 0, 1], "ndcg").hinge


def test_too_many_pairs_are_refused():
    n, k = 400_000, 150_000
    scores, relevant = np.zeros(n), np.arange(n) % 2 == 0
    assert k**2 > MAX_PAIRS
    message = "would take minutes.*smaller cut-off"
    with pytest.raises(ValueError, match=f"150000 positives and 150000 negatives, which {message}"):
        mm.most_violating_ranking(scores, relevant, f"ndcg@{k}")
    with pytest.raises(ValueError, match=message):
        mm.most_violating_rankings(scores, relevant, np.zeros(n), f"ndcg@{k}")
    # No cut-off, or few positives: no pairs to look at.
    mm.most_violating_ranking(scores, relevant, f"ndcg@{n}")
    mm.most_violating_rankings(scores, np.arange(n) < 3, np.zeros(n), f"ndcg@{k}")


def test_rank_biased_precision_in_long_lists():
    """Compiled, written in Python, and as a discount of one's own."""
    rng = np.random.default_rng(5)
    relevant = rng.permutation(30_000) < 50
    scores = rng.normal(size=30_000) + relevant

    class Again(RankBiasedPrecision):
        pass

    for p in (0.2, 0.8, 0.9999):
        own = Discounted(lambda place, p=p: p ** (place - 1))
        best = (1 - p**50) / 1  # what the best ranking has, by which a Discounted loss divides
        found = mm.most_violating_ranking(scores, relevant, RankBiasedPrecision(p))
        assert mm.most_violating_ranking(scores, relevant, Again(p)).hinge == pytest.approx(found.hinge, rel=1e-11)
        other = mm.most_violating_ranking(scores, relevant, own, loss_scale=best)
        assert other.hinge == pytest.approx(found.hinge, rel=1e-9)
        assert best * other.loss == pytest.approx(found.loss, rel=1e-9)
    assert check_qs_suitable(RankBiasedPrecision())
    assert check_qs_suitable(RankBiasedPrecision(0.01), sizes=[(5, 100)])


@settings(max_examples=60, deadline=None)
@given(data=short_lists(smooth, 30), seed=st.integers(0, 2**32 - 1), t=st.floats(0, 1))
def test_hinge_is_convex_and_bounds_the_loss(data, seed, t):
    scores, relevant, name = data
    other = scores + np.random.default_rng(seed).normal(size=len(scores))
    hinge = [mm.most_violating_ranking(s, relevant, name).hinge for s in (scores, other, t * scores + (1 - t) * other)]
    assert hinge[2] <= t * hinge[0] + (1 - t) * hinge[1] + 1e-12
    slope = mm.most_violating_ranking(scores, relevant, name).gradient
    assert hinge[1] >= hinge[0] + slope @ (other - scores) - 1e-12
    order = np.lexsort((relevant, -scores))  # ties with the negatives first
    assert hinge[0] >= loss_by_definition(name, relevant[order]) - 1e-12
