"""Max-marginals of binary grids by dynamic cuts, against a fresh cut for each.

PyMaxflow is under the GPL and no dependency of this project: ``pip install PyMaxflow`` by hand to have it in the table.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from benchmarks import FOLDER
from benchmarks.labeling.graphcut import HAVE_PEER, by_pymaxflow
from benchmarks.timing import best_times, markdown, write_report

from maxmargin import _core
from maxmargin.labeling import Components, FlowGraph, best_binary_labeling, binary_max_marginals

ASKED = 300


def make(side, strength, rng):
    """A 4-connected grid with normal scores and exponential penalties."""
    index = np.arange(side * side, dtype=np.int32).reshape(side, side)
    across = np.stack([index[:, :-1].ravel(), index[:, 1:].ravel()], axis=1)
    down = np.stack([index[:-1].ravel(), index[1:].ravel()], axis=1)
    edges = np.concatenate([across, down])
    return rng.normal(size=(side * side, 2)), edges, strength * rng.exponential(size=len(edges))


def fresh_cuts(unary, edges, penalties, nodes, labels):
    """The best score with each node forced to a label, by a cut from scratch; the graph is built once."""
    graph, big = _core.GraphCut(len(unary), edges), 1.0 + np.abs(unary).sum() + penalties.sum()
    scores = np.empty(len(nodes))
    for k, (node, label) in enumerate(zip(nodes, labels, strict=True)):
        told = unary.copy()
        told[node, 1 - label] -= big
        scores[k] = graph.solve(told, penalties)[0]
    return scores


def fresh_peer(unary, edges, penalties, nodes, labels):
    """The same with PyMaxflow, which has no way to forget a flow: the graph is built for each cut."""
    shifted, big = unary - unary.min(), 1.0 + np.abs(unary).sum() + penalties.sum()
    for node, label in zip(nodes, labels, strict=True):
        told = shifted.copy()
        told[node, label] += big
        by_pymaxflow(told, edges, penalties, float)


def first_cut(unary, edges, penalties):
    """A graph with its flow."""
    graph = FlowGraph(len(unary), edges)
    graph.add_terminals(unary[:, 1], unary[:, 0])
    graph.add_capacities(penalties, penalties)
    graph.solve()
    return graph


def dynamic_times(model, nodes, repeats):
    """Costs of the nodes' other labels, and the smallest processor seconds they took; every time from a first cut of its own."""
    best = float("inf")
    for _ in range(repeats):
        graph = first_cut(*model)
        start = time.thread_time()
        costs = graph.costs_of_other_side(nodes)
        best = min(best, time.thread_time() - start)
    return costs, best


def compare(side, strength, repeats):
    """One row: 300 max-marginals of labels that are not the best ones, both ways."""
    rng = np.random.default_rng(0)
    unary, edges, penalties = make(side, strength, rng)
    nodes = rng.permutation(side * side)[:ASKED]
    best = best_binary_labeling(unary, edges, penalties)
    wanted = 1 - best.labels[nodes]
    costs, dynamic = dynamic_times((unary, edges, penalties), nodes, repeats)
    difference = np.abs(best.score - costs - fresh_cuts(unary, edges, penalties, nodes, wanted)).max()
    if not difference <= 1e-6:
        raise AssertionError(f"max-marginals differ by {difference}")
    gains = np.ascontiguousarray(unary[:, 1] - unary[:, 0])
    parts = Components(len(unary), edges)
    tasks = {
        "first": lambda: first_cut(unary, edges, penalties),
        "all": lambda: binary_max_marginals(unary, edges, penalties),
        "labelings": lambda: parts.forced(gains, penalties, (1 - best.labels).astype(np.uint8)),
    }
    times = best_times(tasks, repeats)
    times |= best_times({"fresh": lambda: fresh_cuts(unary, edges, penalties, nodes, wanted)}, max(2, repeats // 10))
    peer = "not installed"
    if HAVE_PEER:
        peer = f"{best_times({'peer': lambda: fresh_peer(unary, edges, penalties, nodes, wanted)}, 2)['peer'] * 1e3:.4g} ms"
    row = [
        f"{side} x {side}, {strength:g}",
        f"{times['first'] * 1e3:.2f} ms",
        f"{dynamic * 1e3:.2f} ms",
        f"{times['fresh'] * 1e3:.4g} ms",
        f"{times['fresh'] / dynamic:.0f}",
        f"{times['fresh'] / (dynamic + times['first']):.0f}",
        peer,
        f"{difference:.1e}",
        f"{times['all'] * 1e3:.3g} ms",
        f"{times['labelings'] * 1e3:.3g} ms",
    ]
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=20, help="timings per entry; the best counts")
    options = parser.parse_args()
    rows = [compare(side, strength, options.repeats) for side in (40, 100) for strength in (0.3, 1.0, 3.0)]
    header = ["grid, mean penalty", "first cut", "300 dynamic", "300 fresh cuts", "ratio", "with first cut"]
    header += ["300 by PyMaxflow", "largest difference", "all nodes", "all with labelings"]
    text = (
        "4-connected grids with normal scores and exponential penalties, one thread. *First cut* builds the graph from "
        "arrays and cuts it. *Dynamic* goes on: 300 random nodes are forced to the label they do not have, one at a time. *Fresh "
        "cuts* do the same on a graph that is built once, from no flow; PyMaxflow builds it each time. *All nodes* is "
        "`binary_max_marginals`, checks and connected components included."
    )
    path = FOLDER / "results" / "max_marginals.md"
    write_report(path, "Max-marginals by dynamic cuts", [text, markdown(header, rows)])


if __name__ == "__main__":
    main()
