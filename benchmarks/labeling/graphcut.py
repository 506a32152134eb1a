"""Binary labelling of grids by minimum cut, against other solvers.

PyMaxflow is under the GPL and no dependency of this project: ``pip install PyMaxflow`` by hand to have it in the table.
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import best_times, markdown, write_report
from scipy.sparse import coo_array
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from maxmargin import _core
from maxmargin.labeling import best_binary_labeling

HAVE_PEER = find_spec("maxflow") is not None


def make(side, strength, seed=0):
    """A 4-connected grid: integer unaries 0..100 as scores, integer penalties 0..strength."""
    rng = np.random.default_rng(seed)
    index = np.arange(side * side, dtype=np.int32).reshape(side, side)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    return rng.integers(0, 101, (side * side, 2)), edges, rng.integers(0, strength + 1, len(edges))


def by_pymaxflow(unary, edges, penalties, kind):
    """Labels from a graph built with the bulk calls; label 1 is its source side (segment 0)."""
    import maxflow

    graph = maxflow.Graph[kind](len(unary), len(edges))
    nodes = graph.add_nodes(len(unary))
    graph.add_edges(edges[:, 0], edges[:, 1], penalties, penalties)
    graph.add_grid_tedges(nodes, unary[:, 1], unary[:, 0])
    graph.maxflow()
    return ~graph.get_grid_segments(nodes)


def by_scipy(unary, edges, penalties):
    """Labels from SciPy's flow (Dinic) and a search of the residual graph."""
    n = len(unary)
    nodes = np.arange(n)
    rows = np.concatenate([edges[:, 0], edges[:, 1], np.full(n, n), nodes])
    columns = np.concatenate([edges[:, 1], edges[:, 0], nodes, np.full(n, n + 1)])
    values = np.concatenate([penalties, penalties, unary[:, 1], unary[:, 0]]).astype(np.int32)
    graph = coo_array((values, (rows, columns)), shape=(n + 2, n + 2)).tocsr()
    residual = graph - maximum_flow(graph, n, n + 1).flow
    residual.eliminate_zeros()
    labels = np.zeros(n + 2, dtype=np.int64)
    labels[breadth_first_order(residual, n, return_predecessors=False)] = 1
    return labels[:n]


def score(labels, unary, edges, penalties):
    """The score of a labelling, by definition."""
    labels = np.asarray(labels, dtype=np.int64)
    differ = labels[edges[:, 0]] != labels[edges[:, 1]]
    return int(unary[np.arange(len(unary)), labels].sum() - penalties[differ].sum())


def compare(side, strength, repeats):
    """One row: milliseconds of ours, and the others as multiples of it."""
    unary, edges, penalties = make(side, strength)
    floats, float_penalties = unary.astype(float), penalties.astype(float)
    graph = _core.GraphCut(len(unary), edges)
    tasks = {
        "ours": lambda: best_binary_labeling(floats, edges, float_penalties).labels,
        "again": lambda: graph.solve(floats, float_penalties)[1],
        "scipy": lambda: by_scipy(unary, edges, penalties),
    }
    if HAVE_PEER:
        tasks["int"] = lambda: by_pymaxflow(unary, edges, penalties, int)
        tasks["float"] = lambda: by_pymaxflow(floats, edges, float_penalties, float)
    scores = {name: score(task(), unary, edges, penalties) for name, task in tasks.items()}
    if len(set(scores.values())) > 1:
        raise AssertionError(f"scores differ: {scores}")
    slow = {"scipy": tasks.pop("scipy")}
    times = best_times(tasks, repeats) | best_times(slow, max(2, repeats // 5))
    row = [f"{side} x {side}, {strength}", f"{times['ours'] * 1e3:.3g} ms", f"{times['again'] / times['ours']:.2f}"]
    row += [f"{times['ours'] / times[name]:.2f}" if name in times else "not installed" for name in ("int", "float", "scipy")]
    print(row, flush=True)
    return [*row, f"{scores['ours']:,}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10, help="timings per entry; the best counts")
    options = parser.parse_args()
    if not HAVE_PEER:
        print("PyMaxflow is not installed, its columns stay empty; it is GPL and optional: pip install PyMaxflow")
    rows = [compare(side, strength, options.repeats * (10 if side == 64 else 1)) for side in (64, 512) for strength in (40, 200)]
    peers = ["ours / PyMaxflow int", "ours / PyMaxflow float", "ours / SciPy"]
    header = ["grid, lambda", "ours", "again / ours", *peers, "score, equal for all"]
    text = (
        "4-connected grids, random integer unaries 0..100 and penalties 0..lambda, one thread. Every time includes building "
        "the graph from arrays and reading the labels; *again* is a second solve on a graph that is kept. "
        "SciPy is timed after the others, with a fifth of their repeats."
    )
    path = FOLDER / "results" / "graphcut.md"
    write_report(path, "Binary labelling by minimum cut", [text, markdown(header, rows)])


if __name__ == "__main__":
    main()
