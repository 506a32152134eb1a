"""Learned metrics: searches against enumeration, the objective falls and bounds the loss, and the telling metric is found."""

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.ndimage import gaussian_filter
from sklearn.base import clone
from tests.cases.reference_programs import MarginProgram

from maxmargin import load_model, save_model
from maxmargin._utils import ArgumentError
from maxmargin.core import concave_convex
from maxmargin.core.solvers import ConvergenceWarning, OneSlackCuttingPlane
from maxmargin.io import SavedFileError
from maxmargin.labeling import minkowski
from maxmargin.registration import ControlGrid, LearnedMetric, dice, displacement_labels, register
from maxmargin.registration.metric_problem import Comparison, MetricProblem
from maxmargin.registration.overlap import patch_losses

# ---- small problems, all of whose displacements can be listed -----------------------------------------------------------------

CHAIN = np.array([[0, 1], [1, 2]], dtype=np.int32)
CIRCLE = np.array([[0, 1], [1, 2], [0, 2]], dtype=np.int32)


def comparison(rng, edges=CHAIN, n_metrics=2, n_rows=1, n_labels=5):
    places = rng.integers(-2, 3, (n_labels, 2)).astype(float)
    costs = rng.integers(0, 4, (n_metrics, 3, n_labels)).astype(float)  # ties
    losses = rng.integers(0, 5, (3, n_labels)) / 4
    rows = None if n_rows == 1 else rng.integers(0, n_rows, (3, n_labels))
    return Comparison(costs, edges, 0.5 * minkowski(places, 1), losses, rows)


def every(pair, n_rows=1):
    """Costs and losses of all displacements, written out."""
    n_labels = pair.losses.shape[1]
    found = []
    for labels in itertools.product(range(n_labels), repeat=3):
        phi = np.zeros((n_rows, len(pair.costs)))
        for node, label in enumerate(labels):
            phi[0 if pair.rows is None else pair.rows[node, label]] += pair.costs[:, node, label]
        far = sum(pair.distances[labels[a], labels[b]] for a, b in pair.edges)
        loss = sum(pair.losses[node, label] for node, label in enumerate(labels))
        found.append((np.append(phi.ravel(), far) / 3, loss / 3))
    return np.array([phi for phi, _ in found]), np.array([loss for _, loss in found])


def true_objective(problem, v, C):
    total = 0.0
    for pair in problem.pairs:
        phi, loss = every(pair, problem.n_rows)
        total += (phi @ v + problem.eta * loss).min() - (phi @ v - loss).min()
    return 0.5 * v @ v + problem.alpha * ((v - 1) ** 2).sum() + C * total / len(problem.pairs)


def made(seed, edges=CHAIN, n_rows=1, n_pairs=3, **settings):
    rng = np.random.default_rng(seed)
    problem = MetricProblem([comparison(rng, edges, n_rows=n_rows) for _ in range(n_pairs)], n_rows=n_rows, **settings)
    problem.start(rng)
    return problem


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1), st.sampled_from([1, 2]), st.sampled_from([0.0, 0.05, 0.5, 50.0]), st.sampled_from([0.0, 0.3, 2.0]),
    st.booleans(),
)  # fmt: skip
def test_searches_are_those_of_enumeration(seed, n_rows, eta, alpha, chain):
    problem = made(seed, CHAIN if chain else CIRCLE, n_rows, eta=eta, alpha=alpha)
    rng = np.random.default_rng(seed + 1)
    v = rng.choice([0.0, 0.3, 1.0, 2.5], problem.n_features) * rng.choice([1.0, 1e-6, 1e6])
    weights = v - problem.shift
    problem.impute(weights)
    for block, pair in enumerate(problem.pairs):
        phi, loss = every(pair, n_rows)
        unit = max(1.0, np.abs(phi @ v).max())
        # The imputation and its parts.
        imputed = problem.imputed[block]
        assert imputed.value(problem.natural(weights), eta) <= (phi @ v + eta * loss).min() + 1e-9 * unit
        at = np.ravel_multi_index(imputed.labels, (5, 5, 5))
        np.testing.assert_allclose(imputed.costs, phi[at])
        assert imputed.loss == pytest.approx(loss[at])
        # The most violating displacement, and the hinge.
        cut = problem.cut(block, weights)
        truth = (phi @ v + eta * loss).min() - (phi @ v - loss).min()
        assert cut.hinge(weights) == pytest.approx(truth, abs=1e-7 * unit) or cut.upper(weights) >= truth - 1e-7 * unit
        assert cut.hinge(weights) <= truth + 1e-7 * unit
        if chain:
            assert cut.upper(weights) == pytest.approx(truth, abs=1e-7 * unit)
        # It bounds the loss of what the energy prefers, whichever of several.
        best = (phi @ v) <= (phi @ v).min() + 1e-12 * unit
        assert cut.upper(weights) >= loss[best].max() - 1e-7 * unit
        # A cut is a lower bound everywhere, for the same imputation.
        other = rng.exponential(size=problem.n_features)
        convex = imputed.costs @ other + eta * imputed.loss - (phi @ other - loss).min()
        assert cut.hinge(other - problem.shift) <= convex + 1e-7 * unit
        assert convex >= (phi @ other + eta * loss).min() - (phi @ other - loss).min() - 1e-9
    mean = problem.mean_cut(weights)
    assert mean.hinge(weights) == pytest.approx(
        np.mean([problem.cut(k, weights).hinge(weights) for k in range(3)]), abs=1e-6 * max(1, v.max())
    )


