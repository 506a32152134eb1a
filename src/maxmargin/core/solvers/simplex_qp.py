"""The small dual problem of cutting planes: a convex quadratic on a scaled simplex, by an active set.

``min 1/2 a'Ha - b'a  subject to  a >= 0, sum(a) = total``. Solutions are sparse, one cut is added at a time and the
previous solution is a good start, so a method that moves between small supports beats general QP codes here, and is
exact to rounding. Variables of linear constraints on the weights stand beside the simplex: they are not in the sum.
"""

from __future__ import annotations

import numpy as np

from maxmargin import _core
from maxmargin._utils import Booleans, Floats


class SimplexQP(_core.SimplexQP):
    """Grows with its cuts: the Gram matrix ``H``, the linear term ``b`` and a factor of the support of the solution are kept.

    Parameters
    ----------
    total : float or SimplexQP
        What the variables add up to; or a problem to copy.

    Examples
    --------
    >>> qp = SimplexQP(1.0)
    >>> qp.add(np.array([2.0]), 0.0)
    >>> qp.add(np.array([0.0, 1.0]), 0.5)
    >>> qp.solve()
    >>> qp.solution.round(3), round(qp.value, 3)
    (array([0.167, 0.833]), 0.042)
    """

    @classmethod
    def of(cls, total: float, gram: Floats, linear: Floats, start: Floats, in_sum: Booleans | Floats | None = None) -> SimplexQP:
        """A problem given as a whole, with a feasible point to start from."""
        qp = cls(total)
        for k in range(len(linear)):
            qp.add(np.ascontiguousarray(gram[k, : k + 1]), float(linear[k]), in_sum is None or bool(in_sum[k]))
        qp.set_solution(np.ascontiguousarray(start))
        return qp

    def __reduce__(self) -> tuple[object, ...]:
        return SimplexQP.of, (self.total, self.gram, self.linear, self.solution, self.in_sum)
