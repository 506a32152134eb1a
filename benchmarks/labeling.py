"""Maximum flows and alpha-expansion against PyMaxflow. ``python -m benchmarks.labeling``.

PyMaxflow is under the GPL and no dependency of this project: ``pip install PyMaxflow`` by hand to have it in the table. The
stereo pairs of the Middlebury benchmark are read from ``--data``, a directory with ``stereo_tsukuba`` and ``stereo_teddy``.
"""

from __future__ import annotations

import argparse
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.timing import best_times, markdown, update_report
from maxmargin.inference import FlowGraph
from maxmargin.labeling import Energy, Metric, minimize
from maxmargin.labeling.energy import grid_edges

HAVE_PEER = find_spec("maxflow") is not None
RESULTS = Path(__file__).parent / "results" / "labeling.md"
# Name, shape, neighbours, largest coupling.
FLOWS = (
    ("512 x 512, weak", (512, 512), 4, 40),
    ("512 x 512, strong", (512, 512), 4, 200),
    ("512 x 512, 8 neighbours", (512, 512), 8, 60),
    ("1024 x 1024, weak", (1024, 1024), 4, 40),
    ("1024 x 1024, strong", (1024, 1024), 4, 200),
    ("64 x 64 x 64", (64, 64, 64), 6, 60),
)
# Labels, truncation of the unary costs, weight and threshold of small gradients, distance between labels.
STEREO = {
    "tsukuba": (16, np.inf, 2, 8, Metric("linear", limit=5, scale=20)),
    "teddy": (60, 16, 3, 10, Metric("linear", limit=1, scale=20)),
}


def read_image(path):
    """Colours of an image, float of shape (H, W, 3)."""
    from PIL import Image

    return np.asarray(Image.open(path).convert("RGB"), dtype=float)


def stereo_energy(folder, name):
    """Unary costs (H, W, L), weights (2, H, W) and the metric: absolute differences of colours, and smoothness across edges."""
    n_labels, limit, weight, threshold, metric = STEREO[name]
    left, right = (read_image(folder / f"stereo_{name}" / f"{side}.png") for side in ("left", "right"))
    width = left.shape[1]
    unary = np.empty((*left.shape[:2], n_labels))
    for label in range(n_labels):
        unary[:, label:, label] = np.abs(left[:, label:] - right[:, : width - label]).sum(axis=2)
        # What the left border shows is not in the other image: it costs what its neighbour costs.
        unary[:, :label, label] = unary[:, label : label + 1, label]
    grey = left.mean(axis=2)
    weights = np.ones((2, *grey.shape))
    weights[0, :, :-1] = np.where(np.abs(np.diff(grey, axis=1)) < threshold, weight, 1)
    weights[1, :-1] = np.where(np.abs(np.diff(grey, axis=0)) < threshold, weight, 1)
    return np.minimum(unary, limit), weights, metric


def peer_expansion(energy):
    """Alpha-expansion with PyMaxflow's graphs and bulk calls for energies whose edges have weights, which its own lacks."""
    import maxflow

    labels, n = energy.unary.argmin(axis=1), energy.n_nodes
    a, b = energy.edges.T
    value, nodes = energy.energy(labels), np.arange(energy.n_nodes)
    improved = True
    while improved:
        improved = False
        for alpha in range(energy.n_labels):
            # Of what a pair costs, half the surplus of B + C over A + D goes to each arc, the rest to the nodes.
            A, B = energy.table[labels[a], labels[b]], energy.table[labels[a], alpha]
            C, D = energy.table[alpha, labels[b]], energy.table[alpha, alpha]
            take = energy.unary[:, alpha] - energy.unary[nodes, labels]
            take = (
                take
                + np.bincount(a, energy.weights * (C + D - A - B) / 2, n)
                + np.bincount(b, energy.weights * (B + D - A - C) / 2, n)
            )
            arcs = energy.weights * (B + C - A - D) / 2
            graph = maxflow.Graph[float](n, len(a))
            graph.add_nodes(n)
            graph.add_edges(a, b, arcs, arcs)
            graph.add_grid_tedges(nodes, np.maximum(0, -take), np.maximum(0, take))
            graph.maxflow()
            moved = np.where(graph.get_grid_segments(nodes), labels, alpha)
            if energy.energy(moved) < value - 1e-9 * max(1.0, abs(value)):
                labels, value, improved = moved, energy.energy(moved), True
    return labels


