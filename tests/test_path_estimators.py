"""Paths of estimators: the model at every lambda, selection, files, checkpoints, cross-validation."""

import signal

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from maxmargin import (
    ChainSVM,
    GraphSVM,
    MulticlassSVM,
    PathSearchCV,
    RankingSVM,
    RegularizationPath,
    SavedFileError,
    StructuredSVM,
    TreeSVM,
    regularization_path,
)
from maxmargin.losses import AveragePrecision
from maxmargin.models import RankingModel, StructuredModel, Tree
from maxmargin.path.checkpoint import Checkpoint
from maxmargin.solvers import BCFW, ConvergenceWarning

rng = np.random.default_rng(0)
EPSILON = 0.05


class Matching(StructuredModel):
    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, truth, y):
        return float(np.mean(truth != y))

    def loss_augmented(self, x, truth, weights):
        wrong = (np.arange(len(truth)) != truth[:, None]) / len(truth)
        return linear_sum_assignment(x @ weights + wrong, maximize=True)[1]

    def predict(self, x, weights):
        return linear_sum_assignment(x @ weights, maximize=True)[1]


def cases():
    """Name, estimator, X, y, parameters of fit."""
    X = rng.normal(size=(60, 4))
    y = (X[:, 0] + rng.normal(size=60) > 0.5).astype(int) + (X[:, 1] > 1)
    qid = np.repeat([3, 1, 2], 20)
    yield "ranking", RankingSVM("ap"), X, y, {}
    yield "queries", RankingSVM("ndcg", grades=True), sparse.csr_array(X), y, {"qid": qid}
    yield "accuracy", RankingSVM("accuracy"), X, y, {}
    yield "classes", MulticlassSVM(), *load_iris(return_X_y=True), {}
    yield "two classes", MulticlassSVM(fit_intercept=False), X, y > 0, {}
    words = [rng.normal(size=(5, 3)) for _ in range(12)]
    labels = [np.array(["a", "b"])[(x[:, 0] > 0).astype(int)] for x in words]
    yield "chain", ChainSVM(), words, labels, {}
    yield "tree", TreeSVM(), [Tree(x, np.array([-1, 0, 0, 1, 1])) for x in words], labels, {}
    edges = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    yield "graph", GraphSVM(), [(x, edges) for x in words], [(x[:, 0] > 0).astype(int) for x in words], {}
    pairs = [rng.normal(size=(4, 4, 3)) for _ in range(8)]
    best = [linear_sum_assignment(x @ np.array([2.0, -1, 0.5]) + rng.normal(size=(4, 4)), maximize=True)[1] for x in pairs]
    yield "own model", StructuredSVM(Matching(), bounds=(-0.5, 1.0)), pairs, best, {}


CASES = {name: rest for name, *rest in cases()}


def trace(name, **options):
    estimator, X, y, fit_params = CASES[name]
    settings = {"epsilon": EPSILON, "lambda_min": 1e-3, **options}
    return regularization_path(estimator, X, y, **settings, **fit_params)


@pytest.mark.parametrize("rule", ["interpolate", "transport"])
@pytest.mark.parametrize("name", CASES)
def test_every_lambda_against_a_fit_of_its_own(name, rule):
    estimator, X, y, fit_params = CASES[name]
    path = trace(name, rule=rule, epsilon=0.2 if rule == "transport" else EPSILON)
    assert path.certified and path.complete and path.lambda_end <= 1e-3
    for lam in np.logspace(-2.9, np.log10(3 * path.lambdas[0]), 7):
        model = path.estimator(lam)
        C = 1 / (lam * path.n_blocks)
        assert pytest.approx(C) == model.C and model.certified_
        own = type(estimator)(**{**estimator.get_params(deep=False), "C": C, "tol": 1e-6}).fit(X, y, **fit_params)
        assert model.dual_gap_ == pytest.approx(path.gap_bound(lam) / lam) and path.gap_bound(lam) <= path.epsilon * (1 + 1e-9)
        # The bounds hold for the optimum, whose objective another run knows to 1e-6.
        slack = 1e-6 * own.primal_objective_
        assert model.dual_objective_ <= own.primal_objective_ + slack
        assert model.primal_objective_ >= own.dual_objective_ - slack
        assert model.primal_objective_ - own.dual_objective_ <= model.dual_gap_ + 2 * slack
        assert len(model.predict(X)) == len(own.predict(X))


