"""Decoders that claim to be exact: local searches are found out, exact ones are never accused."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from tests.cases.solver_cases import ThreeClasses
from tests.cases.structure_cases import CASES, make_case

from maxmargin.core import Decoded, Structure
from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem
from maxmargin.surrogates import StructuredProblem


class Matching(Structure):
    calls = 0

    def joint_feature(self, x, y):
        return x[np.arange(len(y)), y].sum(axis=0)

    def loss(self, truth, y):
        return float(np.mean(truth != y))

    def table(self, x, weights, truth, a, b):
        self.calls += 1
        wrong = 0.0 if truth is None else (np.arange(len(x)) != truth[:, None]) / len(x)
        return a * (x @ weights) + b * wrong

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return linear_sum_assignment(self.table(x, weights, truth, a, b), maximize=True)[1]


class Swaps(Matching):
    """The best of all swaps, from the truth on, until there is none or rounds are over. It says that it is exact."""

    def __init__(self, rounds):
        self.rounds = rounds

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        table, rows = self.table(x, weights, truth, a, b), np.arange(len(x))
        y = rows if truth is None else truth
        for _ in range(self.rounds):
            swapped = [y]
            for i, j in combinations(rows, 2):
                other = y.copy()
                other[i], other[j] = y[j], y[i]
                swapped.append(other)
            best = swapped[int(np.argmax([table[rows, z].sum() for z in swapped]))]
            if best is y:
                break
            y = best
        return y


def matchings(structure, size, seed, n=20):
    rng = np.random.default_rng(seed)
    X = [rng.normal(size=(size, size, 3)) for _ in range(n)]
    hidden = rng.normal(size=3)
    Y = [linear_sum_assignment(x @ hidden + rng.normal(size=(size, size)), maximize=True)[1] for x in X]
    return StructuredProblem(structure, X, Y)


@pytest.mark.filterwarnings("ignore::maxmargin.core.solvers.InexactOracleWarning")
@pytest.mark.parametrize("rounds", [1, 100])
@pytest.mark.parametrize("size", [3, 5])
def test_local_searches_are_found_out(size, rounds):
    """Finding of the review: a best-swap search was certified in 12 of 12 runs."""
    wrong = found = 0
    for seed in range(12):
        problem = matchings(Swaps(rounds), size, seed)
        weights = OneSlackCuttingPlane().solve(problem, 0.05).weights
        exact = matchings(Matching(), size, seed).mean_cut(weights).hinge(weights)
        before = problem.structure.calls
        audit = problem.audit(weights)
        missed = exact - problem.mean_cut(weights).hinge(weights)
        assert problem.structure.calls - before - problem.n_blocks <= 2.2 * problem.n_blocks
        assert audit.n_wrong == 0 or missed > 1e-9
        assert audit.excess <= problem.n_blocks * missed + 1e-9
        wrong += missed > 1e-9
        found += audit.n_wrong > 0
    assert wrong >= 4 and found >= 0.75 * wrong


def test_exact_decoders_are_never_accused():
    rng = np.random.default_rng(0)
    for name in CASES:
        case = make_case(name)
        problem = StructuredProblem(case.structure, case.xs, case.truths)
        for scale in (0.0, 1.0, 30.0):
            for _ in range(6):
                weights = case.weights(rng, scale, scale == 1.0)
                problem.cuts(range(problem.n_blocks), weights)
                audit = problem.audit(weights)
                assert audit.n_wrong == 0 and audit.excess == 0, name
    for seed in range(6):
        problem = matchings(Matching(), 5, seed)
        assert problem.audit(OneSlackCuttingPlane().solve(problem, 0.05).weights).n_wrong == 0


def test_outputs_of_other_samples_prove_nothing():
    class Forbidden(ThreeClasses):
        """Every sample has classes it cannot have, which its features do not know."""

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            allowed = np.arange(3) != int(x[0])
            return int(np.argmax(np.where(allowed, a * weights.reshape(3, -1) @ x + b * (np.arange(3) != truth), -np.inf)))

    X = [np.array([k % 3, 1.0 + k]) for k in range(9)]
    problem = StructuredProblem(Forbidden(), X, [(k + 1) % 3 for k in range(9)])
    rng = np.random.default_rng(0)
    for _ in range(20):
        weights = rng.normal(size=6)
        problem.cuts(range(9), weights)
        assert problem.audit(weights).n_wrong == 0


def test_outputs_of_the_run_are_remembered():
    class Tired(ThreeClasses):
        """Finds the best class at first; later, whatever it is asked, the truth."""

        rested = True

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            return super().decode(x, weights, truth, a, b) if self.rested else int(x[0])

    rng = np.random.default_rng(0)
    truths = [1, 2] * 10
    problem = StructuredProblem(Tired(), list(np.column_stack([truths, rng.normal(size=20)])), truths)
    weights = rng.normal(size=6)
    best = [cut.hinge(weights) for cut in problem.cuts(range(20), weights)]
    problem.structure.rested = False
    audit = problem.audit(weights)
    assert audit.n_blocks == 20 and audit.n_wrong == np.count_nonzero(best) and audit.excess == pytest.approx(max(best))


def test_rounding_is_no_proof():
    """All permutations have the same score, as sums of the same numbers in other orders."""
    rng = np.random.default_rng(0)
    X = [(rng.normal(size=(6, 1, 1)) + rng.normal(size=(1, 6, 1))) * np.ones(3) for _ in range(20)]
    problem = StructuredProblem(Matching(), X, [np.arange(6)] * 20)
    for scale in (1e3, 1e6):
        for _ in range(5):
            weights = scale * rng.normal(size=3)
            problem.cuts(range(20), weights)
            assert problem.audit(weights).n_wrong == 0


def test_bounds_are_audited_too():
    class Boastful(ThreeClasses):
        """The second best class, and a bound that does not hold."""

        def decode(self, x, weights, truth=None, a=1.0, b=0.0):
            values = a * weights.reshape(3, -1) @ x + b * (np.arange(3) != truth)
            at = int(np.argsort(values)[1])
            return Decoded(at, float(values[at]) + 1e-3)

    rng = np.random.default_rng(0)
    problem = StructuredProblem(Boastful(), list(rng.normal(size=(20, 2))), rng.integers(0, 3, 20).tolist())
    for _ in range(5):
        problem.cuts(range(20), rng.normal(size=6))
    assert problem.audit(rng.normal(size=6)).n_wrong > 0


def test_what_claims_nothing_is_not_audited():
    modest = type("Modest", (ThreeClasses,), {"exact": False})()
    assert StructuredProblem(modest, [np.ones(2)], [0]).audit(np.zeros(6)) is None
    assert MulticlassProblem(np.ones((1, 2)), np.zeros(1, int), 2).audit(np.zeros(4)) is None
