"""Probabilities from scores by a calibration, which is an array.

Slope and offset of a sigmoid, shape (2,); or scores and the probabilities there, with straight lines in between, shape (2, m).
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from maxmargin._utils import Floats


def probabilities(calibration: Floats, scores: Floats) -> Floats:
    """Of the positive class, shape (n,).

    >>> probabilities(np.array([1.0, 0.0]), np.array([0.0])), probabilities(np.array([[0.0, 1.0], [0.2, 0.4]]), np.array([0.5]))
    (array([0.5]), array([0.3]))
    """
    if calibration.ndim == 1:
        return np.asarray(expit(calibration[0] * scores + calibration[1]))
    return np.asarray(np.interp(scores, calibration[0], calibration[1]))
