"""``maxmargin predict``."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import numpy as np

from maxmargin._utils import Floats, check_writable, is_special, replacing
from maxmargin.cli.engine_options import PRINTED_OR_FOLDER, SAMPLES, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.options import JSON, MODEL, DataOptions, keep_apart, one_word, sample_options, speaking_of, with_exit_codes
from maxmargin.cli.reading import data_for, load_ranker, notes_about_data, place_of_positive, scores_of
from maxmargin.io import DataError, RankingData
from maxmargin.ranking import run_lines

if TYPE_CHECKING:
    from maxmargin.core import SavedModel


@click.command()
@MODEL
@SAMPLES
@click.option("-o", "--output", type=PRINTED_OR_FOLDER, help="Write to a file, in one step; - is standard output, the default.")
@click.option("--format", "form", type=click.Choice(["scores", "trec"]), default="scores", show_default=True, help="Of output.")
@click.option(
    "--as",
    "wanted",
    type=click.Choice(["scores", "labels", "probabilities"]),
    default="scores",
    show_default=True,
    help="What to write; labels and probabilities for models of --method classifier.",
)
@click.option("--tag", callback=one_word, default="maxmargin", show_default=True, help="Last field of a TREC run.")
@engine_options
@sample_options
@JSON
@with_exit_codes
def predict(
    model_file: Path,
    data_file: Any,
    output: Path | None,
    form: str,
    wanted: str,
    sharding: Sharding,
    reading: DataOptions,
    as_json: bool,
    tag: str,
) -> None:
    """Score samples with a model: one number per line, in the order of DATA.

    With --format trec a run: query, Q0, document, rank, score, tag. Documents have the names in LETOR comments (#docid = NAME)
    or, if no line has one, the numbers of the samples, counted from 1.

    DATA must have the features of the model. Columns of a table are found by their names, in any order; a svmlight file may
    have fewer columns, because zeros are not written, but not more. Labels are not used.

    A model of train --method classifier also has --as labels, the two labels of its training data by the --aim it was trained
    with, and --as probabilities, those of the label to be found.

    --engine takes many files as DATA, as in train, and writes one file per shard into the folder --output, 00000-of-00004.txt and
    so on in the order of DATA: on a cluster every worker writes its own, so the folder must be one that all of them see.

    \b
    Examples:
      maxmargin predict ranker.model test.letor > scores.txt
      maxmargin predict ranker.model test.letor --format trec -o test.run
      maxmargin predict frauds.model new.csv --as labels -o flagged.txt
      maxmargin predict ranker.model 'new-*.svm' --engine dask --scheduler tcp://host:8786 -o scores
    """
    sharding.check()
    if sharding.engine is not None:
        refuse_with_engine(
            {"form": "names of documents are not read in parts; leave it out", "tag": "it is for runs; leave it out"}
        )
        if output is None:
            raise click.UsageError("--engine writes one file per shard; name a folder for them with --output")
        _predict_shards(model_file, data_file, sharding, reading, wanted, output, as_json)
        return
    keep_apart({"--output": output}, {"MODEL": model_file, "DATA": data_file})
    if form == "trec" and as_json and output is None:
        raise click.UsageError("--json prints scores, not a run; write the run to a file with --output, or leave out --json")
    if form == "trec" and wanted != "scores":
        raise click.UsageError(f"--format trec is a run, which has scores; leave out --as {wanted}, or the format")
    if output is not None:
        check_writable(output)
    model = load_ranker(model_file)
    _check_wanted(model, model_file, wanted)
    data = data_for(model, model_file, data_file, reading, labels=False, comments=form == "trec")
    with speaking_of(data_file):
        values = _values(model, data, wanted)
    answer: dict[str, Any] = {"model": str(model_file), "data": str(data_file), "samples": len(values)}
    try:
        lines = list(_run(data, np.asarray(values), tag) if form == "trec" else (f"{_written(value)}\n" for value in values))
    except DataError as error:
        raise DataError(f"{data_file}: {error}") from None
    if output is not None:
        with replacing(output) as file:
            file.writelines(line.encode() for line in lines)
        answer["output"] = str(output)
        if as_json:
            click.echo(json.dumps(answer, indent=2))
        elif not is_special(output):  # it may be standard output itself
            click.echo(f"{output}: {len(values)} {wanted}")
    elif as_json:
        click.echo(json.dumps({**answer, wanted: values}))
    else:
        click.echo("".join(lines), nl=False)


def _check_wanted(model: SavedModel, model_file: Path, wanted: str) -> None:
    """Complain about labels and probabilities of models that have none."""
    if wanted == "scores":
        return
    name = type(model.estimator).__name__
    if not hasattr(model.estimator, "classes_"):
        raise DataError(
            f"{model_file}: holds a {name}, which has scores and no {wanted}; train with --method classifier, or leave out "
            f"--as {wanted}"
        )
    if wanted == "probabilities" and model.estimator.calibration is None:
        raise DataError(
            f"{model_file}: holds a {name} without calibration, so it has no probabilities; fit it with calibration='sigmoid', "
            "or use --as scores"
        )


def _values(model: SavedModel, data: RankingData, wanted: str) -> list[Any]:
    """One for each sample."""
    scores = scores_of(model.estimator, data.X, data.qid)
    if wanted == "scores":
        return list(scores.tolist())
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        if wanted == "probabilities":
            found: list[Any] = model.estimator.predict_proba(data.X)[:, place_of_positive(model.estimator)].tolist()
            return found
        labels = model.estimator.predict(data.X)
    names = _label_names(model)
    return [names[int(label == model.estimator.classes_[1])] for label in labels]


def _label_names(model: SavedModel) -> list[Any]:
    """The two labels of a classifier: the command trains with 0 and 1, whatever two numbers the file has."""
    names = notes_about_data(model).get("labels")
    return names if isinstance(names, list) and len(names) == 2 else list(model.estimator.classes_.tolist())


def _written(value: Any) -> str:
    return f"{value:.17g}" if isinstance(value, float) else str(value)


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


def _predict_shards(
    model_file: Path, given: tuple[str, ...], sharding: Sharding, reading: DataOptions, wanted: str, output: Path, as_json: bool
) -> None:
    """Scores of every shard in a file of its own; or labels, or probabilities."""
    from maxmargin.cli.sharded import files_for, read_ranker, started
    from maxmargin.cli.sharded_train import traffic_line
    from maxmargin.distributed import Conversation, ScoresOf, numbers, write_scores

    model = read_ranker(model_file)
    _check_wanted(model, model_file, wanted)
    files = files_for(model, model_file, given, sharding, reading, labels=False)
    files.keep_apart({"--output": output}, MODEL=model_file)
    if output.exists() and not output.is_dir():
        raise DataError(f"{output}: is a file, but --engine writes one file per shard; name a folder")
    old = sorted(output.glob("[0-9]*-of-[0-9]*.txt"))
    with started(files, ScoresOf, show=not as_json and sys.stderr.isatty()) as engine:
        shards = Conversation(engine)
        total = f"-of-{engine.n_shards:05d}.txt"
        strangers = [path.name for path in old if not path.name.endswith(total)]
        if strangers:
            # Whoever reads all files of the folder would take them for scores of these data.
            raise DataError(f"{output}: holds {strangers[0]} of another number of shards; choose an empty folder, or remove it")
        names, counts = write_scores(shards, *_shard_output(model, wanted, output))
        answer = {
            "model": str(model_file), "data": str(files), "samples": sum(counts), "output": str(output),
            "files": [Path(name).name for name in names], "engine": sharding.engine, **numbers(engine, shards.repeats),
        }  # fmt: skip
    if as_json:
        click.echo(json.dumps(answer, indent=2))
    else:
        click.echo(f"{output}: {answer['samples']} {wanted} in {len(names)} files\n{traffic_line(answer)}")


def _shard_output(model: SavedModel, wanted: str, folder: Path) -> tuple[Floats, Path, float, dict[str, Any] | None]:
    """What :func:`maxmargin.distributed.write_scores` takes."""
    from maxmargin.cli.sharded import weights_of

    weights, intercept = weights_of(model)
    if wanted == "probabilities":
        return weights, folder, intercept, {"calibration": model.estimator.calibration_}
    if wanted == "labels":
        # The second label is that of scores above zero, whichever of them is to be found.
        own = model.estimator
        return own.coef_[0], folder, float(own.intercept_[0]), {"labels": [str(name) for name in _label_names(model)]}
    return weights, folder, intercept, None
