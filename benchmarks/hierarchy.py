"""Norms of hierarchies: synthetic trees, ImCLEF07A, yeast FunCat, beside HiClass; and the speed of a pass with 10,000 leaves.

``python -m benchmarks.hierarchy [synthetic] [imclef] [funcat] [speed]``. Every model gets its own grid of C, chosen on a part of
the training data that is held out, and is trained again on all of it.
"""

from __future__ import annotations

import argparse
import gzip
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import find
from benchmarks.timing import best_times, markdown, update_report
from maxmargin import HierarchicalSVM
from maxmargin.hierarchies import Hierarchy, NodeWeights
from maxmargin.problems import HierarchyProblem, MulticlassProblem
from maxmargin.solvers import BCFW
from maxmargin.structures import HierarchyStructure

GRID = tuple(10.0**k for k in range(-4, 3))
MODELS: dict[str, dict[str, Any]] = {
    "flat": {"norm": "flat"},
    "path": {"norm": "path"},
    "normalized, rho = 2": {"norm": "normalized"},
    "normalized, max-min": {"norm": "normalized", "rho": "max_min"},
    "normalized, without root": {"norm": "normalized", "include_root": False},
    "shared": {"norm": "shared", "rounds": 5},
}


def balanced(rng: np.random.Generator, n: int, p: int = 100) -> tuple[Hierarchy, Any, Any]:
    """A complete binary tree of 15 nodes with Gaussian weights; the label is the leaf with the largest sum."""
    tree = Hierarchy.from_parents([-1] + [(k - 1) // 2 for k in range(1, 15)])
    X = rng.normal(size=(n, p))
    scores = X @ (tree.membership() @ rng.normal(size=(15, p))).T
    return tree, X, tree.leaves[np.argmax(scores, axis=1)]


def unbalanced(rng: np.random.Generator, n: int, p: int = 1000, leaves: int = 11) -> tuple[Hierarchy, Any, Any]:
    """Space is halved by random hyperplanes, and always the same half again: a caterpillar of 2 * leaves - 1 nodes."""
    X = rng.normal(size=(n, p))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    parent, inner, y = [-1], 0, np.zeros(n, dtype=int)
    inside = np.ones(n, dtype=bool)
    for _ in range(leaves - 1):
        side = X @ rng.normal(size=p) > 0
        leaf, split = len(parent), len(parent) + 1
        parent += [inner, inner]
        y[inside & side], y[inside & ~side] = leaf, split
        inside &= ~side
        inner = split
    return Hierarchy.from_parents(parent), X, y


def fitted(settings: dict[str, Any], C: float, hierarchy: Hierarchy, X: Any, y: Any, limit: int) -> HierarchicalSVM:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return HierarchicalSVM(hierarchy, C=C, tol=1e-2, max_iter=limit, random_state=0, **settings).fit(X, y)


def tuned(
    settings: dict[str, Any], hierarchy: Hierarchy, train: Any, test: Any, score: Callable[..., float], limit: int
) -> tuple[float, float, float]:
    """The best C on the last fifth of the training data, the score on the test data, and the relative gap of the last fit."""
    X, y = train
    cut = len(X) * 4 // 5
    scores = [score(fitted(settings, C, hierarchy, X[:cut], y[:cut], limit), X[cut:], y[cut:]) for C in GRID]
    C = GRID[int(np.argmax(scores))]
    model = fitted(settings, C, hierarchy, X, y, limit)
    return C, score(model, *test), model.dual_gap_ / model.primal_objective_


def accuracy(model: HierarchicalSVM, X: Any, y: Any) -> float:
    return model.score(X, y)


def synthetic(seeds: int, n_train: int, limit: int) -> list[str]:
    sections = []
    for make in (balanced, unbalanced):
        results: dict[str, list[float]] = {name: [] for name in MODELS}
        gaps = dict.fromkeys(MODELS, 0.0)
        for seed in range(seeds):
            hierarchy, X, y = make(np.random.default_rng(seed), n_train + 3000)
            train, test = (X[:n_train], y[:n_train]), (X[n_train:], y[n_train:])
            for name, settings in MODELS.items():
                _, found, gap = tuned(settings, hierarchy, train, test, accuracy, limit)
                results[name].append(100 * found)
                gaps[name] = max(gaps[name], 100 * gap)
            print(make.__name__, seed, {name: round(found[-1], 1) for name, found in results.items()}, flush=True)
        rows = [
            [name, f"{np.mean(found):.1f}", f"{np.std(found, ddof=1) / np.sqrt(len(found)):.1f}",
             f"{np.mean(np.subtract(found, results['flat'])):+.1f}", f"{gaps[name]:.1f}"]
            for name, found in results.items()
        ]  # fmt: skip
        text = f"{n_train} training and 3000 test samples, {seeds} seeds, accuracy in percent."
        sections.append(
            f"## Synthetic, {make.__name__}\n\n{text}\n\n"
            + markdown(["model", "accuracy", "standard error", "against flat", "largest gap, %"], rows)
        )
    return sections


def clus(folder: str, file: str) -> tuple[list[str], Any, list[list[str]]]:
    """Nodes, features with means in place of what is missing, and label sets of a Clus ARFF file of numbers."""
    nodes: list[str] = []
    rows, labels = [], []
    with gzip.open(find(folder, file), "rt") as lines:
        for line in lines:
            word = line.strip()
            if word.lower().startswith("@attribute") and " hierarchical" in word.lower():
                nodes = word.split()[-1].split(",")
            elif word and not word.startswith(("@", "%")):
                *values, label = word.split(",")
                rows.append([float(v) if v != "?" else np.nan for v in values])
                labels.append(label.split("@"))
    X = np.array(rows)
    means = np.nan_to_num(np.nanmean(X, axis=0))
    return nodes, np.where(np.isnan(X), means, X), labels


def imclef(limit: int) -> list[str]:
    nodes, X, labels = clus("hier_imclef07a", "ImCLEF07A_Train.arff.gz")
    _, Z, truths = clus("hier_imclef07a", "ImCLEF07A_Test.arff.gz")
    hierarchy = Hierarchy.from_paths(nodes)
    y, t = (np.array([max(own, key=lambda path: path.count("/")) for own in sets]) for sets in (labels, truths))
    scale = StandardScaler().fit(X)
    order = np.random.default_rng(0).permutation(len(X))
    X, y, Z = scale.transform(X)[order], y[order], scale.transform(Z)
    rows = []
    for name, settings in MODELS.items():
        start = time.process_time()
        C, found, gap = tuned(settings, hierarchy, (X, y), (Z, t), accuracy, limit)
        rows.append([name, f"{C:g}", f"{100 * found:.1f}", f"{100 * gap:.1f}", f"{time.process_time() - start:.0f}"])
        print(rows[-1], flush=True)
    try:
        rows += hiclass_rows(X, y, Z, t)
    except ImportError:
        rows.append(["HiClass", "-", "not installed", "-", "-"])
    text = "10,000 training and 1,006 test images, 80 standardised features, 63 leaves at depth 3; accuracy of leaves in percent."
    return [
        f"## ImCLEF07A\n\n{text}\n\n"
        + markdown(["model", "C", "accuracy", "gap, %", "seconds of processor time, whole grid"], rows)
    ]


def hiclass_rows(X: Any, y: Any, Z: Any, t: Any) -> list[list[str]]:
    from hiclass import LocalClassifierPerParentNode
    from sklearn.svm import LinearSVC

    columns = np.array([path.split("/") for path in y])
    cut, scores, start = len(X) * 4 // 5, [], time.process_time()

    def run(C: float, rows: slice, inputs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return LocalClassifierPerParentNode(LinearSVC(C=C)).fit(X[rows], columns[rows]).predict(inputs)

    for C in GRID:
        scores.append(np.mean((run(C, slice(cut), X[cut:]) == columns[cut:]).all(axis=1)))
    C = GRID[int(np.argmax(scores))]
    right = np.mean(["/".join(row) == truth for row, truth in zip(run(C, slice(None), Z), t, strict=True)])
    return [["HiClass, a LinearSVC per parent", f"{C:g}", f"{100 * right:.1f}", "-", f"{time.process_time() - start:.0f}"]]


def funcat(limit: int) -> list[str]:
    rows = []
    for name in ("cellcycle", "spo"):
        try:
            parts = [clus("hier_yeast_funcat", f"{name}_FUN.{kind}.arff.gz") for kind in ("train", "valid", "test")]
        except ValueError:
            # Nominal attributes: left to the reader of ARFF files.
            continue
        hierarchy = Hierarchy.from_paths(parts[0][0])
        scale = StandardScaler().fit(parts[0][1])
        X, V, Z = (scale.transform(part[1]) for part in parts)
        Y, W, T = (hierarchy.indicators(part[2]) for part in parts)
        for norm in ("flat", "path", "normalized"):
            settings = {"norm": norm, "multilabel": True, "labels": "all", "loss": "hamming"}
            start = time.process_time()
            scores = [micro_f1(fitted(settings, C, hierarchy, X, Y, limit).predict(V), W) for C in (1e-4, 1e-3, 1e-2)]
            C = (1e-4, 1e-3, 1e-2)[int(np.argmax(scores))]
            found = micro_f1(fitted(settings, C, hierarchy, np.vstack([X, V]), np.vstack([Y, W]), limit).predict(Z), T)
            rows.append([name, norm, f"{C:g}", f"{100 * found:.1f}", f"{time.process_time() - start:.0f}"])
            print(rows[-1], flush=True)
    text = "Sets of labels, Hamming loss over nodes, micro-averaged F1 over the nodes below the root, in percent."
    return [f"## Yeast FunCat\n\n{text}\n\n" + markdown(["data", "norm", "C", "micro-F1", "seconds, whole grid"], rows)]


def micro_f1(found: Any, truth: Any) -> float:
    found, truth = np.asarray(found, dtype=bool)[:, 1:], np.asarray(truth, dtype=bool)[:, 1:]
    return 2 * float((found & truth).sum()) / max(1.0, float(found.sum() + truth.sum()))


def speed(repeats: int) -> list[str]:
    """A pass over sparse samples with 10,000 leaves against one with as many classes."""
    rng, rows = np.random.default_rng(0), []
    tree = Hierarchy.from_parents([-1] + [(k - 1) // 10 for k in range(1, 11_111)])
    for p in (300, 1000):
        n = 500
        X = sparse.random_array((n, p), density=30 / p, rng=rng, format="csr")
        y = rng.integers(0, len(tree.leaves), n)
        structure = HierarchyStructure(tree, p, NodeWeights().of(tree), loss="normalized")
        problems = {"hierarchy": HierarchyProblem(structure, X, y), "classes": MulticlassProblem(X, y, len(tree.leaves))}
        for problem in problems.values():
            _ = problem.block_data
        solver = BCFW(steps="exact", max_passes=4, check_every=3, tol=1e-9)
        tasks = {name: lambda problem=problem, solver=solver: solver.solve(problem, 1e-3) for name, problem in problems.items()}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = best_times(tasks, repeats)
        rows.append(
            [
                str(p),
                f"{1e3 * best['hierarchy'] / 4:.0f}",
                f"{1e3 * best['classes'] / 4:.0f}",
                f"{best['hierarchy'] / best['classes']:.2f}",
            ]
        )
        print(rows[-1], flush=True)
    text = (
        "500 samples of 30 features, a tree of 11,111 nodes with 10,000 leaves, four passes of exact block steps with one check; "
        "milliseconds of processor time per pass. The hierarchy keeps only labels in use, no table of costs and no "
        "distribution over all labels."
    )
    return [
        f"## Speed with 10,000 leaves\n\n{text}\n\n" + markdown(["features", "HierarchicalSVM", "MulticlassSVM", "ratio"], rows)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["speed", "imclef", "funcat", "synthetic"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--train", type=int, default=7000)
    parser.add_argument("--limit", type=int, default=300, help="passes of one fit; after that its gap is larger than 1 %%")
    options = parser.parse_args()
    runs = {
        "speed": lambda: speed(3),
        "imclef": lambda: imclef(options.limit),
        "funcat": lambda: funcat(options.limit),
        "synthetic": lambda: synthetic(options.seeds, options.train, options.limit),
    }
    for part in options.parts:
        update_report(Path(__file__).parent / "results" / "hierarchy.md", "Hierarchies of labels", "", runs[part]())


if __name__ == "__main__":
    main()
