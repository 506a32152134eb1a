"""``maxmargin predict``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from maxmargin._types import Floats
from maxmargin.cli.options import DataOptions, speaking_of
from maxmargin.cli.reading import data_for, load_ranker, scores_of
from maxmargin.data import DataError, RankingData, run_lines
from maxmargin.storage import check_writable, is_special, replacing


def run(model_file: Path, data_file: Path, reading: DataOptions, form: str, tag: str, output: Path | None, as_json: bool) -> None:
    """Score, and write to a file or print."""
    if output is not None:
        check_writable(output)
    model = load_ranker(model_file)
    data = data_for(model, model_file, data_file, reading, labels=False, comments=form == "trec")
    with speaking_of(data_file):
        scores = scores_of(model.estimator, data.X, data.qid)
    answer: dict[str, Any] = {"model": str(model_file), "data": str(data_file), "samples": len(scores)}
    try:
        lines = list(_run(data, scores, tag) if form == "trec" else (f"{score:.17g}\n" for score in scores.tolist()))
    except DataError as error:
        raise DataError(f"{data_file}: {error}") from None
    if output is not None:
        with replacing(output) as file:
            file.writelines(line.encode() for line in lines)
        answer["output"] = str(output)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        elif not is_special(output):  # it may be standard output itself
            click.echo(f"{output}: {len(scores)} scores")
    elif as_json:
        click.echo(json.dumps({**answer, "scores": scores.tolist()}))
    else:
        click.echo("".join(lines), nl=False)


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
