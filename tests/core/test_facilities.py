"""Every estimator has every facility, or says why not: a table that is generated, so that no hole goes unnoticed."""

import inspect
import warnings
from typing import get_args

import numpy as np
import pytest
from sklearn.base import clone
from tests.cases.reference_programs import MarginProgram

import maxmargin
from maxmargin import load_model, regularization_path, save_model
from maxmargin.core import Estimator, Facility, Structure
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.registration import LearnedMetric
from maxmargin.sequences import Tree
from maxmargin.structured import LatentClasses
from maxmargin.surrogates import ProbLoss

FACILITIES = get_args(Facility)
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))
Y = (X[:, 0] + 0.7 * RNG.normal(size=40) > 0).astype(int)
QID = np.repeat(np.arange(4), 10)
BLOCKS = [RNG.normal(size=(n, 2)) for n in (4, 2, 3, 5, 4, 3)]
LABELS = [(x[:, 0] + 0.5 * RNG.normal(size=len(x)) > 0).astype(int) for x in BLOCKS]
TREES = [Tree(x, np.arange(-1, len(x) - 1)) for x in BLOCKS]
GRAPHS = [(np.insert(x, 2, 1, axis=1), np.column_stack([np.arange(len(x) - 1), np.arange(1, len(x))])) for x in BLOCKS]
SHAPES = [(2, 3), (3, 3), (1, 4), (4, 2), (2, 2), (3, 4)]
MASKS = [(np.arange(h * w).reshape(h, w) % 5 > 1).astype(int) for h, w in SHAPES]
IMAGES = [np.dstack([y + np.sin(7.0 * np.arange(y.size)).reshape(y.shape), np.ones(y.shape)]) for y in MASKS]
BAGS = RNG.normal(size=(16, 3, 2))
KINDS = np.arange(16) % 2
BAGS[KINDS == 1, 0] += 2
SENTENCES = [([f"w{k}" for k in own], [f"t{k % 3}" for k in own]) for own in RNG.integers(0, 5, (6, 4)).tolist()]
HEADS = [[0, 1, 1, 1], [2, 0, 2, 3], [0, 1, 2, 3], [4, 4, 4, 0], [2, 0, 2, 2], [3, 3, 0, 3]]
# Noise in two tissues, moved by a few pixels.
NOISE = [RNG.normal(size=(12, 16)) for _ in range(3)]
MOVED = [(x, np.roll(x, 1, axis=0), (x > 0).astype(int)) for x in NOISE]
METRIC = {"metrics": ("sad", "ncc"), "spacing": 1.0, "grid_spacing": 4.0, "levels": 1, "steps": 1, "per_axis": 3, "scales": 1}


class TwoClasses(Structure):
    def joint_feature(self, x, y):
        return np.outer(np.eye(2)[y], x).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return int(np.argmax(a * weights.reshape(2, -1) @ x + b * (np.arange(2) != truth)))

    def loss_values(self, x, truth):
        return np.array([0.0, 1.0])


# Nothing to guess, so that results depend on no start.
ONE_STATE = {"n_states": 1, "pairwise": "attractive"}
# Parameters and training data of every estimator, and arguments of fit besides X and y.
CASES = {
    "ApproximateRankingSVM": ({"C": 10.0}, X, Y, {"qid": QID}),
    "ChainSVM": ({}, BLOCKS, LABELS, {}),
    "DirectLossMinimizer": ({}, X, Y, {"qid": QID}),
    "GraphSVM": ({"tol": 1e-2}, GRAPHS, LABELS, {}),
    "GridSVM": ({"tol": 1e-2}, IMAGES, MASKS, {}),
    "HierarchicalSVM": ({}, X, Y, {}),
    "HighOrderRankingSVM": ({"C": 5.0, "n_neighbors": 2}, X, Y, {}),
    "LatentGraphSVM": ({"tol": 1e-2, **ONE_STATE}, GRAPHS, LABELS, {}),
    "LatentGridSVM": ({"tol": 1e-2, **ONE_STATE}, IMAGES, MASKS, {}),
    "LatentRankingSVM": ({"C": 5.0}, BAGS, KINDS, {}),
    "LatentStructuredSVM": ({"structure": LatentClasses(2)}, BAGS, KINDS, {}),
    "LearnedMetric": (METRIC, MOVED, [np.roll(classes, 1, axis=0) for _, _, classes in MOVED], {}),
    "MulticlassSVM": ({}, X, Y, {}),
    "MultilabelSVM": ({}, X, np.column_stack([Y, 1 - Y, X[:, 1] > 0]).astype(int), {}),
    "ParserSVM": ({"labelled": False, "C": 0.1, "hash_bits": 10, "max_iter": 10_000}, SENTENCES, HEADS, {}),
    "RankingClassifier": ({"refine": "always"}, X, Y, {}),
    "RankingSVM": ({"C": 10.0}, X, Y, {"qid": QID}),
    "StructuredSVM": ({"structure": TwoClasses()}, X, Y, {}),
    "TreeSVM": ({}, TREES, LABELS, {}),
}
ESTIMATORS = {
    name: cls
    for name, cls in ((name, getattr(maxmargin, name)) for name in maxmargin.__all__)
    if isinstance(cls, type) and issubclass(cls, Estimator)
} | {"LearnedMetric": LearnedMetric}  # of a room of its own


