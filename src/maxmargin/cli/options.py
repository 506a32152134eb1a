"""Options that several commands share, and how they end: 0 done, 1 bad input, 2 wrong usage, 130 or 143 interrupted."""

from __future__ import annotations

import errno
import functools
import io
import json
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from maxmargin.cli.signals import exit_code, noting_signals

# Spelt out because the estimators, which know them, take long to load; a test compares. Other names of the same come after.
SOLVERS = ("auto", "bcfw", "eg", "fw", "n_slack", "one_slack", "pl", "subgradient")

GAINS = click.option(
    "--gains", type=click.Choice(["linear", "exponential"]), default="linear", show_default=True, help="Gains of NDCG."
)

METRICS = "map, mrr, ndcg, p, recall, success, err (each also @K), rprec, rbp, auc, or as trec_eval or ir_measures call them"

# They average over outputs, which nobody can do for rankings.
_SOLVERS_OF_SAMPLES = ("eg", "pl")

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]


class Number(click.FloatRange):
    """A finite number in a range; click lets NaN through, which is on no side of any bound."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; a usage error for any other text."""
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value!r} is not a finite number", param, ctx)
        return found


_AIMS = "f1, budget=100, budget=0.01, precision=0.9, recall=0.9, cost=1:10 (a false alarm, a miss) or a probability"


class Aim(click.ParamType):  # type: ignore[type-arg,unused-ignore]
    """What labels are to be good at, as ``threshold`` of :class:`maxmargin.RankingClassifier` takes it."""

    name = "aim"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A word, a probability, or a mapping of one kind to its value; a usage error for any other text."""
        from maxmargin._utils import ArgumentError
        from maxmargin.rare_events import check_aim

        kind, is_kind, number = str(value).strip().lower().partition("=")
        try:
            if kind == "cost":
                alarm, miss = map(float, number.split(":"))
                aim: Any = {"cost": [[0.0, alarm], [miss, 0.0]]}
            else:
                aim = {kind: float(number)} if is_kind else kind if kind == "f1" else float(kind)
            check_aim(aim)
        except ArgumentError as error:
            self.fail(f"{value!r}{error.problem[-1]}; use {_AIMS}", param, ctx)
        except ValueError:
            self.fail(f"{value!r} is no aim; use {_AIMS}", param, ctx)
        return aim


def aim_words(aim: Any) -> str:
    """An aim as the option has it.

    >>> aim_words({"cost": [[0.0, 1.0], [10.0, 0.0]]}), aim_words({"budget": 0.01}), aim_words("f1")
    ('cost=1:10', 'budget=0.01', 'f1')
    """
    if not isinstance(aim, Mapping):
        return str(aim)
    ((kind, value),) = aim.items()
    return f"cost={value[0][1]:g}:{value[1][0]:g}" if kind == "cost" else f"{kind}={value:g}"


AIM = click.option("--aim", type=Aim(), help=f"With --method classifier, what labels are for: {_AIMS}.  [default: f1]")


class File(click.Path):
    """A file by its name. A dash is standard input, kept in a file; standard output, which has no name; or none, for a reason."""

    def __init__(self, dash: str, *, exists: bool) -> None:
        super().__init__(exists=exists, dir_okay=False, path_type=Path)
        self.dash = dash

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path; a usage error for a dash that stands for nothing."""
        if os.fspath(value) != "-":
            return super().convert(value, param, ctx)
        if self.dash == "standard input" and ctx is not None:
            from maxmargin.cli.streams import keep_standard_input

            return keep_standard_input(ctx)
        if self.dash != "standard output":
            self.fail(f"'-' does not stand for a stream here; {self.dash}", param, ctx)
        return None


EXISTING = File("name a file, or /dev/stdin", exists=True)
INPUT = File("standard input", exists=True)
OUTPUT = File("name a file, or /dev/stdout", exists=False)
PRINTED = File("standard output", exists=False)
_IS_BINARY = "a model is not text, and a run that is stopped could leave half of it: name a file, or /dev/stdout for a pipe"
MODEL_OUTPUT = File(_IS_BINARY, exists=False)
MODEL = click.argument("model_file", type=File("a model is read from a file; name it", exists=True), metavar="MODEL")
DATA = click.argument("data_file", type=INPUT, metavar="DATA")


if TYPE_CHECKING:
    from maxmargin.io import Wanted

    _Word = click.ParamType[str]
else:
    # In older versions it takes no type.
    _Word = click.ParamType


