"""``maxmargin path --engine``: every lambda at once, on parts of the data."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from maxmargin._utils import check_writable
from maxmargin.cli import cv, train
from maxmargin.cli import path as whole
from maxmargin.cli.engine_options import Sharding
from maxmargin.cli.options import DataOptions, Printing, speaking_of
from maxmargin.cli.reading import data_like
from maxmargin.cli.sharded import Files, ShardedSVM, check_parameters, ranking_shard, sizes, started
from maxmargin.cli.sharded_train import traffic_line
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.core import PathProgress, RegularizationPath, regularization_path, save_model
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.distributed import ClusterLine, Conversation, numbers


class _Traced(NamedTuple):
    """What the words about a path need to know of its run."""

    seconds: float
    signals: list[int]


def run(
    given: tuple[str, ...],
    sharding: Sharding,
    reading: DataOptions,
    parameters: dict[str, Any],
    validation: Path | None,
    metric: str | None,
    gains: Any,
    printing: Printing,
    **options: Any,
) -> int:
    """Trace, choose on a file if there is one, write what is asked for, report; the exit code."""
    check_parameters(parameters)
    files = Files.of(given, sharding, reading)
    files.keep_apart({f"--{name}": options[name] for name in ("model", "save", "checkpoint")}, **{"--validation": validation})
    for name in ("model", "save", "checkpoint"):
        if options[name] is not None:
            check_writable(options[name])
    estimator = ShardedSVM(**parameters)
    with started(files, ranking_shard, show=printing.progress) as engine:
        answer = sizes(files, Conversation(engine))
        problem = estimator.problem_over(engine)
        if not parameters["grades"]:
            estimator.relevance_threshold = float(problem.thresholds[0])
        line = ClusterLine("path", shown=printing.progress)
        line.engine = engine

        def tell(progress: PathProgress) -> None:
            line.show(f"lambda {progress.lam:.3g}, {progress.n_solved} breakpoints, {progress.passes:.0f} passes")

        names = ("epsilon", "lambda_min", "kappa", "rule", "solver", "time_limit", "checkpoint")
        arguments = {name: options[name] for name in names}
        began = time.perf_counter()
        with line, noting_signals() as signals, warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            path = regularization_path(problem, **arguments, callback=tell)
        if signals and not path.segments:
            raise KeyboardInterrupt
        counts = {"engine": sharding.engine, **numbers(engine, problem.shards.repeats)}
    path.template = estimator.plain()
    traced = _Traced(time.perf_counter() - began, signals)
    chosen = None
    if validation is not None:
        chosen = _choose(path, files, validation, reading, metric or train.metric_name(parameters["loss"]), metric, gains)
    answer |= {**whole.answer_of(path, chosen, traced), **counts, **_write(path, chosen, files, answer["samples"], options)}
    printing.tell(answer, lambda answer: f"{whole.words_about(answer, chosen)}\n{traffic_line(answer)}")
    whole.warn_about(answer, chosen)
    return exit_code(signals)


def _choose(
    path: RegularizationPath, files: Files, validation: Path, reading: DataOptions, name: str, metric: str | None, gains: Any
) -> whole.Chosen:
    """The best model on a file, which is read here."""
    held = data_like(
        str(files), files.encoding(), path.template.n_features_in_, files.about(0)["data"]["zero_based"], validation, reading
    )
    measure = cv.Measure(metric, gains, float(path.template.relevance_thresholds_[0]))
    queries = {} if held.qid is None else {"qid": held.qid}
    with speaking_of(validation):
        selection = path.select(held.X, held.y, scoring=measure.of, **queries)
    at_end = path.ranges()[path.model_at(selection.lam)][1] <= path.lambda_end
    return whole.Chosen(selection, name, validation.name, at_end)


def _write(
    path: RegularizationPath, chosen: whole.Chosen | None, files: Files, n_samples: int, options: dict[str, Any]
) -> dict[str, str]:
    """The model and the path, if they are asked for; their names."""
    columns = files.feature_names()
    if columns is not None:
        path.template.feature_names_in_ = np.array(columns, dtype=object)
    if options["model"] is not None and chosen is not None:
        save_model(path.estimator(chosen.selection.lam), options["model"], about=files.about(n_samples))
    if options["save"] is not None:
        path.save(options["save"])
    written = {"model_file": options["model"], "path_file": options["save"]}
    return {key: str(file) for key, file in written.items() if file is not None}
