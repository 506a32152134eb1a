"""Options of the commands that use models and judge them: predict, evaluate, inspect, compare, report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxmargin.cli.engine_options import JUDGED, PRINTED_OR_FOLDER, SAMPLES, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.options import (
    DATA,
    EXISTING,
    GAINS,
    INPUT,
    JSON,
    METRICS,
    MODEL,
    OUTPUT,
    DataOptions,
    column_options,
    keep_apart,
    known_metrics,
    one_word,
    output_options,
    report_options,
    sample_options,
    with_exit_codes,
)


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
    **options: Any,
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
        from maxmargin.cli import sharded_judging

        refuse_with_engine(
            {"form": "names of documents are not read in parts; leave it out", "tag": "it is for runs; leave it out"}
        )
        if output is None:
            raise click.UsageError("--engine writes one file per shard; name a folder for them with --output")
        sharded_judging.predict(model_file, data_file, sharding, reading, wanted, output, as_json)
        return
    from maxmargin.cli.predict import run

    keep_apart({"--output": output}, {"MODEL": model_file, "DATA": data_file})
    if form == "trec" and as_json and output is None:
        raise click.UsageError("--json prints scores, not a run; write the run to a file with --output, or leave out --json")
    if form == "trec" and wanted != "scores":
        raise click.UsageError(f"--format trec is a run, which has scores; leave out --as {wanted}, or the format")
    run(model_file, data_file, reading, output=output, form=form, wanted=wanted, as_json=as_json, **options)


@click.command()
@JUDGED
@click.option("-m", "--metric", "metrics", multiple=True, callback=known_metrics, help=f"{METRICS}; may be repeated.")
@GAINS
@column_options
@click.option("--score", help="Column of the scores (tables only).  [default: score]")
@click.option("--qrels", type=INPUT, help="Judgements: lines 'query 0 document relevance'.")
@click.option("--run", "run_file", type=INPUT, help="Results: lines 'query Q0 document rank score tag'.")
@click.option("-c", "--complete", is_flag=True, help="With --qrels: all judged queries count, those without results as 0.")
@click.option("--per-query", "each_query", is_flag=True, help="Also one line for every query.")
@engine_options
@JSON
@with_exit_codes
def evaluate(
    files: tuple[Any, ...],
    sharding: Sharding,
    reading: DataOptions,
    score: str | None,
    qrels: Path | None,
    run_file: Path | None,
    complete: bool,
    **options: Any,
) -> None:
    """Ranking metrics of scored samples, of a model or of a TREC run.

    DATA is a table (.csv or .tsv, perhaps .gz or .bz2, or .parquet) with a header and columns for relevance, score and, if
    there are several queries, qid. Or DATA is a svmlight/LETOR file and SCORES holds one score per line. Or a MODEL comes first,
    and scores DATA. Metrics are means over the queries; equal scores are put in the least favourable order.

    Relevant is what has a label above 0 or, for a MODEL, what it learned to be relevant. NDCG takes grades.

    With --qrels and --run, everything is as in trec_eval: equal scores by the names of the documents, documents without
    judgement are irrelevant, and the mean is over the queries that are in both files, or with -c over all in the judgements.

    --engine takes a MODEL and many files as DATA, as in train; metrics are exact, also of a list that lies in many parts.

    \b
    Examples:
      maxmargin evaluate results.csv -m map -m ndcg@10
      maxmargin evaluate test.letor predictions.txt --gains exponential --json
      maxmargin evaluate ranker.model test.letor
      maxmargin evaluate --qrels test.qrels --run test.run -c
      maxmargin evaluate ranker.model 'test-*.svm' --engine local
    """
    sharding.check()
    if sharding.engine is not None:
        from maxmargin.cli import sharded_judging

        whole = "with it a MODEL scores DATA; leave it out"
        refuse_with_engine({
            "score": whole, "qrels": whole, "run_file": whole, "complete": whole,
            "each_query": "values of single queries are not sent; leave it out",
        })  # fmt: skip
        if len(files) < 2:
            raise click.UsageError("a model and data are needed with --engine: MODEL DATA...")
        sharded_judging.evaluate(files, sharding, reading, options["metrics"], options["gains"], options["as_json"])
        return
    from maxmargin.cli import evaluate as work

    if (qrels is None) != (run_file is None):
        raise click.UsageError("--qrels and --run go together: judgements, and the results to be judged")
    if qrels is not None and run_file is not None:
        if files:
            raise click.UsageError("give either files of samples, or --qrels and --run")
        if (reading.label, score, reading.qid) != (None, None, None):
            raise click.UsageError("--label, --score and --qid name columns of tables, which --qrels and --run have not")
        click.echo(work.run_trec(qrels, run_file, complete, **options))
        return
    if complete:
        raise click.UsageError("--complete is for --qrels and --run")
    if len(files) not in (1, 2):
        raise click.UsageError("one or two files are needed: [MODEL] DATA [SCORES]")
    click.echo(work.run(files, reading, score, **options))


@click.command()
@MODEL
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, help="How many of the largest weights.")
@JSON
@with_exit_codes
def inspect(model_file: Path, top: int, as_json: bool) -> None:
    """What a model file holds: class and settings, certificate, training data, columns, the features with the largest weights.

    Of a path that path --save wrote: its range of lambda and C, how many models, and what is proved.

    \b
    Example: maxmargin inspect ranker.model --top 20
    """
    from maxmargin.cli.inspect import run

    click.echo(run(model_file, top, as_json))


@click.command()
@click.argument("files", nargs=-1, type=INPUT, metavar="RUN RUN... | MODEL MODEL... DATA")
@click.option("--qrels", type=INPUT, help="Judgements of the runs: lines 'query 0 document relevance'.")
@click.option("-m", "--metric", "metrics", multiple=True, callback=known_metrics, help=f"{METRICS}; may be repeated.")
@GAINS
@click.option("-c", "--complete", is_flag=True, help="With --qrels: all judged queries count, those without results as 0.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For chance.")
@sample_options
@JSON
@with_exit_codes
def compare(files: tuple[Path, ...], reading: DataOptions, qrels: Path | None, metrics: tuple[str, ...], **options: Any) -> None:
    """Tell whether the difference between runs, or models, is more than chance.

    Every other run is compared with the first one, query by query: the mean difference with a 95 % interval (bootstrap over the
    queries), and the p-values of a paired t test, of a randomisation test and of the sign test, all two-sided. They are corrected
    by Holm's method for the number of comparisons, that of other runs times that of metrics. Only queries that are in all runs
    count, or with -c all in the judgements.

    If DATA is one list, its samples are drawn again in place of queries, relevant and irrelevant ones apart: intervals of the
    metrics and of the difference, and a p-value from the same draws.

    \b
    Examples:
      maxmargin compare old.run new.run --qrels test.qrels -m AP -m nDCG@10
      maxmargin compare old.model new.model test.letor --json
    """
    from maxmargin.cli import compare as work
    from maxmargin.cli.evaluate import refuse_auc

    work.check_files(files, qrels)
    if qrels is not None:
        refuse_auc(metrics)
    elif options["complete"]:
        raise click.UsageError("--complete is for --qrels")
    click.echo(work.run(files, reading, qrels, metrics=metrics, **options))


@click.command()
@MODEL
@DATA
@click.option("-o", "--output", type=OUTPUT, default=Path("report.html"), show_default=True, help="Where to write the page.")
@click.option("--against", type=EXISTING, multiple=True, help="A model to compare with; may be repeated.")
@click.option("--train", "training", type=EXISTING, help="Training data: a baseline is trained on it, to compare with.")
@click.option(
    "--baseline",
    type=click.Choice(["logistic", "svm"]),
    multiple=True,
    help="What to train on --train; may be repeated.  [default: logistic]",
)
@click.option("--slice", "columns", multiple=True, help="A column of a table for whose values to judge apart; may be repeated.")
@click.option("--title", help="Heading of the page.")
@report_options
@output_options
@with_exit_codes
def report(
    model_file: Path, data_file: Path, output: Path, against: tuple[Path, ...], training: Path | None, **options: Any
) -> None:
    """Write a page about a model, judged on DATA: one HTML file that needs no network.

    It shows metrics with 95 % intervals and curves against other models and a random ranking, how close to optimal training
    came, what is found within a budget and which threshold to set or the documents of queries, slices by a column, how scores
    are distributed, what is ranked worst, the largest weights, and the parameters. DATA must have labels and the features of
    the model, as for evaluate; if they are the training data, the page warns.

    With --train, a logistic regression is trained on that file for comparison (or, with --baseline svm, an ordinary SVM); its C
    is chosen by a three-fold cross-validation of the metric the model is judged by, and the page says so. For --slice, many
    different numbers are cut into quartiles.

    \b
    Examples:
      maxmargin report ranker.model test.letor
      maxmargin report ranker.model test.letor --train train.letor -o ranker.html
      maxmargin report new.model test.csv --label grade --against old.model --slice country
    """
    from maxmargin.cli.report import run

    if options["baseline"] and training is None:
        raise click.UsageError("--baseline is trained on the data of --train; name them")
    compared = {f"--against {path}": path for path in against}
    keep_apart({"--output": output}, {"MODEL": model_file, "DATA": data_file, "--train": training, **compared})
    run(model_file, data_file, output, against, training, **options)
