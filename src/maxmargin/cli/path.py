"""``maxmargin path``: every lambda at once, and the best of them."""

from __future__ import annotations

import copy
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import check_writable
from maxmargin.cli import cv, train
from maxmargin.cli.engine_options import NOT_IN_PARTS, SAMPLES, Sharding, engine_options, refuse_with_engine
from maxmargin.cli.evaluate import format_table
from maxmargin.cli.options import (
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
    keep_apart,
    known_metrics,
    model_options,
    output_options,
    speaking_of,
    with_exit_codes,
)
from maxmargin.cli.reading import explaining_memory, more_data, origin, training_data
from maxmargin.cli.report import feature_names
from maxmargin.cli.signals import exit_code, noting_signals
from maxmargin.core.solvers import ConvergenceWarning
from maxmargin.report import write_path_report

if TYPE_CHECKING:
    from maxmargin.core import RegularizationPath, Selection
    from maxmargin.io import RankingData
    from maxmargin.ranking import RankingSVM

_ROWS = 20  # of the table


class Chosen(NamedTuple):
    """What was chosen, by a name of the metric, on which data, and whether the path ends there."""

    selection: Selection
    metric: str
    held_out: str
    at_end: bool


class _Tracer:
    """Traces paths with the options of the command, shows how far it is, and notes signals."""

    def __init__(self, estimator: RankingSVM, data_file: Path, options: dict[str, Any], show: bool) -> None:
        self.estimator, self.data_file, self.options, self.show = estimator, data_file, options, show
        self.seconds = 0.0
        self.signals: list[int] = []

    def trace(self, X: Any, y: Any, fit_params: dict[str, Any], fold: int | None = None) -> RegularizationPath:
        """The path, perhaps the beginning of it if there was a Ctrl-C or no time."""
        from maxmargin.core import regularization_path

        names = ("epsilon", "lambda_min", "kappa", "rule", "solver", "time_limit", "checkpoint")
        arguments = {name: self.options[name] for name in names}
        if fold is not None and arguments["checkpoint"] is not None:
            arguments["checkpoint"] = f"{arguments['checkpoint']}.{fold}"
        began = time.perf_counter()
        with noting_signals() as self.signals, warnings.catch_warnings(), speaking_of(self.data_file):
            warnings.simplefilter("ignore", ConvergenceWarning)
            path = regularization_path(self.estimator, X, y, **arguments, verbose=int(self.show), **fit_params)
        self.seconds += time.perf_counter() - began
        # The beginning of a fold's path is of no use, and neither is that of a path without any range.
        if self.signals and (fold is not None or not path.segments):
            raise KeyboardInterrupt
        return path


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
        reasons = {"folds": "they need all data; use --validation", "report": "the page needs all data; leave it out"}
        refuse_with_engine({**reasons, **NOT_IN_PARTS})
        from maxmargin.cli import sharded_path

        return sharded_path.run(data_file, sharding, reading, parameters, validation, metric, **options)
    written = {f"--{name}": options[name] for name in ("model", "save", "report", "checkpoint")}
    if folds is not None and options["checkpoint"] is not None:
        written |= {f"--checkpoint of fold {k}": Path(f"{options['checkpoint']}.{k}") for k in range(1, folds + 1)}
    keep_apart(written, {"DATA": data_file, "--validation": validation})
    with explaining_memory(data_file, reading):
        return _run(data_file, reading, parameters, validation, folds, metric, **options)


def _run(
    data_file: Path,
    reading: DataOptions,
    parameters: dict[str, Any],
    validation: Path | None,
    folds: int | None,
    metric: str | None,
    gains: Any,
    printing: Printing,
    **options: Any,
) -> int:
    """Trace, choose on a file or on folds if at all, write what is asked for, report; the exit code."""
    from maxmargin.ranking import RankingSVM

    for name in ("model", "save", "report", "checkpoint"):
        if options[name] is not None:
            check_writable(options[name])
    data = training_data(data_file, reading)
    held = None if validation is None else more_data(data, data_file, validation, reading)
    parameters, measure = cv.agreed(data, parameters, metric, gains)
    tracer = _Tracer(RankingSVM(**parameters), data_file, options, show=printing.progress)
    metric = metric or train.metric_name(parameters["loss"])
    chosen = None
    if folds is None:
        path = tracer.trace(data.X, data.y, _queries(data))
        if held is not None and validation is not None:
            selection = path.select(held.X, held.y, scoring=measure.of, **_queries(held))
            at_end = path.ranges()[path.model_at(selection.lam)][1] <= path.lambda_end
            chosen = Chosen(selection, metric, validation.name, at_end)
    else:
        path, selection, at_end = _cross_validate(tracer, data, folds, measure, options)
        chosen = Chosen(selection, metric, f"{folds} held-out folds", at_end)
    answer = {**train.describe(data, data_file), **answer_of(path, chosen, tracer)}
    answer |= _write(path, chosen, measure, data, data_file, options)
    printing.tell(answer, lambda answer: words_about(answer, chosen))
    warn_about(answer, chosen)
    return exit_code(tracer.signals)


