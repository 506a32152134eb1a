"""``maxmargin cluster-demo``: one list on two workers, one of which is killed in the middle; the model has the same bits."""

from __future__ import annotations

import hashlib
import os
import signal
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin.cli.evaluate import format_table
from maxmargin.cli.sharded import ShardedSVM, trained_score
from maxmargin.cli.signals import noting_signals
from maxmargin.distributed import Rows, ShardOf, open_packed
from maxmargin.distributed.packed import write_packed
from maxmargin.progress import StatusLine
from maxmargin.solvers import ConvergenceWarning

_ROWS, _FEATURES, _SHARDS, _WORKERS = 200_000, 40, 4, 2
# The pass after which a worker is killed: somewhere in the middle.
_FATAL = 8


class _Run(NamedTuple):
    """What a run has come to."""

    model: ShardedSVM
    score: float
    seconds: float
    counts: dict[str, int]


def run(seed: int) -> int:
    """Train twice, the second time with a murder, and compare; 1 if the models differ."""
    # Before any work is done: who has no Dask is told what to install.
    from maxmargin.dask.cluster import own_cluster

    with tempfile.TemporaryDirectory(prefix="maxmargin-") as folder:
        n_relevant = _make_data(Path(folder), seed)
        click.echo(
            f"One list of {_ROWS:,} samples, {n_relevant:,} of them relevant, {_FEATURES} features: {_SHARDS} shards, packed.\n"
            f"The exact AP hinge of all of it is minimised on {_WORKERS} worker processes; the list is nowhere in one piece.\n"
        )
        with StatusLine(transient=True) as line:
            line.show("starting workers")
            # Restarted workers are part of the demonstration, not a reason to complain.
            with own_cluster(_WORKERS) as client:
                line.close()
                undisturbed = _train(folder, client, lambda passes: None)
                killed: list[str] = []

                def kill(passes: float) -> None:
                    if passes >= _FATAL and not killed:
                        address, pid = next(iter(client.run(os.getpid).items()))
                        os.kill(pid, signal.SIGKILL)
                        killed.append(f"pass {passes:.0f}: kill -9 {pid}, the worker {address}")

                disturbed = _train(folder, client, kill)
    click.echo("\n".join(killed) + "\n" if killed else "the run was over before a worker could be killed\n")
    runs = {"undisturbed": undisturbed, "a worker killed": disturbed}
    header = ["", "passes", "primal", "relative gap", "AP", "moves", "repeats", "seconds", "sha256 of the weights"]
    click.echo(format_table(header, [[name, *_cells(run)] for name, run in runs.items()]))
    same = bool((undisturbed.model.coef_ == disturbed.model.coef_).all())
    gap = disturbed.model.dual_gap_ / disturbed.model.primal_objective_
    verdict = "The same bits." if same else "DIFFERENT WEIGHTS."
    click.echo(
        f"\n{verdict} The gap of {gap:.1e} of the objective is proved: no weights are better by more.\n"
        "Shards of the dead worker were loaded again by the other one (moves), and what they had been asked was asked\n"
        "again (repeats)."
    )
    return 0 if same and killed else 1


def _make_data(folder: Path, seed: int) -> int:
    """Packed shards of one list; how many samples are relevant."""
    rng = np.random.default_rng(seed)
    direction, n_relevant, size = rng.normal(size=_FEATURES), 0, _ROWS // _SHARDS
    with StatusLine(transient=True) as line:
        for k in range(_SHARDS):
            line.show(f"making shard {k + 1} of {_SHARDS}")
            X = rng.normal(size=(size, _FEATURES)).astype(np.float32)
            noisy = X @ direction / np.linalg.norm(direction) + 0.4 * rng.normal(size=size)
            y = (noisy > 2.5).astype(np.float64)
            n_relevant += int(y.sum())
            write_packed(folder / f"{k:05d}-of-{_SHARDS:05d}.mmshard", Rows(X, y))
    return n_relevant


def _train(folder: str, client: Any, look: Callable[[float], None]) -> _Run:
    from maxmargin.dask.engine import DaskEngine

    def after_pass(history: Any) -> None:
        look(history.passes[-1])

    model = ShardedSVM("ap", C=1e4, tol=1e-3, verbose=1, callback=after_pass)
    sources = [ShardOf(rows, "ranking", n_jobs=1) for rows in open_packed(folder)]
    with DaskEngine(sources, client, beat=0.5) as engine, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        engine.call("info")  # loads, and the first time imports
        began = time.perf_counter()
        with noting_signals() as signals:
            model.fit_engine(engine)
        if signals:  # the solver has ended early, and there is nothing to compare
            raise KeyboardInterrupt
        seconds = time.perf_counter() - began
        counts = {"moves": engine.moves, "repeats": model.repeats}
        return _Run(model, trained_score(model, engine), seconds, counts)


def _cells(run: _Run) -> list[str]:
    model = run.model
    return [
        str(model.n_iter_), f"{model.primal_objective_:.6g}", f"{model.dual_gap_ / model.primal_objective_:.1e}",
        f"{run.score:.4f}", str(run.counts["moves"]), str(run.counts["repeats"]), f"{run.seconds:.1f}",
        hashlib.sha256(model.coef_.tobytes()).hexdigest()[:16],
    ]  # fmt: skip
