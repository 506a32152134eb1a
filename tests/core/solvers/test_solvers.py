"""Every solver on every model reaches the optimum of a reference QP, and what it reports on the way is true."""

from functools import lru_cache
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pytest
from scipy import sparse
from sklearn.svm import LinearSVC
from tests.cases.enumerated import EnumeratedProblem
from tests.cases.reference_averages import averages, tilt
from tests.cases.reference_programs import MarginProgram
from tests.cases.reference_steps import Dual
from tests.cases.solver_cases import Averaging, Hidden, ThreeClasses, outputs_of

from maxmargin import _core
from maxmargin.core.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    InexactOracleWarning,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Solver,
    Subgradient,
)
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem, RankingProblem, ranking_loss
from maxmargin.surrogates import StructuredProblem


@lru_cache
def data():
    rng = np.random.default_rng(3)
    return rng.normal(size=(10, 4)), rng.integers(0, 3, 10)


def make_model(name):
    X, y = data()
    if name == "multiclass":
        return MulticlassProblem(X, y, 3)
    if name == "costs":
        return MulticlassProblem(sparse.csr_array(X), y, 3, [[0, 1, 2], [0.5, 0, 1], [3, 0.1, 0]])
    if name == "binary":
        return BinaryProblem(X, np.where(y == 0, 1, -1))
    if name == "user":
        return StructuredProblem(ThreeClasses(), list(X), list(y))
    if name == "ranking":
        relevant = np.array([1, 0, 0, 1, 0, 0, 1, 1, 0, 0], dtype=bool)
        return RankingProblem(X, relevant, ranking_loss("ap"), np.array([0, 3, 6, 10]))
    rng = np.random.default_rng(1)
    psi = [np.vstack([np.zeros(5), rng.normal(size=(c, 5))]) for c in (1, 4, 2, 6, 3)]
    loss = [np.concatenate([[0.0], rng.random(len(p) - 1)]) for p in psi]
    return EnumeratedProblem(psi, loss)


MODELS = ["enumerated", "multiclass", "costs", "binary", "user", "ranking"]
LAM = 0.1


def all_corners(name):
    """(psi, loss) of every output of every block, from definitions."""
    model = make_model(name)
    X, y = data()
    if name == "enumerated":
        return list(zip(model.psi, model.loss, strict=True))
    if name in ("multiclass", "costs", "user"):
        costs = getattr(model, "costs", 1 - np.eye(3))
        eye = np.eye(3)
        return [(np.array([np.outer(eye[t] - eye[k], x).ravel() for k in range(3)]), costs[t]) for x, t in zip(X, y, strict=True)]
    if name == "binary":
        return [(np.array([0 * x, s * x]), np.array([0.0, 1.0])) for x, s in zip(X, model.y, strict=True)]
    corners = []
    for begin, end in zip(model.offsets[:-1], model.offsets[1:], strict=True):
        corners.append(ranking_corners(X[begin:end], model.relevant[0, begin:end] == 1, model.loss))
    return corners


def ranking_corners(X, relevant, loss):
    from itertools import permutations

    n_pos, n_neg = int(relevant.sum()), int((~relevant).sum())
    psis, losses = [], []
    for order in permutations(range(len(X))):
        ranked = relevant[list(order)]
        above = np.cumsum(~ranked)[ranked]
        psi = np.zeros(X.shape[1])
        for a, i in enumerate(order):
            for j in order[a + 1 :]:
                if not relevant[i] and relevant[j]:
                    psi += X[j] - X[i]
        psis.append(2 * psi / (n_pos * n_neg))
        losses.append(loss.value(above, n_neg))
    return np.array(psis), np.array(losses)


@lru_cache
def reference(name, bounds):
    """Optimum of the QP with every constraint written out."""
    return MarginProgram(all_corners(name), bounds=bounds).optimum(LAM, tol=1e-11)


