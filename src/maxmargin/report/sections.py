"""The sections of the page, one function each; none needs another. What does not apply is None."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from maxmargin._utils import Floats
from maxmargin.ranking import RankedLists
from maxmargin.report.curves import Curve, histogram, thin
from maxmargin.report.curves import gain as gain_curve
from maxmargin.report.curves import precision_recall as precision_recall_curve
from maxmargin.report.plain import number, numbers, text
from maxmargin.report.ranked import Judged, Ranked

RANDOM = "random"
_SHOWN = 20  # rows of tables, bars of charts


def convergence(model: Any) -> dict[str, Any] | None:
    """Primal, dual and gap after every check of the solver."""
    found = _history(model, "passes", "seconds", "primal", "dual")
    if found is None:
        return None
    found["gap"] = found["primal"] - found["dual"]
    kept = thin(found["primal"], found["dual"], found["gap"])
    return {name: numbers(column[kept], 9 if name in ("primal", "dual") else 6) for name, column in found.items()}


def descent(model: Any) -> dict[str, Any] | None:
    """The loss at every step, of methods that minimise it directly and know no bound."""
    found = _history(model, "seconds", "loss", "best_loss")
    if found is None:
        return None
    found["best"] = found.pop("best_loss")
    kept = thin(found["loss"], found["best"])
    return {"steps": (kept + 1).tolist(), **{name: numbers(column[kept]) for name, column in found.items()}}


def _history(model: Any, *columns: str) -> dict[str, Floats] | None:
    history = getattr(model, "history_", None)
    if history is None or not all(len(getattr(history, column, ())) for column in columns):
        return None
    return {column: np.asarray(getattr(history, column), dtype=np.float64) for column in columns}


def precision_recall(ranked: list[Ranked], judged: Judged) -> dict[str, Any]:
    """Exact for one list, a mean over queries for several."""
    curves = [_curve(method.name, precision_recall_curve(method.lists)) for method in ranked]
    if ranked[0].lists.n_queries == 1:
        share = float(judged.relevant.mean())
        curves.append(_curve(RANDOM, Curve(np.array([0.0, 1.0]), np.array([share, share]))))
        note = "Precision at every relevant sample; the area under the steps is the AP. Random: the share of relevant samples."
        return {"curves": curves, "steps": True, "note": note}
    # Interpolated precision of a random order has no simple formula: a mean over so many orders that noise does not show.
    rng = np.random.default_rng(0)
    orders = int(np.clip(1_000_000 // len(judged), 2, 100))
    drawn = [precision_recall_curve(RankedLists(judged.relevant, rng.random(len(judged)), judged.qid)).y for _ in range(orders)]
    curves.append(_curve(RANDOM, Curve(precision_recall_curve(ranked[0].lists).x, np.mean(drawn, axis=0))))
    note = (
        "Interpolated precision (the best at that recall or beyond) at 101 recalls, mean over the queries with relevant samples. "
        f"Random: mean of {orders} random orders."
    )
    return {"curves": curves, "steps": False, "note": note}


def gain(ranked: list[Ranked], judged: Judged) -> dict[str, Any]:
    """Share found, or of the grades collected, over the share of the list inspected."""
    diagonal = _curve(RANDOM, Curve(np.linspace(0, 1, 201), np.linspace(0, 1, 201)))
    found = [_curve(method.name, gain_curve(method.lists, method.lists.relevant.astype(np.float64))) for method in ranked]
    collected = [_curve(method.name, gain_curve(method.graded, method.graded.grades)) for method in ranked]
    several = ranked[0].lists.n_queries > 1
    return {
        "found": [*found, diagonal],
        "collected": [*collected, diagonal] if judged.graded else None,
        "note": "Mean over the queries with relevant samples, at the same share of each list." if several else "",
    }


def scores(model: Ranked, judged: Judged) -> dict[str, Any]:
    """How many relevant and irrelevant samples have which score."""
    edges, counts, beyond = histogram(model.scores, [judged.relevant, ~judged.relevant])
    return {
        "edges": numbers(edges),
        "counts": [count.tolist() for count in counts],
        "totals": [int(judged.relevant.sum()), int((~judged.relevant).sum())],
        "beyond": list(beyond),
        "pooled": model.lists.n_queries > 1,
    }


def worst_first(model: Ranked, metric: str, n_relevant: NDArray[Any]) -> NDArray[np.int64]:
    """Queries with relevant samples; of equally bad ones the longer first: there is more to learn from them."""
    judged = np.flatnonzero(n_relevant > 0)
    return judged[np.lexsort((-model.lists.sizes[judged], model.values[metric][judged]))]


def queries(
    ranked: list[Ranked], metric: str, n_relevant: NDArray[Any], worst: NDArray[np.int64], names: Mapping[Any, str]
) -> dict[str, Any]:
    """The worst queries, how all of them fare, and how often the model beats each baseline."""
    model = ranked[0]
    sizes, values = model.lists.sizes, model.values[metric]
    first = 1.0 / np.where(n_relevant > 0, model.values["mrr"], 1.0)
    judged = np.flatnonzero(n_relevant > 0)
    rows = []
    ids = model.lists.qid.tolist()
    for k in worst[:_SHOWN]:
        identity = ids[k]
        others = [number(other.values[metric][k]) for other in ranked[1:]]
        name = text(names.get(identity, identity))
        rows.append([name, int(sizes[k]), int(n_relevant[k]), round(float(first[k])), number(values[k]), *others])
    edges = np.linspace(0, 1, 21)
    duels = []
    for other in ranked[1:]:
        difference = (values - other.values[metric])[judged]
        # Sums in another order differ in the last bits.
        better, worse = int(np.count_nonzero(difference > 1e-12)), int(np.count_nonzero(difference < -1e-12))
        duels.append({"name": other.name, "better": better, "worse": worse, "equal": len(judged) - better - worse})
    return {
        "rows": rows,
        "others": [other.name for other in ranked[1:]],
        "edges": numbers(edges),
        "counts": [np.histogram(method.values[metric][judged], edges)[0].tolist() for method in ranked],
        "total": len(judged),
        "duels": duels,
    }


def samples(model: Ranked) -> dict[str, Any]:
    """One list has no worst query, but samples that stand where they should not."""
    lists = model.lists
    relevant, irrelevant = np.flatnonzero(lists.relevant), np.flatnonzero(~lists.relevant)

    def rows(places: NDArray[np.intp]) -> list[list[Any]]:
        # Samples are counted from 1, as in messages and in runs.
        return [[int(lists.rows[k]) + 1, int(lists.place[k]), number(float(lists.scores[k]))] for k in places]

    # Only those on the wrong side of somebody: after the first irrelevant one, before the last relevant one.
    late = relevant[relevant > irrelevant[0]][::-1][:_SHOWN]
    early = irrelevant[irrelevant < relevant[-1]][:_SHOWN]
    return {"late": rows(late), "early": rows(early)}


def features(model: Any, X: Any, names: Sequence[str] | None) -> dict[str, Any] | None:
    """The largest weights, alone and times the spread of their feature."""
    weights = np.asarray(getattr(model, "coef_", np.empty((0, 0))), dtype=np.float64)
    if weights.ndim != 1 or weights.size == 0:
        return None
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    elif len(names) != len(weights):
        raise ValueError(
            f"feature_names has {len(names)} names, but the model has {len(weights)} weights; give one name for each"
        )
    spreads = _spreads(X, len(weights))

    def largest(sizes: Floats) -> list[list[Any]]:
        return [[feature_name(names, k), number(sizes[k])] for k in top(np.abs(sizes), _SHOWN) if sizes[k] != 0]

    return {
        "total": len(weights),
        "nonzero": int(np.count_nonzero(weights)),
        "by_weight": largest(weights),
        "by_effect": None if spreads is None else largest(weights * spreads),
    }


def feature_name(names: Sequence[str] | None, k: int) -> str:
    """Its name, or else its number."""
    return f"column {k}" if names is None else text(names[k])


def top(sizes: Floats, n: int) -> NDArray[np.intp]:
    """The largest, in descending order; the first of equal ones."""
    least = np.partition(sizes, -n)[-n] if len(sizes) > n else 0.0
    candidates = np.flatnonzero(sizes >= least)
    return candidates[np.argsort(-sizes[candidates], kind="stable")][:n]


def _spreads(X: Any, d: int) -> Floats | None:
    """Standard deviation of every column, in pieces: the matrix may be as large as memory."""
    if hasattr(X, "tocsr"):
        from sklearn.utils.sparsefuncs import mean_variance_axis

        variances: Floats = mean_variance_axis(X.tocsr().astype(np.float64), axis=0)[1]
        return np.sqrt(variances)
    X = np.asarray(X)
    if X.shape[1:] != (d,) or X.dtype.kind not in "fiub":
        return None
    mean = X.mean(axis=0, dtype=np.float64)
    squares = np.zeros(d)
    for begin in range(0, len(X), 1 << 14):
        squares += np.sum((X[begin : begin + (1 << 14)] - mean) ** 2, axis=0)
    return np.sqrt(squares / len(X))


def parameters(model: Any) -> dict[str, Any]:
    """Arguments of the constructor with a mark on those that are not at their default, and facts of the run."""
    given = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    signature = inspect.signature(type(model).__init__).parameters
    rows = []
    for name, value in given.items():
        default = signature[name].default if name in signature else inspect.Parameter.empty
        rows.append([name, text(repr(value)), repr(value) != repr(default)])
    history = getattr(model, "history_", None)
    seconds = list(getattr(history, "seconds", []))
    facts = [
        ["primal objective", _digits(getattr(model, "primal_objective_", None))],
        ["dual objective", _digits(getattr(model, "dual_objective_", None))],
        ["duality gap", _digits(getattr(model, "dual_gap_", None), 3)],
        ["passes over the queries", _digits(getattr(model, "n_iter_", None))],
        ["seconds of training", _digits(seconds[-1] if seconds else None, 3)],
        ["queries skipped in training", _digits(getattr(model, "n_skipped_queries_", None) or None)],
    ]
    return {"model": type(model).__name__, "rows": rows, "facts": [fact for fact in facts if fact[1] is not None]}


def _digits(value: Any, digits: int = 6) -> str | None:
    if not isinstance(value, int | float | np.number) or not math.isfinite(value):
        return None
    return f"{value:,}" if isinstance(value, int) else f"{value:.{digits}g}"


def _curve(name: str, curve: Curve) -> dict[str, Any]:
    return {"name": name, "x": numbers(curve.x), "y": numbers(curve.y)}
