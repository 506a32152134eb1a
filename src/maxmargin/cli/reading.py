"""Samples for training, and samples for a model that exists: then features must be the same ones."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click
import numpy as np
from numpy.typing import NDArray

from maxmargin.cli.options import DataOptions
from maxmargin.data import DataError, RankingData, Wanted, is_table, load_svmlight, load_wanted
from maxmargin.estimators.model_files import SavedModel, read_model
from maxmargin.estimators.training import ListEstimator


def training_data(path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels."""
    _check_options(path, reading)
    if is_table(path):
        return load_wanted(path, _wanted(reading), reading.split_queries)
    zero_based: Any = "auto" if reading.zero_based is None else reading.zero_based
    return load_svmlight(path, zero_based=zero_based, split_queries=reading.split_queries)


def origin(path: Path, data: RankingData) -> dict[str, Any]:
    """What to write about the data into the model: where they come from and how to read more of them."""
    return {"data": {"file": path.name, "samples": len(data), "zero_based": data.zero_based}}


def load_ranker(path: Path) -> SavedModel:
    """A model that scores samples."""
    saved = read_model(path)
    if isinstance(saved.estimator, ListEstimator) or np.ndim(saved.estimator.coef_) != 1:
        raise DataError(
            f"{path}: holds a {type(saved.estimator).__name__}, which does not rank samples; use it from Python, with load_model"
        )
    return saved


def data_for(
    model: SavedModel, model_path: Path, path: Path, reading: DataOptions, *, labels: bool, comments: bool = False
) -> RankingData:
    """Samples with the features of the model, in the order of the file."""
    _check_options(path, reading)
    n_features = int(model.estimator.n_features_in_)
    if is_table(path):
        data = load_wanted(path, _wanted_by(model, model_path, path, reading, labels), "keep")
    else:
        data = load_svmlight(path, zero_based=_numbering(model, reading), split_queries="keep", comments=comments)
        if data.X.shape[1] < n_features:
            # Zeros at the end of all lines are not written.
            data.X.resize((len(data), n_features))
    if data.X.shape[1] != n_features:
        raise DataError(
            f"{path}: has {data.X.shape[1]} features, but the model {model_path} was trained with {n_features}; use data with "
            "the same features, or train again" + ("" if is_table(path) else " (--zero-based and --one-based shift indices)")
        )
    return data


def more_data(known: RankingData, known_file: Path, path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels and with the features of ``known``, which nobody has trained a model on yet."""
    _check_options(path, reading)
    if is_table(path):
        wanted = _wanted(reading)._replace(features=known.feature_names or reading.features, asked_by=f"{known_file}")
        data = load_wanted(path, wanted, "keep")
    else:
        zero_based: Any = reading.zero_based if reading.zero_based is not None else known.zero_based
        data = load_svmlight(path, zero_based="auto" if zero_based is None else zero_based, split_queries="keep")
        if data.X.shape[1] < known.X.shape[1]:
            data.X.resize((len(data), known.X.shape[1]))
    ours, theirs = data.X.shape[1], known.X.shape[1]
    if ours != theirs:
        raise DataError(f"{path}: has {ours} features, but {known_file} has {theirs}; use the same ones in both")
    return data


def scores_of(estimator: Any, X: Any) -> NDArray[np.float64]:
    """Scores; features were matched by :func:`data_for`, so names need not be."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(estimator.decision_function(X))


def _wanted(reading: DataOptions) -> Wanted:
    return Wanted(reading.label or "relevance", reading.qid or "qid", reading.features, query_needed=reading.qid is not None)


def _wanted_by(model: SavedModel, model_path: Path, path: Path, reading: DataOptions, labels: bool) -> Wanted:
    names: Any = getattr(model.estimator, "feature_names_in_", None)
    features = reading.features if names is None else list(names)
    if names is not None and reading.features is not None and reading.features != list(names):
        pairs = zip([*reading.features, "no more"], [*names, "no more"], strict=False)
        ours, theirs = next((a, b) for a, b in pairs if a != b)
        raise DataError(f"{path}: --features has {ours!r} where the model {model_path} has {theirs!r}; leave --features out")
    return Wanted(
        label=(reading.label or "relevance") if labels else None,
        query=reading.qid or "qid",
        features=features,
        query_needed=reading.qid is not None,
        ignored=[reading.label or "relevance"],
        asked_by=f"the model {model_path}" if names is not None else "",
    )


def _numbering(model: SavedModel, reading: DataOptions) -> Any:
    """As in the training data: a file that happens to lack feature 0 must not be shifted."""
    if reading.zero_based is not None:
        return reading.zero_based
    origin = model.about.get("data")
    known = origin.get("zero_based") if isinstance(origin, dict) else None
    return known if isinstance(known, bool) else "auto"


def _check_options(path: Path, reading: DataOptions) -> None:
    if is_table(path):
        if reading.zero_based is not None:
            raise click.UsageError(f"--zero-based and --one-based are for svmlight files, but {path} is a table")
        return
    for name in ("label", "qid", "features"):
        if getattr(reading, name) is not None:
            raise click.UsageError(f"--{name} is for tables (.csv, .tsv, .parquet), but {path} is taken for a svmlight file")
