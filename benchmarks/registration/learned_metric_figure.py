"""The picture of docs/registration.md: two tissues, one with the contrast inverted, and the weights learned for each.

``python -m benchmarks.registration.learned_metric_figure``.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from benchmarks import FOLDER
from scipy.ndimage import gaussian_filter

from maxmargin.registration import LearnedMetric

METRICS = ("sad", "mi", "ncc")
UNITS = np.array([0.1, 10.0, 10.0])


def make_pair(rng: np.random.Generator, shift: int):
    """A source whose right half has the inverted contrast in the target, which is shifted; classes of both."""
    right = np.broadcast_to(np.arange(64) >= 32, (32, 64))
    image = gaussian_filter(rng.normal(size=(32, 64)), 2.0)
    target = np.roll(np.where(right, -image, image), -shift, axis=0)
    classes = 2 * right + (image > 0)
    return (image, target, classes), np.roll(classes, -shift, axis=0)


def main() -> None:
    """Learn and draw."""
    rng = np.random.default_rng(0)
    pairs, segmentations = zip(*(make_pair(rng, shift) for shift in (-3, 2, 3)), strict=True)
    model = LearnedMetric(METRICS, spacing=1.0, grid_spacing=8.0, levels=1).fit(pairs, segmentations)
    figure, axes = plt.subplots(1, 4, figsize=(11, 2.6), width_ratios=(1.6, 1.6, 1.3, 1.3), layout="constrained")
    for axis, image, title in zip(axes, pairs[0], ("source", "target: inverted on the right"), strict=False):
        axis.imshow(image, cmap="gray")
        axis.set_title(title, fontsize=9)
        axis.set_axis_off()
    places, names = np.arange(4), ["left,\ndark", "left,\nbright", "right,\ndark", "right,\nbright"]
    for k, metric in enumerate(METRICS):
        axes[2].bar(places + 0.27 * (k - 1), (model.weights_ / UNITS)[:, k], 0.25, label=metric)
    axes[2].set_xticks(places, names, fontsize=7)
    axes[2].set_title("weights, in units of the start", fontsize=9)
    axes[2].legend(fontsize=7, frameon=False)
    for c, values in enumerate(model.objectives_):
        axes[3].plot(values, marker="o", markersize=3, label=names[c].replace("\n", " "))
    axes[3].set_yscale("log")
    axes[3].set_xlabel("round", fontsize=8)
    axes[3].set_title("objective of every class", fontsize=9)
    axes[3].legend(fontsize=7, frameon=False)
    for axis in axes[2:]:
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(which="both", labelsize=7)
    figure.savefig(FOLDER.parent / "docs" / "images" / "learned_metric.png", dpi=130)


if __name__ == "__main__":
    main()