@pytest.mark.parametrize("alpha", [0.0, 0.3, 4.0])
def test_shifted_weights_have_the_same_objective(alpha):
    problem = made(0, alpha=alpha)
    rng = np.random.default_rng(1)
    for _ in range(10):
        v = rng.exponential(size=problem.n_features)
        u = v - problem.shift
        problem.impute(u)
        own = (1 + 2 * alpha) * 0.5 * u @ u + problem.constant + 7.0 * problem.hinge(u)
        assert own == pytest.approx(true_objective(problem, v, 7.0)) == pytest.approx(problem.objective(u, 7.0))


def test_known_cuts_hold_for_the_next_imputation():
    problem = made(3, eta=0.5)
    rng = np.random.default_rng(0)
    for _ in range(6):
        problem.mean_cut(rng.exponential(size=problem.n_features) - problem.shift)
    before = problem.imputed
    assert problem.impute(np.array([2.0, 0.0, 0.1]) - problem.shift)
    assert any(a is not b for a, b in zip(before, problem.imputed, strict=True))
    cuts = problem.known_cuts()
    assert len(cuts) == 6
    for _ in range(20):
        weights = rng.exponential(size=problem.n_features) - problem.shift
        assert max(cut.hinge(weights) for cut in cuts) <= problem.hinge(weights) + 1e-9


@pytest.mark.parametrize("eta", [0.05, 0.5, 50.0])
@pytest.mark.parametrize("inference", ["trws", "expansion"])
def test_rounds_descend_to_a_point_that_no_small_step_improves(eta, inference):
    problem, C, alpha = made(5, CIRCLE, eta=eta, alpha=0.1, inference=inference, n_pairs=4), 20.0, 0.1
    factor = C / (1 + 2 * alpha)

    def solve(convex, known, seconds):
        return OneSlackCuttingPlane(tol=1e-8).solve(convex, 1 / factor, bounds=convex.bounds, start=known)

    best, _ = concave_convex(problem, factor, solve, lambda *_: None, tol=1e-9)
    values = [true_objective(problem, np.ones(3), C), *((1 + 2 * alpha) * x + problem.constant for x in best.objectives)]
    assert best.settled and (np.diff(values) <= 1e-9).all()
    v = problem.natural(best.solution.weights)
    assert values[-1] == pytest.approx(true_objective(problem, v, C))
    assert best.solution.certified == (inference == "trws")
    # The convex problem with the last imputation has its minimum there: compare with all cuts. Its two quadratic terms are one,
    # (1 + 2 alpha) / 2 |v - center|^2, and a constant.
    center = 2 * alpha / (1 + 2 * alpha)
    constant = 3 * (alpha - alpha * center)
    tables = [
        (phi - own.costs, eta * own.loss + loss)
        for (phi, loss), own in zip(map(every, problem.pairs), problem.imputed, strict=True)
    ]

    def convex(v):
        hinges = [(loss - psi @ v).max() for psi, loss in tables]
        return 0.5 * v @ v + alpha * ((v - 1) ** 2).sum() + C * np.mean(hinges)

    blocks = [(psi, loss - center * psi.sum(axis=1)) for psi, loss in tables]
    program = MarginProgram(blocks, np.full(len(blocks), C / len(blocks)), bounds=(-center, np.inf))
    optimum = program.optimum(1 + 2 * alpha)
    assert optimum.value + constant == pytest.approx(convex(optimum.x + center), rel=1e-12)
    assert convex(v) <= optimum.value + constant + 1e-5


