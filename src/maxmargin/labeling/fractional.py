"""Fractional labelings: how much of every label a node has, and what they cost on average once they are rounded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike

from maxmargin import _core
from maxmargin._utils import Floats, check_choice
from maxmargin.labeling.energy import Energy
from maxmargin.labeling.spreads import check_sums

# Sums of a node's marginals may be so far from 1: solvers and networks in single precision are. Rows are divided by their sums
# then, since what is too much or too little would count beside large costs.
_SUM, _ROUNDED = 1e-5, 1e-12


@dataclass(frozen=True, eq=False)
class FractionalLabeling:
    """How much of every label the nodes have, and what is proved of it.

    Parameters
    ----------
    marginals : array of shape (N, L), or (H, W, L) of a grid
        Not negative; those of a node add up to 1.

    Attributes
    ----------
    marginals : array of shape (N, L)
    value : float or None
        What the relaxation costs at this point, which is one of its points; None if it is not known.
    lower_bound : float or None
        No labels have less energy, but for rounding; None if nothing is proved.
    certified : bool
        Whether no point of the relaxation costs less than ``value``, up to the tolerance that was asked for, and that is proved.
    method : str
    history : tuple of float
        Values on the way.
    bounds : tuple of float
        Lower bounds on the way; they never fall.
    shape : tuple
        Of labelings: ``(N,)``, or that of the grid.
    seconds : float
    status : {"converged", "max_iter", "time_limit", "interrupted"}
    message : str
        What there is to say about it.

    Examples
    --------
    >>> half = FractionalLabeling([[0.5, 0.5], [1.0, 0.0]])
    >>> half
    FractionalLabeling(2 nodes, 2 labels, 1 fractional)
    >>> FractionalLabeling([[0.5, 0.6]])
    Traceback (most recent call last):
        ...
    ValueError: marginals[0] add up to 1.1, not to 1; divide every row by its sum
    """

    marginals: Floats
    value: float | None = None
    lower_bound: float | None = None
    certified: bool = False
    method: str = "given"
    history: tuple[float, ...] = ()
    bounds: tuple[float, ...] = ()
    shape: tuple[int, ...] = field(default=())
    seconds: float = 0.0
    status: str = "converged"
    message: str = ""

    def __post_init__(self) -> None:
        given = np.asarray(self.marginals)
        checked = check_marginals(given)
        object.__setattr__(self, "marginals", checked)
        if not self.shape:
            object.__setattr__(self, "shape", given.shape[:-1])
        if int(np.prod(self.shape)) != len(checked):
            raise ValueError(f"shape={self.shape} is not that of the {len(checked)} nodes of marginals; leave it out")

    @property
    def n_nodes(self) -> int:
        """Nodes."""
        return len(self.marginals)

    @property
    def n_labels(self) -> int:
        """Labels."""
        return int(self.marginals.shape[1])

    @property
    def is_integral(self) -> bool:
        """Whether every node has one label."""
        return self.n_fractional == 0

    @property
    def n_fractional(self) -> int:
        """Nodes with more than one label, by more than a millionth."""
        return int(np.count_nonzero(self.marginals.max(axis=1) < 1 - 1e-6))

    def __repr__(self) -> str:
        parts = [f"{self.n_nodes} nodes", f"{self.n_labels} labels", f"{self.n_fractional} fractional"]
        if self.value is not None:
            parts.append(f"value={self.value:.6g}" + (", the least" if self.certified else ""))
        if self.lower_bound is not None and not self.certified:
            parts.append(f"at least {self.lower_bound:.6g}")
        return f"FractionalLabeling({', '.join(parts + [f'method={self.method!r}'] * (self.method != 'given'))})"


def check_marginals(marginals: ArrayLike, name: str = "marginals") -> Floats:
    """Marginals as a float64 array of shape (N, L); whatever is not one is refused."""
    array = np.asarray(marginals)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be real numbers, but has dtype {array.dtype}")
    if array.ndim < 2 or 0 in array.shape:
        raise ValueError(f"{name} must have shape (N, L), or (H, W, L) of a grid, but has shape {array.shape}")
    flat = np.ascontiguousarray(array, dtype=np.float64).reshape(-1, array.shape[-1])
    sums = flat.sum(axis=1)
    if flat.min() >= 0 and (away := np.abs(sums - 1).max()) <= _SUM:
        return flat if away <= _ROUNDED else flat / sums[:, None]
    for bad, remedy in (
        (~np.isfinite(flat), "every entry must be a number from 0 to 1"),
        (flat < 0, "set what rounding made negative to 0 and divide every row by its sum"),
    ):
        if bad.any():
            node, label = (int(k) for k in np.argwhere(bad)[0])
            raise ValueError(f"{name}[{_place(node, array.shape)}, {label}] = {flat[node, label]:g}; {remedy}")
    wrong = int(np.flatnonzero(np.abs(sums - 1) > _SUM)[0])
    raise ValueError(f"{name}[{_place(wrong, array.shape)}] add up to {sums[wrong]:.7g}, not to 1; divide every row by its sum")


def marginals_for(fractional: FractionalLabeling | ArrayLike, energy: Energy, name: str = "fractional") -> Floats:
    """Marginals of shape (N, L) that fit an energy of nodes and edges."""
    if not isinstance(energy, Energy):
        raise TypeError(f"energy must be an Energy, but is a {type(energy).__name__}; make it by Energy(unary, edges, pairwise)")
    if energy.cliques:
        raise ValueError(
            f"energy has {sum(map(len, energy.cliques))} cliques, which have no fractional part here; "
            "leave them out by energy.replaced(cliques=())"
        )
    given: Any = fractional
    values = given.marginals if isinstance(given, FractionalLabeling) else check_marginals(given, name)
    shapes = [(energy.n_nodes, energy.n_labels), (*energy.shape, energy.n_labels)]
    shape = np.shape(given)
    if isinstance(given, FractionalLabeling):
        # Grids of as many nodes may still be others.
        both_grids = len(given.shape) > 1 and len(energy.shape) > 1
        shape = (*given.shape, given.n_labels) if both_grids else values.shape
    if shape not in shapes:
        wanted = " or ".join(str(shape) for shape in dict.fromkeys(shapes))
        raise ValueError(f"{name} has shape {shape}, but the energy needs {wanted}: a row for every node")
    return values


def check_not_negative(name: str, value: float | None) -> None:
    """Complain about what is neither None nor a number from 0 on."""
    if value is not None and (not isinstance(value, int | float | np.number) or not value >= 0):
        raise ValueError(f"{name}={value!r} must be a number that is not negative, or None")


def generator(random_state: Any) -> np.random.Generator:
    """Where lots come from."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(f"random_state={random_state!r} must be an integer that is not negative, a Generator, or None") from None


