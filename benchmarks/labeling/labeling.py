"""Maximum flows and alpha-expansion against PyMaxflow and gco.

The peers are no dependencies of this project, PyMaxflow being under the GPL and gco for research only: ``pip install
'maxmargin[peers]'`` to have them in the table. The stereo pairs of the Middlebury benchmark are read from ``--data``, a directory
with ``stereo_tsukuba`` and ``stereo_teddy``.
"""

from __future__ import annotations

import argparse
import ctypes
import multiprocessing
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import best_times, markdown, update_report

from maxmargin import _core
from maxmargin.labeling import Energy, FlowGraph, ForestSearch, Metric, elimination, grid_edges, minimize, minimum_cut
from maxmargin.labeling.messages import table_shape

HAVE_PEER = find_spec("maxflow") is not None
HAVE_GCO = find_spec("gco") is not None
RESULTS = FOLDER / "results" / "labeling.md"
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


# All the same, or with limits of their own.
OWN_TABLES = ("a table per edge", "tables that differ")


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


def expansion_cut(energy, labels, alpha):
    """What label alpha costs more at every node, and arcs of equal capacity both ways: half of what mixed pairs cost more."""
    nodes, (a, b) = np.arange(energy.n_nodes), energy.edges.T
    # Half the surplus of B + C over A + D goes to each arc, the rest to the nodes.
    own = () if energy.table.ndim == 2 else (np.arange(len(a)),)
    A, B = energy.table[(*own, labels[a], labels[b])], energy.table[(*own, labels[a], alpha)]
    C, D = energy.table[(*own, alpha, labels[b])], energy.table[(*own, alpha, alpha)]
    take = energy.unary[:, alpha] - energy.unary[nodes, labels]
    take = take + np.bincount(a, energy.weights * (C + D - A - B) / 2, energy.n_nodes)
    take = take + np.bincount(b, energy.weights * (B + D - A - C) / 2, energy.n_nodes)
    return take, energy.weights * (B + C - A - D) / 2


def peer_expansion(energy):
    """Alpha-expansion with PyMaxflow's graphs and bulk calls for energies whose edges have weights, which its own lacks."""
    import maxflow

    labels, n = energy.unary.argmin(axis=1), energy.n_nodes
    a, b = energy.edges.T
    value, nodes = energy.energy(labels), np.arange(n)
    improved = True
    while improved:
        improved = False
        for alpha in range(energy.n_labels):
            take, arcs = expansion_cut(energy, labels, alpha)
            graph = maxflow.Graph[float](n, len(a))
            graph.add_nodes(n)
            graph.add_edges(a, b, arcs, arcs)
            graph.add_grid_tedges(nodes, np.maximum(0, -take), np.maximum(0, take))
            graph.maxflow()
            moved = np.where(graph.get_grid_segments(nodes), labels, alpha)
            if energy.energy(moved) < value - 1e-9 * max(1.0, abs(value)):
                labels, value, improved = moved, energy.energy(moved), True
    return labels


def gco_expansion(unary, table, weights):
    """By gco's grids, in integers, which the costs here are; its start is label 0 everywhere."""
    from gco import cut_grid_graph

    across, down = weights[0, :, :-1], weights[1, :-1]
    labels = cut_grid_graph(*(costs.astype(np.int32) for costs in (unary, table, down, across)), n_iter=-1)
    return np.asarray(labels).ravel()


def timed(task, repeats):
    """Processor seconds and the result, the best of a few."""
    best = (np.inf, None)
    for _ in range(repeats):
        start = time.process_time()
        result = task()
        best = min(best, (time.process_time() - start, result), key=lambda one: one[0])
    return best


def different_tables(energy, metric):
    """Steps are cut off at a limit of the edge's own."""
    limits = np.random.default_rng(0).integers(3, 8, len(energy.edges)) * metric.scale
    return np.minimum(Metric("linear", scale=metric.scale).table(energy.n_labels), limits[:, None, None])


