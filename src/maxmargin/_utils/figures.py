"""Figures with matplotlib, which is imported only when one is drawn (``pip install maxmargin[plot]``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils.atomic import replacing
from maxmargin._utils.types import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def new_axes(figsize: tuple[float, float] = (6.0, 4.0)) -> Axes:
    """Axes of a new figure, without the global state of pyplot."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it with: pip install 'maxmargin[plot]'") from error
    return Figure(figsize=figsize, layout="constrained").add_subplot()


def precision_recall(relevant: NDArray[Any], scores: NDArray[Any]) -> tuple[Floats, Floats]:
    """Recall and precision after each sample of the ranking, best first."""
    order = np.lexsort((relevant, -scores))
    hits = np.cumsum(relevant[order])
    return hits / hits[-1], hits / np.arange(1, len(hits) + 1)


def plot_precision_recall(curves: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], title: str, ax: Axes | None = None) -> Axes:
    """One precision-recall curve per name, from ``(relevant, scores)``; the dotted line is a random ranking."""
    ax = ax if ax is not None else new_axes((6.4, 4.8))
    chance = 0.0
    for name, (relevant, scores) in curves.items():
        recall, precision = precision_recall(relevant, scores)
        ax.plot(recall, precision, label=name, linewidth=1.6)
        chance = float(np.mean(relevant))
    ax.axhline(chance, linestyle=":", color="0.5", label="random")
    ax.set(xlabel="recall", ylabel="precision", title=title, xlim=(0, 1), ylim=(0, 1.02))
    ax.grid(alpha=0.3)
    ax.legend(loc="lower left")
    return ax


def plot_draws(energies: Mapping[str, ArrayLike], lower_bound: float | None = None, ax: Axes | None = None) -> Axes:
    """Energies of what roundings drew, a row for each: every draw, their mean (bar) and their minimum (dot)."""
    if not energies:
        raise ValueError("energies are empty; give an array for every rounding")
    found = {name: np.asarray(values, dtype=float) for name, values in energies.items()}
    for name, values in found.items():
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise ValueError(f"energies[{name!r}] must be an array of finite numbers, one for every draw; leave others out")
    ax = ax if ax is not None else new_axes((7.0, 1.2 + 0.55 * len(found)))
    rng = np.random.default_rng(0)
    for row, values in enumerate(found.values()):
        color = f"C{row % 10}"
        # Equal energies side by side, so that many of them look like many.
        ax.plot(values, row + rng.uniform(-0.25, 0.25, len(values)), ".", color=color, markersize=2, alpha=0.35)
        ax.plot([np.mean(values)] * 2, [row - 0.36, row + 0.36], color=color, linewidth=2.5)
        ax.plot(np.min(values), row, "o", color=color, markeredgecolor="black", markersize=7, zorder=3)
    least = min([float(np.min(values)) for values in found.values()] + ([] if lower_bound is None else [lower_bound]))
    # A few bad draws must not push all others together.
    most = max(float(np.quantile(values, 0.99)) for values in found.values())
    margin = 0.04 * (most - least) or 1.0
    beyond = sum(int(np.sum(values > most + margin)) for values in found.values())
    ax.set_xlim(least - margin, most + margin)
    if lower_bound is not None:
        ax.axvline(lower_bound, linestyle=":", color="0.4", label="lower bound")
        ax.legend(loc="lower right")
    ax.set_yticks(range(len(found)), list(found))
    ax.invert_yaxis()
    farther = f"; {beyond} draws are beyond" if beyond else ""
    ax.set_xlabel(f"energy (bar: mean, dot: minimum{farther})")
    return ax


def save_figure(ax: Axes, path: Path) -> None:
    """Write the figure in one step: an interrupted run leaves no broken file."""
    figure: Any = ax.figure
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:] or None)
