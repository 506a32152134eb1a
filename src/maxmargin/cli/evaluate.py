"""``maxmargin evaluate``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import Booleans, Floats, Ints, is_special
from maxmargin.cli.engine_options import JUDGED, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.options import (
    EXISTING,
    GAINS,
    INPUT,
    JSON,
    METRICS,
    DataOptions,
    check_reading,
    column_options,
    known_metrics,
    speaking_of,
    with_exit_codes,
)
from maxmargin.cli.reading import data_for, load_ranker, scores_of, threshold_of
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


@click.command()
@JUDGED
@click.option("-m", "--metric", "metrics", multiple=True, callback=known_metrics, help=f"{METRICS}; may be repeated.")
@GAINS
@column_options
@click.option("--score", help="Column of the scores (tables only).  [default: score]")
@click.option("--qrels", type=INPUT, help="Judgements: lines 'query 0 document relevance'.")
@click.option("--run", "run_file", type=INPUT, help="Results: lines 'query Q0 document rank score tag'.")
@click.option("-c", "--complete", is_flag=True, help="With --qrels: all judged queries count, those without results as 0.")
@click.option("--per-query", "each_query", is_flag=True, help="Also one line for every query.")
@engine_options
@JSON
@with_exit_codes
def evaluate(
    files: tuple[Any, ...],
    sharding: Sharding,
    reading: DataOptions,
    score: str | None,
    qrels: Path | None,
    run_file: Path | None,
    complete: bool,
    **options: Any,
) -> None:
    """Ranking metrics of scored samples, of a model or of a TREC run.

    DATA is a table (.csv or .tsv, perhaps .gz or .bz2, or .parquet) with a header and columns for relevance, score and, if
    there are several queries, qid. Or DATA is a svmlight/LETOR file and SCORES holds one score per line. Or a MODEL comes first,
    and scores DATA. Metrics are means over the queries; equal scores are put in the least favourable order.

    Relevant is what has a label above 0 or, for a MODEL, what it learned to be relevant. NDCG takes grades.

    With --qrels and --run, everything is as in trec_eval: equal scores by the names of the documents, documents without
    judgement are irrelevant, and the mean is over the queries that are in both files, or with -c over all in the judgements.

    --engine takes a MODEL and many files as DATA, as in train; metrics are exact, also of a list that lies in many parts.

    \b
    Examples:
      maxmargin evaluate results.csv -m map -m ndcg@10
      maxmargin evaluate test.letor predictions.txt --gains exponential --json
      maxmargin evaluate ranker.model test.letor
      maxmargin evaluate --qrels test.qrels --run test.run -c
      maxmargin evaluate ranker.model 'test-*.svm' --engine local
    """
    sharding.check()
    if sharding.engine is not None:
        whole = "with it a MODEL scores DATA; leave it out"
        refuse_with_engine({
            "score": whole, "qrels": whole, "run_file": whole, "complete": whole,
            "each_query": "values of single queries are not sent; leave it out",
        })  # fmt: skip
        if len(files) < 2:
            raise click.UsageError("a model and data are needed with --engine: MODEL DATA...")
        _evaluate_shards(files, sharding, reading, options["metrics"], options["gains"], options["as_json"])
        return
    if (qrels is None) != (run_file is None):
        raise click.UsageError("--qrels and --run go together: judgements, and the results to be judged")
    if qrels is not None and run_file is not None:
        if files:
            raise click.UsageError("give either files of samples, or --qrels and --run")
        if (reading.label, score, reading.qid) != (None, None, None):
            raise click.UsageError("--label, --score and --qid name columns of tables, which --qrels and --run have not")
        click.echo(_run_metrics(qrels, run_file, complete, **options))
        return
    if complete:
        raise click.UsageError("--complete is for --qrels and --run")
    if len(files) not in (1, 2):
        raise click.UsageError("one or two files are needed: [MODEL] DATA [SCORES]")
    click.echo(_sample_metrics(files, reading, score, **options))


def _sample_metrics(
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


def _run_metrics(
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


def _evaluate_shards(
    given: tuple[str, ...], sharding: Sharding, reading: DataOptions, metrics: tuple[str, ...], gains: Any, as_json: bool
) -> None:
    """Metrics of a model, means over the queries of all shards."""
    from maxmargin.cli.sharded import files_for, ranking_shard, read_ranker, sizes, started, weights_of
    from maxmargin.distributed import Conversation, numbers
    from maxmargin.ranking.shards import evaluate as judge

    context = click.get_current_context()
    model_file: Path = EXISTING.convert(given[0], next(p for p in context.command.params if p.name == "files"), context)
    model = read_ranker(model_file)
    files = files_for(model, model_file, given[1:], sharding, reading, labels=True)
    wanted, threshold, (weights, _) = list(metrics or DEFAULT_METRICS), threshold_of(model), weights_of(model)
    with started(files, ranking_shard, show=not as_json and sys.stderr.isatty()) as engine:
        shards = Conversation(engine)
        graded = [name for name in wanted if takes_grades(name)]
        plain = [name for name in wanted if not takes_grades(name)]
        found: dict[str, float] = {}
        if graded:
            found |= judge(shards, weights, metrics=graded, gains=gains, base=threshold)
        if plain:
            found |= judge(shards, weights, metrics=plain, thresholds=[threshold])
        answer = sizes(files, shards)
        counts = {"engine": sharding.engine, **numbers(engine, shards.repeats)}
    means = {name: found[name] for name in wanted}
    if as_json:
        queries = 1 if answer["queries"] is None else answer["queries"]
        click.echo(json.dumps({"samples": answer["samples"], "queries": queries, "metrics": means, **counts}, indent=2))
        return
    click.echo(format_table(["query", *means], [["all", *(f"{value:.4f}" for value in means.values())]]))