def test_the_objective_is_that_of_the_weights():
    X, y, _ = CASES["ranking"][1:]
    path = trace("ranking")
    model = RankingModel(X, y > 0, AveragePrecision())
    for lam in np.logspace(-3, 3, 15):
        w = path.weights(lam)
        np.testing.assert_array_equal(path.estimator(lam).coef_, w)
        if lam < path.lambdas[0]:
            primal = 0.5 * w @ w + model.mean_cut(w).hinge(w) / lam
            assert path.estimator(lam).primal_objective_ == pytest.approx(primal, rel=1e-9)


def test_bounds():
    path = trace("ranking", bounds=(0.0, np.inf))
    free = trace("ranking")
    assert path.certified and (path.coef_path()[1] >= 0).all() and (free.coef_path()[1] < 0).any()


@pytest.mark.parametrize("name", [name for name in CASES if name != "own model"])
def test_files(tmp_path, name):
    _, X, y, fit_params = CASES[name]
    path = trace(name)
    path.save(tmp_path / "p")
    loaded = RegularizationPath.load(tmp_path / "p")
    assert loaded.segments == path.segments and loaded.certified == path.certified and len(loaded) == len(path)
    for lam in (1e-3, 0.1, 1e4):
        np.testing.assert_array_equal(loaded.weights(lam), path.weights(lam))
        assert loaded.gap_bound(lam) == path.gap_bound(lam)
        assert loaded.estimator(lam).score(X, y, **fit_params) == path.estimator(lam).score(X, y, **fit_params)
    again = tmp_path / "again"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "p").read_bytes()


