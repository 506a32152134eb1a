"""``maxmargin cv``: C by cross-validation.

Every C of every fold is solved for itself, from the start: weights within the same gap of the optimum differ, and so would scores
if a fit went on from that of another C in the grid. A fold is one job, so the result depends on the seed and not on the number of
jobs. Jobs are threads: inference and linear algebra leave the interpreter to the others, and threads need no copies of the data.
"""

from __future__ import annotations

import dataclasses
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from maxmargin._utils import Floats, StatusLine, check_writable, thread_count
from maxmargin.cli import train
from maxmargin.cli.evaluate import format_table, relevance_for
from maxmargin.cli.options import (
    DATA,
    GAINS,
    METRICS,
    MODEL_OUTPUT,
    DataOptions,
    Printing,
    data_options,
    keep_apart,
    known_metrics,
    numbers,
    output_options,
    speaking_of,
    training_options,
    with_exit_codes,
)
from maxmargin.cli.reading import explaining_memory, scores_of, training_data
from maxmargin.cli.signals import exit_code
from maxmargin.core.solvers import ConvergenceWarning, Solver
from maxmargin.io import RankingData, query_offsets
from maxmargin.ranking import evaluate

if TYPE_CHECKING:
    from maxmargin.ranking import RankingSVM

Rows = NDArray[np.intp]


class Measure(NamedTuple):
    """What held-out samples are judged by: a metric by name, or what the model was trained for; labels above are relevant."""

    metric: str | None
    gains: Any
    threshold: float

    def of(self, model: RankingSVM, X: Any, y: Floats, qid: NDArray[Any] | None = None) -> float:
        """The value."""
        if self.metric is None:
            return model.score(X, y, qid)
        labels = relevance_for(self.metric, y, self.threshold)
        return evaluate(labels, scores_of(model, X, qid), qid=qid, metrics=[self.metric], gains=self.gains)[self.metric]


def agreed(data: RankingData, parameters: dict[str, Any], metric: str | None, gains: Any) -> tuple[dict[str, Any], Measure]:
    """Parameters and measure for all folds: what is relevant is decided on all data, so that they agree."""
    known = parameters["relevance_threshold"]
    threshold = max(0.0, float(data.y.min())) if known is None else known
    if not parameters["grades"]:
        parameters = {**parameters, "relevance_threshold": threshold}
    return parameters, Measure(metric, gains, threshold)


class Fit(NamedTuple):
    """One C on one fold."""

    value: float
    relative_gap: float
    converged: bool


@click.command()
@DATA
@click.option("--C", "grid", callback=numbers, help="Values to try, 0.1,1,10.  [default: six powers of ten]")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="How many.")
@click.option("-m", "--metric", callback=known_metrics, help=f"{METRICS}.  [default: what is trained for]")
@GAINS
@click.option("--jobs", type=click.IntRange(1), help="Folds at a time.  [default: one per core]")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="Tell what a logistic regression reaches.")
@click.option("--model", "model_file", type=MODEL_OUTPUT, help="Train on all data with the best C, and write the model here.")
@training_options
@data_options
@output_options
@with_exit_codes
def cv(
    data_file: Path,
    reading: DataOptions,
    parameters: dict[str, Any],
    grid: list[float] | None,
    folds: int,
    metric: str | None,
    gains: Any,
    jobs: int | None,
    baseline: bool,
    model_file: Path | None,
    printing: Printing,
) -> int:
    """Choose C by cross-validation.

    Folds are made of whole queries or, without queries, of samples, with the same share of relevant ones in every fold. The
    table has the mean of the metric over the folds and its standard error, for every C. A time limit is one for each fit. Exit
    codes are those of train.

    For comparison, logistic regressions on standardised features are judged on the same folds, with C from 1e-4 to 10; the best
    one is told.

    \b
    Examples:
      maxmargin cv train.letor --loss ap --C 0.1,1,10
      maxmargin cv train.letor --metric ndcg@10 --model ranker.model
    """
    keep_apart({"--model": model_file}, {"DATA": data_file})
    with explaining_memory(data_file, reading):
        if model_file is not None:
            check_writable(model_file)
        data = training_data(data_file, reading)
        values = sorted(set(grid)) if grid else default_grid(data)
        parameters, measure = agreed(data, parameters, metric, gains)
        with speaking_of(data_file):
            table = cross_validate(data, parameters, values, folds, measure, jobs, show=printing.progress)
        name = metric or train.metric_name(parameters["loss"])
        answer = _answer(train.describe(data, data_file), values, table, name, folds)
        if baseline:
            from maxmargin.cli.baseline import cross_validated_logistic, summary

            parts = split(data, folds, parameters["random_state"], measure.threshold)
            scores = cross_validated_logistic(data, parameters, parts, measure, jobs)
            if np.isfinite(scores).all():
                answer["logistic_regression"] = summary(scores)
        trained = None
        if model_file is not None:
            trained = train.fit(data, data_file, {**parameters, "C": answer["best_C"]}, show=printing.progress)
            answer["final"] = train.save(trained, data, data_file, model_file)
        printing.tell(answer, _words)
        _warn(answer)
        if trained is not None:
            train.warn_unless_converged(trained, data)
        return 0 if trained is None else exit_code(trained.signals)


def default_grid(data: RankingData) -> list[float]:
    """Powers of ten, from 1 to 1e5 for a single list and lower for many queries, whose hinges add up."""
    queries = 1 if data.query_names is None else len(data.query_names)
    return [10.0 ** (k - round(np.log10(queries))) for k in range(6)]


