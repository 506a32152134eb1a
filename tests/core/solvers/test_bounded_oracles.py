"""Oracles that are not exact but bound what they miss certify all the same."""

import numpy as np
import pytest
from tests.cases.python_oracle_cases import SOLVERS
from tests.cases.solver_cases import LAM, NEVER, engine_of, frank_wolfe, listed, make_model, optimum, primal_of

from maxmargin.core import Cut, Problem
from maxmargin.core.solvers import BCFW, FrankWolfe, InexactOracleWarning, NSlackCuttingPlane, OneSlackCuttingPlane, Subgradient


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
    "bcfw": BCFW(steps="fw", tol=1e-2, max_passes=3000),
    "pairwise": BCFW(tol=1e-3, steps="pairwise", max_passes=3000),
    "cache": BCFW(tol=1e-3, steps="all", cache=10, max_passes=3000),
    "hybrid": BCFW(steps="fw", tol=1e-2, hybrid=True, max_passes=3000),
    "n-slack": NSlackCuttingPlane(tol=1e-3, max_passes=3000),
    "fw": FrankWolfe(tol=1e-2, max_passes=5000),
    "subgradient": Subgradient(average="rising", tol=1e-2, max_passes=5000),
    "stochastic": Subgradient(average="rising", batch_size=3, max_passes=50),
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