@overload
def expected_energy(
    fractional: FractionalLabeling | ArrayLike, energy: Energy, *, gradient: Literal[False] = False, method: str = "complete"
) -> float: ...
@overload
def expected_energy(
    fractional: FractionalLabeling | ArrayLike, energy: Energy, *, gradient: Literal[True], method: str = "complete"
) -> tuple[float, Floats]: ...
def expected_energy(
    fractional: FractionalLabeling | ArrayLike, energy: Energy, *, gradient: bool = False, method: str = "complete"
) -> float | tuple[float, Floats]:
    """The mean energy of the labels that rounding draws, exactly.

    Parameters
    ----------
    fractional : FractionalLabeling, or array of shape (N, L) or (H, W, L)
        How much of every label the nodes have.
    energy : Energy
        Without cliques. Any pairwise tables, one for all edges or one for each.
    gradient : bool
        Return the gradient too.
    method : {"complete", "independent"}
        Complete rounding draws one number for all nodes, so that neighbours with equal marginals get equal labels; it takes
        ``O(L)`` time per edge, whatever the table. With ``"independent"`` every node draws for itself, as nobody should
        round; its mean is what the quadratic relaxation makes small.

    Returns
    -------
    float, or (float, array of shape (N, L))
        The gradient of complete rounding is right for changes of a node's marginals that add up to zero, as all changes do that
        keep the sum: an amount per node is left open. Where cumulative sums of two neighbours are equal the mean has a kink, and
        the gradient is the mean of both sides. Labels that are forbidden have an infinite entry.

    Examples
    --------
    One number for both nodes: it makes them equal, or gives the first label 0 and the second label 1.

    >>> energy = Energy([[0.0, 0.0], [0.0, 0.0]], edges=[(0, 1)], pairwise="potts")
    >>> y = np.array([[0.75, 0.25], [0.25, 0.75]])
    >>> expected_energy(y, energy), expected_energy(y, energy, method="independent")
    (0.5, 0.625)
    >>> expected_energy(y, energy, gradient=True)[1]
    array([[ 1.,  0.],
           [-1.,  0.]])
    """
    check_choice("method", method, ("complete", "independent"))
    y = marginals_for(fractional, energy)
    terms = (y, energy.unary, energy.edges, energy.table, energy.weights)
    slopes = None
    if method == "independent":
        with np.errstate(over="ignore", invalid="ignore"):
            value, slopes = independent_energy(y, energy)
    elif gradient:
        value, slopes = _core.mean_energy_gradient(*terms)
    else:
        value = _core.mean_energy(*terms)
    if not np.isfinite(value):
        # Forbidden labels, or costs that are too large.
        check_sums(energy)
    return value if not gradient or slopes is None else (value, slopes)


def independent_energy(y: Floats, energy: Energy) -> tuple[float, Floats]:
    """``sum unary . y + sum_e weight_e y_a' table_e y_b``, and its gradient; a forbidden label that is absent costs nothing."""
    slopes = pairwise_slopes(y, energy)
    linear = float(np.sum(np.multiply(y, energy.unary, where=y > 0, out=np.zeros_like(y))))
    # Every edge is met from both of its ends.
    return linear + 0.5 * float(np.vdot(y, slopes)), slopes + energy.unary


def pairwise_slopes(y: Floats, energy: Energy) -> Floats:
    """``sum_e weight_e table_e y_b`` for every node and label, over the edges of the node."""
    total = np.zeros_like(y)
    if len(energy.edges) == 0:
        return total
    a, b = energy.edges.T
    if energy.table.ndim == 2:
        # One product for all nodes, then sums over neighbours, is less than one for every edge.
        from scipy.sparse import csr_array

        around = csr_array((energy.weights, (a, b)), shape=(len(y), len(y)))
        return np.asarray(around @ (y @ energy.table.T) + around.T @ (y @ energy.table))
    np.add.at(total, a, energy.weights[:, None] * np.einsum("eij,ej->ei", energy.table, y[b]))
    np.add.at(total, b, energy.weights[:, None] * np.einsum("eij,ei->ej", energy.table, y[a]))
    return total


def _place(node: int, shape: tuple[int, ...]) -> str:
    """A node as the caller wrote it."""
    return ", ".join(str(int(k)) for k in np.unravel_index(node, shape[:-1]))
