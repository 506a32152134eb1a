"""What goes wrong in an oracle in Python: exceptions, interruptions, threads, time."""

import gc
import threading
import time

import numpy as np
import pytest
from tests.cases.python_oracle_cases import ALL_SOLVERS, SOLVERS, Counting, many
from tests.cases.solver_cases import LAM, NEVER, Averaging, Hidden, engine_of, frank_wolfe, make_model, optimum

from maxmargin.core import Cut, Problem
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane


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

        # These do not rely on cut.
        interior, tilt, mix = Averaging.interior, Averaging.tilt, Averaging.mix

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