SOLVERS = {
    "subgradient": Subgradient(average="rising", tol=1e-2, max_passes=5000),
    "fw": FrankWolfe(tol=1e-2, max_passes=5000),
    "one-slack": OneSlackCuttingPlane(tol=1e-5),
    "n-slack": NSlackCuttingPlane(tol=1e-4),
    "bcfw": BCFW(steps="fw", tol=1e-2),
    "bcfw uniform": BCFW(steps="fw", tol=1e-2, sampling="uniform"),
    "bcfw permutation": BCFW(steps="fw", tol=1e-2, sampling="permutation"),
    "bcfw hybrid": BCFW(steps="fw", tol=1e-2, hybrid=True),
    "pairwise": BCFW(tol=1e-5, steps="pairwise"),
    "away": BCFW(tol=1e-3, steps="away"),
    "all, cache": BCFW(tol=1e-4, steps="all", cache=10),
    "fw, cache": BCFW(steps="fw", tol=1e-2, cache=5),
    "bcpl": PartialLinearization(tol=1e-4, temperature=0.1, max_passes=5000),
    "pl": PartialLinearization(tol=2e-3, temperature=0.1, block=False, max_passes=5000),
    "bcpl at zero": PartialLinearization(tol=1e-2, temperature=0, max_passes=5000),
    "eg": ExponentiatedGradient(tol=1e-3, temperature=0.5, max_passes=20_000),
    "eg batch": ExponentiatedGradient(tol=3e-2, temperature=1.0, online=False, max_passes=20_000),
}
AVERAGING = ("bcpl", "pl", "bcpl at zero", "eg", "eg batch")


@pytest.mark.parametrize("bounds", [None, (-0.15, 0.3), (0.0, np.inf), (0.01, 0.08)])
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_trains_every_model(solver, model, bounds):
    problem = make_model(model)
    if solver in AVERAGING and model in ("user", "ranking"):
        with pytest.raises(TypeError, match=r"does not support what .* needs \(SupportsExpectations\)"):
            SOLVERS[solver].solve(problem, LAM, bounds=bounds)
        return
    solution = SOLVERS[solver].solve(problem, LAM, bounds=bounds)
    optimum = reference(model, bounds)
    assert solution.converged and solution.certified, solution
    assert solution.gap <= SOLVERS[solver].tol * solution.primal
    assert solution.dual <= optimum.value + 1e-11 and optimum.bound <= solution.primal + 1e-11
    assert solution.primal - optimum.value <= solution.gap + 1e-11
    # The objective, computed from all outputs.
    hinges = [np.max(loss - psi @ solution.weights) for psi, loss in all_corners(model)]
    expected = LAM / 2 * solution.weights @ solution.weights + np.mean(hinges)
    assert solution.primal == pytest.approx(expected, rel=1e-10)
    if bounds is not None:
        assert (solution.weights >= bounds[0]).all() and (solution.weights <= bounds[1]).all()


class WatchedEngine:
    """The engine, visit after visit, with its dual objective after each."""

    duals: ClassVar[list] = []

    def __init__(self, data, lam, lower, upper, settings, start, transport):
        self.engine = _core.BlockEngine(data, lam, lower, upper, settings, start, transport)

    def __getattr__(self, name):
        return getattr(self.engine, name)

    def run(self, most_visits, most_calls, *goals):
        visits, calls, idle, reached = self.engine.run(min(1, most_visits), most_calls, *goals)
        self.duals.append(self.engine.dual)
        return visits, calls, idle, reached

    def settle(self, goal, most_visits):
        settled = self.engine.settle(goal, 1)
        self.duals.append(self.engine.dual)
        return settled

    def step_all(self, *step):
        calls = self.engine.step_all(*step)
        self.duals.append(self.engine.dual)
        return calls


@pytest.mark.parametrize("bounds", [None, (-0.15, 0.3)])
@pytest.mark.parametrize("hide", [False, True])
@pytest.mark.parametrize("solver", [name for name in SOLVERS if name not in ("subgradient", "eg", "eg batch")])
def test_dual_never_falls(solver, hide, bounds):
    problem = make_model("multiclass")
    if hide:
        problem = Averaging(problem) if solver in AVERAGING else Hidden(problem)
    WatchedEngine.duals.clear()
    with pytest.MonkeyPatch.context() as patch:
        watched = SimpleNamespace(BlockEngine=WatchedEngine, PythonOracle=_core.PythonOracle)
        patch.setattr("maxmargin.core.solvers.engine._core", watched)
        history = SOLVERS[solver].solve(problem, LAM, bounds=bounds).history
    assert len(WatchedEngine.duals) > 5 or solver == "one-slack"
    assert (np.diff(WatchedEngine.duals) >= -1e-12).all()
    assert (np.diff(history.dual) >= -1e-12).all() and (np.diff(history.primal) <= 0).all()
    assert min(history.gap) >= -1e-10


