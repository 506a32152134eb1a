"""What the page shows, computed from a fitted estimator and labelled samples into a plain dictionary for JSON."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import maxmargin
from maxmargin._utils import Floats
from maxmargin.core import same_sketch, sketch
from maxmargin.report import sections
from maxmargin.report.budgets import budgets, table_budgets, thresholds
from maxmargin.report.chance import expected_metric
from maxmargin.report.documents import documents
from maxmargin.report.headline import certificate, headline, metric_title, reported_metric
from maxmargin.report.intervals import intervals
from maxmargin.report.plain import number, text
from maxmargin.report.ranked import METRICS, Judged, Ranked
from maxmargin.report.sections import worst_first
from maxmargin.report.slices import slices as slice_tables


def report_contents(
    estimator: Any, X: Any, y: ArrayLike, qid: ArrayLike | None = None, *, baselines: Mapping[str, Any] | None = None,
    feature_names: Sequence[str] | None = None, query_names: Mapping[Any, str] | None = None, name: str | None = None,
    title: str | None = None, notes: Sequence[str] = (), scores: ArrayLike | None = None,
    slices: Mapping[str, ArrayLike] | None = None, on_training_data: bool | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything on the page, one entry per section; arguments as in :func:`maxmargin.report.write_report`."""
    steps = getattr(estimator, "steps", None)  # of a pipeline, whose last step was trained on what the others make of X
    model = estimator if steps is None else steps[-1][1]
    judged = Judged(y, qid, _threshold(model))
    own = _scores(estimator if scores is None else scores, X, len(judged), "estimator")
    metric, purpose = reported_metric(model)
    keys = METRICS if metric in METRICS else (metric, *METRICS)
    ranked = [Ranked(text(type(model).__name__ if name is None else name), own, judged, keys)]
    for other, baseline in (baselines or {}).items():
        if text(other) in [sections.RANDOM, *(method.name for method in ranked)]:
            raise ValueError(f"baselines has the name {text(other)!r}, which another curve of the report bears; choose another")
        ranked.append(Ranked(text(other), _scores(baseline, X, len(judged), f"baselines[{other!r}]"), judged, keys))

    lists = ranked[0].lists
    relevant = lists.per_query(lists.relevant).astype(np.int64)
    chance = {key: expected_metric(key, lists, ranked[0].graded.grades) for key in keys}
    several = lists.n_queries > 1
    data = {
        "samples": len(judged),
        "relevant": int(judged.relevant.sum()),
        "queries": lists.n_queries,
        "without_relevant": int(np.count_nonzero(relevant == 0)),
        "graded": judged.graded,
        "threshold": judged.threshold,
    }
    proof = certificate(model)
    ks = None if several else table_budgets(len(judged))
    ends = intervals(ranked, ks, keys)
    means = [*(method.means for method in ranked), chance]
    if steps is not None and len(steps) > 1:
        X = estimator[:-1].transform(X)
        if feature_names is None:
            with suppress(AttributeError, ValueError):  # not every transformer can name what it makes
                feature_names = estimator[:-1].get_feature_names_out()
    if on_training_data is None:
        on_training_data = _known_from_training(model, X, judged)
    worst = worst_first(ranked[0], metric, relevant) if several else np.empty(0, dtype=np.int64)
    said = headline(ranked, chance[metric], metric, data, proof, ends, on_training_data)
    return {
        "title": f"{type(model).__name__}{purpose}" if title is None else text(title),
        "made": {"date": datetime.date.today().isoformat(), "version": maxmargin.__version__},
        "metric": metric_title(metric, several),
        "data": data,
        "certificate": proof,
        "headline": said,
        "methods": [*(method.name for method in ranked), sections.RANDOM],
        "metrics": {
            "titles": [metric_title(key, several) for key in keys],
            "rows": [[number(row[key]) for key in keys] for row in means],
        },
        "intervals": {
            "how": ends.how,
            "metrics": [[row[key].json() for key in keys] for row in ends.metrics],
            "leads": [[row[key].json() for key in keys] for row in ends.leads],
        },
        "convergence": sections.convergence(model),
        "descent": sections.descent(model),
        "precision_recall": sections.precision_recall(ranked, judged),
        "gain": sections.gain(ranked, judged),
        "scores": sections.scores(ranked[0], judged),
        "budgets": None if ks is None else budgets(ranked, ks, ends.precisions),
        "thresholds": None if several else thresholds(ranked[0].lists),
        "slices": slice_tables(slices or {}, judged, [(method.name, method.scores) for method in ranked], metric),
        "queries": sections.queries(ranked, metric, relevant, worst, query_names or {}) if several else None,
        "documents": documents(ranked, judged, worst, query_names or {}) if several else None,
        "samples": None if several else sections.samples(ranked[0]),
        "features": sections.features(model, X, feature_names),
        "parameters": sections.parameters(model),
        "notes": list(map(str, notes)),
    }


def _known_from_training(model: Any, X: Any, judged: Judged) -> bool:
    """Whether the model remembers these very samples."""
    known = getattr(model, "training_sketch_", None)
    if known is None or not (hasattr(X, "indptr") or np.ndim(X) == 2):
        return False
    matrix = X if hasattr(X, "indptr") else np.asarray(X)
    # Classifiers, which take any two labels, have sums over the samples to be found.
    labels = judged.relevant.astype(np.float64) if hasattr(model, "classes_") else judged.labels
    return matrix.dtype.kind in "fiub" and same_sketch(known, sketch(matrix, labels))


def _threshold(model: Any) -> float | None:
    """Labels above it are relevant, as the model learned it; where it learned several grades, the lowest."""
    learned = getattr(model, "relevance_thresholds_", getattr(model, "relevance_threshold_", None))
    return None if learned is None else float(np.min(learned))


def _scores(scorer: Any, X: Any, n: int, name: str) -> Floats:
    known = hasattr(scorer, "__len__") and not hasattr(scorer, "decision_function")
    if not known and not hasattr(scorer, "decision_function"):
        raise TypeError(f"{name} must be a fitted estimator with decision_function, or scores; it is a {type(scorer).__name__}")
    scores = np.asarray(scorer if known else scorer.decision_function(X), dtype=np.float64)
    if scores.shape != (n,):
        raise ValueError(f"{name} gives scores of shape {scores.shape}, but y has {n} labels; one score per sample is needed")
    return scores
