"""``maxmargin train --method classifier``: one list of rare events, by :class:`maxmargin.RankingClassifier`."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin.cli.options import DataOptions, Printing, aim_words, speaking_of, translated
from maxmargin.cli.reading import origin, training_data
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.cli.train import data_line, describe, metric_name
from maxmargin.data import DataError
from maxmargin.estimators import RankingClassifier, save_model
from maxmargin.storage import check_writable

# Settings of the hinge that mean nothing here.
_UNKNOWN = {"grades": "--grades", "solver": "--solver"}


def run(
    data_file: Path,
    reading: DataOptions,
    parameters: dict[str, Any],
    given: set[str],
    refine: bool | None,
    aim: Any,
    model_file: Path,
    printing: Printing,
) -> int:
    """Train, save, report; the exit code. ``given`` are the parameters that were set by the user."""
    for name, option in _UNKNOWN.items():
        if name in given:
            raise click.UsageError(f"{option} is for --method svm; leave it out")
    if parameters["loss"] == "accuracy":
        raise click.UsageError("--method classifier is judged by rankings, and --loss accuracy is no rank loss; choose another")
    if parameters["scale"] == "query":
        raise click.UsageError("--method classifier is for one list, which knows no --scale query; leave it out")
    check_writable(model_file)
    data = training_data(data_file, reading)
    if data.qid is not None:
        raise DataError(f"{data_file}: has queries, and --method classifier is for one list; use --method svm")
    threshold, labels = parameters["relevance_threshold"], np.unique(data.y)
    if threshold is None and len(labels) > 2:
        few = ", ".join(f"{label:g}" for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise DataError(
            f"{data_file}: has {len(labels)} different labels ({few}), and --method classifier finds one class of two; say which "
            f"ones are to be found, those above --threshold {max(0.0, float(labels[0])):g} for example, or use --method svm"
        )
    threshold = max(0.0, float(labels[0])) if threshold is None else float(threshold)
    relevant = (data.y > threshold).astype(np.int64)
    for n, which in ((int(relevant.sum()), "above"), (int((1 - relevant).sum()), "not above")):
        if n < 2:
            raise DataError(
                f"{data_file}: has {n} samples with a label {which} {threshold:g} (labels are from {labels[0]:g} to "
                f"{labels[-1]:g}), and at least two of each kind are needed; add some, or set another --threshold"
            )
    budget = aim.get("budget", 0) if isinstance(aim, dict) else 0
    if budget > len(data):
        asked = f"--aim budget={budget:g}"
        raise DataError(f"{data_file}: has {len(data)} samples, fewer than {asked}; name fewer, or a share below 1")
    own = {name: parameters[name] for name in ("loss", "time_limit", "random_state")}
    own |= {name: parameters[name] for name in ("C", "tol", "max_iter") if name in given}
    model = RankingClassifier(
        **own,
        standardize="scale" not in given or parameters["scale"] == "standard",
        refine=refine is not False,
        threshold="f1" if aim is None else aim,
        verbose=int(printing.progress and sys.stderr.isatty()),
    )
    began = time.perf_counter()
    with noting_signals() as signals, warnings.catch_warnings(record=True) as caught, speaking_of(data_file):
        warnings.simplefilter("always", UserWarning)
        model.fit(data.X, relevant)
    seconds, model.verbose = time.perf_counter() - began, 0
    score = model.score(data.X, relevant)
    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    about = origin(data_file, data)
    about["data"]["threshold"] = threshold
    if len(labels) == 2:
        about["data"]["labels"] = [int(label) if label.is_integer() else label for label in labels.tolist()]
    save_model(model, model_file, about=about)
    answer = {
        **describe(data, data_file),
        "method": "classifier",
        "loss": model.loss,
        "C": model.C_,
        "refined": model.refined_,
        "gain": model.gain_,
        "gain_error": model.gain_error_,
        "held_out": {name: float(value) for name, value in model.held_out_.items()},
        "certified": False,
        "interrupted": bool(signals),
        "seconds": seconds,
        "training": {metric_name(model.loss): score},
        "model": str(model_file),
        "aim": aim_words(model.threshold),
        "threshold": model.threshold_,
        "summary": _translated(model.summary(), model, about["data"].get("labels")).splitlines(),
    }
    printing.tell(answer, _words)
    for warning in () if signals else caught:
        click.echo(f"Warning: {_translated(str(warning.message), model)}", err=True)
    if signals:
        click.echo("Warning: interrupted; the model is the best one so far", err=True)
    return exit_code(signals)


def _translated(text: str, model: RankingClassifier, labels: list[float] | None = None) -> str:
    """What the library says, with options in place of arguments and labels of the file in place of 0 and 1."""
    if labels is not None:
        text = text.replace(f"{'find:':15}1, not 0", f"{'find:':15}{labels[1]}, not {labels[0]}")
    aim = f"--aim {aim_words(model.threshold)}"
    for theirs, ours in (
        (f"threshold={model.threshold!r}", aim),
        (f"threshold {model.threshold!r}", aim),
        ("RankingClassifier: ", ""),
        ("RankingClassifier ended", "training ended"),
    ):
        text = text.replace(theirs, ours)
    return translated(text)


def _words(answer: dict[str, Any]) -> str:
    metric, value = next(iter(answer["training"].items()))
    last = f"{metric.upper()} on the training data {value:.4f}, {answer['seconds']:.2f} s, model: {answer['model']}"
    return "\n".join([data_line(answer), *answer["summary"], last])
