"""Options of the command; the work is done in the modules beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from maxmargin import __version__
from maxmargin.cli.options import (
    AIM,
    DATA,
    EXISTING,
    GAINS,
    INPUT,
    JSON,
    METRICS,
    MODEL,
    MODEL_OUTPUT,
    OUTPUT,
    POSITIVE,
    PRINTED,
    SOLVER,
    TIME_LIMIT,
    DataOptions,
    Number,
    Printing,
    check_solver,
    column_options,
    data_options,
    given_options,
    keep_apart,
    known_metrics,
    model_options,
    numbers,
    one_word,
    output_options,
    picture_options,
    report_options,
    sample_options,
    shard_options,
    training_options,
    with_exit_codes,
    words,
)
from maxmargin.cli.tag import tag


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maxmargin")
def main() -> None:
    """Learn rankings by the metric you report.

    \b
    maxmargin demo                                    two minutes with real data
    maxmargin cv train.letor --model ranker.model     choose C, train, save
    maxmargin train train.letor --C 10 --model ranker.model
    maxmargin path train.letor --validation dev.letor --model ranker.model
                                                      every C at once
    maxmargin predict ranker.model test.letor         scores, or a TREC run
    maxmargin evaluate ranker.model test.letor        MAP, NDCG, ...
    maxmargin compare old.run new.run --qrels test.qrels    chance, or not
    maxmargin inspect ranker.model                    what is in the file
    maxmargin report ranker.model test.letor          a page to look at
    maxmargin tag train train.txt --model tagger.model
                                                      tags of words
    maxmargin pack 'part-*.svm' -o packed --shards 200
                                                      files for training in parts
    """


@main.command()
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    default=Path("demo/precision_recall.png"),
    show_default=True,
    help="Where to write the figure (.png, .svg or .pdf).",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the cross-validation folds.")
@with_exit_codes
def demo(output: Path, seed: int) -> None:
    """Find rare events: the classifier for them and three other linear models, on digits and where labels are wrong.

    \b
    Example: maxmargin demo -o curves.svg
    """
    from maxmargin.cli.demo import run

    run(output, seed)


@main.command()
@DATA
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
@training_options
@data_options
@output_options
@with_exit_codes
def train(
    data_file: Path,
    model_file: Path,
    C: float | None,
    method: str,
    aim: Any,
    refine: bool | None,
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

    If the gap does not reach --tol, the best model so far is written, a warning says so, and the exit code is 0. Ctrl-C does the
    same with exit code 130, SIGTERM with 143. The exit code is 1 for bad input and 2 for wrong usage.

    \b
    Examples:
      maxmargin train train.letor --loss ndcg --C 10 --model ranker.model
      maxmargin train train.csv --label grade --qid query --model ranker.model
      maxmargin train frauds.csv --label fraud --method classifier --model frauds.model
      maxmargin train frauds.csv --label fraud --method classifier --aim budget=0.01 --model frauds.model
    """
    from maxmargin.cli import rare
    from maxmargin.cli.reading import explaining_memory
    from maxmargin.cli.train import run

    keep_apart({"--model": model_file}, {"DATA": data_file})
    settings = {**parameters, "C": 1.0 if C is None else C}
    with explaining_memory(data_file, reading):
        if method == "classifier":
            return rare.run(data_file, reading, settings, given_options(), refine, aim, model_file, printing)
        if aim is not None:
            raise click.UsageError("--aim is for --method classifier: other models give scores and no labels; leave it out")
        return run(data_file, reading, settings, model_file, printing, refining=bool(refine))


@main.command()
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


