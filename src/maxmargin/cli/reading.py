"""Samples for training, and samples for a model that exists: then features must be the same ones."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import Floats, is_special
from maxmargin.cli.options import DataOptions, check_reading
from maxmargin.io import (
    READERS,
    DataError,
    Encoding,
    FeatureIndexError,
    RankingData,
    SavedFileError,
    UnseenCategoryWarning,
    Wanted,
    format_suffix,
    is_table,
    load,
    load_svmlight,
    load_wanted,
)

if TYPE_CHECKING:
    from maxmargin.core import SavedModel

_TRAIN_AGAIN = "use data with the same features, or train again"
_SAME = "use the same ones in both"


def training_data(path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels, and with features of which sums of squares exist."""
    check_reading(path, reading)
    data = _training_data(path, reading)
    if data.X.shape[1] == 0:
        others = "a column besides label and query" if is_table(path) else "'index:value' after the label"
        raise DataError(f"{path}: has no feature; each sample needs {others} that is not left out")
    _refuse_huge(path, data)
    return data


def _training_data(path: Path, reading: DataOptions) -> RankingData:
    if is_table(path):
        return load_wanted(path, reading.wanted(), reading.split_queries)
    if format_suffix(path) in READERS:
        return load(path)
    return load_svmlight(path, zero_based=reading.numbering(), split_queries=reading.split_queries)


def _refuse_huge(path: Path, data: RankingData) -> None:
    """Complain about numbers beyond those that can be squared and added up: nothing could be learned from them."""
    from maxmargin.core import LARGEST_FEATURE, huge_column

    found = huge_column(data.X)
    if found is not None:
        k, peak = found
        first = 0 if data.zero_based else 1
        column = f"feature {k + first}" if data.feature_names is None else f"column {data.feature_names[k]!r}"
        out = "leave it out" if data.feature_names is None else f"leave it out with --drop {data.feature_names[k]}"
        raise DataError(
            f"{path}: {column} reaches {peak:.3g}, and squares of numbers beyond {LARGEST_FEATURE:g} are too large to add up; "
            f"measure it in larger units, or {out}"
        )


@contextmanager
def explaining_memory(path: Path, reading: DataOptions) -> Iterator[None]:
    """If training needs too much, say of which file, and which line asks for so many weights."""
    try:
        yield
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        what = f"does not fit into memory with what training needs{reason}"
        if not is_table(path) and not is_special(path):
            try:
                load_svmlight(path, zero_based=reading.numbering(), n_features=0, split_queries="keep")
            except FeatureIndexError as largest:
                raise DataError(
                    f"{path}: {what}; the largest feature index is {largest.index}, on line {largest.line}, and there is a "
                    "weight for every index up to it: number the features without gaps, or take fewer samples"
                ) from error
            except MemoryError:  # the samples alone are too many
                pass
        raise DataError(f"{path}: {what}; take fewer samples or features") from error


def origin(path: Path, data: RankingData) -> dict[str, Any]:
    """What to write about the data into the model: where they come from and how to read more of them."""
    columns: dict[str, Any] = {"label": data.label_name, "query": data.query_column}
    if data.encoding is not None and data.encoding.kinds:
        columns |= {"columns": data.encoding.columns, "kinds": data.encoding.kinds}
    known = {name: value for name, value in columns.items() if value is not None}
    # Standard input has another name than the file it is kept in.
    file = path.name if str(path) == os.fspath(path) else str(path)
    return {"data": {"file": file, "samples": len(data), "zero_based": data.zero_based, **known}}


def encoding_of(model: SavedModel) -> Encoding | None:
    """How columns of tables become the features of a model; None if it was not trained from a table."""
    names, about = getattr(model.estimator, "feature_names_in_", None), notes_about_data(model)
    if names is None:
        return None
    columns, kinds = about.get("columns", list(names)), about.get("kinds", {})
    sound = isinstance(columns, list) and isinstance(kinds, dict) and all(map(_is_kind, kinds.values()))
    if not sound or len(Encoding(columns, kinds).names()) != len(names):
        raise SavedFileError("the columns that its data had are not those of its features; train again")
    return Encoding(columns, kinds)


def _is_kind(kind: Any) -> bool:
    return kind == "boolean" or (isinstance(kind, list) and all(isinstance(text, str) for text in kind))


def notes_about_data(model: SavedModel) -> dict[str, Any]:
    """What :func:`origin` has written."""
    about = model.about.get("data")
    return about if isinstance(about, dict) else {}


def load_ranker(path: Path) -> SavedModel:
    """A model that scores samples."""
    from maxmargin.core import read_model

    saved = read_model(path)
    classifies = type(saved.estimator).__name__ == "RankingClassifier"
    if saved.estimator.of_blocks or (np.ndim(saved.estimator.coef_) != 1 and not classifies):
        raise DataError(
            f"{path}: holds a {type(saved.estimator).__name__}, which does not rank samples; use it from Python, with load_model"
        )
    return saved


def threshold_of(saved: SavedModel) -> float:
    """The label above which samples are relevant for a model."""
    levels = getattr(saved.estimator, "relevance_thresholds_", None)
    if levels is not None:
        return float(np.min(levels))
    noted = notes_about_data(saved).get("threshold", 0.0)
    return float(noted) if isinstance(noted, int | float) else 0.0