@pytest.mark.parametrize("joint", [False, True])
def test_weights_find_the_metric_that_is_no_noise(joint):
    """One metric is noise in the first tissue, the other one in the second."""
    n, places, tissue = 40, displacement_labels(2, 2.0, 5), np.arange(40) // 20
    edges = np.column_stack([np.arange(n - 1), np.arange(1, n)]).astype(np.int32)
    rng = np.random.default_rng(0)
    tables = []
    for _ in range(4):
        truth = places[np.repeat(rng.integers(0, 25, n // 10), 10)]
        far = np.abs(truth[:, None] - places).sum(axis=2)
        costs = np.where((tissue == np.arange(2)[:, None])[:, :, None], far, rng.permuted(far, axis=1))
        tables.append((costs, far / 8 * (tissue == np.arange(2)[:, None])[:, :, None]))
    rows = np.repeat(tissue[:, None], 25, axis=1)

    def problem(losses, rows=None):
        some = [
            Comparison(costs, edges, 0.5 * minkowski(places, 1), loss, rows)
            for (costs, _), loss in zip(tables, losses, strict=True)
        ]
        return MetricProblem(some, n_rows=1 if rows is None else 2, alpha=0.1)

    def learned(problem):
        def solve(convex, known, seconds):
            return OneSlackCuttingPlane(tol=1e-4).solve(convex, 1.2 / 10, bounds=convex.bounds, start=known)

        return problem.natural(concave_convex(problem, 10 / 1.2, solve, lambda *_: None)[0].solution.weights)

    if joint:
        found = learned(problem([losses.mean(axis=0) for _, losses in tables], rows))[:-1].reshape(2, 2)
    else:
        found = np.array([learned(problem([losses[c] for _, losses in tables]))[:-1] for c in range(2)])
    assert found[0, 0] > 4 * found[0, 1] and found[1, 1] > 4 * found[1, 0]


# ---- images -------------------------------------------------------------------------------------------------------------------


def two_tissues(rng, shift, size=(32, 64)):
    """On the right the contrast is inverted: differences of intensities mislead, mutual information does not."""
    right = np.broadcast_to(np.arange(size[1]) >= size[1] // 2, size)
    image = gaussian_filter(rng.normal(size=size), 2.0)
    image /= np.abs(image).max()
    target = np.where(right, -image, image)
    classes = 2 * right + (image > 0)
    return (image, np.roll(target, -shift, axis=0), classes.astype(int)), np.roll(classes, -shift, axis=0).astype(int)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return tuple(zip(*(two_tissues(rng, shift) for shift in (-3, 2, 3)), strict=True))


SMALL = {"spacing": 1.0, "grid_spacing": 8.0, "levels": 1, "tol": 1e-2}


@pytest.fixture(scope="module")
def model(data):
    return LearnedMetric(("sad", "mi"), **SMALL).fit(*data)


def test_the_objective_falls_and_bounds_the_dice_loss(model):
    assert model.weights_.shape == (4, 2) and (model.weights_ >= 0).all() and model.status_ == "converged"
    for values in model.objectives_:
        assert len(values) > 1 and (np.diff(values) < 0).all()
    assert (model.losses_ <= model.hinges_).all() and (model.losses_ > 0).all()
    assert model.certified_ and model.certified_reason_ == ""
    for histories in model.histories_:
        for history in histories:
            assert (np.array(history.gap) >= -1e-9).all() and history.gap[-1] <= 2e-2 * history.primal[-1]
    assert model.dual_gap_ == pytest.approx(model.primal_objective_ - model.dual_objective_)
    # The convex problem lies above the objective at the next imputation.
    assert model.objective_.sum() <= model.primal_objective_ + 1e-9


def test_weights_find_the_telling_metric(model, data):
    """Where the contrast is inverted, differences of intensities mislead."""
    shares = model.weights_ / np.array([0.1, 10.0])
    assert (shares[2:, 0] < 0.2 * shares[2:, 1]).all() and (shares[:2, 0] > 0.8 * shares[:2, 1]).all()
    start = register(data[0][0][0], data[0][0][1], spacing=1.0, grid_spacing=8.0, levels=1, metrics=("sad", "mi"))
    before = dice(start.warp(data[0][0][2], labels=True), data[1][0]).mean()
    found = model.predict(data[0][:1])[0]
    assert dice(found.warp(data[0][0][2], labels=True), data[1][0]).mean() > before + 0.05
    learned = {"metrics": ("sad", "mi"), "weights": model.weights_, "segmentation": data[0][0][2]}
    same = register(*data[0][0][:2], spacing=1.0, grid_spacing=8.0, levels=1, **learned)
    np.testing.assert_array_equal(same.displacement, found.displacement)
    assert model.score(*data) > 0.85


def test_scores_are_mean_dice(model, data):
    values = []
    for pair, found, truth in zip(data[0], model.predict(data[0]), data[1], strict=True):
        warped = found.warp(pair[2], labels=True)
        values.append([2 * ((warped == c) & (truth == c)).sum() / ((warped == c).sum() + (truth == c).sum()) for c in (1, 2, 3)])
    assert model.score(*data) == pytest.approx(np.mean(values))


def test_joint_learning(data):
    model = LearnedMetric(("sad", "mi"), joint=True, **SMALL).fit(*data)
    shares = model.weights_ / np.array([0.1, 10.0])
    assert model.weights_.shape == (4, 2) and len(model.unseen_) == 0
    assert (shares[2:, 0] < 0.6 * shares[2:, 1]).all() and (shares[:2, 0] > 0.8 * shares[:2, 1]).all()
    assert len(set(model.coef_[:, -1])) == 1 and model.certified_ and model.losses_[0] <= model.hinges_[0]
    assert (np.diff(model.objectives_[0]) < 0).all()


def test_classes_that_have_most_voxels_nowhere_keep_the_start(data):
    pairs = [(source, target, np.where(np.arange(own.size).reshape(own.shape) == 7, 4, own)) for source, target, own in data[0]]
    with pytest.warns(ConvergenceWarning, match="class 4 has most voxels"):
        model = LearnedMetric(("sad", "mi"), joint=True, **SMALL).fit(pairs[:1], data[1][:1])
    np.testing.assert_allclose(model.weights_[4], [0.1, 10.0])


def test_the_same_twice_and_from_a_file(model, data, tmp_path):
    again = clone(model).set_params(n_jobs=2).fit(*data)
    np.testing.assert_array_equal(again.weights_, model.weights_)
    assert again.objectives_ == model.objectives_
    save_model(model, tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    np.testing.assert_array_equal(loaded.weights_, model.weights_)
    assert loaded.histories_ == model.histories_ and loaded.objectives_ == model.objectives_ and loaded.certified_
    assert repr(loaded).replace("['sad', 'mi']", "('sad', 'mi')") == repr(model)
    np.testing.assert_array_equal(loaded.predict(data[0][:1])[0].displacement, model.predict(data[0][:1])[0].displacement)
    # Another process has not imported the class.
    code = "import sys, maxmargin; print(maxmargin.load_model(sys.argv[1]).weights_.shape)"
    run = subprocess.run([sys.executable, "-c", code, os.fspath(tmp_path / "m")], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "(4, 2)"
    model_with_negative = clone(model)
    vars(model_with_negative).update({**vars(model), "weights_": -model.weights_})
    save_model(model_with_negative, tmp_path / "bad")
    with pytest.raises(SavedFileError, match="must not be negative"):
        load_model(tmp_path / "bad")
    vars(model_with_negative).update({"weights_": np.full((4, 2), np.nan)})
    save_model(model_with_negative, tmp_path / "bad")
    with pytest.raises(SavedFileError, match="NaN"):
        load_model(tmp_path / "bad")


def test_random_starts_are_reproducible_and_no_worse(data):
    one = LearnedMetric(("sad", "mi"), **SMALL).fit(data[0][:1], data[1][:1])
    many = [LearnedMetric(("sad", "mi"), n_starts=3, random_state=4, **SMALL).fit(data[0][:1], data[1][:1]) for _ in range(2)]
    np.testing.assert_array_equal(many[0].weights_, many[1].weights_)
    assert (many[0].objective_ <= one.objective_ + 1e-9).all()


def test_identical_volumes_stay_where_they_are(data):
    source, _, own = data[0][0]
    model = LearnedMetric(("sad", "ncc"), **SMALL).fit([(source, source, own)], [own])
    assert not model.predict([(source, source, own)])[0].displacement.any()
    assert model.score([(source, source, own)], [own]) == 1.0 and model.losses_.max() == 0.0


def test_volumes_and_spacing_of_pairs():
    rng = np.random.default_rng(2)
    image = gaussian_filter(rng.normal(size=(12, 16, 12)), 1.5)
    own = (image > 0).astype(int)
    pair = (image, np.roll(image, -2, axis=1), own, (1.0, 2.0, 1.0))
    model = LearnedMetric(("sad", "ncc"), grid_spacing=8.0, levels=1, per_axis=3, tol=1e-2).fit(
        [pair], [np.roll(own, -2, axis=1)]
    )
    assert model.weights_.shape == (2, 2) and model.predict([pair])[0].spacing.tolist() == [1.0, 2.0, 1.0]


# ---- losses of patches --------------------------------------------------------------------------------------------------------


def test_patch_losses_are_those_of_plain_counting():
    rng = np.random.default_rng(0)
    source, target = rng.integers(0, 3, (2, 14, 17))
    grid, labels = ControlGrid((14, 17), 1.0, 6.0), displacement_labels(2, 4.0, 3)
    found = patch_losses(source, target, grid, labels, 4)
    assert found.min() >= 0 and found.max() <= 1 and not found[3].any()
    for node, at in enumerate(np.ndindex(grid.n_points)):
        ys, xs = (np.arange(*grid.ranges[k][:, i]) for k, i in enumerate(at))
        for label, (dy, dx) in enumerate(labels.astype(int)):
            a = source[np.ix_(np.clip(ys + dy, 0, 13), np.clip(xs + dx, 0, 16))]
            b = target[np.ix_(ys, xs)]
            for c in range(3):
                size = (a == c).sum() + (b == c).sum()
                wanted = 1 - 2 * ((a == c) & (b == c)).sum() / size if size else 0.0
                assert found[c, node, label] == pytest.approx(wanted)


def test_dice():
    np.testing.assert_allclose(dice([[0, 1], [1, 2]], [[0, 1], [2, 2]]), [1, 2 / 3, 2 / 3])
    assert np.isnan(dice([0, 0], [0, 0], 2)[1])
    with pytest.raises(ArgumentError, match="n_classes=1 is too few for class 2"):
        dice([0, 2], [0, 1], 1)
    with pytest.raises(ArgumentError, match="other has shape"):
        dice([0, 2], [0, 1, 1])


# ---- budgets ------------------------------------------------------------------------------------------------------------------


def test_time_limit_keeps_what_there_is(data):
    with pytest.warns(ConvergenceWarning, match="time_limit"):
        model = LearnedMetric(("sad", "mi"), time_limit=1e-3, **SMALL).fit(*data)
    assert model.status_ == "time_limit" and np.isfinite(model.weights_).all()
    for values in model.objectives_:
        assert (np.diff(values) <= 1e-9).all()


@pytest.mark.parametrize("calls", [1, 5, 12, 40])
def test_interrupted(model, data, monkeypatch, calls):
    """Ctrl-C in whichever search: finished classes keep their weights, others those of the start."""
    whole = model
    count, search = [0], MetricProblem.search

    def interrupted(self, *args):
        count[0] += 1
        if count[0] == calls:
            raise KeyboardInterrupt
        return search(self, *args)

    monkeypatch.setattr(MetricProblem, "search", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = LearnedMetric(("sad", "mi"), **SMALL).fit(*data)
    assert model.status_ == "interrupted" and (model.weights_ >= 0).all()
    assert not model.certified_ and "class 3" in model.certified_reason_
    # Of the start, but for the scale.
    np.testing.assert_allclose(model.weights_[3, 1] / model.weights_[3, 0], 100.0)
    if calls == 1:
        np.testing.assert_allclose(model.weights_, np.tile([0.1, 10.0], (4, 1)))
    assert not np.array_equal(whole.weights_, model.weights_)


def test_callbacks_stop(data):
    with pytest.warns(ConvergenceWarning, match="callback"):
        model = LearnedMetric(("sad", "mi"), callback=lambda history: True, **SMALL).fit(*data)
    assert model.status_ == "callback"


def test_progress(data, capsys):
    LearnedMetric(("sad",), verbose=1, **SMALL).fit(data[0][:1], data[1][:1])
    assert "class 3, start 1, round" in capsys.readouterr().err


# ---- bad input ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alpha": -1}, "alpha=-1"),
        ({"eta": np.nan}, "eta=nan"),
        ({"C": 0}, "C=0"),
        ({"smoothness": 0}, "smoothness=0"),
        ({"reach": 5}, "reach=5"),
        ({"inference": "guess"}, "inference='guess'"),
        ({"start": [1.0, np.nan]}, "start must be 2 positive weights"),
        ({"start": [1.0, -1.0]}, "start must be 2 positive weights"),
        ({"start": [1.0, 0.0]}, "start must be 2 positive weights"),
        ({"start": [1.0]}, "one for every metric"),
        ({"metrics": ("sad", "psnr")}, "metrics='psnr' is unknown"),
        ({"spacing": None}, r"pairs\[0\]: spacing is missing"),
        ({"n_starts": 0}, "n_starts=0"),
    ],
)
def test_bad_settings(data, settings, message):
    with pytest.raises(ValueError, match=message):
        LearnedMetric(**{"metrics": ("sad", "mi"), **SMALL, **settings}).fit(*data)


def test_bad_data(data, model):
    (first, *_), (seg, *_) = data
    fresh = LearnedMetric(("sad", "mi"), **SMALL)
    with pytest.raises(ArgumentError, match=r"pairs\[0\]: segmentation has shape \(31, 64\)"):
        fresh.fit([(first[0], first[1], first[2][1:])], [seg])
    with pytest.raises(ArgumentError, match=r"pairs\[0\]: segmentation of the target has shape"):
        fresh.fit([first], [seg[1:]])
    with pytest.raises(ArgumentError, match="3 pairs, but 1 segmentations"):
        fresh.fit(data[0], [seg])
    with pytest.raises(ArgumentError, match="class 2 is in no segmentation, but class 3 is"):
        fresh.fit([(first[0], first[1], np.where(first[2] == 2, 0, first[2]))], [np.where(seg == 2, 0, seg)])
    with pytest.raises(ArgumentError, match=r"pairs\[1\] must be \(source, target"):
        fresh.fit([first, first[:2]], [seg, seg])
    with pytest.raises(ArgumentError, match="pairs is empty"):
        fresh.fit([], [])
    with pytest.raises(ArgumentError, match=r"pairs\[0\]: target is NaN"):
        fresh.fit([(first[0], np.full_like(first[1], np.nan), first[2])], [seg])
    with pytest.raises(ArgumentError, match="has class 9, but weights were learned for classes 0 to 3"):
        model.predict([(first[0], first[1], np.where(first[2] == 2, 9, first[2]))])
    with pytest.raises(ValueError, match="not fitted"):
        fresh.predict([first])
