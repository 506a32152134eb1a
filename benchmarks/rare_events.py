"""The classifier for rare events against other models, all tuned alike. ``python -m benchmarks.rare_events``.

Five outer folds; within each, six settings of every method in the same three inner folds, the best mean AP refitted. What a table and
a method gave is kept in ``build/rare_events``, so that a run that was stopped goes on; ``--fresh`` forgets it.
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
from scipy import sparse
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.rare_tables import MOST, TABLES
from benchmarks.timing import markdown, update_report
from maxmargin import RankingClassifier, RankingSVM

RESULTS = Path(__file__).parent / "results" / "rare_events.md"
KEPT = Path(__file__).parent.parent / "build" / "rare_events"
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
        lambda _: HistGradientBoostingClassifier(early_stopping=False, random_state=0), {"max_leaf_nodes": [7, 31], **TREES}, False
    ),
    "LightGBM": Method(
        lambda _: lightgbm.LGBMClassifier(n_jobs=1, random_state=0, verbose=-1), {"num_leaves": [7, 31], **TREES}, False
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


def kept(name: str, method: str, fresh: bool) -> dict[str, Any]:
    file = KEPT / f"{name} {method}.json".replace(" ", "_").replace(",", "")
    if fresh or not file.exists():
        found = run(name, method)
        KEPT.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(found))
        print(f"{name}: {method} {np.mean(found['ap']):.4f}, {np.sum(found['seconds']):.1f} s", flush=True)
    return json.loads(file.read_text())  # type: ignore[no-any-return]


def error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def shown(values: Any) -> str:
    return f"{np.mean(values):+.4f} ± {error(values):.4f}"


def write(everything: dict[str, dict[str, dict[str, Any]]]) -> None:
    others = [method for method in METHODS if method != BASE]
    rows, behind, ahead = [], [], []
    for name, found in everything.items():
        base = np.array(found[BASE]["ap"])
        n, d, p = found[BASE]["size"]
        differences = {method: np.array(found[method]["ap"]) - base for method in others}
        own = differences[OURS]
        behind += [name] if own.mean() < -error(own) else []
        ahead += [name] if own.mean() > error(own) else []
        taken = sum(note[0] for note in found[OURS]["notes"])
        head = [f"{name} ({n} x {d}, {p / n:.1%})", f"{base.mean():.4f}"]
        rows.append([*head, *(shown(differences[method]) for method in others), f"{taken} of {FOLDS}"])
    means = {method: np.array([np.mean(found[method]["ap"]) for found in everything.values()]) for method in METHODS}
    gains = [shown(means[method] - means[BASE]) for method in others]
    rows.append(["mean over the tables", f"{means[BASE].mean():.4f}", *gains, ""])
    linear = [method for method in METHODS if METHODS[method].linear]
    ranks = {
        which: np.mean([rankdata(-row, method="average") for row in np.column_stack([means[m] for m in names])], axis=0)
        for which, names in (("linear", linear), ("all", list(METHODS)))
    }
    ratios = {
        method: [np.sum(found[method]["seconds"]) / np.sum(found[BASE]["seconds"]) for found in everything.values()]
        for method in METHODS
    }
    standing = [
        [
            method,
            f"{ranks['linear'][linear.index(method)]:.2f}" if method in linear else "",
            f"{ranks['all'][list(METHODS).index(method)]:.2f}",
            f"{np.exp(np.mean(np.log(ratios[method]))):.2f}",
            f"{max(ratios[method]):.2f}",
        ]
        for method in METHODS
    ]
    listed = ", ".join
    slowest = max(ratios[OURS])
    first = linear[int(np.argmin(ranks["linear"]))]
    text = (
        f"{OURS} is behind {BASE} by more than a standard error on {len(behind)} of {len(everything)} tables"
        f"{': ' + listed(behind) if behind else ''}. It is ahead by more than one on {len(ahead)}{': ' + listed(ahead) if ahead else ''}. "
        f"The best mean rank among the linear models is that of {first}. Its tuning and fitting take at most {slowest:.1f} times as "
        f"long as those of {BASE}{'' if slowest <= 5 else ', which is more than the five that were the aim'}."
    )
    quality = (
        "## Average precision\n\n"
        f"Mean test AP of {BASE}, and the mean of the paired differences to it with their standard error over the five folds, which "
        "share rows, so that the errors are somewhat too small. Rows, features and share of positives in brackets; the last column "
        f"counts the folds in which {OURS} took its refinement.\n\n"
        + markdown(["", BASE, *others, "refined"], rows)
        + f"\n\n{text}"
    )
    standings = (
        "## Ranks and time\n\n"
        f"Mean rank by AP over the tables, among linear models and among all; processor seconds of tuning and fitting, as a multiple of "
        f"those of {BASE} in the same run: geometric mean over the tables, and the largest.\n\n"
        + markdown(["", "rank, linear", "rank, all", "time", "largest time"], standing)
    )
    introduction = (
        f"Tables of at most {MOST:,} rows with few positives (`benchmarks/rare_tables.py`); those from \"well specified\" on are made by "
        f"seeded generators of the kind that their name says. {FOLDS} outer folds; six settings of every method in the same {INNER} inner "
        f"folds, by mean AP: C, one a decade, for linear models on standardised features; leaves and learning rate for a hundred trees. "
        f"{OURS} has its default settings and grid, with {INNER} inner folds. Nothing was chosen by what the test folds say."
    )
    update_report(RESULTS, "Rare events", introduction, [quality, standings])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TABLES, help="run these tables and write no report")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--fresh", action="store_true", help="forget what was kept")
    chosen = parser.parse_args()
    everything = {
        name: {method: kept(name, method, chosen.fresh) for method in chosen.methods} for name in chosen.only or TABLES
    }
    if not chosen.only and len(chosen.methods) == len(METHODS):
        write(everything)


if __name__ == "__main__":
    main()
