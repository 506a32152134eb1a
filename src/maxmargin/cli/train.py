"""``maxmargin train``."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import check_writable
from maxmargin.cli.engine_options import CHECKPOINT, NOT_IN_PARTS, SAMPLES, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.options import (
    AIM,
    MODEL_OUTPUT,
    POSITIVE,
    DataOptions,
    Printing,
    data_options,
    given_options,
    keep_apart,
    output_options,
    speaking_of,
    training_options,
    translated,
    with_exit_codes,
)
from maxmargin.cli.reading import explaining_memory, origin, training_data
from maxmargin.cli.refine import check_refinable, refine, refined_line
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.core.solvers import ConvergenceWarning

if TYPE_CHECKING:
    from maxmargin.io import RankingData
    from maxmargin.ranking import RankingSVM

_NO_LABELS = "--aim is for --method classifier: other models give scores and no labels; leave it out"


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


@click.command()
@SAMPLES
@click.option("--model", "model_file", type=MODEL_OUTPUT, required=True, help="Where to write the model.")
@click.option("--C", "C", type=POSITIVE, help="Weight of the hinges, or of the logistic loss.  [default: 1, or tuned]")
@click.option(
    "--method",
    type=click.Choice(["svm", "classifier"]),
    default="svm",
    show_default=True,
    help="RankingSVM, certified; or for one list of rare events RankingClassifier.",
)
@AIM
@click.option("--refine/--no-refine", default=None, help="Steps on the loss itself, if held-out folds gain; see above.")
@engine_options
@CHECKPOINT
@training_options
@data_options
@output_options
@with_exit_codes
def train(
    data_file: Any,
    model_file: Path,
    C: float | None,
    method: str,
    aim: Any,
    refine: bool | None,
    sharding: Sharding,
    checkpoint: Path | None,
    parameters: dict[str, Any],
    reading: DataOptions,
    printing: Printing,
) -> int:
    """Train a ranking model for a metric.

    DATA is a svmlight/LETOR file or a table (.csv, .tsv, .parquet) with a header, or - for standard input. Samples of a query
    form a list; without queries all samples form one. The model is written in one step, with its certified duality gap; it has
    weights and numbers only, and loading it runs no code.

    --method classifier is for one list of rare events: a logistic regression on standardised features, its C tuned for the metric
    in inner folds, refined where that helps. It is not certified, and often better than the hinge alone; --scale none leaves
    features as they are. --aim says what its labels (predict --as labels) are to be good at.

    --refine descends the rank loss itself from the trained model: the steps are taken if the metric of five held-out folds gains
    more than its standard error; otherwise the certified model is written.

    --engine trains on parts of DATA, which may then be many files, globs in quotes, URLs for fsspec, or a folder of pack: local
    in this process (packed shards are mapped, and need not fit into memory), dask on a cluster, which reads the files itself.
    The objective and its certificate are the same. A worker that is lost costs a reload, and changes no bit of the model.
    --method classifier and --refine need all of DATA in one process.

    If the gap does not reach --tol, the best model so far is written, a warning says so, and the exit code is 0. Ctrl-C does the
    same with exit code 130, SIGTERM with 143. The exit code is 1 for bad input and 2 for wrong usage.

    \b
    Examples:
      maxmargin train train.letor --loss ndcg --C 10 --model ranker.model
      maxmargin train train.csv --label grade --qid query --model ranker.model
      maxmargin train frauds.csv --label fraud --method classifier --model frauds.model
      maxmargin train frauds.csv --label fraud --method classifier --aim budget=0.01 --model frauds.model
      maxmargin train 'part-*.svm' --engine dask --scheduler tcp://host:8786 --checkpoint run.ckpt --model ranker.model
    """
    sharding.check(checkpoint)
    settings = {**parameters, "C": 1.0 if C is None else C}
    if sharding.engine is not None:
        refuse_with_engine(NOT_IN_PARTS)
        if method == "classifier":
            raise click.UsageError(
                "--method classifier trains in one process only; leave out --engine, or use --method svm for data in parts"
            )
        if refine:
            raise click.UsageError("--refine needs all data in one process; leave out --refine, or leave out --engine")
        if aim is not None:
            raise click.UsageError(_NO_LABELS)
        from maxmargin.cli import sharded_train

        return sharded_train.run(data_file, sharding, reading, settings, model_file, checkpoint, printing)
    keep_apart({"--model": model_file}, {"DATA": data_file})
    if aim is not None and method != "classifier":
        raise click.UsageError(_NO_LABELS)
    with explaining_memory(data_file, reading):
        if method == "classifier":
            from maxmargin.cli import rare

            return rare.run(data_file, reading, settings, given_options(), refine, aim, model_file, printing)
        return _run(data_file, reading, settings, model_file, printing, refining=bool(refine))


def _run(
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
    from maxmargin.ranking import RankingSVM

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
    from maxmargin.core import save_model

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
    from maxmargin.core import column_peaks
    from maxmargin.ranking import scaling_advice

    names = data.feature_names
    if names is None and data.zero_based:
        names = [f"feature {k}" for k in range(data.X.shape[1])]
    return translated(scaling_advice(column_peaks(data.X), names))
