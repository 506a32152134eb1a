"""Labelings with few labels per window: hierarchical and parsimonious against co-occurrence and expansion moves.

``python -m benchmarks.labeling.parsimonious [small|full|threads]``. The lattices of section 3.6.1 of Dokania's thesis: unary
costs uniform on [0, 100], 20 labels, square windows at all places. Case (i): windows cost the diameter of a random 2-HST; case
(ii): that of a truncated line. ``full`` has its size and a part of its grid of parameters, ``small`` the whole grid on small
lattices, and ``threads`` measures hierarchical moves on one core and two.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass, replace

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import best_wall_time, markdown, update_report

from maxmargin.labeling import HST, Cliques, Diameter, Energy, Metric, PnPotts, minimize, random_hst

N_LABELS = 20
TITLE = "Labelings with few labels per window"
REPORT = FOLDER / "results" / "parsimonious.md"


@dataclass(frozen=True)
class Setting:
    """What to run: pixels of a side and of a window's side, lattices of each case, weights of windows, limits of the line.

    The weights of case (ii) are fewer where a run takes minutes.
    """

    side: int
    window: int
    lattices: tuple[int, int]
    weights: tuple[tuple[int, ...], tuple[int, ...]]
    limits: tuple[int, ...]
    names: tuple[str, ...]
    n_trees: int


SETTINGS = {
    "small": Setting(
        24,
        6,
        (10, 2),
        ((0, 1, 2, 3, 4, 5, 100), (0, 1, 2, 3, 4, 5, 100)),
        (1, 5, 10, 20),
        ("co-occ, cheapest", "co-occ, constant", "expansion", "hierarchical", "trees, raw", "trees, refitted", "parsimonious"),
        10,
    ),
    "full": Setting(
        100,
        10,
        (3, 1),
        ((1, 3, 5, 100), (3,)),
        (5, 10, 20),
        ("co-occ, cheapest", "co-occ, constant", "hierarchical", "parsimonious"),
        1,
    ),
}


def lattice(side, window, cost, weight, seed):
    """One random lattice without edges."""
    rng = np.random.default_rng(seed)
    cliques = Cliques.windows((side, side), window, cost, float(weight))
    return Energy.grid(rng.uniform(0, 100, (side, side, N_LABELS)), np.zeros((N_LABELS, N_LABELS)), weights=0.0, cliques=cliques)


def expansion(energy):
    """Expansion moves on the P^n Potts costs that are nowhere less; the labels are judged by the energy itself."""
    everything = np.ones((1, N_LABELS), dtype=bool)
    potts = energy.replaced(cliques=[some.with_cost(PnPotts(some.cost.of(everything)[0])) for some in energy.cliques])
    found = minimize(potts, "expansion")
    found.energy = energy.energy(found.labels)
    return found


def methods(setting, tree):
    """What to run, by name; hierarchical moves need a tree, on which the mixtures of trees say nothing new."""
    chosen = {
        "co-occ, cheapest": lambda energy: minimize(energy, "cooccurrence", init="unary"),
        "co-occ, constant": lambda energy: minimize(energy, "cooccurrence", init="constant"),
        "expansion": expansion,
        "hierarchical": lambda energy: minimize(energy, "hierarchical"),
        "trees, raw": lambda energy: minimize(
            energy,
            "parsimonious",
            random_state=0,
            n_trees=setting.n_trees,
            tree="rhst",
            linkage=False,
            costs="tree",
            refine=False,
        ),
        "trees, refitted": lambda energy: minimize(
            energy, "parsimonious", random_state=0, n_trees=setting.n_trees, costs="tree", refine=False
        ),
        "parsimonious": lambda energy: minimize(energy, "parsimonious", random_state=0, n_trees=setting.n_trees),
    }
    left_out = ("trees, raw", "trees, refitted", "parsimonious") if tree else ("hierarchical",)
    return {name: run for name, run in chosen.items() if name in setting.names and name not in left_out}


def compare(setting, cost_of, tree):
    """Rows for all weights: mean energies with mean seconds, and who is below, and not above, the co-occurrence runs."""
    names = methods(setting, tree)
    mine = "hierarchical" if tree else "parsimonious"
    lattices = setting.lattices[0 if tree else 1]
    rows = []
    for weight in setting.weights[0 if tree else 1]:
        energies, seconds = {name: [] for name in names}, {name: [] for name in names}
        for seed in range(lattices):
            energy = lattice(setting.side, setting.window, cost_of(seed), weight, seed)
            for name, run in names.items():
                start = time.thread_time()
                energies[name].append(run(energy).energy)
                seconds[name].append(time.thread_time() - start)
        own, usual = np.array(energies[mine]), np.array(energies["co-occ, cheapest"])
        better = np.minimum(usual, energies["co-occ, constant"])
        row = [f"{weight}", *(f"{np.mean(energies[name]):,.0f} ({np.mean(seconds[name]):.2f} s)" for name in names)]
        row += [f"{below(own, base)}, {lattices - below(base, own)}" for base in (usual, better)]
        rows.append(row)
        print(row, flush=True)
    counts = [f"{mine} < and <= {base}, of {lattices}" for base in ("co-occ, cheapest", "the better co-occ")]
    return markdown(["w_c", *names, *counts], rows)


def below(one, two):
    """How often the first is less, rounding aside."""
    return int((one < two - 1e-9 * np.abs(two)).sum())


def threads(repeats=7):
    """Hierarchical moves in one thread and in two, which fuse below different nodes of a tree, by turns."""
    trees = {"balanced tree of 16 labels": balanced(8), "random tree of 20 labels": random_hst(N_LABELS, random_state=0)}
    rows = []
    for name, tree in trees.items():
        rng, n = np.random.default_rng(0), tree.n_labels
        cliques = Cliques.windows((60, 60), 8, Diameter(tree), 1.0)
        energy = Energy.grid(rng.uniform(0, 100, (60, 60, n)), np.zeros((n, n)), weights=0.0, cliques=cliques)
        best = {1: np.inf, 2: np.inf}
        for _ in range(repeats):
            for n_jobs in best:
                best[n_jobs] = min(
                    best[n_jobs], best_wall_time(lambda k=n_jobs, e=energy: minimize(e, "hierarchical", n_jobs=k), 1)
                )
        fusions = ", ".join(str(len(level)) for level in tree.levels)
        rows.append([f"{name}: {fusions}", f"{best[1]:.2f} s", f"{best[2]:.2f} s", f"{best[1] / best[2]:.2f}"])
        print(rows[-1], flush=True)
    text = (
        f"Wall-clock seconds, the best of {repeats}, 60 x 60 pixels, windows of 8 x 8, weight 1, while others used "
        "the machine too. Nodes of one level of the tree are fused at the same time; the root is alone."
    )
    return text, markdown(["tree: fusions per level", "one thread", "two threads", "speed-up"], rows)


def balanced(half):
    """Two subtrees of equally many labels, each of them halved once more."""
    parents = [2 * half + 4 * k // (2 * half) for k in range(2 * half)]
    first = 2 * half
    return HST(
        [*parents, first + 4, first + 4, first + 5, first + 5, first + 6, first + 6, -1],
        lengths=[2.0] * first + [4.0] * 4 + [8.0] * 2 + [0.0],
    )


def describe(setting):
    """What the numbers of a section are."""
    n = setting.n_trees
    said = (
        f"{setting.side} x {setting.side} pixels, {N_LABELS} labels, all windows of {setting.window} x {setting.window}; means "
        "over the lattices counted in the last columns, processor seconds of one thread in brackets. Co-occurrence moves start "
        "from the cheapest label of every pixel or from the best single label."
    )
    if "expansion" in setting.names:
        said += " Expansion moves see P^n Potts costs that are nowhere less."
    if "trees, raw" in setting.names:
        said += (
            f" {n} random trees have the lengths they were drawn with, or are refitted and joined by that of complete linkage;"
        )
        return said + " parsimonious are the latter and one tree with the energy's own costs, all polished."
    said += f" Parsimonious: random trees ({n}), that of complete linkage, the latter once more with the energy's own costs,"
    return said + " all polished."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", nargs="?", choices=["small", "full", "threads"], default="small")
    parser.add_argument("--lattices", type=int, nargs=2, metavar=("I", "II"), help="random lattices per row in both cases")
    parser.add_argument("--cases", nargs="+", choices=["i", "ii"], default=["i", "ii"], help="which cases to run")
    options = parser.parse_args()
    if options.part == "threads":
        update_report(REPORT, TITLE, "", ["## Two threads\n\n" + "\n\n".join(threads())])
        return
    setting = SETTINGS[options.part]
    if options.lattices:
        setting = replace(setting, lattices=tuple(options.lattices))
    size = f"{setting.side} x {setting.side}"
    tables = {
        f"{size}, case (i): diameters of random trees": (lambda seed: Diameter(random_hst(N_LABELS, random_state=seed)), True)
    }
    for limit in setting.limits:
        cost = Diameter(Metric("linear", limit=limit))
        tables[f"{size}, case (ii): truncated line, at most {limit}"] = (lambda _, cost=cost: cost, False)
    for k, (title, (cost_of, tree)) in enumerate(tables.items()):
        if ("i" if tree else "ii") not in options.cases:
            continue
        table = compare(setting, cost_of, tree)
        update_report(REPORT, TITLE, "", ["\n\n".join([f"## {title}", *([describe(setting)] if k == 0 else []), table])])


if __name__ == "__main__":
    main()
