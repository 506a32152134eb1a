"""Snakes: learned scores of labels and pairs of labels on small grids."""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import markdown, write_report

from maxmargin import GridSVM
from maxmargin.core.solvers import ConvergenceWarning

# Background and the four colours of snakes.
COLOURS = np.array([[0, 0, 255], [0, 255, 0], [0, 255, 255], [255, 0, 0], [255, 255, 0]])
MODELS = {
    "penalty for different neighbours": {"pairwise": "attractive"},
    "pairs of labels": {"pairwise": "free"},
    "pairs of labels for each direction": {"pairwise": "free", "edge_features": "steps"},
    "pairs of labels, by the features of both ends": {"pairwise": "free", "edge_features": "ends"},
    "the same, relaxed cuts": {"pairwise": "free", "edge_features": "ends", "inference": "relaxed"},
}


def snakes(part: str):
    """Images of shape (H, W, 45), the colours of a pixel and its 8 neighbours as indicators, and labels of shape (H, W)."""
    data = np.load(find("snakes", "snakes.npz"))
    images, labels, start = [], [], 0
    for height, width in data[f"shapes_{part}"].astype(int):
        rows = slice(start, start + height * width)
        start = rows.stop
        colours = (data[f"x_{part}"][rows, None, :] == COLOURS).all(axis=2).reshape(height, width, -1)
        # Beyond the rim there is background.
        wide = np.pad(colours, [(1, 1), (1, 1), (0, 0)])
        wide[..., 0] = ~wide[..., 1:].any(axis=2)
        seen = [wide[r : r + height, c : c + width] for r in range(3) for c in range(3)]
        images.append(np.concatenate(seen, axis=2).astype(float))
        labels.append(data[f"y_{part}"][rows].astype(int).reshape(height, width))
    return images, labels


def row(name: str, settings: dict[str, str], C: float, time_limit: float) -> list[str]:
    """Train, and see how many pixels are right."""
    (X, y), (X_test, y_test) = snakes("train"), snakes("test")
    model = GridSVM(C=C, tol=1e-2, time_limit=time_limit, **settings)
    wall, processor = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    found = model.predict(X_test)
    right = np.concatenate([(a == b).ravel() for a, b in zip(found, y_test, strict=True)])
    on_snake = np.concatenate([b.ravel() > 0 for b in y_test])
    whole = np.mean([(a == b).all() for a, b in zip(found, y_test, strict=True)])
    n_weights = model.coef_.size + model.edge_coef_.size
    print(name, right.mean(), processor, flush=True)
    return [
        name, str(n_weights), f"{right.mean():.4f}", f"{right[on_snake].mean():.4f}", f"{whole:.2f}", f"{processor:.0f}",
        f"{wall:.0f}", str(model.n_iter_), f"{model.dual_objective_:.4g}", f"{model.primal_objective_:.4g}",
        f"{model.oracle_gap_:.4g}", model.certified_objective_ if model.certified_ else "none",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--C", type=float, default=10.0, help="weight of the hinges")
    parser.add_argument("--time-limit", type=float, default=120.0, help="seconds per model")
    parser.add_argument("--relaxed-time-limit", type=float, default=600.0, help="seconds for relaxed cuts")
    options = parser.parse_args()
    rows = [
        row(name, settings, options.C, options.relaxed_time_limit if "inference" in settings else options.time_limit)
        for name, settings in MODELS.items()
    ]
    header = [
        "edges know", "weights", "right pixels", "on snakes", "whole images", "processor s", "wall s", "passes", "dual", "primal",
        "of that inference", "certified objective",
    ]  # fmt: skip
    text = (
        "Test accuracy of `GridSVM` on the snakes data of Nowozin et al. (2011): 200 training and 100 test images, 11 labels, "
        f"features are the colours of a pixel and its 8 neighbours. C = {options.C:g}, gap of the solver 1 %, at most "
        f"{options.time_limit:g} s ({options.relaxed_time_limit:g} s for relaxed cuts), one thread. No graph here is a tree and "
        "no pair of labels need attract, so inference is TRW-S with moves of forests; the primal objective is made of TRW-S's "
        "upper bounds. *Of that inference* is the part of the primal objective by which the bounds exceed the labels found: the "
        "relaxation is not tight with the loss added. Relaxed cuts are fractional points of the local polytope "
        '(`inference="relaxed"`): the linear program is solved to its optimum, and what is certified is the relaxed objective, '
        "which is nowhere below the true one."
    )
    path = FOLDER / "results" / "snakes.md"
    write_report(path, "Snakes: which label follows which", [text, markdown(header, rows)])


if __name__ == "__main__":
    main()
