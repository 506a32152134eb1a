"""The classifier of rare events over shards against the one in memory, on the same folds."""

import warnings

import numpy as np
import pytest
from event_cases import OverShards, engine_of, samples
from scipy import sparse
from sklearn.model_selection import KFold, PredefinedSplit

from maxmargin import RankingClassifier
from maxmargin._validation import ArgumentError
from maxmargin.distributed import Fault, events
from maxmargin.estimators import linear_start
from maxmargin.losses import RankingLoss
from maxmargin.solvers import ConvergenceWarning

X, Y = samples()


class Half(RankingLoss):
    """Half of what AUC says; it has no name that a shard would know."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(np.broadcast(j, i).shape, -0.5 / (n_pos * n_neg))

    def value(self, above, n_neg):
        return 0.5 * float(np.mean(above)) / n_neg


@pytest.fixture(autouse=True)
def exact(monkeypatch):
    """Regressions to the last digits on both sides, so that they can be held against each other."""
    made = linear_start._logistic
    monkeypatch.setattr(linear_start, "_logistic", lambda X, n: made(X, n).set_params(tol=1e-10))
    monkeypatch.setattr(events, "_QUASI_NEWTON_TOL", 1e-10)


def fitted(settings, X=X, y=Y, cuts=(0.3, 0.3, 0.7)):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        loss = settings.get("loss")
        engine = engine_of(X, y, cuts, loss if isinstance(loss, RankingLoss) else None)
        return OverShards(**settings).fit_engine(engine), RankingClassifier(**settings).fit(X, y)


def assert_same(found, expected, tol=1e-6):
    assert (found.C_, found.refined_, found.n_steps_) == (expected.C_, expected.refined_, expected.n_steps_)
    assert found.classes_.tolist() == expected.classes_.tolist() and found.certified_ is False
    for name in ("coef_", "intercept_", "threshold_", "cv_scores_", "gains_", "gain_", "gain_error_", "Cs_", "checkpoints_"):
        one, other = np.asarray(getattr(found, name)), np.asarray(getattr(expected, name))
        np.testing.assert_allclose(one, other, rtol=tol, atol=tol * max(1.0, np.abs(other).max(initial=0.0)), err_msg=name)
    assert found.held_out_ == pytest.approx(expected.held_out_, rel=1e-9)
    if expected.calibration_ is not None:
        np.testing.assert_allclose(found.calibration_, expected.calibration_, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.training_sketch_, expected.training_sketch_, rtol=1e-9)
    assert found.summary() == expected.summary()
    assert (found.n_iter_, len(found.history_)) == (expected.n_iter_, len(expected.history_))


@pytest.mark.parametrize(
    "settings", [
        {"max_iter": 16}, {"refine": "always", "max_iter": 16, "random_state": 3}, {"refine": False, "calibration": "isotonic"},
        {"refine": False, "pos_label": "common", "threshold": {"cost": [[0, 5], [1, 0]]}},
        {"refine": False, "C": [0.01, 1.0], "threshold": {"budget": 30}}, {"refine": False, "threshold": {"precision": 0.99}},
        {"refine": False, "threshold": {"recall": 0.9}, "cv": 3}, {"refine": False, "threshold": 0.4},
        {"refine": False, "threshold": 0.9999, "C": 0.1, "calibration": "isotonic"},
        {"loss": "p@20", "C": 0.1, "max_iter": 4}, {"loss": "ndcg@10", "C": 0.1, "max_iter": 8, "calibration": None},
        {"loss": Half(), "C": 0.1, "max_iter": 4}, {"standardize": False, "refine": False, "C": 1e-3},
    ]
)  # fmt: skip
def test_settings(settings):
    assert_same(*fitted(settings))


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), tuple(range(20, 300, 20)), "apart"])
def test_shards_of_all_kinds(cuts):
    """One, tiny ones, many, and one for each class."""
    rows, labels = X, Y
    if cuts == "apart":
        order = np.argsort(Y, kind="stable")
        rows, labels, cuts = X[order], Y[order], (int((Y == "common").sum()),)
    assert_same(*fitted({"C": [0.01, 0.1], "max_iter": 8, "refine": "always"}, rows, labels, cuts))


def test_sparse_rows_single_precision_and_other_labels():
    few = sparse.csr_array(np.where(np.random.default_rng(0).random(X.shape) < 0.5, X - X.mean(axis=0), 0.0))
    assert_same(*fitted({"C": 0.1, "max_iter": 8}, few), 1e-4)
    assert_same(*fitted({"C": 0.1, "refine": False}, X.astype(np.float32)))
    for labels in ((Y == "rare").astype(int), Y == "rare", np.where(Y == "rare", 2.5, -1.0), Y.astype(object)):
        found, expected = fitted({"C": 0.1, "refine": False}, X, labels)
        assert found.classes_.tolist() == expected.classes_.tolist()
        np.testing.assert_allclose(found.coef_, expected.coef_, rtol=1e-6)


def test_many_features():
    rng = np.random.default_rng(0)
    wide = np.hstack([X, rng.normal(size=(300, 80))])
    found, expected = fitted({"C": 0.01, "refine": False}, wide)
    assert_same(found, expected, 1e-4)


def test_given_folds():
    folds = np.random.default_rng(1).integers(-1, 4, size=300) * 2
    folds[folds < 0] = -1
    assert_same(*fitted({"cv": PredefinedSplit(folds), "C": [0.01, 0.1], "max_iter": 8, "refine": "always"}))
    with pytest.raises(ArgumentError, match=r"cv=KFold.* is not known over shards; pass the number of folds, or a PredefinedSpl"):
        OverShards(cv=KFold(3)).fit_engine(engine_of(X, Y))
    lonely = np.where(Y == "rare", 0, np.arange(300) % 2)
    with pytest.raises(ArgumentError, match="fold 1 of cv has samples of one class only, in training or in testing"):
        OverShards(cv=PredefinedSplit(lonely)).fit_engine(engine_of(X, Y))
    with pytest.raises(ValueError, match="there are 3 numbers of folds for 300 samples"):
        OverShards(cv=PredefinedSplit([0, 1, 0])).fit_engine(engine_of(X, Y))


def test_there_are_not_more_folds_than_samples_of_a_class():
    labels = np.where(np.arange(300) % 100 == 0, "rare", "common")
    found, expected = fitted({"C": 0.1, "refine": False}, X, labels)
    assert found.cv_scores_.shape == (3, 1)
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("labels", "message"), [
        (np.full(300, "common"), "y holds only one class, 'common'; add samples of another one"),
        (np.array(["a", "b", "c"] * 100), "Only binary classification is supported. The type of the target is multiclass: y has"),
        (np.where(np.arange(300) == 7, "rare", "common"), "y has 1 sample of class 'rare', but inner folds need two of each"),
    ]
)  # fmt: skip
def test_bad_labels(labels, message):
    for fit in (lambda: OverShards().fit_engine(engine_of(X, labels)), lambda: RankingClassifier().fit(X, labels)):
        with pytest.raises(ArgumentError, match=message):
            fit()


def test_bad_features_and_parameters():
    bad = X.copy()
    bad[211, 1] = np.inf
    for settings in ({}, {"standardize": False}):
        with pytest.raises(ValueError, match=r"X and y must be finite: a feature in row 1 of rows 210 to 299 is NaN or infinite"):
            OverShards(**settings).fit_engine(engine_of(bad, Y))
    with pytest.raises(ArgumentError, match="pos_label='often' is no label: y has 'common' and 'rare'"):
        OverShards(pos_label="often").fit_engine(engine_of(X, Y))


def test_time_is_kept():
    with pytest.warns(ConvergenceWarning, match=r"ended early with C=0.0001, the best of 1 tried; refinement was not tried"):
        model = OverShards(time_limit=1e-9).fit_engine(engine_of(X, Y))
    assert not model.refined_ and np.isfinite(model.coef_).all() and model.coef_.any()
    with pytest.warns(ConvergenceWarning, match="refinement was stopped, and the start is kept"):
        model = OverShards(C=0.1, callback=lambda history: True).fit_engine(engine_of(X, Y))
    assert not model.refined_


def test_ctrl_c():
    whole = engine_of(X, Y)
    OverShards(refine=False).fit_engine(whole)
    judged = [k for k, operation in enumerate(whole.log) if operation == "held_above"]
    with pytest.warns(ConvergenceWarning, match=r"ended early with C=0.001, the best of 2 tried|ended early with C=.*of 2 tried"):
        model = OverShards(refine=False).fit_engine(engine_of(X, Y, faults=[Fault("interrupt", judged[1] + 2)]))
    assert len(model.Cs_) == 2
    with pytest.raises(KeyboardInterrupt):
        OverShards(refine=False).fit_engine(engine_of(X, Y, faults=[Fault("interrupt", judged[0] - 2)]))


def test_folds_are_refined_in_common_rounds(monkeypatch):
    settings = {"C": 0.1, "refine": "always", "max_iter": 6}
    told = []
    engines = [engine_of(X, Y) for _ in range(3)]
    together = OverShards(**settings).fit_engine(engines[0])
    # One after the other: for somebody who wants to be told, or with more rows than memory is spent for.
    with_callback = OverShards(**settings, callback=lambda history: told.append(len(history))).fit_engine(engines[1])
    monkeypatch.setattr(events, "_ROWS_TOGETHER", 99)
    one_by_one = OverShards(**settings).fit_engine(engines[2])
    assert "several" in engines[0].log and "several" not in engines[1].log + engines[2].log
    assert engines[1].rounds == engines[2].rounds and engines[0].rounds < 0.5 * engines[2].rounds
    for other in (with_callback, one_by_one):
        assert (other.coef_ == together.coef_).all() and (other.gains_ == together.gains_).all() and other.gains_.any()
    assert told[:7] == [1, 2, 3, 4, 5, 6, 1]


def test_ctrl_c_while_folds_are_refined():
    whole = engine_of(X, Y)
    start = OverShards(C=0.1, refine=False).fit_engine(engine_of(X, Y))
    OverShards(C=0.1).fit_engine(whole)
    with pytest.warns(ConvergenceWarning, match="refinement was stopped, and the start is kept"):
        model = OverShards(C=0.1).fit_engine(engine_of(X, Y, faults=[Fault("interrupt", whole.log.index("several") + 9)]))
    assert not model.refined_ and (model.coef_ == start.coef_).all() and model.threshold_ == start.threshold_


def test_a_lost_shard_changes_no_bit():
    settings = {"C": [0.01, 0.1], "refine": "always", "max_iter": 4, "threshold": {"budget": 0.1}}
    whole = engine_of(X, Y)
    expected = OverShards(**settings).fit_engine(whole)
    rng = np.random.default_rng(0)
    for number in rng.integers(1, whole.rounds - 1, size=4):
        engine = engine_of(X, Y, faults=[Fault("lost before", int(number), int(number) % 4)])
        found = OverShards(**settings).fit_engine(engine)
        assert engine.moves == 1
        assert (found.coef_ == expected.coef_).all() and found.threshold_ == expected.threshold_
        assert (found.calibration_ == expected.calibration_).all() and found.held_out_ == expected.held_out_
        assert (found.cv_scores_ == expected.cv_scores_).all() and (found.gains_ == expected.gains_).all()
