"""The metric for parts of the data, by a column: for which kind of sample or query the model is worse."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from maxmargin._utils import Booleans, Floats, Ints
from maxmargin.report.chance import expected_metric
from maxmargin.report.intervals import intervals
from maxmargin.report.plain import number, short, text
from maxmargin.report.ranked import Judged, Ranked

MISSING = "missing"
_FEW = 8  # different numbers that are names rather than sizes
_MOST = 12  # slices of one column


def slices(
    columns: Mapping[str, ArrayLike], judged: Judged, methods: list[tuple[str, Floats]], metric: str
) -> list[dict[str, Any]]:
    """A table for every column, the worst slice first.

    How many samples, queries and relevant samples, the metric with its interval, and what others and a random ranking reach.
    """
    return [_table(text(name), _column(name, values, len(judged)), judged, methods, metric) for name, values in columns.items()]


def _column(name: str, values: ArrayLike, n: int) -> NDArray[Any]:
    column = np.asarray(values)
    if column.shape != (n,):
        raise ValueError(f"slices[{name!r}] has shape {column.shape}, but y has {n} labels; give one value per sample")
    return column


def _table(name: str, column: NDArray[Any], judged: Judged, methods: list[tuple[str, Floats]], metric: str) -> dict[str, Any]:
    groups, note = parts(column)
    whole = _constant_inside(column, judged.qid)
    rows: list[list[Any]] = []
    left_out: list[str] = []
    for part, rows_in in groups:
        here = rows_in
        if judged.qid is not None and not whole:
            # Queries that lose all they were to find say nothing.
            here = here & np.isin(judged.qid, np.unique(judged.qid[here & judged.relevant]))
        kept = judged.part(here) if here.any() else None
        if kept is None or not kept.relevant.any() or (judged.qid is None and kept.relevant.all()):
            left_out.append(text(part))
            continue
        ranked = [Ranked(who, scores[here], kept, [metric]) for who, scores in methods]
        ends = intervals(ranked[:1], names=[metric]).metrics[0][metric]
        lists = ranked[0].lists
        chance = expected_metric(metric, lists, ranked[0].graded.grades)
        value, *others = (number(method.means[metric]) for method in ranked)
        queries = lists.n_queries if judged.qid is not None else None
        relevant = int(kept.relevant.sum())
        rows.append([text(part), len(kept), queries, relevant, value, ends.json(), *others, number(chance)])
    rows.sort(key=lambda row: row[4])
    if judged.qid is not None:
        note += " Queries belong to a slice as wholes." if whole else (
            " Queries have samples in several slices; each list is cut down to those of the slice, and lists without anything "
            "relevant there do not count."
        )  # fmt: skip
    if left_out:
        note += f" Without relevant or irrelevant samples, and so without a value: {', '.join(left_out)}."
    return {"name": name, "rows": rows, "note": note.strip()}


def _constant_inside(column: NDArray[Any], qid: NDArray[Any] | None) -> bool:
    """Whether every query has one value."""
    if qid is None:
        return False
    codes, queries = _codes([_name(value) for value in column.tolist()])[1], _codes(qid.tolist())[1]
    first = np.empty(int(queries.max()) + 1, dtype=np.int64)
    first[queries] = codes
    return bool((first[queries] == codes).all())


def _codes(values: list[Any]) -> tuple[list[Any], Ints]:
    """Different values in order of first appearance, and which of them each one is."""
    known: dict[Any, int] = {}
    codes = np.fromiter((known.setdefault(value, len(known)) for value in values), dtype=np.int64, count=len(values))
    return list(known), codes


def parts(column: NDArray[Any]) -> tuple[list[tuple[str, Booleans]], str]:
    """Names and members of the slices: quartiles of many numbers, else the values themselves, the rarest together.

    >>> groups, note = parts(np.arange(100.0))
    >>> [(name, int(rows.sum())) for name, rows in groups]
    [('0 to 24.8', 25), ('24.8 to 49.5', 25), ('49.5 to 74.2', 25), ('74.2 to 99', 25)]
    >>> [(name, int(rows.sum())) for name, rows in parts(np.array(["b", "a", "b", ""]))[0]]
    [('b', 2), ('a', 1), ('missing', 1)]
    """
    numeric = _as_numbers(column)
    if numeric is not None:
        absent = np.isnan(numeric)
        known = numeric[~absent]
        if len(np.unique(known)) > _FEW:
            groups = _quartiles(numeric, known)
            if absent.any():
                groups.append((MISSING, absent))
            return groups, "Quartiles of the column; a value on the border belongs to the lower one."
        column = np.array([MISSING if missing else f"{value:g}" for value, missing in zip(numeric, absent, strict=True)])
    values, codes = _codes([_name(value) for value in column.tolist()])
    order = np.argsort(-np.bincount(codes), kind="stable")
    if len(order) <= _MOST:
        return [(values[k], codes == k) for k in order], ""
    kept = order[: _MOST - 1]
    groups = [(values[k], codes == k) for k in kept]
    groups.append((f"{len(order) - len(kept)} others", ~np.isin(codes, kept)))
    return groups, f"The {len(kept)} most frequent of {len(order)} values, and all others together."


def _name(value: Any) -> str:
    missing = value is None or (isinstance(value, float) and np.isnan(value)) or str(value).strip() == ""
    return MISSING if missing else str(value)


def _as_numbers(column: NDArray[Any]) -> Floats | None:
    """Numbers, of text too if all of it that is there is such."""
    if column.dtype.kind in "fiu":
        found = column.astype(np.float64)
    elif column.dtype.kind == "b":
        return None
    else:
        try:
            found = np.array([np.nan if _name(value) == MISSING else float(value) for value in column.tolist()])
        except (TypeError, ValueError):
            return None
    return np.where(np.isfinite(found), found, np.nan) if np.isfinite(found).any() else None


def _quartiles(numeric: Floats, known: Floats) -> list[tuple[str, Booleans]]:
    edges = np.unique(np.quantile(known, [0, 0.25, 0.5, 0.75, 1]))
    code = np.searchsorted(edges[1:-1], numeric, side="left")
    present = ~np.isnan(numeric)
    ends = [short(edge).replace("-", "\N{MINUS SIGN}") for edge in edges.tolist()]
    return [(f"{ends[k]} to {ends[k + 1]}", present & (code == k)) for k in range(len(edges) - 1)]
