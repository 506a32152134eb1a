"""Norms of hierarchies: synthetic trees, ImCLEF07A, yeast FunCat, beside HiClass; and the speed of a pass with 10,000 leaves.

``python -m benchmarks.hierarchy.hierarchy [speed] [weights] [balanced] [unbalanced] [imclef] [funcat] [slack] [set_speed]``.
Every model gets its own C, searched for on a part of the training data that is held out, and is trained again on all of it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import best_times, markdown, update_report
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from maxmargin import HierarchicalSVM
from maxmargin.core.solvers import BCFW
from maxmargin.hierarchy import (
    Hierarchy,
    HierarchyProblem,
    HierarchySetProblem,
    HierarchySetStructure,
    HierarchyStructure,
    NodeWeights,
    load_hierarchical,
)
from maxmargin.multiclass import MulticlassProblem
from maxmargin.surrogates import (
    BetaScaling,
    GeneralizedScaling,
    LogLoss,
    Margin,
    MicroF1,
    ProbLoss,
    Slack,
    StructuredProblem,
    Surrogate,
)

MODELS: dict[str, dict[str, Any]] = {
    "flat": {"norm": "flat"},
    "path (HSVM)": {"norm": "path"},
    "normalized, rho = 2 (NHSVM)": {"norm": "normalized"},
    "normalized, max-min": {"norm": "normalized", "rho": "max_min"},
    "normalized, without root": {"norm": "normalized", "include_root": False},
    "shared (SSVM)": {"norm": "shared", "rounds": 5},
    "recursive (HR-SVM)": {"norm": "recursive"},
}
# Half decades of C with which the search for the best one begins; it goes on until both neighbours are worse.
STARTS = dict.fromkeys(MODELS, 0) | {"path (HSVM)": 2, "recursive (HR-SVM)": 2}
# It never goes farther than that.
FARTHEST = 12


def balanced(rng: np.random.Generator, n: int, p: int = 100) -> tuple[Hierarchy, Any, Any]:
    """A complete binary tree of depth 4 with Gaussian weights; the label is the leaf with the largest sum.

    It has 2^4 - 1 = 15 nodes and 8 leaves (E29).
    """
    tree = Hierarchy.from_parents([-1] + [(k - 1) // 2 for k in range(1, 15)])
    X = rng.normal(size=(n, p))
    scores = X @ (tree.membership() @ rng.normal(size=(15, p))).T
    return tree, X, tree.leaves[np.argmax(scores, axis=1)]


def unbalanced(rng: np.random.Generator, n: int, p: int = 1000, leaves: int = 11) -> tuple[Hierarchy, Any, Any]:
    """Space is halved by random hyperplanes, and always the same half again: a caterpillar of 2 * leaves - 1 nodes (E29)."""
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


def climb(score: Callable[[float], float], start: int | range) -> tuple[float, bool]:
    """The best C = 10^(k / 2) next to two that are not better, by steps from ``start``; and whether there is one.

    With a range it begins at the best of that.
    """
    found: dict[int, float] = {}

    def at(k: int) -> float:
        if k not in found:
            found[k] = score(10.0 ** (k / 2))
        return found[k]

    best = start if isinstance(start, int) else max(start, key=at)
    while abs(best) < FARTHEST:
        around = {k: at(k) for k in (best - 1, best, best + 1)}
        # Where C is very small, predictions do not depend on it: equals are no reason to go on.
        better = max(around, key=lambda k: (around[k], k == best))
        if better == best:
            return 10.0 ** (best / 2), True
        best = better
    return 10.0 ** (best / 2), False


def estimator(settings: dict[str, Any], hierarchy: Hierarchy, limit: int) -> HierarchicalSVM:
    warm = settings["norm"] != "shared"
    return HierarchicalSVM(hierarchy, tol=1e-2, max_iter=limit, random_state=0, warm_start=warm, **settings)


def fitted(model: HierarchicalSVM, C: float, X: Any, y: Any) -> HierarchicalSVM:
    """Fitted with another C, from where the last one ended."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.set_params(C=C).fit(X, y)