def compare_expansion(name, kind, unary, weights, metric, repeats):
    """One row, or none if the tables would not fit."""
    energy = Energy.grid(unary, metric, weights=None if kind == "weights 1" else weights)
    if kind in OWN_TABLES:
        if len(energy.edges) * energy.table.nbytes > 1 << 30:
            return None
        tables = np.broadcast_to(energy.table, (len(energy.edges), *energy.table.shape))
        if kind != OWN_TABLES[0]:
            tables = different_tables(energy, metric)
        energy = Energy(energy.unary, energy.edges, tables, weights=energy.weights)
    seconds, found = timed(lambda: minimize(energy, "expansion"), repeats)
    row = [f"{name}, {kind}", f"{seconds:.2f} s", f"{found.n_cuts}", f"{found.energy:,.0f}"]
    if HAVE_PEER and kind == "weights 1":
        from maxflow.fastmin import aexpansion_grid

        theirs, labels = timed(lambda: aexpansion_grid(unary, metric.table(unary.shape[-1])), repeats)
    elif HAVE_PEER:
        theirs, labels = timed(lambda: peer_expansion(energy), repeats)
    else:
        theirs, labels = np.nan, None
    row += _peer_columns(energy, seconds, theirs, labels)
    theirs, labels = np.nan, None
    if HAVE_GCO and energy.table.ndim == 2:
        factors = np.ones_like(weights) if kind == "weights 1" else weights
        theirs, labels = timed(lambda: gco_expansion(unary, energy.table, factors), repeats)
    row += _peer_columns(energy, seconds, theirs, labels)
    print(row, flush=True)
    return row


def _peer_columns(energy, seconds, theirs, labels):
    if labels is None:
        return [""] * 3
    return [f"{theirs:.2f} s", f"{energy.energy(labels.astype(int)):,.0f}", f"{seconds / theirs:.2f}"]


def expansions(folder, repeats):
    """One row per image and weights."""
    rows = []
    for name in STEREO:
        terms = stereo_energy(folder, name)
        kinds = ("weights 1", "weights by gradient", *OWN_TABLES)
        rows += [compare_expansion(name, kind, *terms, repeats) for kind in kinds]
    header = ["energy", "ours", "cuts", "our energy", "PyMaxflow", "its energy", "ours / PyMaxflow"]
    header += ["gco", "its energy", "ours / gco"]
    text = (
        "Stereo pairs of 384 x 288 pixels and 16 labels (tsukuba), 450 x 375 and 60 (teddy); colour differences and truncated "
        "linear distances on 4 neighbours. Start: the cheapest label of every pixel; labels in their order. *Weights 1* against "
        "`maxflow.fastmin.aexpansion_grid`, which knows no weights; all others against a loop in numpy over its cuts. "
        "gco takes integers, as a grid with weights, and starts from label 0 everywhere. *A table per edge*: all the same, with "
        "the weights by gradient; *tables that differ* are cut off at 3 to 7 steps, at random."
    )
    return "\n\n".join(["## Alpha-expansion", text, markdown(header, [row for row in rows if row])])


def own_tables(folder, repeats):
    """Expansions with one table and with a table for every edge, in turns, and what it takes to read all tables once."""
    unary, weights, metric = stereo_energy(folder, "tsukuba")
    one = Energy.grid(unary, metric, weights=weights)
    alike = np.repeat(one.table[None], len(one.edges), axis=0)
    # No multiple of the others.
    alike[-1] = Metric("potts", scale=metric.scale).table(one.n_labels)
    different = different_tables(one, metric)
    # The same graph, known as a grid or as a list of its edges.
    energies = {
        "one table": one,
        "tables of every edge, all alike but one": Energy.grid(unary, alike, weights=weights),
        OWN_TABLES[1]: Energy.grid(unary, different, weights=weights),
        "one table, edges in a list": Energy(one.unary, one.edges, one.table, weights=one.weights),
        f"{OWN_TABLES[1]}, edges in a list": Energy(one.unary, one.edges, different, weights=one.weights),
    }
    tasks = {name: lambda energy=energy: minimize(energy, "expansion") for name, energy in energies.items()}
    bare = {"a bare pass over the tables": lambda: alike.sum(), "one cost of every table": lambda: alike[:, 0, 0].sum()}
    times = best_times({**tasks, **bare}, repeats)
    cuts = {name: task().n_cuts for name, task in tasks.items()}
    rows = []
    for name, seconds in times.items():
        digits = ".2f" if name in cuts else ".2g"
        row = [name, f"{seconds * 1e3:{'.0f' if name in cuts else '.1f'}} ms", f"{seconds / times['one table']:{digits}}"]
        per_cut = seconds / cuts[name] / (times["one table"] / cuts["one table"]) if name in cuts else None
        rows.append(row + ([f"{cuts[name]}", f"{per_cut:.2f}"] if name in cuts else ["", ""]))
        print(rows[-1], flush=True)
    text = (
        f"Alpha-expansion on tsukuba, weights by gradient, in turns. {alike.nbytes / 1e6:.0f} MB of tables; the bare pass is "
        "numpy's sum of them, in their order. Expansions read two costs of every table, three where diagonals are not zero; "
        "in symmetric tables, as these are, the two are in one row. They read them again in blocks of 32 edges where labels have "
        "changed, which is most of them in the first sweeps. *One cost of every table* is the least that takes each time: a line "
        "of memory every two kilobytes. *Edges in a list* are the same ones, without the shape of the grid. Tables that differ "
        "are another energy: its cuts are others too."
    )
    header = ["costs of edges", "time", "/ one table", "cuts", "per cut / one table"]
    return "\n\n".join(["## Tables of every edge", text, markdown(header, rows)])