class Loss(_Word):
    """A loss, by any of its names; the first of them is handed on, with its cut-off. Who they are is asked when it matters."""

    name = "loss"

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What --help shows."""
        from maxmargin.ranking import loss_names

        return f"[{'|'.join([*loss_names(), 'accuracy'])}]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The first name."""
        from maxmargin.ranking import plain_name, ranking_loss

        if str(value).lower() == "accuracy":
            return "accuracy"
        try:
            return ranking_loss(plain_name(str(value))).native_name()
        except ValueError as error:
            self.fail(f"{error}".replace(", or pass a RankingLoss object", ", or 'accuracy'"), param, ctx)


class DataOptions(NamedTuple):
    """How to read samples; None where nothing was said."""

    label: str | None = None
    qid: str | None = None
    features: list[str] | None = None
    zero_based: bool | None = None
    drop: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    split_queries: Any = "keep"
    query_optional: bool = False  # the column of the queries may be missing though it is named: a model remembers it

    def wanted(self) -> Wanted:
        """Columns of a table."""
        from maxmargin.io import Wanted

        return Wanted(
            self.label or "relevance", self.qid or "qid", self.features,
            query_needed=self.qid is not None and not self.query_optional, drop=self.drop, categorical=self.categorical,
        )  # fmt: skip

    def numbering(self, known: bool | None = None) -> Any:
        """How the features of a svmlight file are numbered, as its reader takes it; as ``known`` if nothing was said."""
        said = known if self.zero_based is None else self.zero_based
        return "auto" if said is None else said


class Printing(NamedTuple):
    """What to print."""

    as_json: bool
    quiet: bool

    @property
    def progress(self) -> bool:
        """Whether somebody is looking."""
        return not self.quiet and not self.as_json and sys.stderr.isatty()

    def tell(self, answer: dict[str, Any], words: Callable[[dict[str, Any]], str]) -> None:
        """An answer, for machines or in words for people."""
        if self.as_json:
            click.echo(json.dumps(answer, indent=2))
        elif not self.quiet:
            click.echo(words(answer))


def check_reading(path: Path, reading: DataOptions) -> None:
    """Complain about options that do not go with the format of a file, and about a file that is none of samples."""
    from maxmargin.io import DataError, is_archive, is_table

    if is_archive(path):
        raise DataError(f"{path}: was saved by maxmargin and holds no samples; name the data in its place")
    if is_table(path):
        if reading.zero_based is not None:
            raise click.UsageError(f"--zero-based and --one-based are for svmlight files, but {path} is a table")
        return
    for name in ("label", "qid", "features", "drop", "categorical"):
        if getattr(reading, name) not in (None, ()):
            raise click.UsageError(f"--{name} is for tables (.csv, .tsv, .parquet), but {path} is taken for a svmlight file")


def words(context: click.Context, parameter: click.Parameter, text: str | None) -> list[str] | None:
    """Words, separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def columns(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Words of an option that may be repeated, separated by commas."""
    return tuple(name.strip() for text in texts for name in text.split(","))


def numbers(context: click.Context, parameter: click.Parameter, text: str | None) -> list[float] | None:
    """Positive numbers, separated by commas."""
    if text is None:
        return None
    try:
        values = [float(entry) for entry in text.split(",")]
    except ValueError:
        raise click.BadParameter(f"{text!r} must be numbers separated by commas, such as 0.1,1,10") from None
    if not all(0 < value < math.inf for value in values):
        raise click.BadParameter(f"{text!r} must be positive numbers")
    return values


def finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """A finite number."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value!r} is not a finite number")
    return value


def one_word(context: click.Context, parameter: click.Parameter, text: str) -> str:
    """Text without blanks."""
    if text.split() != [text]:
        raise click.BadParameter(f"{text!r} must be one word, without blanks")
    return text


def known_metrics(context: click.Context, parameter: click.Parameter, names: Any) -> Any:
    """One name of a metric or several."""
    from maxmargin.ranking import metric_named

    for name in [names] if isinstance(names, str) else names or ():
        try:
            metric_named(name, "linear")
        except ValueError as error:
            raise click.BadParameter(str(error)) from None
    return names


def given_options() -> set[str]:
    """Parameters of the running command that the user has set."""
    context = click.get_current_context()
    ours = (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP, None)
    return {name for name in context.params if context.get_parameter_source(name) not in ours}


def keep_apart(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse to write over what is read, and to write two results to one file. Pipes and devices may be named many times."""
    from maxmargin._utils import is_special

    seen = [(name, path) for name, path in inputs.items() if path is not None]
    for name, path in outputs.items():
        if path is None or is_special(path):
            continue
        for other, taken in seen:
            # The same file, perhaps by names that the file system does not tell apart.
            if os.path.realpath(path) == os.path.realpath(taken) or (path.exists() and taken.exists() and path.samefile(taken)):
                raise click.UsageError(f"{name} and {other} are the same file, {path}; name another one for {name}")
        seen.append((name, path))