class Tuned(NamedTuple):
    """The chosen C, whether its neighbours are worse, the model trained with it, and its relative gap."""

    C: float
    inside: bool
    model: HierarchicalSVM

    @property
    def gap(self) -> float:
        return float(self.model.dual_gap_ / self.model.primal_objective_)


def tuned(
    settings: dict[str, Any],
    start: int | range,
    hierarchy: Hierarchy,
    train: Any,
    valid: Any,
    score: Callable[..., float],
    limit: int,
) -> Tuned:
    """The C that is best on validation data, and the model trained on both parts with it."""
    model = estimator(settings, hierarchy, limit)
    C, inside = climb(lambda C: score(fitted(model, C, *train), *valid), start)
    both = np.concatenate([train[0], valid[0]]), np.concatenate([train[1], valid[1]])
    return Tuned(C, inside, fitted(estimator(settings, hierarchy, limit), C, *both))


def accuracy(model: HierarchicalSVM, X: Any, y: Any) -> float:
    return model.score(X, y)


def standard_error(values: Any) -> float:
    return float(np.std(values, ddof=1) / np.sqrt(len(values)))


def synthetic(make: Callable[..., Any], seeds: int, n_train: int, p: int, limit: int, norms: Sequence[str]) -> list[str]:
    models = {name: own for name, own in MODELS.items() if not norms or name.split()[0].rstrip(",") in norms}
    if norms:
        # A few models: those of the source, as it has them.
        models = {name: own for name, own in models.items() if not {"rho", "include_root"} & own.keys()}
    results: dict[str, list[float]] = {name: [] for name in models}
    chosen: dict[str, list[float]] = {name: [] for name in models}
    gaps, ends = dict.fromkeys(models, 0.0), dict.fromkeys(models, 0)
    spent = dict.fromkeys(models, 0.0)
    for seed in range(seeds):
        hierarchy, X, y = make(np.random.default_rng(seed), n_train + 3000, p)
        cut = n_train * 4 // 5
        parts = [(X[low:high], y[low:high]) for low, high in ((0, cut), (cut, n_train), (n_train, len(X)))]
        for name, settings in models.items():
            begin = time.process_time()
            own = tuned(settings, STARTS[name], hierarchy, *parts[:2], accuracy, limit)
            spent[name] += time.process_time() - begin
            results[name].append(100 * own.model.score(*parts[2]))
            chosen[name].append(own.C)
            gaps[name] = max(gaps[name], 100 * own.gap)
            ends[name] += not own.inside
            # Where the last seed ended is a good place to begin.
            STARTS[name] = round(2 * np.log10(own.C))
        print(make.__name__, seed, {name: round(found[-1], 1) for name, found in results.items()}, flush=True)
    rows = []
    for name, found in results.items():
        difference = np.subtract(found, results["flat"])
        against = "-" if name == "flat" else f"{difference.mean():+.1f} ± {standard_error(difference):.1f}"
        low, high = min(chosen[name]), max(chosen[name])
        rows.append([name, f"{np.mean(found):.1f} ± {standard_error(found):.1f}", against, f"{low:.2g} to {high:.2g}",
                     str(ends[name]), f"{gaps[name]:.0f}", f"{spent[name]:.0f}"])  # fmt: skip
    text = (
        f"{n_train} training samples of {p} features (a fifth of them for choosing C), 3000 test samples, {seeds} seeds; "
        "accuracy in percent with its standard error, and the paired difference to flat. C goes by half decades until both "
        f"neighbours are not better. A fit ends at a gap of 1 % or after {limit} passes; for the shared norm after "
        f"{MODELS['shared (SSVM)']['rounds']} rounds of these. The source has 7000 to 8000 samples of 1000 features"
        + (", about as many per feature; this is smaller to save processor time." if p < 1000 else ".")
    )
    header = ["model", "accuracy", "against flat", "C", "C at an end", "largest gap, %", "seconds of processor time"]
    size = f", {n_train} samples" if norms else ""
    return [f"## Synthetic, {make.__name__}{size}\n\n{text}\n\n" + markdown(header, rows)]


