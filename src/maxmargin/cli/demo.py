"""``maxmargin demo``: the same linear model, trained for what is reported and for accuracy.

The data are the handwritten digits that come with scikit-learn; the rare class is the eight, which no linear rule
separates from the rest. There the two aims disagree, and it shows what training for the metric brings.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.svm import LinearSVC

from maxmargin._types import Booleans, Floats
from maxmargin.cli.evaluate import format_table
from maxmargin.estimators import RankingSVM
from maxmargin.figures import plot_precision_recall, save_figure
from maxmargin.metrics import average_precision, ndcg
from maxmargin.progress import StatusLine

_DIGIT = 8
_FOLDS, _INNER_FOLDS = 5, 4

# What is trained, and the values of C to choose from. The hinge of a list is a mean and that of LinearSVC a sum over
# samples, hence the different ranges.
_METHODS: dict[str, tuple[Any, list[float]]] = {
    "RankingSVM, AP": (RankingSVM("ap"), [10.0**k for k in range(5)]),
    "RankingSVM, NDCG": (RankingSVM("ndcg"), [10.0**k for k in range(5)]),
    "LinearSVC, 0-1 hinge": (LinearSVC(loss="hinge", max_iter=100_000), [10.0**k for k in range(-3, 2)]),
}


def run(output: Path, seed: int) -> None:
    """Cross-validate, print the table, write the figure."""
    # Asked before the work, not after it.
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("the demo draws a figure and needs matplotlib: pip install 'maxmargin[plot]'")
    X, digit = load_digits(return_X_y=True)
    X, relevant = X / 16.0, digit == _DIGIT
    click.echo(f"{len(X)} handwritten digits, {int(relevant.sum())} of them an eight. Find the eights.")
    click.echo(f"{_FOLDS}-fold cross-validation; C of every method by {_INNER_FOLDS}-fold cross-validation of AP inside.\n")
    rows, curves = [], {}
    for name, (model, grid) in _METHODS.items():
        scores, folds = _cross_validate(name, model, grid, X, relevant, seed)
        values = np.array(folds)
        gap = f"{values[:, 2].max():.1e}" if np.isfinite(values[:, 2]).all() else "not given"
        rows.append([name, f"{values[:, 0].mean():.4f}", f"{values[:, 1].mean():.4f}", gap, f"{values[:, 3].mean():.3f}"])
        curves[f"{name} (AP {values[:, 0].mean():.3f})"] = (relevant, scores)
    click.echo(format_table(["trained for", "AP", "NDCG", "largest relative gap", "seconds per fit"], rows))
    save_figure(plot_precision_recall(curves, f"Finding the {_DIGIT}s among handwritten digits"), output)
    click.echo(f"\nAP and NDCG are means over held-out folds. Precision-recall figure: {output}")


def _cross_validate(
    name: str, model: Any, grid: list[float], X: NDArray[Any], relevant: Booleans, seed: int
) -> tuple[Floats, list[tuple[float, float, float, float]]]:
    """Held-out scores of all samples, and (AP, NDCG, relative gap, seconds) of every fold."""
    held_out = np.empty(len(X))
    folds = []
    line = StatusLine(transient=True)
    for k, (train, test) in enumerate(_folds(_FOLDS, seed).split(X, relevant)):
        line.show(f"{name}: fold {k + 1} of {_FOLDS}")
        search = GridSearchCV(model, {"C": grid}, scoring=_average_precision, cv=_folds(_INNER_FOLDS, seed + 1 + k))
        best = search.fit(X[train], relevant[train]).best_estimator_
        scores = best.decision_function(X[test])
        gap = best.dual_gap_ / best.primal_objective_ if hasattr(best, "dual_gap_") else np.nan
        folds.append((average_precision(relevant[test], scores), ndcg(relevant[test], scores), gap, search.refit_time_))
        # Folds have their own scale of scores; for one common curve they are made comparable.
        held_out[test] = (scores - scores.mean()) / scores.std()
    line.close()
    return held_out, folds


def _average_precision(model: Any, X: NDArray[Any], relevant: Booleans) -> float:
    return average_precision(relevant, model.decision_function(X))


def _folds(n: int, seed: int) -> StratifiedKFold:
    return StratifiedKFold(n, shuffle=True, random_state=seed)
