"""``maxmargin tag``: taggers of words from files of columns, and what they say of other files."""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from maxmargin.cli.options import (
    EXISTING,
    MODEL,
    OUTPUT,
    POSITIVE,
    TIME_LIMIT,
    Printing,
    keep_apart,
    output_options,
    with_exit_codes,
)
from maxmargin.cli.signals import exit_code, noting_signals

if TYPE_CHECKING:
    from maxmargin.core import SavedModel

_SURROGATES = ("margin", "slack", "beta", "log", "prob")
FILE = click.argument("file", type=EXISTING, metavar="FILE")


@click.group()
def tag() -> None:
    """Tags of words: chunks, entities, parts of speech.

    FILE has a token per line, columns separated by blanks, and an empty line between sentences, as in the CoNLL tasks of 2000
    to 2003; the last column is the tag. It may be packed (.gz, .bz2). Features are the other columns in a window of five, their
    pairs and triples, and beginnings, ends and shape of the first column, the word.

    \b
    Examples:
      maxmargin tag train train.txt --model chunks.model
      maxmargin tag evaluate chunks.model test.txt
      maxmargin tag predict chunks.model new.txt
    """


@tag.command()
@FILE
@click.option("--model", "model_file", type=OUTPUT, required=True, help="Where to write the model.")
@click.option("--C", "C", type=POSITIVE, help="Weight of the hinges.  [default: from the size of the features]")
@click.option("--surrogate", type=click.Choice(_SURROGATES), default="margin", show_default=True, help="Bound of the wrong tags.")
@click.option("--tol", type=POSITIVE, default=0.05, show_default=True, help="Relative duality gap to reach.")
@TIME_LIMIT
@output_options
@with_exit_codes
def train(
    file: Path, model_file: Path, C: float | None, surrogate: str, tol: float, time_limit: float | None, printing: Printing
) -> int:
    """Train a tagger, and write it with its certified duality gap.

    Ctrl-C ends training with the best model so far and exit code 130.

    \b
    Example: maxmargin tag train train.txt --surrogate log --model chunks.model
    """
    from maxmargin._utils import check_writable
    from maxmargin.core import save_model
    from maxmargin.core.solvers import ConvergenceWarning
    from maxmargin.io import DataError
    from maxmargin.sequences import ChainSVM, read_conll, window_features

    keep_apart({"--model": model_file}, {"FILE": file})
    check_writable(model_file)
    sentences = read_conll(file)
    n_columns = len(sentences[0][0])
    if n_columns < 2:
        raise DataError(f"{file}: has one column; a column with the word and a last one with its tag are needed")
    rows = [window_features([token[:-1] for token in sentence]) for sentence in sentences]
    tags = [[token[-1] for token in sentence] for sentence in sentences]
    settings: dict[str, Any] = {"C": "auto" if C is None else C, "surrogate": surrogate, "tol": tol, "time_limit": time_limit}
    model = ChainSVM(**settings, verbose=int(printing.progress))
    began = time.perf_counter()
    with noting_signals() as signals, warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, tags)
    seconds = time.perf_counter() - began
    model.verbose = 0
    save_model(model, model_file, about={"tagger": {"columns": n_columns - 1}})
    relative = float(model.dual_gap_ / max(abs(model.primal_objective_), 1e-300))
    answer: dict[str, Any] = {
        "data": str(file), "sentences": len(sentences), "tokens": sum(map(len, tags)), "tags": len(model.classes_),
        "features": model.n_features_in_, "C": model.C_, "relative_gap": relative, "certified": model.certified_,
        "converged": relative <= tol, "interrupted": bool(signals), "passes": model.n_iter_, "seconds": seconds,
        "model": str(model_file),
    }  # fmt: skip
    printing.tell(answer, _trained)
    if signals:
        click.echo("Warning: interrupted; the model is the best one so far, with the gap it has", err=True)
    elif relative > tol:
        click.echo(f"Warning: the relative gap did not reach --tol {tol:g}; raise --time-limit, or lower --C", err=True)
    return exit_code(signals)


