"""``maxmargin report``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats, StatusLine, check_writable, is_special
from maxmargin.cli import cv, train
from maxmargin.cli.options import (
    DATA,
    EXISTING,
    MODEL,
    OUTPUT,
    DataOptions,
    Printing,
    keep_apart,
    output_options,
    report_options,
    speaking_of,
    with_exit_codes,
)
from maxmargin.cli.reading import data_for, load_ranker, scores_of, threshold_of
from maxmargin.core.solvers import BCFW
from maxmargin.io import DataError, RankingData, is_table, read_column
from maxmargin.report import percent, report_contents, reported_metric, save_page

if TYPE_CHECKING:
    from maxmargin.core import SavedModel

_FOLDS = 3
# The losses of both are sums over samples, so useful values are smaller than those of rank losses.
_GRID = [10.0**k for k in range(-4, 3)]
_SECONDS = 60.0  # for one fit
LOGISTIC, SVM = "logistic", "svm"


@click.command()
@MODEL
@DATA
@click.option("-o", "--output", type=OUTPUT, default=Path("report.html"), show_default=True, help="Where to write the page.")
@click.option("--against", type=EXISTING, multiple=True, help="A model to compare with; may be repeated.")
@click.option("--train", "training", type=EXISTING, help="Training data: a baseline is trained on it, to compare with.")
@click.option(
    "--baseline",
    type=click.Choice(["logistic", "svm"]),
    multiple=True,
    help="What to train on --train; may be repeated.  [default: logistic]",
)
@click.option("--slice", "columns", multiple=True, help="A column of a table for whose values to judge apart; may be repeated.")
@click.option("--title", help="Heading of the page.")
@report_options
@output_options
@with_exit_codes
def report(
    model_file: Path,
    data_file: Path,
    output: Path,
    against: tuple[Path, ...],
    training: Path | None,
    baseline: tuple[str, ...],
    columns: tuple[str, ...],
    title: str | None,
    reading: DataOptions,
    printing: Printing,
) -> None:
    """Write a page about a model, judged on DATA: one HTML file that needs no network.

    It shows metrics with 95 % intervals and curves against other models and a random ranking, how close to optimal training
    came, what is found within a budget and which threshold to set or the documents of queries, slices by a column, how scores
    are distributed, what is ranked worst, the largest weights, and the parameters. DATA must have labels and the features of
    the model, as for evaluate; if they are the training data, the page warns.

    With --train, a logistic regression is trained on that file for comparison (or, with --baseline svm, an ordinary SVM); its C
    is chosen by a three-fold cross-validation of the metric the model is judged by, and the page says so. For --slice, many
    different numbers are cut into quartiles.

    \b
    Examples:
      maxmargin report ranker.model test.letor
      maxmargin report ranker.model test.letor --train train.letor -o ranker.html
      maxmargin report new.model test.csv --label grade --against old.model --slice country
    """
    if baseline and training is None:
        raise click.UsageError("--baseline is trained on the data of --train; name them")
    compared = {f"--against {path}": path for path in against}
    keep_apart({"--output": output}, {"MODEL": model_file, "DATA": data_file, "--train": training, **compared})
    check_writable(output)
    saved = load_ranker(model_file)
    data = data_for(saved, model_file, data_file, reading, labels=True)
    slices = {column: _column(data_file, column, data) for column in columns}
    notes = [f"Model: {model_file.name}. Data: {data_file.name}."]
    origin = saved.about.get("data")
    # Models of older versions do not know their training data again.
    if not hasattr(saved.estimator, "training_sketch_") and isinstance(origin, dict) and origin.get("file") == data_file.name:
        notes.append("The model was trained on a file of that name; on its own training data a model looks better than it is.")
    baselines: dict[str, Floats] = {}
    for path in against:
        other = load_ranker(path)
        name = path.stem if path.stem not in (model_file.stem, *baselines) else str(path)
        theirs = data_for(other, path, data_file, reading, labels=True)
        baselines[name] = scores_of(other.estimator, theirs.X, theirs.qid)
    if training is not None:
        for kind in dict.fromkeys(baseline or (LOGISTIC,)):
            called, make = _KINDS[kind]
            baselines[called], note = make(saved, model_file, training, data, reading, show=printing.progress)
            notes.append(note)
    with speaking_of(data_file):
        found = report_contents(
            saved.estimator, data.X, _labels(saved, data), data.qid, baselines=baselines, feature_names=feature_names(data),
            query_names=dict(enumerate(map(str, data.query_names or []))), name=model_file.stem if against else None,
            title=title, notes=notes, scores=scores_of(saved.estimator, data.X, data.qid), slices=slices,
        )  # fmt: skip
    save_page(found, output)
    said = found["headline"]
    numbers = {key: said[key] for key in ("metric", "value", "interval", "baselines", "baseline_intervals", "leads", "random")}
    sizes = {key: found["data"][key] for key in ("samples", "relevant", "queries")}
    proof = {key: found["certificate"][key] for key in ("relative_gap", "certified")}
    answer = {"report": str(output), **sizes, **numbers, **proof, "on_training_data": said["warning"] is not None}
    first = [] if said["warning"] is None else [said["warning"]]
    printing.tell(answer, lambda answer: "\n".join([*first, *said["sentences"], f"report: {output}"]))


def _column(path: Path, name: str, data: RankingData) -> NDArray[Any]:
    """A column of a table, whatever it holds."""
    if not is_table(path):
        raise click.UsageError(f"--slice {name} names a column, but {path} is not a table; use a table, or slices= in Python")
    if is_special(path):
        raise click.UsageError(f"--slice {name} needs {path} to be read twice, which a pipe cannot be; write it to a file")
    cells = read_column(path, name)
    if len(cells) != len(data):
        raise DataError(f"{path}: changed while it was read; try again")
    return cells


def _labels(saved: SavedModel, data: RankingData) -> Floats:
    """As the model takes them: a classifier knows two."""
    known = hasattr(saved.estimator, "relevance_thresholds_")
    return data.y if known else (data.y > threshold_of(saved)).astype(np.float64)


def feature_names(data: RankingData) -> list[str]:
    """Columns of a table; indices as the svmlight file has them."""
    if data.feature_names is not None:
        return data.feature_names
    first = 0 if data.zero_based else 1
    return [f"feature {k + first}" for k in range(data.X.shape[1])]


def _ordinary_svm(
    saved: SavedModel, model_file: Path, training: Path, data: RankingData, reading: DataOptions, *, show: bool
) -> tuple[Floats, str]:
    """Scores of an ordinary SVM with the features of the model, and how it was trained."""
    known = data_for(saved, model_file, training, reading, labels=True)
    metric, _ = reported_metric(saved.estimator)
    threshold = threshold_of(saved)
    # With a hinge for every sample, steps by the sample are much faster than cutting planes.
    solver = BCFW(steps="exact", tol=1e-3, max_passes=1000, time_limit=_SECONDS)
    parameters: dict[str, Any] = {"loss": "accuracy", "relevance_threshold": threshold, "random_state": 0, "solver": solver}
    measure = cv.Measure(metric, "linear", threshold)
    with speaking_of(training):
        table = cv.cross_validate(known, parameters, _GRID, _FOLDS, measure, None, show=show)
    held_out = np.mean([[fit.value for fit in fits] for fits in table], axis=0)
    C = _GRID[int(np.argmax(held_out))]
    trained = train.fit(known, training, {**parameters, "C": C}, show=show)
    if trained.signals:
        raise KeyboardInterrupt
    gap = percent(trained.relative_gap)
    note = (
        f"Ordinary SVM: RankingSVM(loss='accuracy', C={C:g}) trained on {training.name} to within {gap} % of the best. "
        f"C was chosen among {', '.join(f'{c:g}' for c in _GRID)} by a {_FOLDS}-fold cross-validation of {metric.upper()} there."
    )
    return scores_of(trained.model, data.X), note


def _logistic_regression(
    saved: SavedModel, model_file: Path, training: Path, data: RankingData, reading: DataOptions, *, show: bool
) -> tuple[Floats, str]:
    """Scores of a logistic regression on the features of the model, divided by their spread, and how it was trained."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    known = data_for(saved, model_file, training, reading, labels=True)
    metric, _ = reported_metric(saved.estimator)
    threshold = threshold_of(saved)
    measure = cv.Measure(metric, "linear", threshold)
    relevant = known.y > threshold
    X, y, qid = known.X, known.y, known.qid

    def fitted(C: float, rows: Any) -> Any:
        scaler = StandardScaler(with_mean=not hasattr(X, "indptr"))
        return make_pipeline(scaler, LogisticRegression(C=C, max_iter=500)).fit(X[rows], relevant[rows])

    with speaking_of(training), StatusLine(transient=True) as line, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        table = []
        for held in cv.split(known, _FOLDS, 0, threshold):
            kept = np.setdiff1d(np.arange(len(y)), held)
            new = (X[held], y[held], None if qid is None else qid[held])
            table.append([measure.of(fitted(C, kept), *new) for C in _GRID])
            if show:
                line.show(f"logistic regression: {len(table)} of {_FOLDS} folds")
        C = _GRID[int(np.argmax(np.mean(table, axis=0)))]
        model = fitted(C, slice(None))
    note = (
        f"Logistic regression: LogisticRegression(C={C:g}) on features of unit variance, trained on {training.name}. C was "
        f"chosen among {', '.join(f'{c:g}' for c in _GRID)} by a {_FOLDS}-fold cross-validation of {metric.upper()} there."
    )
    return np.asarray(model.decision_function(data.X), dtype=np.float64), note


_KINDS = {LOGISTIC: ("logistic regression", _logistic_regression), SVM: ("ordinary SVM", _ordinary_svm)}
