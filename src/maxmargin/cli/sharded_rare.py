"""``maxmargin train --method classifier --engine``: rare events in data that lie in parts."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin.atomic import check_writable
from maxmargin.cli import rare
from maxmargin.cli.engine_options import Sharding
from maxmargin.cli.options import DataOptions, Printing
from maxmargin.cli.sharded import Files, event_shard, sizes, started
from maxmargin.cli.sharded_train import traffic_line
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.cli.train import data_line, metric_name
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.events import Labels, ShardedEvents, labels_of
from maxmargin.distributed.status import ClusterLine, numbers
from maxmargin.estimators import RankingClassifier, save_model
from maxmargin.estimators.linear_start import own_metric
from maxmargin.estimators.sharded_events import ClassifierOverShards
from maxmargin.losses import ranking_loss
from maxmargin.progress import StatusLine


def run(
    given: tuple[str, ...],
    sharding: Sharding,
    reading: DataOptions,
    parameters: dict[str, Any],
    named: set[str],
    refine: bool | None,
    aim: Any,
    model_file: Path,
    printing: Printing,
) -> int:
    """Train, save, report; the exit code. ``named`` are the parameters that were set by the user."""
    rare.check_usage(parameters, named)
    files = Files.of(given, sharding, reading)
    files.keep_apart({"--model": model_file})
    check_writable(model_file)
    estimator = ShardedClassifier(**rare.settings(parameters, named, refine, aim, printing))
    with started(files, event_shard, show=printing.progress, remedy="start again with the same command") as engine:
        began = time.perf_counter()
        with StatusLine(shown=printing.progress, transient=True) as line:
            line.show(f"{files}: loading {engine.n_shards} shards")
            shards = Conversation(engine)
            answer = sizes(files, shards)
        if answer["queries"] is not None:
            raise rare.has_queries(files)
        labels = np.asarray(labels_of(shards), dtype=np.float64)
        threshold = rare.chosen_threshold(files, labels, parameters["relevance_threshold"])
        negatives, positives = ShardedEvents(shards, Labels.above(threshold)).sizes[:, 0].tolist()
        rare.check_counts(files, negatives, positives, threshold, labels)
        rare.check_budget(files, aim, answer["samples"])
        with noting_signals() as signals, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            estimator.fit_shards(shards, threshold)
        model = estimator.plain()
        about = files.about(answer["samples"])
        about["data"] |= rare.notes_of_labels(labels, threshold)
        names = files.feature_names()
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        # Before anything else is asked: after Ctrl-C in a terminal the workers are gone, too.
        save_model(model, model_file, about=about)
        answer |= rare.outcome(model, about["data"].get("labels"), time.perf_counter() - began, interrupted=bool(signals))
        scores = {} if signals else {metric_name(model.loss): _score(model, shards, threshold)}
        answer |= {"training": scores, "model": str(model_file), "engine": sharding.engine, **numbers(engine, shards.repeats)}
    printing.tell(answer, lambda answer: f"{data_line(answer)}\n{traffic_line(answer)}\n{rare.words(answer)}")
    rare.warn(model, caught, interrupted=bool(signals))
    return exit_code(signals)


def _score(model: RankingClassifier, shards: Conversation, threshold: float) -> float:
    """As ``score`` of the model has it, over all shards."""
    loss, weights = ranking_loss(model.loss), np.append(model.coef_[0], model.intercept_)
    return ShardedEvents(shards, Labels.above(threshold)).metrics(loss, [-1], [weights], own_metric(loss))[0]


class ShardedClassifier(ClassifierOverShards):
    """A classifier that is trained on shards; :meth:`plain` is the ordinary one."""

    _shards: Conversation | None = None

    def fit_shards(self, shards: Conversation, threshold: float) -> None:
        """Find samples with labels above the threshold."""
        self._check_parameters()
        self._shards = shards
        try:
            self._keep(self._train(self._over(shards, threshold)))
        finally:
            self._shards = None

    def plain(self) -> RankingClassifier:
        """The same model without shards, for files."""
        made = RankingClassifier(**{**self.get_params(deep=False), "verbose": 0})
        for name, value in vars(self).items():
            if name.endswith("_") and not name.startswith("_"):
                setattr(made, name, value)
        return made

    def _status_line(self) -> StatusLine:
        line = ClusterLine("RankingClassifier", shown=bool(self.verbose))
        line.engine = None if self._shards is None else self._shards.engine
        return line