def test_files_that_are_no_paths(tmp_path):
    path = trace("ranking")
    path.save(tmp_path / "p")
    data = (tmp_path / "p").read_bytes()
    for bad in (b"", b"x", data[: len(data) // 2], data[:-4]):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(SavedFileError, match="bad"):
            RegularizationPath.load(tmp_path / "bad")
    path.segments = path.segments[::-1]
    path.segments[0] = path.segments[0]._replace(model=99)
    path.save(tmp_path / "p")
    with pytest.raises(SavedFileError, match="segments are not in order"):
        RegularizationPath.load(tmp_path / "p")
    with pytest.raises(TypeError, match="StructuredSVM cannot be saved"):
        trace("own model").save(tmp_path / "q")
    assert not (tmp_path / "q").exists()


def test_problems_without_an_estimator(tmp_path):
    X, y, _ = CASES["ranking"][1:]
    problem = RankingModel(X, y > 0, AveragePrecision())
    path = regularization_path(problem, epsilon=EPSILON, lambda_min=1e-2)
    np.testing.assert_allclose(path.weights(0.1), trace("ranking", lambda_min=1e-2).weights(0.1), rtol=1e-9)
    with pytest.raises(ValueError, match="bare problem"):
        path.estimator(0.1)
    path.save(tmp_path / "p")
    assert RegularizationPath.load(tmp_path / "p").template is None


def test_select_scores_every_model_once():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    path = regularization_path(RankingSVM("ap"), X[::2], y[::2], epsilon=0.01, lambda_min=1e-3)
    calls = []

    def scoring(model, X, y):
        calls.append(model)
        return model.score(X, y)

    found = path.select(X[1::2], y[1::2], scoring=scoring)
    assert len(calls) == len(path) == len(found.scores) == len(found.lambdas)
    assert found.score == pytest.approx(max(found.scores)) and path.estimator(found.lam).score(X[1::2], y[1::2]) == found.score
    same = path.select(X[1::2], y[1::2])
    assert (same.lam, same.score) == (found.lam, found.score)


def test_float32_takes_half_the_memory_and_stays_certified():
    double, single = (trace("classes", dtype=kind) for kind in (np.float64, np.float32))
    assert single.store.nbytes / len(single) < 0.6 * double.store.nbytes / len(double)
    assert single.certified and max(s.gap_lo for s in single.segments) <= EPSILON * (1 + 1e-9)
    w = single.weights(0.01)
    np.testing.assert_array_equal(w, w.astype(np.float32))


# ---- interruption -------------------------------------------------------------------------------------------------------------


def interrupted(tmp_path, rule):
    """A path that Ctrl-C stops after four solves."""
    solves = []

    def stop(progress):
        solves.append(progress.lam)
        if len(solves) == 4:
            signal.raise_signal(signal.SIGINT)

    with pytest.warns(ConvergenceWarning, match="it was interrupted"):
        path = trace("classes", rule=rule, checkpoint=tmp_path / "c", callback=stop, solver=BCFW(steps="exact"))
    assert not path.complete and len(path) == 4


@pytest.mark.parametrize("rule", ["interpolate", "transport"])
def test_a_checkpoint_goes_on(tmp_path, rule):
    interrupted(tmp_path, rule)
    whole = trace("classes", rule=rule, solver=BCFW(steps="exact"))
    seen = []
    resumed = trace(
        "classes", rule=rule, checkpoint=tmp_path / "c", callback=lambda p: seen.append(p.lam), solver=BCFW(steps="exact")
    )
    assert resumed.complete and resumed.certified and resumed.lambda_end == whole.lambda_end
    np.testing.assert_array_equal(resumed.lambdas[:3], whole.lambdas[:3])
    # All that is done is in the file: a third run solves nothing.
    again = trace("classes", rule=rule, checkpoint=tmp_path / "c", solver=BCFW(max_passes=0.1))
    np.testing.assert_array_equal(again.lambdas, resumed.lambdas)


def test_checkpoints_of_other_data(tmp_path):
    interrupted(tmp_path, "interpolate")
    with pytest.raises(SavedFileError, match=r"epsilon=0\.05, not 0\.1"):
        trace("classes", checkpoint=tmp_path / "c", epsilon=0.1)
    estimator, X, y, _ = CASES["classes"]
    with pytest.raises(SavedFileError, match="on other data"):
        regularization_path(estimator, X + 1e-3, y, epsilon=EPSILON, lambda_min=1e-3, checkpoint=tmp_path / "c")
    (tmp_path / "c").write_bytes(b"other")
    with pytest.raises(SavedFileError, match="not a file saved by maxmargin"):
        trace("classes", checkpoint=tmp_path / "c")
    with pytest.raises(FileNotFoundError, match="its folder does not exist"):
        trace("classes", checkpoint=tmp_path / "none" / "c")


def test_checkpoint_is_written_at_the_end_whatever_the_pause(tmp_path):
    X, y, _ = CASES["ranking"][1:]
    problem = RankingModel(X, y > 0, AveragePrecision())
    trace("ranking", checkpoint=tmp_path / "c")
    points = Checkpoint(tmp_path / "c", problem, EPSILON, 0.9, "interpolate").points()
    np.testing.assert_array_equal([p.lam for p in points], trace("ranking").lambdas)


def test_time_limit():
    with pytest.warns(ConvergenceWarning, match="the path ends at lambda="):
        path = trace("classes", time_limit=1e-9)
    assert not path.complete
    with pytest.raises(ValueError, match="below the end of the path"):
        path.weights(1e-3)


# ---- bad input ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0 must be a positive number"),
        ({"epsilon": np.nan}, "epsilon=nan must be"),
        ({"kappa": 1.0}, "kappa=1.0 must be between 0 and 1"),
        ({"lambda_min": -1}, "lambda_min=-1 must be"),
        ({"lambda_max": 1e-4}, "lambda_max=0.0001 must be greater than lambda_min"),
        ({"rule": "grid"}, "rule='grid' is unknown"),
        ({"solver": "fast"}, "solver='fast' is unknown"),
        ({"solver": BCFW(stop="heuristic")}, "certifies nothing"),
        ({"bounds": (0.1, 1.0)}, "bounds exclude the weight 0"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ValueError, match=message):
        trace("ranking", **options)


class Careless(Matching):
    exact = False


class Unjust(Matching):
    def loss(self, truth, y):
        return 0.5 + super().loss(truth, y)


def test_bad_models():
    _, X, y, _ = CASES["own model"]
    with pytest.raises(ValueError, match=r"not exact.* certified=False"):
        regularization_path(Careless(), X, y, epsilon=0.1, lambda_min=0.1)
    loose = regularization_path(Careless(), X, y, epsilon=0.1, lambda_min=0.1, certified=False)
    assert not loose.certified and not loose.estimator(0.5).certified_
    with pytest.raises(ValueError, match=r"loss\(y, y\) must be zero"):
        regularization_path(Unjust(), X, y, epsilon=0.1, lambda_min=0.1)
    with pytest.raises(ValueError, match="X and y are missing"):
        regularization_path(RankingSVM(), epsilon=0.1, lambda_min=0.1)
    with pytest.raises(TypeError, match="StandardScaler has no regularization path"):
        regularization_path(StandardScaler(), X, y, epsilon=0.1, lambda_min=0.1)


def test_separable_data_reach_zero():
    X = np.array([[1.0], [2.0], [-1.0], [-2.0]])
    path = regularization_path(RankingSVM(), X, [1, 1, 0, 0], epsilon=0.01, lambda_min=1e-9)
    assert path.reached_zero and path.lambda_end == 0 and path.lambdas[-1] > 1e-3
    assert path.gap_bound(1e-12) <= 0.01


def test_nothing_to_learn():
    path = regularization_path(RankingSVM(), np.zeros((4, 2)), [1, 0, 1, 0], epsilon=0.01, lambda_min=1e-3)
    assert len(path) == 1 and path.gap_bound(1e-6) == 0 and (path.weights(5.0) == 0).all()
    assert (path.estimator(0.1).predict(np.ones((3, 2))) == 0).all()


# ---- cross-validation -----------------------------------------------------------------------------------------------------


@parametrize_with_checks([PathSearchCV(MulticlassSVM(), epsilon=0.1, lambda_min=0.1, cv=2)])
def test_scikit_learn(estimator, check):
    check(estimator)


def test_search_is_better_than_its_grid():
    X, y = load_breast_cancer(return_X_y=True)
    X = scale(X)
    search = PathSearchCV(RankingSVM("ap"), epsilon=0.01, cv=4).fit(X, y)
    assert search.cv_scores_.shape == (4, len(search.cv_lambdas_) - 1) and (np.diff(search.cv_lambdas_) < 0).all()
    assert search.best_score_ == search.cv_scores_.mean(axis=0).max()
    model = search.best_estimator_
    assert model.certified_ and pytest.approx(1 / search.best_lambda_) == search.best_C_
    np.testing.assert_array_equal(search.predict(X), model.predict(X))
    assert search.score(X, y) == model.score(X, y)
    # The same folds and lambdas, one by one: what the search says of them is true up to the gap.
    from sklearn.model_selection import StratifiedKFold

    folds = list(StratifiedKFold(4).split(X, y))
    for k, lam in enumerate(np.sqrt(search.cv_lambdas_[:-1] * search.cv_lambdas_[1:])[::5]):
        for (train, test), score in zip(folds, search.cv_scores_[:, 5 * k], strict=True):
            own = RankingSVM("ap", C=1 / lam, tol=1e-4).fit(X[train], y[train]).score(X[test], y[test])
            assert own == pytest.approx(score, abs=0.03)


def test_search_over_queries_in_a_pipeline():
    _, X, y, params = CASES["queries"]
    search = PathSearchCV(RankingSVM("ap"), epsilon=0.1, cv=3).fit(X.toarray(), y, qid=params["qid"])
    assert search.cv_scores_.shape[0] == 3
    with pytest.raises(ValueError, match="cv=5 folds need as many queries, but qid has only 3"):
        PathSearchCV(RankingSVM("ap"), epsilon=0.1).fit(X.toarray(), y, qid=params["qid"])
    grouped = PathSearchCV(RankingSVM("ap"), epsilon=0.1, cv=GroupKFold(3)).fit(X.toarray(), y, qid=params["qid"])
    assert grouped.best_lambda_ > 0
    pipeline = make_pipeline(StandardScaler(), PathSearchCV(MulticlassSVM(), epsilon=0.1, cv=3))
    assert cross_val_score(pipeline, *load_iris(return_X_y=True), cv=3).mean() > 0.9
    with pytest.raises(NotFittedError):
        PathSearchCV(RankingSVM()).predict(X)


def test_search_over_sequences():
    _, X, y, _ = CASES["chain"]
    search = PathSearchCV(ChainSVM(), epsilon=0.1, lambda_min=1e-2, cv=3).fit(X, y)
    assert search.score(X, y) > 0.8 and list(search.classes_) == ["a", "b"]
