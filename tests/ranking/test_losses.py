"""Losses agree with their definitions, with their derivatives, and with the conditions of exact inference."""

from itertools import combinations

import numpy as np
import pytest
from tests.cases.brute_force import loss_by_definition

import maxmargin as mm
from maxmargin.ranking import (
    AUC,
    NDCG,
    AveragePrecision,
    Discounted,
    Precision,
    RankBiasedPrecision,
    RankingLoss,
    Recall,
    ReciprocalRank,
    check_qs_suitable,
    checked_loss,
    ranking_loss,
    solve_lists,
)


class UserNDCG(RankingLoss):
    def derivative(self, j, i, n_pos, n_neg):
        return (1 / np.log2(1 + i + j) - 1 / np.log2(i + j)) / np.sum(1 / np.log2(np.arange(2, n_pos + 2)))


CUT = [f"{kind}@{k}" for kind in ("ap", "ndcg", "mrr", "p", "recall") for k in (1, 3, 12)]


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc", "mrr", *CUT, "rbp(p=0.8)", "rbp(p=0.05)"])
def test_value_equals_definition_for_all_patterns(name):
    loss = ranking_loss(name)
    for n_pos in range(1, 6):
        for n_neg in range(1, 6):
            for pattern in combinations(range(n_pos + n_neg), n_pos):
                is_positive = np.isin(np.arange(n_pos + n_neg), pattern)
                above = np.array(pattern) - np.arange(n_pos)
                expected = loss_by_definition(name, is_positive)
                assert loss.value(above, n_neg) == pytest.approx(expected, abs=1e-14)
                # The slow default, from the derivative alone, says the same.
                assert RankingLoss.value(loss, above, n_neg) == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize(
    "loss",
    [
        AveragePrecision(),
        NDCG(),
        AUC(),
        ReciprocalRank(),
        RankBiasedPrecision(),
        Discounted(lambda p: 0.7**p),
        Discounted(lambda p: 1 / p),
        UserNDCG(),
    ],
)
def test_suitable_losses(loss):
    report = check_qs_suitable(loss)
    assert report and not report.failed
    assert "is QS-suitable" in str(report)


@pytest.mark.parametrize("k", [2, 3])
def test_truncated_losses_are_rejected(k):
    precision = check_qs_suitable(Discounted(lambda p: (p <= k) * 1.0))
    assert precision.failed == ("C2",)
    assert min(failure.n_neg for failure in precision.failures) >= 2
    truncated = check_qs_suitable(NDCG(lambda p: (p <= k) / np.log2(1 + p)))
    assert truncated.failed == ("C2",)
    assert "j=" in str(truncated) and "i=" in str(truncated)


def ndcg_at_10(position):
    return np.where(position <= 10, 1 / np.log2(1.0 + position), 0.0)


class TwentiethInTop100(RankingLoss):
    """1 unless the 20th positive is among the first 100: suitable at all but one place."""

    def derivative(self, j, i, n_pos, n_neg):
        return -1.0 * ((i == 20) & (i + j - 1 == 100))


@pytest.mark.parametrize("loss", [Discounted(ndcg_at_10), NDCG(ndcg_at_10), TwentiethInTop100()])
def test_falls_that_short_lists_do_not_show(loss):
    assert check_qs_suitable(loss, sizes=[(2, 5)])
    assert check_qs_suitable(loss).failed == ("C2",)
    checked = checked_loss(loss)
    assert checked.is_suitable(2, 5) and not checked.is_suitable(50, 1950)
    if isinstance(loss, TwentiethInTop100):
        assert check_qs_suitable(loss, sizes=[(19, 5000), (50, 80)])
        assert "falls to j=81 at i=20" in str(check_qs_suitable(loss, sizes=[(20, 81)]))


def test_cutting_after_the_first_position_is_convex():
    assert check_qs_suitable(Discounted(lambda p: (p <= 1) * 1.0))


def test_non_convex_discount_of_remark_1_is_rejected():
    report = check_qs_suitable(NDCG(lambda p: np.where(p <= 2, 1.0, 1 / np.log2(np.maximum(p, 2)))))
    assert report.failed == ("C2",)
    first = report.failures[0]
    assert (first.n_pos, first.n_neg) == (1, 2)


