"""Linear rankers trained for NDCG@10, judged by NDCG@10.

Folds, features and the choice of settings are those of ``benchmarks.ranking.ranking_quality``. Does it pay to train for the
first ten places alone? Every linear model is here: hinges of several losses, direct loss minimisation, and what others offer.
"""

from __future__ import annotations

import argparse

import numpy as np
from benchmarks import FOLDER, datasets
from benchmarks.ranking.ranking_quality import (
    QUERIES,
    RIDGES,
    Method,
    boosted,
    difference,
    five_parts,
    normalised,
    ours,
    pointwise,
    rotated,
    run_fold,
)
from benchmarks.timing import markdown, update_report
from sklearn.linear_model import LogisticRegression, Ridge

from maxmargin import DirectLossMinimizer

METRIC = {"ndcg": "NDCG@10"}
AT = 10


def direct(loss):
    def fit(C, train, _valid, _metric):
        model = DirectLossMinimizer(loss, C=C, grades="exponential", max_iter=150)
        return model.fit(train.X, train.y, qid=train.qid).decision_function

    return fit


def ridge(alpha, train, _valid, _metric):
    """Least squares on the gains."""
    return Ridge(alpha=alpha).fit(train.X, np.exp2(train.y) - 1).predict


TRAINED = (f"RankingSVM ndcg@{AT}, graded", f"DirectLossMinimizer ndcg@{AT}, graded")
METHODS = [
    Method(TRAINED[0], True, QUERIES, ours(loss=f"ndcg@{AT}", grades="exponential")),
    Method(TRAINED[1], True, QUERIES[::2], direct(f"ndcg@{AT}")),
    Method(f"RankingSVM ndcg@{AT}, relevant or not", True, QUERIES, ours(loss=f"ndcg@{AT}")),
    Method("RankingSVM ndcg, graded", True, QUERIES, ours(loss="ndcg", grades="exponential")),
    Method("DirectLossMinimizer ndcg, graded", True, QUERIES[::2], direct("ndcg")),
    Method("RankingSVM ap", True, QUERIES, ours(loss="ap")),
    Method(f"RankingSVM ap@{AT}", True, QUERIES, ours(loss=f"ap@{AT}")),
    Method(f"RankingSVM p@{AT}", True, QUERIES, ours(loss=f"p@{AT}")),
    Method("RankingSVM rbp", True, QUERIES, ours(loss="rbp")),
    Method("LogisticRegression", True, QUERIES, pointwise(lambda C: LogisticRegression(C=C, max_iter=1000))),
    Method("Ridge on the gains", True, list(10.0 ** np.arange(-2, 6)), ridge),
    Method("XGBoost rank:ndcg, linear", True, RIDGES, boosted("rank:ndcg", "gblinear")),
]


def section(title, folds):
    """Means over the test queries of all folds, and how far those trained for the metric are ahead, paired by query."""
    values: dict[str, list] = {method.name: [] for method in METHODS}
    seconds: dict[str, list] = {method.name: [] for method in METHODS}
    for number, parts in enumerate(folds):
        for name, found in run_fold(METHODS, METRIC, *parts).items():
            values[name].append(found[0]["ndcg"])
            seconds[name].append(found[1])
        print(f"{title}: fold {number + 1} done", flush=True)
    units = {name: np.concatenate(found) for name, found in values.items()}
    rows = [
        [
            name,
            f"{found.mean():.4f}",
            *["" if name == mine else difference(units[mine], found) for mine in TRAINED],
            f"{np.mean(seconds[name]):.2f}",
        ]
        for name, found in units.items()
    ]
    header = ["", "NDCG@10", "hinge minus it", "direct minus it", "seconds of a fit"]
    rival = max((name for name in units if name not in TRAINED), key=lambda name: units[name].mean())
    best = max(TRAINED, key=lambda name: units[name].mean())
    standing = f"{best} minus the best of the others, {rival}: {difference(units[best], units[rival])}."
    text = f"## {title}\n\n{markdown(header, rows)}\n\n{standing}"
    print(text, flush=True)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    tables = {
        "mq2008": ("LETOR MQ2008, five official folds", lambda: rotated(datasets.mq2008())),
        "mslr": ("MSLR-WEB10K, 86 queries", lambda: rotated(five_parts(datasets.mslr(), 0))),
        "mslr-normalised": (
            "MSLR-WEB10K, features normalised within queries",
            lambda: rotated([normalised(part) for part in five_parts(datasets.mslr(), 0)]),
        ),
        "lightgbm": ("LightGBM's example, 251 queries", lambda: rotated(five_parts(datasets.lightgbm_example(), 0))),
    }
    parser.add_argument("--only", nargs="+", choices=list(tables), help="these tables; the others stay as they are")
    introduction = (
        "Linear models, NDCG@10 with exponential gains, the mean over test queries with a relevant document. Five folds as in "
        "[ranking_quality](ranking_quality.md); C or the penalty is chosen on validation queries. "
        '"Hinge" and "direct" are the first two rows, trained for exactly this metric; their lead over each of the others is '
        "paired by query, with its standard error. Seconds are of the processor, for one fit."
    )
    path = FOLDER / "results" / "ranking_cutoff.md"
    for name in parser.parse_args().only or tables:
        title, folds = tables[name]
        update_report(path, "Training for the first ten places", introduction, [section(title, folds())])


if __name__ == "__main__":
    main()
