"""Every method finds the maximum over all rankings, and what it returns hangs together."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.cases.brute_force import largest_hinge, loss_by_definition, sort_and_scan

import maxmargin as mm
from maxmargin import _core
from maxmargin.ranking import NDCG, AveragePrecision, Discounted, RankingLoss, ranking_loss, solve_lists

NAMES = ["ap", "ndcg", "auc", "mrr"]
METHODS = ["auto", "quicksort", "sort", "greedy", "table", "exhaustive"]


def lists(max_size, values):
    """(scores, relevant) with both classes."""
    return (
        st.integers(2, max_size)
        .flatmap(lambda n: st.tuples(arrays(np.float64, n, elements=values), arrays(np.bool_, n)))
        .filter(lambda pair: pair[1].any() and not pair[1].all())
    )


tied = st.integers(-3, 3).map(float)
smooth = st.floats(-4, 4, width=32)
wild = st.floats(-1e300, 1e300)
tiny = st.floats(-1e-300, 1e-300)


def sample(kind, n_pos, n_neg, rng):
    """Score families of the benchmark, shuffled."""
    negatives, positives = rng.normal(size=n_neg), rng.normal(size=n_pos) + 1
    if kind == "separated":
        negatives, positives = negatives - 2, 2 + 0.5 * rng.normal(size=n_pos)
    elif kind == "reversed":
        positives = positives - 6
    elif kind == "cauchy":
        negatives, positives = rng.standard_cauchy(n_neg), rng.standard_cauchy(n_pos) + 1
    elif kind == "rounded":
        negatives, positives = negatives.round(1), positives.round(1)
    elif kind == "equal":
        negatives, positives = np.zeros(n_neg), np.zeros(n_pos)
    elif kind == "two values":
        negatives, positives = rng.integers(0, 2, n_neg) * 1e-3, rng.integers(0, 2, n_pos) * 1e-3
    elif kind == "shifted":
        negatives, positives = negatives * 1e-3 - 1e5, positives * 1e-3 - 1e5
    elif kind == "one outlier":
        negatives[0] = 1e12
    elif kind == "subnormal":
        negatives, positives = negatives * 1e-310, positives * 1e-310
    order = rng.permutation(n_pos + n_neg)
    scores = np.concatenate([positives, negatives])[order]
    if kind == "ascending":
        scores = np.sort(scores)
    return scores, order < n_pos


KINDS = ["normal", "separated", "reversed", "cauchy", "rounded", "equal", "two values", "shifted", "one outlier", "subnormal",
         "ascending"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(data=st.one_of(lists(8, tied), lists(8, smooth)))
def test_methods_equal_enumeration(name, data):
    scores, relevant = data
    best = largest_hinge(name, scores, relevant)
    for method in METHODS:
        found = mm.most_violating_ranking(scores, relevant, name, method=method)
        assert found.hinge == pytest.approx(best, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=st.one_of(lists(6, wild), lists(6, tiny)))
def test_extreme_scales_equal_enumeration(name, data):
    scores, relevant = data
    best = largest_hinge(name, scores, relevant)
    for method in METHODS:
        found = mm.most_violating_ranking(scores, relevant, name, method=method)
        assert found.hinge == pytest.approx(best, rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(["normal", "separated", "reversed", "cauchy", "rounded", "equal", "two values", "ascending"]),
    n_pos=st.integers(1, 500),
    n_neg=st.integers(1, 10_000),
    seed=st.integers(0, 2**32 - 1),
    scale=st.sampled_from([1e-6, 1.0, 100.0]),
)
def test_methods_agree_on_long_lists(name, kind, n_pos, n_neg, seed, scale):
    scores, relevant = sample(kind, n_pos, n_neg, np.random.default_rng(seed))
    auto, *others = (
        mm.most_violating_ranking(scores * scale, relevant, name, method=method).hinge for method in ("auto", "sort", "quicksort")
    )
    for other in others:
        assert auto == pytest.approx(other, rel=1e-12, abs=1e-14 * scale)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("n_pos", "n_neg"), [(1, 1), (1, 700), (40, 60), (300, 200), (30, 5000), (200, 6000), (2, 20000)])
def test_methods_equal_the_full_table(name, kind, n_pos, n_neg):
    scores, relevant = sample(kind, n_pos, n_neg, np.random.default_rng(n_pos * n_neg))
    hinge, _ = sort_and_scan(name, scores, relevant)
    # Scores around 1e5 or 1e12 carry that much less of the differences the hinge is made of.
    scale = max(1.0, np.ptp(scores), 1e-7 * np.abs(scores).max())
    for method in METHODS[:-1]:
        found = mm.most_violating_ranking(scores, relevant, name, method=method)
        assert found.hinge == pytest.approx(hinge, rel=1e-11, abs=1e-12 * scale)
        check_consistent(found, scores, relevant, name)


def check_consistent(found, scores, relevant, name):
    """Loss, hinge, gradient, interleaving and ranking of one answer say the same."""
    order = found.ranking()
    assert sorted(order) == list(range(len(scores)))
    assert found.loss == pytest.approx(loss_by_definition(name, relevant[order]), abs=1e-12)
    ranked = relevant[order]
    above = np.where(ranked, np.cumsum(~ranked), np.cumsum(ranked))
    np.testing.assert_array_equal(found.interleaving[order], above + 1)
    n_pos, n_neg = relevant.sum(), (~relevant).sum()
    slope = 2 / (n_pos * n_neg)
    expected = np.where(relevant, -slope * (found.interleaving - 1), slope * (n_pos + 1 - found.interleaving))
    np.testing.assert_allclose(found.gradient, expected, rtol=1e-12, atol=0)
    for in_class in (ranked, ~ranked):
        assert (np.diff(scores[order][in_class]) <= 0).all()


@pytest.mark.parametrize("name", NAMES)
def test_ranks_are_the_largest_maximisers(name):
    rng = np.random.default_rng(5)
    for _ in range(30):
        n_pos, n_neg = rng.integers(1, 60), rng.integers(1, 300)
        scores = rng.integers(-4, 5, n_pos + n_neg) / 4 if rng.random() < 0.5 else rng.normal(size=n_pos + n_neg)
        relevant = rng.permutation(n_pos + n_neg) < n_pos
        _, ranks = sort_and_scan(name, scores, relevant)
        for method in METHODS[:-1]:
            found = mm.most_violating_ranking(scores, relevant, name, method=method)
            np.testing.assert_array_equal(np.sort(found.interleaving[~relevant]), np.sort(ranks))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [7, 400, 30_000])
def test_gradient_by_finite_differences(name, n):
    rng = np.random.default_rng(n)
    scores, relevant = rng.normal(size=n), rng.random(n) < 0.3
    relevant[:2] = True, False
    found = mm.most_violating_ranking(scores, relevant, name)
    assert found.gradient.sum() == pytest.approx(0, abs=1e-12)
    direction = rng.normal(size=n)
    step = 1e-7
    up = mm.most_violating_ranking(scores + step * direction, relevant, name).hinge
    down = mm.most_violating_ranking(scores - step * direction, relevant, name).hinge
    assert (up - down) / (2 * step) == pytest.approx(found.gradient @ direction, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(data=lists(40, smooth), seed=st.integers(0, 2**32 - 1), t=st.floats(0, 1))
def test_hinge_is_convex_and_bounds_the_loss(name, data, seed, t):
    scores, relevant = data
    other = np.random.default_rng(seed).normal(size=len(scores)) * 3
    hinge = [mm.most_violating_ranking(s, relevant, name).hinge for s in (scores, other, t * scores + (1 - t) * other)]
    assert hinge[2] <= t * hinge[0] + (1 - t) * hinge[1] + 1e-12
    # The loss of the predicted ranking, ties against us, is below the hinge.
    predicted = np.lexsort((relevant, -scores))
    assert hinge[0] >= loss_by_definition(name, relevant[predicted]) - 1e-12
    assert hinge[0] >= 0


@settings(max_examples=30, deadline=None)
@given(data=lists(60, smooth), shift=st.floats(-100, 100), seed=st.integers(0, 2**32 - 1))
def test_invariance(data, shift, seed):
    scores, relevant = data
    for name in NAMES:
        found = mm.most_violating_ranking(scores, relevant, name)
        moved = mm.most_violating_ranking(scores + shift, relevant, name)
        assert moved.hinge == pytest.approx(found.hinge, rel=1e-10, abs=1e-10)
        order = np.random.default_rng(seed).permutation(len(scores))
        shuffled = mm.most_violating_ranking(scores[order], relevant[order], name)
        assert shuffled.hinge == pytest.approx(found.hinge, rel=1e-12)
        assert shuffled.loss == pytest.approx(found.loss, rel=1e-12)


@pytest.mark.parametrize("n_neg", [50, 5000, 50_000])
@pytest.mark.parametrize("name", NAMES)
def test_huge_margins(name, n_neg):
    relevant = np.arange(n_neg + 10) < 10
    right = mm.most_violating_ranking(np.where(relevant, 1e6, -1e6), relevant, name)
    assert right.hinge == 0 and right.loss == 0 and not right.gradient.any()
    assert (right.interleaving == np.where(relevant, 1, 11)).all()
    wrong = mm.most_violating_ranking(np.where(relevant, -1e6, 1e6), relevant, name)
    assert (wrong.interleaving == np.where(relevant, n_neg + 1, 1)).all()


def test_closed_form_of_auc_and_of_ap_beyond_the_first_ranks():
    rng = np.random.default_rng(1)
    scores, relevant = rng.normal(size=900), np.arange(900) < 80
    positives, negatives = scores[relevant], scores[~relevant]
    found = mm.most_violating_ranking(scores, relevant, "auc").interleaving[~relevant]
    np.testing.assert_array_equal(found, 1 + (positives[None] - negatives[:, None] >= 0.5).sum(axis=1))
    found = mm.most_violating_ranking(scores, relevant, "ap").interleaving[~relevant]
    order = np.argsort(-negatives)
    best_first, k = np.sort(positives)[::-1], np.arange(1, 81)
    for j in range(80, 821):
        limit = (820 / 2) * k / ((j + k) * (j + k - 1))
        assert found[order[j - 1]] == 1 + (best_first - negatives[order[j - 1]] >= limit).sum()


def test_search_count_of_the_papers_algorithm():
    """Figure 3.1: six explicit searches for eleven negatives and two positives; in general about P log(N/P)."""
    # Loss scale 0: ranks follow the scores alone, [1, 2, ..., 2, 3, 3] as in the figure.
    positives, negatives = [10.0, 1.5], [11.0, *range(9, 1, -1), 1.0, 0.5]
    scores = np.array([*positives, *negatives])
    relevant = (np.arange(13) < 2).astype(np.uint8)
    *_, searches = _core.solve_list(scores, relevant, "ap", "quicksort", 0.0)
    assert searches == 6
    rng = np.random.default_rng(0)
    for n_pos, n_neg in [(50, 1000), (50, 10_000), (50, 100_000), (200, 20_000)]:
        scores, relevant = rng.normal(size=n_pos + n_neg), (np.arange(n_pos + n_neg) < n_pos).astype(np.uint8)
        *_, searches = _core.solve_list(scores, relevant, "ap", "quicksort", 1.0)
        assert searches <= min(n_neg, 1.5 * n_pos * np.log2(n_neg / n_pos + 2))


def test_reference_values_of_the_losses():
    # Order x1 x3 x8 x4 x5 x2 x6 x7 with x1..x4 positive.
    above = np.array([0, 0, 1, 2])
    assert AveragePrecision().value(above, 4) == pytest.approx(0.145833, abs=1e-6)
    assert NDCG().value(above, 4) == pytest.approx(0.056134, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(data=st.one_of(lists(30, tied), lists(30, smooth)))
def test_identities_of_interleavings(data):
    """AP and the sums of inverted pairs come from where negatives stand among the positives alone."""
    scores, relevant = data
    found = mm.most_violating_ranking(scores, relevant, "ap")
    n_pos, n_neg = int(relevant.sum()), int((~relevant).sum())
    places = np.sort(found.interleaving[~relevant])  # a negative stands directly above the positive of this rank
    above = np.searchsorted(places, np.arange(1, n_pos + 1), side="right")
    rank = np.arange(1, n_pos + 1)
    assert 1 - found.loss == pytest.approx(np.mean(rank / (rank + above)), abs=1e-12)
    np.testing.assert_array_equal(np.sort(found.interleaving[relevant] - 1), above)
    # Written out: the matrix of pairs, whose sums over rows and columns count twice what is inverted.
    pairs = np.where(places[None, :] <= rank[:, None], -1, 1)
    np.testing.assert_array_equal(n_neg - pairs.sum(axis=1), 2 * above)
    np.testing.assert_array_equal(n_pos - pairs.sum(axis=0), 2 * (n_pos + 1 - places))
    np.testing.assert_allclose(np.sort(found.gradient[relevant]), np.sort(-2 * above / (n_pos * n_neg)), rtol=1e-12, atol=0)


def test_float32_stride_byte_order_and_caller_arrays():
    rng = np.random.default_rng(3)
    both = rng.normal(size=(5000, 2))
    relevant = rng.random((5000, 2)) < 0.1
    scores, before = both[:, 0], both.copy()
    strided = mm.most_violating_ranking(scores, relevant[:, 1], "ap")
    plain = mm.most_violating_ranking(scores.copy(), relevant[:, 1].copy(), "ap")
    assert strided.hinge == plain.hinge and (strided.gradient == plain.gradient).all()
    np.testing.assert_array_equal(both, before)
    swapped = mm.most_violating_ranking(scores.astype(">f8"), relevant[:, 1], "ap")
    assert swapped.hinge == plain.hinge
    scores.flags.writeable = False
    assert mm.most_violating_ranking(scores, relevant[:, 1]).hinge == plain.hinge
    narrow = mm.most_violating_ranking(scores.astype(np.float32), relevant[:, 1], "ndcg")
    wide = mm.most_violating_ranking(scores.astype(np.float32).astype(np.float64), relevant[:, 1], "ndcg")
    assert narrow.gradient.dtype == np.float32 and wide.gradient.dtype == np.float64
    assert narrow.hinge == pytest.approx(wide.hinge, rel=1e-13)
    np.testing.assert_array_equal(narrow.interleaving, wide.interleaving)
    assert mm.most_violating_ranking([3, 1, 2], [0, 1, 0]).hinge > 0


def test_a_misleading_sample_costs_time_only():
    """Scores arranged so that the places a sample looks at are untypical still give the exact answer."""
    rng = np.random.default_rng(0)
    n = 200_000
    for block in (1, 4, 64, 4096):
        scores = rng.normal(size=n)
        scores[(np.arange(n) // block) % 7 == 0] += 3.0
        scores[n // 2 :] *= 0.01
        relevant = rng.random(n) < 1e-3
        fast, sure = (mm.most_violating_ranking(scores, relevant, "ap", method=m).hinge for m in ("auto", "sort"))
        assert fast == pytest.approx(sure, rel=1e-12)


def places_of_the_sample(n, n_neg):
    """Where four neighbours each are looked at; see draw_sample in buckets.hpp."""
    count = min(max(n_neg // 64, 512), 16384) // 4
    state, stride, places = 0x9E3779B97F4A7C15, (n - 4) / count, []
    for k in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        places.append(int((k + (state >> 40) * 2.0**-24) * stride))
    return np.array(places)[:, None] + np.arange(4)


def test_a_sample_that_finds_too_many_negatives_high():
    """One in twenty of the sampled negatives is above all positives, and no other one is."""
    rng = np.random.default_rng(0)
    n, n_pos = 400_000, 50
    places = places_of_the_sample(n, n - n_pos)
    scores = rng.uniform(-3, -1, n)
    scores[places[::20]] = 1.0
    relevant = np.isin(np.arange(n), rng.choice(np.setdiff1d(np.arange(n), places), n_pos, replace=False))
    scores[relevant] = 0.0
    fast, sure = (mm.most_violating_ranking(scores, relevant, "ap", method=m).hinge for m in ("auto", "sort"))
    assert fast == pytest.approx(sure, rel=1e-13) and sure == pytest.approx(0.98186, abs=1e-5)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("n_pos", "digits"), [(30, 9), (2000, 9), (300, 2)])
def test_many_negatives_among_the_positives_and_far_more_below(dtype, n_jobs, n_pos, digits):
    """One in twelve is left once those that are surely below all positives are: enough for a list of its own."""
    rng = np.random.default_rng(0)
    n = 400_000
    relevant = np.isin(np.arange(n), rng.choice(n, n_pos, replace=False))
    scores = np.where(rng.random(n) < 1 / 12, rng.uniform(0, 1, n), rng.uniform(-9, -8, n)) + relevant * 9
    scores[relevant] = rng.uniform(0, 1, n_pos)
    scores[8191::8192] = rng.uniform(0, 1, n // 8192)  # wherever a section of rows may end
    scores = np.round(scores, digits).astype(dtype).astype(np.float64)  # the same numbers in both precisions
    fast = mm.most_violating_ranking(scores.astype(dtype), relevant, "ap", n_jobs=n_jobs)
    sure = mm.most_violating_ranking(scores, relevant, "ap", method="sort")
    assert fast.hinge == pytest.approx(sure.hinge, rel=1e-12) and fast.loss == sure.loss
    by_score = np.lexsort((fast.gradient, scores)), np.lexsort((sure.gradient, scores))  # equal scores may change places
    assert np.allclose(fast.gradient[by_score[0]], sure.gradient[by_score[1]], rtol=1e-6 if dtype == np.float32 else 0, atol=0)


@pytest.mark.parametrize(("n", "n_pos", "values"), [(4000, 10, 50), (100_000, 1000, 50), (400_000, 10, 50), (150_000, 10, 3)])
def test_long_sums_lose_nothing(n, n_pos, values):
    """Integer scores: the hinge of the ranking found is a fraction."""
    rng = np.random.default_rng(n + n_pos)
    relevant = rng.permutation(n) < n_pos
    scores = rng.integers(-values, values, n).astype(float)
    for method in ("auto", "sort", "quicksort", *(["table"] if n * n_pos < 10**7 else [])):
        found = mm.most_violating_ranking(scores, relevant, "ap", method=method)
        pairs = np.where(relevant, 1 - found.interleaving, n_pos + 1 - found.interleaving)
        above = np.sort(found.interleaving[relevant] - 1).tolist()
        loss = sum(Fraction(a, a + i) for i, a in enumerate(above, 1)) / n_pos
        exact = Fraction(2 * int(pairs @ scores.astype(int)), n_pos * (n - n_pos)) + loss
        assert abs(Fraction(found.hinge) - exact) <= Fraction(1, 10**14) * exact


class Table(RankingLoss):
    """Any differences."""

    def __init__(self, table):
        self.table = table

    def derivative(self, j, i, n_pos, n_neg):
        return self.table[j - 1, i - 1]


def ndcg_at_10(position):
    return np.where(position <= 10, 1 / np.log2(1.0 + position), 0.0)


@settings(max_examples=150, deadline=None)
@given(
    data=st.one_of(lists(9, tied), lists(9, smooth)),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["random", "signs", "ndcg", *NAMES]),
    scale=st.sampled_from([1.0, -1.0, 0.0, 0.3, -4.0, 20.0]),
)
def test_every_loss_of_either_sign_equals_enumeration(data, seed, kind, scale):
    scores, relevant = data
    rng = np.random.default_rng(seed)
    shape = (np.sum(~relevant), np.sum(relevant))
    loss = {
        "random": Table(-rng.random(shape)),
        "signs": Table(rng.integers(-2, 3, shape) / 4),
        "ndcg": Discounted(lambda p: ndcg_at_10(p + 6)),
    }.get(kind, kind)
    best = mm.most_violating_ranking(scores, relevant, loss, method="exhaustive", loss_scale=scale)
    found = [mm.most_violating_ranking(scores, relevant, loss, loss_scale=scale)]
    found.append(mm.most_violating_ranking(scores, relevant, loss, loss_scale=scale, method="table"))
    delta, hinge, gradient = solve_lists(
        scores, relevant.view(np.uint8), np.array([0, len(scores)]), ranking_loss(loss), scale, 1
    )
    for answer in found:
        assert answer.hinge == pytest.approx(best.hinge, rel=1e-12, abs=1e-12)
        truth = np.where(relevant, -(answer.interleaving - 1), shape[1] + 1 - answer.interleaving) * 2 / (shape[0] * shape[1])
        np.testing.assert_allclose(answer.gradient, truth, atol=1e-15)
        # Loss, gradient and hinge belong to one ranking.
        assert answer.hinge == pytest.approx(max(0.0, scale * answer.loss + answer.gradient @ scores), rel=1e-11, abs=1e-11)
    assert hinge[0] == pytest.approx(best.hinge, rel=1e-12, abs=1e-12)
    np.testing.assert_allclose(gradient, found[0].gradient, atol=1e-15)
    assert delta[0] == pytest.approx(found[0].loss, abs=1e-15)


def test_truncated_ndcg_in_lists_where_its_end_matters():
    rng = np.random.default_rng(0)
    loss = Discounted(ndcg_at_10)
    n_refused = 0
    for _ in range(200):
        n_pos, n_neg = rng.integers(1, 4), rng.integers(8, 13)
        scores, relevant = rng.normal(size=n_pos + n_neg).round(1), np.arange(n_pos + n_neg) < n_pos
        best = mm.most_violating_ranking(scores, relevant, loss, method="exhaustive")
        assert mm.most_violating_ranking(scores, relevant, loss).hinge == pytest.approx(best.hinge, abs=1e-13)
        if n_pos + n_neg > 10:
            n_refused += 1
            with pytest.raises(ValueError, match="method='sort' does not find the maximum for loss=Discounted"):
                mm.most_violating_ranking(scores, relevant, loss, method="sort")
        else:
            assert mm.most_violating_ranking(scores, relevant, loss, method="sort").hinge == pytest.approx(best.hinge, abs=1e-13)
    assert n_refused > 100
    with pytest.raises(ValueError, match="with a loss that counts negatively"):
        mm.most_violating_ranking(scores, relevant, "ap", method="greedy", loss_scale=-1.0)


@pytest.mark.parametrize(("n_pos", "n_neg"), [(3, 100_000), (70, 1000), (1, 70_000), (1500, 3)])
def test_the_table_in_blocks(n_pos, n_neg):
    """More pairs than are asked for at a time, by rows and within a row; the loss has a place of its own in each row."""
    rng = np.random.default_rng(n_pos)
    scores, relevant = rng.normal(size=n_pos + n_neg), rng.permutation(n_pos + n_neg) < n_pos
    drop = -rng.random(n_pos)
    place = np.sort(rng.integers(1, n_neg + 1, n_pos))

    class Steps(RankingLoss):
        def derivative(self, j, i, n_pos, n_neg):
            return np.where(j == place[i - 1], drop[i - 1], 0.0)

        def value(self, negatives_above, n_neg):
            return -float(np.sum(drop[negatives_above >= place]))

    found = mm.most_violating_ranking(scores, relevant, Steps())
    # Straight from the definition, by plain dynamic programming.
    high, low = np.sort(scores[relevant])[::-1], np.sort(scores[~relevant])[::-1]
    sums = np.concatenate([[0.0], np.cumsum(low)])
    best = np.zeros(n_neg + 1)
    for i in range(n_pos):
        gain = 2 * (sums - high[i] * np.arange(n_neg + 1)) / (n_pos * n_neg)
        gain[place[i] :] -= drop[i]
        best = np.maximum.accumulate(best + gain)
    assert found.hinge == pytest.approx(best[-1], rel=1e-11)
    assert found.hinge == pytest.approx(found.loss + found.gradient @ scores, rel=1e-10)


def test_the_table_breaks_ties_for_the_positives():
    """Of equally good rankings it is the one with the positives as high as possible."""
    relevant = np.array([0, 1, 0, 1, 1, 0, 0], dtype=bool)
    # Nothing counts at all; pairs that gain by their scores what they lose by the loss; scores that tie in part.
    cases = (np.zeros(7), 0.0, [0, 0, 0]), (relevant / 2, 1.0, [0, 0, 0]), (np.arange(7) == 2, 0.0, [1, 1, 1])
    for scores, scale, n_above in cases:
        found = mm.most_violating_ranking(scores.astype(float), relevant, "auc", method="table", loss_scale=scale)
        assert np.sort(found.interleaving[relevant] - 1).tolist() == n_above


@pytest.mark.parametrize("where", [0, 17, 4999, 49_999])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("n", [5000, 50_000, 200_000])
@pytest.mark.parametrize("shift", [0.0, 6.0])
def test_non_finite_scores_are_found_wherever_they_are(where, value, n, shift):
    rng = np.random.default_rng(0)
    relevant = rng.random(n) < 0.01
    scores = rng.normal(size=n) + shift * relevant
    where = min(where, n - 1)
    for target in (True, False):
        bad = scores.copy()
        index = np.flatnonzero(relevant == target)[where % int((relevant == target).sum())]
        bad[index] = value
        with pytest.raises(ValueError, match=rf"scores\[{index}\] is NaN or infinite"):
            mm.most_violating_ranking(bad, relevant)


@pytest.mark.parametrize(
    ("scores", "relevant", "options", "error", "message"),
    [
        ([], [], {}, ValueError, "scores is empty"),
        ([[1.0, 2.0]], [0, 1], {}, ValueError, "scores must be one-dimensional"),
        ([1.0, 2.0], [[0, 1]], {}, ValueError, "relevant must be one-dimensional"),
        ([1.0, 2.0, 3.0], [0, 1], {}, ValueError, "relevant has 2 entries, but scores has 3"),
        ([1.0, 2.0], [0, 2], {}, ValueError, "relevant must contain only 0 and 1, but contains 2"),
        ([1.0, 2.0], [-1, 1], {}, ValueError, "pass a comparison such as y > 0"),
        ([1.0, 2.0], [0.0, np.nan], {}, ValueError, "relevant must contain only 0 and 1"),
        ([1.0, 2.0], [0, 0], {}, ValueError, "relevant marks no sample as positive"),
        ([1.0, 2.0], [1, 1], {}, ValueError, "relevant marks every sample as positive"),
        (["a", "b"], [0, 1], {}, TypeError, "scores must be real numbers"),
        ([1j, 2.0], [0, 1], {}, TypeError, "scores must be real numbers"),
        ([1.0, 2.0], ["x", "y"], {}, TypeError, "relevant must be booleans"),
        ([1.0, np.nan], [0, 1], {}, ValueError, r"scores\[1\] is NaN or infinite"),
        ([1.0, np.inf], [0, 1], {"method": "exhaustive"}, ValueError, r"scores\[1\] is NaN or infinite"),
        ([1.0, 2.0], [0, 1], {"method": "fast"}, ValueError, "method='fast' is unknown"),
        ([1.0, 2.0], [0, 1], {"loss": "mapp@10"}, ValueError, "loss='mapp@10' is unknown"),
        ([1.0, 2.0], [0, 1], {"loss": NDCG}, TypeError, r"pass an object, NDCG\(\)"),
        ([1.0, 2.0], [0, 1], {"loss": 3}, TypeError, "loss must be a name or a RankingLoss"),
        (np.arange(100.0), np.arange(100) < 50, {"method": "exhaustive"}, ValueError, "method='exhaustive' would enumerate"),
    ],
)
def test_bad_input(scores, relevant, options, error, message):
    with pytest.raises(error, match=message):
        mm.most_violating_ranking(scores, relevant, **options)


def test_interleaving_of_more_positives_than_single_precision_counts():
    # The gradient of 31 negatives above nearly all positives is little more than 1/16, where single precision is coarsest.
    relevant = np.ones(2**24 + 5031, dtype=bool)
    relevant[-31:] = False
    below = 2**24 - 1 - 1001 * np.arange(31)
    # Halves are exact in single precision up to 2^23.
    scores = (np.arange(len(relevant)) - 2.0**23).astype(np.float32)
    scores[-31:] = below - 0.5 - 2.0**23
    found = mm.most_violating_ranking(scores, relevant, "auc", loss_scale=0.0)
    assert found.gradient.dtype == np.float32
    assert (found.n_pos + 1 - found.interleaving[-31:]).tolist() == below.tolist()
    assert (found.interleaving[relevant] - 1).sum() == (found.n_pos + 1 - found.interleaving[~relevant]).sum()
