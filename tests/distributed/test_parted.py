"""Block steps in several shards at once: safe, exact aggregation, and what a lost shard forgets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from python_oracle_cases import Counting
from reference_epochs import ReferenceEpochs, order_of
from reference_programs import convex_program
from sklearn.datasets import load_digits
from solver_cases import Hidden

from maxmargin.cuts import Cut
from maxmargin.distributed import Fault, LocalEngine, ProblemSource, ShardedMean, ShardOf, split_rows
from maxmargin.problems import ChainProblem, MulticlassProblem, MultilabelProblem
from maxmargin.solvers import InexactOracleWarning, OneSlackCuttingPlane, PartedBCFW
from maxmargin.solvers.base import Run
from maxmargin.solvers.parted import _Parts, best_factors

AGGREGATES = ["qp", "line", "add", "average"]


def digits(n=120):
    X, y = load_digits(return_X_y=True)
    return X[:n] / 16.0, y[:n]


def sharded(n_shards, n=120, **faults):
    X, y = digits(n)
    return ShardedMean.classes(LocalEngine([ShardOf(part, "classes") for part in split_rows(X, y, n_shards)], **faults))


def _weighted(X, y):
    return MulticlassProblem(X, y, 10, sample_weight=np.linspace(0, 2, len(y)))


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
    # Variables: the factors, and the weights that they lead to, in which the program is separable.
    best = convex_program(
        np.append(-gains, np.zeros(4)), np.repeat([0.0, lam], [n, 4]), equal=(np.hstack([changes.T, -np.eye(4)]), -weights),
        bounds=(np.repeat([0.0, -np.inf], [n, 4]), np.repeat([1.0, np.inf], [n, 4])), tol=1e-10,
    )  # fmt: skip
    # Coordinate ascent ends after 1000 rounds.
    assert values["qp"] >= -best.value - 1e-6 * (1 + abs(best.value))
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
    asked = {"run": "x", "lam": 0.02, "n_epochs": 1, "steps": "fw", "seed": 0, "curvature": 1.0}
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


@pytest.mark.parametrize("n_epochs", [1, 3])
def test_one_shard_is_the_plain_method(n_epochs):
    """All of the steps of one shard are taken: those of block-coordinate Frank-Wolfe, the blocks in random order."""
    X, y = digits(40)
    plain = ReferenceEpochs(MulticlassProblem(X, y, 10), 0.05, 40)
    state = _Parts(Run(PartedBCFW(), sharded(1, 40), 0.05, None))
    asked = {"run": "x", "lam": 0.05, "n_epochs": n_epochs, "steps": "fw", "seed": 7}
    for number in range(3):
        state.round("average", {**asked, "round": number})
        seed = np.random.SeedSequence([7, 0, number]).generate_state(1, np.uint64)
        plain.run(plain.part()[0], order_of(40, n_epochs, int(seed[0])), 1.0)
        plain.keep(1.0)
    weights, linear = plain.part()
    np.testing.assert_allclose(state.weights, weights, atol=1e-13)
    assert state.dual == pytest.approx(linear - 0.025 * weights @ weights)


@pytest.mark.parametrize("n_shards", [2, 5])
def test_the_best_factors_gain_most_in_every_round(n_shards):
    """Of the same steps; a round of averages is one of those that the program may choose."""
    problem, lam = sharded(n_shards), 0.02
    weights, linear = np.zeros(problem.n_features), 0.0
    asked = {"run": "x", "lam": lam, "n_epochs": 2, "steps": "exact", "seed": 0, "curvature": 1.0}
    for number in range(8):
        steps = problem.epoch(weights, {**asked, "round": number})
        changes, gains = np.array([step.change for step in steps]), np.array([step.gain for step in steps])
        gained = {
            name: dual_of(gains, changes, weights, lam, best_factors(changes, gains, weights, lam, name)) for name in AGGREGATES
        }
        nothing = dual_of(gains, changes, weights, lam, np.zeros(n_shards))
        assert gained["qp"] >= gained["line"] - 1e-14 >= gained["average"] - 2e-14 and gained["average"] > nothing
        factors = best_factors(changes, gains, weights, lam)
        problem.mix(factors.tolist(), {**asked, "round": number})
        weights, linear = weights + factors @ changes, linear + factors @ gains
    parts = [shard._epochs.part() for shard in problem.engine._shards]
    np.testing.assert_allclose(sum(part for part, _ in parts), weights, atol=1e-13)
    assert sum(loss for _, loss in parts) == pytest.approx(linear, rel=1e-13)


def test_an_answer_that_is_lost_is_given_again():
    """To the last bit, and no step is made twice; what is lost of a mix is not mixed again."""
    problem = sharded(2)
    twin = sharded(2)
    asked = {"run": "x", "lam": 0.02, "n_epochs": 1, "steps": "fw", "seed": 0, "curvature": 1.0}
    weights = np.zeros(problem.n_features)
    for number in range(3):
        now = {**asked, "round": number}
        first, again, other = problem.epoch(weights, now), problem.epoch(weights, now), twin.epoch(weights, now)
        for one, two, three in zip(first, again, other, strict=True):
            assert np.array_equal(one.change, two.change) and np.array_equal(one.change, three.change)
            assert one.gain == two.gain == three.gain
        assert problem.mix([0.5, 0.25], now) == problem.mix([0.5, 0.25], now) == twin.mix([0.5, 0.25], now) == [True, True]
        weights = weights + 0.5 * first[0].change + 0.25 * first[1].change
    X, y = digits(20)
    counting = Counting(MulticlassProblem(X, y, 10))
    asking = ShardedMean(LocalEngine([ProblemSource(lambda: counting)]))
    for _ in range(2):
        asking.epoch(weights, {**asked, "round": 0})
    assert counting.single == 20
    # Another run begins at the truth.
    found = problem.epoch(np.zeros(len(weights)), {**asked, "run": "y", "round": 0})
    fresh = sharded(2).epoch(np.zeros(len(weights)), {**asked, "run": "y", "round": 0})
    assert all(np.array_equal(one.change, two.change) for one, two in zip(found, fresh, strict=True))


def test_the_same_bits_for_the_same_shards():
    solver = PartedBCFW(tol=1e-2, max_passes=30, random_state=3)
    one, two = solver.solve(sharded(3), 0.02), solver.solve(sharded(3, n_jobs=3), 0.02)
    assert np.array_equal(one.weights, two.weights) and one.dual == two.dual
    other = PartedBCFW(tol=1e-2, max_passes=30, random_state=4).solve(sharded(3), 0.02)
    assert not np.array_equal(one.weights, other.weights)


@pytest.mark.parametrize("make", [lambda X, y: Hidden(MulticlassProblem(X, y, 10)), _weighted], ids=["python", "weighted"])
def test_any_problem(make):
    X, y = digits(60)
    sources = [ProblemSource(make, (X[k::3], y[k::3])) for k in range(3)]
    found = PartedBCFW(tol=5e-2, max_passes=300).solve(ShardedMean(LocalEngine(sources)), 0.5)
    expected = OneSlackCuttingPlane(tol=1e-4).solve(ShardedMean(LocalEngine(sources)), 0.5)
    assert found.certified and found.converged
    assert expected.dual <= found.primal + 1e-12 and found.dual <= expected.primal + 1e-12


class _Bad(Hidden):
    """An oracle that finds something worse than the truth, in one block."""

    def cut(self, block, weights):
        return Cut(np.sign(weights), 0.0) if block == 2 and weights.any() else self.model.cut(block, weights)


class _Careful(Hidden):
    """An oracle that says that it may have missed a little."""

    def cut(self, block, weights):
        cut = self.model.cut(block, weights)
        return Cut(cut.dense(self.n_features), cut.loss, cut.hinge(weights) + 0.01)


def test_an_oracle_that_is_not_exact():
    X, y = digits(30)
    sources = [ProblemSource(lambda k: _Bad(MulticlassProblem(X[k::2], y[k::2], 10)), (k,)) for k in range(2)]
    with pytest.warns(InexactOracleWarning, match="outputs that violate the margin less than the truth"):
        found = PartedBCFW(tol=1e-2, max_passes=20).solve(ShardedMean(LocalEngine(sources)), 0.5)
    assert not found.certified


def test_oracles_that_say_what_they_may_have_missed():
    X, y = digits(30)
    sources = [ProblemSource(lambda k: _Careful(MulticlassProblem(X[k::2], y[k::2], 10)), (k,)) for k in range(2)]
    problem = ShardedMean(LocalEngine(sources))
    found = PartedBCFW(tol=5e-3, max_passes=2000).solve(problem, 0.5)
    # What is left of the gap is the oracle's, once the solver has closed its own part.
    assert found.certified and found.converged and found.passes < 2000
    assert found.oracle_gap == pytest.approx(0.01) and found.gap > 0.01
    ridge = 0.25 * found.weights @ found.weights
    assert found.primal == pytest.approx(ridge + problem.mean_cut(found.weights).upper(found.weights))


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
    asked = {"run": "x", "lam": 0.05, "n_epochs": 1, "steps": "fw", "seed": 0}
    for number in range(3):
        state.round("qp", {**asked, "round": number})
    parts, linear = list(state.parts), list(state.linear)
    state._forget(1)
    weights = parts[0] + parts[2]
    assert state.dual == pytest.approx(linear[0] + linear[2] - 0.025 * weights @ weights)
    # Points on the shards are what the client thinks they are.
    for k, shard in enumerate(problem.engine._shards):
        own, loss = shard._epochs.part()
        assert np.allclose(own, parts[k], atol=1e-13) and loss == pytest.approx(linear[k])


def test_what_cannot_be():
    X, y = digits(20)
    with pytest.raises(TypeError, match="MulticlassProblem has no epochs of parts, which only problems over shards have"):
        PartedBCFW().solve(MulticlassProblem(X, y, 10), 0.1)
    with pytest.raises(ValueError, match="bounds are not known to PartedBCFW"):
        PartedBCFW().solve(sharded(2), 0.1, bounds=(0, 1))
    sets = ProblemSource(MultilabelProblem, (X, np.eye(10)[y], [(0, 1)], True))
    with pytest.raises(ValueError, match="the oracles need bounds on the weights, which PartedBCFW does not know"):
        PartedBCFW().solve(ShardedMean(LocalEngine([sets])), 0.1)
    for settings_, message in (
        ({"aggregate": "sum"}, "aggregate='sum' is unknown"),
        ({"epochs": 0}, "epochs=0 must be a whole"),
        ({"steps": "away"}, "steps='away' is unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            PartedBCFW(**settings_)