def timed(task, repeats):
    """Processor seconds and the result, the best of a few."""
    best = (np.inf, None)
    for _ in range(repeats):
        start = time.process_time()
        result = task()
        best = min(best, (time.process_time() - start, result), key=lambda one: one[0])
    return best


def compare_expansion(name, kind, unary, weights, metric, repeats):
    """One row, or none if the tables would not fit."""
    energy = Energy.grid(unary, metric, weights=None if kind == "weights 1" else weights)
    if kind == "a table per edge":
        if len(energy.edges) * energy.table.nbytes > 1 << 30:
            return None
        tables = np.broadcast_to(energy.table, (len(energy.edges), *energy.table.shape))
        energy = Energy(energy.unary, energy.edges, tables, weights=energy.weights)
    seconds, found = timed(lambda: minimize(energy, "expansion"), repeats)
    row = [f"{name}, {kind}", f"{seconds:.2f} s", f"{found.n_cuts}", f"{found.energy:,.0f}"]
    if HAVE_PEER and kind == "weights 1":
        from maxflow.fastmin import aexpansion_grid

        theirs, labels = timed(lambda: aexpansion_grid(unary, metric.table(unary.shape[-1])), repeats)
    elif HAVE_PEER and kind == "weights by gradient":
        theirs, labels = timed(lambda: peer_expansion(energy), repeats)
    else:
        theirs, labels = np.nan, None
    row += (
        ["", "", ""]
        if labels is None
        else [f"{theirs:.2f} s", f"{energy.energy(labels.astype(int)):,.0f}", f"{seconds / theirs:.2f}"]
    )
    print(row, flush=True)
    return row


def expansions(folder, repeats):
    """One row per image and weights."""
    rows = []
    for name in STEREO:
        terms = stereo_energy(folder, name)
        rows += [
            compare_expansion(name, kind, *terms, repeats) for kind in ("weights 1", "weights by gradient", "a table per edge")
        ]
    header = ["energy", "ours", "cuts", "our energy", "PyMaxflow", "its energy", "ours / PyMaxflow"]
    text = (
        "Stereo pairs of 384 x 288 pixels and 16 labels (tsukuba), 450 x 375 and 60 (teddy); colour differences and truncated "
        "linear distances on 4 neighbours. Start: the cheapest label of every pixel; labels in their order. *Weights 1* against "
        "`maxflow.fastmin.aexpansion_grid`, which knows no weights; *weights by gradient* against a loop in numpy over its cuts."
    )
    return "\n\n".join(["## Alpha-expansion", text, markdown(header, [row for row in rows if row])])


def make_flow(shape, connectivity, strength):
    """Integer terminals 0..100 and arcs 0..strength, as floats."""
    rng = np.random.default_rng(0)
    edges, inside = grid_edges(shape, connectivity)
    n = int(np.prod(shape))
    terminals = rng.integers(0, 101, (2, n)).astype(float)
    arcs = rng.integers(0, strength + 1, len(edges)).astype(float)
    return edges, inside, terminals, arcs


def our_flow(shape, connectivity, inside, terminals, arcs):
    """Without a list of edges."""
    graph = FlowGraph.grid(shape, connectivity)
    capacities = np.zeros(graph.n_edges)
    capacities[inside] = arcs
    graph.add_terminals(*terminals)
    graph.add_capacities(capacities, capacities)
    return graph


