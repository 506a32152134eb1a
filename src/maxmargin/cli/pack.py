"""``maxmargin pack``: files into packed shards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from maxmargin import distributed
from maxmargin._utils import StatusLine
from maxmargin.cli.options import DataOptions, Printing, check_reading, output_options, shard_options, with_exit_codes
from maxmargin.io import expand, is_table


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder of the shards; made if need be.",
)
@click.option("--shards", type=click.IntRange(1), help="How many.  [default: as many as have 256 MB of FILES each]")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float64", show_default=True, help="Of features.")
@click.option(
    "--layout",
    type=click.Choice(["auto", "dense", "sparse"]),
    default="auto",
    show_default=True,
    help="Of rows from svmlight files; auto takes what needs fewer bytes.",
)
@click.option("--n-features", type=click.IntRange(1), help="Columns (svmlight files).  [default: what the largest index needs]")
@shard_options
@output_options
@with_exit_codes
def pack(files: tuple[str, ...], output: Path, reading: DataOptions, printing: Printing, **options: Any) -> None:
    """Write FILES into packed shards: folders that are memory-mapped, for training on several machines or beyond memory.

    FILES are names, globs (in quotes) or URLs for fsspec, of svmlight/LETOR files or of tables (.csv, .tsv, .parquet), all of
    one kind. Plain svmlight files are cut between lines, Parquet between row groups, others stay whole. A query is in the shard
    in which it begins. Text in tables is not encoded: leave such columns out with --drop.

    One shard is in memory at a time, and each is written in one step. After Ctrl-C the same command goes on where it was: shards
    are kept if their files have not changed. Exit codes are those of train.

    \b
    Examples:
      maxmargin pack 'part-*.svm' -o packed --shards 200 --dtype float32
      maxmargin pack s3://bucket/part-*.parquet -o packed --label grade --qid query
    """
    names = expand(files)
    check_reading(Path(names[0]), reading)
    if is_table(names[0]):
        wanted = reading.wanted()
        options |= {
            "label": wanted.label, "query": wanted.query, "query_needed": wanted.query_needed, "features": wanted.features,
            "drop": wanted.drop,
        }  # fmt: skip
    else:
        options["zero_based"] = reading.numbering()
    start = time.perf_counter()
    with StatusLine(shown=printing.progress, transient=True) as line:
        made = distributed.pack(names, output, tell=line.show, **options)
    printing.tell({**made._asdict(), "seconds": round(time.perf_counter() - start, 3)}, _words)


def _words(answer: dict[str, Any]) -> str:
    queries = "" if answer["queries"] is None else f"{answer['queries']} queries, "
    kept = f", {answer['kept']} of them as they were" if answer["kept"] else ""
    form = f"{'sparse' if answer['sparse'] else 'dense'} {answer['dtype']}"
    shards = f"{answer['shards']} shard{'s' if answer['shards'] > 1 else ''}"
    return (
        f"{answer['folder']}: {shards}{kept}, {answer['rows']} samples, {queries}{answer['features']} features, {form}, "
        f"{answer['bytes'] / 1e6:.1f} MB"
    )
