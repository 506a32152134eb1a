"""``maxmargin train --engine``: on parts of the data, in this process or on a cluster."""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin._utils import StatusLine, check_writable
from maxmargin.cli import train
from maxmargin.cli.engine_options import Sharding
from maxmargin.cli.options import DataOptions, Printing
from maxmargin.cli.sharded import Files, ShardedSVM, check_parameters, ranking_shard, sizes, started, trained_score
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.core import save_model
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.distributed import Conversation, numbers


def run(
    given: tuple[str, ...],
    sharding: Sharding,
    reading: DataOptions,
    parameters: dict[str, Any],
    model_file: Path,
    checkpoint: Path | None,
    printing: Printing,
) -> int:
    """Train, save, report; the exit code."""
    check_parameters(parameters, checkpoint)
    files = Files.of(given, sharding, reading)
    files.keep_apart({"--model": model_file, "--checkpoint": checkpoint})
    check_writable(model_file)
    estimator = ShardedSVM(**parameters, verbose=int(printing.progress and sys.stderr.isatty()))
    estimator.checkpoint = checkpoint
    again = "start again with the same command" + ("" if checkpoint else " and --checkpoint FILE, to go on from there")
    with started(files, ranking_shard, show=printing.progress, remedy=again) as engine:
        began = time.perf_counter()
        with StatusLine(shown=printing.progress, transient=True) as line:
            line.show(f"{files}: loading {engine.n_shards} shards")
            answer = sizes(files, Conversation(engine))
        with noting_signals() as signals, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            estimator.fit_engine(engine)
        model = estimator.plain()
        trained = train.Trained(model, time.perf_counter() - began, signals)
        # Before anything else is asked: after Ctrl-C in a terminal the workers are gone, too.
        _save(model, files, answer["samples"], model_file)
        scores = {} if signals else {train.metric_name(model.loss): trained_score(model, engine)}
        answer |= {**train.outcome(trained), "training": scores, "model": str(model_file)}
        answer |= {"engine": sharding.engine, **numbers(engine, estimator.repeats)}
    printing.tell(answer, _words)
    if trained.signals:
        click.echo("Warning: interrupted; the model is the best one so far, with the gap it has", err=True)
        if checkpoint is not None:
            click.echo(f"the same command goes on from {checkpoint}", err=True)
    elif not trained.converged:
        remedy = "lower --C, or use --scale standard" if model.scale == "none" else "or lower --C"
        click.echo(
            f"Warning: the relative gap did not reach --tol {model.tol:g}; the model is the best one so far. Raise --max-iter or "
            f"--time-limit, {remedy}",
            err=True,
        )
    return exit_code(signals)


def _save(model: Any, files: Files, n_samples: int, model_file: Path) -> None:
    """Write a model with what is known of its data."""
    names = files.feature_names()
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.verbose = 0
    save_model(model, model_file, about=files.about(n_samples))


def _words(answer: dict[str, Any]) -> str:
    return f"{train.data_line(answer)}\n{traffic_line(answer)}\n{train.model_lines(answer)}"


def traffic_line(answer: dict[str, Any]) -> str:
    """What the engine has done, for people.

    >>> counts = {"shards": 4, "workers": 2, "moves": 1, "repeats": 0, "bytes_up": 2_500_000, "bytes_down": 0}
    >>> traffic_line({"engine": "dask", **counts})
    '4 shards on 2 workers, 1 move, 0 repeats, 2.5 MB up, 0.0 MB down'
    """
    where = "in this process" if answer["engine"] == "local" else f"on {_counted(answer['workers'], 'worker')}"
    done = f"{_counted(answer['moves'], 'move')}, {_counted(answer['repeats'], 'repeat')}"
    sent = f"{answer['bytes_up'] / 1e6:.1f} MB up, {answer['bytes_down'] / 1e6:.1f} MB down"
    return f"{_counted(answer['shards'], 'shard')} {where}, {done}, {sent}"


def _counted(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"
