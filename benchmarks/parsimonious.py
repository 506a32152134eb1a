"""Labelings with few labels per window: hierarchical and parsimonious against co-occurrence and expansion moves.

``python -m benchmarks.parsimonious``. The lattices of section 3.6.1 of Dokania's thesis: unary costs uniform on [0, 100], 20
labels, square windows at all places. Case (i): windows cost the diameter of a random 2-HST; case (ii): that of a truncated line.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from benchmarks.timing import markdown, write_report
from maxmargin.labeling import Cliques, Diameter, Energy, Metric, PnPotts, minimize, random_hst

N_LABELS = 20
WEIGHTS = (0, 1, 2, 3, 4, 5, 100)
LIMITS = (1, 5, 10, 20)


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


def methods(tree):
    """What to run, by name; hierarchical moves need a tree."""
    chosen = {
        "co-occ, cheapest": lambda energy: minimize(energy, "cooccurrence", init="unary"),
        "co-occ, constant": lambda energy: minimize(energy, "cooccurrence", init="constant"),
        "expansion": expansion,
        "hierarchical": lambda energy: minimize(energy, "hierarchical"),
        "trees, raw": lambda energy: minimize(
            energy, "parsimonious", random_state=0, tree="rhst", linkage=False, costs="tree", refine=False
        ),
        "trees, refitted": lambda energy: minimize(energy, "parsimonious", random_state=0, costs="tree", refine=False),
        "parsimonious": lambda energy: minimize(energy, "parsimonious", random_state=0),
    }  # fmt: skip
    if not tree:
        del chosen["hierarchical"]
    return chosen


def compare(options, cost_of, tree):
    """Rows for all weights: mean energies with mean seconds, and who is not worse than the better co-occurrence run."""
    names = methods(tree)
    rows = []
    for weight in WEIGHTS:
        energies, seconds = {name: [] for name in names}, {name: [] for name in names}
        for seed in range(options.lattices):
            energy = lattice(options.side, options.window, cost_of(seed), weight, seed)
            for name, run in names.items():
                start = time.thread_time()
                energies[name].append(run(energy).energy)
                seconds[name].append(time.thread_time() - start)
        baseline = np.minimum(energies["co-occ, cheapest"], energies["co-occ, constant"])
        mine = "hierarchical" if tree else "parsimonious"
        not_worse = int((np.array(energies[mine]) <= baseline * (1 + 1e-9)).sum())
        row = [f"{weight}", *(f"{np.mean(energies[name]):,.0f} ({np.mean(seconds[name]):.2f} s)" for name in names)]
        rows.append([*row, f"{not_worse} of {options.lattices}"])
        print(rows[-1], flush=True)
    return markdown(["w_c", *names, f"{'hierarchical' if tree else 'parsimonious'} <= co-occ"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--side", type=int, default=24, help="pixels of a side; the thesis has 100")
    parser.add_argument("--window", type=int, default=6, help="pixels of a window's side; the thesis has 10")
    parser.add_argument("--lattices", type=int, default=5, help="random lattices per row")
    options = parser.parse_args()
    text = (
        f"{options.side} x {options.side} pixels, {N_LABELS} labels, all windows of {options.window} x {options.window}, "
        f"means of {options.lattices} lattices, processor seconds of one thread in brackets. Co-occurrence moves start from the "
        "cheapest label of every pixel or from the best single label; expansion moves see P^n Potts costs that are nowhere less; "
        "ten random trees have the lengths they were drawn with, or are refitted and joined by that of complete linkage; "
        "parsimonious are the latter and one tree with the energy's own costs, all polished."
    )
    sections = [text]
    tables = {"Case (i): diameters of random trees": (lambda seed: Diameter(random_hst(N_LABELS, random_state=seed)), True)}
    for limit in LIMITS:
        cost = Diameter(Metric("linear", limit=limit))
        tables[f"Case (ii): truncated line, at most {limit}"] = (lambda _, cost=cost: cost, False)
    for title, (cost_of, tree) in tables.items():
        sections += [f"## {title}", compare(options, cost_of, tree)]
        path = Path(__file__).parent / "results" / "parsimonious.md"
        write_report(path, "Labelings with few labels per window", sections)


if __name__ == "__main__":
    main()
