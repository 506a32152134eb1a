"""The concave-convex procedure: the objective falls, bounds the risk, and reduces to the plain problem."""

import numpy as np
import pytest

from maxmargin import LatentStructuredSVM, MulticlassSVM
from maxmargin.structures import LatentClasses


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
    assert len(model.objectives_) > 2 and (falls <= 0).all() and falls[0] < 0
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
