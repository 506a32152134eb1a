"""``maxmargin report``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.cli import cv, train
from maxmargin.cli.options import DataOptions, Printing, speaking_of
from maxmargin.cli.reading import data_for, load_ranker, scores_of, threshold_of
from maxmargin.data import RankingData
from maxmargin.estimators.model_files import SavedModel
from maxmargin.report import report_contents, save_page
from maxmargin.report.headline import percent, reported_metric
from maxmargin.solvers import BCFW
from maxmargin.storage import check_writable

_FOLDS = 3
# Its hinge is a sum over samples, so useful values are smaller than those of rank losses.
_GRID = [10.0**k for k in range(-4, 3)]
_SECONDS = 60.0  # for one fit
_ORDINARY = "ordinary SVM"


def run(
    model_file: Path,
    data_file: Path,
    output: Path,
    against: tuple[Path, ...],
    training: Path | None,
    title: str | None,
    reading: DataOptions,
    printing: Printing,
) -> None:
    """Score, compare, write the page; say where it is and what it says first."""
    check_writable(output)
    saved = load_ranker(model_file)
    data = data_for(saved, model_file, data_file, reading, labels=True)
    notes = [f"Model: {model_file.name}. Data: {data_file.name}."]
    origin = saved.about.get("data")
    if isinstance(origin, dict) and origin.get("file") == data_file.name:
        notes.append("The model was trained on a file of that name; on its own training data a model looks better than it is.")
    baselines: dict[str, Floats] = {}
    for path in against:
        other = load_ranker(path)
        name = path.stem if path.stem not in (model_file.stem, *baselines) else str(path)
        theirs = data_for(other, path, data_file, reading, labels=True)
        baselines[name] = scores_of(other.estimator, theirs.X, theirs.qid)
    if training is not None:
        scores, note = _ordinary_svm(saved, model_file, training, data, reading, show=printing.progress)
        baselines[_ORDINARY] = scores
        notes.append(note)
    with speaking_of(data_file):
        found = report_contents(
            saved.estimator, data.X, _labels(saved, data), data.qid, baselines=baselines, feature_names=feature_names(data),
            query_names=dict(enumerate(map(str, data.query_names or []))), name=model_file.stem if against else None,
            title=title, notes=notes, scores=scores_of(saved.estimator, data.X, data.qid),
        )  # fmt: skip
    save_page(found, output)
    numbers = {key: found["headline"][key] for key in ("metric", "value", "baselines", "random")}
    sizes = {key: found["data"][key] for key in ("samples", "relevant", "queries")}
    proof = {key: found["certificate"][key] for key in ("relative_gap", "certified")}
    answer = {"report": str(output), **sizes, **numbers, **proof}
    printing.tell(answer, lambda answer: "\n".join([*found["headline"]["sentences"], f"report: {output}"]))


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