class _Known(NamedTuple):
    """Features that samples must have: those of a model, or of a file of which none is made yet."""

    owner: str
    encoding: Encoding | None
    n_features: int
    zero_based: bool | None
    of_model: bool


def data_for(
    model: SavedModel, model_path: Path, path: Path, reading: DataOptions, *, labels: bool, comments: bool = False
) -> RankingData:
    """Samples with the features of the model, in the order of the file."""
    about = notes_about_data(model)
    if is_table(path):
        if reading.label is None and isinstance(about.get("label"), str):
            reading = reading._replace(label=about["label"])
        needed = labels or getattr(model.estimator, "scale", "none") == "query"
        if reading.qid is None and isinstance(about.get("query"), str):
            column = about["query"]
            # Without them a metric would be that of one list, and scores would be others.
            reading = reading._replace(qid=column, query_optional=not needed)
    try:
        encoding = encoding_of(model)
    except SavedFileError as error:
        raise SavedFileError(f"{model_path}: {error}") from None
    # As in the training data: a file that happens to lack feature 0 must not be shifted.
    numbering = about.get("zero_based")
    known = _Known(
        f"the model {model_path}",
        encoding,
        int(model.estimator.n_features_in_),
        numbering if isinstance(numbering, bool) else None,
        of_model=True,
    )
    return _like(known, path, reading, labels=labels, comments=comments)


def more_data(data: RankingData, data_file: Path, path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels and with the features of ``data``."""
    reading = reading._replace(drop=(), categorical=())
    known = _Known(f"{data_file}", data.encoding, data.X.shape[1], data.zero_based, of_model=False)
    return _like(known, path, reading, labels=True)


def data_like(
    owner: str, encoding: Encoding | None, n_features: int, zero_based: bool | None, path: Path, reading: DataOptions
) -> RankingData:
    """Samples with labels and with the features of data of which no more is known than this."""
    reading = reading._replace(drop=(), categorical=())
    return _like(_Known(owner, encoding, n_features, zero_based, of_model=False), path, reading, labels=True)


def _like(known: _Known, path: Path, reading: DataOptions, *, labels: bool, comments: bool = False) -> RankingData:
    check_reading(path, reading)
    if is_table(path):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UnseenCategoryWarning)
            data = load_wanted(path, _wanted(known, path, reading, labels), "keep")
        for warning in caught:
            click.echo(f"Warning: {warning.message}", err=True)
    else:
        data = _svmlight(known, path, reading, comments)
    if data.X.shape[1] != known.n_features:
        has, remedy = ("was trained with", _TRAIN_AGAIN) if known.of_model else ("has", _SAME)
        raise DataError(f"{path}: has {data.X.shape[1]} features, but {known.owner} {has} {known.n_features}; {remedy}")
    return data


def _wanted(known: _Known, path: Path, reading: DataOptions, labels: bool) -> Wanted:
    wanted = reading.wanted()
    wanted = wanted._replace(label=wanted.label if labels else None, ignored=wanted.labels)
    if known.encoding is None:
        return wanted
    columns = known.encoding.columns
    if reading.features is not None and reading.features != columns:
        pairs = zip([*reading.features, "no more"], [*columns, "no more"], strict=False)
        ours, theirs = next((a, b) for a, b in pairs if a != b)
        raise DataError(f"{path}: --features has {ours!r} where {known.owner} has {theirs!r}; leave --features out")
    return wanted._replace(features=columns, kinds=known.encoding.kinds, asked_by=known.owner)


def _svmlight(known: _Known, path: Path, reading: DataOptions, comments: bool) -> RankingData:
    """Lines may end early, because zeros are not written."""
    n, numbering = known.n_features, reading.numbering(known.zero_based)
    try:
        return load_svmlight(path, zero_based=numbering, n_features=n, split_queries="keep", comments=comments)
    except FeatureIndexError as error:
        # Options for one file alone can mend indices that start elsewhere.
        remedy = f"{_TRAIN_AGAIN} (--zero-based and --one-based shift indices)" if known.of_model else _SAME
        raise DataError(
            f"{path}, line {error.line}: feature index {error.index} is beyond the {n} features of {known.owner} (indices "
            f"start at {error.start}); {remedy}"
        ) from None
    except DataError as error:
        if reading.zero_based is not None or error.argument != "zero_based":
            raise
        problem = [part if isinstance(part, str) else known.owner for part in error.problem]
        raise DataError(problem, error.remedy if known.of_model else "renumber one of them") from None


def scores_of(estimator: Any, X: Any, qid: Any = None) -> Floats:
    """Scores; features were matched by :func:`data_for`, so names need not be."""
    queries = {"qid": qid} if getattr(estimator, "scale", "none") == "query" else {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        scores = np.asarray(estimator.decision_function(X, **queries))
    return -scores if place_of_positive(estimator) == 0 else scores


def place_of_positive(estimator: Any) -> int:
    """Which of its two classes a classifier is to find; large scores are theirs that come second."""
    wanted = getattr(estimator, "pos_label", None)
    return 1 if wanted is None else int(np.flatnonzero(estimator.classes_ == wanted)[0])