@dataclass
class Flow:
    """A flow problem: terminals of shape (2, n), arcs of the same capacity both ways; where in a grid's steps they are."""

    n: int
    edges: Any
    terminals: Any
    arcs: Any
    grid: Any = None
    inside: Any = None

    def ours(self):
        """A grid without a list of edges, or a general graph."""
        if self.grid is None:
            graph = FlowGraph(self.n, self.edges)
            capacities = self.arcs
        else:
            graph = FlowGraph.grid(*self.grid)
            capacities = np.zeros(graph.n_edges)
            capacities[self.inside] = self.arcs
        graph.add_terminals(*self.terminals)
        graph.add_capacities(capacities, capacities)
        return graph

    def peer(self):
        """By the bulk calls."""
        import maxflow

        graph = maxflow.Graph[float](self.n, len(self.edges))
        graph.add_nodes(self.n)
        graph.add_edges(self.edges[:, 0], self.edges[:, 1], self.arcs, self.arcs)
        graph.add_grid_tedges(np.arange(self.n), *self.terminals)
        return graph


def random_grid(shape, connectivity, strength):
    """Integer terminals 0..100 and arcs 0..strength, as floats."""
    rng = np.random.default_rng(0)
    edges, inside = grid_edges(shape, connectivity)
    n = int(np.prod(shape))
    terminals = rng.integers(0, 101, (2, n)).astype(float)
    return Flow(n, edges, terminals, rng.integers(0, strength + 1, len(edges)).astype(float), (shape, connectivity), inside)


def photo(connectivity):
    """Scikit-image's astronaut in two regions: distances to two mean colours, edges that cost less where colours differ."""
    from skimage import data

    colours = data.astronaut().astype(float)
    shape, flat = colours.shape[:2], colours.reshape(-1, 3)
    means = flat[[int(flat.sum(axis=1).argmin()), int(flat.sum(axis=1).argmax())]]
    for _ in range(10):
        distances = np.square(flat[:, None] - means).sum(axis=2)
        nearest = distances.argmin(axis=1)
        means = np.stack([flat[nearest == k].mean(axis=0) for k in (0, 1)])
    edges, inside = grid_edges(shape, connectivity)
    contrast = np.square(flat[edges[:, 0]] - flat[edges[:, 1]]).sum(axis=1)
    scale = distances.mean()
    return Flow(len(flat), edges, distances.T / scale, np.exp(-contrast / (2 * contrast.mean())), (shape, connectivity), inside)


