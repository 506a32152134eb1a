"""Probabilities from scores: the sigmoid of Platt, fitted as Lin, Lin and Weng (2007) do, and isotonic regression.

What a calibration is, and what it makes of scores, is in :func:`maxmargin.core.calibrated.probabilities`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import expit, log_expit
from sklearn.isotonic import IsotonicRegression

from maxmargin._utils import Booleans, Floats
from maxmargin.core import probabilities

__all__ = [
    "KINDS", "calibrate", "check_calibration", "fit_sigmoid", "isotonic", "probabilities", "score_of", "targets_of",
]  # fmt: skip

KINDS = ("sigmoid", "isotonic")


def calibrate(kind: str, scores: Floats, relevant: Booleans) -> Floats:
    """The calibration of scores whose labels are known, never a falling one.

    Examples
    --------
    >>> scores = np.array([-2.0, -1.0, 0.0, 1.0, 2.0])
    >>> sigmoid = calibrate("sigmoid", scores, scores > 0)
    >>> np.round(probabilities(sigmoid, scores), 1)
    array([0.1, 0.2, 0.4, 0.6, 0.8])
    """
    return isotonic(scores, relevant.astype(float)) if kind == "isotonic" else _sigmoid(scores, relevant)


def isotonic(scores: Floats, shares: Floats, weights: Floats | None = None) -> Floats:
    """The calibration that never falls and is nearest to shares of positives, which have weights."""
    fitted = IsotonicRegression(y_min=0.0, y_max=1.0, out_of_bounds="clip").fit(scores, shares, weights)
    return np.array([fitted.X_thresholds_, fitted.y_thresholds_])


def score_of(calibration: Floats, probability: float) -> float:
    """Scores above it have more than this probability; infinite if there are none, or none below."""
    if calibration.ndim == 1:
        slope, offset = calibration
        wanted = np.log(probability) - np.log1p(-probability)
        if slope == 0:
            return float(-np.inf if offset > wanted else np.inf)
        return float((wanted - offset) / slope)
    at, values = calibration
    if values[-1] <= probability:
        return float("inf")
    if values[0] > probability:
        return float("-inf")
    k = int(np.searchsorted(values, probability, side="right"))
    share = (probability - values[k - 1]) / (values[k] - values[k - 1])
    return float(at[k - 1] + share * (at[k] - at[k - 1]))


def check_calibration(calibration: Floats) -> None:
    """Complain about an array that is no calibration."""
    if not isinstance(calibration, np.ndarray) or calibration.dtype != np.float64 or not np.isfinite(calibration).all():
        raise ValueError("calibration_ must be finite numbers")
    if calibration.shape == (2,):
        if calibration[0] < 0:
            raise ValueError("calibration_ is a sigmoid that falls")
        return
    if calibration.ndim != 2 or len(calibration) != 2 or calibration.shape[1] < 1:
        raise ValueError(f"calibration_ has shape {calibration.shape}, but must have (2,) or (2, m)")
    at, values = calibration
    if (np.diff(at) < 0).any() or (np.diff(values) < 0).any() or values[0] < 0 or values[-1] > 1:
        raise ValueError("calibration_ must have ascending scores and ascending probabilities")


def _sigmoid(scores: Floats, relevant: Booleans) -> Floats:
    positive, n = int(np.count_nonzero(relevant)), len(relevant)
    targets = np.where(relevant, *targets_of(positive, n))
    spread, center = float(scores.std()), float(scores.mean())
    rows = np.column_stack([(scores - center) / (spread if spread > 0 else 1.0), np.ones(n)])

    def sums(at: Floats) -> tuple[float, Floats, Floats]:
        linear = rows @ at
        p = expit(linear)
        loss = float(-(targets * log_expit(linear) + (1 - targets) * log_expit(-linear)).sum())
        return loss, rows.T @ (p - targets), (rows * (p * (1 - p))[:, None]).T @ rows

    return fit_sigmoid(positive, n, center, spread, sums)


def targets_of(positive: int, n: int) -> tuple[float, float]:
    """What positives and negatives are to have: drawn a little towards the middle, as if each class had a sample more."""
    return (positive + 1) / (positive + 2), 1 / (n - positive + 2)


def fit_sigmoid(
    positive: int, n: int, center: float, spread: float, sums: Callable[[Floats], tuple[float, Floats, Floats]]
) -> Floats:
    """Slope and offset by Newton's method.

    Parameters
    ----------
    positive, n : int
        Positives, and all samples.
    center, spread : float
        Mean and standard deviation of the scores.
    sums : callable
        Logistic loss of ``at[0] * (score - center) / spread + at[1]`` towards :func:`targets_of`, its gradient and its Hessian.
    """
    flat = np.array([0.0, float(np.log(positive + 1) - np.log(n - positive + 1))])
    if not spread > 0:
        return flat
    at = flat
    value, gradient, hessian = sums(at)
    for _ in range(100):
        direction = np.linalg.solve(hessian + 1e-12 * np.eye(2), gradient)
        slope, length = float(gradient @ direction), 1.0
        if slope < 1e-10:
            break
        found = sums(at - direction)
        while length > 1e-10 and found[0] > value - 1e-4 * length * slope:
            length *= 0.5
            found = sums(at - length * direction)
        at, (value, gradient, hessian) = at - length * direction, found
    if at[0] <= 0:
        # Scores that rank the wrong way round tell nothing.
        return flat
    return np.array([at[0] / spread, at[1] - at[0] * center / spread])
