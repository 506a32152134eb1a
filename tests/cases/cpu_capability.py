"""Prints a digest of the results of every kernel that is compiled for AVX2 and without; see test_cpu_capability.py."""

import hashlib
import json
from collections.abc import Iterator

import numpy as np
from scipy import sparse

from maxmargin import ChainSVM, _core, most_violating_ranking, most_violating_rankings
from maxmargin.core.solvers import BCFW
from maxmargin.labeling import Energy, trws
from maxmargin.multiclass import MulticlassProblem
from maxmargin.parsing import k_best_trees
from maxmargin.registration import ControlGrid, displacement_labels, unary_costs


def results() -> Iterator[tuple[str, list[object]]]:
    """Name of a kernel and what it computes, of sizes that fill registers and of others."""
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        for n in (7, 1000, 100_003):
            relevant = rng.random(n) < 0.1
            relevant[:2] = True, False
            scores = (rng.normal(size=n) + relevant).astype(dtype)
            for shift in (0, 10):
                found = most_violating_ranking(scores + dtype(shift) * relevant, relevant)
                yield f"ranking {dtype.__name__} {n} {shift}", [found.hinge, found.gradient]
            found = most_violating_rankings(scores, relevant, np.arange(n) // 50)
            yield f"rankings {dtype.__name__} {n}", [found.hinge, found.gradient]
        for d in (1, 3, 8, 13, 30, 257):
            X, w, c = rng.normal(size=(301, d)).astype(dtype), rng.normal(size=d), rng.normal(size=301)
            c[::3] = 0.0
            out = np.zeros(301)
            _core.times_vector(X, w, 1, out)
            yield f"row products {dtype.__name__} {d}", [out, _core.sum_of_rows(c, X, 1)]
    for k in (2, 3, 10, 27):
        for X in (rng.normal(size=(60, 9)), sparse.random_array((60, 40), density=0.2, random_state=rng, format="csr")):
            solution = BCFW(tol=0.0, max_passes=5, steps="pairwise").solve(MulticlassProblem(X, rng.integers(0, k, 60), k), 0.01)
            yield f"classes {k} {type(X).__name__}", [solution.primal, solution.dual, solution.weights]
    words = [rng.normal(size=(int(n), 4)) for n in rng.integers(1, 12, 20)]
    model = ChainSVM(tol=1e-2).fit(words, [rng.integers(0, 5, len(x)) for x in words])
    yield "chains", [model.coef_, model.primal_objective_]
    for n in (1, 4, 17):
        trees = k_best_trees(rng.normal(size=(n + 1, n + 1)), 3, projective=True)
        yield f"projective trees {n}", [value for tree in trees for value in (tree.score, tree.heads)]
    for n_labels in (2, 5, 16):
        edges = [(i, i + 1) for i in range(29)] + [(i, i + 5) for i in range(25)]
        found = trws(Energy(rng.normal(size=(30, n_labels)), edges, rng.normal(size=(n_labels, n_labels))), max_sweeps=10)
        yield f"messages {n_labels}", [found.energy, found.lower_bound, found.labels]
    source, target = rng.uniform(0, 255, (19, 23)), rng.uniform(0, 255, (19, 23))
    grid = ControlGrid(target.shape, 1.0, 6.0)
    yield "patches", [unary_costs(source, target, grid, displacement_labels(2, 3.0, 3))]


def digests() -> dict[str, str]:
    """The bits of all results."""
    found = {name: hashlib.sha256(b"".join(np.asarray(one).tobytes() for one in values)) for name, values in results()}
    return {name: digest.hexdigest() for name, digest in found.items()}


if __name__ == "__main__":
    print(json.dumps([_core.cpu_capability(), digests()]))
