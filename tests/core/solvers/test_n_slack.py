"""Cutting planes with a slack for every block: what is known is remembered, and solved for."""

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.solver_cases import LAM, MODELS, Hidden, engine_of, frank_wolfe, make_model, optimum

from maxmargin.core.solvers import BCFW, NSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem


def test_n_slack_converges_at_a_tiny_lambda():
    """Was left with a gap of 0.87."""
    rng = np.random.default_rng(0)
    model = MulticlassProblem(rng.normal(size=(12, 3)), rng.integers(0, 3, 12), 3)
    solution = NSlackCuttingPlane().solve(model, 1e-5)
    best = BCFW(steps="pairwise", tol=1e-4, max_passes=1e5).solve(model, 1e-5)
    assert solution.converged and solution.certified and solution.passes <= 60
    assert solution.dual <= best.primal and best.dual <= solution.primal


@pytest.mark.parametrize("name", MODELS)
def test_n_slack_remembers(name):
    """A start costs fewer passes than none, at the same lambda and at others; it leaves the earlier result alone."""
    model, solver = make_model(name), NSlackCuttingPlane(tol=1e-5)
    first = solver.solve(model, LAM)
    assert first.converged and first.passes == len(first.history)
    again = solver.solve(model, LAM, start=first)
    assert again.converged and again.passes <= 2
    dual = first.state.engine.dual
    for lam in (0.3 * LAM, 3 * LAM):
        cold, warm = (solver.solve(model, lam, start=start) for start in (None, first))
        assert warm.converged and (warm.passes < cold.passes or cold.passes <= 2)
        assert warm.primal == pytest.approx(cold.primal, rel=2e-5) and first.state.engine.dual == dual


def test_n_slack_never_meets_an_output_twice():
    """Every answer is remembered, those that are not in use too: what comes again has been solved for."""
    model = make_model("chain")
    answers = []

    class Noting(Hidden):
        def cuts(self, blocks, weights):
            cuts = super().cuts(blocks, weights)
            answers.append([(c.loss, c.psi.tobytes(), c.hinge(weights)) for c in cuts])
            return cuts

    problem = Noting(model)
    solver = NSlackCuttingPlane(tol=1e-6)
    cold = solver.solve(problem, LAM)
    known = [{(loss, psi) for loss, psi, _ in column} for column in zip(*answers, strict=True)]
    # Over what is known the problem is solved, so the duals of a second run begin where the first ended.
    answers.clear()
    warm = solver.solve(problem, 0.9 * LAM, start=cold)
    assert warm.passes < cold.passes
    new = sum((loss, psi) not in seen for seen, column in zip(known, zip(*answers, strict=True), strict=True)
              for loss, psi, _ in column)  # fmt: skip
    assert new < model.n_blocks
    engine = engine_of(problem, frank_wolfe("pairwise", 2**31), 0.9 * LAM, None, cold.state.engine)
    # All outputs that the first run met are still there: their hinges bound the gap among them.
    before = len(answers)
    while not engine.settle(1e-9, 1000):
        pass
    assert len(answers) == before
    w = engine.weights()
    mean = sum(max([0.0, *(loss - np.frombuffer(psi) @ w for loss, psi in seen)]) for seen in known) / model.n_blocks
    assert engine.dual == pytest.approx(0.9 * LAM / 2 * w @ w + mean, abs=2e-9)


@pytest.mark.parametrize("name", [name for name in MODELS if name != "chain"])
def test_labels_settle_among_the_known_ones(name):
    """Compiled labels remember which ones were targets: after one gap pass, those at zero weights and the truths."""
    model = make_model(name)
    engine = engine_of(model, frank_wolfe("pairwise", 2**31), LAM)
    engine.gap_pass()
    while not engine.settle(1e-11, 1000):
        pass
    met = [model.cut(block, np.zeros(model.n_features)) for block in range(model.n_blocks)]
    psi = [np.stack([np.zeros(model.n_features), cut.dense(model.n_features)]) for cut in met]
    known = EnumeratedProblem(psi, [np.array([0.0, cut.loss]) for cut in met])
    best = BCFW(steps="pairwise", tol=1e-9, max_passes=1e5).solve(known, LAM)
    assert engine.dual == pytest.approx(best.dual, rel=1e-8)
    # Two classes have no others; elsewhere more are to be met.
    assert name == "binary" or engine.dual < optimum(name, "free").dual - 1e-3
