"""The block engine with oracles in Python: asked in batches, sparse from end to end, interrupted, bounded, warm-started."""

import gc
import pickle
import threading
import time
import tracemalloc

import numpy as np
import pytest
from reference_steps import OutputSteps
from solver_cases import LAM, NEVER, Averaging, Hidden, engine_of, frank_wolfe, listed, make_model, optimum, primal_of

from maxmargin import _core
from maxmargin.cuts import Cut, Problem, SparseVector
from maxmargin.problems import EnumeratedProblem, MulticlassProblem
from maxmargin.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    InexactOracleWarning,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Subgradient,
)

ALL_SOLVERS = {
    "bcfw": BCFW(tol=1e-2),
    "pairwise": BCFW(tol=1e-4, steps="pairwise"),
    "cache": BCFW(tol=1e-3, steps="all", cache=10),
    "n-slack": NSlackCuttingPlane(tol=1e-4),
    "one-slack": OneSlackCuttingPlane(tol=1e-5),
    "fw": FrankWolfe(tol=2e-2, max_passes=5000),
    "subgradient": Subgradient(tol=5e-2, max_passes=5000),
    "pl": PartialLinearization(tol=1e-2, temperature=0.1),
    "eg": ExponentiatedGradient(tol=2e-2, temperature=0.5, max_passes=5000),
}
SOLVERS = {name: solver for name, solver in ALL_SOLVERS.items() if name not in ("pl", "eg")}


class Counting(Hidden):
    """Notes the number of blocks of every question."""

    def __init__(self, model):
        super().__init__(model)
        self.single, self.batches = 0, []

    def cut(self, block, weights):
        self.single += 1
        return self.model.cut(block, weights)

    def cuts(self, blocks, weights):
        self.batches.append(len(blocks))
        return self.model.cuts(blocks, weights)


def many(n=2500, seed=0):
    rng = np.random.default_rng(seed)
    return MulticlassProblem(rng.normal(size=(n, 3)), rng.integers(0, 3, n), 3)


# ---- questions ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL_SOLVERS)
def test_python_oracles_reach_the_same_optimum_in_as_many_passes(name):
    solver, model = ALL_SOLVERS[name], make_model("costs")
    problem = Averaging(model) if name in ("pl", "eg") else Hidden(model)
    fast, slow = solver.solve(model, LAM), solver.solve(problem, LAM)
    best = optimum("costs", "free")
    for solution in (fast, slow):
        assert solution.converged and solution.certified and solution.oracle_gap == 0
        assert solution.dual <= best.primal + 1e-9 and best.dual <= solution.primal + 1e-9
    # The same steps; where two outputs tie, rounding may choose.
    assert slow.passes <= 1.5 * fast.passes + 5 and fast.passes <= 1.5 * slow.passes + 5


def test_gap_passes_ask_for_a_thousand_blocks_at_once():
    problem = Counting(many())
    engine = engine_of(problem, frank_wolfe())
    engine.gap_pass()
    assert problem.batches == [1024, 1024, 452] and problem.single == 0
    visits, calls, *_ = engine.run(700, NEVER, NEVER, 0.0, 0.0)
    assert (visits, calls, problem.single) == (700, 700, 700) and len(problem.batches) == 3
    engine.gap_pass()
    assert problem.batches == 2 * [1024, 1024, 452] and problem.single == 700


@pytest.mark.parametrize("name", ["bcfw", "cache", "n-slack", "fw", "subgradient", "one-slack"])
def test_every_question_is_counted(name):
    problem = Counting(make_model("multiclass"))
    solution = SOLVERS[name].solve(problem, LAM)
    assert solution.oracle_calls == problem.single + sum(problem.batches)
    # Batch methods never ask for a single block.
    assert problem.single == 0 or name in ("bcfw", "cache")
    assert all(size == problem.n_blocks for size in problem.batches)


def test_answers_in_another_number_are_an_error():
    class Short(Hidden):
        cut = Hidden.cut

        def cuts(self, blocks, weights):
            return super().cuts(blocks, weights)[1:]

    with pytest.raises(ValueError, match=r"cuts\(blocks, weights\) must return one cut for each block"):
        BCFW(max_passes=5).solve(Short(make_model("multiclass")), LAM)