def cross_validate(
    data: RankingData,
    parameters: dict[str, Any],
    values: list[float],
    folds: int,
    measure: Measure,
    jobs: int | None,
    *,
    show: bool,
) -> list[list[Fit]]:
    """For every fold, one fit per C."""
    from maxmargin.ranking import RankingSVM

    parts = split(data, folds, parameters["random_state"], measure.threshold)
    stop, table = Event(), []
    until: dict[str, Any] = {"callback": lambda history: stop.is_set()}
    if isinstance(solver := parameters.get("solver"), Solver):
        # What counts is the callback of the object.
        until = {"solver": dataclasses.replace(solver, **until)}
    models = [RankingSVM(**(parameters | until)) for _ in parts]
    # Small products do not gain from threads of their own. Warnings are for all threads, so they are silenced here.
    with (
        threadpool_limits(1),
        warnings.catch_warnings(),
        StatusLine(transient=True) as line,
        ThreadPoolExecutor(thread_count(jobs, "--jobs")) as pool,
    ):
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            tasks = [
                pool.submit(_fold, model, data, values, measure, rows, stop) for model, rows in zip(models, parts, strict=True)
            ]
            for task in tasks:
                table.append(task.result())
                if show:
                    line.show(f"cross-validation: {len(table)} of {folds} folds")
        finally:
            # After Ctrl-C, which comes to this thread, or a fold that cannot be fitted, the others need not go on.
            stop.set()
    return table


def split(data: RankingData, folds: int, seed: int, threshold: float) -> list[Rows]:
    """Rows that are held out, for every fold: whole queries or, in a single list, samples with their share of relevant ones."""
    if data.qid is None:
        relevant = data.y > threshold
        rarer = int(min(np.count_nonzero(relevant), np.count_nonzero(~relevant)))
        if rarer < folds:
            raise ValueError(
                f"{folds} folds need as many relevant and as many irrelevant samples, but there are only {rarer} of one kind; "
                "lower --folds"
            )
        from sklearn.model_selection import StratifiedKFold

        return [held for _, held in StratifiedKFold(folds, shuffle=True, random_state=seed).split(data.y, relevant)]
    ids, offsets, order = query_offsets(data.qid, len(data))
    if len(ids) < folds:
        raise ValueError(f"{folds} folds need as many queries, but there are only {len(ids)}; lower --folds")
    fold_of_query = np.empty(len(ids), dtype=np.int64)
    fold_of_query[np.random.default_rng(seed).permutation(len(ids))] = np.arange(len(ids)) % folds
    fold = np.repeat(fold_of_query, np.diff(offsets))
    if order is not None:
        fold[order] = fold.copy()
    return [np.flatnonzero(fold == k) for k in range(folds)]


def _fold(model: RankingSVM, data: RankingData, values: list[float], measure: Measure, held: Rows, stop: Event) -> list[Fit]:
    """Fits on the other rows, judged on those held out; ends early, with too few of them, if told to stop."""
    X, y, qid = data.X, data.y, data.qid
    kept = np.setdiff1d(np.arange(len(y)), held)
    known, new = ((X[rows], y[rows], None if qid is None else qid[rows]) for rows in (kept, held))
    fits: list[Fit] = []
    for C in values:
        if stop.is_set():
            break
        model.set_params(C=C).fit(*known)
        gap = model.dual_gap_ / max(abs(model.primal_objective_), 1e-300)
        fits.append(Fit(measure.of(model, *new), gap, bool(gap <= model.tol)))
    return fits


def _answer(about: dict[str, Any], values: list[float], table: list[list[Fit]], metric: str, folds: int) -> dict[str, Any]:
    results = []
    for C, fits in zip(values, zip(*table, strict=True), strict=True):
        held_out = [fit.value for fit in fits]
        results.append(
            {
                "C": C,
                "mean": float(np.mean(held_out)),
                "standard_error": float(np.std(held_out, ddof=1) / np.sqrt(len(held_out))),
                "folds": held_out,
                "largest_relative_gap": max(fit.relative_gap for fit in fits),
                "not_converged": sum(not fit.converged for fit in fits),
            }
        )
    best = max(results, key=lambda row: row["mean"])  # the smallest C of equally good ones
    return {**about, "metric": metric, "n_folds": folds, "best_C": best["C"], "results": results}


def _words(answer: dict[str, Any]) -> str:
    header = ["C", f"{answer['metric'].upper()}, {answer['n_folds']} folds", "std. error", "largest gap"]
    rows = [
        [f"{row['C']:g}", f"{row['mean']:.4f}", f"{row['standard_error']:.4f}", f"{row['largest_relative_gap']:.1e}"]
        for row in answer["results"]
    ]
    final = [train.model_lines(answer["final"])] if "final" in answer else []
    lines = [train.data_line(answer), format_table(header, rows), f"best C: {answer['best_C']:g}"]
    other = answer.get("logistic_regression")
    if other is not None:
        lines.append(f"to beat: {other['mean']:.4f} ({other['standard_error']:.4f}), logistic regression with C {other['C']:g}")
    return "\n".join([*lines, *final])


def _warn(answer: dict[str, Any]) -> None:
    late = sum(row["not_converged"] for row in answer["results"])
    if late:
        click.echo(
            f"Warning: {late} of {len(answer['results']) * answer['n_folds']} fits did not reach --tol; raise --max-iter or "
            "--time-limit",
            err=True,
        )
    grid = [row["C"] for row in answer["results"]]
    if len(grid) > 1 and answer["best_C"] in (grid[0], grid[-1]):
        where = "lower" if answer["best_C"] == grid[0] else "higher"
        click.echo(f"Warning: the best C is at the end of the grid; try {where} ones", err=True)
