"""The classifier for rare events against other models, all tuned alike.

Five outer folds; within each, six settings of every method in the same three inner folds, the best mean AP refitted. What a
method gave on a table is kept in ``build/rare_events``, so that a run that was stopped goes on; ``--fresh`` forgets it.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import lightgbm
import numpy as np
from benchmarks import FOLDER
from benchmarks.rare_events.rare_tables import MOST, TABLES
from benchmarks.timing import markdown, update_report
from scipy import sparse
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from maxmargin import RankingClassifier, RankingSVM

RESULTS = FOLDER / "results" / "rare_events.md"
KEPT = FOLDER.parent / "build" / "rare_events"
FOLDS, INNER = 5, 3
TREES = {"learning_rate": [0.05, 0.1, 0.2]}


class Method(NamedTuple):
    """A model for dense or sparse features, and six settings; the front door tunes itself, in the same folds."""

    make: Callable[[bool], Any]
    settings: dict[str, list[Any]]
    linear: bool = True


def scaled(model: Any) -> Callable[[bool], Any]:
    return lambda is_sparse: make_pipeline(StandardScaler(with_mean=not is_sparse), model)


def powers(name: str, low: int) -> dict[str, list[float]]:
    return {f"{name}__C": [10.0**k for k in range(low, low + 6)]}


BASE, OURS = "LogisticRegression", "RankingClassifier"
METHODS = {
    OURS: Method(lambda _: RankingClassifier(cv=INNER, random_state=0), {}),
    BASE: Method(scaled(LogisticRegression(max_iter=1000)), powers("logisticregression", -4)),
    "LogisticRegression, balanced": Method(
        scaled(LogisticRegression(max_iter=1000, class_weight="balanced")), powers("logisticregression", -4)
    ),
    "LinearSVC": Method(scaled(LinearSVC()), powers("linearsvc", -5)),
    "RankingSVM": Method(scaled(RankingSVM("ap")), powers("rankingsvm", -1)),
    "HistGradientBoosting": Method(
        lambda _: HistGradientBoostingClassifier(early_stopping=False, random_state=0),
        {"max_leaf_nodes": [7, 31], **TREES},
        linear=False,
    ),
    "LightGBM": Method(
        lambda _: lightgbm.LGBMClassifier(n_jobs=1, random_state=0, verbose=-1), {"num_leaves": [7, 31], **TREES}, linear=False
    ),
}


def scores_of(model: Any, X: Any) -> Any:
    return model.decision_function(X) if hasattr(model, "decision_function") else model.predict_proba(X)[:, 1]


def scorer(model: Any, X: Any, y: Any) -> float:
    return float(average_precision_score(y, scores_of(model, X)))


def run(name: str, method: str) -> dict[str, Any]:
    """AP and processor seconds of tuning and fitting in every outer fold."""
    table, found = TABLES[name](), METHODS[method]
    X = table.X.toarray() if sparse.issparse(table.X) and not found.linear else table.X
    values, seconds, notes = [], [], []
    for train, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(np.zeros(len(table.y)), table.y):
        model = found.make(sparse.issparse(X))
        if found.settings:
            model = GridSearchCV(model, found.settings, scoring=scorer, cv=StratifiedKFold(INNER, shuffle=True, random_state=0))
        begin = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X[train], table.y[train])
            seconds.append(time.process_time() - begin)
            values.append(scorer(model, X[test], table.y[test]))
        if method == OURS:
            notes.append([model.refined_, model.gain_, model.gain_error_])
    size = [*table.X.shape, int(table.y.sum())]
    return {"ap": values, "seconds": seconds, "notes": notes, "size": size}


def file_of(name: str, method: str) -> Path:
    return KEPT / f"{name} {method}.json".replace(" ", "_").replace(",", "")


def kept(name: str, method: str, fresh: bool) -> None:
    if fresh or not file_of(name, method).exists():
        found = run(name, method)
        KEPT.mkdir(parents=True, exist_ok=True)
        file_of(name, method).write_text(json.dumps(found))
        print(f"{name}: {method} {np.mean(found['ap']):.4f}, {np.sum(found['seconds']):.1f} s", flush=True)


def error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def shown(values: Any) -> str:
    return f"{np.mean(values):+.4f} ± {error(values):.4f}"


def write() -> None:
    """The report, from all tables that every linear model has seen; trees where they have been run."""
    linear = [method for method in METHODS if METHODS[method].linear]
    others = [method for method in METHODS if method != BASE]
    everything = {}
    for name in TABLES:
        files = {method: file_of(name, method) for method in METHODS}
        found = {method: json.loads(file.read_text()) for method, file in files.items() if file.exists()}
        if all(method in found for method in linear):
            everything[name] = found
    quality = quality_section(everything, others)
    update_report(RESULTS, "Rare events", introduction(), [quality, standing_section(everything, linear)])


def quality_section(everything: dict[str, Any], others: list[str]) -> str:
    rows, behind, ahead = [], [], []
    for name, found in everything.items():
        base = np.array(found[BASE]["ap"])
        n, d, p = found[BASE]["size"]
        differences = {method: np.array(found[method]["ap"]) - base for method in others if method in found}
        own = differences[OURS]
        behind += [name] if own.mean() < -error(own) else []
        ahead += [name] if own.mean() > error(own) else []
        taken = sum(note[0] for note in found[OURS]["notes"])
        cells = [shown(differences[method]) if method in differences else "not run" for method in others]
        rows.append([f"{name} ({n} x {d}, {p / n:.1%})", f"{base.mean():.4f}", *cells, f"{taken} of {FOLDS}"])

    def mean(method: str) -> str:
        own = [np.mean(found[method]["ap"]) - np.mean(found[BASE]["ap"]) for found in everything.values() if method in found]
        return f"{shown(own)} ({len(own)})"

    rows.append(["mean over the tables that were run", "", *map(mean, others), ""])
    text = (
        f"{OURS} is behind {BASE} by more than a standard error on {len(behind)} of {len(everything)} tables"
        f"{': ' + '; '.join(behind) if behind else ''}. It is ahead by more than one on {len(ahead)}"
        f"{': ' + '; '.join(ahead) if ahead else ''}."
    )
    return (
        f"## Average precision\n\nMean test AP of {BASE}, and the mean of the paired differences to it with their standard "
        "error over the five folds, which share rows, so that the errors are somewhat too small. Rows, features and share of "
        f"positives in brackets; the last column counts the folds in which {OURS} took its refinement.\n\n"
        + markdown(["", BASE, *others, "refined"], rows)
        + f"\n\n{text}"
    )


def standing_section(everything: dict[str, Any], linear: list[str]) -> str:
    full = [found for found in everything.values() if len(found) == len(METHODS)]

    def ranks(methods: list[str], tables: list[Any]) -> dict[str, float]:
        places = [rankdata([-np.mean(found[method]["ap"]) for method in methods]) for found in tables]
        return dict(zip(methods, np.mean(places, axis=0), strict=True)) if places else {}

    among_linear, among_all = ranks(linear, list(everything.values())), ranks(list(METHODS), full)
    rows, slowest = [], 0.0
    for method in METHODS:
        ratios = [
            np.sum(found[method]["seconds"]) / np.sum(found[BASE]["seconds"]) for found in everything.values() if method in found
        ]
        slowest = max(ratios) if method == OURS else slowest
        times = [f"{np.exp(np.mean(np.log(ratios))):.2f}", f"{max(ratios):.2f}"] if ratios else ["", ""]
        rows.append([method, *(f"{where[method]:.2f}" if method in where else "" for where in (among_linear, among_all)), *times])
    first = min(among_linear, key=lambda method: among_linear[method])
    return (
        f"## Ranks and time\n\nMean rank by AP, among linear models over {len(everything)} tables and among all over the "
        f"{len(full)} for which all were run; processor seconds of tuning and fitting, as a multiple of those of {BASE} on the "
        "same table: geometric mean over the tables, and the largest.\n\n"
        + markdown(["", "rank, linear", "rank, all", "time", "largest time"], rows)
        + f"\n\nThe best mean rank among the linear models is that of {first}. {OURS} takes at most {slowest:.1f} times as "
        f"long as {BASE}{', more than the five that were the aim' if slowest > 5 else ''}."
    )


def introduction() -> str:
    return (
        f"Tables of at most {MOST:,} rows with few positives (`benchmarks/rare_events/rare_tables.py`); those from "
        '"well specified" on are made by seeded generators of the kind that their name says. '
        f"{FOLDS} outer folds; six settings of every method in the same {INNER} inner folds, by mean AP: C, one a decade, for "
        f"linear models on standardised features; leaves and learning "
        f"rate for a hundred trees. {OURS} has its default settings and grid, with {INNER} inner folds. Nothing was chosen "
        "by what the test folds say."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES), help="run these tables")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--fresh", action="store_true", help="forget what was kept")
    chosen = parser.parse_args()
    for name in chosen.only:
        for method in chosen.methods:
            kept(name, method, chosen.fresh)
    write()


if __name__ == "__main__":
    main()