def imclef(limit: int) -> list[str]:
    """Every model once; standard errors by drawing the test images again."""
    train, test = (load_hierarchical(find("hier_imclef07a", f"ImCLEF07A_{part}.arff.gz")) for part in ("Train", "Test"))
    hierarchy = Hierarchy(train.edges)
    y, t = (np.array([max(own, key=lambda path: path.count("/")) for own in data.label_sets]) for data in (train, test))
    scale = StandardScaler().fit(train.X)
    order = np.random.default_rng(0).permutation(len(y))
    X, y, Z = np.ascontiguousarray(scale.transform(train.X)[order]), y[order], scale.transform(test.X)
    cut = len(y) * 4 // 5
    right, columns = {}, {}
    for name, settings in MODELS.items():
        begin = time.process_time()
        own = tuned(settings, -4, hierarchy, (X[:cut], y[:cut]), (X[cut:], y[cut:]), accuracy, limit)
        right[name] = own.model.predict(Z) == t
        columns[name] = [f"{own.C:.2g}", f"{100 * own.gap:.1f}", f"{time.process_time() - begin:.0f}"]
        print(name, 100 * right[name].mean(), columns[name], flush=True)
    name, begin = "HiClass, a LinearSVC per parent", time.process_time()
    C, right[name] = hiclass_paths(X, y, cut, Z, t)
    columns[name] = [f"{C:.2g}", "-", f"{time.process_time() - begin:.0f}"]
    draws = np.random.default_rng(1).integers(0, len(t), size=(1000, len(t)))
    rows = []
    for name, own in right.items():
        difference = own[draws].mean(axis=1) - right["flat"][draws].mean(axis=1)
        against = "-" if name == "flat" else f"{100 * (own.mean() - right['flat'].mean()):+.1f} ± {100 * difference.std():.1f}"
        rows.append([name, f"{100 * own.mean():.1f} ± {100 * own[draws].mean(axis=1).std():.1f}", against, *columns[name]])
    text = (
        "10,000 training images (a fifth of them for choosing C) and 1,006 test images, 80 standardised features, 63 leaves at "
        "depth 3; accuracy of leaves in percent. Standard errors, also those of differences, by 1000 bootstrap draws of the test "
        "images."
    )
    header = ["model", "accuracy", "against flat", "C", "gap, %", "seconds of processor time"]
    return [f"## ImCLEF07A\n\n{text}\n\n" + markdown(header, rows)]


