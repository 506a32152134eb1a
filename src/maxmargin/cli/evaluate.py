"""``maxmargin evaluate``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin.cli.options import DataOptions
from maxmargin.data import DataError, Wanted, judged_run, read_labels, read_qrels, read_run, read_scores, read_table
from maxmargin.metrics import DEFAULT_METRICS, per_query
from maxmargin.storage import is_archive


class Scored(NamedTuple):
    """What the metrics take."""

    relevance: NDArray[np.float64]
    scores: NDArray[np.float64]
    qid: NDArray[Any] | None
    retrieved: NDArray[np.bool_] | None = None


def run(
    files: tuple[Path, ...], metrics: tuple[str, ...], gains: Any, columns: dict[str, Any], each_query: bool, as_json: bool
) -> str:
    """Metrics of scored samples, or of a model on samples; the text to print."""
    if len(files) == 2 and is_archive(files[0]):
        scored = _by_model(files[0], files[1], columns)
    elif len(files) == 2:
        scored = _by_line(files[0], files[1])
    else:
        label, query = columns["label"] or "relevance", columns["qid"] or "qid"
        table = read_table(files[0], Wanted(label, query, [columns["score"]], query_needed=columns["qid"] is not None))
        scored = Scored(table.y, table.X[:, 0], table.qid)
    return _text(scored, metrics or DEFAULT_METRICS, gains, each_query, as_json)


def run_trec(
    qrels: Path, run_file: Path, complete: bool, metrics: tuple[str, ...], gains: Any, each_query: bool, as_json: bool
) -> str:
    """Metrics of a run; the text to print."""
    if "auc" in map(str.lower, metrics):
        raise DataError("auc needs the scores of all documents, which a run does not have; choose another metric")
    judged, results = read_qrels(qrels), read_run(run_file)
    try:
        scored = Scored(*judged_run(judged, results, complete=complete))
    except DataError:
        raise DataError(f"{run_file}: has no query in common with {qrels}; give results and judgements that match") from None
    return _text(scored, metrics or [name for name in DEFAULT_METRICS if name != "auc"], gains, each_query, as_json)


def _by_line(data: Path, scores_file: Path) -> Scored:
    relevance, qid = read_labels(data)
    scores = read_scores(scores_file)
    if len(scores) != len(relevance):
        raise DataError(f"{scores_file}: has {len(scores)} scores, but {data} has {len(relevance)} samples")
    return Scored(relevance, scores, qid)


def _by_model(model_file: Path, data_file: Path, columns: dict[str, Any]) -> Scored:
    from maxmargin.cli.reading import data_for, load_ranker, scores_of

    model = load_ranker(model_file)
    reading = DataOptions(columns["label"], columns["qid"], None, None, "keep")
    data = data_for(model, model_file, data_file, reading, labels=True)
    return Scored(data.y, scores_of(model.estimator, data.X), data.qid)


def _text(scored: Scored, metrics: Iterable[str], gains: Any, each_query: bool, as_json: bool) -> str:
    try:
        values, queries = per_query(**scored._asdict(), metrics=metrics, gains=gains)
    except ValueError as error:
        raise DataError(str(error)) from error
    means = {name: float(value.mean()) for name, value in values.items()}
    if as_json:
        answer: dict[str, Any] = {"samples": len(scored.scores), "queries": len(queries), "metrics": means}
        if each_query:
            answer["per_query"] = {str(q): {name: float(values[name][k]) for name in values} for k, q in enumerate(queries)}
        return json.dumps(answer, indent=2)
    rows = [("all", means)]
    if each_query:
        rows = [(str(q), {name: float(values[name][k]) for name in values}) for k, q in enumerate(queries)] + rows
    return format_table(["query", *means], [[name, *(f"{row[metric]:.4f}" for metric in means)] for name, row in rows])


def format_table(header: list[str], rows: list[list[str]]) -> str:
    """Columns of equal width, the first to the left, the others to the right."""
    widths = [max(len(line[k]) for line in [header, *rows]) for k in range(len(header))]

    def line(cells: list[str]) -> str:
        first = cells[0].ljust(widths[0])
        return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))]).rstrip()

    return "\n".join([line(header), line(["-" * width for width in widths]), *map(line, rows)])
