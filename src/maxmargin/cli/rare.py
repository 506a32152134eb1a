"""``maxmargin train --method classifier``: one list of rare events, by :class:`maxmargin.RankingClassifier`."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin._utils import Floats, check_writable
from maxmargin.cli.options import DataOptions, Printing, aim_words, speaking_of, translated
from maxmargin.cli.reading import origin, training_data
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.cli.train import data_line, describe, metric_name
from maxmargin.core import save_model
from maxmargin.io import DataError
from maxmargin.rare_events import RankingClassifier

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
    check_usage(parameters, given)
    check_writable(model_file)
    data = training_data(data_file, reading)
    if data.qid is not None:
        raise has_queries(data_file)
    labels = np.unique(data.y)
    threshold = chosen_threshold(data_file, labels, parameters["relevance_threshold"])
    relevant = (data.y > threshold).astype(np.int64)
    check_counts(data_file, int((1 - relevant).sum()), int(relevant.sum()), threshold, labels)
    check_budget(data_file, aim, len(data))
    model = RankingClassifier(**settings(parameters, given, refine, aim, printing))
    began = time.perf_counter()
    with noting_signals() as signals, warnings.catch_warnings(record=True) as caught, speaking_of(data_file):
        warnings.simplefilter("always", UserWarning)
        model.fit(data.X, relevant)
    seconds, model.verbose = time.perf_counter() - began, 0
    score = model.score(data.X, relevant)
    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    about = origin(data_file, data)
    about["data"] |= notes_of_labels(labels, threshold)
    save_model(model, model_file, about=about)
    answer = {
        **describe(data, data_file),
        **outcome(model, about["data"].get("labels"), seconds, interrupted=bool(signals)),
        "training": {metric_name(model.loss): score},
        "model": str(model_file),
    }
    printing.tell(answer, lambda answer: "\n".join([data_line(answer), words(answer)]))
    warn(model, caught, interrupted=bool(signals))
    return exit_code(signals)


# ---- before training ----------------------------------------------------------------------------------------------------------


def check_usage(parameters: dict[str, Any], given: set[str]) -> None:
    """Complain about options that mean nothing here."""
    for name, option in _UNKNOWN.items():
        if name in given:
            raise click.UsageError(f"{option} is for --method svm; leave it out")
    if parameters["loss"] == "accuracy":
        raise click.UsageError("--method classifier is judged by rankings, and --loss accuracy is no rank loss; choose another")
    if parameters["scale"] == "query":
        raise click.UsageError("--method classifier is for one list, which knows no --scale query; leave it out")


def has_queries(data: Any) -> DataError:
    """Of data with several lists."""
    return DataError(f"{data}: has queries, and --method classifier is for one list; use --method svm")


def chosen_threshold(data: Any, labels: Floats, threshold: float | None) -> float:
    """The label above which samples are to be found; complains if there are more than two and nobody has said which."""
    if threshold is None and len(labels) > 2:
        few = ", ".join(f"{label:g}" for label in labels[:5]) + (", ..." if len(labels) > 5 else "")
        raise DataError(
            f"{data}: has {len(labels)} different labels ({few}), and --method classifier finds one class of two; say which "
            f"ones are to be found, those above --threshold {max(0.0, float(labels[0])):g} for example, or use --method svm"
        )
    return max(0.0, float(labels[0])) if threshold is None else float(threshold)


def check_counts(data: Any, negatives: int, positives: int, threshold: float, labels: Floats) -> None:
    """Complain about too few samples of a class."""
    for n, which in ((positives, "above"), (negatives, "not above")):
        if n < 2:
            raise DataError(
                f"{data}: has {n} samples with a label {which} {threshold:g} (labels are from {labels[0]:g} to "
                f"{labels[-1]:g}), and at least two of each kind are needed; add some, or set another --threshold"
            )


def check_budget(data: Any, aim: Any, n: int) -> None:
    """Complain about more samples to flag than there are."""
    budget = aim.get("budget", 0) if isinstance(aim, dict) else 0
    if budget > n:
        raise DataError(f"{data}: has {n} samples, fewer than --aim budget={budget:g}; name fewer, or a share below 1")


def settings(parameters: dict[str, Any], given: set[str], refine: bool | None, aim: Any, printing: Printing) -> dict[str, Any]:
    """Parameters of the classifier."""
    own = {name: parameters[name] for name in ("loss", "time_limit", "random_state")}
    own |= {name: parameters[name] for name in ("C", "tol", "max_iter") if name in given}
    return {
        **own,
        "standardize": "scale" not in given or parameters["scale"] == "standard",
        "refine": refine is not False,
        "threshold": "f1" if aim is None else aim,
        "verbose": int(printing.progress and sys.stderr.isatty()),
    }


# ---- and after it -------------------------------------------------------------------------------------------------------------


def notes_of_labels(labels: Floats, threshold: float) -> dict[str, Any]:
    """What the model remembers of labels: it is trained with 0 and 1."""
    notes: dict[str, Any] = {"threshold": threshold}
    if len(labels) == 2:
        notes["labels"] = [int(label) if float(label).is_integer() else label for label in labels.tolist()]
    return notes


def outcome(model: RankingClassifier, labels: list[float] | None, seconds: float, *, interrupted: bool) -> dict[str, Any]:
    """What training has come to."""
    return {
        "method": "classifier",
        "loss": model.loss,
        "C": model.C_,
        "refined": model.refined_,
        "gain": model.gain_,
        "gain_error": model.gain_error_,
        "held_out": {name: float(value) for name, value in model.held_out_.items()},
        "certified": False,
        "interrupted": interrupted,
        "seconds": seconds,
        "aim": aim_words(model.threshold),
        "threshold": model.threshold_,
        "summary": _translated(model.summary(), model, labels).splitlines(),
    }


def warn(model: RankingClassifier, caught: list[warnings.WarningMessage], *, interrupted: bool) -> None:
    """Say on standard error what was not reached."""
    if interrupted:
        click.echo("Warning: interrupted; the model is the best one so far", err=True)
        return
    for warning in caught:
        click.echo(f"Warning: {_translated(str(warning.message), model)}", err=True)


def _translated(text: str, model: RankingClassifier, labels: list[float] | None = None) -> str:
    """What the library says, with options in place of arguments and labels of the file in place of 0 and 1."""
    if labels is not None:
        text = text.replace(f"{'find:':15}1, not 0", f"{'find:':15}{labels[1]}, not {labels[0]}")
    aim = f"--aim {aim_words(model.threshold)}"
    replaced = [(f"threshold={model.threshold!r}", aim), (f"threshold {model.threshold!r}", aim)]
    replaced += [("RankingClassifier: ", ""), ("RankingClassifier ended", "training ended")]
    for theirs, ours in replaced:
        text = text.replace(theirs, ours)
    return translated(text)


def words(answer: dict[str, Any]) -> str:
    """The summary, for people."""
    found = "".join(f"{metric.upper()} on the training data {value:.4f}, " for metric, value in answer["training"].items())
    return "\n".join([*answer["summary"], f"{found}{answer['seconds']:.2f} s, model: {answer['model']}"])
