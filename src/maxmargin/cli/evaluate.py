"""``maxmargin evaluate``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import Booleans, Floats, Ints, is_special
from maxmargin.cli.options import DataOptions, check_reading, speaking_of
from maxmargin.io import SVMLIGHT_LINE, DataError, is_archive, is_table, lines, number, read_labels, read_scores, read_table
from maxmargin.ranking import DEFAULT_METRICS, judged_run, per_query, read_qrels, read_run

_WIDEST = 60  # of a name in a table


class Scored(NamedTuple):
    """What the metrics take."""

    relevance: Floats
    scores: Floats
    qid: Ints | None
    retrieved: Booleans | None = None
    query_names: Sequence[Any] | None = None
    threshold: float | None = None  # of a model; labels above it are relevant


def run(
    files: tuple[Path, ...],
    reading: DataOptions,
    score: str | None,
    metrics: tuple[str, ...],
    gains: Any,
    each_query: bool,
    as_json: bool,
) -> str:
    """Metrics of scored samples, or of a model on samples; the text to print."""
    if len(files) == 2 and score is not None:
        raise click.UsageError("--score is for a table with a column of scores; here a model or a file has them")
    if len(files) == 1:
        scored = _by_column(files[0], reading, score or "score")
    elif is_archive(files[0]) or _has_samples(files[1]):
        scored = by_model(files[0], files[1], reading)
    else:
        scored = _by_line(files[0], files[1], reading)
    _warn_if_all_relevant(scored)
    return _text(scored, metrics or DEFAULT_METRICS, gains, each_query, as_json)


def run_trec(
    qrels: Path, run_file: Path, complete: bool, metrics: tuple[str, ...], gains: Any, each_query: bool, as_json: bool
) -> str:
    """Metrics of a run; the text to print."""
    refuse_auc(metrics)
    wanted = metrics or [name for name in DEFAULT_METRICS if name != "auc"]
    return _text(trec_scored(qrels, run_file, complete), wanted, gains, each_query, as_json)


def refuse_auc(metrics: Iterable[str]) -> None:
    """Complain about a metric that a run does not have."""
    if "auc" in map(str.lower, metrics):
        raise click.UsageError("auc needs the scores of all documents, which a run does not have; choose another metric")


def trec_scored(qrels: Path, run_file: Path, complete: bool) -> Scored:
    """A run and its judgements."""
    judged, results = read_qrels(qrels), read_run(run_file)
    try:
        return Scored(*judged_run(judged, results, complete=complete))
    except DataError:
        raise DataError(f"{run_file}: has no query in common with {qrels}; give results and judgements that match") from None


def _has_samples(path: Path) -> bool:
    """Whether a file looks like samples; nothing is taken out of pipes."""
    looks_like_svmlight = SVMLIGHT_LINE.match(_first_line(path)) is not None
    return looks_like_svmlight or (is_table(path) and not is_special(path) and not _has_scores(path))


def _has_scores(path: Path) -> bool:
    """Whether a file starts with a number and nothing else."""
    try:
        number(_first_line(path))
    except ValueError:
        return False
    return True


def _first_line(path: Path) -> str:
    """The first line that says something; empty for pipes and for what is not text."""
    if not is_special(path) and not is_archive(path):
        with suppress(DataError), closing(lines(path)) as text:  # what is wrong with it is said when it is read
            return next((line for line in text if line.strip() and not line.startswith("#")), "")
    return ""


def _by_column(path: Path, reading: DataOptions, score: str) -> Scored:
    wanted = reading._replace(features=[score]).wanted()
    if is_archive(path):
        raise click.UsageError(f"{path} was saved by maxmargin; name the data that it is to score after it: [MODEL] DATA")
    if not is_table(path) and _has_samples(path):
        raise click.UsageError(f"{path} is a svmlight file, without scores; name a model before it, or a file of scores after it")
    if wanted.label == score:
        raise click.UsageError(f"--label and --score both name the column {score!r}; name two columns")
    table = read_table(path, wanted._replace(kinds={}))
    return Scored(table.y, table.X[:, 0], table.qid, query_names=table.query_names)


def _by_line(data: Path, scores_file: Path, reading: DataOptions) -> Scored:
    if is_archive(scores_file):
        raise click.UsageError(f"{scores_file} was saved by maxmargin; a model comes first, and then the data: [MODEL] DATA")
    if is_table(data):
        raise click.UsageError(f"{data} is a table, whose scores are a column (--score); leave out {scores_file}")
    check_reading(data, reading)
    relevance, qid, names = read_labels(data)
    scores = read_scores(scores_file)
    if len(scores) != len(relevance):
        raise DataError(
            f"{scores_file}: has {len(scores)} scores, but {data} has {len(relevance)} samples; give one score for each"
        )
    return Scored(relevance, scores, qid, query_names=names)


def by_model(model_file: Path, data_file: Path, reading: DataOptions) -> Scored:
    """Samples as a model scores them."""
    from maxmargin.cli.reading import data_for, load_ranker, scores_of, threshold_of

    if _has_scores(model_file):
        raise click.UsageError(f"{model_file} has scores, which come after the data: DATA SCORES")
    model = load_ranker(model_file)
    data = data_for(model, model_file, data_file, reading, labels=True)
    threshold = threshold_of(model)
    with speaking_of(data_file):
        scores = scores_of(model.estimator, data.X, data.qid)
    return Scored(data.y, scores, data.qid, query_names=data.query_names, threshold=threshold)


def _warn_if_all_relevant(scored: Scored) -> None:
    threshold = scored.threshold or 0.0
    if (scored.relevance > threshold).all():
        who = "" if scored.threshold is None else " for this model"
        click.echo(
            f"Warning: every label is above {threshold:g}, so every sample counts as relevant{who}; irrelevant ones need labels "
            f"of {threshold:g} or less",
            err=True,
        )


def takes_grades(metric: str) -> bool:
    """Whether a metric is about grades, and not only about what is relevant."""
    return metric.lower().startswith(("ndcg", "err"))


def relevance_for(metric: str, y: Floats, threshold: float) -> Floats:
    """What a metric takes if labels above the threshold are relevant, in reports too.

    For NDCG and ERR what is irrelevant gains nothing, and whole grades above the threshold gain 1, 2, ... Other metrics take
    relevant and irrelevant.
    """
    return np.where(y > threshold, y - np.floor(threshold) if takes_grades(metric) else 1.0, 0.0)


def metric_values(scored: Scored, metrics: list[str], gains: Any) -> tuple[dict[str, Floats], Sequence[Any]]:
    """Metrics of every query, and the queries."""
    try:
        return _values(scored, metrics, gains)
    except ValueError as error:  # grades that a metric does not know
        raise DataError(str(error)) from error


def _values(scored: Scored, metrics: list[str], gains: Any) -> tuple[dict[str, Floats], Sequence[Any]]:
    y, scores, qid, retrieved, query_names, threshold = scored
    lists: dict[str, Any] = {"scores": scores, "qid": qid, "gains": gains, "retrieved": retrieved, "query_names": query_names}
    if threshold is None:
        return per_query(y, metrics=metrics, **lists)
    values: dict[str, Floats] = {}
    for graded in {takes_grades(name) for name in metrics}:
        names = [name for name in metrics if takes_grades(name) is graded]
        found, queries = per_query(relevance_for(names[0], y, threshold), metrics=names, **lists)
        values |= found
    return {name: values[name] for name in metrics}, queries


def _text(scored: Scored, metrics: Iterable[str], gains: Any, each_query: bool, as_json: bool) -> str:
    values, queries = metric_values(scored, list(metrics), gains)
    means = {name: float(value.mean()) for name, value in values.items()}
    if as_json:
        answer: dict[str, Any] = {"samples": len(scored.scores), "queries": len(queries), "metrics": means}
        if each_query:
            answer["per_query"] = {str(q): {name: float(values[name][k]) for name in values} for k, q in enumerate(queries)}
        return json.dumps(answer, indent=2)
    rows = [("all", means)]
    if each_query:
        rows = [(shortened(q), {name: float(values[name][k]) for name in values}) for k, q in enumerate(queries)] + rows
    return format_table(["query", *means], [[name, *(f"{row[metric]:.4f}" for metric in means)] for name, row in rows])


def shortened(name: Any) -> str:
    """A name that fits into a column: one in a file may be as long as the file."""
    return str(name) if len(str(name)) <= _WIDEST else f"{str(name)[: _WIDEST - 3]}..."


def format_table(header: list[str], rows: list[list[str]]) -> str:
    """Columns of equal width, the first to the left, the others to the right."""
    widths = [max(len(line[k]) for line in [header, *rows]) for k in range(len(header))]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
