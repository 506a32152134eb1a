"""Warm starts of oracles in Python: from equal data, never from others."""

import pickle

import numpy as np
import pytest
from tests.cases.python_oracle_cases import ALL_SOLVERS, SOLVERS
from tests.cases.solver_cases import LAM, Averaging

from maxmargin.core.solvers import OneSlackCuttingPlane
from maxmargin.multiclass import MulticlassProblem


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
