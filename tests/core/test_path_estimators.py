"""Paths of estimators: the model at every lambda, selection, files, checkpoints, cross-validation."""

import signal

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.preprocessing import StandardScaler, scale
from tests.cases.scikit_learn_versions import needs_1_9

from maxmargin import (
    ChainSVM,
    GraphSVM,
    MulticlassSVM,
    RankingSVM,
    RegularizationPath,
    SavedFileError,
    StructuredSVM,
    TreeSVM,
    regularization_path,
)
from maxmargin.core import Structure
from maxmargin.core.path_checkpoint import Checkpoint
from maxmargin.core.solvers import BCFW, ConvergenceWarning
from maxmargin.io import read_archive, write_archive
from maxmargin.ranking import AveragePrecision, RankingProblem, metrics
from maxmargin.sequences import Tree

rng = np.random.default_rng(0)
EPSILON = 0.05


class Matching(Structure):
    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, truth, y):
        return float(np.mean(truth != y))

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        wrong = 0.0 if truth is None else (np.arange(len(truth)) != truth[:, None]) / len(truth)
        return linear_sum_assignment(a * (x @ weights) + b * wrong, maximize=True)[1]


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
    model = RankingProblem(X, y > 0, AveragePrecision())
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
    path = trace("ranking")
    for change, message in (
        ({"n_blocks": 0}, "no sound numbers"),
        ({"epsilon": -1.0}, "no sound numbers"),
        ({"certified": "no"}, "no sound certified"),
        ({"lambdas": path.lambdas[::-1]}, "lambdas are not in order"),
        ({"segments": [path.segments[0], *path.segments[2:]]}, "segments leave holes"),
        ({"segments": [path.segments[0]._replace(gap_hi=-1.0), *path.segments[1:]]}, "segments are not in order"),
    ):
        wrong = RegularizationPath.of(path, path.template)
        for name, value in change.items():
            setattr(wrong, name, value)
        wrong.save(tmp_path / "p")
        with pytest.raises(SavedFileError, match=message):
            RegularizationPath.load(tmp_path / "p")
    path.save(tmp_path / "p")
    with pytest.raises(ValueError, match="loss was passed, but"):
        RegularizationPath.load(tmp_path / "p", loss="ap")
    own = trace("own model")
    own.save(tmp_path / "q")
    with pytest.raises(SavedFileError, match="was trained with structure="):
        RegularizationPath.load(tmp_path / "q")
    loaded = RegularizationPath.load(tmp_path / "q", structure=CASES["own model"][0].structure)
    np.testing.assert_array_equal(loaded.estimator(0.1).coef_, own.estimator(0.1).coef_)


def test_problems_without_an_estimator(tmp_path):
    X, y, _ = CASES["ranking"][1:]
    problem = RankingProblem(X, y > 0, AveragePrecision())
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
    assert not path.complete and len(path) == (2 if rule == "interpolate" else 4)


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


@pytest.mark.parametrize("size", [1.0, 1e-11])
def test_checkpoints_of_data_with_the_same_means(tmp_path, size):
    """The cut at weights of zero is the same, but nothing else."""
    _, X, y, _ = CASES["ranking"]
    X, y = X * size, y > 0
    other = X.copy()
    for label in (True, False):
        for column in other.T:
            column[y == label] = np.random.default_rng(1).permutation(column[y == label])
            column[y == label] = column[y == label][::-1]
        # Columns move independently of each other.
        other[y == label, 0] = np.roll(other[y == label, 0], 1)
    options = {"epsilon": EPSILON, "lambda_min": 1e-2 * size**2, "checkpoint": tmp_path / "c"}
    regularization_path(RankingSVM("auc"), X, y, **options)
    with pytest.raises(SavedFileError, match="on other data"):
        regularization_path(RankingSVM("auc"), other, y, **options)


def test_empty_checkpoints(tmp_path):
    (tmp_path / "c").touch()
    assert trace("ranking", checkpoint=tmp_path / "c").complete and (tmp_path / "c").stat().st_size > 0


def test_checkpoints_with_other_bounds(tmp_path):
    trace("ranking", checkpoint=tmp_path / "c", bounds=(-0.1, 0.1))
    for bounds in (None, (-0.1, 0.2)):
        with pytest.raises(SavedFileError, match="with other bounds of the weights"):
            trace("ranking", checkpoint=tmp_path / "c", bounds=bounds)
    assert trace("ranking", checkpoint=tmp_path / "c", bounds=(-0.1, 0.1)).certified


def test_checkpoints_without_a_certificate(tmp_path):
    estimator, X, y, _ = CASES["classes"]
    options = {"epsilon": EPSILON, "lambda_min": 1e-2, "checkpoint": tmp_path / "c"}
    loose = regularization_path(estimator, X, y, certified=False, solver=BCFW(stop="heuristic"), **options)
    assert not loose.certified
    assert regularization_path(estimator, X, y, **options).certified


@pytest.mark.parametrize(
    ("column", "value"), [("lam", -1.0), ("hinge", np.nan), ("dual", "text"), ("certified", 1.0), ("passes", None)]
)
def test_damaged_checkpoints(tmp_path, column, value):
    trace("ranking", checkpoint=tmp_path / "c")
    content, arrays, _ = read_archive(tmp_path / "c", "path checkpoint")
    if value is None:
        arrays[column] = arrays[column][:-1]
    else:
        arrays[column] = np.append(arrays[column][:-1], value)
    write_archive(tmp_path / "c", "path checkpoint", content, arrays)
    with pytest.raises(SavedFileError, match="is not a sound checkpoint"):
        trace("ranking", checkpoint=tmp_path / "c")


