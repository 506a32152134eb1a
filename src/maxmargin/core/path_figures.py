"""Figures of a path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from maxmargin._utils import Floats

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxmargin.core.path_estimators import Selection
    from maxmargin.core.path_result import TracedPath
from maxmargin._utils import new_axes

# After Okabe and Ito, told apart by colour-blind readers; the reports use the same.
_HUES = ("#0072b2", "#d55e00", "#00805e", "#a8487c", "#e6a000", "#5b5fc7", "#56b4e9", "#59636e")

Number = TypeVar("Number", float, Floats)


def plot_path(
    path: TracedPath,
    ax: Axes | None = None,
    *,
    selection: Selection | None = None,
    training: Selection | None = None,
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
    first = new_axes((8.0, 2.1 * sum(heights) + 0.6))
    figure = first.figure
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

    def C(self, lam: Number) -> Number:
        return 1.0 / (lam * self.path.n_blocks)

    def curve(self, of_model: Floats) -> tuple[Floats, Floats]:
        """Corners of the steps of a quantity that models have, from small C to large."""
        return self.C(self.ends).ravel(), np.repeat(of_model[self.models], 2)


def _draw_scores(steps: _Steps, panel: Axes, selection: Selection | None, training: Selection | None) -> None:
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
