"""Block steps in several shards at once: safe, exact aggregation, and what a lost shard forgets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.datasets import load_digits

from maxmargin.cuts import CheckedProblem
from maxmargin.distributed import Fault, LocalEngine, ShardedMean, ShardOf, split_rows
from maxmargin.distributed.epochs import Epochs
from maxmargin.problems import ChainProblem, MulticlassProblem
from maxmargin.solvers import OneSlackCuttingPlane, PartedBCFW
from maxmargin.solvers.base import Run
from maxmargin.solvers.parted import _Parts, best_factors

AGGREGATES = ["qp", "line", "add", "average"]


def digits(n=120):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def sharded(n_shards, n=120, **faults):
    X, y = digits(n)
    return ShardedMean.classes(LocalEngine([ShardOf(part, "classes") for part in split_rows(X, y, n_shards)], **faults))


def dual_of(gains, changes, weights, lam, factors):
    return gains @ factors - 0.5 * lam * np.sum((weights + factors @ changes) ** 2)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.sampled_from([1e-3, 1.0, 50.0]))
def test_factors_are_the_best_in_the_box(seed, n, lam):
    rng = np.random.default_rng(seed)
    changes, weights, gains = rng.normal(size=(n, 4)), rng.normal(size=4), rng.normal(size=n) * lam
    if seed % 3 == 0:
        changes[-1] = 0  # a step that changes nothing
    found = {name: best_factors(changes, gains, weights, lam, name) for name in AGGREGATES}
    values = {name: dual_of(gains, changes, weights, lam, factors) for name, factors in found.items()}
    assert all(((factors >= 0) & (factors <= 1)).all() for factors in found.values())

    def objective(factors):
        return -dual_of(gains, changes, weights, lam, factors)

    best = minimize(objective, np.full(n, 0.5), bounds=[(0, 1)] * n, method="L-BFGS-B", options={"ftol": 1e-15, "gtol": 1e-12})
    assert values["qp"] >= -best.fun - 1e-6 * (1 + abs(best.fun))
    rounding = 1e-12 * (1 + abs(values["qp"]))
    assert values["qp"] >= values["line"] - rounding >= dual_of(gains, changes, weights, lam, np.zeros(n)) - 2 * rounding
    assert values["line"] >= values["average"] - rounding and values["qp"] >= values["add"] - rounding


@pytest.mark.parametrize("aggregate", AGGREGATES)
@pytest.mark.parametrize("n_shards", [1, 4, 16])
def test_the_dual_never_falls(aggregate, n_shards):
    found = PartedBCFW(aggregate=aggregate, max_passes=20, check_every=1, tol=1e-9).solve(sharded(n_shards), 0.02)
    duals = np.array(found.history.dual)
    assert (np.diff(duals) >= -1e-12).all() and duals[-1] > duals[0] and found.certified
    assert found.dual <= OneSlackCuttingPlane(tol=1e-3).solve(sharded(2), 0.02).primal


def rounds(aggregate, n_shards, n_rounds=4):
    """Duals after some rounds."""
    problem = sharded(n_shards)
    state = _Parts(Run(PartedBCFW(), problem, 0.02, None))
    asked = {"run": "x", "lam": 0.02, "n_epochs": 1, "seed": 0, "curvature": 1.0}
    duals = []
    for number in range(n_rounds):
        state.round(aggregate, {**asked, "round": number})
        duals.append(state.dual)
    return duals


def test_exact_steps_gain_more_than_averages():
    # In the first round both begin at the same point; exact steps keep ahead by far where there are many shards.
    for n_shards in (4, 12):
        exact, plain = rounds("qp", n_shards), rounds("average", n_shards)
        assert exact[0] >= plain[0]
        assert exact[-1] > 1.1 * plain[-1]


@pytest.mark.parametrize("aggregate", ["qp", "line", "add"])
def test_to_the_optimum(aggregate):
    X, y = digits(60)
    expected = OneSlackCuttingPlane(tol=1e-4).solve(MulticlassProblem(X, y, 10), 0.5)
    found = PartedBCFW(aggregate=aggregate, tol=3e-2, max_passes=300).solve(sharded(3, 60), 0.5)
    assert found.certified and found.converged
    assert expected.dual <= found.primal + 1e-12 and found.dual <= expected.primal + 1e-12


def test_chains_and_empty_shards():
    rng = np.random.default_rng(0)
    lengths = rng.integers(1, 5, size=20)
    qid = np.repeat(np.arange(20), lengths)
    y = rng.integers(0, 3, size=len(qid))
    X = rng.normal(size=(len(qid), 3)) + np.eye(3)[y]
    parts = [*split_rows(X, y, 2, qid), *split_rows(X[:0], y[:0], 1, qid[:0])]
    problem = ShardedMean.chains(LocalEngine([ShardOf(part, "chains") for part in parts]))
    found = PartedBCFW(tol=1e-2, max_passes=500).solve(problem, 0.1)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    expected = OneSlackCuttingPlane(tol=1e-4).solve(ChainProblem(X, y, offsets, 3), 0.1)
    assert found.certified and found.converged and expected.dual <= found.primal and found.dual <= expected.primal


def test_one_shard_is_the_plain_method():
    X, y = digits(40)
    problem = CheckedProblem(MulticlassProblem(X, y, 10))
    epochs = Epochs(problem, 0.05, 40)
    step = epochs.run(np.zeros(640), 1, 1.0, np.random.default_rng([0, 0, 0]))
    # The points of all blocks are what was changed.
    total, loss = sum(w for w, _ in epochs._points.values()), sum(value for _, value in epochs._points.values())
    assert np.allclose(total, step["change"], atol=1e-15) and loss == pytest.approx(step["gain"])
    epochs.mix(0.25)
    assert np.allclose(sum(w for w, _ in epochs._points.values()), 0.25 * step["change"], atol=1e-15)
    # An epoch that nobody has heard of does not count.
    first = epochs.run(0.25 * step["change"], 1, 1.0, np.random.default_rng(1))
    again = epochs.run(0.25 * step["change"], 1, 1.0, np.random.default_rng(1))
    assert np.allclose(first["change"], again["change"], atol=1e-15)


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan", "delay"])
def test_a_lost_shard_forgets_and_nothing_else_is_lost(kind):
    solver = PartedBCFW(tol=0.1, max_passes=200, check_every=1)
    expected = OneSlackCuttingPlane(tol=1e-3).solve(sharded(1, 45), 0.5)
    for number in range(3, 13):
        found = solver.solve(sharded(3, 45, faults=[Fault(kind, number, number % 3)]), 0.5)
        assert found.certified and found.converged
        assert found.dual <= expected.primal + 1e-12 and expected.dual <= found.primal + 1e-12


def test_the_dual_without_a_shard():
    problem = sharded(3)
    state = _Parts(Run(PartedBCFW(), problem, 0.05, None))
    asked = {"run": "x", "lam": 0.05, "n_epochs": 1, "seed": 0}
    for number in range(3):
        state.round("qp", {**asked, "round": number})
    parts, linear = list(state.parts), list(state.linear)
    state._forget(1)
    weights = parts[0] + parts[2]
    assert state.dual == pytest.approx(linear[0] + linear[2] - 0.025 * weights @ weights)
    # Points on the shards are what the client thinks they are.
    for k, shard in enumerate(problem.engine._shards):
        own = sum(w for w, _ in shard._epochs._points.values())
        assert np.allclose(own, parts[k], atol=1e-13)


def test_what_cannot_be():
    X, y = digits(20)
    with pytest.raises(TypeError, match="MulticlassProblem has no epochs of parts, which only problems over shards have"):
        PartedBCFW().solve(MulticlassProblem(X, y, 10), 0.1)
    with pytest.raises(ValueError, match="bounds are not known to PartedBCFW"):
        PartedBCFW().solve(sharded(2), 0.1, bounds=(0, 1))
    for settings_, message in (({"aggregate": "sum"}, "aggregate='sum' is unknown"), ({"epochs": 0}, "epochs=0 must be a whole")):
        with pytest.raises(ValueError, match=message):
            PartedBCFW(**settings_)