def packing(name: str, pack: Callable[..., Any], options: Mapping[str, Decorator]) -> Decorator:
    """A decorator that adds options to a command, which gets them together as one argument of that name."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def packed(*args: Any, **kwargs: Any) -> Any:
            values = {option: kwargs.pop(option) for option in options}
            return command(*args, **{name: pack(**values)}, **kwargs)

        stacked: Command = packed
        for option in reversed(list(options.values())):
            stacked = option(stacked)
        return stacked

    return decorate


_LABEL = "Column of the labels (tables only).  [default: that of the model if there is one, or else relevance]"
_QID = "Column of the queries (tables only).  [default: that of the model, or else qid, if there is one]"
_READING = {
    "label": click.option("--label", help=_LABEL),
    "qid": click.option("--qid", help=_QID),
    "features": click.option(
        "--features", callback=words, help="Columns of the features, a,b,c (tables).  [default: all others but ids]"
    ),
    "zero_based": click.option("--zero-based/--one-based", default=None, help="First svmlight index.  [default: 0 if it occurs]"),
}
# What to make of columns, which models remember.
_COLUMNS = {
    "drop": click.option(
        "--drop", multiple=True, callback=columns, help="Columns that are no features (tables); may be repeated."
    ),
    "categorical": click.option(
        "--categorical",
        multiple=True,
        callback=columns,
        help="Columns whose numbers are names, one-hot encoded as text is (tables).",
    ),
}
_SPLIT_QUERIES = click.option(
    "--split-queries",
    type=click.Choice(["refuse", "group", "keep"]),
    default="refuse",
    show_default=True,
    help="What to do with a query that appears again after others.",
)
_RELEVANCE = click.option("--relevance", "--label", "label", help=_LABEL)

# Options of reading samples, handed to the command as ``reading``: as they come; of which lists are made; of which labels and
# queries alone are read; of which shards are made.
sample_options = packing("reading", DataOptions, _READING)
data_options = packing("reading", DataOptions, {**_READING, **_COLUMNS, "split_queries": _SPLIT_QUERIES})
report_options = packing("reading", DataOptions, {**_READING, "split_queries": _SPLIT_QUERIES})
shard_options = packing("reading", DataOptions, {**_READING, "drop": _COLUMNS["drop"]})
column_options = packing("reading", DataOptions, {"label": _RELEVANCE, "qid": _READING["qid"]})

POSITIVE = Number(0, min_open=True)
TIME_LIMIT = click.option("--time-limit", type=POSITIVE, help="Seconds after which to stop with what there is.")
SOLVER = click.option("--solver", type=click.Choice(SOLVERS), default="auto", show_default=True, help="Which solver.")

# What is learned, and how: arguments of :class:`maxmargin.RankingSVM`, all but C.
_MODEL = {
    "loss": click.option("--loss", type=Loss(), default="ap", show_default=True, help="What to train for."),
    "relevance_threshold": click.option(
        "--threshold",
        "relevance_threshold",
        type=float,
        callback=finite,
        help="Labels above it are relevant.  [default: 0, or the smallest label if that is larger]",
    ),
    "grades": click.option(
        "--grades",
        is_flag=False,
        flag_value="mean",
        type=click.Choice(["mean", "linear", "exponential"]),
        help="Use all grades: the mean over them or, for NDCG, with these gains.",
    ),
    "scale": click.option(
        "--scale",
        type=click.Choice(["none", "standard", "query"]),
        default="none",
        show_default=True,
        help="Standardise features, over all samples or within every query; the model remembers.",
    ),
}
_TRAINING = {
    **_MODEL,
    "tol": click.option("--tol", type=POSITIVE, default=1e-3, show_default=True, help="Relative duality gap to reach."),
    "max_iter": click.option("--max-iter", type=click.IntRange(1), default=1000, show_default=True, help="Most passes."),
    "time_limit": TIME_LIMIT,
    "solver": SOLVER,
    "random_state": click.option(
        "--seed", "random_state", type=click.IntRange(0), default=0, show_default=True, help="For chance."
    ),
}


def _parameters(grades: str | None, **others: Any) -> dict[str, Any]:
    """As the estimator has them."""
    check_solver(others.get("solver"), others["loss"])
    gains: Any = {None: False, "mean": True}.get(grades, grades)
    return {**others, "grades": gains}


def check_solver(solver: str | None, loss: str) -> None:
    """Refuse a solver that cannot train for a loss."""
    if solver in _SOLVERS_OF_SAMPLES and loss != "accuracy":
        others = ", ".join(name for name in SOLVERS if name not in _SOLVERS_OF_SAMPLES)
        raise click.UsageError(f"--solver {solver} cannot train for rankings, only for --loss accuracy; choose one of {others}")


# What is learned, and how, handed to the command as ``parameters``; what to print, as ``printing``.
training_options = packing("parameters", _parameters, _TRAINING)
model_options = packing("parameters", _parameters, _MODEL)
JSON = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
_QUIET = click.option("-q", "--quiet", is_flag=True, help="Print nothing but warnings and errors.")
output_options = packing("printing", Printing, {"as_json": JSON, "quiet": _QUIET})


# Those that take energies of grids; the last two know cliques, too.
PICTURE_METHODS = ("expansion", "swap", "mincut", "bp", "trws", "cooccurrence", "parsimonious")


def picture_options(command: Command) -> Command:
    """What all commands about pictures take."""
    command = click.option("--figure", type=OUTPUT, help="Where to write a figure of both, side by side.")(command)
    how = "How to minimise; all but the last two only without superpixels."
    command = click.option("--method", type=click.Choice(PICTURE_METHODS), help=how)(command)
    return click.option("--time-limit", type=click.FloatRange(min=0, min_open=True), help="Seconds to search.")(command)


@contextmanager
def _said() -> Iterator[None]:
    """Errors of input become messages. Little memory may show in here as well, where modules are loaded."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:
        # Not at the top: --help needs no numpy.
        from maxmargin.io import DataError, SavedFileError

        bad_input = isinstance(error, DataError | SavedFileError | OSError | ImportError)
        # If somebody stopped reading, click knows what to do; anything else is a mistake of ours.
        if not bad_input or isinstance(error, BrokenPipeError):
            raise
        _fail(error)


