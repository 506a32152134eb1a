"""Pictures of docs/rounding.md."""

from __future__ import annotations

import numpy as np
from benchmarks.labeling.labeling_figures import IMAGES
from benchmarks.labeling.rounding_problems import rounding_problems
from benchmarks.montage import montage

from maxmargin._utils import save_figure
from maxmargin.labeling import Energy, Metric, expected_energy, minimize, relax, round_labeling

LEVELS = 6


def scene() -> Energy:
    """A disc and a box on a ground that brightens, with noise, as six grey values."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:48, :72]
    truth = np.where((x - 22) ** 2 + (y - 24) ** 2 < 200, 4, (x // 36).astype(int))
    truth = np.where((abs(x - 54) < 10) & (abs(y - 22) < 12), 5, truth)
    seen = truth + rng.normal(scale=1.4, size=truth.shape)
    return Energy.grid(np.minimum(np.abs(seen[:, :, None] - np.arange(LEVELS)), 3.0), Metric("linear", limit=2), weights=0.75)


def draws() -> None:
    """One draw of every kind, from the same marginals."""
    energy = scene()
    point = relax(energy, "trws", temperature=0.5)
    pictures = {"most of every node": round_labeling(point, energy, "max")}
    for method, name in (
        ("independent", "every node for itself"),
        ("complete", "complete: one number"),
        ("kleinberg_tardos", "windows of one label"),
        ("interval", "windows of two labels"),
    ):
        pictures[name] = round_labeling(point, energy, method, 1, 2)
    best = minimize(energy, "trws")
    shown = {f"{name}: {one.energy:,.0f}": one.labels / (LEVELS - 1) for name, one in pictures.items()}
    montage({**shown, f"TRW-S: {best.energy:,.0f}": best.labels / (LEVELS - 1)}, IMAGES / "rounding_draws.png", 3, 2.6, True)


def histogram() -> None:
    """Energies of a thousand draws, their exact mean, the bound."""
    from matplotlib.figure import Figure

    energy = rounding_problems("uniform", "balanced", 1, 3)[0]
    point = relax(energy, "lp")
    ax = Figure(figsize=(7.0, 3.6), layout="constrained").add_subplot()
    edges = None
    for method, name in (("complete", "complete"), ("kleinberg_tardos", "windows of one label")):
        drawn = round_labeling(point, energy, method, 4000, 0)
        edges = np.histogram_bin_edges(drawn.energies, 30) if edges is None else edges
        low, high = min(edges[0], drawn.energies.min()), max(edges[-1], drawn.energies.max())
        ax.hist(drawn.energies, bins=np.linspace(low, high, 40).tolist(), alpha=0.6, label=f"{name}, mean {drawn.mean:.2f}")
    lines = (
        ("least of the relaxation", point.value, "black", "-"),
        ("largest marginals", round_labeling(point, energy, "max").energy, "tab:green", "--"),
        ("exact mean of complete rounding", expected_energy(point, energy), "tab:blue", ":"),
    )
    for name, value, colour, style in lines:
        ax.axvline(value, color=colour, linestyle=style, label=f"{name}: {value:.2f}")
    ax.set_xlabel("energy of a draw")
    ax.set_ylabel("draws of 4,000")
    ax.set_ylim(top=1.5 * ax.get_ylim()[1])
    ax.legend(fontsize=8, ncols=2, loc="upper center")
    save_figure(ax, IMAGES / "rounding_energies.png")


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    draws()
    histogram()


if __name__ == "__main__":
    main()
