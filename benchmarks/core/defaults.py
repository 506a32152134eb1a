"""Defaults against tuned C, every estimator on three small data sets.

Half of each set trains, a quarter chooses C of a grid, a quarter tests. Nothing but C is tuned, and every fit has a time limit.
``--only RankingSVM`` makes these rows anew and keeps the others.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import binary, find, mq2008, ocr_words
from benchmarks.sequences.tagging import named, without_tags
from benchmarks.timing import markdown, update_report
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

import maxmargin
from maxmargin.hierarchy import load_hierarchical
from maxmargin.multilabel import load_multilabel
from maxmargin.parsing import read_conllu
from maxmargin.sequences import read_conll

GRID = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)
LIMIT = 20.0  # seconds of a fit


class Task(NamedTuple):
    """Samples, their truths and, of rankings, their queries; further parameters of the estimator."""

    X: Any
    y: Any
    qid: Any = None
    parameters: dict[str, Any] | None = None


def standard(X: Any) -> Any:
    return StandardScaler().fit_transform(X)


def thinned(X: Any, y: Any, n: int, seed: int = 0) -> tuple[Any, Any]:
    rows = np.random.default_rng(seed).permutation(X.shape[0])[:n]
    return X[rows], y[rows]


def rankings() -> dict[str, Callable[[], Task]]:
    def web() -> Task:
        data = mq2008()[0]
        return Task(data.X, (data.y > 0).astype(int), data.qid)

    def pages() -> Task:
        X, y = thinned(*binary("w8a"), 4000)
        return Task(X, y.astype(int))

    def tumours() -> Task:
        X, y = load_breast_cancer(return_X_y=True)
        return Task(standard(X), 1 - y)

    return {"breast cancer, standardised": tumours, "w8a, 4,000 rows": pages, "MQ2008, first part, queries": web}


def classes() -> dict[str, Callable[[], Task]]:
    def digits() -> Task:
        X, y = load_digits(return_X_y=True)
        return Task(X / 16, y)

    def flowers() -> Task:
        X, y = load_iris(return_X_y=True)
        return Task(X, y)

    def wine() -> Task:
        X, y = load_wine(return_X_y=True)
        return Task(standard(X), y)

    return {"digits, in [0, 1]": digits, "iris": flowers, "wine, standardised": wine}


def sequences() -> dict[str, Callable[[], Task]]:
    def chunks() -> Task:
        found = read_conll(find("conll2000", "train.txt.gz"))[:800]
        return Task([named(sentence) for sentence in found], [[token[-1] for token in sentence] for sentence in found])

    def tags() -> Task:
        trees = read_conllu(find("ud_english_ewt", "en_ewt-ud-dev.conllu.gz"))[:800]
        found = [list(zip(tree.words, tree.tags, strict=True)) for tree in trees]
        return Task([without_tags(sentence) for sentence in found], [[tag for _, tag in sentence] for sentence in found])

    def letters() -> Task:
        data = ocr_words()[1]
        cut = data.offsets[1:-1]
        return Task(np.split(data.X[:, :128], cut), np.split(data.y, cut))

    return {"chunks, 800 sentences": chunks, "part-of-speech tags, 800 sentences": tags, "letters, 626 words": letters}


def label_sets() -> dict[str, Callable[[], Task]]:
    def of(data: Any, n: int) -> Task:
        X = data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)
        Y = data.Y.toarray() if hasattr(data.Y, "toarray") else np.asarray(data.Y)
        X, Y = thinned(X, Y.astype(int), n)
        return Task(standard(X), Y)

    def emotions() -> Task:
        folder = find("multilabel_emotions", "emotions.xml")
        return of(load_multilabel(folder.with_name("emotions-train.arff.gz"), folder), 600)

    def scenes() -> Task:
        return of(load_multilabel(find("multilabel_scene", "scene.arff.bz2")), 600)

    def synthetic() -> Task:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(500, 8))
        return Task(X, (X @ rng.normal(size=(8, 5)) + rng.normal(size=(500, 5)) > 0.5).astype(int))

    return {"emotions, standardised": emotions, "scene, standardised, 600 rows": scenes, "five noisy planes": synthetic}


def hierarchies() -> dict[str, Callable[[], Task]]:
    edges = [("all", "even"), ("all", "odd"), *(("even" if k % 2 == 0 else "odd", str(k)) for k in range(10))]

    def digits() -> Task:
        X, y = load_digits(return_X_y=True)
        return Task(X / 16, y.astype(str), None, {"hierarchy": edges})

    def images() -> Task:
        data = load_hierarchical(find("hier_imclef07a", "ImCLEF07A_Train.arff.gz"))
        deepest = np.array([max(own, key=lambda path: path.count("/")) for own in data.label_sets])
        X, y = thinned(np.asarray(data.X), deepest, 800)
        return Task(standard(X), y, None, {"hierarchy": data.edges})

    def synthetic() -> Task:
        rng = np.random.default_rng(0)
        y = rng.integers(0, 10, 500)
        centres = rng.normal(size=(10, 6))
        return Task(centres[y] + 0.8 * rng.normal(size=(500, 6)), y.astype(str), None, {"hierarchy": edges})

    return {"digits, even and odd": digits, "ImCLEF07A, 800 rows, standardised": images, "ten noisy centres": synthetic}


def parses() -> dict[str, Callable[[], Task]]:
    def of(part: str, first: int, n: int) -> Callable[[], Task]:
        def load() -> Task:
            trees = read_conllu(find("ud_english_ewt", f"en_ewt-ud-{part}.conllu.gz"))[first : first + n]
            trees = [tree for tree in trees if len(tree.words) <= 20]
            return Task([(t.words, t.tags) for t in trees], [t.heads for t in trees], None, {"labelled": False, "hash_bits": 16})

        return load

    return {
        "EWT, development part": of("dev", 0, 400),
        "EWT, test part": of("test", 0, 400),
        "EWT, training part": of("train", 6000, 400),
    }


def graphs() -> dict[str, Callable[[], Task]]:
    def of(noise: float, n_labels: int, size: int) -> Callable[[], Task]:
        def make() -> Task:
            rng = np.random.default_rng(size)
            X, y = [], []
            for _ in range(60):
                labels = (np.add.outer(np.arange(size), np.arange(size)) // 3 + rng.integers(0, n_labels)) % n_labels
                right = [(size * r + c, size * r + c + 1) for r in range(size) for c in range(size - 1)]
                down = [(size * r + c, size * r + c + size) for r in range(size - 1) for c in range(size)]
                features = np.eye(n_labels)[labels.ravel()] + noise * rng.normal(size=(size * size, n_labels))
                X.append((np.hstack([features, np.ones((size * size, 1))]), np.array(right + down)))
                y.append(labels.ravel())
            return Task(X, y, None, {"pairwise": "attractive", "tol": 1e-2})

        return make

    return {"stripes, two labels": of(0.7, 2, 6), "stripes, noise": of(1.2, 2, 5), "stripes, three labels": of(0.7, 3, 5)}


def bags() -> dict[str, Callable[[], Task]]:
    def of(shift: float, noise: float, d: int) -> Callable[[], Task]:
        def make() -> Task:
            rng = np.random.default_rng(d)
            y = (rng.random(300) < 0.3).astype(int)
            X = noise * rng.normal(size=(300, 4, d))
            X[y == 1, 0, 0] += shift
            return Task(X, y, None, {"random_state": 0})

        return make

    return {"shifted, 2 features": of(3, 1, 2), "shifted, 10 features": of(3, 1, 10), "small features": of(0.3, 0.1, 5)}


ESTIMATORS: dict[str, tuple[str, dict[str, Callable[[], Task]]]] = {
    "RankingSVM": ("AP", rankings()),
    "LatentRankingSVM": ("AP", bags()),
    "MulticlassSVM": ("right", classes()),
    "ChainSVM": ("tags right", sequences()),
    "MultilabelSVM": ("micro F1", label_sets()),
    "HierarchicalSVM": ("right", hierarchies()),
    "ParserSVM": ("heads right", parses()),
    "GraphSVM": ("labels right", graphs()),
}


def take(values: Any, rows: Sequence[int]) -> Any:
    return [values[k] for k in rows] if isinstance(values, list) else values[rows]


def parts(task: Task) -> list[tuple[Any, Any, Any]]:
    """Half, a quarter and a quarter of the samples, or of the queries."""
    n = task.X.shape[0] if hasattr(task.X, "shape") else len(task.X)
    units = np.arange(n) if task.qid is None else np.unique(task.qid, return_inverse=True)[1]
    order = np.random.default_rng(1).permutation(units.max() + 1)
    place = np.empty(len(order))
    place[order] = np.arange(len(order)) / len(order)
    cuts = [np.flatnonzero((place[units] >= a) & (place[units] < b)) for a, b in ((0, 0.5), (0.5, 0.75), (0.75, 1.1))]
    return [(take(task.X, own), take(task.y, own), None if task.qid is None else task.qid[own]) for own in cuts]


def score(model: Any, X: Any, y: Any, qid: Any) -> float:
    if type(model).__name__ == "MultilabelSVM":
        found = np.asarray(model.predict(X))
        return float(2 * np.sum(found * y) / max(1, np.sum(found) + np.sum(y)))
    return float(model.score(X, y) if qid is None else model.score(X, y, qid=qid))


def fitted(name: str, parameters: dict[str, Any], data: tuple[Any, Any, Any]) -> tuple[Any, float]:
    X, y, qid = data
    model = getattr(maxmargin, name)(**parameters, time_limit=LIMIT)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y) if qid is None else model.fit(X, y, qid=qid)
    return model, time.process_time() - start


def row(name: str, data: str, task: Task) -> list[str]:
    train, validation, test = parts(task)
    own = task.parameters or {}
    model, seconds = fitted(name, own, train)
    usual = score(model, *test)
    tried = {C: fitted(name, {**own, "C": C}, train) for C in GRID}
    chosen = max(GRID, key=lambda C: (score(tried[C][0], *validation), -C))
    tuned = score(tried[chosen][0], *test)
    own_C = getattr(model, "C_", model.C)
    print(name, data, f"{usual:.4f} at {own_C:.3g}, {tuned:.4f} at {chosen:g}", flush=True)
    return [
        data, f"{own_C:.3g}", f"{100 * usual:.1f}", f"{chosen:g}", f"{100 * tuned:.1f}", f"{100 * (usual - tuned):+.1f}",
        f"{seconds:.1f}", f"{tried[chosen][1]:.1f}",
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=ESTIMATORS, default=list(ESTIMATORS))
    options = parser.parse_args()
    introduction = (
        f"Half of each set trains, a quarter chooses C of {', '.join(f'{C:g}' for C in GRID)}, a quarter tests. Nothing but C is "
        f"tuned, other parameters are the defaults (trees of words without labels; graphs with tol = 0.01), every fit ends after "
        f"{LIMIT:.0f} s. Scores in percent of the test quarter, processor seconds of a fit. Test quarters are small: differences "
        "of a percent or two are noise."
    )
    path = FOLDER / "results" / "defaults.md"
    for name in options.only:
        metric, sets = ESTIMATORS[name]
        rows = [row(name, data, load()) for data, load in sets.items()]
        usual, tuned = f"default: {metric}", f"tuned: {metric}"
        header = ["data", "default C", usual, "tuned C", tuned, "difference", "default, s", "tuned, s"]
        update_report(path, "Defaults against tuned C", introduction, [f"## {name}\n\n{markdown(header, rows)}"])


if __name__ == "__main__":
    main()
