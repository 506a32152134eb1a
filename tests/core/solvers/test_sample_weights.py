"""Samples that count more than once, in compiled blocks."""

from functools import cache

import numpy as np
import pytest
from tests.cases.solver_cases import LAM, NEVER, Hidden, engine_of, frank_wolfe, make_model, outputs_of

from maxmargin import _core
from maxmargin.core import Cut, Problem, compiled_features
from maxmargin.core.solvers import BCFW
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem


class Scaled(Hidden):
    """Hinges times a weight each."""

    def __init__(self, model, weights):
        super().__init__(model)
        self.weights = weights

    def cut(self, block, weights):
        cut = self.model.cut(block, weights)
        return Cut(self.weights[block] * cut.psi, self.weights[block] * cut.loss)

    cuts = Problem.cuts


@cache
def weighted(name):
    model, counts = make_model(name), np.array([1.0, 2, 3, 1, 2, 4, 1, 1, 2])
    binary = isinstance(model, BinaryProblem)
    labels = (model.y > 0).astype(np.int32) if binary else model.y.astype(np.int32)
    costs = None if binary else model.costs
    data = _core.ClassData(compiled_features(model.X), labels, costs, 2 if binary else 3, counts)
    rows = np.repeat(np.arange(9), counts.astype(int))
    repeated = (
        BinaryProblem(model.X[rows], model.y[rows]) if binary else MulticlassProblem(model.X[rows], model.y[rows], 3, model.costs)
    )
    return model, counts, data, repeated


@pytest.mark.parametrize("bounds", [None, (-0.15, 0.3)])
@pytest.mark.parametrize("steps", ["fw", "pairwise", "away", "all", "exact"])
@pytest.mark.parametrize("name", ["multiclass", "sparse", "costs", "binary"])
def test_weights_of_samples(name, steps, bounds):
    """As if samples came several times, and as if hinges were multiplied."""
    model, counts, data, repeated = weighted(name)
    lower, upper = (None, None) if bounds is None else (np.full(model.n_features, b) for b in bounds)
    engine = _core.BlockEngine(data, LAM, lower, upper, frank_wolfe(steps), None)
    for _ in range(400):
        running = engine.dual
        primal, dual, gap, _ = engine.gap_pass()
        assert running == pytest.approx(dual, abs=1e-11) and gap == pytest.approx(primal - dual, abs=1e-11)
        engine.run(2 * model.n_blocks, NEVER, NEVER, 0.0, 0.0)
    primal, dual, gap, _ = engine.gap_pass()
    w = engine.weights()
    hinges = [np.max(loss - psi @ w) for psi, loss in (outputs_of(model, block) for block in range(9))]
    assert primal == pytest.approx(LAM / 2 * w @ w + counts @ hinges / 9, rel=1e-12)
    # n times the objective is that of the longer list, at n lambda / N.
    longer = counts.sum() / 9
    best = BCFW(steps="pairwise", tol=1e-8, max_passes=1e5).solve(repeated, LAM / longer, bounds=bounds)
    assert dual <= longer * best.primal + 1e-9 and longer * best.dual <= primal + 1e-9
    assert gap <= (3e-2 if steps in ("fw", "away") else 1e-7) * primal
    scaled = BCFW(steps="pairwise", tol=1e-7, max_passes=1e5).solve(Scaled(model, counts), LAM, bounds=bounds)
    assert dual <= scaled.primal + 1e-9 and scaled.dual <= primal + 1e-9
    assert scaled.primal == pytest.approx(longer * best.primal, rel=1e-6)


@pytest.mark.parametrize("name", ["costs", "binary"])
def test_weights_of_samples_step_by_step(name):
    model, counts, data, _ = weighted(name)
    order = frank_wolfe(sampling="permutation")
    engines = _core.BlockEngine(data, LAM, None, None, order, None), engine_of(Scaled(model, counts), order, LAM)
    for _ in range(60):
        for engine in engines:
            engine.run(1, NEVER, NEVER, 0.0, 0.0)
        assert engines[0].dual == pytest.approx(engines[1].dual, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(engines[0].weights(), engines[1].weights(), rtol=1e-7, atol=1e-10)
