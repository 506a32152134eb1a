"""Draw docs/images/surrogates.png: the plane of margin error and loss with the steps of two searches."""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

from maxmargin.surrogates import PointOracle, Slack, angular, hull_search

COLOURS = ["#c44e52", "#dd8452", "#55a868", "#8172b3", "#937860", "#64b5cd"]


def main() -> None:
    """Two panels, the same outputs."""
    rng = np.random.default_rng(4)
    g = rng.integers(1, 9, 60).astype(float)
    oracle = PointOracle(2.2 - 0.05 * g**2 - 1 + rng.normal(scale=0.7, size=60) - 0.6, g)
    figure, panels = plt.subplots(1, 2, figsize=(10, 4.4), sharey=True, layout="constrained")
    for panel, (title, found) in zip(
        panels, (("hull search", hull_search(Slack(), oracle)), ("angular search", angular(oracle))), strict=True
    ):
        H, losses = np.meshgrid(np.linspace(-2.5, 2.5, 200), np.linspace(0, 9, 200))
        levels = found.best * np.array([0.25, 0.5, 0.75, 1.0])
        panel.contour(H, losses, np.maximum(Slack().value(H, losses), 0), levels=levels, colors="0.8", linewidths=1)
        panel.scatter(oracle.h, oracle.g, s=14, color="#4c72b0", zorder=2, label="outputs")
        panel.scatter(0, 0, marker="s", color="black", zorder=3, label="truth")
        for k, step in enumerate(found.trace):
            colour, places = COLOURS[k % len(COLOURS)], np.array([-2.5, 2.5])
            if step.b == 0:
                panel.axvline(step.upper, color=colour, linewidth=1)
            else:
                panel.plot(places, (step.upper - step.a * places) / step.b, color=colour, linewidth=1)
            if step.found is not None:
                panel.annotate(
                    f"{k + 1}",
                    (step.found.h, step.found.g),
                    xytext=(5 + 9 * (k % 3), 4),
                    textcoords="offset points",
                    color=colour,
                )
        panel.scatter(found.incumbent.h, found.incumbent.g, s=80, facecolors="none", edgecolors="black", zorder=4, label="best")
        panel.set(xlim=(-2.5, 2.5), ylim=(-0.3, 9), xlabel="margin error h", title=f"{title}: {found.calls} questions")
    panels[0].set_ylabel("loss g")
    panels[0].legend(loc="lower left", frameon=False)
    figure.savefig(Path(__file__).parent / "images" / "surrogates.png", dpi=110)


if __name__ == "__main__":
    main()