@main.command()
@DATA
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
@click.option(
    "-m",
    "--metric",
    callback=known_metrics,
    help=f"To choose by: {METRICS}.  [default: what is trained for]",
)
@GAINS
@click.option("--model", type=MODEL_OUTPUT, help="Where to write the chosen model.")
@click.option("--save", type=OUTPUT, help="Where to write the whole path.")
@click.option("--report", type=OUTPUT, help="Where to write a page with a slider over lambda, .html.")
@click.option("--checkpoint", type=OUTPUT, help="Where to write what has been solved; if it exists, go on from there.")
@model_options
@SOLVER
@TIME_LIMIT
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the folds.")
@data_options
@output_options
@with_exit_codes
def path(
    data_file: Path,
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

    \b
    Examples:
      maxmargin path train.letor --loss ap
      maxmargin path train.letor --validation dev.letor --model ranker.model --report path.html
      maxmargin path train.csv --label grade --folds 5 --epsilon 0.001 --lambda-min 1e-5 --model ranker.model
    """
    from maxmargin.cli.path import run
    from maxmargin.cli.reading import explaining_memory

    check_solver(options["solver"], parameters["loss"])
    if validation is not None and folds is not None:
        raise click.UsageError("--validation and --folds are two ways to choose lambda; give one of them")
    if validation is None and folds is None and (options["model"] is not None or metric is not None):
        raise click.UsageError("--model and --metric need --validation or --folds, to choose lambda")
    written = {f"--{name}": options[name] for name in ("model", "save", "report", "checkpoint")}
    if folds is not None and options["checkpoint"] is not None:
        written |= {f"--checkpoint of fold {k}": Path(f"{options['checkpoint']}.{k}") for k in range(1, folds + 1)}
    keep_apart(written, {"DATA": data_file, "--validation": validation})
    with explaining_memory(data_file, reading):
        return run(data_file, reading, parameters, validation, folds, metric, **options)


@main.command()
@MODEL
@DATA
@click.option("-o", "--output", type=PRINTED, help="Write to a file, in one step; - is standard output, the default.")
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
@sample_options
@JSON
@with_exit_codes
def predict(
    model_file: Path, data_file: Path, output: Path | None, form: str, wanted: str, as_json: bool, **options: Any
) -> None:
    """Score samples with a model: one number per line, in the order of DATA.

    With --format trec a run: query, Q0, document, rank, score, tag. Documents have the names in LETOR comments (#docid = NAME)
    or, if no line has one, the numbers of the samples, counted from 1.

    DATA must have the features of the model. Columns of a table are found by their names, in any order; a svmlight file may
    have fewer columns, because zeros are not written, but not more. Labels are not used.

    A model of train --method classifier also has --as labels, the two labels of its training data by the --aim it was trained
    with, and --as probabilities, those of the label to be found.

    \b
    Examples:
      maxmargin predict ranker.model test.letor > scores.txt
      maxmargin predict ranker.model test.letor --format trec -o test.run
      maxmargin predict frauds.model new.csv --as labels -o flagged.txt
    """
    from maxmargin.cli.predict import run

    keep_apart({"--output": output}, {"MODEL": model_file, "DATA": data_file})
    if form == "trec" and as_json and output is None:
        raise click.UsageError("--json prints scores, not a run; write the run to a file with --output, or leave out --json")
    if form == "trec" and wanted != "scores":
        raise click.UsageError(f"--format trec is a run, which has scores; leave out --as {wanted}, or the format")
    run(model_file, data_file, output=output, form=form, wanted=wanted, as_json=as_json, **options)


@main.command()
@click.argument("files", nargs=-1, type=INPUT, metavar="[MODEL] DATA [SCORES]")
@click.option(
    "-m", "--metric", "metrics", multiple=True, callback=known_metrics, help=f"{METRICS}; may be repeated."
)
@GAINS
@column_options
@click.option("--score", help="Column of the scores (tables only).  [default: score]")
@click.option("--qrels", type=INPUT, help="Judgements: lines 'query 0 document relevance'.")
@click.option("--run", "run_file", type=INPUT, help="Results: lines 'query Q0 document rank score tag'.")
@click.option("-c", "--complete", is_flag=True, help="With --qrels: all judged queries count, those without results as 0.")
@click.option("--per-query", "each_query", is_flag=True, help="Also one line for every query.")
@JSON
@with_exit_codes
def evaluate(
    files: tuple[Path, ...],
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

    \b
    Examples:
      maxmargin evaluate results.csv -m map -m ndcg@10
      maxmargin evaluate test.letor predictions.txt --gains exponential --json
      maxmargin evaluate ranker.model test.letor
      maxmargin evaluate --qrels test.qrels --run test.run -c
    """
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


@main.command()
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


@main.command()
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


@main.command()
@click.argument("left", type=EXISTING)
@click.argument("right", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("disparity.png"), show_default=True, help="Where to write disparities.")
@click.option(
    "-d", "--disparities", type=click.IntRange(min=1), default=16, show_default=True, help="Disparities 0 to one less than this."
)
@click.option("--smoothness", default=20.0, show_default=True, help="Price of a step of one between neighbours.")
@click.option("--limit", default=5.0, show_default=True, help="A step costs no more than one of so many disparities.")
@click.option("--cost-limit", default=float("inf"), show_default=True, help="Colours of a pixel cost no more than this.")
@click.option("--regions/--no-regions", default=True, show_default=True, help="Superpixels prefer similar disparities.")
@picture_options
@output_options
@with_exit_codes
def stereo(left: Path, right: Path, output: Path, **options: Any) -> int:
    """Depth from two images: how far every pixel of LEFT has moved to the left in RIGHT, brighter is nearer.

    The images must be rectified and of one size. Colours that differ, steps between neighbours and
    superpixels that are not flat cost something; defaults are the published ones for tsukuba.

    \b
    Examples:
      maxmargin stereo left.png right.png -o disparity.png
      maxmargin stereo left.png right.png -d 60 --limit 1 --cost-limit 16 --figure compared.png
    """
    from maxmargin.cli.pictures import run_stereo

    keep_apart({"--output": output, "--figure": options["figure"]}, {"LEFT": left, "RIGHT": right})
    return run_stereo(left, right, output, **options)


@main.command()
@click.argument("image", type=EXISTING)
@click.argument("mask", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("inpainted.png"), show_default=True, help="Where to write the image.")
@click.option("--levels", type=click.IntRange(2, 256), default=64, show_default=True, help="Grey values, at most 256.")
@click.option("--smoothness", default=50.0, show_default=True, help="Price of a difference of one grey value between neighbours.")
@click.option("--limit", default=50.0, show_default=True, help="A difference costs no more than one of so many grey values.")
@click.option("--regions/--no-regions", default=False, show_default=True, help="Superpixels prefer similar grey values.")
@picture_options
@output_options
@with_exit_codes
def inpaint(image: Path, mask: Path, output: Path, **options: Any) -> int:
    """Take noise out of a grey IMAGE and fill in its holes, which are dark in MASK.

    \b
    Examples:
      maxmargin inpaint damaged.png mask.png -o repaired.png
      maxmargin inpaint damaged.png mask.png --levels 256 --figure compared.png
    """
    from maxmargin.cli.pictures import run_inpaint

    keep_apart({"--output": output, "--figure": options["figure"]}, {"IMAGE": image, "MASK": mask})
    return run_inpaint(image, mask, output, **options)


@main.command()
@click.argument("image", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, default=Path("regions.png"), show_default=True, help="Where to write the regions.")
@click.option(
    "-k",
    "--regions",
    "n_labels",
    type=click.IntRange(2, 256),
    default=2,
    show_default=True,
    help="How many; two are found exactly.",
)
@click.option("--smoothness", default=8.0, show_default=True, help="Price of a boundary where there is no contrast.")
@click.option("--seeds", type=EXISTING, help="An image with grey value k where a pixel belongs to region k, 0 elsewhere.")
@click.option("--seed", default=0, show_default=True, help="Seed of the colours' mixture.")
@picture_options
@output_options
@with_exit_codes
def segment(image: Path, output: Path, **options: Any) -> int:
    """Divide IMAGE into regions by colour, with smooth boundaries that follow contrast.

    \b
    Examples:
      maxmargin segment photo.jpg -o regions.png
      maxmargin segment photo.jpg -k 4 --figure compared.png
    """
    from maxmargin.cli.pictures import run_segment

    keep_apart({"--output": output, "--figure": options["figure"]}, {"IMAGE": image, "--seeds": options["seeds"]})
    return run_segment(image, output, **options)


@main.command()
@click.argument("source", type=EXISTING)
@click.argument("target", type=EXISTING)
@click.option("-o", "--output", type=OUTPUT, required=True, help="Where to write the source, moved onto the target.")
@click.option("--field", type=OUTPUT, help="Where to write displacements: .nii.gz or .mha for SimpleITK, .npz for Python.")
@click.option("--figure", type=OUTPUT, help="Where to write a figure: before and after, deformed grid, Jacobian.")
@click.option("--segmentation", type=EXISTING, help="Classes of the source's voxels, to be moved too.")
@click.option("--labels-output", type=OUTPUT, help="Where to write the moved classes.")
@click.option("--metrics", default="sad,mi,ncc,dwt", show_default=True, callback=words, help="Which, separated by commas.")
@click.option("--weights", callback=numbers, help="Weights of the metrics, separated by commas.")
@click.option("--smoothness", type=float, help="Price of a millimetre between neighbouring control points.")
@click.option("--spacing", callback=numbers, help="Size of voxels, slices first, of both, whatever the files say.")
@click.option("--grid-spacing", type=POSITIVE, help="Of control points; by default 8 voxels, of images 16.")
@click.option("--levels", type=click.IntRange(1, 12), default=2, show_default=True, help="Of the pyramid.")
@click.option("--steps", type=click.IntRange(1, 1000), default=5, show_default=True, help="Refinements at every level.")
@click.option("--max-displacement", default=0.4, show_default=True, help="Of a refinement, in spacings of control points.")
@click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds to search.")
@output_options
@with_exit_codes
def register(source: Path, target: Path, output: Path, **options: Any) -> int:
    """Move SOURCE onto TARGET: two images, or two volumes, that show the same thing in different shapes.

    Files are NIfTI, MetaImage, NRRD or pictures; sizes and places of voxels are read from them.

    \b
    Examples:
      maxmargin register patient.nii.gz atlas.nii.gz -o warped.nii.gz --figure compared.png
      maxmargin register moving.png fixed.png -o warped.png --metrics ncc --field field.mha
    """
    from maxmargin.cli.registration import run_register

    more = {"--field": options["field"], "--figure": options["figure"], "--labels-output": options["labels_output"]}
    keep_apart({"--output": output, **more}, {"SOURCE": source, "TARGET": target, "--segmentation": options["segmentation"]})
    return run_register(source, target, output, **options)


@main.command()
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


@main.command()
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


main.add_command(tag)
