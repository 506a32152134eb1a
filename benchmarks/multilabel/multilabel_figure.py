"""The picture of docs/multilabel.md: a hull search among the sets of six labels."""

from __future__ import annotations

from itertools import combinations

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from benchmarks import FOLDER

from maxmargin.multilabel import LabelPairs
from maxmargin.multilabel.inference import all_sets
from maxmargin.surrogates import PointOracle, Slack, hull_search


def main() -> None:
    rng = np.random.default_rng(5)
    pairs = LabelPairs(6, list(combinations(range(6), 2)))
    truth, pair_scores = np.array([1, 0, 1, 0, 0, 1]), 0.4 * rng.normal(size=15)
    scores = 0.8 * (2 * truth - 1) + 0.8 * rng.normal(size=6)
    sets = all_sets(6)
    h = pairs.scores(sets, scores, pair_scores) - pairs.scores(truth[None], scores[None], pair_scores)
    g = np.abs(sets - truth).sum(axis=1)
    other = g > 0
    found = hull_search(Slack(), PointOracle(h[other], g[other]))
    figure, axes = plt.subplots(figsize=(7.6, 4.2), layout="constrained")
    axes.scatter(h, g, s=14, color="0.6", label="all sets")
    axes.scatter([0], [0], s=40, color="black", marker="s", label="truth")
    at = np.linspace(h.min() - 0.5, h.max() + 0.5, 400)
    for step in found.trace:
        if step.a > 0 and step.b > 0:
            axes.plot(at, (step.upper - step.a * at) / step.b, color="tab:blue", lw=0.8, alpha=0.6)
    steps = [step.found for step in found.trace if step.found is not None]
    axes.scatter([p.h for p in steps], [p.g for p in steps], s=80, facecolors="none", edgecolors="tab:blue", label="asked for")
    axes.scatter([found.incumbent.h], [found.incumbent.g], s=40, color="tab:red", zorder=3, label="most violating")
    with np.errstate(divide="ignore"):
        axes.plot(at, np.where(at > -1, found.best / (1 + at), np.nan), color="tab:red", lw=1, label="(1 + h) g as there")
    axes.set(xlabel="margin error h", ylabel="loss g", ylim=(-0.4, 7), xlim=(at[0], at[-1]))
    figure.legend(fontsize=8, loc="outside right upper")
    figure.savefig(FOLDER.parent / "docs" / "images" / "multilabel_search.png", dpi=130)


if __name__ == "__main__":
    main()
