"""Options of the commands that learn from data: train, cv, path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxmargin.cli.engine_options import CHECKPOINT, SAMPLES, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.options import (
    AIM,
    DATA,
    EXISTING,
    GAINS,
    METRICS,
    MODEL_OUTPUT,
    OUTPUT,
    POSITIVE,
    SOLVER,
    TIME_LIMIT,
    DataOptions,
    Number,
    Printing,
    check_solver,
    data_options,
    given_options,
    keep_apart,
    known_metrics,
    model_options,
    numbers,
    output_options,
    training_options,
    with_exit_codes,
)

# What is done with all data at once.
_NOT_IN_PARTS = {
    "categorical": "categories would be others in every part; encode the column first, or --drop it",
    "split_queries": "a query must stand together; sort the files by their queries",
}


@click.command()
@SAMPLES
@click.option("--model", "model_file", type=MODEL_OUTPUT, required=True, help="Where to write the model.")
@click.option("--C", "C", type=POSITIVE, help="Weight of the hinges, or of the logistic loss.  [default: 1, or tuned]")
@click.option(
    "--method",
    type=click.Choice(["svm", "classifier"]),
    default="svm",
    show_default=True,
    help="RankingSVM, certified; or for one list of rare events RankingClassifier.",
)
@AIM
@click.option("--refine/--no-refine", default=None, help="Steps on the loss itself, if held-out folds gain; see above.")
@engine_options
@CHECKPOINT
@training_options
@data_options
@output_options
@with_exit_codes
def train(
    data_file: Any,
    model_file: Path,
    C: float | None,
    method: str,
    aim: Any,
    refine: bool | None,
    sharding: Sharding,
    checkpoint: Path | None,
    parameters: dict[str, Any],
    reading: DataOptions,
    printing: Printing,
) -> int:
    """Train a ranking model for a metric.

    DATA is a svmlight/LETOR file or a table (.csv, .tsv, .parquet) with a header, or - for standard input. Samples of a query
    form a list; without queries all samples form one. The model is written in one step, with its certified duality gap; it has
    weights and numbers only, and loading it runs no code.

    --method classifier is for one list of rare events: a logistic regression on standardised features, its C tuned for the metric
    in inner folds, refined where that helps. It is not certified, and often better than the hinge alone; --scale none leaves
    features as they are. --aim says what its labels (predict --as labels) are to be good at.

    --refine descends the rank loss itself from the trained model: the steps are taken if the metric of five held-out folds gains
    more than its standard error; otherwise the certified model is written.

    --engine trains on parts of DATA, which may then be many files, globs in quotes, URLs for fsspec, or a folder of pack: local
    in this process (packed shards are mapped, and need not fit into memory), dask on a cluster, which reads the files itself.
    The objective and its certificate are the same. A worker that is lost costs a reload, and changes no bit of the model.
    --method classifier and --refine need all of DATA in one process.

    If the gap does not reach --tol, the best model so far is written, a warning says so, and the exit code is 0. Ctrl-C does the
    same with exit code 130, SIGTERM with 143. The exit code is 1 for bad input and 2 for wrong usage.

    \b
    Examples:
      maxmargin train train.letor --loss ndcg --C 10 --model ranker.model
      maxmargin train train.csv --label grade --qid query --model ranker.model
      maxmargin train frauds.csv --label fraud --method classifier --model frauds.model
      maxmargin train frauds.csv --label fraud --method classifier --aim budget=0.01 --model frauds.model
      maxmargin train 'part-*.svm' --engine dask --scheduler tcp://host:8786 --checkpoint run.ckpt --model ranker.model
    """
    sharding.check(checkpoint)
    if sharding.engine is not None:
        from maxmargin.cli import sharded_train

        settings = {**parameters, "C": 1.0 if C is None else C}
        refuse_with_engine(_NOT_IN_PARTS)
        if method == "classifier":
            raise click.UsageError(
                "--method classifier trains in one process only; leave out --engine, or use --method svm for data in parts"
            )
        if refine:
            raise click.UsageError("--refine needs all data in one process; leave out --refine, or leave out --engine")
        if aim is not None:
            raise _no_labels()
        return sharded_train.run(data_file, sharding, reading, settings, model_file, checkpoint, printing)
    from maxmargin.cli.reading import explaining_memory
    from maxmargin.cli.train import run

    keep_apart({"--model": model_file}, {"DATA": data_file})
    settings = {**parameters, "C": 1.0 if C is None else C}
    with explaining_memory(data_file, reading):
        if method == "classifier":
            from maxmargin.cli import rare

            return rare.run(data_file, reading, settings, given_options(), refine, aim, model_file, printing)
        if aim is not None:
            raise _no_labels()
        return run(data_file, reading, settings, model_file, printing, refining=bool(refine))


def _no_labels() -> click.UsageError:
    return click.UsageError("--aim is for --method classifier: other models give scores and no labels; leave it out")


@click.command()
@DATA
@click.option("--C", "grid", callback=numbers, help="Values to try, 0.1,1,10.  [default: six powers of ten]")
@click.option("--folds", type=click.IntRange(2), default=5, show_default=True, help="How many.")
@click.option("-m", "--metric", callback=known_metrics, help=f"{METRICS}.  [default: what is trained for]")
@GAINS
@click.option("--jobs", type=click.IntRange(1), help="Folds at a time.  [default: one per core]")
@click.option("--baseline/--no-baseline", default=True, show_default=True, help="Tell what a logistic regression reaches.")
@click.option("--model", "model_file", type=MODEL_OUTPUT, help="Train on all data with the best C, and write the model here.")
@training_options
@data_options
@output_options
@with_exit_codes
def cv(data_file: Path, reading: DataOptions, model_file: Path | None, **options: Any) -> int:
    """Choose C by cross-validation.

    Folds are made of whole queries or, without queries, of samples, with the same share of relevant ones in every fold. The
    table has the mean of the metric over the folds and its standard error, for every C. A time limit is one for each fit. Exit
    codes are those of train.

    For comparison, logistic regressions on standardised features are judged on the same folds, with C from 1e-4 to 10; the best
    one is told.

    \b
    Examples:
      maxmargin cv train.letor --loss ap --C 0.1,1,10
      maxmargin cv train.letor --metric ndcg@10 --model ranker.model
    """
    from maxmargin.cli.cv import run
    from maxmargin.cli.reading import explaining_memory

    keep_apart({"--model": model_file}, {"DATA": data_file})
    with explaining_memory(data_file, reading):
        return run(data_file, reading, model_file=model_file, **options)


@click.command()
@SAMPLES
@click.option("--epsilon", type=POSITIVE, default=0.01, show_default=True, help="Largest gap anywhere, absolute (see above).")
@click.option("--lambda-min", type=POSITIVE, default=1e-4, show_default=True, help="Where to stop.")
@click.option(
    "--kappa",
    type=Number(0, 1, min_open=True, max_open=True),
    default=0.9,
    show_default=True,
    help="Part of epsilon that solvers are asked for.",
)
@click.option(
    "--rule",
    type=click.Choice(["interpolate", "transport"]),
    default="interpolate",
    show_default=True,
    help="Where to solve: the rule that needs few solves, or the published one.",
)
@click.option("--validation", type=EXISTING, help="Labelled samples to choose lambda by.")
@click.option("--folds", type=click.IntRange(2), help="Choose lambda by cross-validation with so many folds.")
@click.option("-m", "--metric", callback=known_metrics, help=f"To choose by: {METRICS}.  [default: what is trained for]")
@GAINS
@click.option("--model", type=MODEL_OUTPUT, help="Where to write the chosen model.")
@click.option("--save", type=OUTPUT, help="Where to write the whole path.")
@click.option("--report", type=OUTPUT, help="Where to write a page with a slider over lambda, .html.")
@click.option("--checkpoint", type=OUTPUT, help="Where to write what has been solved; if it exists, go on from there.")
@model_options
@SOLVER
@TIME_LIMIT
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the folds.")
@engine_options
@data_options
@output_options
@with_exit_codes
def path(
    data_file: Any,
    sharding: Sharding,
    reading: DataOptions,
    parameters: dict[str, Any],
    validation: Path | None,
    folds: int | None,
    metric: str | None,
    **options: Any,
) -> int:
    """Models for every lambda, and so for every C, from one run; choose the best.

    For every lambda from --lambda-min up, the weights are within epsilon of the optimum of lambda/2 ||w||^2 + mean hinge, and
    that is proved. The losses are between 0 and 1, so the default epsilon of 0.01 is one hundredth of the largest loss; 0.1 is
    coarse, 0.001 fine. C = 1/(lambda n), where n is the number of queries that count (of samples for --loss accuracy).

    With --validation, every model is judged once on that file. With --folds, a path is traced on every fold as well, and the mean
    over the folds is judged at every lambda, not on a grid; folds are those of maxmargin cv.

    Ctrl-C ends with the part of the path that is done (during --folds with nothing) and exit code 130, SIGTERM with 143. With
    --checkpoint the same command goes on later; folds have checkpoints of their own, FILE.1, FILE.2, ... --time-limit is for one
    path. Other exit codes are those of train.

    --engine traces the path on parts of DATA, as in train; --validation is read in this process.

    \b
    Examples:
      maxmargin path train.letor --loss ap
      maxmargin path train.letor --validation dev.letor --model ranker.model --report path.html
      maxmargin path train.csv --label grade --folds 5 --epsilon 0.001 --lambda-min 1e-5 --model ranker.model
      maxmargin path packed --engine local --validation dev.letor --model ranker.model
    """
    sharding.check()
    check_solver(options["solver"], parameters["loss"])
    if validation is not None and folds is not None:
        raise click.UsageError("--validation and --folds are two ways to choose lambda; give one of them")
    if validation is None and folds is None and (options["model"] is not None or metric is not None):
        raise click.UsageError("--model and --metric need --validation or --folds, to choose lambda")
    if sharding.engine is not None:
        from maxmargin.cli import sharded_path

        reasons = {"folds": "they need all data; use --validation", "report": "the page needs all data; leave it out"}
        refuse_with_engine({**reasons, **_NOT_IN_PARTS})
        return sharded_path.run(data_file, sharding, reading, parameters, validation, metric, **options)
    from maxmargin.cli.path import run
    from maxmargin.cli.reading import explaining_memory

    written = {f"--{name}": options[name] for name in ("model", "save", "report", "checkpoint")}
    if folds is not None and options["checkpoint"] is not None:
        written |= {f"--checkpoint of fold {k}": Path(f"{options['checkpoint']}.{k}") for k in range(1, folds + 1)}
    keep_apart(written, {"DATA": data_file, "--validation": validation})
    with explaining_memory(data_file, reading):
        return run(data_file, reading, parameters, validation, folds, metric, **options)