class Answering(Problem):
    """One block that always answers the same."""

    n_blocks, n_features = 1, 3

    def __init__(self, *cut):
        self.answer = Cut(*cut)

    def cut(self, block, weights):
        return self.answer


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        ((np.ones(2), 1.0), "returned 2 features, but there are 3; block 0"),
        ((np.ones(3), -1.0), "returned the loss -1.0+, but a loss must be finite and not negative; block 0"),
        ((np.ones(3), np.nan), "returned the loss -?nan"),
        ((np.array([1.0, np.nan, 0.0]), 1.0), r"returned features that are not finite \(NaN or infinity\)"),
        ((np.ones(3), 1.0, np.nan), "returned a bound that is not a number; block 0"),
        ((SparseVector(np.array([0, 3], dtype=np.int32), np.ones(2)), 1.0), "returned the index 3, but features are numbered"),
        ((SparseVector(np.array([-1], dtype=np.int32), np.ones(1)), 1.0), "returned the index -1"),
        ((SparseVector(np.array([1], dtype=np.int32), np.ones(2)), 1.0), "returned indices and values of different lengths"),
    ],
)
def test_bad_answers_are_errors(cut, message):
    with pytest.raises(ValueError, match=f"the oracle {message}"):
        BCFW().solve(Answering(*cut), 1.0)


def test_answers_may_be_of_other_types():
    """Single precision, lists of integers, not contiguous."""
    for psi in (np.ones(3, dtype=np.float32), np.ones((3, 2))[:, 0], SparseVector(np.arange(3), np.ones(3))):
        solution = BCFW(tol=1e-9).solve(Answering(psi, 1), 1.0)
        np.testing.assert_allclose(solution.weights, 1 / 3)


# ---- sparse cuts ----------------------------------------------------------------------------------------------------------


class SparseClasses(Problem):
    """Multi-class with features of many words, of which a sample has few."""

    def __init__(self, n, n_words, n_classes, per_sample, seed=0, dense=False):
        rng = np.random.default_rng(seed)
        self.n_blocks, self.n_features = n, n_words * n_classes
        self.words = np.sort(np.array([rng.choice(n_words, per_sample, replace=False) for _ in range(n)]), axis=1)
        self.counts, self.y = rng.random((n, per_sample)) + 0.5, rng.integers(0, n_classes, n)
        self.n_words, self.n_classes, self.dense = n_words, n_classes, dense

    def cut(self, block, weights):
        words, counts, truth = self.words[block], self.counts[block], self.y[block]
        scores = [weights[words + k * self.n_words] @ counts + (k != truth) for k in range(self.n_classes)]
        best = int(np.argmax(scores))
        if best == truth:
            return Cut(SparseVector(np.zeros(0, dtype=np.int32), np.zeros(0)), 0.0)
        low, high = sorted((truth, best))
        indices = np.concatenate([words + low * self.n_words, words + high * self.n_words]).astype(np.int32)
        cut = Cut(SparseVector(indices, np.concatenate([counts, -counts]) * (1 if low == truth else -1)), 1.0)
        return Cut(cut.dense(self.n_features), 1.0) if self.dense else cut


@pytest.mark.parametrize("name", SOLVERS)
@pytest.mark.parametrize("bounds", [None, (-0.05, 0.1)])
def test_sparse_cuts_are_dense_ones(name, bounds):
    problems = [SparseClasses(12, 9, 3, 3, dense=dense) for dense in (False, True)]
    sparse, dense = (SOLVERS[name].solve(problem, LAM, bounds=bounds) for problem in problems)
    assert sparse.converged and sparse.certified and sparse.passes == dense.passes
    np.testing.assert_allclose(sparse.weights, dense.weights, rtol=1e-9, atol=1e-12)
    assert sparse.primal == pytest.approx(dense.primal, rel=1e-12)


