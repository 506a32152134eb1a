"""Scores that stay on the shards: solvers add handles up, multiply them by numbers, and ask gradients for products with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from maxmargin._utils import Floats


class Root:
    """Weights whose scores the shards hold; they are dropped there when nobody refers to the root any more."""

    __slots__ = ("__weakref__", "number", "weights")

    def __init__(self, number: int, weights: Floats) -> None:
        self.number, self.weights = number, weights


Register = Callable[[Floats], Root]


class Scores:
    """A combination of roots: what ``X @ weights`` would be if it were anywhere.

    Parameters
    ----------
    terms : dict of Root to float
    register : callable
        Makes a root of weights.

    Examples
    --------
    >>> one, other = Root(0, np.array([1.0, 0.0])), Root(1, np.array([0.0, 1.0]))
    >>> register = lambda weights: Root(2, weights)
    >>> line = Scores({one: 1.0}, register) + 0.5 * (Scores({other: 1.0}, register) - Scores({one: 1.0}, register))
    >>> line.recipe()["roots"], line.recipe()["coefficients"], line.weights()
    (array([0, 1]), array([0.5, 0.5]), array([0.5, 0.5]))
    """

    # numpy's numbers would make an array of handles.
    __array_ufunc__ = None
    # A place after many searches is a combination of many roots; one of more than this becomes a root of its own.
    _MOST = 6

    def __init__(self, terms: dict[Root, float], register: Register) -> None:
        self.terms, self._register = terms, register

    def recipe(self) -> dict[str, Any]:
        """Numbers of the roots, rising, and their coefficients: the order of the sum is part of the result."""
        roots = sorted(self.terms, key=lambda root: root.number)
        numbers = np.array([root.number for root in roots], dtype=np.int64)
        return {"roots": numbers, "coefficients": np.array([self.terms[root] for root in roots], dtype=np.float64)}

    def weights(self) -> Floats:
        """What the scores are those of."""
        roots = sorted(self.terms, key=lambda root: root.number)
        total = self.terms[roots[0]] * roots[0].weights
        for root in roots[1:]:
            total = total + self.terms[root] * root.weights
        return np.asarray(total)

    def ravel(self) -> Self:
        """Itself."""
        return self

    def _settle(self) -> None:
        """Leave roots out that do not count; put a new one in the place of too many."""
        self.terms = {root: value for root, value in self.terms.items() if value != 0} or dict([next(iter(self.terms.items()))])
        if len(self.terms) > self._MOST:
            self.terms = {self._register(self.weights()): 1.0}

    def _plus(self, other: Scores, factor: float) -> Scores:
        terms = dict(self.terms)
        for root, value in other.terms.items():
            terms[root] = terms.get(root, 0.0) + factor * value
        return Scores(terms, self._register)

    def __add__(self, other: Scores) -> Scores:
        return self._plus(other, 1.0)

    def __sub__(self, other: Scores) -> Scores:
        # Every search begins with the difference of a target and its origin, so this is always at the same place of a run:
        # whatever becomes of workers, the bits are the same.
        other._settle()
        return self._plus(other, -1.0)

    def __mul__(self, factor: float) -> Scores:
        return Scores({root: float(factor) * value for root, value in self.terms.items()}, self._register)

    __rmul__ = __mul__

    def __neg__(self) -> Scores:
        return self * -1.0


class Point:
    """What a pass has found at some scores, and what can be asked for later.

    Attributes
    ----------
    scores : Scores
        A copy: those of the solver may be settled meanwhile.
    dots : dict of int to float
        Products of the gradient with the roots of the scores, by number.
    losses : list of float
        Of every shard, by which the gradient is known again.
    psi : array of shape (d,), optional
        The gradient as a sum of rows, once somebody has asked for it.
    """

    __slots__ = ("dots", "extra", "losses", "psi", "scores")

    def __init__(self, scores: Scores, dots: dict[int, float], losses: list[float], extra: Any = None) -> None:
        self.scores, self.dots, self.losses, self.extra = scores, dots, losses, extra
        self.psi: Floats | None = None


class Gradient:
    """The derivative of a mean hinge by scores on shards; a sign, and the point it belongs to. It is stored nowhere.

    Parameters
    ----------
    point : Point
    features : callable
        Asks the shards for the gradient of a point as a sum of rows.
    sign : {1, -1}
    """

    __array_ufunc__ = None

    def __init__(self, point: Point, features: Callable[[Point], Floats], sign: float = 1.0) -> None:
        self.point, self._features, self.sign = point, features, sign

    def psi(self) -> Floats:
        """The gradient as a sum of rows: by the shards, the first time."""
        if self.point.psi is None:
            self.point.psi = self._features(self.point)
        return self.sign * self.point.psi

    def ravel(self) -> Self:
        """Itself."""
        return self

    def __neg__(self) -> Gradient:
        return Gradient(self.point, self._features, -self.sign)

    def __matmul__(self, scores: Scores) -> float:
        # Where the sum of rows is known, the weights of the scores are all that is needed, and nobody is asked. The first slope
        # of a search is such a product: its target is newer than the gradient of its origin.
        known = self.point.dots
        if self.point.psi is None and all(root.number in known for root in scores.terms):
            roots = sorted(scores.terms, key=lambda root: root.number)
            return self.sign * float(sum(scores.terms[root] * known[root.number] for root in roots))
        return float(self.psi() @ scores.weights())