def test_checkpoint_is_written_at_the_end_whatever_the_pause(tmp_path):
    X, y, _ = CASES["ranking"][1:]
    problem = RankingProblem(X, y > 0, AveragePrecision())
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
        ({"bounds": 5}, "bounds must be a pair"),
        ({"epsilon": "0.1"}, "epsilon='0.1' must be a positive number"),
        ({"lambda_min": None}, "lambda_min=None must be"),
        ({"lambda_max": [1]}, "lambda_max=.* must be"),
        ({"kappa": "a"}, "kappa='a' must be"),
        ({"dtype": "int8"}, "dtype='int8' must be float64 or float32"),
        ({"time_limit": -1}, "time_limit=-1 must be"),
        ({"time_limit": np.nan}, "time_limit=nan must be"),
        ({"callback": 5}, "callback=5 must be a function"),
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
    with pytest.raises(TypeError, match=r"RankingSVM is a class; pass an object, RankingSVM\(\.\.\.\)"):
        regularization_path(RankingSVM, X, y, epsilon=0.1, lambda_min=0.1)
    with pytest.raises(TypeError, match=r"weight is neither an argument of regularization_path nor of RankingSVM\.fit"):
        trace("ranking", weight=3)


def test_solvers_without_a_seed():
    assert trace("classes", solver=BCFW(steps="exact", random_state=None)).complete


def test_lambdas_are_numbers():
    path = trace("ranking")
    for bad in ([1.0, 2.0], np.array([1.0])):
        with pytest.raises(ValueError, match="lambda must be one number"):
            path.weights(bad)
    for bad in ("1", None, np.nan, 0):
        with pytest.raises(ValueError, match="must be a positive number"):
            path.gap_bound(bad)
    np.testing.assert_array_equal(path.weights(np.array(0.5)), path.weights(0.5))


def test_bounds_of_graphs_come_on_top():
    """Weights of edges are not negative, whatever else is asked for."""
    path = trace("graph", bounds=(-1, 1))
    lower = CASES["graph"][0]._prepare(*CASES["graph"][1:3]).bounds[0]
    for lam in (0.5, 0.05):
        weights = path.weights(lam)
        assert (weights >= np.maximum(lower, -1)).all() and (weights <= 1).all()


def test_models_that_are_used_nowhere_have_their_own_certificate():
    found = 0
    for seed in range(12):
        draw = np.random.default_rng(seed)
        X = draw.normal(size=(60, 4))
        y = X[:, 0] + draw.normal(size=60) > 0.5
        path = regularization_path(RankingSVM("ap"), X, y, epsilon=0.002, lambda_min=1e-2)
        for k, (high, low) in enumerate(path.ranges()):
            if high <= low:
                found += 1
                model = path.estimator_of(k)
                best = RankingSVM("ap", C=model.C, tol=1e-7, max_iter=10_000).fit(X, y)
                assert model.dual_objective_ <= best.primal_objective_ * (1 + 1e-9)
                assert model.primal_objective_ >= best.dual_objective_ * (1 - 1e-9)
    assert found > 0


def test_scores_that_are_no_numbers():
    _, X, y, _ = CASES["ranking"]
    path = trace("ranking")
    scores = iter([np.nan, *np.arange(len(path) - 1.0)])
    with pytest.warns(UserWarning, match="some scores are not a number"):
        assert path.select(X, y, scoring=lambda *_: next(scores)).score == len(path) - 2
    with pytest.raises(ValueError, match="gave no number for any model"):
        path.select(X, y, scoring=lambda *_: np.nan)


@needs_1_9
def test_scoring_by_name():
    _, X, y, _ = CASES["ranking"]
    found = trace("ranking").select(X, y > 0, scoring="roc_auc")
    assert found.score == pytest.approx(metrics.auc(y > 0, trace("ranking").estimator(found.lam).predict(X)), abs=1e-12)
    with pytest.raises(ValueError, match="scoring='roc_auc' of scikit-learn knows no qid"):
        trace("ranking").select(X, y > 0, scoring="roc_auc", qid=np.ones(len(y)))
    with pytest.raises(ValueError, match="scoring=5 must be a function"):
        trace("ranking").select(X, y, scoring=5)


def test_separable_data_reach_zero():
    X = np.array([[1.0], [2.0], [-1.0], [-2.0]])
    path = regularization_path(RankingSVM(), X, [1, 1, 0, 0], epsilon=0.01, lambda_min=1e-9)
    assert path.reached_zero and path.lambda_end == 0 and path.lambdas[-1] > 1e-3
    assert path.gap_bound(1e-12) <= 0.01


def test_nothing_to_learn():
    path = regularization_path(RankingSVM(), np.zeros((4, 2)), [1, 0, 1, 0], epsilon=0.01, lambda_min=1e-3)
    assert len(path) == 1 and path.gap_bound(1e-6) == 0 and (path.weights(5.0) == 0).all()
    assert (path.estimator(0.1).predict(np.ones((3, 2))) == 0).all()