@contextmanager
def exit_codes() -> Iterator[None]:
    """Errors of input become messages and exit code 1, Ctrl-C becomes 130, SIGTERM 143."""
    with noting_signals() as signals:
        try:
            with _said():
                yield
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            raise SystemExit(exit_code(signals) or 130) from None
        except MemoryError as error:
            missing = "there is not enough memory; take fewer samples or features, or allow more (ulimit -v)"
            raise click.ClickException(str(error) or missing) from None


def with_exit_codes(command: Command) -> Command:
    """A command that ends as in :func:`exit_codes`, or else with the code that it returns."""

    @functools.wraps(command)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="surrogateescape")  # names of files are bytes, and not always text
        with exit_codes():
            code = command(*args, **kwargs)
        click.get_current_context().exit(code or 0)

    return guarded


@contextmanager
def speaking_of(path: Path) -> Iterator[None]:
    """What the library finds wrong with samples is said of their file."""
    from maxmargin._utils import ArgumentError
    from maxmargin.io import DataError, SavedFileError

    try:
        yield
    except (DataError, SavedFileError):
        raise
    except ArgumentError as error:
        raise DataError([f"{path}: ", *error.problem], error.remedy, error.argument) from error
    except ValueError as error:
        raise DataError(f"{path}: {error}") from error


# How the command spells arguments of the library, where it is not --name value.
_SPELT: dict[tuple[str, Any], str] = {
    ("grades", True): "--grades mean",
    ("zero_based", True): "--zero-based",
    ("zero_based", False): "--one-based",
}
_OPTIONS = {"relevance_threshold": "--threshold", "query": "--qid"}


# Warnings are plain text; what they advise.
_ADVICE = {
    "scale the features with StandardScaler": "scale the features with --scale standard",
    "raise time_limit": "raise --time-limit",
}


def translated(text: str) -> str:
    """Advice of the library, with options in place of its classes and arguments."""
    for theirs, ours in _ADVICE.items():
        text = text.replace(theirs, ours)
    return text


def spelt(setting: Any) -> str:
    """An argument of the library as an option of the command."""
    name, value = setting
    value = ",".join(map(str, value)) if isinstance(value, list) else value
    option = _OPTIONS.get(name, f"--{name.replace('_', '-')}")
    return _SPELT.get((name, value), f"{option} {value}" if setting.has_value else option)


def _fail(error: Any) -> NoReturn:
    from maxmargin._utils import ArgumentError

    named = isinstance(error, OSError) and error.filename is not None
    message = f"{error.filename}: {error.strerror}" if named else str(error)
    if isinstance(error, ArgumentError):
        message = error.sentence(spelt)
    # Files that are written have names.
    if not named and getattr(error, "errno", None) == errno.ENOSPC:
        message = f"standard output: {error.strerror}; make room, or write somewhere else"
    raise click.ClickException(message) from error
