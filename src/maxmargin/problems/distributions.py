"""Distributions over a finite list of outputs, as log-probabilities: nothing underflows to a zero that could not grow."""

from __future__ import annotations

import numpy as np

from maxmargin._types import Floats


def log_normalize(values: Floats) -> Floats:
    """``values - log(sum(exp(values)))``."""
    top = values.max()
    return np.asarray(values - (top + np.log(np.sum(np.exp(values - top)))))


def near_vertex(size: int, vertex: int, mass: float) -> Floats:
    """Log-probabilities with all but ``mass`` on ``vertex``, the rest spread evenly."""
    result = np.full(size, np.log(mass / size))
    result[vertex] = np.log1p(-mass * (size - 1) / size)
    return result


def log_mix(values: Floats, other: Floats, step: float) -> Floats:
    """Logarithm of ``(1 - step) exp(values) + step exp(other)``."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.logaddexp(np.log1p(-step) + values, np.log(step) + other))


def tilt(values: Floats, hinges: Floats, temperature: float) -> Floats:
    """``values + hinges / temperature``, normalised; at temperature 0 the first best output alone."""
    if temperature == 0:
        result = np.full(len(hinges), -np.inf)
        result[int(np.argmax(hinges))] = 0.0
        return result
    return log_normalize(values + hinges / temperature)
