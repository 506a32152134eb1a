"""Commands about data on several machines, or beyond memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxmargin.cli.options import output_options, shard_options, with_exit_codes


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
def pack(files: tuple[str, ...], output: Path, **options: Any) -> None:
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
    from maxmargin.cli.pack import run

    run(files, output, **options)
