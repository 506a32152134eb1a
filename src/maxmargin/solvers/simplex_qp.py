"""The small dual problem of cutting planes: a convex quadratic on a scaled simplex, by an active set.

``min 1/2 a'Ha - b'a  subject to  a >= 0, sum(a) = total``. Solutions are sparse, one cut is added at a time and the
previous solution is a good start, so a method that moves between small supports beats general QP codes here, and is
exact to rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class SimplexQP:
    """Grows with its cuts: the Gram matrix ``H`` and linear term ``b`` are kept in place and extended.

    Parameters
    ----------
    total : float
        What the variables add up to.
    """

    def __init__(self, total: float) -> None:
        self.total = total
        self._gram = np.zeros((16, 16))
        self._linear = np.zeros(16)
        self._size = 0
        self.solution: Floats = np.zeros(0)

    @classmethod
    def of(cls, gram: Floats, linear: Floats, start: Floats) -> SimplexQP:
        """A problem given as a whole, with a feasible point to start from."""
        qp = cls(float(start.sum()))
        qp._gram, qp._linear, qp._size, qp.solution = gram.copy(), linear.copy(), len(linear), start.copy()
        return qp

    def __len__(self) -> int:
        return self._size

    @property
    def gram(self) -> Floats:
        """``H``, shape (m, m)."""
        return self._gram[: self._size, : self._size]

    @property
    def linear(self) -> Floats:
        """``b``, shape (m,)."""
        return self._linear[: self._size]

    def add(self, products: Floats, linear: float) -> None:
        """Append a variable, given its row of ``H`` (its own diagonal entry last) and its entry of ``b``."""
        m = self._size
        if m == len(self._linear):
            self._gram = np.pad(self._gram, ((0, m), (0, m)))
            self._linear = np.pad(self._linear, (0, m))
        self._gram[m, : m + 1] = products
        self._gram[: m + 1, m] = products
        self._linear[m] = linear
        self._size = m + 1
        self.solution = np.append(self.solution, self.total if m == 0 else 0.0)

    def keep(self, kept: NDArray[np.intp]) -> None:
        """Drop all variables but the given ones; dropped ones must be zero in the solution."""
        self._gram[: len(kept), : len(kept)] = self._gram[np.ix_(kept, kept)]
        self._linear[: len(kept)] = self._linear[kept]
        self._size = len(kept)
        self.solution = self.solution[kept]

    @property
    def value(self) -> float:
        """Objective of the maximisation, ``b'a - 1/2 a'Ha``."""
        a = self.solution
        return float(self.linear @ a - 0.5 * a @ (self.gram @ a))

    def solve(self) -> Floats:
        """Solve from the last solution on; returns the variables, shape (m,)."""
        gram, linear, a = self.gram, self.linear, self.solution
        support = [int(k) for k in np.flatnonzero(a > 0)]
        scale = max(float(np.max(np.abs(linear))), float(np.max(np.abs(np.diagonal(gram)))) * self.total, 1e-300)
        # A ridge far below rounding of the result: duplicates of a cut would make the system singular.
        size = float(np.max(np.diagonal(gram)))
        if size * self.total <= 1e-15 * scale:
            # Linear up to rounding: all on the best variable.
            a[:] = 0.0
            a[int(np.argmax(linear))] = self.total
            return a
        ridge = 1e-13 * size
        for _ in range(50 * (self._size + 1)):
            target = self._on_support(support, ridge)
            direction = target - a[support]
            shrinking = direction < 0
            room = np.divide(-a[support], direction, out=np.full(len(support), np.inf), where=shrinking)
            step = min(1.0, float(room.min(initial=np.inf)))
            a[support] += step * direction
            if step < 1.0:
                # Something hit zero: leave it out and solve again.
                blocking = {support[k] for k in np.flatnonzero(room <= step)}
                for k in blocking:
                    a[k] = 0.0
                support = [k for k in support if k not in blocking]
                continue
            gradient = gram @ a - linear
            entering = int(np.argmin(gradient))
            level = float(gradient[support] @ a[support]) / self.total
            if gradient[entering] >= level - 1e-14 * scale or entering in support:
                break
            support.append(entering)
        np.maximum(a, 0.0, out=a)
        a *= self.total / a.sum()
        return a

    def _on_support(self, support: list[int], ridge: float) -> Floats:
        """Minimiser over the plane ``sum = total`` with only the support free."""
        m = len(support)
        system = np.empty((m + 1, m + 1))
        system[:m, :m] = self.gram[np.ix_(support, support)]
        system[np.arange(m), np.arange(m)] += ridge
        # The multiplier is scaled like the matrix, so that the system is well balanced.
        weight = float(np.max(np.diagonal(system)[:m]))
        system[m, :m] = system[:m, m] = weight
        system[m, m] = 0.0
        right = np.append(self.linear[support], weight * self.total)
        try:
            solution = np.linalg.solve(system, right)
        except np.linalg.LinAlgError:
            solution = np.linalg.lstsq(system, right, rcond=None)[0]
        return np.asarray(solution[:m], dtype=np.float64)
