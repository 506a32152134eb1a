"""``maxmargin predict``."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin._utils import Floats, check_writable, is_special, replacing
from maxmargin.cli.options import DataOptions, speaking_of
from maxmargin.cli.reading import data_for, load_ranker, notes_about_data, place_of_positive, scores_of
from maxmargin.core import SavedModel
from maxmargin.io import DataError, RankingData
from maxmargin.ranking import run_lines


def run(
    model_file: Path, data_file: Path, reading: DataOptions, form: str, wanted: str, tag: str, output: Path | None, as_json: bool
) -> None:
    """Score or label, and write to a file or print."""
    if output is not None:
        check_writable(output)
    model = load_ranker(model_file)
    check_wanted(model, model_file, wanted)
    data = data_for(model, model_file, data_file, reading, labels=False, comments=form == "trec")
    with speaking_of(data_file):
        values = _values(model, data, wanted)
    answer: dict[str, Any] = {"model": str(model_file), "data": str(data_file), "samples": len(values)}
    try:
        lines = list(_run(data, np.asarray(values), tag) if form == "trec" else (f"{_written(value)}\n" for value in values))
    except DataError as error:
        raise DataError(f"{data_file}: {error}") from None
    if output is not None:
        with replacing(output) as file:
            file.writelines(line.encode() for line in lines)
        answer["output"] = str(output)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        elif not is_special(output):  # it may be standard output itself
            click.echo(f"{output}: {len(values)} {wanted}")
    elif as_json:
        click.echo(json.dumps({**answer, wanted: values}))
    else:
        click.echo("".join(lines), nl=False)


def check_wanted(model: SavedModel, model_file: Path, wanted: str) -> None:
    """Complain about labels and probabilities of models that have none."""
    if wanted == "scores":
        return
    name = type(model.estimator).__name__
    if not hasattr(model.estimator, "classes_"):
        raise DataError(
            f"{model_file}: holds a {name}, which has scores and no {wanted}; train with --method classifier, or leave out "
            f"--as {wanted}"
        )
    if wanted == "probabilities" and model.estimator.calibration is None:
        raise DataError(
            f"{model_file}: holds a {name} without calibration, so it has no probabilities; fit it with calibration='sigmoid', "
            "or use --as scores"
        )


def _values(model: SavedModel, data: RankingData, wanted: str) -> list[Any]:
    """One for each sample."""
    scores = scores_of(model.estimator, data.X, data.qid)
    if wanted == "scores":
        return list(scores.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if wanted == "probabilities":
            found: list[Any] = model.estimator.predict_proba(data.X)[:, place_of_positive(model.estimator)].tolist()
            return found
        labels = model.estimator.predict(data.X)
    names = label_names(model)
    return [names[int(label == model.estimator.classes_[1])] for label in labels]


def label_names(model: SavedModel) -> list[Any]:
    """The two labels of a classifier: the command trains with 0 and 1, whatever two numbers the file has."""
    names = notes_about_data(model).get("labels")
    return names if isinstance(names, list) and len(names) == 2 else list(model.estimator.classes_.tolist())


def _written(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


def _run(data: RankingData, scores: Floats, tag: str) -> Iterator[str]:
    names = data.docids or [None] * len(data)
    known = [name for name in names if name is not None]
    if not known:
        return run_lines(data.qid, map(str, range(1, len(data) + 1)), scores, tag, data.query_names)
    if len(known) < len(names):
        # A number could be the name of another document.
        raise DataError(
            f"sample {names.index(None) + 1} has no docid in its comment, but others have; give every line one (#docid = NAME), "
            "or none"
        )
    return run_lines(data.qid, known, scores, tag, data.query_names)