def _queries(data: RankingData) -> dict[str, Any]:
    return {} if data.qid is None else {"qid": data.qid}


def _cross_validate(
    tracer: _Tracer, data: RankingData, folds: int, measure: cv.Measure, options: dict[str, Any]
) -> tuple[RegularizationPath, Selection, bool]:
    """The path of all data, the mean over the folds at each of its models, and whether the best is at its end."""
    from maxmargin.core import PathSearchCV, Selection

    class Search(PathSearchCV):
        """A search whose paths the command traces: one per fold, and then that of all data."""

        n_traced = 0

        def _trace(self, X: Any, y: Any, fit_params: dict[str, Any]) -> RegularizationPath:
            self.n_traced += 1
            return tracer.trace(X, y, fit_params, self.n_traced if self.n_traced <= folds else None)

    with speaking_of(tracer.data_file):
        held_out = cv.split(data, folds, options["seed"], measure.threshold)
    rows = np.arange(len(data))
    splits = [(np.setdiff1d(rows, held), held) for held in held_out]
    search = Search(tracer.estimator, lambda_min=options["lambda_min"], cv=splits, scoring=measure.of)
    search.fit(data.X, data.y, **_queries(data))
    path, means = search.path_, search.cv_scores_.mean(axis=0)
    # Ranges of the search are finer than those of the models: what is best may be a part of a range.
    lams = np.array([path.middle(k) if hi > lo else path.lambdas[k] for k, (hi, lo) in enumerate(path.ranges())])
    place = np.searchsorted(-search.cv_lambdas_, -lams, side="left") - 1
    scores = means[np.clip(place, 0, len(means) - 1)]
    scores[path.model_at(search.best_lambda_)] = search.best_score_
    at_end = means[-1] >= search.best_score_
    return path, Selection(search.best_lambda_, search.best_score_, scores, path.lambdas.copy()), bool(at_end)


def answer_of(path: RegularizationPath, chosen: Chosen | None, tracer: Any) -> dict[str, Any]:
    """What there is to say; ``tracer`` has the ``seconds`` it took and the ``signals`` that came."""
    models = []
    gaps = np.zeros(len(path))
    for segment in path.segments:
        gaps[segment.model] = max(gaps[segment.model], segment.gap_hi, segment.gap_lo)
    gaps[0] = max(gaps[0], path.gap_bound(float(path.lambdas[0]))) if path.lambdas[0] > 0 else 0.0
    for k, (hi, lo) in enumerate(path.ranges()):
        if hi > lo:
            row = {
                "model": k,
                "lambda": float(path.lambdas[k]),
                "lambda_high": hi if np.isfinite(hi) else None,
                "lambda_low": lo,
                "C_high": 1.0 / (lo * path.n_blocks) if lo > 0 else None,
                "largest_gap": float(gaps[k]),
                "passes": float(path.passes[k]),
            }
            models.append(row if chosen is None else {**row, chosen.metric: float(chosen.selection.scores[k])})
    best = None
    if chosen is not None:
        lam, score = chosen.selection.lam, chosen.selection.score
        number = path.model_at(lam)
        best = {"lambda": lam, "C": 1.0 / (lam * path.n_blocks), chosen.metric: score, "model": number, "on": chosen.held_out}
    return {
        "loss": path.template.loss,
        "epsilon": path.epsilon,
        "kappa": path.kappa,
        "rule": path.rule,
        "certified": path.certified,
        "complete": path.complete,
        "interrupted": bool(tracer.signals),
        "lambda_end": path.lambda_end,
        "blocks": path.n_blocks,
        "solved": len(path),
        "passes": path.total_passes,
        "seconds": tracer.seconds,
        "models": models,
        "best": best,
    }


