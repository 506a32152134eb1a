"""``maxmargin evaluate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from maxmargin.data import DataError, Wanted, read_labels, read_scores, read_table
from maxmargin.metrics import DEFAULT_METRICS, per_query


def run(
    data: Path,
    scores_file: Path | None,
    metrics: tuple[str, ...],
    gains: Any,
    columns: dict[str, str],
    each_query: bool,
    as_json: bool,
) -> str:
    """The text to print."""
    if scores_file is None:
        table = read_table(data, Wanted(columns["relevance"], columns["qid"], [columns["score"]], query_needed=False))
        relevance, scores, qid = table.y, table.X[:, 0], table.qid
    else:
        relevance, qid = read_labels(data)
        scores = read_scores(scores_file)
        if len(scores) != len(relevance):
            raise DataError(f"{scores_file}: has {len(scores)} scores, but {data} has {len(relevance)} samples")
    try:
        values, queries = per_query(relevance, scores, qid=qid, metrics=metrics or DEFAULT_METRICS, gains=gains)
    except ValueError as error:
        raise DataError(str(error)) from error
    means = {name: float(value.mean()) for name, value in values.items()}
    if as_json:
        answer: dict[str, Any] = {"samples": len(scores), "queries": len(queries), "metrics": means}
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
