"""Columns of a table that are labels, and those with features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from maxmargin._utils import Floats
from maxmargin.io.arff import ArffTable
from maxmargin.io.source import DataError

Missing = Literal["refuse", "nan", "mean"]


def columns_of(table: ArffTable, names: Sequence[str], argument: str) -> list[int]:
    """Places of the named columns in a table."""
    column_of = {attribute.name: k for k, attribute in enumerate(table.attributes)}
    unknown = [name for name in names if name not in column_of]
    if unknown:
        raise DataError(f"{table.name}: has no attribute {unknown[0]!r}, which {argument} names; correct it or the header")
    return [column_of[name] for name in dict.fromkeys(names)]


def filled(X: Any, missing: Missing, table: ArffTable) -> Any:
    """Features without NaN, unless that is wanted."""
    if missing not in ("refuse", "nan", "mean"):
        raise ValueError(f"missing={missing!r} must be 'refuse', 'nan' or 'mean'")
    values: Floats = X if isinstance(X, np.ndarray) else X.data
    gaps = np.isnan(values)
    if missing == "nan" or not gaps.any():
        return X
    if missing == "refuse":
        at = (
            int(gaps.any(axis=1).argmax())
            if isinstance(X, np.ndarray)
            else int(np.searchsorted(X.indptr, gaps.argmax(), "right")) - 1
        )
        raise DataError(
            f"{table.place(table.rows[at])}: a feature is missing (?); pass missing='mean' or missing='nan', or fill it in"
        )
    if isinstance(X, np.ndarray):
        columns = np.broadcast_to(np.arange(X.shape[1]), X.shape)
        known = (~gaps).sum(axis=0)
        sums = np.where(gaps, 0.0, values).sum(axis=0)
    else:
        columns = X.indices
        known = X.shape[0] - np.bincount(columns[gaps], minlength=X.shape[1])
        sums = np.bincount(columns, weights=np.where(gaps, 0.0, values), minlength=X.shape[1])
    # A column of which nothing is known says nothing.
    values[gaps] = (sums / np.maximum(known, 1))[columns[gaps]]
    return X
