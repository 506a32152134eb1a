"""Cuts that are sparse from end to end: the same as dense ones, at the cost of what is not zero."""

import gc
import tracemalloc

import numpy as np
import pytest
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.python_oracle_cases import SOLVERS
from tests.cases.reference_steps import OutputSteps
from tests.cases.solver_cases import LAM, NEVER, Hidden, engine_of, frank_wolfe, primal_of

from maxmargin.core import Cut, Problem, SparseVector
from maxmargin.core.solvers import BCFW, NSlackCuttingPlane, OneSlackCuttingPlane


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