def test_wrong_and_missing_derivatives_are_named():
    class Wrong(AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return super().derivative(j, i, n_pos, n_neg) * n_pos  # the factor the print forgets

    class Scalar(AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return -i / ((i + j) * (i + j - 1)) / n_pos if i > 0 else 0.0

    class Infinite(AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return np.full(j.shape, np.inf)

    assert check_qs_suitable(Wrong()).failed == ("C1",)
    assert check_qs_suitable(Scalar(), 3, 3).failed == ("C3",)
    assert "fails for arrays" in str(check_qs_suitable(Scalar(), 3, 3))
    assert "C3" in check_qs_suitable(Infinite(), 2, 2).failed
    with pytest.raises(ValueError, match="max_positives"):
        check_qs_suitable(Wrong(), 0)


@pytest.mark.parametrize("size", [60, 900, 9000, 60_000])
@pytest.mark.parametrize("kind", ["normal", "tied", "equal", "separated"])
def test_user_losses_equal_built_in_ones(size, kind):
    rng = np.random.default_rng(size)
    relevant = rng.random(size) < 0.02
    relevant[:2] = True, False
    scores = rng.normal(size=size) + relevant
    scores = {"normal": scores, "tied": scores.round(1), "equal": 0 * scores, "separated": scores + 5 * relevant}[kind]
    mine, theirs = mm.most_violating_ranking(scores, relevant, UserNDCG()), mm.most_violating_ranking(scores, relevant, "ndcg")
    assert mine.hinge == pytest.approx(theirs.hinge, rel=1e-11)
    assert mine.loss == pytest.approx(theirs.loss, rel=1e-9)
    np.testing.assert_allclose(mine.gradient, theirs.gradient, atol=1e-15)
    for method in ("quicksort", "sort", "greedy") if size <= 900 else ():
        other = mm.most_violating_ranking(scores, relevant, UserNDCG(), method=method)
        assert other.hinge == pytest.approx(theirs.hinge, rel=1e-11)


class Odd(RankingLoss):
    """AUC that answers what it is told to."""

    def __init__(self, derivative=None, value=None):
        self.answers = derivative, value

    def derivative(self, j, i, n_pos, n_neg):
        right = np.full(j.shape, -1 / (n_pos * n_neg))
        return right if self.answers[0] is None else self.answers[0](right)

    def value(self, negatives_above, n_neg):
        right = np.mean(negatives_above) / n_neg
        return right if self.answers[1] is None else self.answers[1](right)


# In short lists all pairs are asked for; long ones are proved first, and then searched.
LISTS = [(np.arange(50.0), np.arange(50) % 3 == 0), (np.random.default_rng(0).normal(size=9000), np.arange(9000) % 900 == 0)]


@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (lambda d: d[:1], ValueError, r"returned shape \(1,\) for \d+ pairs; it must return one value for every pair"),
        (lambda d: d[:, None], ValueError, "one value for every pair"),
        (lambda d: None, TypeError, "derivative of loss=Odd"),
        (lambda d: d * 1j, TypeError, "returned dtype complex128"),
        (
            lambda d: np.where(np.arange(len(d)) == 3, np.nan, d),
            ValueError,
            r"returned nan, which is not finite, for j=\d+, i=\d+",
        ),
        (lambda d: d * np.inf, ValueError, "which is not finite"),
        (lambda d: 1 / 0, ZeroDivisionError, "division by zero"),
    ],
)
def test_derivatives_that_cannot_be_used(lists, answer, error, message):
    with pytest.raises(error, match=message):
        mm.most_violating_ranking(*lists, Odd(derivative=answer))


@pytest.mark.parametrize("lists", LISTS)
@pytest.mark.parametrize("answer", [np.inf, -np.inf, np.nan, None, "0.5", np.zeros(3), [0.5], 1j])
def test_values_that_cannot_be_used(lists, answer):
    loss = Odd(value=lambda v: answer)
    message = r"value of loss=Odd\(\) returned .*; it must return the loss of a ranking, one finite number"
    for method in ("auto", "sort", "table"):
        with pytest.raises(ValueError, match=message):
            mm.most_violating_ranking(*lists, loss, method=method)
    with pytest.raises(ValueError, match=message):
        mm.most_violating_rankings(*lists, np.zeros(len(lists[0])), loss)
    with pytest.raises(ValueError, match=message):
        mm.RankingSVM(loss).fit(lists[0][:, None], lists[1])
    assert "value(negatives_above, n_neg) fails" in str(check_qs_suitable(loss, 2, 2))


@pytest.mark.parametrize("lists", LISTS)
def test_value_and_derivative_must_agree(lists):
    assert mm.most_violating_ranking(*lists, Odd(value=lambda v: np.float32(v))).hinge > 0  # rounding is no disagreement
    with pytest.raises(ValueError, match=r"value and derivative of loss=Odd\(\) disagree: for a ranking of .* value is "):
        mm.most_violating_ranking(*lists, Odd(value=lambda v: 1.001 * v))


class Counted(AveragePrecision):
    """Average precision that counts the pairs it is asked for."""

    pairs = 0

    def derivative(self, j, i, n_pos, n_neg):
        self.pairs += len(j)
        return super().derivative(j, i, n_pos, n_neg)


class Proved(Counted):
    proved_suitable = True


class NotAnyMore(Proved):
    pass


def test_suitability_is_proved_once_and_by_all_pairs():
    rng = np.random.default_rng(0)
    scores, truth = rng.normal(size=20_000), (rng.permutation(20_000) < 20).astype(np.uint8)
    offsets = np.array([0, len(scores)])
    asked = {}
    for cls in (Counted, Proved, NotAnyMore):
        loss = checked_loss(cls())
        asked[cls] = []
        for _ in range(2):
            before = loss.loss.pairs
            _, hinge, _ = solve_lists(scores, truth, offsets, loss, 1.0, 1)
            assert hinge[0] == pytest.approx(mm.most_violating_ranking(scores, truth, "ap").hinge, rel=1e-13)
            asked[cls].append(loss.loss.pairs - before)
    pairs = 20 * 19_980
    assert asked[Counted][0] >= pairs and asked[Counted][1] < pairs / 10
    assert asked[Proved][0] < pairs / 5
    assert asked[NotAnyMore] == asked[Counted]


def test_more_pairs_than_anyone_waits_for():
    scores, relevant = np.zeros(140_000), np.arange(140_000) < 70_000
    with pytest.raises(ValueError, match=r"4.9e\+09 pairs, all of 70000 positives and 70000 negatives.*proved_suitable = True"):
        mm.most_violating_ranking(scores, relevant, Counted())
    for kwargs in ({"loss_scale": -1.0}, {"method": "table"}):
        with pytest.raises(ValueError, match="take minutes"):
            mm.most_violating_ranking(scores, relevant, "ap", **kwargs)
    with pytest.raises(ValueError, match="take minutes"):
        solve_lists(scores, relevant.view(np.uint8), np.array([0, 140_000]), AUC(), -1.0, 1)
    # Positions are fewer than pairs.
    found = mm.most_violating_ranking(scores, relevant, Discounted(lambda p: 1 / p))
    assert found.hinge == pytest.approx(mm.most_violating_ranking(scores, relevant, NDCG(lambda p: 1 / p)).hinge)


def test_a_discounted_loss_with_a_derivative_of_its_own_is_looked_at():
    class Capped(Discounted):
        value = RankingLoss.value

        def derivative(self, j, i, n_pos, n_neg):
            return np.where((i == 2) & (j > 500), 0.0, super().derivative(j, i, n_pos, n_neg)) - 1.0 * ((i == 2) & (j == 700))

    assert checked_loss(Discounted(lambda p: 0.9**p)).is_suitable(3, 2000)
    assert not checked_loss(Capped(lambda p: 0.9**p)).is_suitable(3, 2000)


def test_names_and_representations():
    assert repr(ranking_loss("map")) == "AveragePrecision()" and repr(NDCG()) == "NDCG()"
    assert "discount=" in repr(NDCG(lambda p: 1 / p))
    assert NDCG(lambda p: 1 / p).native_name() is None and NDCG().native_name() == "ndcg"
    assert UserNDCG().native_name() is None


@pytest.mark.parametrize("name", CUT)
def test_losses_of_first_places_are_not_suitable(name):
    loss = ranking_loss(name)
    checked = checked_loss(loss)
    assert not checked.is_suitable(20, 30) and not checked.is_suitable(1, loss.at)
    assert loss.at == 1 or checked.is_suitable(1, loss.at - 1)
    # For k = 1 differences only rise with j, but jump at the place after the first.
    assert check_qs_suitable(loss).failed == (("C2",) if loss.at > 1 else ())


@pytest.mark.parametrize(
    ("name", "loss", "native"),
    [
        ("NDCG@10", NDCG(at=10), "ndcg@10"),
        ("map@3", AveragePrecision(at=3), "ap@3"),
        ("rr@10", ReciprocalRank(at=10), "mrr@10"),
        ("precision@5", Precision(5), "p@5"),
        ("recall@20", Recall(at=np.int64(20)), "recall@20"),
        ("rbp", RankBiasedPrecision(), "rbp(p=0.8)"),
        ("rbp(p=0.95)", RankBiasedPrecision(persistence=0.95), "rbp(p=0.95)"),
    ],
)
def test_names(name, loss, native):
    assert repr(ranking_loss(name)) == repr(loss) and loss.native_name() == ranking_loss(name).native_name() == native
    assert repr(ranking_loss(native)) == repr(loss)

    class Other(type(loss)):
        pass

    assert Other(**vars(loss)).native_name() is None


def test_a_discount_of_ones_own_with_a_cut_off():
    own, built_in = NDCG(lambda p: 1 / np.log2(1 + p), at=4), NDCG(at=4)
    assert own.native_name() is None and "at=4" in repr(own)
    rng = np.random.default_rng(0)
    scores, relevant = rng.normal(size=60), np.arange(60) % 4 == 0
    ours, theirs = (mm.most_violating_ranking(scores, relevant, loss) for loss in (own, built_in))
    assert ours.hinge == pytest.approx(theirs.hinge, rel=1e-12)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NDCG(at=0), "at=0 must be a whole number of first places that count, at least 1, or None for all"),
        (lambda: NDCG(at=2.0), "at=2.0 must be a whole number"),
        (lambda: AveragePrecision(at=True), "at=True must be a whole number"),
        (lambda: ReciprocalRank(at=-3), "at=-3 must be a whole number"),
        (lambda: Precision(None), "at=None must be a whole number of first places that count, at least 1$"),
        (lambda: Recall("5"), "at='5' must be"),
        (lambda: RankBiasedPrecision(1.0), "persistence=1.0 must be a number between 0 and 1"),
        (lambda: RankBiasedPrecision(np.nan), "persistence=nan must be"),
        (lambda: RankBiasedPrecision("0.8"), "persistence='0.8' must be"),
        (
            lambda: ranking_loss("ndcg@0"),
            "loss='ndcg@0' must have a whole number of first places, at least 1, behind the @; write 'ndcg@10'",
        ),
        (lambda: ranking_loss("ap@-1"), "loss='ap@-1' must have"),
        (lambda: ranking_loss("ap@"), "loss='ap@' must have"),
        (lambda: ranking_loss("p"), "loss='p' needs the number of first places that count; write 'p@10'"),
        (lambda: ranking_loss("auc@5"), "loss='auc@5' has a cut-off, and auc looks at all places; write 'auc'"),
        (lambda: ranking_loss("rbp(p=1.5)"), r"loss='rbp\(p=1.5\)' has no persistence between 0 and 1"),
        (lambda: ranking_loss("rbp(p=x)"), "has no persistence"),
        (lambda: ranking_loss("ap(p=0.5)"), r"loss='ap\(p=0.5\)' is unknown; choose one of 'ap\[@K\]', 'auc'"),
    ],
)
def test_bad_cut_offs(make, message):
    with pytest.raises(ValueError, match=message):
        make()
