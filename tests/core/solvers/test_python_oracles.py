"""The block engine with oracles in Python: asked in batches, counted, remembered, and told what they lack."""

import numpy as np
import pytest
from tests.cases.python_oracle_cases import ALL_SOLVERS, SOLVERS, Counting, many
from tests.cases.solver_cases import LAM, NEVER, Averaging, Hidden, engine_of, frank_wolfe, make_model, optimum

from maxmargin import _core
from maxmargin.core import Cut, Problem, SparseVector, SupportsExactSteps, SupportsMeanCut, supports
from maxmargin.core.solvers import BCFW, ExponentiatedGradient, PartialLinearization
from maxmargin.multiclass import MulticlassProblem

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


# ---- capabilities ---------------------------------------------------------------------------------------------------------


def test_what_is_missing_is_said_in_one_sentence():
    """Before anything is asked, whatever the pair of solver and problem."""
    problem = Counting(make_model("multiclass"))
    cases = {
        BCFW(steps="exact"): "Counting does not support what BCFW needs (SupportsExactSteps): it has no make_block_data, "
        "exact_steps. BinaryProblem, HierarchyProblem, HierarchySetProblem, MulticlassProblem and MultilabelProblem do; "
        "for others use steps='pairwise'",
        PartialLinearization(): "Counting does not support what PartialLinearization needs (SupportsExpectations): it has no "
        "average, diameter, interior, mix, tilt. BinaryProblem, ChainProblem, MulticlassProblem and TreeProblem do; for others "
        "use BCFW, or write interior, tilt, mix, average and diameter",
    }
    cases[ExponentiatedGradient()] = cases[PartialLinearization()].replace("PartialLinearization", "ExponentiatedGradient")
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
    assert supports(plain, SupportsExactSteps) and not supports(hooked, (SupportsExactSteps, SupportsMeanCut))
    with pytest.raises(TypeError, match=r"BCFW needs \(SupportsExactSteps\): Hooked.cuts overrides a method"):
        BCFW(steps="exact").solve(hooked, LAM)
    with pytest.raises(TypeError, match=r"\(SupportsExpectations\): Hooked.cuts overrides a method"):
        PartialLinearization().solve(hooked, LAM)
