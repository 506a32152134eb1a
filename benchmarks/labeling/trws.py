"""TRW-S against the linear program that it bounds, and against a pass over the tables."""

from __future__ import annotations

import argparse
import tempfile
import time
import zipfile
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import find
from benchmarks.timing import best_times, markdown, write_report
from scipy.optimize import linprog
from scipy.sparse import coo_array

from maxmargin.labeling import Energy, Metric, read_uai, trws


def relaxed(energy: Energy, seconds: float = np.inf) -> float:
    """The least energy over the local polytope, by HiGHS; NaN if it takes longer than so many seconds."""
    N, L, E = energy.n_nodes, energy.n_labels, len(energy.edges)
    pairs = (N * L + np.arange(E * L * L)).reshape(E, L, L)
    nodes = np.arange(N * L).reshape(N, L)
    blocks = [(nodes, np.ones_like(nodes, dtype=float), 1.0)]
    for end, axis in ((0, 2), (1, 1)):
        rows = np.moveaxis(pairs, axis, 2).reshape(-1, L)
        own = nodes[energy.edges[:, end]].reshape(-1, 1)
        values = np.hstack([np.ones(rows.shape), -np.ones(own.shape)])
        blocks.append((np.hstack([rows, own]), values, 0.0))
    at = np.cumsum([0] + [len(columns) for columns, _, _ in blocks])
    rows = np.concatenate([np.repeat(np.arange(len(c)) + at[k], c.shape[1]) for k, (c, _, _) in enumerate(blocks)])
    columns, values = (np.concatenate([block[k].ravel() for block in blocks]) for k in (0, 1))
    right = np.concatenate([np.full(len(c), value) for c, _, value in blocks])
    matrix = coo_array((values, (rows, columns)), shape=(at[-1], N * L + E * L * L)).tocsr()
    costs = np.concatenate([energy.unary.ravel(), (energy.weights[:, None, None] * energy.table).ravel()])
    options = {} if seconds == np.inf else {"time_limit": seconds}
    answer = linprog(costs, A_eq=matrix, b_eq=right, bounds=(0, None), method="highs", options=options)
    return float(answer.fun) if answer.status == 0 else np.nan


def instance(name: str, energy: Energy) -> list[str]:
    """Bound and energy against the relaxation."""
    begin = time.process_time()
    found = trws(energy, max_sweeps=5000, tol=1e-12)
    seconds = time.process_time() - begin
    bound = relaxed(energy)
    print(name, bound - found.lower_bound, flush=True)
    tight = "yes" if found.energy - bound <= 1e-6 else "no"
    numbers = [f"{bound:.6f}", f"{bound - found.lower_bound:.0e}", f"{found.energy:.6f}", tight]
    return [name, *numbers, str(len(found.bounds)), f"{1e3 * seconds:.1f}"]


def speed(repeats: int) -> list[list[str]]:
    """Milliseconds of a sweep on a grid of 300 x 300 pixels, against one pass over a table for every edge."""
    rng = np.random.default_rng(0)
    rows = []
    for n_labels in (4, 16, 32):
        plain = Energy.grid(rng.normal(size=(300, 300, n_labels)), "potts")
        own = rng.normal(size=(len(plain.edges), n_labels, n_labels))
        energies = {
            "Potts": plain,
            "truncated linear": Energy(plain.unary, plain.edges, Metric("linear", limit=n_labels / 4)),
            "one table": Energy(plain.unary, plain.edges, own[0]),
            "a table for every edge": Energy(plain.unary, plain.edges, own),
        }
        tasks = {name: (lambda e=e: trws(e, max_sweeps=4, tol=0.0)) for name, e in energies.items()}
        once = {name: (lambda e=e: trws(e, max_sweeps=1, tol=0.0)) for name, e in energies.items()}
        more, one = best_times(tasks, repeats), best_times(once, repeats)
        read = best_times({"read": lambda own=own: own.sum(), "minima": lambda own=own: own.min(axis=1)}, repeats)
        sweeps = [f"{1e3 * (more[name] - one[name]) / 3:.1f}" for name in energies]
        rows.append([str(n_labels), *sweeps, f"{1e3 * read['read']:.1f}", f"{1e3 * read['minima']:.1f}"])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3, help="timings per entry; the best counts")
    options = parser.parse_args()
    with (
        zipfile.ZipFile(find("uai_grids_segmentation", "uai_grids_segmentation.zip")) as archive,
        tempfile.TemporaryDirectory() as folder,
    ):
        names = sorted(name for name in archive.namelist() if name.endswith(".uai"))
        rows = [instance(Path(name).stem, read_uai(archive.extract(name, folder))) for name in names]
    header = ["instance", "relaxation (HiGHS)", "minus TRW-S's bound", "energy found", "relaxation tight", "sweeps", "ms"]
    text = (
        "UAI 2014 instances. TRW-S ends where three sweeps have raised the bound by less than 1e-12 of it. The relaxation is "
        "called tight if the labels found cost no more, but for 1e-6; random couplings (Grids) are far from that."
    )
    head = ["labels", "Potts", "truncated linear", "one table", "a table for every edge", "numpy: sum", "numpy: minima"]
    fast = (
        "Milliseconds of processor time of a sweep (forth and back, labels, their energy) on a grid of 300 x 300 pixels, and of "
        "numpy reading the tables of all edges once: their sum, and the minima of their columns. A sweep reads them twice."
    )
    path = FOLDER / "results" / "trws.md"
    write_report(path, "TRW-S", [text, markdown(header, rows), fast, markdown(head, speed(options.repeats))])


if __name__ == "__main__":
    main()
