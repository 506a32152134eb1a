"""Samples for training, and samples for a model that exists: then features must be the same ones."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from maxmargin._types import Floats
from maxmargin.cli.options import DataOptions, check_reading
from maxmargin.data import READERS, DataError, FeatureIndexError, RankingData, Wanted, is_table, load, load_svmlight, load_wanted
from maxmargin.data.source import format_suffix
from maxmargin.estimators.model_files import SavedModel, read_model
from maxmargin.storage import is_special


def training_data(path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels."""
    check_reading(path, reading)
    if is_table(path):
        return load_wanted(path, reading.wanted(), reading.split_queries)
    if format_suffix(path) in READERS:
        return load(path)
    return load_svmlight(path, zero_based=reading.numbering(), split_queries=reading.split_queries)


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
    return {"data": {"file": path.name, "samples": len(data), "zero_based": data.zero_based}}


def load_ranker(path: Path) -> SavedModel:
    """A model that scores samples."""
    saved = read_model(path)
    if saved.estimator.of_blocks or np.ndim(saved.estimator.coef_) != 1:
        raise DataError(
            f"{path}: holds a {type(saved.estimator).__name__}, which does not rank samples; use it from Python, with load_model"
        )
    return saved


def data_for(
    model: SavedModel, model_path: Path, path: Path, reading: DataOptions, *, labels: bool, comments: bool = False
) -> RankingData:
    """Samples with the features of the model, in the order of the file."""
    check_reading(path, reading)
    n_features = int(model.estimator.n_features_in_)
    if is_table(path):
        data = load_wanted(path, _wanted_by(model, model_path, path, reading, labels), "keep")
    else:
        remedy = "use data with the same features, or train again (--zero-based and --one-based shift indices)"
        data = _svmlight_like(path, reading, _numbering(model), n_features, f"the model {model_path}", remedy, comments=comments)
    if data.X.shape[1] != n_features:
        raise DataError(
            f"{path}: has {data.X.shape[1]} features, but the model {model_path} was trained with {n_features}; use data with "
            "the same features, or train again"
        )
    return data


def _svmlight_like(
    path: Path,
    reading: DataOptions,
    zero_based: bool | None,
    n_features: int,
    whose: str,
    remedy: str,
    *,
    comments: bool = False,
    shifting: bool = True,
) -> RankingData:
    """Samples with features that something else has. Lines may end early, because zeros are not written.

    ``shifting`` says that the options are for this file alone, so that they can mend indices that start elsewhere.
    """
    numbering = reading.numbering(zero_based)
    try:
        return load_svmlight(path, zero_based=numbering, n_features=n_features, split_queries="keep", comments=comments)
    except FeatureIndexError as error:
        raise DataError(
            f"{path}, line {error.line}: feature index {error.index} is beyond the {n_features} features of {whose} (indices "
            f"start at {error.start}); {remedy}"
        ) from None
    except DataError as error:
        if reading.zero_based is not None or error.argument != "zero_based":
            raise
        problem = [part if isinstance(part, str) else whose for part in error.problem]
        raise DataError(problem, error.remedy if shifting else "renumber one of them") from None


def more_data(known: RankingData, known_file: Path, path: Path, reading: DataOptions) -> RankingData:
    """Samples with labels and with the features of ``known``, which nobody has trained a model on yet."""
    check_reading(path, reading)
    if is_table(path):
        wanted = reading.wanted()._replace(features=known.feature_names or reading.features, asked_by=f"{known_file}")
        data = load_wanted(path, wanted, "keep")
    else:
        same = "use the same ones in both"
        data = _svmlight_like(path, reading, known.zero_based, known.X.shape[1], f"{known_file}", same, shifting=False)
    ours, theirs = data.X.shape[1], known.X.shape[1]
    if ours != theirs:
        raise DataError(f"{path}: has {ours} features, but {known_file} has {theirs}; use the same ones in both")
    return data


def scores_of(estimator: Any, X: Any) -> Floats:
    """Scores; features were matched by :func:`data_for`, so names need not be."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "X does not have valid feature names")
        return np.asarray(estimator.decision_function(X))


def _wanted_by(model: SavedModel, model_path: Path, path: Path, reading: DataOptions, labels: bool) -> Wanted:
    wanted = reading.wanted()
    wanted = wanted._replace(label=wanted.label if labels else None, ignored=wanted.labels)
    names: Any = getattr(model.estimator, "feature_names_in_", None)
    if names is None:
        return wanted
    if reading.features is not None and reading.features != list(names):
        pairs = zip([*reading.features, "no more"], [*names, "no more"], strict=False)
        ours, theirs = next((a, b) for a, b in pairs if a != b)
        raise DataError(f"{path}: --features has {ours!r} where the model {model_path} has {theirs!r}; leave --features out")
    return wanted._replace(features=list(names), asked_by=f"the model {model_path}")


def _numbering(model: SavedModel) -> bool | None:
    """As in the training data: a file that happens to lack feature 0 must not be shifted."""
    origin = model.about.get("data")
    known = origin.get("zero_based") if isinstance(origin, dict) else None
    return known if isinstance(known, bool) else None