def test_gap_identities_at_random_dual_points():
    rng = np.random.default_rng(0)
    corners = all_corners("enumerated")
    n, d = len(corners), 5
    for bounds in (None, (np.full(d, -0.1), np.full(d, 0.2))):
        for lam in (10, 1, 0.1, 0.01):
            dual = Dual(n, d, lam, bounds)
            alphas = [rng.dirichlet(np.ones(len(loss))) for _, loss in corners]
            for i, (psi, loss) in enumerate(corners):
                dual.put(i, alphas[i] @ psi, alphas[i] @ loss)
            w = dual.weights
            gaps, primal = [], lam / 2 * w @ w
            for i, (psi, loss) in enumerate(corners):
                hinges = loss - psi @ w
                best = int(np.argmax(hinges))
                primal += hinges[best] / n
                gaps.append(dual.block_gap(i, w, *dual.corner(psi[best], loss[best])))
                assert gaps[-1] == pytest.approx((hinges[best] - alphas[i] @ hinges) / n, abs=1e-12)
            assert min(gaps) >= -1e-12
            assert sum(gaps) == pytest.approx(primal - dual.value, abs=1e-11)
            if bounds is not None:
                # The closed form equals the dual with the best multipliers, and no others do better.
                upper, lower = np.maximum(dual.v - bounds[1], 0), np.maximum(bounds[0] - dual.v, 0)
                for u, low in [(upper, lower), *((rng.random(d), rng.random(d)) for _ in range(20))]:
                    value = dual.l - lam / 2 * np.sum((dual.v - u + low) ** 2) - lam * (u @ bounds[1] - low @ bounds[0])
                    assert value <= dual.value + 1e-10
                    if u is upper:
                        assert value == pytest.approx(dual.value, abs=1e-10)


def test_batch_subgradient_is_frank_wolfe_with_fixed_steps():
    problem = make_model("multiclass")
    weights, t = np.zeros(problem.n_features), 1
    solution = Subgradient(average="rising", tol=1e-12, max_passes=40).solve(problem, LAM)
    values = []
    for _ in range(40):
        cuts = problem.cuts(range(problem.n_blocks), weights)
        values.append(LAM / 2 * weights @ weights + np.mean([c.hinge(weights) for c in cuts]))
        subgradient = LAM * weights - np.mean([c.psi for c in cuts], axis=0)
        weights = weights - 2 / (LAM * (t + 1)) * subgradient
        t += 1
    np.testing.assert_allclose(solution.history.primal, np.minimum.accumulate(values), rtol=1e-12)


def test_stochastic_subgradient_improves_and_stays_honest():
    solution = Subgradient(average="rising", batch_size=2, max_passes=400).solve(make_model("multiclass"), LAM)
    optimum = reference("multiclass", None)
    assert optimum.bound <= solution.primal <= 1.05 * optimum.bound
    assert solution.dual == 0 and not solution.converged


@pytest.mark.parametrize("lam", [1.0, 0.1, 0.01, 0.001])
def test_one_slack_meets_an_absolute_gap_at_every_regularization(lam):
    for epsilon in (1e-2, 1e-4):
        solution = OneSlackCuttingPlane(epsilon=epsilon).solve(make_model("multiclass"), lam)
        assert solution.converged and solution.gap <= epsilon


def test_binary_equals_liblinear():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 5))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=80) > 0, 1, -1)
    lam = 0.05
    ours = BCFW(steps="pairwise", tol=1e-7, max_passes=5000).solve(BinaryProblem(X, y), lam)
    svc = LinearSVC(loss="hinge", C=1 / (lam * 80), fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X, y)
    np.testing.assert_allclose(ours.weights, svc.coef_.ravel(), atol=1e-4)
    # Two classes of the multi-class model: W_1 = -W_2, and the difference is the binary solution at lambda / 2.
    two = BCFW(steps="pairwise", tol=1e-7, max_passes=5000).solve(MulticlassProblem(X, (y > 0).astype(int), 2), 2 * lam)
    W = two.weights.reshape(2, -1)
    np.testing.assert_allclose(W[0], -W[1], atol=1e-8)
    np.testing.assert_allclose(W[1] - W[0], ours.weights, atol=1e-3)


