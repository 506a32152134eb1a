"""Scores of models of folds on one scale: what a cut promises on held-out samples is what new samples get."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from maxmargin import RankingClassifier
from maxmargin.rare_events.held_out import on_scale_of, pooled_scores

NUMBERS = st.lists(st.sampled_from([-1e300, -2.0, -1.0, -1e-300, 0.0, 1e-300, 0.5, 1.0, 3.0, 1e300]), min_size=1, max_size=12)


def drawn(n, rng):
    X = rng.normal(size=(n, 6))
    return X, rng.random(n) < 1 / (1 + np.exp(3 - 2 * X[:, 0] - X[:, 1]))


AIMS = [{"budget": 0.1}, {"cost": [[0, 1], [6, 0]]}, "f1", {"precision": 0.6}, {"recall": 0.7}, 0.2]


@pytest.mark.parametrize("C", [1e-6, 1e-4, 1e-2, 1.0, 1e2])
def test_what_is_promised_is_delivered(C):
    """611 samples make folds of unequal shares of positives, whose intercepts differ more than scores do at a small C."""
    rng = np.random.default_rng(7)
    X, y = drawn(611, rng)
    new, truth = drawn(20000, rng)
    for aim in AIMS:
        model = RankingClassifier(C=C, threshold=aim, refine=False).fit(X, y)
        flagged, promised = model.predict(new), model.held_out_
        for name, found, n in [
            ("flagged", flagged.mean(), len(y)),
            ("recall", flagged[truth].mean(), y.sum()),
            ("precision", truth[flagged].mean(), promised["flagged"] * len(y)),
        ]:
            error = np.sqrt(max(promised[name] * (1 - promised[name]), 1 / n) / n)
            assert abs(found - promised[name]) < 3.5 * error, (aim, name, found, promised[name], error)
        # Probabilities are of the same scale, so a regularisation that shrinks scores does not spoil them.
        chance = np.clip(model.predict_proba(new)[:, 1], 1e-12, 1 - 1e-12)
        assert -np.mean(np.where(truth, np.log(chance), np.log(1 - chance))) < 0.29


def test_a_budget_of_a_refined_model_and_of_the_hinge_is_kept():
    rng = np.random.default_rng(3)
    X, y = drawn(611, rng)
    new, _ = drawn(20000, rng)
    for parameters in ({"refine": "always", "C": 1e-5}, {"start": "hinge", "C": 1e-3}):
        model = RankingClassifier(threshold={"budget": 0.1}, cv=3, **parameters).fit(X, y)
        assert abs(model.predict(new).mean() - 0.1) < 0.045, parameters


@settings(max_examples=200, deadline=None)
@given(NUMBERS, NUMBERS, NUMBERS)
def test_any_scores(scores, own, other):
    n = min(len(own), len(other))
    scores, own, other = (np.sort(np.array(part)) for part in (scores, own[:n], other[:n]))
    with np.errstate(over="ignore", invalid="ignore"):
        found = on_scale_of(scores, own, other)
    if np.isfinite(found).all():
        assert (np.diff(found) >= 0).all(), "the order stays"
    if np.abs(np.concatenate([scores, own, other])).max() <= 3:
        assert np.isfinite(found).all() or np.ptp(own) < 1e-200
        if np.ptp(other) == 0:
            assert np.ptp(found) < 1e-9


def test_scale_of_a_linear_model_is_found_exactly():
    rng = np.random.default_rng(0)
    own, new = rng.normal(size=50), rng.normal(size=20)
    np.testing.assert_allclose(on_scale_of(new, own, 3e5 * own - 7), 3e5 * new - 7, rtol=1e-9)
    np.testing.assert_allclose(on_scale_of(new, np.full(50, 2.0), own), new - 2 + own.mean(), rtol=1e-9)
    # Weights of zero: what is left of differences is rounding, which must not be stretched.
    np.testing.assert_allclose(on_scale_of(5 + 1e-14 * new, 5 + 1e-14 * own, own), own.mean(), rtol=1e-9)


def test_folds_that_differ_by_scale_only_pool_to_the_whole():
    rng = np.random.default_rng(0)
    whole = rng.normal(size=30)
    parts = np.array_split(rng.permutation(30), 3)
    folds = [(np.setdiff1d(np.arange(30), part), part) for part in parts]
    by_fold = [scale * whole + shift for scale, shift in [(0.1, 5.0), (1.0, 0.0), (2.0, -3.0)]]
    scores, seen = pooled_scores(by_fold, whole, folds)
    np.testing.assert_allclose(scores, whole, rtol=1e-9, atol=1e-12)
    assert seen.all()
    scores, seen = pooled_scores(by_fold[:1], whole, folds[:1])
    assert seen.sum() == len(parts[0]) and not scores[~seen].any()