def _write(
    path: RegularizationPath,
    chosen: Chosen | None,
    measure: cv.Measure,
    data: RankingData,
    data_file: Path,
    options: dict[str, Any],
) -> dict[str, str]:
    """The model, the path and the page, if they are asked for; their names."""
    written = {"model_file": options["model"], "path_file": options["save"], "report": options["report"]}
    # Only in files: the arrays of this command have no names, and scikit-learn would wonder.
    named = copy.copy(path)
    named.template = copy.copy(path.template)
    if data.feature_names is not None:
        named.template.feature_names_in_ = np.array(data.feature_names, dtype=object)
    if options["model"] is not None and chosen is not None:
        from maxmargin.core import save_model

        save_model(named.estimator(chosen.selection.lam), options["model"], about=origin(data_file, data))
    if options["save"] is not None:
        named.save(options["save"])
    if options["report"] is not None:  # last of all, because there may be nothing to draw
        with speaking_of(data_file):
            write_path_report(
                path,
                training=(data.X, data.y, data.qid),
                file=options["report"],
                feature_names=feature_names(data),
                selection=None if chosen is None else chosen.selection,
                held_out="validation data" if chosen is None else chosen.held_out,
                scoring=None if measure.metric is None else measure.of,
                metric=None if measure.metric is None else measure.metric.upper(),
                notes=[f"Training data: {data_file.name}."],
            )
    return {key: str(file) for key, file in written.items() if file is not None}


def words_about(answer: dict[str, Any], chosen: Chosen | None) -> str:
    """The same for people."""
    certified = "certified" if answer["certified"] else "not certified"
    models = f"{len(answer['models'])} model{'s' if len(answer['models']) > 1 else ''}"
    end = f"every lambda down to {answer['lambda_end']:g}" if answer["lambda_end"] > 0 else "every lambda"
    effort = f"{answer['passes']:.0f} passes in {answer['seconds']:.2f} s"
    found = f"{models} for {end}, gap at most {answer['epsilon']:g} ({certified}), {effort}"
    lines = [train.data_line(answer), found, _table(answer, chosen)]
    best = answer["best"]
    if best is not None and chosen is not None:
        value = f"{chosen.metric.upper()} {best[chosen.metric]:.4f}"
        lines.append(f"best lambda: {best['lambda']:.6g}, C: {best['C']:.6g}, {value} on {best['on']}")
    names = {"model_file": "model", "path_file": "path", "report": "report"}
    files = [f"{name}: {answer[key]}" for key, name in names.items() if key in answer]
    return "\n".join([*lines, ", ".join(files)] if files else lines)


def _table(answer: dict[str, Any], chosen: Chosen | None) -> str:
    """All models, or some of many: the first, the last, the best and others evenly."""
    models, best = answer["models"], answer["best"]
    shown = set(np.linspace(0, len(models) - 1, min(len(models), _ROWS)).round().astype(int).tolist())
    if best is not None:
        shown |= {place for place, row in enumerate(models) if row["model"] == best["model"]}
    header = ["lambda from", "down to", "C up to", "largest gap", *([] if chosen is None else [chosen.metric.upper()])]
    rows = []
    for place in sorted(shown):
        row = models[place]
        highest = "infinity" if row["lambda_high"] is None else f"{row['lambda_high']:.4g}"
        C = "infinity" if row["C_high"] is None else f"{row['C_high']:.4g}"
        scores = [] if chosen is None else [f"{row[chosen.metric]:.4f}" + ("*" if row["model"] == best["model"] else " ")]
        rows.append([highest, f"{row['lambda_low']:.4g}", C, f"{row['largest_gap']:.1e}", *scores])
    more = f"\n{len(shown)} of {len(models)} models; --json has all" if len(shown) < len(models) else ""
    return format_table(header, rows) + more


def warn_about(answer: dict[str, Any], chosen: Chosen | None) -> None:
    """Say on standard error where the path ends too early."""
    if answer["interrupted"]:
        click.echo(f"Warning: interrupted; the path ends at lambda {answer['lambda_end']:g}", err=True)
    elif not answer["complete"]:
        click.echo(
            f"Warning: the path ends at lambda {answer['lambda_end']:g}, because of --time-limit or because the solver could not "
            "reach the gap; raise --time-limit or --epsilon, or take another --solver",
            err=True,
        )
    if chosen is not None and chosen.at_end and answer["lambda_end"] > 0:
        click.echo("Warning: the best lambda is at the end of the path; try a smaller --lambda-min", err=True)
