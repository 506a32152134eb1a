"""``maxmargin train``."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import check_writable
from maxmargin.cli.options import DataOptions, Printing, speaking_of, translated
from maxmargin.cli.reading import origin, training_data
from maxmargin.cli.refine import check_refinable, refine, refined_line
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.core import column_peaks, save_model
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.io import RankingData
from maxmargin.ranking import RankingSVM, scaling_advice


class Trained(NamedTuple):
    """A fitted model, the time it took and the signals that ended it early."""

    model: RankingSVM
    seconds: float
    signals: list[int]

    @property
    def converged(self) -> bool:
        """Whether the gap reached the tolerance."""
        return bool(self.model.dual_gap_ <= self.model.tol * abs(self.model.primal_objective_))

    @property
    def relative_gap(self) -> float:
        """The gap as a part of the objective."""
        return float(self.model.dual_gap_ / max(abs(self.model.primal_objective_), 1e-300))


def run(
    data_file: Path,
    reading: DataOptions,
    parameters: dict[str, Any],
    model_file: Path,
    printing: Printing,
    *,
    refining: bool = False,
) -> int:
    """Train, perhaps refine, save, report; the exit code."""
    if refining:
        check_refinable(parameters)
    check_writable(model_file)
    data = training_data(data_file, reading)
    trained = fit(data, data_file, parameters, show=printing.progress)
    answer = {**describe(data, data_file), **save(trained, data, data_file, model_file)}
    signals = trained.signals
    if refining and not signals:
        # The certified model is in its place already, whatever ends what follows.
        found = refine(data, data_file, parameters, show=printing.progress)
        answer["refinement"], signals = found.describe(), found.signals
        if found.taken:
            score = write(found.model, data, data_file, model_file)
            answer |= {"certified": False, "training": {metric_name(parameters["loss"]): score}}
    printing.tell(answer, lambda answer: f"{data_line(answer)}\n{model_lines(answer)}")
    warn_unless_converged(trained, data)
    if signals and not trained.signals:
        click.echo("Warning: interrupted during refinement; the model is the one before it", err=True)
    return exit_code(signals)


def fit(data: RankingData, data_file: Path, parameters: dict[str, Any], *, show: bool) -> Trained:
    """A model of all data; Ctrl-C and SIGTERM end training with what has been reached."""
    model = RankingSVM(**parameters, verbose=int(show and sys.stderr.isatty()))
    began = time.perf_counter()
    with noting_signals() as signals, warnings.catch_warnings(), speaking_of(data_file):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y, data.qid)
    return Trained(model, time.perf_counter() - began, signals)


def save(trained: Trained, data: RankingData, data_file: Path, model_file: Path) -> dict[str, Any]:
    """Write the model; what there is to say about it."""
    model = trained.model
    score = write(model, data, data_file, model_file)
    return {**outcome(trained), "training": {metric_name(model.loss): score}, "model": str(model_file)}


def outcome(trained: Trained) -> dict[str, Any]:
    """What training has come to."""
    model = trained.model
    return {
        "loss": model.loss,
        "C": model.C,
        "skipped_queries": model.n_skipped_queries_,
        "primal": model.primal_objective_,
        "dual": model.dual_objective_,
        "gap": model.dual_gap_,
        "relative_gap": trained.relative_gap,
        "certified": model.certified_,
        "converged": trained.converged,
        "interrupted": bool(trained.signals),
        "passes": model.n_iter_,
        "seconds": trained.seconds,
    }


def write(model: Any, data: RankingData, data_file: Path, model_file: Path) -> float:
    """Write a model with what is known of its data; its score on them."""
    score = float(model.score(data.X, data.y, data.qid))
    if data.feature_names is not None:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    model.verbose = 0
    save_model(model, model_file, about=origin(data_file, data))
    return score


def metric_name(loss: Any) -> str:
    """The metric that ``score`` gives for a loss by name."""
    return "ap" if loss == "accuracy" else str(loss)


def describe(data: RankingData, data_file: Path) -> dict[str, Any]:
    """Sizes."""
    queries = None if data.query_names is None else len(data.query_names)
    kinds = {} if data.encoding is None else data.encoding.kinds
    one_hot = {column: len(kind) for column, kind in kinds.items() if isinstance(kind, list)}
    sizes = {"data": str(data_file), "samples": len(data), "queries": queries, "features": int(data.X.shape[1])}
    return {**sizes, "categories": one_hot} if one_hot else sizes


def data_line(answer: dict[str, Any]) -> str:
    """Sizes, for people."""
    lists = "one list" if answer["queries"] is None else f"{answer['queries']} queries"
    line = f"{answer['data']}: {answer['samples']} samples, {lists}, {answer['features']} features"
    coded = ", ".join(f"{column} ({n} categories)" for column, n in answer.get("categories", {}).items())
    return f"{line}\none-hot encoded: {coded}" if coded else line


def model_lines(answer: dict[str, Any]) -> str:
    """The certificate, for people."""
    certified = "certified" if answer["certified"] or answer.get("refinement", {}).get("taken") else "not certified"
    skipped = answer["skipped_queries"]
    lines = [f"passed over, because all samples are relevant or all irrelevant: {skipped} queries"] if skipped else []
    lines.append(
        f"primal {answer['primal']:.6g}, dual {answer['dual']:.6g}, relative gap {answer['relative_gap']:.1e} ({certified}), "
        f"{answer['passes']} passes in {answer['seconds']:.2f} s"
    )
    if "refinement" in answer:
        lines.append(refined_line(answer["refinement"]))
    found = "".join(f"{metric.upper()} on the training data {value:.4f}, " for metric, value in answer["training"].items())
    lines.append(f"{found}model: {answer['model']}")
    return "\n".join(lines)


def warn_unless_converged(trained: Trained, data: RankingData) -> None:
    """Say so on standard error."""
    if trained.signals:
        click.echo("Warning: interrupted; the model is the best one so far, with the gap it has", err=True)
    elif not trained.converged:
        remedies = "Raise --max-iter or --time-limit, lower --C" if _can_scale(trained) else "Raise --max-iter or --time-limit"
        click.echo(
            f"Warning: the relative gap did not reach --tol {trained.model.tol:g}; the model is the best one so far. "
            f"{remedies}, or {_scaling(data) if _can_scale(trained) else 'lower --C'}",
            err=True,
        )


def _can_scale(trained: Trained) -> bool:
    return trained.model.scale == "none"


def _scaling(data: RankingData) -> str:
    """What the library would say, which names the columns that stand out, with the option in place of its class."""
    names = data.feature_names
    if names is None and data.zero_based:
        names = [f"feature {k}" for k in range(data.X.shape[1])]
    return translated(scaling_advice(column_peaks(data.X), names))