def fitted(name, **parameters):
    own, X, y, more = CASES[name]
    return ESTIMATORS[name](**(own | parameters)).fit(X, y, **more)


def weights_of(model):
    return np.concatenate([
        np.ravel(getattr(model, part))
        for part in ("coef_", "intercept_", "first_", "last_", "root_", "leaf_", "transition_", "edge_coef_")
        if hasattr(model, part)
    ])  # fmt: skip


def plain(predicted):
    return getattr(predicted, "displacement", predicted)


def test_every_estimator_is_in_the_table():
    assert ESTIMATORS.keys() == CASES.keys()
    for cls in ESTIMATORS.values():
        assert set(cls.lacks) <= set(FACILITIES) and all(len(reason) > 10 for reason in cls.lacks.values())


# ---- one check per facility: it raises or asserts unless the estimator has it --------------------------------------------------


def save(name, tmp_path):
    model = fitted(name)
    save_model(model, tmp_path / "m")
    objects = {"structure": model.structure} if hasattr(model, "structure") else {}
    same = load_model(tmp_path / "m", **objects)
    np.testing.assert_array_equal(weights_of(same), weights_of(model))
    for found, expected in zip(same.predict(CASES[name][1]), model.predict(CASES[name][1]), strict=True):
        np.testing.assert_array_equal(plain(found), plain(expected))


def path(name, tmp_path):
    own, X, y, more = CASES[name]
    found = regularization_path(ESTIMATORS[name](**own), X, y, epsilon=0.2, lambda_min=0.1, **more)
    model = found.estimator(0.5)
    assert model.certified_ and model.dual_gap_ <= 0.2 / 0.5 and len(model.predict(X)) == len(X)


def report(name, tmp_path):
    model = fitted(name)
    _, X, y, _ = CASES[name]
    assert model.report(X, y, path=tmp_path / "page.html").read_text().startswith("<!")


def bounds(name, tmp_path):
    free, bounded = weights_of(fitted(name)), weights_of(fitted(name, bounds=(-0.01, 0.01)))
    # The weights of two classes are shown as their difference.
    assert np.abs(bounded).max() <= 0.02 < np.abs(free).max()


