"""The concave-convex procedure: the objective falls, bounds the risk, and reduces to the plain problem."""

import warnings

import numpy as np
import pytest

from maxmargin import LatentRankingSVM, LatentStructuredSVM, MulticlassSVM
from maxmargin.core import Certificate, Cut, LatentProblem, concave_convex
from maxmargin.core.solvers import ConvergenceWarning, OneSlackCuttingPlane
from maxmargin.structured import LatentClasses
from maxmargin.surrogates import LatentStructuredProblem


def bags(n, rng, rows=6):
    """One row of each bag tells the class, the others are noise; where it stands is not said."""
    y = rng.integers(0, 3, n)
    X = [0.5 * rng.normal(size=(rows, 4)) for _ in range(n)]
    place = rng.integers(0, rows, n)
    for x, label, h in zip(X, y, place, strict=True):
        x[h, :3] += 2 * np.eye(3)[label]
        x[h, 3] += 1
    return X, y, place


class Strongest(LatentClasses):
    """Starts at the row that stands out, or at a random one."""

    def coarse(self, x):
        return None

    def start(self, x, y, rng):
        return int(np.argmax(np.linalg.norm(x, axis=1))) if rng.random() < 0.7 else int(rng.integers(len(x)))


def test_objective_falls_and_bounds_the_risk():
    rng = np.random.default_rng(0)
    X, y, place = bags(60, rng)
    model = LatentStructuredSVM(Strongest(3), C=0.1, tol=1e-4, random_state=0).fit(X, y)
    falls = np.diff(model.objectives_)
    assert len(model.objectives_) > 1 and (falls < 0).all()
    assert model.objective_ == pytest.approx(model.objectives_[-1])
    risk = model.objective_ - 0.5 * model.coef_ @ model.coef_
    assert risk / 0.1 / 60 >= 1 - model.score(X, y) - 1e-9
    # It finds the telling rows, and new bags, better than the first guess could.
    assert np.mean(np.array(model.hidden_) == place) > 0.8
    assert model.score(*bags(200, rng)[:2]) > 0.85
    assert model.certified_


def test_single_rows_are_the_plain_multiclass_svm():
    rng = np.random.default_rng(1)
    X, y, _ = bags(40, rng, rows=1)
    latent = LatentStructuredSVM(LatentClasses(3), C=1.0, tol=1e-6).fit(X, y)
    plain = MulticlassSVM(C=1.0, fit_intercept=False, tol=1e-6).fit(np.concatenate(X), y)
    np.testing.assert_allclose(latent.coef_.reshape(3, -1), plain.coef_, atol=1e-3)
    assert latent.objective_ == pytest.approx(plain.primal_objective_, rel=1e-5)


def test_several_starts_keep_the_best():
    X, y, _ = bags(30, np.random.default_rng(2))
    one = LatentStructuredSVM(Strongest(3), C=0.1, random_state=0).fit(X, y)
    many = LatentStructuredSVM(Strongest(3), C=0.1, random_state=0, n_starts=4).fit(X, y)
    assert many.objective_ <= one.objective_


def test_bad_input():
    X, y, _ = bags(3, np.random.default_rng(0))
    with pytest.raises(ValueError, match="X has 3 samples, but y has 2"):
        LatentStructuredSVM(LatentClasses(3)).fit(X, y[:2])
    with pytest.raises(ValueError, match="n_starts=0"):
        LatentStructuredSVM(LatentClasses(3), n_starts=0).fit(X, y)


# ---- where it starts -----------------------------------------------------------------------------------------------------------


def shifted_bags(seed, n=150):
    """Five rows of noise, one of them shifted by the mean of its class."""
    means = 2 * np.random.default_rng(seed).normal(size=(4, 6))
    for part in range(2):
        rng = np.random.default_rng(1000 * seed + part + 1)
        y, X = rng.integers(0, 4, n), rng.normal(size=(n, 5, 6))
        X[np.arange(n), rng.integers(0, 5, n)] += means[y]
        yield X, y


@pytest.mark.parametrize("seed", range(4))
def test_the_default_start_leads_somewhere(seed):
    """From the middle rows, and from random ones, weights of zero are all there is to find: accuracy 0.25."""
    train, test = shifted_bags(seed)
    model = LatentStructuredSVM(LatentClasses(4), C=0.1).fit(*train)
    assert model.score(*test) >= 0.66 and model.certified_
    lost = LatentStructuredSVM(Lost(4), C=0.1, random_state=0).fit(*train)
    assert lost.score(*test) < 0.4 and model.objective_ < 0.5 * lost.objective_


class Lost(LatentClasses):
    """Begins at random, for it knows no coarse inputs."""

    def coarse(self, x):
        return None


