"""The linear relaxation of Potts energies as a small linear program: no marginals of pairs, only how much two ends differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from maxmargin._utils import Floats, seconds_left
from maxmargin.labeling.energy import Energy

_OPTIONS = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}


def potts_program(energy: Energy, slope: float) -> tuple[Floats, float, float] | None:
    """Marginals, their cost ``sum unary . y + sum_e cost_e / 2 * sum_i |y_a(i) - y_b(i)|``, and a lower bound; None without time.

    Parameters
    ----------
    energy : Energy
        Weights are not negative; all tables cost ``slope`` off the diagonal. Unary costs may be infinite.
    slope : float

    Examples
    --------
    >>> y, value, bound = potts_program(Energy([[0, 2], [1, 1], [3, 0]], [(0, 1), (1, 2)], "potts"), 1.0)
    >>> y, value, bound
    (array([[1., 0.],
           [1., 0.],
           [0., 1.]]), 2.0, 2.0)
    """
    n, n_labels, n_edges = energy.n_nodes, energy.n_labels, len(energy.edges)
    allowed = np.isfinite(energy.unary)
    costs = 0.5 * slope * energy.weights
    eye, width = sparse.eye_array(n_labels), n * n_labels
    at = (np.repeat(np.arange(n_edges), 2), energy.edges.ravel())
    differences = sparse.csr_array((np.tile([1.0, -1.0], n_edges), at), shape=(n_edges, n))
    apart: Any = sparse.kron(differences, eye)
    # y_a(i) - y_b(i) = more - less, neither negative.
    one = sparse.eye_array(n_edges * n_labels)
    whole: Any = sparse.kron(sparse.eye_array(n), np.ones((1, n_labels)))
    matrix = sparse.block_array([[whole, None, None], [apart, -one, one]], format="csr")
    price = np.repeat(costs, n_labels)
    program = np.concatenate([np.where(allowed, energy.unary, 0.0).ravel(), price, price])
    right = np.concatenate([np.ones(n), np.zeros(n_edges * n_labels)])
    bounds = np.zeros((len(program), 2))
    bounds[:, 1] = np.inf
    bounds[:width, 1] = allowed.ravel()
    left = seconds_left()
    if left == 0:
        return None
    solve: Any = linprog
    options = _OPTIONS if left == np.inf else {**_OPTIONS, "time_limit": left}
    answer = solve(program, A_eq=matrix, b_eq=right, bounds=bounds, method="highs", options=options)
    if answer.status != 0:
        return None
    y = np.where(allowed, np.maximum(answer.x[:width].reshape(n, n_labels), 0.0), 0.0)
    y /= y.sum(axis=1, keepdims=True)
    # Whatever multipliers are, once they are within the costs they give a bound.
    given = answer.eqlin.marginals[n:].reshape(n_edges, n_labels)
    given = np.clip(given, -costs[:, None], costs[:, None])
    return y, potts_value(energy, slope, y), float((energy.unary - differences.T @ given).min(axis=1).sum())


def potts_value(energy: Energy, slope: float, y: Floats) -> float:
    """What the linear relaxation of a Potts energy costs at given marginals of nodes."""
    linear = float(np.sum(np.multiply(y, energy.unary, where=y > 0, out=np.zeros_like(y))))
    ends = y[energy.edges]
    return linear + 0.5 * slope * float(energy.weights @ np.abs(ends[:, 0] - ends[:, 1]).sum(axis=1))
