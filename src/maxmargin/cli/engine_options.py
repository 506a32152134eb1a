"""Options of commands that can work on parts of the data, in this process or on a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import click

from maxmargin.cli.options import INPUT, OUTPUT, DataOptions, File, given_options, packing

_COLUMNS = ("label", "qid", "features", "drop")


class Sharding(NamedTuple):
    """Where shards are and what they are made of; ``engine`` is None for all data at once, without shards."""

    engine: str | None = None
    scheduler: str | None = None
    shards: int | None = None
    dtype: str | None = None

    def check(self, checkpoint: Path | None = None) -> None:
        """Complain about options that do not go together."""
        if self.engine is None:
            for name, value in (*zip(self._fields[1:], self[1:], strict=True), ("checkpoint", checkpoint)):
                if value is not None:
                    raise click.UsageError(f"--{name} is for data in parts; add --engine local or --engine dask, or leave it out")
        if self.scheduler is not None and self.engine != "dask":
            raise click.UsageError("--scheduler is that of a Dask cluster; add --engine dask, or leave it out")


_WHERE = "Work on parts of the data: in this process, or on a Dask cluster.  [default: all data at once]"
engine_options = packing(
    "sharding",
    Sharding,
    {
        # Eager, because it decides what DATA may be.
        "engine": click.option("--engine", type=click.Choice(["local", "dask"]), is_eager=True, help=_WHERE),
        "scheduler": click.option("--scheduler", help="Of the cluster, tcp://HOST:8786.  [default: a cluster on this machine]"),
        "shards": click.option("--shards", type=click.IntRange(1), help="Parts to make of the files.  [default: by their size]"),
        "dtype": click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Of features.  [default: float64]"),
    },
)
CHECKPOINT = click.option(
    "--checkpoint", type=OUTPUT, help="With --engine, the state of training; if it exists, go on from there."
)


def _one_or_many(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> Any:
    """One file as ever or, for an engine, names as they are: globs, URLs and folders of packed shards among them."""
    if context.params.get("engine") is not None:
        return _names(names)
    if len(names) > 1:
        raise click.UsageError(f"Got unexpected extra argument ({' '.join(names[1:])}); --engine local or dask takes many files")
    return INPUT.convert(names[0], parameter, context)


def _inputs(context: click.Context, parameter: click.Parameter, names: tuple[str, ...]) -> Any:
    """Files as ever or, for an engine, names as they are."""
    if context.params.get("engine") is not None:
        return _names(names)
    return tuple(INPUT.convert(name, parameter, context) for name in names)


def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    if "-" in names:
        raise click.UsageError("'-' is standard input, which cannot be shared out; name files, or leave out --engine")
    return names


class _FileOrFolder(File):
    """A file as ever or, for an engine, a folder."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path."""
        if ctx is not None and ctx.params.get("engine") is not None and value != "-":
            return Path(value)
        return super().convert(value, param, ctx)


PRINTED_OR_FOLDER = _FileOrFolder("standard output", exists=False)
SAMPLES = click.argument("data_file", nargs=-1, required=True, callback=_one_or_many, metavar="DATA")
JUDGED = click.argument("files", nargs=-1, callback=_inputs, metavar="[MODEL] DATA [SCORES]")


# What is done with all data at once.
NOT_IN_PARTS = {
    "categorical": "categories would be others in every part; encode the column first, or --drop it",
    "split_queries": "a query must stand together; sort the files by their queries",
}


def refuse_with_engine(reasons: dict[str, str]) -> None:
    """Complain about the first option given that is for all data at once, with the reason; keys are names of parameters."""
    given = given_options()
    for name, reason in reasons.items():
        if name in given:
            context = click.get_current_context()
            option = next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)
            raise click.UsageError(f"{option} does not go with --engine: {reason}")


def check_packed(folder: str, sharding: Sharding, reading: DataOptions) -> None:
    """Complain about options that say how to read files, where there are packed shards."""
    said = [name for name in ("shards", "dtype") if getattr(sharding, name) is not None]
    said += [name for name in _COLUMNS if getattr(reading, name) not in (None, ())]
    said += [] if reading.zero_based is None else ["zero-based" if reading.zero_based else "one-based"]
    if said:
        raise click.UsageError(f"{folder} holds packed shards, which are what they are; leave out --{said[0]}, or pack again")
