"""The classifier for rare events."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import RankingClassifier


# As for the classifiers of scikit-learn that choose a threshold.
def of_other_thresholds(estimator):
    return {} if estimator.threshold == 0.5 else {"check_classifiers_train": "the threshold is not at probability 0.5"}


@pytest.mark.filterwarnings("default::maxmargin.solvers.ConvergenceWarning")
@parametrize_with_checks(
    [RankingClassifier(), RankingClassifier("auc", threshold=0.5, start="hinge", refine="always", max_iter=20)],
    expected_failed_checks=of_other_thresholds,
)
def test_scikit_learn(estimator, check):
    check(estimator)