def random_sparse(n, degree):
    """Edges between random nodes."""
    rng = np.random.default_rng(0)
    edges = rng.integers(0, n, (n * degree // 2, 2)).astype(np.int32)
    edges = edges[edges[:, 0] != edges[:, 1]]
    return Flow(n, edges, rng.integers(0, 101, (2, n)).astype(float), rng.integers(0, 31, len(edges)).astype(float))


def similar_pixels():
    """A quarter of the photo's pixels, joined to the eight most similar in colour and place."""
    from scipy.spatial import cKDTree
    from skimage import data

    colours = data.astronaut()[::2, ::2].astype(float)
    places = np.stack(np.indices(colours.shape[:2]), axis=2)
    points = np.concatenate([colours, places], axis=2).reshape(-1, 5)
    near = cKDTree(points).query(points, k=9)[1][:, 1:]
    edges = np.stack([np.repeat(np.arange(len(points)), 8), near.ravel()], axis=1)
    edges = np.unique(np.sort(edges, axis=1), axis=0).astype(np.int32)
    grey = colours.mean(axis=2).ravel() / 255
    distance = np.square(points[edges[:, 0]] - points[edges[:, 1]]).sum(axis=1)
    terminals = np.stack([np.abs(grey - 0.2), np.abs(grey - 0.7)])
    return Flow(len(points), edges, terminals, 0.3 * np.exp(-distance / (2 * distance.mean())))


def sweep(folder):
    """The flow problems of the first sweep of expansions on tsukuba."""
    unary, weights, metric = stereo_energy(folder, "tsukuba")
    energy = Energy.grid(unary, metric, weights=weights)
    inside, labels, problems = grid_edges(energy.shape, 4)[1], energy.unary.argmin(axis=1), []
    for alpha in range(energy.n_labels):
        take, arcs = expansion_cut(energy, labels, alpha)
        terminals = np.stack([np.maximum(0, -take), np.maximum(0, take)])
        problems.append(Flow(energy.n_nodes, energy.edges, terminals, arcs, (energy.shape, 4), inside))
        moved = np.where(problems[-1].ours().solve().source_side.ravel(), alpha, labels)
        labels = moved if energy.energy(moved) < energy.energy(labels) else labels
    return problems


def bytes_per_node(make, n):
    """Growth of the resident memory of a process of its own that makes a graph and solves it."""

    def resident():
        # What the heap keeps of arrays that are gone counts neither before nor after.
        ctypes.CDLL(None).malloc_trim(0)
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def measure(answer):
        before = resident()
        graph = make()
        (graph.solve if isinstance(graph, FlowGraph) else graph.maxflow)()
        answer.put((resident() - before) / n)

    answer = multiprocessing.get_context("fork").Queue()
    process = multiprocessing.get_context("fork").Process(target=measure, args=(answer,))
    process.start()
    found = answer.get()
    process.join()
    return f"{found:.0f}"


def resolve_times(graph, peer, n, most, repeats):
    """Seconds of another solve after 1 % of the terminals have changed, of both; the values must agree."""
    rng = np.random.default_rng(1)
    ours, theirs = np.inf, np.inf
    for _ in range(repeats):
        nodes = rng.choice(n, n // 100, replace=False)
        more = rng.integers(0, 40, (2, len(nodes))) * (most / 40)
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


def compare_flow(name, problems, repeats):
    """One row; of several problems their sum, without another solve."""
    ours = theirs = 0.0
    for flow in problems:
        tasks = {"ours": lambda flow=flow: flow.ours().solve()}
        if HAVE_PEER:
            if not np.isclose(flow.peer().maxflow(), flow.ours().solve().value, rtol=1e-9):
                raise AssertionError(f"values differ on {name}")
            tasks["peer"] = lambda flow=flow: flow.peer().maxflow()
        times = best_times(tasks, repeats)
        ours, theirs = ours + times["ours"], theirs + times.get("peer", np.nan)
    row = [name, f"{ours * 1e3:.0f} ms", f"{ours / theirs:.2f}" if HAVE_PEER else ""]
    flow = problems[0]
    if len(problems) == 1:
        graph, peer = flow.ours(), flow.peer() if HAVE_PEER else None
        graph.solve()
        if peer is not None:
            peer.maxflow()
        again, peer_again = resolve_times(graph, peer, flow.n, flow.terminals.max() * 0.4, repeats)
        row += [f"{again * 1e3:.1f} ms", f"{again / ours:.2f}", f"{again / peer_again:.2f}" if HAVE_PEER else ""]
    else:
        row += [""] * 3
    row += [bytes_per_node(flow.ours, flow.n), bytes_per_node(flow.peer, flow.n) if HAVE_PEER else ""]
    print(row, flush=True)
    return row


def flow_table(problems, repeats):
    """One row per graph."""
    header = ["graph", "ours", "ours / PyMaxflow", "again", "again / fresh", "again / PyMaxflow, reuse_trees"]
    header += ["bytes per node", "PyMaxflow's"]
    return markdown(header, [compare_flow(name, some, repeats) for name, some in problems.items()])


def flows(repeats):
    """Random grids."""
    text = (
        "Random integer terminals 0..100 and couplings 0..40 (weak), 0..200 (strong), 0..60 (others), as float64. Times include "
        "making the graph from arrays; *again* is another solve after terminals of 1 % of the nodes have changed, without the "
        "time PyMaxflow needs to mark these nodes one by one. Memory is what a process grows by that makes and solves a graph."
    )
    problems = {name: [random_grid(*how)] for name, *how in FLOWS}
    return "\n\n".join(["## Maximum flows", text, flow_table(problems, repeats)])


def other_flows(folder, repeats):
    """Pictures and general graphs."""
    text = (
        "As above. Scikit-image's astronaut in two regions by colour; the cuts of the first sweep of expansions, together; "
        "random edges with couplings 0..30; pixels joined to the eight most similar in colour and place."
    )
    problems = {f"photo, 512 x 512, {k} neighbours": [photo(k)] for k in (4, 8)}
    problems["tsukuba, the 16 cuts of a sweep"] = sweep(folder)
    problems["random, 100,000 nodes, 8 neighbours"] = [random_sparse(100_000, 8)]
    problems["similar pixels of a photo, 65,536 nodes"] = [similar_pixels()]
    return "\n\n".join(["## Maximum flows of pictures and general graphs", text, flow_table(problems, repeats)])


def seeded(shape, connectivity, sinks, one_piece, strength=50):
    """Sources in 1 % of the nodes, sinks in a share of them; in one piece each, a box within a shell, or anywhere."""
    from scipy.ndimage import gaussian_filter

    rng, n = np.random.default_rng(0), int(np.prod(shape))
    source, sink = np.zeros((2, *shape), dtype=bool)
    if one_piece:
        half = [max(1, round(extent * 0.01 ** (1 / len(shape)) / 2)) for extent in shape]
        source[tuple(slice(extent // 2 - h, extent // 2 + h) for extent, h in zip(shape, half, strict=True))] = True
        width = [max(1, round(extent * (1 - (1 - sinks) ** (1 / len(shape))) / 2)) for extent in shape]
        sink[:] = True
        sink[tuple(slice(w, extent - w) for extent, w in zip(shape, width, strict=True))] = False
    else:
        chance = rng.random(shape)
        source, sink = chance < 0.01, chance > 1 - sinks
    picture = gaussian_filter(rng.normal(size=shape), 3).ravel()
    edges, _ = grid_edges(shape, connectivity)
    steps = np.abs(np.diff(picture[edges], axis=1)).ravel() / picture.std()
    arcs = (1 + strength * np.exp(-4 * steps)).astype(np.int64)
    return n, edges, arcs, 1000 * source.ravel().astype(np.int64), 1000 * sink.ravel().astype(np.int64)


def compare_integers(name, n, edges, arcs, source, sink, repeats):
    """One row: a call for one cut, and the same by others; the arrays of 64-bit integers are converted where needed."""

    def graph(dtype):
        made = FlowGraph(n, edges, dtype=dtype)
        made.add_terminals(source, sink)
        made.add_capacities(arcs, arcs)
        return made.solve()

    def peer():
        import maxflow

        made = maxflow.Graph[int](n, len(edges))
        made.add_nodes(n)
        made.add_edges(edges[:, 0], edges[:, 1], arcs, arcs)
        made.add_grid_tedges(np.arange(n), source, sink)
        value = made.maxflow()
        made.get_grid_segments(np.arange(n))
        return value

    floats = [values.astype(float) for values in (arcs, source, sink)]
    tasks = {
        "ours": lambda: minimum_cut(n, edges, arcs, source, sink, arcs).value,
        "wide": lambda: _core.minimum_cut(n, edges, arcs, arcs, source, sink)[0],
        "graph": lambda: graph(np.int64).value,
        "real": lambda: minimum_cut(n, edges, *floats, floats[0]).value,
    }
    if HAVE_PEER:
        tasks["peer"] = peer
    values = {name: task() for name, task in tasks.items()}
    if len(set(values.values())) > 1:
        raise AssertionError(f"{name}: values differ: {values}")
    times = best_times(tasks, repeats)
    row = [name, f"{times['ours'] * 1e3:.3g} ms"]
    row += [
        f"{times['ours'] / times[other]:.2f}" if other in times else "not installed"
        for other in ("peer", "wide", "graph", "real")
    ]
    print(row, flush=True)
    return [*row, f"{values['ours']:,}"]


def integer_cuts(repeats):
    """Integer capacities in one call."""
    text = (
        "`minimum_cut` with integer capacities, whose sum fits into 32 bits, given as arrays of 64 bits; the same capacities "
        "both ways. Times are those of the whole call, or of making the graph, solving it and reading the sides. *64 bits*: the "
        "same kernel on the arrays as they are. *FlowGraph*: with `dtype=int64`. *float64*: `minimum_cut` of the same numbers as "
        "floats. *Seeds* are sources in 1 % of the nodes and sinks in some more, in one piece each or anywhere, couplings 1 to "
        "51 by the contrast of a smooth random picture; all other problems are random as above."
    )

    def random(problem):
        return problem.n, problem.edges, *(values.astype(np.int64) for values in (problem.arcs, *problem.terminals))

    problems = {
        "512 x 512": random(random_grid((512, 512), 4, 40)),
        "400 x 400, 8 neighbours": random(random_grid((400, 400), 8, 60)),
        "64 x 64 x 64": random(random_grid((64, 64, 64), 6, 60)),
        "random, 100,000 nodes, 8 neighbours": random(random_sparse(100_000, 8)),
        "512 x 512, seeds in one piece, sinks 15 %": seeded((512, 512), 4, 0.15, True),
        "512 x 512, seeds in one piece, sinks 50 %": seeded((512, 512), 4, 0.5, True),
        "512 x 512, seeds anywhere, sinks 50 %": seeded((512, 512), 4, 0.5, False),
        "64 x 64 x 64, seeds in one piece, sinks 30 %": seeded((64, 64, 64), 6, 0.3, True),
        "64 x 64 x 64, seeds in one piece, sinks 70 %": seeded((64, 64, 64), 6, 0.7, True),
        "64 x 64 x 64, seeds anywhere, sinks 30 %": seeded((64, 64, 64), 6, 0.3, False),
    }
    header = ["graph", "ours", "ours / PyMaxflow int", "/ 64 bits", "/ FlowGraph", "/ float64", "value, equal for all"]
    rows = [compare_integers(name, *problem, repeats) for name, problem in problems.items()]
    return "\n\n".join(["## Integer capacities", text, markdown(header, rows)])


def hard_energies():
    """Name, energies of either sign, and whether elimination finds their optimum."""

    def grid(rng, side, n_labels):
        signs = rng.choice([-3.0, 3.0], size=(2, side, side))
        return Energy.grid(rng.normal(size=(side, side, n_labels)), "potts", weights=signs)

    def sparse(rng, n_nodes, n_labels, colours=False):
        edges = rng.integers(0, n_nodes, size=(2 * n_nodes, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        if colours:
            return Energy(0.1 * rng.random((n_nodes, n_labels)), edges, np.eye(n_labels))
        return Energy(rng.normal(size=(n_nodes, n_labels)), edges, rng.normal(size=(len(edges), n_labels, n_labels)))

    for name, make, size, n_labels, n, solved in (
        ("grid, 10 x 10, 2 labels", grid, 10, 2, 10, True),
        ("grid, 10 x 10, 3 labels", grid, 10, 3, 10, True),
        ("grid, 10 x 10, 5 labels", grid, 10, 5, 2, True),
        ("sparse, 40 nodes, 3 labels", sparse, 40, 3, 10, True),
        ("colouring, 40 nodes, 3 labels", lambda *args: sparse(*args, colours=True), 40, 3, 10, True),
        ("grid, 30 x 30, 3 labels", grid, 30, 3, 3, False),
        ("grid, 100 x 100, 2 labels", grid, 100, 2, 1, False),
        ("grid, 100 x 100, 5 labels", grid, 100, 5, 1, False),
        ("sparse, 10,000 nodes, 3 labels", sparse, 10_000, 3, 1, False),
    ):
        yield name, [make(np.random.default_rng(seed), size, n_labels) for seed in range(n)], solved


def of_decoding(energy):
    """The energy that decoding of graphs ends with, without a truth to start from."""
    graph = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, True)
    search = ForestSearch(graph, energy.unary, energy.table, energy.weights, table_shape(energy.table))
    search.run()
    return search.energy


def of_modes(energy):
    """The best energy of 20 random starts whose single labels are changed as long as that helps."""
    graph, rng = _core.MessagePassing(energy.n_nodes, energy.n_labels, energy.edges, False), np.random.default_rng(0)
    starts = rng.integers(0, energy.n_labels, size=(20, energy.n_nodes)).astype(np.int32)
    return min(graph.descend(energy.unary, energy.table, energy.weights, start, 0, 0)[0] for start in starts)


def hard():
    """Energies whose edges attract or repel, by the default and by other searches."""
    searches = {
        "default": lambda energy: minimize(energy).energy,
        "descent": lambda energy: minimize(energy, "descent").energy,
        "decoding": of_decoding,
        "trws": lambda energy: minimize(energy, "trws").energy,
        "bp": lambda energy: minimize(energy, "bp").energy,
        "20 ICM": of_modes,
    }
    bounds = elimination.MAX_ENTRIES, elimination._MAX_TOTAL
    rows = []
    for name, energies, solved in hard_energies():
        above, seconds = np.zeros((len(energies), len(searches))), np.zeros((len(energies), len(searches)))
        chosen = ""
        for k, energy in enumerate(energies):
            for j, search in enumerate(searches.values()):
                begin = time.process_time()
                above[k, j] = search(energy)
                seconds[k, j] = time.process_time() - begin
            best = above[k].min()
            if solved:
                elimination.MAX_ENTRIES, elimination._MAX_TOTAL = 2**26, 2**34
                best = minimize(energy, "elimination").energy
                elimination.MAX_ENTRIES, elimination._MAX_TOTAL = bounds
            above[k] = 100 * (above[k] - best) / abs(best)
            chosen = minimize(energy, time_limit=1e-9).method
        figures = [f"{mean:.2f} ({1e3 * spent:,.0f})" for mean, spent in zip(above.mean(0), seconds.mean(0), strict=True)]
        rows.append([name, chosen, *figures, f"{above[:, 0].max():.2f}"])
        print(rows[-1], flush=True)
    text = (
        "Means over instances: % above the optimum, which elimination finds, or, from 30 x 30 on, above the best energy of the "
        "row (processor milliseconds). Grids have normal unary costs and Potts weights of 3 or -3; sparse graphs four neighbours "
        "per node and normal tables; colourings cost 1 where neighbours agree, and unary costs up to 0.1. *Decoding* is the "
        "search of `GraphStructure.decode`, *20 ICM* the best of 20 random starts. TRW-S was the default before."
    )
    head = ["energy", "default", *(f"{name}" if name != "default" else "its result" for name in searches), "default, worst"]
    lines = ["| " + " | ".join(row) + " |" for row in (head, ["---", "---", *["---:"] * (len(head) - 2)], *rows)]
    return "\n\n".join(["## Energies of either sign", text, "\n".join(lines)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timings per entry; the best counts")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the stereo pairs")
    tables = ["flows", "integers", "graphs", "expansion", "tables", "hard"]
    parser.add_argument("--only", choices=tables, help="one of the tables")
    options = parser.parse_args()
    if not (HAVE_PEER and HAVE_GCO):
        print("PyMaxflow or gco is not installed, its columns stay empty: pip install 'maxmargin[peers]'")
    for name, section in (
        ("flows", lambda: flows(options.repeats)),
        ("integers", lambda: integer_cuts(options.repeats)),
        ("graphs", lambda: other_flows(options.data, options.repeats)),
        ("expansion", lambda: expansions(options.data, options.repeats)),
        ("tables", lambda: own_tables(options.data, options.repeats)),
        ("hard", hard),
    ):
        if options.only in (None, name):
            text = "One thread. Values and energies are compared in the same run."
            update_report(RESULTS, "Cuts and moves", text, [section()])


if __name__ == "__main__":
    main()
