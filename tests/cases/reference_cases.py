"""Every estimator and every solver on small data, and what a run is compared by: see ``test_reference_results``."""

import json
import math
import pathlib
from functools import partial

import numpy as np
from scipy import sparse
from tests.cases.reference_data import below, numbers

from maxmargin import (
    ApproximateRankingSVM,
    ChainSVM,
    DirectLossMinimizer,
    GraphSVM,
    GridSVM,
    HierarchicalSVM,
    HighOrderRankingSVM,
    LatentGraphSVM,
    LatentGridSVM,
    LatentRankingSVM,
    LatentStructuredSVM,
    MulticlassSVM,
    MultilabelSVM,
    ParserSVM,
    PathSearchCV,
    RankingClassifier,
    RankingSVM,
    StructuredSVM,
    TreeSVM,
    regularization_path,
)
from maxmargin.core import Problem, Structure, supports, trace_path
from maxmargin.core.solvers import (
    BCFW,
    ExponentiatedGradient,
    FrankWolfe,
    NSlackCuttingPlane,
    OneSlackCuttingPlane,
    PartialLinearization,
    Solver,
    Subgradient,
)
from maxmargin.multiclass import MulticlassProblem
from maxmargin.parsing import Sentence
from maxmargin.ranking import BinaryProblem, RankingProblem, ranking_loss
from maxmargin.sequences import ChainProblem
from maxmargin.structured import LatentClasses

FILE = pathlib.Path(__file__).with_name("reference_results.json")
# Rows and columns of tables, and rows of a query.
N, D, QUERY = 60, 5, 10