def test_starts_differ():
    (X, y), _ = shifted_bags(2)
    guesses = []

    class Watched(LatentClasses):
        def impute(self, x, y, weights):
            if x is X[0] or np.array_equal(x, X[0]):
                guesses.append(weights.copy())
            return super().impute(x, y, weights)

    model = LatentStructuredSVM(Watched(4), C=0.1, n_starts=3, random_state=0).fit(X, y)
    assert len(model.start_objectives_) == 3 and model.objective_ == min(model.start_objectives_)
    again = LatentStructuredSVM(LatentClasses(4), C=0.1, n_starts=3, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert len({tuple(weights) for weights in guesses}) > 3
    problem = LatentStructuredProblem(LatentClasses(4), X, y)
    rng = np.random.default_rng(0)
    random = [(problem.start(rng), tuple(problem.hidden))[1] for _ in range(3)]
    assert len(set(random)) == 3


# ---- the loop itself -----------------------------------------------------------------------------------------------------------


class Scripted(LatentProblem):
    """Rounds whose objectives are known beforehand, whatever is solved; weights are (round, start)."""

    n_blocks, n_features = 1, 2

    def __init__(self, *starts, descends=True):
        self.starts, self.descends = starts, descends
        self.number, self.round = -1, 0
        self.imputed = None

    def start(self, rng):
        self.number, self.round = self.number + 1, 0

    def impute(self, weights):
        self.imputed = weights.copy()
        return True

    def hinge(self, weights):
        return self.starts[int(weights[1])][int(weights[0])] - 0.5 * weights @ weights

    def cut(self, block, weights):
        return Cut(np.zeros(2), 0.0)

    def solve(self, problem, known, seconds):
        solution = OneSlackCuttingPlane().solve(self, 1.0)
        solution.weights = np.array([self.round, self.number], dtype=float)
        solution.certificate = Certificate(100.0 * self.number + self.round, 0.0, proved=True)
        self.round += 1
        return solution


def descend(problem, **options):
    return concave_convex(problem, 1.0, problem.solve, lambda start, rng: None, **options)


def test_a_round_that_got_worse_is_not_kept():
    problem = Scripted([9.0, 5.0, 7.0, 1.0])
    best, ends = descend(problem)
    assert best.objectives == [9.0, 5.0] and best.objective == 5.0 == ends[0] and best.settled
    # Weights, certificate and imputation are those of the round that was kept.
    np.testing.assert_array_equal(best.solution.weights, [1, 0])
    np.testing.assert_array_equal(problem.imputed, [1, 0])
    assert best.solution.primal == 1.0 and len(best.histories) == 2


def test_rounds_and_starts_end_where_they_should():
    best, ends = descend(Scripted([9.0, 5.0, 4.999, 1.0]), tol=1e-3)
    assert best.objectives == [9.0, 5.0, 4.999] and best.settled
    best, ends = descend(Scripted([9.0, 5.0, 3.0, 1.0]), max_rounds=2)
    assert best.objectives == [9.0, 5.0] and not best.settled
    best, ends = descend(Scripted([9.0, 8.0, 8.0], [7.0, 6.0, 6.5], [8.0, 7.0, 9.0]), n_starts=3)
    assert ends == [8.0, 6.0, 7.0] and best.objectives == [7.0, 6.0] and best.solution.primal == 101.0
    # Where the problem itself changes, objectives may rise.
    best, _ = descend(Scripted([*range(1, 30)], descends=False), max_rounds=400)
    assert best.objectives == [*range(1, 21)] and best.settled


@pytest.mark.parametrize("where", ["solve", "impute", "hinge"])
def test_an_interruption_keeps_the_best(where):
    class Interrupted(Scripted):
        interrupted = False

    def interrupt(self, *arguments):
        if self.number == 1 and self.round >= (1 if where == "solve" else 2) and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        return getattr(Scripted, where)(self, *arguments)

    setattr(Interrupted, where, interrupt)
    best, ends = descend(Interrupted([9.0, 8.0, 8.0], [7.0, 6.0, 6.5]), n_starts=5)
    assert ends == [8.0, 7.0] and best.objectives == [7.0]


def test_an_interruption_before_anything_is_known():
    class Interrupted(Scripted):
        def solve(self, *arguments):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        descend(Interrupted([1.0]))


@pytest.mark.parametrize("status", ["interrupted", "callback"])
def test_a_solver_that_was_stopped_ends_all_rounds(status):
    class Stopped(Scripted):
        def solve(self, *arguments):
            solution = super().solve(*arguments)
            solution.status = status if self.round == 2 else "converged"
            return solution

    for second in (5.0, 11.0):
        best, ends = descend(Stopped([9.0, second, 3.0], [1.0, 0.5]), n_starts=2)
        assert ends == [min(9.0, second)] and best.objective == min(9.0, second)


def test_time_ends_rounds_and_starts():
    X, y, _ = bags(30, np.random.default_rng(2))
    for model in (
        LatentStructuredSVM(Strongest(3), C=10.0, tol=1e-300, max_iter=10**9, time_limit=0.2, n_starts=1000),
        LatentStructuredSVM(
            Strongest(3), C=10.0, time_limit=0.2, n_starts=1000, solver=OneSlackCuttingPlane(tol=1e-300, max_passes=10**9)
        ),
        LatentRankingSVM(C=10.0, tol=1e-300, max_iter=10**9, time_limit=0.2, n_starts=1000),
    ):
        with warnings.catch_warnings():
            # Time may end between two convex problems, which then have nothing to warn of.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y == 0 if isinstance(model, LatentRankingSVM) else y)
        assert 1 <= len(model.start_objectives_) < 1000 and np.isfinite(model.coef_).all()


def test_objectives_are_those_of_the_weights():
    X, y, _ = bags(40, np.random.default_rng(3))
    for seed in range(3):
        model = LatentStructuredSVM(Strongest(3), C=0.3, random_state=seed, tol=1e-2).fit(X, y)
        scores = [model.coef_.reshape(3, -1) @ x.T for x in X]
        hinges = [np.max(s + (np.arange(3) != k)[:, None]) - np.max(s[k]) for s, k in zip(scores, y, strict=True)]
        expected = 0.5 * model.coef_ @ model.coef_ + 0.3 * sum(hinges)
        assert model.objective_ == pytest.approx(expected) == model.objectives_[-1]
        assert [int(np.argmax(s[k])) for s, k in zip(scores, y, strict=True)] == model.hidden_
        # The convex problem lies above, at the same weights.
        assert model.primal_objective_ >= expected * (1 - 1e-9)