def peer_flow(edges, terminals, arcs):
    """By the bulk calls."""
    import maxflow

    graph = maxflow.Graph[float](terminals.shape[1], len(edges))
    graph.add_nodes(terminals.shape[1])
    graph.add_edges(edges[:, 0], edges[:, 1], arcs, arcs)
    graph.add_grid_tedges(np.arange(terminals.shape[1]), *terminals)
    return graph


def resolve_times(graph, peer, n, repeats):
    """Seconds of another solve after 1 % of the terminals have changed, of both; the values must agree."""
    rng = np.random.default_rng(1)
    ours, theirs = np.inf, np.inf
    for _ in range(repeats):
        nodes = rng.choice(n, n // 100, replace=False)
        more = rng.integers(0, 40, (2, len(nodes))).astype(float)
        start = time.thread_time()
        graph.add_terminals(*more, nodes=nodes)
        value = graph.solve().value
        ours = min(ours, time.thread_time() - start)
        if peer is None:
            continue
        start = time.thread_time()
        peer.add_grid_tedges(nodes, *more)
        seconds = time.thread_time() - start
        for node in nodes.tolist():
            peer.mark_node(node)
        start = time.thread_time()
        peer_value = peer.maxflow(reuse_trees=True)
        theirs = min(theirs, seconds + time.thread_time() - start)
        if not np.isclose(peer_value, value, rtol=1e-9):
            raise AssertionError("values differ after the change")
    return ours, theirs


def compare_flow(name, shape, connectivity, strength, repeats):
    """One row."""
    edges, inside, terminals, arcs = make_flow(shape, connectivity, strength)
    graph, n = our_flow(shape, connectivity, inside, terminals, arcs), terminals.shape[1]
    value, peer = graph.solve().value, None
    tasks = {"ours": lambda: our_flow(shape, connectivity, inside, terminals, arcs).solve()}
    if HAVE_PEER:
        peer = peer_flow(edges, terminals, arcs)
        if not np.isclose(peer.maxflow(), value, rtol=1e-9):
            raise AssertionError(f"values differ on {name}")
        tasks["peer"] = lambda: peer_flow(edges, terminals, arcs).maxflow()
    times = best_times(tasks, repeats)
    again, peer_again = resolve_times(graph, peer, n, repeats)
    row = [name, f"{times['ours'] * 1e3:.0f} ms", f"{times['ours'] / times['peer']:.2f}" if HAVE_PEER else ""]
    row += [f"{again * 1e3:.1f} ms", f"{again / times['ours']:.2f}", f"{again / peer_again:.2f}" if HAVE_PEER else ""]
    row += [f"{graph.n_bytes / n:.0f}"]
    print(row, flush=True)
    return row


def flows(repeats):
    """One row per graph."""
    rows = [compare_flow(*flow, repeats) for flow in FLOWS]
    header = ["grid", "ours", "ours / PyMaxflow", "again", "again / fresh", "again / PyMaxflow, reuse_trees", "bytes per node"]
    text = (
        "Random integer terminals 0..100 and couplings 0..40 (weak), 0..200 (strong), 0..60 (others), as float64. Times include "
        "making the graph from arrays; *again* is another solve after terminals of 1 % of the nodes have changed, without the "
        "time PyMaxflow needs to mark these nodes one by one."
    )
    return "\n\n".join(["## Maximum flows", text, markdown(header, rows)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timings per entry; the best counts")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the stereo pairs")
    parser.add_argument("--only", choices=["flows", "expansion"], help="one of the tables")
    options = parser.parse_args()
    if not HAVE_PEER:
        print("PyMaxflow is not installed, its columns stay empty; it is GPL and optional: pip install PyMaxflow")
    for name, section in (
        ("flows", lambda: flows(options.repeats)),
        ("expansion", lambda: expansions(options.data, options.repeats)),
    ):
        if options.only in (None, name):
            text = "One thread. Values and energies are compared in the same run."
            update_report(RESULTS, "Cuts and moves", text, [section()])


if __name__ == "__main__":
    main()
