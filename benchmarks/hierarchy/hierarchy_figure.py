"""The picture of ``docs/hierarchies.md``: a tree with the weights of its nodes."""

from __future__ import annotations

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from benchmarks import FOLDER

from maxmargin.hierarchy import Hierarchy, NodeWeights

EDGES = [
    ("animal", "dog"), ("animal", "cat"), ("cat", "wild"), ("cat", "house"), ("wild", "lion"), ("wild", "tiger"),
    ("wild", "lynx"),
]  # fmt: skip
KINDS = {
    "path: one each": NodeWeights("path"),
    "rho = 2": NodeWeights(),
    "max-min": NodeWeights("max_min"),
    "rho = 2, without root": NodeWeights(include_root=False),
}


def places(tree: Hierarchy) -> np.ndarray:
    """Leaves side by side, parents above the middle of their children."""
    where, next_leaf = np.zeros((len(tree), 2)), [0.0]

    def place(node: int, depth: int) -> None:
        for child in tree.children[node]:
            place(int(child), depth + 1)
        own = tree.children[node]
        x = where[own, 0].mean() if len(own) else next_leaf[0]
        next_leaf[0] += 0 if len(own) else 1
        where[node] = x, -depth

    place(0, 0)
    return where


def main() -> None:
    tree = Hierarchy(EDGES)
    where = places(tree)
    figure, axes = plt.subplots(1, len(KINDS), figsize=(15, 4))
    for ax, (title, kind) in zip(axes, KINDS.items(), strict=True):
        alpha = kind.of(tree)
        for a, b in tree.edges:
            ax.plot(*where[[a, b]].T, color="0.7", zorder=0)
        ax.scatter(*where.T, s=60 + 1400 * alpha, color="#9ecae9")
        for node, (x, y) in enumerate(where):
            ax.annotate(f"{tree.nodes[node]}\n{alpha[node]:.2f}", (x, y), ha="center", va="center", fontsize=8)
        sums = np.asarray(tree.membership() @ alpha)
        ax.set_title(f"{title}\nabove a leaf: {sums.min():.2g} to {sums.max():.2g}", fontsize=10)
        ax.set_xlim(-0.7, where[:, 0].max() + 0.7)
        ax.set_ylim(where[:, 1].min() - 0.5, 0.5)
        ax.axis("off")
    figure.tight_layout()
    path = FOLDER.parent / "docs" / "images" / "hierarchy_weights.png"
    figure.savefig(path, dpi=90)
    print(f"written to {path.name}")


if __name__ == "__main__":
    main()
