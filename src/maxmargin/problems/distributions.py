"""Distributions over a finite list of outputs, as log-probabilities: nothing underflows to a zero that could not grow."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from maxmargin._types import Floats
from maxmargin.problems.arrays import ArrayProblem


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


class ListedOutputs(ArrayProblem):
    """Blocks of which all outputs can be listed; distributions over them are arrays of log-probabilities."""

    @abstractmethod
    def hinges(self, block: int, weights: Floats) -> Floats:
        """Hinge of every output of a block."""

    @abstractmethod
    def _vertex(self, block: int) -> tuple[int, int]:
        """How many outputs there are, and which is the truth."""

    def interior(self, block: int, mass: float) -> Floats:
        """Log-probabilities close to the truth."""
        return near_vertex(*self._vertex(block), mass)

    def tilt(self, block: int, distribution: Floats, weights: Floats, temperature: float) -> Floats:
        """Log-probabilities moved toward violating outputs."""
        return tilt(distribution, self.hinges(block, weights), temperature)

    def mix(self, distribution: Floats, other: Floats, step: float) -> Floats:
        """Mixture of two distributions."""
        return log_mix(distribution, other, step)
