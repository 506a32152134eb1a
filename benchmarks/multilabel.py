"""Sets of labels: searches for slack rescaling, and surrogates against each other. ``python -m benchmarks.multilabel``.

The first table compares searches for the most violating set inside cutting-plane training (thesis tables 4.1 and 5.1), the second
what is predicted after training with different surrogates (tables 4.2 and 5.3), beside scikit-learn.
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, train_test_split
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import find
from benchmarks.timing import markdown, update_report
from maxmargin import MultilabelSVM
from maxmargin.data import load_multilabel, load_multilabel_svmlight
from maxmargin.inference.label_sets import all_sets
from maxmargin.problems import MultilabelProblem
from maxmargin.solvers import OneSlackCuttingPlane
from maxmargin.structures import LabelSetStructure
from maxmargin.surrogates import (
    Answer,
    BetaScaling,
    Candidate,
    LambdaOracle,
    SearchResult,
    Slack,
    angular,
    bisecting,
    hull_search,
    sarawagi,
)

# A label set is violated if it is worth this much more than the slack.
EPSILON = 0.01


# ---- data ------------------------------------------------------------------------------------------------------------


def yeast() -> tuple[Any, Any]:
    """1,500 + 917 genes, 14 labels."""
    parts = [load_multilabel_svmlight(find("multilabel_yeast", f"yeast_{kind}.svm.gz")) for kind in ("train", "test")]
    return np.vstack([part.X.toarray() for part in parts]), np.vstack([part.Y.toarray() for part in parts])


def scene() -> tuple[Any, Any]:
    """2,407 pictures, 6 labels."""
    data = load_multilabel(find("multilabel_scene", "scene.arff.bz2"))
    return data.X, data.Y


def emotions() -> tuple[Any, Any]:
    """391 + 202 pieces of music, 6 labels."""
    folder = find("multilabel_emotions", "emotions.xml")
    parts = [load_multilabel(folder.with_name(f"emotions-{kind}.arff.gz"), folder) for kind in ("train", "test")]
    return np.vstack([part.X for part in parts]), np.vstack([part.Y for part in parts])


def some(n: int, X: Any, Y: Any) -> tuple[Any, Any]:
    """A random part of the data."""
    chosen = np.random.default_rng(0).permutation(len(Y))[:n]
    return X[chosen], Y[chosen]


def bibtex(n_labels: int, n: int) -> tuple[Any, Any]:
    """The first documents, dense, with the labels that are most frequent in the training set."""
    folder = find("multilabel_bibtex", "bibtex.xml")
    data = load_multilabel(folder.with_name("bibtex-train.arff.gz"), folder)
    Y = data.Y.toarray()
    kept = np.sort(np.argsort(-Y.sum(axis=0), kind="stable")[:n_labels])
    return data.X[:n].toarray(), Y[:n, kept]


# ---- searches --------------------------------------------------------------------------------------------------------


class SetOracle(LambdaOracle):
    """Label sets of one sample, from its scores; losses are whole numbers."""

    def __init__(self, structure: LabelSetStructure, x: Any, weights: Any, truth: Any) -> None:
        self.structure, self.x, self.weights, self.label_set = structure, x, weights, truth
        self.unary, self.pairs = structure.unary(x, weights)[0], structure.split(weights)[1]
        self.own = 0.0
        self.own = self.candidate(truth).h
        self.truth = self.candidate(truth)

    def candidate(self, labels: Any) -> Candidate:
        score = float(self.structure.pairs.scores(labels, self.unary, self.pairs))
        return Candidate(score - self.own, self.structure.loss(self.label_set, labels), labels.tobytes(), labels)

    def ask(self, a: float, b: float) -> Answer:
        self.calls += 1
        answer = self.structure.decode(self.x, self.weights, self.label_set, a, b)
        found = self.candidate(getattr(answer, "output", answer))
        return Answer(found, answer.upper - a * self.own if hasattr(answer, "upper") else found.along(a, b))

    def within(self, lam: float, low: float, high: float) -> Answer:
        self.calls += 1
        labels = self.structure.decode_within(self.x, self.weights, self.label_set, lam, low, high)
        if labels is None:
            return Answer(None, -np.inf)
        found = self.candidate(labels)
        return Answer(found, found.along(1.0, lam))

    def losses(self) -> Any:
        return np.arange(self.structure.n_labels + 1.0)


class Memory:
    """What a search keeps of a sample between the stages: sets that it has met, and the last weight of the loss."""

    def __init__(self) -> None:
        self.sets: list[Any] = []
        self.lam: float | None = None

    def keep(self, found: SearchResult) -> SearchResult:
        points = {point.key: point.output for point in (*found.vertices, found.incumbent) if point.g > 0}
        self.sets = list(points.values())[-10:]
        asked = [step.b / step.a for step in found.trace if step.a > 0]
        self.lam = asked[-1] if asked and asked[-1] > 0 else self.lam
        return found


def searches(name: str, X: Any, Y: Any, n: int, C: float) -> list[list[str]]:
    """Rows of the table: averages over samples and rounds of one-slack cutting planes with slack rescaling."""
    chosen = np.random.default_rng(0).permutation(len(Y))[:n]
    X, Y = np.column_stack([StandardScaler().fit_transform(X[chosen]), np.ones(n)]), Y[chosen].astype(np.int8)
    pairs = list(combinations(range(Y.shape[1]), 2))
    problem = MultilabelProblem(X, Y, pairs, surrogate=Slack())
    structure, lam = problem.structure, 1.0 / (C * n)
    # Of a set with the largest loss and no margin error.
    first = 1.0 / structure.n_labels
    methods = {
        "angular": lambda oracle, known, last, slack: angular(oracle, known, ratio=0.999),
        "hull": lambda oracle, known, last, slack: hull_search(Slack(), oracle, known, first=first),
        "bisecting": lambda oracle, known, last, slack: bisecting(oracle, known, start=last, tolerance=1e-3),
        "Sarawagi": lambda oracle, known, last, slack: sarawagi(oracle, known, slack=slack),
    }
    calls, seconds, values = ({(method, warm): [] for method in methods for warm in (False, True)} for _ in range(3))
    slacks, best = [], []
    known: list[list[Any]] = [[] for _ in range(n)]
    memory = {(method, k): Memory() for method in methods for k in range(n)}
    for rounds in (1, 2, 4, 8, 16):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            weights = OneSlackCuttingPlane(tol=1e-6, max_passes=rounds).solve(problem, lam).weights
        for k in range(n):
            oracle = SetOracle(structure, X[k : k + 1], weights, Y[k])
            earlier = [oracle.candidate(labels) for labels in known[k]]
            slack = max([0.0, *((1.0 + point.h) * point.g for point in earlier)])
            slacks.append(slack)
            for method, search in methods.items():
                own = memory[method, k]
                for warm in (False, True):
                    start = time.thread_time()
                    kept = [oracle.candidate(labels) for labels in own.sets] if warm else []
                    found = search(oracle, kept, own.lam if warm else None, slack)
                    seconds[method, warm].append(time.thread_time() - start)
                    calls[method, warm].append(found.calls)
                    values[method, warm].append(found.best)
                    if warm:
                        own.keep(found)
                        if method == "angular" and found.incumbent.g > 0:
                            known[k].append(found.incumbent.output)
            sets = all_sets(structure.n_labels)
            scores = structure.pairs.listed_scores(structure.unary(X[k : k + 1], weights)[0], structure.split(weights)[1])
            best.append(max(0.0, float(((1.0 + scores - oracle.own) * np.abs(sets - Y[k]).sum(axis=1)).max())))
    top, rows = np.array(best), []
    for method in methods:
        for warm in (False, True):
            own, base = np.array(values[method, warm]), ("bisecting", warm)
            missed = own < 0.999 * top - 1e-9
            asked, spent = np.mean(calls[method, warm]), np.mean(seconds[method, warm])
            rows.append([
                name, method, "warm" if warm else "cold", f"{asked:.1f}", f"{asked / np.mean(calls[base]):.2f}",
                f"{1e3 * spent:.2f}", f"{spent / np.mean(seconds[base]):.2f}",
                f"{100 * np.mean(own > np.array(slacks) + EPSILON):.1f}", f"{100 * np.mean(missed):.1f}",
            ])  # fmt: skip
            print(rows[-1], flush=True)
    return rows


# ---- predictions -----------------------------------------------------------------------------------------------------


def measures(truth: Any, found: Any) -> dict[str, float]:
    """What is reported; an empty set that is predicted rightly counts as one."""
    both, either = (truth & found).sum(axis=1), (truth | found).sum(axis=1)
    sizes = truth.sum(axis=1) + found.sum(axis=1)
    return {
        "example F1": float(np.mean(np.where(sizes > 0, 2 * both / np.maximum(sizes, 1), 1.0))),
        "micro F1": float(f1_score(truth, found, average="micro", zero_division=0)),
        "macro F1": float(f1_score(truth, found, average="macro", zero_division=0)),
        "Jaccard": float(np.mean(np.where(either > 0, both / np.maximum(either, 1), 1.0))),
        "Hamming loss": float(np.mean(truth != found)),
    }


def models(pairwise: str) -> dict[str, Any]:
    """Every model as a function of C."""
    limits = {"tol": 1e-2, "time_limit": 3.0, "max_iter": 300}

    def pairs(surrogate: Any) -> Any:
        return lambda C: MultilabelSVM(C=C, pairwise=pairwise, surrogate=surrogate, **limits)

    return {
        "one SVM per label": lambda C: MultilabelSVM(C=C, **limits),
        "margin": pairs("margin"),
        "slack": pairs("slack"),
        "beta = 1/2": pairs(BetaScaling(0.5)),
        "micro-F1": pairs("micro_f1"),
        "ClassifierChain": lambda C: ClassifierChain(LogisticRegression(C=10 * C, max_iter=300), random_state=0),
        "MultiOutputClassifier": lambda C: MultiOutputClassifier(LogisticRegression(C=10 * C, max_iter=300)),
    }


def predictions(name: str, X: Any, Y: Any, pairwise: str, folds: int, grid: tuple[float, ...]) -> list[list[str]]:
    """Rows of the table: C is chosen on a quarter of the training part of every fold, by example F1."""
    found: dict[str, list[dict[str, float]]] = {}
    Y = Y.astype(np.int64)
    for train, test in KFold(folds, shuffle=True, random_state=0).split(X):
        scaler = StandardScaler().fit(X[train])
        part, held = train_test_split(train, test_size=0.25, random_state=0)
        # A column of one class only is more than logistic regression takes.
        kept = (Y[part].min(axis=0) == 0) & (Y[part].max(axis=0) == 1)
        rows = {"part": part, "held": held, "train": train, "test": test}
        inputs = {key: scaler.transform(X[at]) for key, at in rows.items()}
        labels = {key: Y[at][:, kept] for key, at in rows.items()}
        for model, make in models(pairwise).items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                scores = []
                for C in grid:
                    held_sets = make(C).fit(inputs["part"], labels["part"]).predict(inputs["held"]).astype(np.int64)
                    scores.append(measures(labels["held"], held_sets)["example F1"])
                best = make(grid[int(np.argmax(scores))]).fit(inputs["train"], labels["train"])
            found.setdefault(model, []).append(measures(labels["test"], best.predict(inputs["test"]).astype(np.int64)))
    table = []
    for model, results in found.items():
        cells = []
        for measure in results[0]:
            values = [result[measure] for result in results]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1) / np.sqrt(folds):.3f}")
        table.append([name, model, *cells])
        print(table[-1], flush=True)
    return table


def compared() -> str:
    """The section about searches."""
    rows = [
        *searches("yeast, 14 labels, 80 samples", *yeast(), 80, 0.01),
        *searches("bibtex, 14 most frequent labels, 40 samples", *bibtex(14, 500), 40, 0.01),
    ]
    text = (
        "Averages over samples and five stages (1, 2, 4, 8 and 16 rounds) of cutting-plane training with slack rescaling and "
        "all pairs of labels; every search runs on every sample, cold and warm: with sets it kept of the sample's last search "
        "and, for bisecting, the last weight of the loss. Angular and hull search know that losses are whole numbers and how "
        "large they can be; bisecting and Sarawagi's search are as published and ask for the largest margin error and the "
        "largest loss, bisecting only without a weight to begin with. All questions are counted. Angular search and bisecting "
        "stop at 0.999 of their bounds, hull search at the proof. Milliseconds are processor time, with decoders called from "
        f"Python. *Violated*: the set found is worth more than the slack of the sets known before plus {EPSILON}. *Missed*: "
        "its value is below 0.999 of the best, that of all 16,384 sets. The cone of angular search is answered by listing all "
        "sets too, which is what its time is. The multi-label RCV1 of the thesis is not among the data at hand (its excerpt "
        "has two classes); bibtex with its most frequent labels stands in."
    )
    header = ["data", "search", "start", "queries", "of bisecting's", "ms", "of bisecting's", "violated, %", "missed, %"]
    return f"## Searches\n\n{text}\n\n{markdown(header, rows)}"


def trained(folds: int) -> str:
    """The section about predictions."""
    grid = (1e-3, 1e-2, 1e-1)
    rows = [
        *predictions("emotions", *emotions(), "full", folds, grid),
        *predictions("scene, 1,000 pictures", *some(1000, *scene()), "full", folds, grid),
        *predictions("yeast, 1,000 genes", *some(1000, *yeast()), "tree", folds, grid),
        *predictions("bibtex, 600 documents, 20 labels", *bibtex(20, 600), "tree", folds, grid),
    ]
    text = (
        "Means and standard errors over three folds. C is one of 1e-3, 1e-2, 1e-1 (ten times that for logistic regression, whose "
        "loss is smaller), chosen for every model and fold by example F1 on a quarter of the training part. Features are "
        "standardised. All pairs of labels have scores for emotions and scene, those of a tree for yeast and bibtex. Training "
        "stops at a relative gap of 1 %, after 300 passes or 3 seconds, so that the largest C is often not trained to the end. "
        "Scene and yeast are random subsets, of bibtex the first 600 training documents with the 20 most frequent labels are "
        "taken.\n\n"
        "Of these bibtex documents 42 % have none of the labels, and an empty set that is right counts as an F1 of one. "
        "On one fold logistic regression predicts empty sets for 77 to 88 % of the documents, the others at their best "
        "C for 34 to 40 %; of documents that have labels its example F1 is 0.32 at best, theirs 0.51 to 0.54. Its best "
        "C there is the largest of the grid, so that it may be undertuned. With five folds, one smaller C and ten "
        "seconds, emotions gave 0.622 for margin and 0.643 for slack, the other way round than here: differences of a "
        "standard error or two mean nothing."
    )
    columns = ["example F1", "micro F1", "macro F1", "Jaccard", "Hamming loss"]
    return f"## Predictions\n\n{text}\n\n{markdown(['data', 'model', *columns], rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--only", choices=["searches", "predictions"], help="the other section stays as it is")
    options = parser.parse_args()
    sections = []
    if options.only != "predictions":
        sections.append(compared())
    if options.only != "searches":
        sections.append(trained(options.folds))
    path = Path(__file__).parent / "results" / "multilabel.md"
    update_report(path, "Sets of labels: searches and surrogates", "", sections)


if __name__ == "__main__":
    main()