def _trained(answer: dict[str, Any]) -> str:
    certified = "certified" if answer["certified"] else "not certified"
    return (
        f"{answer['data']}: {answer['sentences']} sentences, {answer['tokens']} tokens, {answer['tags']} tags, "
        f"{answer['features']} features\nC {answer['C']:.3g}, relative gap {answer['relative_gap']:.1e} ({certified}), "
        f"{answer['passes']} passes in {answer['seconds']:.2f} s\nmodel: {answer['model']}"
    )


@tag.command()
@MODEL
@FILE
@click.option("-o", "--output", type=OUTPUT, help="Where to write; standard output by default.")
@with_exit_codes
def predict(model_file: Path, file: Path, output: Path | None) -> None:
    """Write the tokens of FILE with one more column: the tag that the model finds.

    A column of true tags may be there already, and stays before it, as the script conlleval takes it.

    \b
    Example: maxmargin tag predict chunks.model new.txt -o tagged.txt
    """
    from maxmargin._utils import replacing

    if output is not None:
        keep_apart({"--output": output}, {"MODEL": model_file, "FILE": file})
    sentences, found, _ = _tagged(model_file, file)
    text = "\n".join(
        "".join(f"{' '.join((*token, tag))}\n" for token, tag in zip(sentence, tags, strict=True))
        for sentence, tags in zip(sentences, found, strict=True)
    )
    if output is None:
        click.echo(text, nl=False)
        return
    with replacing(output) as target:
        target.write(text.encode())


@tag.command()
@MODEL
@FILE
@output_options
@with_exit_codes
def evaluate(model_file: Path, file: Path, printing: Printing) -> None:
    """How many tags of FILE the model finds and, if they are of the kind B-, I-, O, its chunks as conlleval counts them.

    \b
    Example: maxmargin tag evaluate chunks.model test.txt
    """
    from maxmargin.io import DataError
    from maxmargin.sequences import chunk_scores

    sentences, found, n_columns = _tagged(model_file, file)
    if len(sentences[0][0]) == n_columns:
        raise DataError(f"{file}: has no column of true tags after the {n_columns} that the model reads; use predict")
    truth = [[token[-1] for token in sentence] for sentence in sentences]
    pairs = [a == b for own, tags in zip(truth, found, strict=True) for a, b in zip(own, tags, strict=True)]
    answer: dict[str, Any] = {"data": str(file), "tokens": len(pairs), "accuracy": sum(pairs) / len(pairs)}
    # Other tags have no chunks.
    if all(tag == "O" or tag[:2] in ("B-", "I-") for tags in (*truth, *found) for tag in tags):
        scores = chunk_scores(truth, found)
        answer |= {"precision": scores.precision, "recall": scores.recall, "f1": scores.f1}
    printing.tell(answer, _evaluated)


def _evaluated(answer: dict[str, Any]) -> str:
    line = f"{answer['data']}: {100 * answer['accuracy']:.2f} % of {answer['tokens']} tags right"
    if "f1" in answer:
        names = ("precision", "recall", "f1")
        line += "\nchunks: " + ", ".join(f"{name} {100 * answer[name]:.2f}" for name in names)
    return line


def _tagged(model_file: Path, file: Path) -> tuple[list[list[tuple[str, ...]]], list[list[str]], int]:
    """Tokens of a file, the tags found, and how many columns the model reads."""
    from maxmargin.io import DataError
    from maxmargin.sequences import read_conll, window_features

    saved = _tagger(model_file)
    n_columns = saved.about["tagger"]["columns"]
    sentences = read_conll(file)
    width = len(sentences[0][0])
    if width not in (n_columns, n_columns + 1):
        raise DataError(
            f"{file}: has {width} columns, but {model_file} reads {n_columns}, which the true tag may follow; name a file like "
            "that of training"
        )
    rows = [window_features([token[:n_columns] for token in sentence]) for sentence in sentences]
    return sentences, [list(map(str, tags)) for tags in saved.estimator.predict(rows)], n_columns


def _tagger(model_file: Path) -> SavedModel:
    from maxmargin.core import read_model
    from maxmargin.io import DataError

    saved = read_model(model_file)
    about = saved.about.get("tagger")
    columns = about.get("columns") if isinstance(about, dict) else None
    if type(saved.estimator).__name__ != "ChainSVM" or type(columns) is not int or columns < 1:
        raise DataError(f"{model_file}: holds no tagger; name a file that 'maxmargin tag train' wrote")
    return saved
