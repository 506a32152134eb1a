"""Figures of runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxmargin.core.solvers.solution import History
from maxmargin._utils import new_axes


def plot_history(history: History, ax: Axes | None = None) -> Axes:
    """Primal objective above, dual objective below, the certified gap between them."""
    ax = ax if ax is not None else new_axes()
    ax.plot(history.passes, history.primal, label="primal (upper bound)")
    ax.plot(history.passes, history.dual, label="dual (lower bound)")
    ax.fill_between(history.passes, history.dual, history.primal, alpha=0.15, label="gap")
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("objective")
    ax.legend()
    return ax