@pytest.mark.parametrize(
    "solver",
    [BCFW(max_passes=30), BCFW(tol=1e-3, steps="pairwise", cache=10), NSlackCuttingPlane(tol=1e-3)],
    ids=["fw", "cache", "n-slack"],
)
def test_a_million_features_cost_what_is_not_zero(solver):
    """Dense, the outputs of 1,000 blocks would take 8 GB."""
    problem = SparseClasses(1000, 250_000, 4, 50)
    assert problem.n_features == 1_000_000
    gc.collect()
    tracemalloc.start()
    solution = solver.solve(problem, 1e-3)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # Plain steps would need hundreds of passes here.
    assert solution.certified and (solution.converged or solver.max_passes == 30)
    # Some copies of the weights; and in the engine a few outputs of a hundred features per block.
    assert peak < 100e6
    assert solution.state.engine.n_bytes < 1000 * 8000
    small = np.flatnonzero(solution.weights)
    assert 0 < len(small) <= 1000 * 50 * 4
    expected = 1e-3 / 2 * solution.weights @ solution.weights
    expected += np.mean([cut.hinge(solution.weights) for cut in problem.cuts(range(1000), solution.weights)])
    assert solution.primal == pytest.approx(expected, rel=1e-12)


def scattered(seed=0, n=6, n_features=40, n_outputs=7, entries=8):
    """Outputs with equal values at scattered indices: more places than a pattern has runs."""
    rng = np.random.default_rng(seed)
    psi, loss = [], []
    for _ in range(n):
        rows = np.zeros((n_outputs + 1, n_features))
        for row in rows[1:]:
            row[rng.choice(n_features, entries, replace=False)] = 1.0
        psi.append(rows)
        loss.append(np.append(0.0, rng.random(n_outputs)))
    return EnumeratedProblem(psi, loss)


