"""``maxmargin predict --engine`` and ``evaluate --engine``: scores and metrics of data in parts, which nobody gathers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

from maxmargin._utils import Floats
from maxmargin.cli.engine_options import Sharding
from maxmargin.cli.evaluate import format_table, takes_grades
from maxmargin.cli.options import EXISTING, DataOptions
from maxmargin.cli.predict import check_wanted, label_names
from maxmargin.cli.reading import encoding_of, load_ranker, notes_about_data, place_of_positive, threshold_of
from maxmargin.cli.sharded import Files, Known, ranking_shard, sizes, started
from maxmargin.cli.sharded_train import traffic_line
from maxmargin.core import SavedModel
from maxmargin.distributed import Conversation, ScoresOf, numbers, write_scores
from maxmargin.io import DataError, SavedFileError, is_table
from maxmargin.ranking import DEFAULT_METRICS
from maxmargin.ranking.shards import evaluate as judge


def predict(
    model_file: Path, given: tuple[str, ...], sharding: Sharding, reading: DataOptions, wanted: str, output: Path, as_json: bool
) -> None:
    """Scores of every shard in a file of its own; or labels, or probabilities."""
    model = _model(model_file)
    check_wanted(model, model_file, wanted)
    files = _files(model, model_file, given, sharding, reading, labels=False)
    files.keep_apart({"--output": output}, MODEL=model_file)
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is a file, but --engine writes one file per shard; name a folder")
    old = sorted(output.glob("[0-9]*-of-[0-9]*.txt"))
    with started(files, ScoresOf, show=_show(as_json)) as engine:
        shards = Conversation(engine)
        total = f"-of-{engine.n_shards:05d}.txt"
        strangers = [path.name for path in old if not path.name.endswith(total)]
        if strangers:
            # Whoever reads all files of the folder would take them for scores of these data.
            raise DataError(f"{output}: holds {strangers[0]} of another number of shards; choose an empty folder, or remove it")
        names, counts = write_scores(shards, *_written(model, wanted, output))
        answer = {
            "model": str(model_file), "data": str(files), "samples": sum(counts), "output": str(output),
            "files": [Path(name).name for name in names], "engine": sharding.engine, **numbers(engine, shards.repeats),
        }  # fmt: skip
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{output}: {answer['samples']} {wanted} in {len(names)} files\n{traffic_line(answer)}")


def _written(model: SavedModel, wanted: str, folder: Path) -> tuple[Floats, Path, float, dict[str, Any] | None]:
    """What :func:`maxmargin.distributed.write_scores` takes."""
    weights, intercept = _weights(model)
    if wanted == "probabilities":
        return weights, folder, intercept, {"calibration": model.estimator.calibration_}
    if wanted == "labels":
        # The second label is that of scores above zero, whichever of them is to be found.
        own = model.estimator
        return own.coef_[0], folder, float(own.intercept_[0]), {"labels": [str(name) for name in label_names(model)]}
    return weights, folder, intercept, None


def _weights(model: SavedModel) -> tuple[Floats, float]:
    """Weights and intercept of the scores to sort by: a classifier's are large for the class that is to be found."""
    own = model.estimator
    if np.ndim(own.coef_) == 1:
        return own.coef_, float(getattr(own, "intercept_", 0.0))
    sign = 1.0 if place_of_positive(own) == 1 else -1.0
    return sign * own.coef_[0], sign * float(own.intercept_[0])


def evaluate(
    given: tuple[str, ...], sharding: Sharding, reading: DataOptions, metrics: tuple[str, ...], gains: Any, as_json: bool
) -> None:
    """Metrics of a model, means over the queries of all shards."""
    context = click.get_current_context()
    model_file: Path = EXISTING.convert(given[0], next(p for p in context.command.params if p.name == "files"), context)
    model = _model(model_file)
    files = _files(model, model_file, given[1:], sharding, reading, labels=True)
    wanted, threshold, (weights, _) = list(metrics or DEFAULT_METRICS), threshold_of(model), _weights(model)
    with started(files, ranking_shard, show=_show(as_json)) as engine:
        shards = Conversation(engine)
        graded = [name for name in wanted if takes_grades(name)]
        plain = [name for name in wanted if not takes_grades(name)]
        found: dict[str, float] = {}
        if graded:
            found |= judge(shards, weights, metrics=graded, gains=gains, base=threshold)
        if plain:
            found |= judge(shards, weights, metrics=plain, thresholds=[threshold])
        answer = sizes(files, shards)
        counts = {"engine": sharding.engine, **numbers(engine, shards.repeats)}
    means = {name: found[name] for name in wanted}
    if as_json:
        queries = 1 if answer["queries"] is None else answer["queries"]
        click.echo(json.dumps({"samples": answer["samples"], "queries": queries, "metrics": means, **counts}, indent=2))
        return
    click.echo(format_table(["query", *means], [["all", *(f"{value:.4f}" for value in means.values())]]))


def _show(as_json: bool) -> bool:
    return not as_json and sys.stderr.isatty()


def _model(path: Path) -> SavedModel:
    """A model whose scores are sums over the features of a sample."""
    model = load_ranker(path)
    if getattr(model.estimator, "scale", "none") == "query":
        raise DataError(f"{path}: was trained with --scale query, which is not known in parts; leave out --engine")
    return model


def _files(
    model: SavedModel, model_file: Path, given: tuple[str, ...], sharding: Sharding, reading: DataOptions, *, labels: bool
) -> Files:
    """Data with the features of a model."""
    about = notes_about_data(model)
    try:
        encoding = encoding_of(model)
    except SavedFileError as error:
        raise SavedFileError(f"{model_file}: {error}") from None
    numbering = about.get("zero_based")
    known = Known(encoding, int(model.estimator.n_features_in_), numbering if isinstance(numbering, bool) else None, labels)
    files = Files.of(given, sharding, reading, known)
    if not files.packed and is_table(files.names[0]):
        if reading.label is None and isinstance(about.get("label"), str):
            reading = reading._replace(label=about["label"])
        if reading.qid is None and isinstance(about.get("query"), str):
            # Without them a metric would be that of one list.
            reading = reading._replace(qid=about["query"], query_optional=not labels)
        if encoding is not None and reading.features is not None and list(reading.features) != list(encoding.columns):
            raise DataError(f"{files}: --features are not those of the model {model_file}; leave --features out")
        files = Files(files.given, files.names, sharding, reading, known)
    return files