X = numbers(1, N, D)
QID = np.repeat(np.arange(N // QUERY), QUERY)
_SCORES = X @ [1.0, 0.75, -0.5, 0.25, 0.0] + numbers(2, N)
GRADES = (_SCORES > -0.25).astype(int) + (_SCORES > 0.5) + (_SCORES > 1.0)
RELEVANT = (_SCORES > 0.25).astype(int)
CLASSES = np.argmax(X[:, :3] + 0.75 * numbers(3, N, 3), axis=1)
SPARSE = sparse.csr_array(np.where(below(3, 4, N, D) > 0, 0.0, X))
LABELS = (X[:, :4] + 0.5 * X[:, 1:] + 0.5 * numbers(5, N, 4) > 0).astype(int)
# Two leaves below each of two inner nodes.
HIERARCHY = {"a": "left", "b": "left", "c": "right", "d": "right", "left": "root", "right": "root"}
LEAVES = np.array(["a", "b", "c", "d"])[2 * (X[:, 0] + 0.5 * numbers(6, N) > 0) + (X[:, 1] + 0.5 * numbers(7, N) > 0)]
LEAF_SETS = [
    ["abcd"[k] for k in np.flatnonzero(row)] or ["a"] for row in X[:, :4] + 0.5 * numbers(8, N, 4) > 0.25
]  # fmt: skip


def _sequences():
    lengths, xs, ys = (7, 4, 9, 5, 8, 6), [], []
    for k, length in enumerate(lengths):
        x = numbers(20 + k, length, 3)
        y = np.argmax(x + 0.5 * numbers(30 + k, length, 3) + 0.5 * np.roll(x, 1, axis=0), axis=1)
        xs.append(x)
        ys.append(y)
    return xs, ys


SEQUENCES, TAGS = _sequences()
TREES = [(x, np.array([-1, *(k // 2 for k in range(len(x) - 1))])) for x in SEQUENCES]


def _graphs():
    xs, ys = [], []
    for k in range(5):
        n = 6 + k % 2
        x = np.column_stack([numbers(40 + k, n, 2), np.ones(n)])
        edges = np.array([(i, (i + 1) % n) for i in range(n)] + [(0, 3)])
        xs.append((x, edges, 1 + np.abs(numbers(50 + k, len(edges), 1))))
        ys.append(((x[:, 0] + 0.5 * numbers(60 + k, n) > -0.25).astype(int) + (x[:, 1] > 0.25)).clip(0, 2))
    return xs, ys


GRAPHS, NODES = _graphs()
IMAGES = [np.dstack([numbers(70 + k, 5, 4), np.ones((5, 4))]) for k in range(4)]
MASKS = [
    (x[:, :, 0] + 0.5 * np.roll(x[:, :, 0], 1, axis=1) + 0.5 * numbers(80 + k, 5, 4) > 0).astype(int)
    for k, x in enumerate(IMAGES)
]


def _bags():
    bags = [numbers(100 + k, 2 + k % 3, 4) for k in range(24)]
    relevant = np.arange(24) % 3 == 0
    for k in np.flatnonzero(relevant):
        bags[k][0, :2] += 1.0
    return bags, relevant.astype(int)


BAGS, BAG_LABELS = _bags()
SENTENCES = [
    Sentence(
        ["the", "dog", "sees", "a", "cat"], ["D", "N", "V", "D", "N"], [2, 3, 0, 5, 3], ["det", "nsubj", "root", "det", "obj"]
    ),
    Sentence(["cats", "bite"], ["N", "V"], [2, 0], ["nsubj", "root"]),
    Sentence(
        ["a", "big", "man", "bites", "dogs"], ["D", "A", "N", "V", "N"], [3, 3, 4, 0, 4], ["det", "amod", "nsubj", "root", "obj"]
    ),
    Sentence(["see", "the", "old", "cat"], ["V", "D", "A", "N"], [0, 4, 4, 1], ["root", "det", "amod", "obj"]),
]


class OwnClasses(Structure):
    """Three classes in the way of a user: the methods without which nothing works, and no more."""

    exact = True

    def joint_feature(self, x, y):
        return np.kron(np.eye(3)[y], x)

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        values = a * weights.reshape(3, -1) @ x
        if truth is not None:
            values = values + b * (np.arange(3) != truth)
        return int(np.argmax(values))


class OwnProblem(Problem):
    """A problem without compiled form: solvers see its cuts alone."""

    def __init__(self, problem):
        self.problem = problem
        self.n_blocks, self.n_features, self.exact = problem.n_blocks, problem.n_features, problem.exact

    def cut(self, block, weights):
        return self.problem.cut(block, weights)

    def cuts(self, blocks, weights):
        return self.problem.cuts(blocks, weights)


# What is solved: name -> fit, which returns an estimator, a path or a solution.
CASES = {}


def _add(name, make, *data, tight=True, **fit_params):
    """A case with the tolerance of the estimator, and one with 1e-9."""
    CASES[name] = lambda: make().fit(*data, **fit_params)
    if tight:
        CASES[f"{name}, tol=1e-9"] = lambda: make(tol=1e-9).fit(*data, **fit_params)


def _rankers():
    variants = {name: {"loss": name} for name in ("ap", "ndcg", "auc", "mrr", "accuracy")}
    # A cut-off loss is decided by few rows: without a tight tolerance, its weights differ from processor to processor.
    variants |= {name: {"loss": name, "C": 1.0, "tol": 1e-9} for name in ("ndcg@5", "p@5")}
    variants["ndcg, grades"] = {"loss": "ndcg", "grades": True}
    variants["ap, slack"] = {"surrogate": "slack"}
    variants["ap, standardized"] = {"scale": "standard", "C": 1.0}
    variants["ap, bounds"] = {"bounds": (0.0, 0.5)}
    for name, settings in variants.items():
        y = GRADES if "grades" in settings else RELEVANT
        # Convex hull searches bound the slack from above: how far the gap closes is a matter of rounding.
        make, tight = partial(RankingSVM, **{"C": 10.0, **settings}), not {"tol", "surrogate"} & settings.keys()
        _add(f"RankingSVM, {name}", make, X, y, tight=tight)
        _add(f"RankingSVM, {name}, queries", make, X, y, qid=QID, tight=tight)
    _add("RankingSVM, sparse", partial(RankingSVM, C=10.0), SPARSE, RELEVANT, qid=QID)
    published = {"bcfw": BCFW(steps="fw", max_passes=200), "subgradient": Subgradient(average="rising", max_passes=200)}
    for solver in ("bcfw", "one_slack", "n_slack", "fw", "subgradient"):
        settings = {"solver": published[solver]} if solver in published else {"solver": solver, "max_iter": 200}
        _add(f"RankingSVM, solver={solver}", partial(RankingSVM, C=10.0, **settings), X, RELEVANT, qid=QID, tight=False)
    _add("ApproximateRankingSVM", partial(ApproximateRankingSVM, C=10.0), X, RELEVANT)
    _add("DirectLossMinimizer", partial(DirectLossMinimizer, random_state=0), X, RELEVANT, tight=False)
    make = partial(DirectLossMinimizer, "ndcg", sign=-1, random_state=0)
    _add("DirectLossMinimizer, ndcg, sign=-1", make, X, RELEVANT, qid=QID, tight=False)
    for name, settings in {"": {}, ", refined": {"refine": "always", "calibration": "isotonic"}}.items():
        _add(f"RankingClassifier{name}", partial(RankingClassifier, cv=3, random_state=0, **settings), X, RELEVANT, tight=False)
    for loss in ("ap", "accuracy"):
        make, edges = partial(HighOrderRankingSVM, loss, C=5.0, tol=1e-9), [(k, k + 1) for k in range(0, N - 1, 3)]
        _add(f"HighOrderRankingSVM, {loss}", make, X, RELEVANT, edges=edges, tight=False)
    for formulation in ("latent_ap", "latent_svm", "latent_ssvm"):
        make = partial(LatentRankingSVM, C=5.0, tol=1e-6, formulation=formulation, random_state=0)
        _add(f"LatentRankingSVM, {formulation}", make, BAGS, BAG_LABELS, tight=False)


def _classes_and_labelings():
    for surrogate in ("margin", "slack", "log", "prob"):
        settings, tight = {"surrogate": surrogate}, True
        if surrogate == "prob":
            # Under subgradients, whose averages are a setting of the solver.
            settings, tight = {"surrogate": "prob", "solver": Subgradient(average="rising", max_passes=300)}, False
        _add(f"MulticlassSVM, {surrogate}", partial(MulticlassSVM, **settings), X, CLASSES, tight=tight)
        _add(f"MultilabelSVM, {surrogate}", partial(MultilabelSVM, C=1.0, **settings), X, LABELS, tight=tight)
        _add(f"HierarchicalSVM, {surrogate}", partial(HierarchicalSVM, HIERARCHY, **settings), X, LEAVES, tight=tight)
        _add(f"ChainSVM, {surrogate}", partial(ChainSVM, C=1.0, **settings), SEQUENCES, TAGS, tight=tight)
        _add(f"TreeSVM, {surrogate}", partial(TreeSVM, C=1.0, **settings), TREES, TAGS, tight=tight)
    _add("ChainSVM, C=auto", ChainSVM, SEQUENCES, TAGS)
    _add("MulticlassSVM, costs", partial(MulticlassSVM, costs=[[0, 2], [1, 0]]), X, RELEVANT)
    _add("MulticlassSVM, sparse, weights", partial(MulticlassSVM, class_weight="balanced"), SPARSE, CLASSES)
    _add("MultilabelSVM, full", partial(MultilabelSVM, C=1.0, pairwise="attractive"), X, LABELS)
    _add("MultilabelSVM, relaxed", partial(MultilabelSVM, C=1.0, pairwise="full", inference="relaxed"), X, LABELS, tight=False)
    _add("HierarchicalSVM, sets", partial(HierarchicalSVM, HIERARCHY, multilabel=True), X, LEAF_SETS)
    for norm in ("flat", "path", "shared", "recursive"):
        _add(f"HierarchicalSVM, {norm}", partial(HierarchicalSVM, HIERARCHY, norm=norm), X, LEAVES, tight=False)


def _structured():
    for labelled in (False, True):
        _add(f"ParserSVM, labelled={labelled}", partial(ParserSVM, labelled=labelled), SENTENCES, SENTENCES)
    _add(
        "ParserSVM, perceptron",
        partial(ParserSVM, labelled=False, solver="perceptron", max_iter=2),
        SENTENCES,
        SENTENCES,
        tight=False,
    )
    _add("GraphSVM", GraphSVM, GRAPHS, NODES)
    _add("GraphSVM, free", partial(GraphSVM, pairwise="free"), GRAPHS, NODES)
    _add("GraphSVM, relaxed", partial(GraphSVM, inference="relaxed"), GRAPHS, NODES, tight=False)
    _add("GridSVM", GridSVM, IMAGES, MASKS)
    _add("GridSVM, steps", partial(GridSVM, edge_features="steps"), IMAGES, MASKS)
    latent = {"n_states": [1, 2], "tol": 1e-6, "random_state": 1}
    binary = [(y > 0).astype(int) for y in NODES]
    _add("LatentGraphSVM", partial(LatentGraphSVM, **latent), GRAPHS, binary, tight=False)
    _add("LatentGridSVM", partial(LatentGridSVM, edge_features="steps", **latent), IMAGES, MASKS, tight=False)
    _add("StructuredSVM", partial(StructuredSVM, OwnClasses()), list(X), list(CLASSES))
    _add("LatentStructuredSVM", partial(LatentStructuredSVM, LatentClasses(2), random_state=0), BAGS, BAG_LABELS)


def _paths():
    search = partial(PathSearchCV, epsilon=0.05, lambda_min=1e-2, cv=3)
    CASES["PathSearchCV, RankingSVM"] = lambda: search(RankingSVM()).fit(X, RELEVANT, qid=QID)
    CASES["PathSearchCV, MulticlassSVM"] = lambda: search(MulticlassSVM()).fit(X, CLASSES)
    settings = {"epsilon": 0.02, "lambda_min": 1e-2}
    CASES["regularization_path, ranking"] = lambda: regularization_path(RankingSVM(), X, RELEVANT, qid=QID, **settings)
    CASES["regularization_path, chains"] = lambda: regularization_path(ChainSVM(), SEQUENCES, TAGS, **settings)
    traced = problems()
    # With cutting planes: where a path turns depends on weights to the last digit, and BCFW's depend on more of them.
    for name in ("multiclass", "chains", "ranking"):
        CASES[f"trace_path, {name}"] = partial(trace_path, traced[name], solver=OneSlackCuttingPlane(tol=1e-9), **settings)


def problems():
    """What solvers are tried on: name -> problem."""
    return {
        "multiclass": MulticlassProblem(X, CLASSES, 3),
        "sparse": MulticlassProblem(SPARSE, CLASSES, 3),
        "binary": BinaryProblem(X, 2 * RELEVANT - 1),
        "chains": ChainProblem(np.vstack(SEQUENCES), np.concatenate(TAGS), np.cumsum([0, *map(len, SEQUENCES)]), 3),
        "ranking": RankingProblem(X, RELEVANT > 0, ranking_loss("ap"), np.arange(0, N + 1, QUERY)),
        "own": OwnProblem(MulticlassProblem(X, CLASSES, 3)),
    }


def solvers():
    """Every solver, with the settings that change what it does."""
    budget = {"tol": 1e-9, "max_passes": 500}
    found = {f"BCFW, {steps}": BCFW(steps=steps, **budget) for steps in ("fw", "pairwise", "away", "all", "exact")}
    found["BCFW, uniform"] = BCFW(sampling="uniform", steps="fw", **budget)
    found["BCFW, cache"] = BCFW(cache=5, steps="pairwise", **budget)
    found["BCFW, hybrid"] = BCFW(hybrid=True, steps="fw", **budget)
    for solver in (FrankWolfe, NSlackCuttingPlane, OneSlackCuttingPlane):
        found[solver.__name__] = solver(**budget)
    # Exponentials of the C library differ in their last bits, which many steps on chains would magnify.
    for solver in (PartialLinearization, ExponentiatedGradient):
        found[solver.__name__] = solver(tol=1e-9, max_passes=30)
    found["Subgradient"] = Subgradient(average="rising", tol=1e-9, max_passes=50)
    return found


def _takes_bounds(solver):
    return not isinstance(solver, PartialLinearization | ExponentiatedGradient) and getattr(solver, "steps", None) != "exact"


def _solve(solver, problem, bounds):
    # Six sequences need more of it than sixty rows, or gaps of block steps stay open for long.
    return solver.solve(problem, 1.0 if problem.n_blocks == len(SEQUENCES) else 0.05, bounds=bounds)


def _solved():
    for problem_name, problem in problems().items():
        for solver_name, solver in solvers().items():
            for within, bounds in (("", None), (", within bounds", (-0.5, 0.5))):
                if not all(supports(problem, one) for one in solver.needs) or (bounds and not _takes_bounds(solver)):
                    continue
                CASES[f"{solver_name}, {problem_name}{within}"] = partial(_solve, solver, problem, bounds)


for _cases in (_rankers, _classes_and_labelings, _structured, _paths, _solved):
    _cases()

# Attributes of results that are compared, where they exist.
_VALUES = ("primal_objective_", "dual_objective_", "objective_", "start_loss_", "training_loss_", "threshold_", "gain_", "C_",
           "best_lambda_", "best_score_")  # fmt: skip
_ARRAYS = ("weights", "coef_", "intercept_", "label_coef_", "pair_coef_", "edge_coef_", "transition_", "alpha_", "calibration_",
           "lambdas", "hinges", "duals")  # fmt: skip
_COUNTS = ("n_queries_", "n_rounds_", "n_steps_", "n_easy_", "n_difficult_")
# Of long arrays the norm and products with this many vectors of signs are kept.
_LONG, _PRODUCTS = 30, 5
# The certificates of a path of chains are as good as its last active sets: the curve they draw is not the same everywhere.
_UNSTABLE = {("trace_path, chains", "duals"), ("regularization_path, chains", "duals")}
# Solvers whose steps are compiled, where the problem is as well.
_COMPILED = (BCFW, FrankWolfe, NSlackCuttingPlane, PartialLinearization, ExponentiatedGradient)


def found_by(name):
    """What the case of this name yields: numbers, arrays and counts, ready for JSON."""
    runs, solve = [], Solver.solve

    def recorded(solver, problem, *args, **kwargs):
        solution = solve(solver, problem, *args, **kwargs)
        runs.append((solver, problem, solution))
        return solution

    Solver.solve = recorded
    try:
        result = CASES[name]()
    finally:
        Solver.solve = solve
    attributes = {key: getattr(result, key) for key in (*_VALUES, *_ARRAYS, *_COUNTS) if hasattr(result, key)}
    counts = {key: int(value) for key, value in attributes.items() if key in _COUNTS and value is not None}
    counts |= {
        "runs": len(runs),
        "calls": sum(solution.oracle_calls for _, _, solution in runs),
        "checks": sum(len(solution.history.primal) for _, _, solution in runs),
    }
    values = {key: float(value) for key, value in attributes.items() if key in _VALUES and value is not None}
    if runs:
        values = {"primal": float(runs[-1][2].primal), "dual": float(runs[-1][2].dual)} | values
    arrays = {
        key: _summary(value)
        for key, value in attributes.items()
        if key in _ARRAYS and value is not None and (name, key) not in _UNSTABLE and not callable(value)
    }
    compiled = bool(runs) and all(isinstance(s, _COMPILED) and p.block_data is not None for s, p, _ in runs)
    return {"compiled": compiled, "counts": counts, "values": values, "arrays": arrays}


def _summary(value):
    array = np.ravel(np.asarray(value, dtype=np.float64))
    if len(array) > _LONG:
        signs = 1 - 2 * below(2, 9, _PRODUCTS, len(array))
        array = np.append(np.linalg.norm(array), signs @ array)
    return [float(f"{number:.12g}") for number in array]


def differences(expected, found):
    """Where two results of a case differ by more than the same computation on another processor does; empty if nowhere."""
    wrong = []
    for group in ("counts", "values", "arrays"):
        if expected[group].keys() != found[group].keys():
            wrong.append(f"{group}: {sorted(expected[group])} became {sorted(found[group])}")
    if expected["compiled"] != found["compiled"]:
        wrong.append(f"compiled: {expected['compiled']} became {found['compiled']}")
    for key, count in expected["counts"].items():
        now = found["counts"].get(key, count)
        # Compiled code takes the same steps everywhere; where BLAS sums, the last digit may decide when a run ends.
        if now != count if expected["compiled"] else not 0.6 * count - 3 <= now <= 1.6 * count + 3:
            wrong.append(f"{key}: {count} became {now}")
    for key, value in expected["values"].items():
        now = found["values"].get(key, value)
        if not (math.isclose(now, value, rel_tol=1e-8, abs_tol=1e-12) or (math.isnan(now) and math.isnan(value))):
            wrong.append(f"{key}: {value!r} became {now!r}")
    for key, array in expected["arrays"].items():
        now = found["arrays"].get(key, array)
        scale = max([1.0, *map(abs, array)])
        if len(now) != len(array) or not np.allclose(now, array, rtol=0, atol=1e-6 * scale, equal_nan=True):
            wrong.append(f"{key}: {array} became {now}")
    return wrong


def write():
    """Record the results anew: ``python -m tests.reference_cases``, only with a reason that the commit states."""
    lines = [f"{json.dumps(name)}: {json.dumps(found_by(name))}" for name in CASES]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    write()
