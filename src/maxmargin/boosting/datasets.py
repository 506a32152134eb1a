"""What objectives and metrics are handed by LightGBM and XGBoost: labels, weights and lists, of one form."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import ArgumentError, Floats, Ints


class Labelled(NamedTuple):
    """Labels of the rows of a data set.

    Attributes
    ----------
    labels : array of shape (n,)
        Grades, higher is better.
    offsets : int array of shape (q + 1,), or None
        Query k has the rows ``offsets[k]:offsets[k + 1]``; None if all rows are one list.
    weights : array of shape (n,) or (q,), or None
        As they were given.
    """

    labels: NDArray[Any]
    offsets: Ints | None
    weights: NDArray[Any] | None

    def same(self, other: Labelled) -> bool:
        """Whether both say the same."""
        return all(a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in zip(self, other, strict=True))

    def copy(self) -> Labelled:
        """One that does not change when the data set does."""
        return Labelled(*(None if part is None else np.array(part) for part in self))  # type: ignore[arg-type]


def is_data_set(given: Any) -> bool:
    """Whether this is a ``lightgbm.Dataset`` or an ``xgboost.DMatrix``, not an array."""
    return hasattr(given, "get_label") and hasattr(given, "get_weight")


def of_xgboost(data_set: Any) -> bool:
    """Whether this is an ``xgboost.DMatrix``."""
    return hasattr(data_set, "get_uint_info")


def read_data_set(data_set: Any) -> Labelled:
    """Labels, queries and weights of a data set of either library."""
    if of_xgboost(data_set):
        bounds = np.asarray(data_set.get_uint_info("group_ptr"), dtype=np.int64)
        offsets = bounds if len(bounds) > 2 else None
    else:
        offsets = _offsets(data_set.get_group())
    labels, weights = data_set.get_label(), data_set.get_weight()
    if labels is None or np.size(labels) == 0:
        raise ArgumentError(
            "label", "the data set has no labels, which a rank loss compares scores with", "pass label= when you make it"
        )
    return Labelled(np.asarray(labels), offsets, None if weights is None or np.size(weights) == 0 else np.asarray(weights))


def read_arrays(labels: Any, weights: Any, group: Any) -> Labelled:
    """The same from what scikit-learn interfaces hand over."""
    return Labelled(np.asarray(labels), _offsets(group), None if weights is None else np.asarray(weights))


def _offsets(group: Any) -> Ints | None:
    """From sizes of queries; one alone is no query but the list."""
    if group is None or np.size(group) < 2:
        return None
    return np.concatenate([[0], np.cumsum(np.asarray(group, dtype=np.int64))])


def check_labelled(data: Labelled, n_scores: int) -> Floats:
    """Labels as numbers, one for every score."""
    labels = np.asarray(data.labels)
    if labels.dtype.kind not in "fiub":
        raise ArgumentError("label", f"labels must be numbers, but have dtype {labels.dtype}", "pass 0 and 1, or grades")
    labels = labels.astype(np.float64).ravel()
    if len(labels) != n_scores:
        raise ArgumentError(
            "label", f"there are {len(labels)} labels for {n_scores} scores", "use a model with one output, not one per class"
        )
    if not n_scores:
        raise ArgumentError("label", "there are no rows", "pass at least one relevant row and one that is not")
    if not np.isfinite(labels).all():
        raise ArgumentError("label", "labels contain NaN or infinite values", "leave out rows without a label")
    if data.offsets is not None and int(data.offsets[-1]) != n_scores:
        raise ArgumentError(
            "group", f"the groups have {int(data.offsets[-1])} rows, but there are {n_scores}", "pass the size of every query"
        )
    return labels


def list_weights(data: Labelled, n: int) -> Floats | None:
    """One weight for every query; None if all count the same."""
    if data.weights is None:
        return None
    weights = np.asarray(data.weights, dtype=np.float64).ravel()
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ArgumentError("weight", "weights must be finite and not negative", "leave out rows that should not count")
    if not weights.any():
        raise ArgumentError("weight", "all weights are 0, so nothing counts", "leave weights out, or let some query count")
    if data.offsets is None:
        if (weights != weights[0]).any():
            raise ArgumentError(
                "weight",
                "the rows of one list share one rank loss, so they have no weights of their own, but these differ",
                "leave weight, class_weight and the like out, or pass groups and give every query its weight",
            )
        return None
    first = data.offsets[:-1]
    if len(weights) == len(first) and len(weights) != n:
        return weights  # XGBoost has one for every query
    heads = weights[np.minimum(first, n - 1)]
    if (weights != np.repeat(heads, np.diff(data.offsets))).any():
        raise ArgumentError(
            "weight", "weight is that of a query, but rows of one query have different ones", "give all rows of a query the same"
        )
    return np.asarray(heads)
