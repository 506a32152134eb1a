"""What the page about a regularization path shows, as a plain dictionary for JSON.

Its models are looked at one at a time, so a path that is larger than memory allows in one dense array makes no trouble.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import maxmargin
from maxmargin._utils import Floats
from maxmargin.report import sections
from maxmargin.report.curves import thin
from maxmargin.report.headline import metric_title, reported_metric
from maxmargin.report.plain import number, numbers, short, text

MAX_MODELS = 300
_PROFILES = 10  # features whose weights are drawn over lambda
_BARS = 12  # largest weights shown for one lambda
_LAMBDA = "\N{GREEK SMALL LETTER LAMDA}"
_DIGITS = 9  # of lambda, where ranges must fit together

# Parameters of an estimator that do not matter on a path, because the path has its own.
_REPLACED = {"C", "callback", "max_iter", "n_jobs", "random_state", "solver", "time_limit", "tol", "verbose", "warm_start"}


def path_contents(
    path: Any, X: Any = None, y: Any = None, qid: Any = None, *, training: Sequence[Any] | None = None,
    scoring: Callable[..., float] | None = None, metric: str | None = None, feature_names: Sequence[str] | None = None,
    title: str | None = None, notes: Sequence[str] = (), selection: Any = None, held_out: str = "validation data",
) -> dict[str, Any]:  # fmt: skip
    """Everything on the page; arguments as in :func:`maxmargin.report.write_path_report`."""
    if not path.segments:
        raise ValueError(
            "the path has no range of lambda to show: it was stopped before the first one, or lambda_min is so large that the "
            "closed form covers everything; trace it down to a smaller lambda_min. (If all features are zero, there is nothing "
            "to learn.)"
        )
    if training is not None and (not isinstance(training, tuple | list) or len(training) not in (2, 3)):
        raise ValueError("training must be a tuple (X, y) or (X, y, qid)")
    if (X is None) != (y is None):
        raise ValueError("X and y go together: validation data, or neither of them")
    if X is not None and selection is None:
        selection = path.select(X, y, scoring=scoring, **_params(qid))
    ranges = _shown_ranges(path)
    best = None if selection is None else path.model_at(selection.lam)
    kept = _kept(ranges, None if selection is None else selection.scores, best)
    first = path.estimator_of(0)
    measured = None if training is None else [_score(path.estimator_of(k), scoring, *training) for k in kept]
    weights = _Weights(path, kept, first, feature_names)
    several = qid is not None or (training is not None and len(training) > 2 and training[2] is not None)
    score_title, purpose = _titles(first, several)
    metric = text(metric) if metric is not None else "score" if scoring is not None else score_title
    low, high = _ends(path)
    proof = _certificate(path, high)
    found = None
    if selection is not None and best is not None:
        found = {"position": kept.index(best), "lambda": number(selection.lam, _DIGITS), "score": number(selection.score)}
    return {
        "page": "path",
        "title": f"Regularization path of {type(first).__name__}{purpose}" if title is None else text(title),
        "made": {"date": datetime.date.today().isoformat(), "version": maxmargin.__version__},
        "certificate": proof,
        "headline": _headline(path, ranges, selection, proof, metric, held_out + ("" if y is None else f" ({len(y):,} samples)")),
        "path": {
            "metric": metric,
            "held_out": held_out,
            "epsilon": number(path.epsilon),
            "n_blocks": path.n_blocks,
            "high": number(high, _DIGITS),
            "low": number(low, _DIGITS),
            "reached_zero": bool(path.reached_zero),
            "closed_form": bool(path.closed_form),
            "certified": bool(path.certified),
            "total": len(ranges),
            "models": {
                "number": kept,
                "lambda": numbers(path.lambdas[kept], _DIGITS),
                "high": [number(ranges[k][0], _DIGITS) for k in kept],
                "low": [number(max(ranges[k][1], low), _DIGITS) for k in kept],
                "gaps": _gaps(path, kept, low),
                "passes": numbers(path.passes[kept], 3),
                "training": None if measured is None else [number(value) for value in measured],
                "validation": None if selection is None else numbers(np.asarray(selection.scores)[kept]),
                "nonzero": weights.nonzero,
                "largest": weights.largest,
            },
            "features": weights.names,
            "profiles": weights.profiles,
            "n_weights": weights.total,
            "gap": _gap_curve(path, low),
            "breakpoints": _breakpoints(path),
            "best": found,
        },
        "parameters": _parameters(path, first, ranges),
        "notes": list(map(str, notes)),
    }


def _params(qid: Any) -> dict[str, Any]:
    return {} if qid is None else {"qid": qid}


def _score(estimator: Any, scoring: Callable[..., float] | None, X: Any, y: Any, qid: Any = None) -> float:
    return float(estimator.score(X, y, **_params(qid)) if scoring is None else scoring(estimator, X, y, **_params(qid)))


def _ends(path: Any) -> tuple[float, float]:
    """The range of lambda to draw: a decade of what goes on down to zero."""
    high = float(path.lambdas[0])
    return (path.lambda_end, high) if path.lambda_end > 0 else (0.1 * float(path.segments[-1].hi), high)


def _shown_ranges(path: Any) -> dict[int, tuple[float, float]]:
    """``(high, low)`` for every model that is used somewhere at or below the first lambda."""
    top, bottom = float(path.lambdas[0]), path.lambda_end
    ranges = {k: (min(hi, top), lo) for k, (hi, lo) in enumerate(path.ranges()) if lo >= bottom}
    return {k: (hi, lo) for k, (hi, lo) in ranges.items() if hi > lo or k == path.model_at(top)}


def _kept(ranges: dict[int, tuple[float, float]], scores: Floats | None, best: int | None) -> list[int]:
    """At most so many models: the first, the last, the best hundred on validation data, and others evenly."""
    models = list(ranges)
    if len(models) <= MAX_MODELS:
        return models
    chosen = {models[0], models[-1]} if best is None else {models[0], models[-1], best}
    if scores is not None:
        chosen.update(sorted(models, key=lambda k: -scores[k])[: MAX_MODELS // 3])
    others = [k for k in models if k not in chosen]
    evenly = np.linspace(0, len(others) - 1, MAX_MODELS - len(chosen)).round().astype(int)
    return sorted(chosen.union(others[k] for k in evenly))


def _gaps(path: Any, kept: list[int], low: float) -> list[list[list[float | None]]]:
    """For every model, its ranges with the bounds of the gap at both ends; in between they are affine."""
    wanted = {k: position for position, k in enumerate(kept)}
    found: list[list[list[float | None]]] = [[] for _ in kept]
    for segment in path.segments:
        if segment.model in wanted:
            lo = max(segment.lo, low)
            at_lo = segment.gap_lo if lo == segment.lo else path.gap_bound(lo)
            row = [number(segment.hi, _DIGITS), number(lo, _DIGITS), number(segment.gap_hi), number(at_lo)]
            found[wanted[segment.model]].append(row)
    # The first model may be used above the first lambda only.
    top = float(path.lambdas[0])
    edge = [[number(top, _DIGITS), number(top, _DIGITS), number(path.gap_bound(top)), number(path.gap_bound(top))]]
    return [rows or edge for rows in found]


def _gap_curve(path: Any, low: float) -> dict[str, Any]:
    """The bound over lambda, in ascending order; jumps are two points with the same lambda."""
    points: list[tuple[float, float]] = []
    for segment in reversed(path.segments):
        lo = max(segment.lo, low)
        # Affine in lambda is curved over log lambda.
        for lam in np.geomspace(lo, segment.hi, 4):
            share = (segment.hi - lam) / (segment.hi - segment.lo)
            points.append((float(lam), (1.0 - share) * segment.gap_hi + share * segment.gap_lo))
    x, y = (np.array(column) for column in zip(*points, strict=True))
    kept = thin(y)
    return {"x": numbers(x[kept], _DIGITS), "y": numbers(y[kept])}


def _breakpoints(path: Any) -> list[float | None]:
    places = np.asarray(path.breakpoints)
    if len(places) > MAX_MODELS:
        places = places[np.linspace(0, len(places) - 1, MAX_MODELS).round().astype(int)]
    return numbers(places, _DIGITS)


class _Weights:
    """The largest weights of every model, and how those that matter most change over lambda.

    A feature matters as much as its weight, relative to the largest of the same model, does on average: weights as such are
    larger at small lambda, which would then decide alone.
    """

    def __init__(self, path: Any, kept: list[int], first: Any, names: Sequence[str] | None) -> None:
        named = _weight_names(first, path.store.n_features, names)
        importance = np.zeros(path.store.n_features)
        self.total = path.store.n_features
        self.nonzero: list[int] = []
        largest: list[list[tuple[int, float]]] = []
        for weights in map(path.store.__getitem__, kept):
            sizes = np.abs(weights)
            importance += sizes / max(float(sizes.max(initial=0.0)), 1e-300)
            self.nonzero.append(int(np.count_nonzero(weights)))
            largest.append([(int(j), float(weights[j])) for j in sections.top(sizes, _BARS) if weights[j] != 0])
        drawn = [int(j) for j in sections.top(importance, _PROFILES) if importance[j] > 0]
        used = sorted({j for row in largest for j, _ in row}.union(drawn))
        place = {j: k for k, j in enumerate(used)}
        self.names = [named(j) for j in used]
        self.largest = [[[place[j], number(value)] for j, value in row] for row in largest]
        columns = np.array([path.store[k][drawn] for k in kept]).reshape(len(kept), len(drawn))
        self.profiles = [[place[j], numbers(column)] for j, column in zip(drawn, columns.T, strict=True)]


def _weight_names(model: Any, d: int, names: Sequence[str] | None) -> Callable[[int], str]:
    """A function from the number of a weight to its name; classes have one weight per feature, and perhaps a constant."""
    n_features = int(getattr(model, "n_features_in_", d))
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    elif len(names) not in (d, n_features):
        raise ValueError(f"feature_names has {len(names)} names, but there are {n_features} features; give one name for each")
    if names is not None and len(names) == d:
        n_features = d
    classes = getattr(model, "classes_", [None])
    per_class = d // len(classes)
    if per_class * len(classes) != d or per_class not in (n_features, n_features + 1):
        return lambda j: f"weight {j}"

    def name(j: int) -> str:
        group, feature = divmod(j, per_class)
        own = "constant" if feature == n_features else sections.feature_name(names, feature)
        return own if len(classes) == 1 else f"{text(classes[group])}: {own}"

    return name


def _titles(model: Any, several: bool) -> tuple[str, str]:
    """What ``score`` gives, and what the model was trained for."""
    if not hasattr(model, "relevance_thresholds_"):
        return "score", ""
    metric, purpose = reported_metric(model)
    own = purpose.removeprefix(", trained for ")
    known = own == "accuracy" or own == metric_title(metric, False)
    return metric_title(metric, several) if known else f"1 \N{MINUS SIGN} {own}", purpose


def _certificate(path: Any, high: float) -> dict[str, Any]:
    where = f"At every {_LAMBDA}" + ("" if path.closed_form else f" up to {short(high)}")
    where += "" if path.reached_zero else f" down to {short(path.lambda_end)}"
    bound = f"the training objective is within \N{GREEK SMALL LETTER EPSILON} = {path.epsilon:g} of the optimum"
    if path.certified:
        return {"certified": True, "sentence": f"{where}, {bound}: certified."}
    return {"certified": False, "sentence": f"{where}, {bound} if inference was exact, which is not known: not certified."}


def _headline(
    path: Any, ranges: dict[int, tuple[float, float]], selection: Any, proof: dict[str, Any], metric: str, held_out: str
) -> dict[str, Any]:
    """Sentences, and the same as a row of numbers."""
    models = f"{len(ranges):,} models" if len(ranges) > 1 else "One model"
    covered = "for every C" if path.reached_zero else f"for every C up to {short(_c_of(path, path.lambda_end))}"
    sentences = [f"{models}, from one run, {'are' if len(ranges) > 1 else 'is'} enough {covered}."]
    tiles = []
    if selection is not None:
        lam, C = selection.lam, _c_of(path, selection.lam)
        best = f"{_LAMBDA} = {short(lam)}, that is C = {short(C)}"
        sentences.append(f"On {held_out}, the best is {best}, with {metric} {selection.score:.3f}.")
        tiles.append((f"{selection.score:.3f}", f"best {metric}", f"on {held_out}"))
        tiles.append((short(lam), f"best {_LAMBDA}", f"C = {short(C)}"))
    if not path.complete:
        sentences.append(f"Tracing was stopped early, at {_LAMBDA} = {short(path.lambda_end)}.")
    tiles.append((f"{len(ranges):,}", "models" if len(ranges) > 1 else "model", f"{path.total_passes:,.0f} passes over the data"))
    proved = "certified" if path.certified else "not certified"
    tiles.append((f"{path.epsilon:g}", "gap to the optimum, at most", proved))
    return {"sentences": [*sentences, proof["sentence"]], "tiles": [list(tile) for tile in tiles]}


def _c_of(path: Any, lam: float) -> float:
    return float(1.0 / (lam * path.n_blocks))


def _parameters(path: Any, model: Any, ranges: dict[int, tuple[float, float]]) -> dict[str, Any]:
    rows = [row for row in sections.parameters(model)["rows"] if row[0] not in _REPLACED]
    largest = max(max(segment.gap_hi, segment.gap_lo) for segment in path.segments)
    facts = [
        ["rule for breakpoints", path.rule],
        ["epsilon: gap allowed", f"{path.epsilon:g}"],
        ["kappa: part of it for the solver", f"{path.kappa:g}"],
        ["largest bound of the gap", f"{largest:.4g}"],
        ["first lambda solved", f"{path.lambdas[0]:.6g}"],
        ["covered down to lambda", f"{path.lambda_end:.6g}"],
        ["lambdas solved", f"{len(path.lambdas):,}"],
        ["models in use", f"{len(ranges):,}"],
        ["passes over the data", f"{path.total_passes:,.0f}"],
        ["n, in C = 1 / (lambda n)", f"{path.n_blocks:,}"],
    ]
    return {"model": type(model).__name__, "rows": rows, "facts": facts}
