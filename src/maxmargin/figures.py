"""Figures with matplotlib, which is imported only when one is drawn (``pip install maxmargin[plot]``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._types import Floats
from maxmargin.storage import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxmargin.nn import RoundingEpoch
    from maxmargin.path import TracedPath
    from maxmargin.solvers import History


def _new_axes(figsize: tuple[float, float] = (6.0, 4.0)) -> Axes:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("figures need matplotlib; install it with: pip install 'maxmargin[plot]'") from error
    return Figure(figsize=figsize, layout="constrained").add_subplot()


def plot_history(history: History, ax: Axes | None = None) -> Axes:
    """Primal objective above, dual objective below, the certified gap between them."""
    ax = ax if ax is not None else _new_axes()
    ax.plot(history.passes, history.primal, label="primal (upper bound)")
    ax.plot(history.passes, history.dual, label="dual (lower bound)")
    ax.fill_between(history.passes, history.dual, history.primal, alpha=0.15, label="gap")
    ax.set_xlabel("passes over the data")
    ax.set_ylabel("objective")
    ax.legend()
    return ax


def precision_recall(relevant: NDArray[Any], scores: NDArray[Any]) -> tuple[Floats, Floats]:
    """Recall and precision after each sample of the ranking, best first."""
    order = np.lexsort((relevant, -scores))
    hits = np.cumsum(relevant[order])
    return hits / hits[-1], hits / np.arange(1, len(hits) + 1)


def plot_precision_recall(curves: Mapping[str, tuple[NDArray[Any], NDArray[Any]]], title: str, ax: Axes | None = None) -> Axes:
    """One precision-recall curve per name, from ``(relevant, scores)``; the dotted line is a random ranking."""
    ax = ax if ax is not None else _new_axes((6.4, 4.8))
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


# After Okabe and Ito, told apart by colour-blind readers; the reports use the same.
_HUES = ("#0072b2", "#d55e00", "#00805e", "#a8487c", "#e6a000", "#5b5fc7", "#56b4e9", "#59636e")


def plot_path(
    path: TracedPath,
    ax: Axes | None = None,
    *,
    selection: Any = None,
    training: Any = None,
    feature_names: Sequence[str] | None = None,
) -> Axes:
    """Weights over C; unless ``ax`` is given, above them the bounds of the objective and, of selections, scores and the best C.

    Parameters
    ----------
    path : TracedPath
        Any path.
    ax : Axes, optional
        Where to draw the weights, and only these.
    selection, training : Selection, optional
        What ``path.select`` said of validation data, whose best C is marked, and of the training data.
    feature_names : sequence of str, optional
        Names for the legend; by default those of the estimator, or else numbers of columns.

    Returns
    -------
    Axes
        That of the weights, at the bottom of its figure.
    """
    steps = _Steps(path)
    if ax is not None:
        _draw_weights(steps, ax, feature_names)
        ax.set_xlabel("C")
        return ax
    scored = selection is not None or training is not None
    heights = [1.0] * scored + [1.0, 1.35]
    first = _new_axes((8.0, 2.1 * sum(heights) + 0.6))
    figure: Any = first.figure
    first.remove()
    panels: list[Axes] = list(figure.subplots(len(heights), 1, sharex=True, height_ratios=heights))
    if scored:
        _draw_scores(steps, panels[0], selection, training)
    _draw_objective(steps, panels[-2])
    _draw_weights(steps, panels[-1], feature_names)
    for panel in panels:
        panel.grid(color="0.9", linewidth=0.7)
        panel.set_axisbelow(True)
        panel.spines[["top", "right"]].set_visible(False)
        if selection is not None:
            panel.axvline(steps.C(selection.lam), color="0.25", linewidth=1.1, linestyle="--", zorder=1)
        # Beside the axes, where it hides nothing.
        panel.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False, fontsize=9, handlelength=1.6)
    figure.align_ylabels(panels)
    panels[-1].set_xlabel("C = 1 / (lambda n)", fontsize=10)
    return panels[-1]


class _Steps:
    """A path as steps over C: the ends of every range, and the model in it."""

    def __init__(self, path: TracedPath) -> None:
        self.path = path
        top = float(path.lambdas[0]) or 1.0
        # Every smaller lambda has the last weights; a decade of them is enough to look at.
        ranges = [(s.hi, s.lo if s.lo > 0 else 0.1 * s.hi, s.model) for s in path.segments] or [(top, 0.1 * top, 0)]
        self.ends = np.array([(hi, lo) for hi, lo, _ in ranges])
        self.models = np.array([model for *_, model in ranges])

    def C(self, lam: Any) -> Any:
        return 1.0 / (lam * self.path.n_blocks)

    def curve(self, of_model: NDArray[Any]) -> tuple[Floats, Floats]:
        """Corners of the steps of a quantity that models have, from small C to large."""
        return self.C(self.ends).ravel(), np.repeat(of_model[self.models], 2)


def _draw_scores(steps: _Steps, panel: Axes, selection: Any, training: Any) -> None:
    for found, name, hue, style in ((training, "training", "0.55", "--"), (selection, "validation", _HUES[0], "-")):
        if found is not None:
            panel.plot(*steps.curve(np.asarray(found.scores)), color=hue, linewidth=1.8, linestyle=style, label=name)
    if selection is not None:
        best = steps.C(selection.lam)
        panel.plot(best, selection.score, "o", color=_HUES[1], markersize=7, zorder=4, label="chosen")
        x, _ = steps.curve(np.asarray(selection.scores))
        right = best > np.sqrt(x[0] * x[-1])
        panel.annotate(
            f"C = {best:.3g}, score {selection.score:.3f}", (best, 0.06), xycoords=("data", "axes fraction"), fontsize=10,
            xytext=(-7 if right else 7, 0), textcoords="offset points", ha="right" if right else "left",
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 1.5},
        )  # fmt: skip
    panel.set_ylabel("score", fontsize=10)


def _draw_objective(steps: _Steps, panel: Axes) -> None:
    """Objective of the weights, and the lower bound that the gap leaves for the optimum."""
    path = steps.path
    lam = steps.ends.ravel()
    model = np.repeat(steps.models, 2)
    squares = np.array([float(path.store[k] @ path.store[k]) for k in range(len(path))])
    upper = 0.5 * lam * squares[model] + path.hinges[model]
    gap = np.array([(s.gap_hi, s.gap_lo) for s in path.segments] or [(path.start_gap, path.start_gap)]).ravel()
    C = steps.C(lam)
    proof = "certified" if path.certified else "not certified"
    panel.fill_between(C, upper - gap, upper, color=_HUES[4], alpha=0.45, linewidth=0, label=f"the optimum lies here\n({proof})")
    panel.plot(C, upper, color=_HUES[0], linewidth=1.4, label="objective (upper bound)")
    panel.plot(C, upper - gap, color=_HUES[1], linewidth=1.1, linestyle="--", label=f"lower bound\n(gap ≤ {path.epsilon:g})")
    panel.set_ylabel("objective", fontsize=10)
    panel.set_xscale("log")


def _draw_weights(steps: _Steps, panel: Axes, names: Sequence[str] | None) -> None:
    path = steps.path
    known = getattr(getattr(path, "template", None), "feature_names_in_", None) if names is None else names
    _, weights = path.coef_path()
    d = weights.shape[1]
    if names is not None and len(names) not in (d, d - 1):  # an intercept has none
        raise ValueError(f"feature_names has {len(names)} names, but the path has {d} weights; give one for each")
    largest = np.argsort(-np.abs(weights).max(axis=0), kind="stable")[: len(_HUES)]
    # In the legend as they end.
    for hue, feature in zip(_HUES, largest[np.argsort(-weights[-1, largest], kind="stable")].tolist(), strict=False):
        name = f"feature {feature}" if known is None or feature >= len(known) else str(known[feature])
        shown = name if len(name) <= 24 else f"{name[:23]}…"
        panel.plot(*steps.curve(weights[:, feature]), color=hue, linewidth=1.4, label=shown)
    panel.plot(
        steps.C(path.breakpoints), np.zeros(len(path.breakpoints)), "|", color="0.35", markersize=7, markeredgewidth=0.8,
        label="weights change",
    )  # fmt: skip
    panel.set_xscale("log")
    panel.set_ylabel("largest weights", fontsize=10)


def plot_draws(energies: Mapping[str, ArrayLike], lower_bound: float | None = None, ax: Axes | None = None) -> Axes:
    """Energies of what roundings drew, a row for each: every draw, their mean (bar) and their minimum (dot)."""
    if not energies:
        raise ValueError("energies are empty; give an array for every rounding")
    found = {name: np.asarray(values, dtype=float) for name, values in energies.items()}
    for name, values in found.items():
        if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all():
            raise ValueError(f"energies[{name!r}] must be an array of finite numbers, one for every draw; leave others out")
    ax = ax if ax is not None else _new_axes((7.0, 1.2 + 0.55 * len(found)))
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


def plot_rounding_history(history: Sequence[RoundingEpoch], ax: Axes | None = None) -> Axes:
    """Mean energy of a rounding network while it is trained; on the right entropy, and sigma of its latent variables."""
    if not history:
        raise ValueError("history is empty; train the model first")
    ax = ax if ax is not None else _new_axes((7.0, 4.0))
    epochs = [row.epoch for row in history]
    lines = ax.plot(epochs, [row.energy for row in history], color="C0", linewidth=1.8, label="mean energy")
    ax.set(xlabel="epoch", ylabel="mean energy of complete rounding")
    other = ax.twinx()
    for name, color, values in (
        ("entropy of the marginals", "C1", [row.entropy for row in history]),
        ("sigma of latent variables", "C2", [row.sigma for row in history]),
    ):
        lines += other.plot(epochs, values, "--", color=color, linewidth=1.2, label=name)
    other.set_ylim(bottom=0)
    other.set_ylabel("dashed")
    ax.legend(lines, [str(line.get_label()) for line in lines], loc="upper right")
    return ax


def save_figure(ax: Axes, path: Path) -> None:
    """Write the figure in one step: an interrupted run leaves no broken file."""
    figure: Any = ax.figure
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        figure.savefig(file, dpi=150, format=path.suffix[1:] or None)