def test_multiclass_equals_crammer_singer():
    X, y = data()
    svc = LinearSVC(multi_class="crammer_singer", C=1 / (LAM * 10), fit_intercept=False, tol=1e-10, max_iter=1_000_000).fit(X, y)
    ours = OneSlackCuttingPlane(tol=1e-9).solve(make_model("multiclass"), LAM)
    np.testing.assert_allclose(ours.weights.reshape(3, -1), svc.coef_, atol=1e-4)


def test_zero_temperature_is_bcfw_and_full_steps_are_exponentiated_gradients():
    problem = make_model("multiclass")
    over = averages(problem)
    rng = np.random.default_rng(0)
    weights = rng.normal(size=problem.n_features)
    for block in range(problem.n_blocks):
        start = over.interior(block, 0.5)
        cold = over.average(block, over.tilt(block, start, weights, 1e-10))
        corner = problem.cut(block, weights)
        np.testing.assert_allclose(cold.psi, corner.psi, atol=1e-12)
        assert cold.loss == pytest.approx(corner.loss)
        exact = over.average(block, over.tilt(block, start, weights, 0))
        np.testing.assert_array_equal(exact.psi, corner.psi)
        # alpha exp(H / tau) / Z
        hinges = outputs_of(problem, block)[1] - outputs_of(problem, block)[0] @ weights
        expected = np.exp(start) * np.exp(hinges / 0.3)
        np.testing.assert_allclose(np.exp(over.tilt(block, start, weights, 0.3)), expected / expected.sum(), rtol=1e-12)
    # Warm enough, BCPL takes full steps: the two methods walk together.
    hot = problem.diameter() ** 2 / (4 * LAM * problem.n_blocks) * 1.01
    together = [
        solver.solve(problem, LAM).history.dual
        for solver in (
            PartialLinearization(temperature=hot, tol=1e-9, max_passes=40),
            ExponentiatedGradient(temperature=hot, step="fixed", tol=1e-9, max_passes=40),
        )
    ]
    np.testing.assert_allclose(together[0], together[1], rtol=1e-9)


def test_direction_identity_and_worked_example():
    """<alpha - s, gradient> = tau (KL(s, alpha) + KL(alpha, s)), and the numbers of the thesis' example."""
    psi = np.vstack([np.zeros(3), np.diag([2.0, 1.0, 3.0])])
    model = EnumeratedProblem([psi], [np.array([0.0, 1.0, 1.0, 0.0])])
    rng = np.random.default_rng(0)
    for temperature in (0.01, 0.3, 5.0):
        alpha = rng.dirichlet(np.ones(4))
        weights = alpha @ psi
        s = np.exp(model.tilt(0, np.log(alpha), weights, temperature))
        hinges = model.hinges(0, weights)
        kl = np.sum(s * np.log(s / alpha)) + np.sum(alpha * np.log(alpha / s))
        assert (s - alpha) @ hinges == pytest.approx(temperature * kl, rel=1e-9)
    # The feasible variant of the worked example: n = 1, lambda = 1, alpha = (0.125, 0.5, 0.375).
    A, b, alpha = np.diag([2.0, 1.0, 3.0]), np.array([1.0, 1.0, 0.0]), np.array([0.125, 0.5, 0.375])

    def objective(a):
        return -b @ a + 0.5 * np.sum((A @ a) ** 2)

    assert objective(alpha) == pytest.approx(0.1640625)
    hinges = b - A @ (A @ alpha)
    for temperature, expected, step, decrease in [
        (0.0, [1, 0, 0], 0.31741, 0.23062),
        (1.0, [0.1975, 0.7902, 0.0123], 1.0, 0.76086),
    ]:
        s = np.exp(tilt(np.log(alpha), hinges, temperature))
        np.testing.assert_allclose(s, expected, atol=1e-4)
        gamma = min(1.0, (s - alpha) @ hinges / np.sum((A @ (s - alpha)) ** 2))
        assert gamma == pytest.approx(step, abs=1e-4)
        assert objective(alpha) - objective(alpha + gamma * (s - alpha)) == pytest.approx(decrease, abs=1e-4)


