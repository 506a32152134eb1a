"""Losses agree with their definitions, with their derivatives, and with the conditions of exact inference."""

from itertools import combinations

import numpy as np
import pytest
from brute_force import loss_by_definition

import maxmargin as mm
from maxmargin import losses
from maxmargin.losses import RankingLoss, check_qs_suitable, ranking_loss


class UserNDCG(RankingLoss):
    def derivative(self, j, i, n_pos, n_neg):
        return (1 / np.log2(1 + i + j) - 1 / np.log2(i + j)) / np.sum(1 / np.log2(np.arange(2, n_pos + 2)))


@pytest.mark.parametrize("name", ["ap", "ndcg", "auc", "mrr"])
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
        losses.AveragePrecision(),
        losses.NDCG(),
        losses.AUC(),
        losses.ReciprocalRank(),
        losses.Discounted(lambda p: 0.7**p),
        losses.Discounted(lambda p: 1 / p),
        UserNDCG(),
    ],
)
def test_suitable_losses(loss):
    report = check_qs_suitable(loss)
    assert report and not report.failed
    assert "is QS-suitable" in str(report)


@pytest.mark.parametrize("k", [2, 3])
def test_truncated_losses_are_rejected(k):
    precision = check_qs_suitable(losses.Discounted(lambda p: (p <= k) * 1.0))
    assert precision.failed == ("C2",)
    assert min(failure.n_neg for failure in precision.failures) >= 2
    truncated = check_qs_suitable(losses.NDCG(lambda p: (p <= k) / np.log2(1 + p)))
    assert truncated.failed == ("C2",)
    assert "j=" in str(truncated) and "i=" in str(truncated)


def test_cutting_after_the_first_position_is_convex():
    assert check_qs_suitable(losses.Discounted(lambda p: (p <= 1) * 1.0))


def test_non_convex_discount_of_remark_1_is_rejected():
    report = check_qs_suitable(losses.NDCG(lambda p: np.where(p <= 2, 1.0, 1 / np.log2(np.maximum(p, 2)))))
    assert report.failed == ("C2",)
    first = report.failures[0]
    assert (first.n_pos, first.n_neg) == (1, 2)


def test_wrong_and_missing_derivatives_are_named():
    class Wrong(losses.AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return super().derivative(j, i, n_pos, n_neg) * n_pos  # the factor the print forgets

    class Scalar(losses.AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return -i / ((i + j) * (i + j - 1)) / n_pos if i > 0 else 0.0

    class Infinite(losses.AveragePrecision):
        def derivative(self, j, i, n_pos, n_neg):
            return np.full(j.shape, np.inf)

    assert check_qs_suitable(Wrong()).failed == ("C1",)
    assert check_qs_suitable(Scalar(), 3, 3).failed == ("C3",)
    assert "does not take arrays" in str(check_qs_suitable(Scalar(), 3, 3))
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


def test_errors_in_user_losses_reach_the_user():
    class Short(losses.AUC):
        def derivative(self, j, i, n_pos, n_neg):
            return np.zeros(1)

    class Broken(losses.AUC):
        def derivative(self, j, i, n_pos, n_neg):
            raise RuntimeError("my own mistake")

    class Nan(losses.AUC):
        def derivative(self, j, i, n_pos, n_neg):
            return np.full(j.shape, np.nan)

    scores, relevant = np.arange(50.0), np.arange(50) % 3 == 0
    with pytest.raises(ValueError, match="one value for every pair"):
        mm.most_violating_ranking(scores, relevant, Short())
    with pytest.raises(RuntimeError, match="my own mistake"):
        mm.most_violating_ranking(scores, relevant, Broken())
    with pytest.raises(ValueError, match="not finite"):
        mm.most_violating_ranking(scores, relevant, Nan())


def test_names_and_representations():
    assert repr(ranking_loss("map")) == "AveragePrecision()" and repr(losses.NDCG()) == "NDCG()"
    assert "discount=" in repr(losses.NDCG(lambda p: 1 / p))
    assert losses.NDCG(lambda p: 1 / p).native_name() is None and losses.NDCG().native_name() == "ndcg"
    assert UserNDCG().native_name() is None