class SparseAnswers(Hidden):
    """Cuts without their zeros."""

    def cut(self, block, weights):
        cut = self.model.cut(block, weights)
        indices = np.flatnonzero(cut.psi).astype(np.int32)
        return Cut(SparseVector(indices, cut.psi[indices]), cut.loss)

    cuts = Problem.cuts


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("steps", "cache"), [("fw", 0), ("pairwise", 0), ("all", 20)])
def test_equal_values_at_scattered_indices(steps, cache, seed):
    """Shifts of a pattern that did not fit were once left behind, and read and wrote beyond the weights."""
    model = scattered(seed)
    for problem in (SparseAnswers(model), Hidden(model)):
        engine = engine_of(problem, frank_wolfe(steps, 0, "permutation"), LAM)
        reference = OutputSteps(model, LAM, None, steps)
        # Pairwise steps soon make outputs tie.
        for _ in range((1 if steps == "pairwise" else 3) * model.n_blocks):
            before = engine.gaps()
            engine.run(1, NEVER, NEVER, 0.0, 0.0)
            for block in np.flatnonzero(engine.gaps() != before):
                assert engine.gaps()[block] == pytest.approx(reference.step(int(block)), abs=1e-9)
            np.testing.assert_allclose(engine.weights(), reference.dual.weights, atol=1e-9)
        engine = engine_of(problem, frank_wolfe(steps, cache), LAM)
        for _ in range(20):
            engine.run(2 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
            running = engine.dual
            primal, dual, gap, _ = engine.gap_pass()
            assert primal == pytest.approx(primal_of(model, engine.weights(), LAM), rel=1e-12)
            assert running == pytest.approx(dual, abs=1e-11) and gap == pytest.approx(primal - dual, abs=1e-11)
    best = OneSlackCuttingPlane(tol=1e-9).solve(model, LAM)
    found = BCFW(steps=steps, cache=cache, tol=1e-2 if steps == "fw" else 1e-6).solve(SparseAnswers(model), LAM)
    assert found.converged and found.dual <= best.primal + 1e-12 and best.dual <= found.primal + 1e-12


# ---- what goes wrong in an oracle -----------------------------------------------------------------------------------------


class Failing(Hidden):
    """Raises at the question with this number."""

    def __init__(self, model, error, at):
        super().__init__(model)
        self.error, self.at, self.asked = error, at, 0

    def cut(self, block, weights):
        self.asked += 1
        if self.asked == self.at:
            raise self.error
        return super().cut(block, weights)

    cuts = Problem.cuts


class OwnError(Exception):
    pass


@pytest.mark.parametrize("at", [1, 4, 9 + 4, 40])
@pytest.mark.parametrize("name", SOLVERS)
def test_an_exception_comes_out_as_it_is(name, at):
    model, error = make_model("multiclass"), OwnError("mine")
    problem = Failing(model, error, at)
    with pytest.raises(OwnError) as caught:
        SOLVERS[name].solve(problem, 1e-3)
    assert caught.value is error
    # The next run knows nothing of it.
    assert SOLVERS[name].solve(problem, LAM).primal == SOLVERS[name].solve(Hidden(model), LAM).primal


@pytest.mark.parametrize("at", [3, 9 + 4, 40])
def test_an_engine_goes_on_after_an_exception(at):
    """In a visit or within a gap pass, whose first answers then belong to weights of the past."""
    model = make_model("costs")
    problem = Failing(model, OwnError(), at)
    engine, twin = (engine_of(p, frank_wolfe("pairwise")) for p in (problem, Hidden(model)))

    def all_of(engine):
        for _ in range(6):
            for work in (engine.gap_pass, lambda: engine.run(model.n_blocks, NEVER, NEVER, 0.0, 0.0)):
                try:
                    work()
                except OwnError:
                    assert problem.asked == at
        return engine.gap_pass()

    assert all_of(engine)[1] <= optimum("costs", "free").primal + 1e-12
    assert problem.asked > at
    for each in (engine, twin):
        for _ in range(300):
            each.run(model.n_blocks, NEVER, NEVER, 0.0, 0.0)
            each.gap_pass()
    assert engine.gap_pass() == pytest.approx(twin.gap_pass(), abs=1e-7)


def test_stale_answers_are_not_used():
    """A gap pass that fails half-way has asked for all blocks; a visit asks anew."""
    model = many(7)

    class Half(Counting):
        cut = Counting.cut

        def cuts(self, blocks, weights):
            cuts = super().cuts(blocks, weights)
            if len(self.batches) == 2:
                cuts[5] = Cut(np.full(self.n_features, np.nan), 1.0)
            return cuts

    # In some of these orders the first block to be visited is the one whose answer would have come next.
    for seed in range(30):
        problem = Half(model)
        engine = engine_of(problem, frank_wolfe(sampling="permutation", seed=seed))
        engine.gap_pass()
        with pytest.raises(ValueError, match="block 5"):
            engine.gap_pass()
        for visits in range(1, model.n_blocks):
            engine.run(1, NEVER, NEVER, 0.0, 0.0)
            assert problem.single == visits


def test_interruptions():
    """Before anything is known Ctrl-C comes out; later the best weights so far are returned."""
    model = make_model("multiclass")
    for name, solver in SOLVERS.items():
        solver = type(solver)(**{**vars(solver), "tol": 1e-12, "max_passes": 1e4})
        with pytest.raises(KeyboardInterrupt):
            solver.solve(Failing(model, KeyboardInterrupt(), 2), LAM)
        solution = solver.solve(Failing(model, KeyboardInterrupt(), 150 if isinstance(solver, BCFW) else 60), LAM)
        assert solution.status == "interrupted" and solution.certified and not solution.converged, name
        best = optimum("multiclass", "free")
        assert solution.dual <= best.primal + 1e-12 and best.dual <= solution.primal + 1e-12
        # What was interrupted can be gone on with.
        again = SOLVERS[name].solve(solution.problem, LAM, start=solution)
        assert again.converged and again.certified


@pytest.mark.parametrize("bounds", [None, (-0.1, 0.2)])
def test_weights_that_an_oracle_keeps(bounds):
    """They cannot be written to, and they outlive the engine."""
    kept = []

    class Keeping(Hidden):
        def cut(self, block, weights):
            kept.append(weights)
            return super().cut(block, weights)

        def cuts(self, blocks, weights):
            kept.append(weights)
            return super().cuts(blocks, weights)

    solution = BCFW(tol=1e-2).solve(Keeping(make_model("multiclass")), LAM, bounds=bounds)
    expected = solution.state.engine.weights()
    for weights in kept[:: max(1, len(kept) // 20)]:
        assert weights.shape == (9,) and weights.dtype == np.float64 and not weights.flags.writeable
        with pytest.raises(ValueError, match="read-only"):
            weights[0] = 1.0
        with pytest.raises(ValueError, match="WRITEABLE"):
            weights.flags.writeable = True
    del solution
    gc.collect()
    rubbish = [np.full(9, 7.0) for _ in range(1000)]
    for weights in kept:
        np.testing.assert_array_equal(weights, expected)
    assert len(rubbish) == 1000
    kept.clear()
    gc.collect()


def test_an_oracle_may_solve_a_problem_of_its_own():
    """Engines within engines, in one thread."""
    inner, seen = make_model("binary"), []

    class Nested(Hidden):
        def cut(self, block, weights):
            kept = weights.copy()
            seen.append(BCFW(tol=1e-2).solve(Hidden(inner), LAM).primal)
            np.testing.assert_array_equal(kept, weights)
            return super().cut(block, weights)

    model = make_model("multiclass")
    ours, plain = (BCFW(max_passes=20).solve(problem, LAM) for problem in (Nested(model), Hidden(model)))
    np.testing.assert_array_equal(ours.weights, plain.weights)
    assert len(set(seen)) == 1


def test_two_threads_solve_two_problems():
    models = [many(60, seed) for seed in (1, 2)]
    problems = [Counting(model) for model in models]
    solvers = [BCFW(tol=1e-3, steps="pairwise"), NSlackCuttingPlane(tol=1e-4)]
    alone = [solver.solve(Hidden(model), 0.01) for solver, model in zip(solvers, models, strict=True)]
    found = [None, None]

    def work(k):
        found[k] = solvers[k].solve(problems[k], 0.01)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for together, one in zip(found, alone, strict=True):
        assert together.converged and together.history.dual == one.history.dual
        np.testing.assert_array_equal(together.weights, one.weights)


class Slow(Counting):
    def cut(self, block, weights):
        time.sleep(0.002)
        return super().cut(block, weights)

    def cuts(self, blocks, weights):
        time.sleep(0.002 * len(blocks))
        return super().cuts(blocks, weights)


@pytest.mark.parametrize("name", SOLVERS)
def test_time_limits_end_slow_oracles(name):
    """Not by the clock: how many questions are asked after the time is over."""
    solver = type(SOLVERS[name])(**{**vars(SOLVERS[name]), "tol": 1e-12, "max_passes": 1e6, "time_limit": 0.2})
    problem = Slow(many(40))
    solution = solver.solve(problem, 1e-3)
    assert solution.status == "time_limit" and solution.certified
    # A hundred questions fit into the limit; a slice and a gap pass may come after it.
    assert problem.single + sum(problem.batches) <= 100 + 40 + 40 + 64


@pytest.mark.parametrize("name", ALL_SOLVERS)
def test_runs_do_not_depend_on_time(name):
    class Dawdling(Averaging):
        """Sometimes slow, so that slices of time end elsewhere."""

        offers = Averaging.offers

        def cut(self, block, weights):
            if self.pause.random() < 0.02:
                time.sleep(0.03)
            return super().cut(block, weights)

    runs = []
    for seed in range(3):
        problem = Dawdling(make_model("costs"))
        problem.pause = np.random.default_rng(seed)
        runs.append(ALL_SOLVERS[name].solve(problem, LAM))
    for other in runs[1:]:
        np.testing.assert_array_equal(other.weights, runs[0].weights)
        assert other.history.dual == runs[0].history.dual and other.history.passes == runs[0].history.passes


# ---- memory ---------------------------------------------------------------------------------------------------------------


class Scripted(Problem):
    """One block, whose oracle says what it is told to: output k has the loss given and the unit vector k as its feature."""

    n_blocks, n_features = 1, 5

    def __init__(self, losses):
        self.losses, self.next = losses, 0

    def cut(self, block, weights):
        return Cut(np.eye(5)[self.next], self.losses[self.next])


def test_the_least_violating_outputs_are_forgotten():
    problem = Scripted([1.0, 3.5, 2.0, 4.0, 0.5])
    engine = engine_of(problem, _core.BlockSettings.frank_wolfe("uniform", "pairwise", 3, 0), 1.0)
    # Remembered without a step.
    for problem.next in range(4):
        engine.gap_pass()
    # All the way to the output with loss 4; then hinges are 1, 3.5, 2 and 3, and memory promises too little.
    assert engine.run(1, NEVER, NEVER, 0.0, 0.0)[1] == 0
    np.testing.assert_array_equal(engine.weights(), [0, 0, 0, 1, 0])
    problem.next = 4
    assert engine.run(1, NEVER, NEVER, 0.0, 0.0)[1] == 1
    # Three are left: the truth, the one in use, and the one with the largest hinge, which is good for a step.
    assert engine.run(1, NEVER, NEVER, 0.0, 0.0)[1] == 0
    np.testing.assert_allclose(engine.weights(), [0, 0.25, 0, 0.75, 0])


# ---- oracles that bound what they miss ------------------------------------------------------------------------------------


class Bounded(Problem):
    """Looks at every other output only, in turn, and knows that nothing exceeds its answer by more than ``slack``.

    With ``slack=None`` it knows the true maximum, though it does not find where it is.
    """

    exact = True

    def __init__(self, name, slack=None, lazy=2):
        self.model = listed(make_model(name))
        self.n_blocks, self.n_features = self.model.n_blocks, self.model.n_features
        self.slack, self.lazy = slack, lazy

    def cut(self, block, weights):
        hinges = self.model.hinges(block, weights)
        seen = np.arange(block % self.lazy, len(hinges), self.lazy)
        at = seen[np.argmax(hinges[seen])]
        true = float(hinges.max())
        return Cut(self.model.psi[block][at], float(self.model.loss[block][at]), true + (self.slack or 0.0))


BOUNDED = {
    "bcfw": BCFW(tol=1e-2, max_passes=3000),
    "pairwise": BCFW(tol=1e-3, steps="pairwise", max_passes=3000),
    "cache": BCFW(tol=1e-3, steps="all", cache=10, max_passes=3000),
    "hybrid": BCFW(tol=1e-2, hybrid=True, max_passes=3000),
    "n-slack": NSlackCuttingPlane(tol=1e-3, max_passes=3000),
    "fw": FrankWolfe(tol=1e-2, max_passes=5000),
    "subgradient": Subgradient(tol=1e-2, max_passes=5000),
    "stochastic": Subgradient(batch_size=3, max_passes=50),
    "one-slack": OneSlackCuttingPlane(tol=1e-3, max_passes=3000),
}


@pytest.mark.parametrize("lazy", [1, 2])
@pytest.mark.parametrize("case", ["costs", "binary", "chain"])
@pytest.mark.parametrize("name", BOUNDED)
def test_bounded_oracles_certify_all_the_same(name, case, lazy):
    """Primal values are upper bounds of the real objective, dual ones lower bounds of the real optimum; the rest is named."""
    best = optimum(case, "free")
    for slack in (0.0, 0.05, 0.5):
        problem = Bounded(case, slack, lazy)
        solution = BOUNDED[name].solve(problem, LAM)
        assert solution.certified
        true = primal_of(problem.model, solution.weights, LAM)
        assert true <= solution.primal + 1e-12 and solution.primal == pytest.approx(true + slack, rel=1e-9)
        assert solution.dual <= best.primal + 1e-9 and best.dual <= solution.primal + 1e-9
        assert true - best.dual <= solution.gap + 1e-9
        assert 0 <= solution.oracle_gap <= solution.gap + 1e-12
        if name == "stochastic":
            continue
        # Only the oracle's part is left.
        assert solution.status == "converged" and solution.converged
        assert solution.gap - solution.oracle_gap <= BOUNDED[name].tol * solution.primal + 1e-12
        if lazy == 2 and name not in ("one-slack", "subgradient"):
            assert solution.state.engine.known_gap <= BOUNDED[name].tol * solution.primal + 1e-12
        if lazy == 1:
            # The best weights may be others than those where the solver ended.
            assert slack - BOUNDED[name].tol * solution.primal <= solution.oracle_gap <= slack + 1e-12
            assert true - best.dual <= BOUNDED[name].tol * solution.primal + 1e-9
        elif slack == 0.5:
            assert solution.oracle_gap > 0.25


@pytest.mark.parametrize(("steps", "cache"), [("fw", 0), ("pairwise", 0), ("all", 20)])
def test_the_gap_is_the_steps_and_the_oracles(steps, cache):
    """An oracle may find less than a block has already; what is left then is the oracle's alone."""

    class Forgetful(Bounded):
        asked = 0

        def cut(self, block, weights):
            self.asked += 1
            self.lazy = 1 + self.asked % 3
            return super().cut(block, weights)

    problem = Forgetful("costs", 0.1)
    engine = engine_of(problem, frank_wolfe(steps, cache), LAM)
    for _ in range(30):
        engine.run(2 * problem.n_blocks, NEVER, NEVER, 0.0, 0.0)
        primal, dual, gap, oracle_gap = engine.gap_pass()
        assert primal == pytest.approx(primal_of(problem.model, engine.weights(), LAM) + 0.1, rel=1e-12)
        assert gap >= 0 and oracle_gap >= 0 and gap + oracle_gap == pytest.approx(primal - dual, abs=1e-12)
        assert dual <= optimum("costs", "free").primal + 1e-12
    assert BCFW(steps=steps, cache=cache, max_passes=50).solve(problem, LAM).certified


def test_an_exact_oracle_with_a_bound_changes_nothing():
    plain, bounded = listed(make_model("costs")), Bounded("costs", 0.0, lazy=1)
    for name, solver in SOLVERS.items():
        ours, theirs = solver.solve(bounded, LAM), solver.solve(plain, LAM)
        assert ours.passes == theirs.passes and ours.certified, name
        np.testing.assert_array_equal(ours.weights, theirs.weights)
        assert ours.oracle_gap == pytest.approx(0, abs=1e-12)


def test_a_bounded_oracle_may_find_less_than_the_truth():
    """It is not caught by that, unless its bound says that there is nothing better."""

    class Hopeless(Bounded):
        def cut(self, block, weights):
            hinges = self.model.hinges(block, weights)
            at = int(np.argmin(hinges))
            return Cut(self.model.psi[block][at], float(self.model.loss[block][at]), self.limit(hinges))

    class Honest(Hopeless):
        def limit(self, hinges):
            return float(hinges.max())

    class Lying(Hopeless):
        def limit(self, hinges):
            return float(hinges.min())

    # At weights of some size, so that many outputs violate less than the truth.
    lower = np.random.default_rng(0).normal(size=9)
    bounds = lower, lower + 0.1
    for solver in (BCFW(max_passes=20), FrankWolfe(max_passes=20), NSlackCuttingPlane(max_passes=20)):
        honest = solver.solve(Honest("costs"), LAM, bounds=bounds)
        assert honest.certified
        assert honest.primal == pytest.approx(primal_of(make_model("costs"), honest.weights, LAM), rel=1e-9)
        best = OneSlackCuttingPlane(tol=1e-9).solve(make_model("costs"), LAM, bounds=bounds)
        assert honest.dual <= best.primal + 1e-9 and best.dual <= honest.primal + 1e-9
    for solver in (BCFW(max_passes=20), NSlackCuttingPlane(max_passes=20)):
        with pytest.warns(InexactOracleWarning):
            assert not solver.solve(Lying("costs"), LAM, bounds=bounds).certified


# ---- warm starts ----------------------------------------------------------------------------------------------------------


class Marked(Averaging):
    """A problem that can say what it is made of."""

    def fingerprint(self):
        return self.model.X.tobytes() + self.model.y.tobytes()


def samples(shift=0.0):
    rng = np.random.default_rng(4)
    return MulticlassProblem(rng.normal(size=(14, 3)) + shift, rng.integers(0, 3, 14), 3)


@pytest.mark.parametrize("name", ALL_SOLVERS)
def test_starts_from_other_data_are_refused(name):
    """Cuts of other data prove nothing here: they certified a primal value of 0.98 where 0.91 was true."""
    solver = ALL_SOLVERS[name]
    first = solver.solve(Marked(samples()), LAM)
    # The same size, and most of the same numbers; and one that cannot say what it is made of.
    for other in (Marked(samples(0.1)), Averaging(samples()), samples()):
        with pytest.raises(ValueError, match="start belongs to other data"):
            solver.solve(other, LAM, start=first)
    unmarked = solver.solve(Averaging(samples()), LAM)
    for other in (Averaging(samples()), Marked(samples())):
        with pytest.raises(ValueError, match="start belongs to other data"):
            solver.solve(other, LAM, start=unmarked)


@pytest.mark.parametrize("name", ALL_SOLVERS)
def test_starts_from_equal_data_are_taken(name):
    solver = ALL_SOLVERS[name]
    problem = Marked(samples())
    first = solver.solve(problem, LAM)
    same, equal = (solver.solve(p, LAM, start=first) for p in (problem, Marked(samples())))
    assert equal.converged and equal.passes == same.passes <= first.passes
    np.testing.assert_array_equal(equal.weights, same.weights)
    best = OneSlackCuttingPlane(tol=1e-9).solve(samples(), LAM)
    assert equal.certified and equal.dual <= best.primal + 1e-9 and best.dual <= equal.primal + 1e-9


@pytest.mark.parametrize("name", SOLVERS)
def test_pickled_solutions_keep_what_they_prove(name):
    """The state of the engine stays behind; the mark of the data goes along."""
    problem, solver = Marked(samples()), SOLVERS[name]
    solution = solver.solve(problem, LAM)
    copy = pickle.loads(pickle.dumps(solution))
    assert copy.certificate == solution.certificate and copy.status == solution.status
    np.testing.assert_array_equal(copy.weights, solution.weights)
    assert copy.belongs_to(Marked(samples())) and copy.problem is None
    if copy.state is not None:
        assert not copy.belongs_to(Marked(samples(0.1))) and not copy.belongs_to(Averaging(samples()))
    assert solver.solve(problem, LAM, start=copy).converged


# ---- capabilities ---------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_in_one_sentence():
    """Before anything is asked, whatever the pair of solver and problem."""
    problem = Counting(make_model("multiclass"))
    cases = {
        BCFW(steps="exact"): "Counting has no exact steps, which only multi-class and binary problems without hooks of their own "
        "know; use steps='pairwise'",
        PartialLinearization(): "Counting has no expectations, which partial linearization and exponentiated gradients need; use "
        "BCFW, or give the problem interior, tilt, mix, average and diameter, and name 'expectations' among what it offers",
    }
    cases[ExponentiatedGradient()] = cases[PartialLinearization()]
    for solver, sentence in cases.items():
        with pytest.raises(TypeError) as caught:
            solver.solve(problem, LAM)
        assert str(caught.value) == sentence
    assert problem.single == 0 and not problem.batches

    class Hooked(MulticlassProblem):
        """A hook of its own takes the compiled form away, and all that was promised of the others."""

        def cuts(self, blocks, weights):
            return super().cuts(blocks, weights)

    plain = make_model("multiclass")
    hooked = Hooked(plain.X, plain.y, 3)
    assert "exact steps" in plain.capabilities and not hooked.capabilities and hooked.block_data is None
    with pytest.raises(TypeError, match="Hooked has no exact steps"):
        BCFW(steps="exact").solve(hooked, LAM)
    with pytest.raises(TypeError, match="Hooked has no expectations"):
        PartialLinearization().solve(hooked, LAM)