def test_a_vertex_start_would_freeze():
    problem = make_model("multiclass")
    vertex = np.full(3, -np.inf)
    vertex[problem.y[0]] = 0.0
    frozen = averages(problem).tilt(0, vertex, np.ones(problem.n_features), 0.1)
    np.testing.assert_array_equal(frozen, vertex)
    assert np.isfinite(averages(problem).interior(0, 1e-3)).all()


def test_heuristic_stop_is_not_certified_and_saves_passes():
    problem = make_model("multiclass")
    quick = BCFW(stop="heuristic", tol=1e-2).solve(problem, LAM)
    sure = BCFW(tol=1e-2).solve(problem, LAM)
    assert not quick.certified and quick.converged and sure.certified
    assert quick.passes < sure.passes


def test_warm_starts():
    problem = make_model("multiclass")
    for solver in (BCFW(tol=1e-2), BCFW(tol=1e-4, steps="pairwise"), FrankWolfe(tol=1e-2, max_passes=5000),
                   OneSlackCuttingPlane(tol=1e-6), PartialLinearization(tol=1e-3, temperature=0.1)):  # fmt: skip
        first = solver.solve(problem, LAM)
        again = solver.solve(problem, LAM, start=first)
        assert again.converged and again.passes < first.passes
        other = solver.solve(problem, LAM * 0.8, start=first)
        cold = solver.solve(problem, LAM * 0.8)
        assert other.converged and other.primal == pytest.approx(cold.primal, rel=2e-2)
        # Of other data nothing is known, whatever their shape.
        X, y = data()
        for other in (make_model("enumerated"), MulticlassProblem(X + 1, y, 3)):
            with pytest.raises(ValueError, match=r"^start belongs to other data: .*; leave it out, or pass"):
                solver.solve(other, LAM, start=first)


def test_budgets_callbacks_and_interruption():
    problem = make_model("multiclass")
    for solver in (BCFW, FrankWolfe, OneSlackCuttingPlane, NSlackCuttingPlane, PartialLinearization):
        limited = solver(tol=1e-12, max_passes=2).solve(problem, 1e-3)
        assert limited.status == "max_passes" and not limited.converged and limited.certified
        assert solver(tol=1e-12, time_limit=1e-9).solve(problem, 1e-3).status == "time_limit"
        stopped = solver(tol=1e-12, callback=lambda history: len(history) >= 2).solve(problem, 1e-3)
        assert stopped.status == "callback" and len(stopped.history) == 2

    class Interrupted(MulticlassProblem):
        calls = 0

        def cuts(self, blocks, weights):
            self.calls += len(blocks)
            if self.calls > 250:
                raise KeyboardInterrupt
            return super().cuts(blocks, weights)

    X, y = data()
    solution = BCFW(tol=1e-12).solve(Interrupted(X, y, 3), LAM)
    assert solution.status == "interrupted" and solution.certified
    optimum = reference("multiclass", None)
    assert solution.dual <= optimum.value and optimum.bound <= solution.primal


def test_same_seed_same_run():
    problem = make_model("multiclass")
    runs = [BCFW(tol=1e-4, random_state=seed).solve(problem, LAM) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].weights, runs[1].weights)
    assert not np.array_equal(runs[0].weights, runs[2].weights)