def sample_weight(name, tmp_path):
    own, X, y, more = CASES[name]
    # Which samples are easy is decided without weights.
    settings = {"tol": 1e-6} | ({"easy_fraction": 0.0} if name == "ApproximateRankingSVM" else {})
    estimator = ESTIMATORS[name](**(own | settings))
    assert "sample_weight" in inspect.signature(estimator.fit).parameters
    weights = np.ones(len(X))
    if "qid" in more:
        weights[QID == 1], weights[QID == 2] = 2, 0
        rows = np.concatenate([np.flatnonzero(QID != 2), np.flatnonzero(QID == 1)])
        twice = {"qid": np.concatenate([QID[QID != 2], np.full(10, 9)])}
    else:
        weights[1], weights[2] = 2, 0
        rows, twice = [0, 1, 1, *range(3, len(X))], {}
    repeated = [X[k] for k in rows], [y[k] for k in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = clone(estimator).fit(X, y, sample_weight=weights, **more)
        plain = clone(estimator).fit(*(map(np.array, repeated) if isinstance(X, np.ndarray) else repeated), **twice)
    if "certificate" in ESTIMATORS[name].lacks:
        assert weighted.training_loss_ == pytest.approx(plain.training_loss_, abs=0.02)
        return
    # Both bounds hold for the same optimum.
    assert weighted.primal_objective_ == pytest.approx(plain.primal_objective_, rel=1e-4)
    np.testing.assert_allclose(weights_of(weighted), weights_of(plain), atol=1e-2 * np.abs(weights_of(plain)).max())
    with pytest.raises(ValueError, match="sample_weight"):
        clone(estimator).fit(X, y, sample_weight=-weights, **more)


def class_weight(name, tmp_path):
    plain, heavy = fitted(name), fitted(name, class_weight={0: 1, 1: 20})
    _, X, _, _ = CASES[name]
    share = [np.mean(np.concatenate([np.ravel(labels) for labels in model.predict(X)])) for model in (plain, heavy)]
    assert share[1] > share[0]


def n_jobs(name, tmp_path):
    np.testing.assert_array_equal(weights_of(fitted(name, n_jobs=1)), weights_of(fitted(name, n_jobs=2)))
    with pytest.raises(ValueError, match="n_jobs=0"):
        fitted(name, n_jobs=0)


def callback(name, tmp_path):
    seen = []
    fitted(name, callback=lambda history: seen.append(len(history)))
    assert seen and seen[0] == 1
    with pytest.warns(ConvergenceWarning):
        fitted(name, callback=lambda history: True, tol=1e-9)


def verbose(name, capsys):
    fitted(name)
    assert capsys.readouterr() == ("", "")
    fitted(name, verbose=1)
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(f"{name}: ") and err.endswith("\n") and "\r" not in err


def warm_start(name, tmp_path):
    own, X, y, more = CASES[name]
    # The compiled loop knows its data by their place, cutting planes do not.
    solvers = ["one_slack", "bcfw"] if "solver" in inspect.signature(ESTIMATORS[name]).parameters else [None]
    for solver in solvers:
        settings = own | ({} if solver is None else {"solver": solver})
        model = ESTIMATORS[name](**settings, warm_start=True).fit(X, y, **more)
        passes = model.n_iter_
        again = model.fit([*X] if isinstance(X, list) else X.copy(), y, **more)
        assert again.n_iter_ <= max(passes, 2)
        if solver == "bcfw":
            assert again.n_iter_ < passes or passes <= 2
        # Other data: nothing of the old ones is left.
        other = X[::-1], y[::-1]
        fresh = ESTIMATORS[name](**settings).fit(*other, **more)
        np.testing.assert_allclose(weights_of(model.fit(*other, **more)), weights_of(fresh), atol=1e-12)


def time_limit(name, tmp_path):
    # A gap of nothing is not reached.
    with pytest.warns(ConvergenceWarning):
        model = fitted(name, time_limit=1e-6, tol=1e-300, max_iter=500)
    assert np.isfinite(weights_of(model)).all() and model.n_iter_ < 20
    with pytest.raises(ValueError, match="time_limit=0"):
        fitted(name, time_limit=0)


def certificate(name, tmp_path):
    model = fitted(name)
    assert model.certified_ is True and model.n_iter_ >= 1 and len(model.history_) >= 1
    assert model.dual_gap_ == pytest.approx(model.primal_objective_ - model.dual_objective_)
    assert 0 <= model.dual_gap_ <= max(model.tol * model.primal_objective_, 1e-12) * (1 + 1e-6)
    # On grids with hidden states TRW-S leaves a little.
    assert 0 <= model.oracle_gap_ <= (model.dual_gap_ if name == "LatentGridSVM" else 1e-12)
    assert model.certified_objective_ == "exact" or name == "LatentGridSVM"


def surrogate(name, tmp_path):
    own, X, y, more = CASES[name]
    margin = fitted(name)
    for kind in ("slack", "log"):
        with warnings.catch_warnings():
            # Lists and hidden states are searched on the convex hull, and the rest is a bound.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = fitted(name, surrogate=kind, max_iter=300, tol=1e-2)
        assert model.certified_ is True and model.certified_objective_ in ("exact", "bounded")
        assert model.dual_gap_ <= 0.05 * model.primal_objective_ and len(model.predict(X)) == len(X)
        if kind == "log":
            assert not np.allclose(weights_of(model), weights_of(margin))
        # The path holds where the estimator has one, or says why not.
        if "path" not in ESTIMATORS[name].lacks:
            found = regularization_path(ESTIMATORS[name](**own, surrogate=kind), X, y, epsilon=0.5, lambda_min=1.0, **more)
            there = found.estimator(2.0)
            assert found.certified and found.complete and there.certified_ and there.dual_gap_ <= 0.5 / 2.0 + 1e-9
    with pytest.raises(ValueError, match="surrogate='slak' is unknown"):
        fitted(name, surrogate="slak")
    # No tangent of it bounds anything: solvers and paths refuse it with a sentence.
    with pytest.raises((TypeError, ValueError), match=r"not convex|convex hinges"):
        fitted(name, surrogate=ProbLoss(convex=False), **({"solver": "one_slack"} if hasattr(margin, "solver") else {}))
    if "path" not in ESTIMATORS[name].lacks:
        model = ESTIMATORS[name](**own, surrogate=ProbLoss(convex=False), solver="subgradient")
        with pytest.raises(ValueError, match="no path of optima"):
            regularization_path(model, X, y, epsilon=0.3, lambda_min=0.2, **more)


CHECKS = {check.__name__: check for check in (
    save, path, report, bounds, sample_weight, class_weight, n_jobs, callback, verbose, warm_start, time_limit, certificate,
    surrogate,
)}  # fmt: skip


@pytest.mark.parametrize("facility", FACILITIES)
@pytest.mark.parametrize("name", CASES)
def test_facility(name, facility, tmp_path, capsys):
    check = CHECKS[facility]
    surroundings = capsys if facility == "verbose" else tmp_path
    if facility not in ESTIMATORS[name].lacks:
        check(name, surroundings)
        return
    # What is declared as missing must be missing.
    with pytest.raises((TypeError, AttributeError, AssertionError)):
        check(name, surroundings)


# ---- weights of samples and classes --------------------------------------------------------------------------------------------


def test_weighted_classes_against_a_proved_optimum():
    rng = np.random.default_rng(1)
    X, y, weights = rng.normal(size=(30, 3)), rng.integers(0, 3, 30), rng.integers(0, 4, 30).astype(float)
    costs = np.array([[0, 1, 2], [3, 0, 1], [1, 1, 0]], dtype=float)

    def objective(flat):
        W = flat.reshape(3, 3)
        scores = X @ W.T
        hinges = (costs[y] + scores - scores[np.arange(30), y][:, None]).max(axis=1)
        return 0.5 * flat @ flat + 0.3 * weights @ hinges

    model = maxmargin.MulticlassSVM(C=0.3, costs=costs, fit_intercept=False, tol=1e-7).fit(X, y, weights)
    assert model.primal_objective_ == pytest.approx(objective(model.coef_.ravel()), rel=1e-9)
    eye = np.eye(3)
    blocks = [(np.array([np.outer(eye[t] - eye[k], x).ravel() for k in range(3)]), costs[t]) for x, t in zip(X, y, strict=True)]
    best = MarginProgram(blocks, 0.3 * weights).optimum(tol=1e-10)
    assert objective(best.x) == pytest.approx(best.value, rel=1e-12)
    assert model.dual_objective_ <= best.value * (1 + 1e-10)
    assert best.bound * (1 - 1e-10) <= model.primal_objective_ <= best.value * (1 + 2e-7)
    for solver in ("bcfw", "fw", "pl", "n_slack"):
        other = maxmargin.MulticlassSVM(C=0.3, costs=costs, fit_intercept=False, solver=solver, tol=2e-2).fit(X, y, weights)
        assert other.dual_objective_ <= model.primal_objective_ * (1 + 1e-9)
        assert other.primal_objective_ >= model.dual_objective_ * (1 - 1e-9)


def test_class_weight_is_a_sample_weight():
    y = np.where(X[:, 1] > 0.8, "rare", "common")
    counts = np.array([np.mean(y == label) for label in y])
    named = {"rare": 3.0, "common": 0.5}
    for weight, expected in (("balanced", 0.5 / counts), (named, np.array([named[label] for label in y]))):
        own = maxmargin.MulticlassSVM(class_weight=weight).fit(X, y)
        np.testing.assert_array_equal(own.coef_, maxmargin.MulticlassSVM().fit(X, y, expected).coef_)
        both = maxmargin.MulticlassSVM(class_weight=weight).fit(X, y, np.arange(40) % 3)
        product = maxmargin.MulticlassSVM().fit(X, y, expected * (np.arange(40) % 3))
        np.testing.assert_array_equal(both.coef_, product.coef_)
    with pytest.raises(ValueError, match="sample_weight is zero everywhere"):
        maxmargin.MulticlassSVM().fit(X, y, np.zeros(40))