def hiclass_model(C: float, X: Any, paths: list[str], class_weight: str | None = None) -> Any:
    from hiclass import LocalClassifierPerParentNode
    from sklearn.svm import LinearSVC

    depth = max(path.count("/") for path in paths) + 1
    columns = np.full((len(paths), depth), "", dtype=object)
    for row, path in zip(columns, paths, strict=True):
        parts = path.split("/")
        row[: len(parts)] = ["/".join(parts[: k + 1]) for k in range(len(parts))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LocalClassifierPerParentNode(LinearSVC(C=C, class_weight=class_weight)).fit(X, columns)


def deepest(columns: Any) -> Any:
    return np.array([[entry for entry in row if entry][-1] for row in columns])


def hiclass_paths(X: Any, y: Any, cut: int, Z: Any, t: Any) -> tuple[float, Any]:
    C, _ = climb(lambda C: float((deepest(hiclass_model(C, X[:cut], list(y[:cut])).predict(X[cut:])) == y[cut:]).mean()), -4)
    return C, deepest(hiclass_model(C, X, list(y)).predict(Z)) == t


# Margin rescaling of the Hamming loss answers what is more likely than not; the surrogate of the F1 bounds what is measured.
# Every node is a label here, so path is flat but for the root.
FUNCAT: dict[str, dict[str, Any]] = {
    "flat, margin": {"norm": "flat"},
    "normalized, margin": {"norm": "normalized"},
    "shared, margin": {"norm": "shared", "rounds": 3, "solver": "one_slack"},
    "flat, micro-F1": {"norm": "flat", "surrogate": "micro_f1"},
    "normalized, micro-F1": {"norm": "normalized", "surrogate": "micro_f1"},
}

# Every second decade first: there may be several hills.
FUNCAT_STARTS = range(-8, 1, 4)


def funcat_parts(data: str) -> list[Any]:
    return [load_hierarchical(find("hier_yeast_funcat", f"{data}_FUN.{kind}.arff.gz")) for kind in ("train", "valid", "test")]


def funcat_data(data: str) -> tuple[Hierarchy, list[Any], list[Any]]:
    """The catalogue; standardised features of genes for training, validation and test; their sets of functions."""
    parts = funcat_parts(data)
    hierarchy, scale = Hierarchy(parts[0].edges), StandardScaler().fit(parts[0].X)
    inputs = [np.ascontiguousarray(scale.transform(part.X)) for part in parts]
    return hierarchy, inputs, [hierarchy.indicators([list(own) for own in part.label_sets]) for part in parts]


def funcat(limit: int) -> list[str]:
    """Sets of functions of genes."""
    sections = []
    for data in ("cellcycle", "spo"):
        parts = funcat_parts(data)
        hierarchy, (X, V, Z), (Y, W, T) = funcat_data(data)
        rows = []
        for name, settings in FUNCAT.items():
            begin = time.process_time()
            own = tuned(
                {"multilabel": True, "labels": "all", "loss": "hamming"} | settings,
                FUNCAT_STARTS,
                hierarchy, (X, Y), (V, W), lambda model, A, B: micro_f1(model.predict(A), B), limit,
            )  # fmt: skip
            found = own.model.predict(Z)
            rows.append([name, f"{own.C:.2g}", "no" if own.inside else "yes", *measures(found, T), mean_size(found),
                         f"{100 * own.gap:.1f}", f"{time.process_time() - begin:.0f}"])  # fmt: skip
            print(data, rows[-1], flush=True)
        for weight in (None, "balanced"):
            begin = time.process_time()
            name = "HiClass, a LinearSVC per parent, one path" + (", balanced classes" if weight else "")
            rows.append([name, *hiclass_sets(hierarchy, parts[:2], (X, V, Z), W, T, weight), "-",
                         f"{time.process_time() - begin:.0f}"])  # fmt: skip
            print(data, rows[-1], flush=True)
        text = (
            f"{len(X)} + {len(V)} training and {len(Z)} test genes, {X.shape[1]} standardised features, {len(hierarchy)} nodes; "
            f"a gene has {mean_size(T)} of them below the root on average. Sets of labels, Hamming loss over nodes; "
            "F1 in percent over the nodes below the root, pooled (micro; that is also the hierarchical F measure, as sets are "
            "closed), by gene and by node; the mean size of answers. C is the best micro-F1 on the validation part, the same "
            f"search for all, and fits end at a gap of 1 % or after {limit} passes. HiClass answers with one path: it is trained "
            "on every gene once for each of its most special labels. The shared norm is trained by cutting planes, which bound "
            "nothing over all alpha. Every node is a label here, so flat is path but for the root."
        )
        header = ["model", "C", "C at an end", "micro-F1", "by gene", "by node", "size", "gap, %", "seconds of processor time"]
        sections.append(f"## Yeast FunCat, {data}\n\n{text}\n\n" + markdown(header, rows))
    return sections


def hiclass_sets(hierarchy: Hierarchy, parts: Any, inputs: Any, W: Any, T: Any, weight: str | None) -> list[str]:
    X, V, Z = inputs

    def expanded(X: Any, part: Any) -> tuple[Any, list[str]]:
        ends = [[own for own in names if not any(other.startswith(own + "/") for other in names)] for names in part.label_sets]
        return X[np.repeat(np.arange(len(X)), [len(own) for own in ends])], [own for names in ends for own in names]

    def answers(model: Any, inputs: Any) -> Any:
        return hierarchy.indicators([[name] for name in deepest(model.predict(inputs))])

    first = expanded(X, parts[0])
    C, inside = climb(lambda C: micro_f1(answers(hiclass_model(C, *first, weight), V), W), FUNCAT_STARTS)
    second = expanded(V, parts[1])
    model = hiclass_model(C, np.vstack([first[0], second[0]]), first[1] + second[1], weight)
    found = answers(model, Z)
    return [f"{C:.2g}", "no" if inside else "yes", *measures(found, T), mean_size(found)]


def mean_size(sets: Any) -> str:
    return f"{np.asarray(sets, dtype=bool)[:, 1:].sum(axis=1).mean():.1f}"


def measures(found: Any, truth: Any) -> list[str]:
    """F1 pooled, the mean over samples, and the mean over nodes that occur."""
    found, truth = np.asarray(found, dtype=bool)[:, 1:], np.asarray(truth, dtype=bool)[:, 1:]
    values = [micro_f1(np.insert(found, 0, True, axis=1), np.insert(truth, 0, True, axis=1))]
    for axis in (1, 0):
        both, sizes = (found & truth).sum(axis=axis), found.sum(axis=axis) + truth.sum(axis=axis)
        kept = truth.any(axis=axis)
        values.append(float((2 * both[kept] / sizes[kept]).mean()))
    return [f"{100 * value:.1f}" for value in values]


def label_sets(rng: np.random.Generator, n: int, p: int) -> tuple[Hierarchy, Any, Any]:
    """The tree of :func:`balanced`; a sample has the best leaf, and all others whose noisy scores are among the best fifth."""
    tree = Hierarchy.from_parents([-1] + [(k - 1) // 2 for k in range(1, 15)])
    X = rng.normal(size=(n, p))
    scores = X @ (tree.membership() @ rng.normal(size=(15, p))).T
    scores += rng.normal(size=scores.shape) * scores.std() / 2
    leaves = scores >= np.minimum(np.quantile(scores, 0.8), scores.max(axis=1, keepdims=True))
    chosen = np.zeros((n, 15), dtype=int)
    chosen[:, tree.leaves] = leaves
    return tree, X, tree.closed(chosen)


SURROGATES: dict[str, Surrogate] = {
    "margin": Margin(),
    "slack": Slack(),
    "beta scaling, 1/2": BetaScaling(0.5),
    "generalized scaling, 0.8 and 0.3": GeneralizedScaling(0.8, 0.3),
    "micro-F1": MicroF1(),
    "log": LogLoss(),
    "probability": ProbLoss(),
}


def set_speed(repeats: int) -> list[str]:
    """Passes over sets of labels in trees under every surrogate; and slack rescaling the general way, with Python searches."""
    rng = np.random.default_rng(0)
    tree, X, Y = label_sets(rng, 400, 30)
    genes, G, S = funcat_data("cellcycle")
    cases = [
        (f"{len(tree)} nodes", tree, X, Y, 1e-2, 1.0),
        ("400 genes", genes, G[0][:400], S[0][:400], 1e-2, 1.0),
        ("all genes", genes, G[0], S[0], 1e-2, 1.0),
        ("all genes, lambda 1e-4", genes, G[0], S[0], 1e-4, 1.0),
        # The root is never wrong.
        ("all genes, loss at most 1", genes, G[0], S[0], 1e-2, len(genes) - 1.0),
    ]
    spent: dict[str, list[str]] = {name: [] for name in [*SURROGATES, "slack, searches in Python"]}
    for name, hierarchy, A, B, lam, unit in cases:
        ends = np.arange(len(hierarchy)) > 0 if hierarchy is genes else None
        structure = HierarchySetStructure(hierarchy, A.shape[1], NodeWeights().of(hierarchy), ends, "hamming")
        structure.per_node /= unit
        solver = BCFW(steps="exact", max_passes=10, check_every=5, tol=1e-9)
        problems = {own: HierarchySetProblem(structure, A, B.astype(bool), None, psi) for own, psi in SURROGATES.items()}
        for problem in problems.values():
            _ = problem.block_data
        tasks: dict[str, Callable[[], object]] = {
            own: lambda problem=problem, solver=solver, lam=lam: solver.solve(problem, lam) for own, problem in problems.items()
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            best = best_times(tasks, repeats)
            if hierarchy is tree:
                pairwise = BCFW(steps="pairwise", cache=20, max_passes=10, check_every=5, tol=1e-9)
                general = StructuredProblem(structure, list(A[:40]), list(B[:40].astype(bool)), Slack())
                begin = time.process_time()
                pairwise.solve(general, lam)
                best["slack, searches in Python"] = (time.process_time() - begin) * len(A) / 40
        for own in spent:
            seconds = best.get(own)
            if seconds is None:
                spent[own] += ["-", "-"]
            else:
                spent[own] += [f"{1e6 * seconds / 10 / len(A):.1f}", f"{seconds / best['margin']:.1f}"]
            print(name, own, spent[own][-2:], flush=True)
    text = (
        "Sets of labels, Hamming loss over nodes: ten passes of exact block steps with two checks of the gap, microseconds of "
        f"processor time per sample and pass, the least of {repeats} runs in turns, and the ratio to margin rescaling. 400 "
        "samples of 30 features in a complete "
        f"binary tree of 15 nodes; 400 and all {len(G[0])} genes of {G[0].shape[1]} features in the catalogue of {len(genes)} "
        "functions. Lambda is 1e-2 unless the column says otherwise. The same lambda is another problem for every surrogate: "
        "with all genes and losses of up to 499 margin rescaling is soon at its optimum, and most of its visits end without a "
        "step, while slack rescaling, which multiplies margins by losses, is far from its own after ten passes. Where losses are "
        "divided by the largest one, as in the last column, margin rescaling has steps to make too. The last row is the general "
        "way that graphs still go, on 40 samples of the small tree."
    )
    header = ["surrogate"] + [cell for name, *_ in cases for cell in (name, "ratio")]
    rows = [[own, *row] for own, row in spent.items()]
    return [f"## Speed of surrogates for sets of labels\n\n{text}\n\n" + markdown(header, rows)]


def slack(seeds: int, limit: int, n: int = 400, p: int = 30) -> list[str]:
    """Slack against margin rescaling for sets of labels."""
    names = ("accuracy", "label loss", "F1 by sample", "micro-F1")
    found: dict[str, list[list[float]]] = {"margin": [], "slack": []}
    chosen: dict[str, list[float]] = {"margin": [], "slack": []}
    gaps, seconds, ends = dict.fromkeys(found, 0.0), dict.fromkeys(found, 0.0), dict.fromkeys(found, 0)
    for seed in range(seeds):
        hierarchy, X, Y = label_sets(np.random.default_rng(seed), n + n // 2 + 1000, p)
        train, valid, test = ((X[a:b], Y[a:b]) for a, b in ((0, n), (n, n + n // 2), (n + n // 2, len(X))))
        for surrogate in found:
            settings = {"norm": "normalized", "multilabel": True, "surrogate": surrogate}
            begin = time.process_time()
            own = tuned(settings, 0, hierarchy, train, valid, lambda model, A, B: jaccard(model.predict(A), B), limit)
            seconds[surrogate] += time.process_time() - begin
            answer, truth = np.asarray(own.model.predict(test[0]), dtype=bool), test[1]
            leaves = hierarchy.leaves
            wrong = float((answer[:, leaves] != truth[:, leaves]).mean())
            by_sample = float(measures(answer, truth)[1])
            found[surrogate].append([100 * jaccard(answer, truth), 100 * wrong, by_sample, 100 * micro_f1(answer, truth)])
            chosen[surrogate].append(own.C)
            gaps[surrogate], ends[surrogate] = max(gaps[surrogate], 100 * own.gap), ends[surrogate] + (not own.inside)
            print(seed, surrogate, found[surrogate][-1], f"{own.C:.2g}", round(own.gap, 3), seconds[surrogate], flush=True)
    rows = []
    for surrogate, values in found.items():
        cells = [f"{np.mean(own):.1f} ± {standard_error(own):.1f}" for own in zip(*values, strict=True)]
        rows.append([surrogate, *cells, f"{min(chosen[surrogate]):.2g} to {max(chosen[surrogate]):.2g}", str(ends[surrogate]),
                     f"{gaps[surrogate]:.0f}", f"{seconds[surrogate]:.0f}"])  # fmt: skip
    difference = np.subtract(found["slack"], found["margin"])
    cells = [f"{own.mean():+.1f} ± {standard_error(own):.1f}" for own in difference.T]
    rows.append(["slack - margin", *cells, "", "", "", ""])
    text = (
        f"Sets of leaves of a complete binary tree of 15 nodes, {n} + {n // 2} training and 1000 test samples of {p} features, "
        f"{seeds} seeds, normalized weights, wrong leaves as loss. Accuracy is the mean Jaccard index of the nodes below the "
        "root, by which C is chosen; label loss the part of leaves that are wrong; all in percent, with standard errors."
    )
    header = ["surrogate", *names, "C", "C at an end", "largest gap, %", "seconds of processor time"]
    return [f"## Sets of labels with slack rescaling\n\n{text}\n\n" + markdown(header, rows)]


def jaccard(found: Any, truth: Any) -> float:
    """Mean over samples, of the nodes below the root; 1 where both have none."""
    found, truth = np.asarray(found, dtype=bool)[:, 1:], np.asarray(truth, dtype=bool)[:, 1:]
    both, either = (found & truth).sum(axis=1), (found | truth).sum(axis=1)
    return float(np.where(either > 0, both / np.maximum(either, 1), 1.0).mean())


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


def node_weights() -> list[str]:
    """Seconds of the convex programs behind the weights of nodes."""
    rng, rows = np.random.default_rng(0), []
    graphs = {
        "complete tree": Hierarchy.from_parents([-1] + [(k - 1) // 10 for k in range(1, 11_111)]),
        "random tree": Hierarchy.from_parents([-1] + [int(rng.integers(0, k)) for k in range(1, 11_111)]),
        "random graph": Hierarchy(
            [(int(a), k) for k in range(1, 3000) for a in rng.choice(k, size=min(k, int(rng.integers(1, 3))), replace=False)]
        ),
    }
    kinds = {
        "rho = 2": NodeWeights(),
        "directional": NodeWeights(directional=True),
        "max-min": NodeWeights("max_min"),
        "slack 1.5": NodeWeights(slack=1.5),
    }
    for name, graph in graphs.items():
        sums = np.asarray(graph.membership().sum(axis=1))
        row = [name, str(len(graph)), str(len(graph.leaves)), f"{sums.mean():.1f}"]
        for kind in kinds.values():
            begin = time.process_time()
            kind._by_program(graph)
            row.append(f"{time.process_time() - begin:.1f}")
        rows.append(row)
        print(row, flush=True)
    text = (
        "Seconds of processor time of the interior point method for the weights of all nodes; also for rho = 2 on trees, where "
        "there is a closed form. Every answer has a relative duality gap of at most 1e-9, or there is an error."
    )
    header = ["hierarchy", "nodes", "leaves", "nodes above a leaf", *kinds]
    return [f"## Weights of nodes\n\n{text}\n\n" + markdown(header, rows)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = ["speed", "weights", "balanced", "unbalanced", "imclef", "funcat", "slack", "set_speed"]
    parser.add_argument("parts", nargs="*", default=parts)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--train", type=int, default=700)
    parser.add_argument("--features", type=int, default=100)
    parser.add_argument("--norms", nargs="+", default=[], help="of the synthetic parts; all by default")
    parser.add_argument("--limit", type=int, default=200, help="passes of one fit; after that its gap is larger than 1 %%")
    options = parser.parse_args()
    sizes = options.seeds, options.train, options.features, options.limit, options.norms
    runs: dict[str, Callable[[], list[str]]] = {
        "speed": lambda: speed(3),
        "weights": node_weights,
        "balanced": lambda: synthetic(balanced, *sizes),
        "unbalanced": lambda: synthetic(unbalanced, *sizes),
        "imclef": lambda: imclef(options.limit),
        "funcat": lambda: funcat(options.limit),
        "slack": lambda: slack(options.seeds, options.limit),
        "set_speed": lambda: set_speed(5),
    }
    for part in options.parts:
        update_report(FOLDER / "results" / "hierarchy.md", "Hierarchies of labels", "", runs[part]())


if __name__ == "__main__":
    main()
