"""Figures of training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from maxmargin.nn._rounding_training import RoundingEpoch
from maxmargin._utils import new_axes


def plot_rounding_history(history: Sequence[RoundingEpoch], ax: Axes | None = None) -> Axes:
    """Mean energy of a rounding network while it is trained; on the right entropy, and sigma of its latent variables."""
    if not history:
        raise ValueError("history is empty; train the model first")
    ax = ax if ax is not None else new_axes((7.0, 4.0))
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