def test_gap_sampling_needs_no_more_passes_than_uniform():
    """On blocks of very different difficulty, summed over ten seeds."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * np.concatenate([np.full(50, 0.05), np.full(10, 3.0)])[:, None]
    problem = MulticlassProblem(X, rng.integers(0, 3, 60), 3)
    passes = {
        sampling: sum(BCFW(sampling=sampling, tol=1e-2, random_state=seed).solve(problem, 0.01).passes for seed in range(10))
        for sampling in ("gap", "uniform")
    }
    assert passes["gap"] < passes["uniform"]


def test_edge_cases():
    # One block; one output only; all losses zero; a violation no weights can mend; zero features; duplicates.
    zero = np.zeros((1, 2))
    trivial = EnumeratedProblem([zero], [np.zeros(1)])
    stuck = EnumeratedProblem([np.zeros((2, 2))], [np.array([0.0, 1.0])])
    X, y = data()
    twins = MulticlassProblem(np.vstack([X, X, 0 * X]), np.concatenate([y, y, y]), 3)
    for solver in (BCFW(), BCFW(steps="all", cache=3), FrankWolfe(max_passes=5000), OneSlackCuttingPlane(), NSlackCuttingPlane(),
                   PartialLinearization()):  # fmt: skip
        done = solver.solve(trivial, 1.0)
        assert done.converged and done.primal == 0 and not done.weights.any()
        assert solver.solve(stuck, 1.0).primal == pytest.approx(1.0)
        assert solver.solve(twins, LAM).converged
    single = MulticlassProblem(X, np.zeros(10, dtype=int), 1)
    assert BCFW().solve(single, 1.0).primal == 0


class Wrong(ThreeClasses):
    """An oracle that sometimes returns a bad output."""

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        return int(np.argmin(weights.reshape(3, -1) @ x))


def test_a_wrong_oracle_is_noticed():
    X, y = data()
    # By the compiled engine, and where cuts are checked one by one.
    for solver in (BCFW(max_passes=30), OneSlackCuttingPlane(max_passes=30)):
        with pytest.warns(InexactOracleWarning, match="outputs that violate the margin less than the truth"):
            solution = solver.solve(StructuredProblem(Wrong(), list(X), list(y)), 0.01)
        assert not solution.certified

    class Modest(ThreeClasses):
        exact = False

    assert not BCFW().solve(StructuredProblem(Modest(), list(X), list(y)), LAM).certified


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: BCFW().solve(p, 0), "regularization=0 must be a positive number"),
        (lambda p: BCFW().solve(p, np.nan), "regularization=nan"),
        (lambda p: BCFW().solve(p, 1, bounds=(1, 0)), "bounds are contradictory"),
        (lambda p: BCFW().solve(p, 1, bounds=(np.zeros(3), 1)), "bounds must be numbers or arrays of shape"),
        (lambda p: BCFW().solve(p, 1, bounds=(np.nan, 1)), "bounds must not contain NaN"),
        (lambda p: BCFW(sampling="random"), "sampling='random' is unknown"),
        (lambda p: BCFW(steps="big"), "steps='big' is unknown"),
        (lambda p: BCFW(stop="never"), "stop='never' is unknown"),
        (lambda p: BCFW(steps="away", hybrid=True), "hybrid=True needs steps='fw'"),
        (lambda p: PartialLinearization(temperature=-1).solve(p, 1), "temperature=-1 must not be negative"),
        (lambda p: ExponentiatedGradient(temperature=0).solve(p, 1), "temperature=0 must be positive"),
        (lambda p: ExponentiatedGradient(step="none").solve(p, 1), "step='none' is unknown"),
        (lambda p: Subgradient(average="rising", batch_size=0).solve(p, 1), "batch_size=0 must be positive"),
        (lambda p: MulticlassProblem(np.ones((3, 2)), np.zeros(2, int), 2), "X has 3 samples, but y has 2"),
        (lambda p: MulticlassProblem(np.ones((2, 2)), np.array([0, 2]), 2), "y must lie between 0 and 1"),
        (lambda p: MulticlassProblem(np.ones((1, 2)), np.zeros(1, int), 2, [[1, 1], [1, 0]]), r"costs\[0, 0\]=1 must be zero"),
        (lambda p: MulticlassProblem(np.ones((1, 2)), np.zeros(1, int), 2, [[0, -1], [1, 0]]), "costs must be finite and not"),
        (lambda p: MulticlassProblem(np.ones((1, 2)), np.zeros(1, int), 2, np.zeros((3, 3))), r"costs has shape \(3, 3\)"),
        (lambda p: BinaryProblem(np.ones((1, 2)), np.array([0])), "only -1 and"),
        (lambda p: EnumeratedProblem([np.ones((2, 2))], [np.ones(2)]), "truth must be among the outputs"),
        (lambda p: StructuredProblem(ThreeClasses(), [np.ones(2)], []), "X has 1 samples, but Y has 0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call(make_model("multiclass"))


def test_solvers_are_plain_values():
    assert BCFW(tol=1e-2) == BCFW(tol=1e-2) and isinstance(BCFW(), Solver)
    assert "steps='pairwise'" in repr(BCFW())
