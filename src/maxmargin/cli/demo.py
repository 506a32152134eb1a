"""``maxmargin demo``: rare events found by four linear models, where all is well and where labels are wrong.

The first table are the handwritten digits that come with scikit-learn, and the rare class is the eight. The second one is drawn
at random: a clean direction, and some samples far out that are marked by mistake.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import Booleans, Floats, StatusLine, plot_precision_recall, save_figure
from maxmargin.cli.evaluate import format_table
from maxmargin.cli.options import OUTPUT, with_exit_codes
from maxmargin.ranking import average_precision

_DIGIT = 8
_FOLDS, _INNER_FOLDS = 5, 3


class _Table(NamedTuple):
    title: str
    X: Floats
    relevant: Booleans


def _methods() -> dict[str, tuple[Any, list[float]]]:
    """What is trained, and the values of C to choose from.

    The hinge of a list is a mean and that of LinearSVC a sum over samples, hence the different ranges. The first tunes itself.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    from maxmargin.ranking import RankingSVM
    from maxmargin.rare_events import RankingClassifier

    return {
        "RankingClassifier": (RankingClassifier(cv=_INNER_FOLDS), []),
        "LogisticRegression": (LogisticRegression(max_iter=1000), [10.0**k for k in range(-4, 2)]),
        "RankingSVM, AP": (RankingSVM("ap"), [10.0**k for k in range(5)]),
        "LinearSVC": (LinearSVC(), [10.0**k for k in range(-5, 0)]),
    }


@click.command()
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    default=Path("demo/precision_recall.png"),
    show_default=True,
    help="Where to write the figure (.png, .svg or .pdf).",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the cross-validation folds.")
@with_exit_codes
def demo(output: Path, seed: int) -> None:
    """Find rare events: the classifier for them and three other linear models, on digits and where labels are wrong.

    \b
    Example: maxmargin demo -o curves.svg
    """
    # Asked before the work, not after it.
    if importlib.util.find_spec("matplotlib") is None:
        raise click.ClickException("the demo draws a figure and needs matplotlib: pip install 'maxmargin[plot]'")
    from maxmargin.rare_events import RankingClassifier

    digits, spoilt, methods = _digits(), _spoilt(seed), _methods()
    click.echo(f"{len(digits.X)} handwritten digits, {int(digits.relevant.sum())} of them an eight. Find the eights:\n")
    click.echo("model = RankingClassifier(threshold={'precision': 0.9}).fit(X, y)\nprint(model.summary())\n")
    click.echo(RankingClassifier(threshold={"precision": 0.9}).fit(digits.X, digits.relevant).summary())
    click.echo(
        f"\nThe second table: {len(spoilt.X)} samples, {int(spoilt.relevant.sum())} positive, some by mistake, far away.\n"
        f"{_FOLDS}-fold cross-validation; every method is tuned by AP in {_INNER_FOLDS} inner folds.\n"
    )
    found = [
        {name: _cross_validate(name, *method, table, seed) for name, method in methods.items()} for table in (digits, spoilt)
    ]
    rows = []
    for name in methods:
        cells = [f"{np.mean(own[name][1]):.4f}" for own in found]
        taken = [f"{own[name][2]} of {_FOLDS}" if name == "RankingClassifier" else "" for own in found]
        rows.append([name, cells[0], taken[0], cells[1], taken[1]])
    click.echo(format_table(["linear model", "AP, digits", "refined", "AP, wrong labels", "refined"], rows))
    _draw(output, (digits, spoilt), found)
    click.echo(
        '\nAP is the mean over held-out folds. "refined": how often the classifier left its tuned logistic regression behind, '
        f"because\nheld-out samples said so. Precision-recall figure: {output}"
    )


def _digits() -> _Table:
    from sklearn.datasets import load_digits

    X, digit = load_digits(return_X_y=True)
    return _Table(f"Finding the {_DIGIT}s among digits", X, digit == _DIGIT)


def _spoilt(seed: int) -> _Table:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 12))
    relevant = X[:, :3].sum(axis=1) + 0.5 * rng.normal(size=len(X)) > 3.4
    wrong = rng.permutation(np.flatnonzero(~relevant))[:10]
    X[wrong] = 4 * rng.normal(size=(len(wrong), 12)) - 4 * (np.arange(12) < 3)
    relevant[wrong] = True
    return _Table("Wrong labels far away", X, relevant)


def _cross_validate(name: str, model: Any, grid: list[float], table: _Table, seed: int) -> tuple[Floats, list[float], int]:
    """Held-out scores of all samples, the AP of every fold, and how many folds were refined."""
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    held_out, values, refined = np.empty(len(table.X)), [], 0
    line = StatusLine(transient=True)
    for k, (train, test) in enumerate(_folds(_FOLDS, seed).split(table.X, table.relevant)):
        line.show(f"{table.title}, {name}: fold {k + 1} of {_FOLDS}")
        best = model
        if grid:
            steps = make_pipeline(StandardScaler(), model)
            settings = {f"{steps.steps[-1][0]}__C": grid}
            best = GridSearchCV(steps, settings, scoring=_average_precision, cv=_folds(_INNER_FOLDS, seed))
        best.fit(table.X[train], table.relevant[train])
        scores = best.decision_function(table.X[test])
        values.append(average_precision(table.relevant[test], scores))
        refined += int(getattr(best, "refined_", False))
        # Folds have their own scale of scores; for one common curve places are what can be compared.
        held_out[test] = np.argsort(np.argsort(scores)) / len(scores)
    line.close()
    return held_out, values, refined


def _draw(output: Path, tables: tuple[_Table, ...], found: list[dict[str, tuple[Floats, list[float], int]]]) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12.0, 4.8), layout="constrained")
    for ax, table, own in zip(figure.subplots(1, len(tables)), tables, found, strict=True):
        curves = {f"{name} (AP {np.mean(own[name][1]):.3f})": (table.relevant, own[name][0]) for name in own}
        plot_precision_recall(curves, table.title, ax)
        ax.legend(loc="best")
    save_figure(ax, output)


def _average_precision(model: Any, X: Floats, relevant: Booleans) -> float:
    return average_precision(relevant, model.decision_function(X))


def _folds(n: int, seed: int) -> Any:
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(n, shuffle=True, random_state=seed)
