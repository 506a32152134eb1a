"""Relaxations and roundings: speed, bounds, and what rounding costs. Option ``--only SECTION``."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.labeling.rounding_pictures import GREY_VALUES, TEMPERATURE, house, house_parts, uai_energies, uai_group
from benchmarks.labeling.rounding_problems import KINDS, METRICS, rounding_problems
from benchmarks.labeling.trws import relaxed
from benchmarks.timing import best_times, markdown, update_report

from maxmargin.labeling import Energy, FractionalLabeling, Metric, expected_energy, minimize, relax, round_labeling

RESULTS = FOLDER / "results" / "rounding.md"
# Mean and minimum energies of 1,000 draws; the last is the learned rounding's, whose rows are made elsewhere.
Rounding = Callable[[FractionalLabeling, Energy, int], tuple[float, float]]
DRAWS = 1000
PRINTED = {
    "uniform": {"max": (12.204, 12.204), "complete": (12.532, 10.435), "interval": (12.437, 10.327)},
    "truncated linear": {"max": (74.423, 74.423), "complete": (1887.213, 19.427), "interval": (1936.361, 17.787)},
    "truncated quadratic": {"max": (152.532, 152.532), "complete": (904.821, 84.640), "interval": (876.610, 72.418)},
}


def by_hand(method: str) -> Rounding:
    """A rounding of the library, as (mean, minimum) of its draws."""

    def draw(point: FractionalLabeling, energy: Energy, seed: int) -> tuple[float, float]:
        found = round_labeling(point, energy, method, DRAWS, seed, n_jobs=1)
        return found.mean, found.minimum

    return draw


# More rows of the tables of energies go here: a name and (point, energy, seed) -> (mean, minimum).
HAND_MADE: dict[str, Rounding] = {name: by_hand(name) for name in ("max", "complete", "interval", "kleinberg_tardos")}


def cpu_seconds(task: Callable[[], object]) -> float:
    begin = time.process_time()
    task()
    return time.process_time() - begin


def thousand_roundings() -> str:
    """Draws with their energies against numpy evaluating as many labelings that are there already."""
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((250, 400, 16)), Metric("linear", limit=4))
    y = rng.dirichlet(np.full(16, 0.3), size=energy.n_nodes)
    labels = rng.integers(16, size=(10, energy.n_nodes))
    plain = cpu_seconds(lambda: [energy.energy(labels[k % 10]) for k in range(DRAWS)])
    rows = [["numpy: energies of given labelings", f"{plain:.2f}", "1.00", ""]]
    for method in ("complete", "interval", "kleinberg_tardos", "independent"):
        one = cpu_seconds(lambda method=method: round_labeling(y, energy, method, DRAWS, 0, n_jobs=1))
        both = cpu_seconds(lambda method=method: round_labeling(y, energy, method, DRAWS, 0, n_jobs=2))
        rows.append([method, f"{one:.2f}", f"{one / plain:.2f}", f"{both:.2f}"])
        print(rows[-1], flush=True)
    text = (
        "1,000 labelings of 250 x 400 nodes with 16 labels and truncated linear distances, drawn and evaluated; marginals "
        "from a Dirichlet distribution. Processor seconds with one thread, their ratio to numpy evaluating 1,000 given "
        "labelings (goal: at most 3), and of both threads together with two, which take half of it each on a machine with "
        "nothing else to do."
    )
    header = ["", "seconds", "ratio", "two threads, seconds of both"]
    return f"## A thousand roundings\n\n{text}\n\n{markdown(header, rows)}"


def mean_energies(repeats: int) -> str:
    """The exact mean and its gradient against a pass over all entries of all tables."""
    rng = np.random.default_rng(0)
    energy = Energy.grid(rng.random((512, 512, 16)), Metric("linear", limit=4))
    y = rng.dirichlet(np.ones(16), size=energy.n_nodes)
    labels = np.eye(16)[y.argmax(axis=1)]
    edges, part = len(energy.edges), 1 << 15
    own = np.repeat(energy.table[None], part, axis=0)
    a, b = (np.ascontiguousarray(y[energy.edges[:part, end]]) for end in (0, 1))
    tasks = {
        "sum of the entries of all tables (numpy)": lambda: own.sum(),
        "every table between the marginals of its ends (numpy einsum)": lambda: np.einsum("ei,eij,ej->", a, own, b),
        "mean energy": lambda: expected_energy(y, energy),
        "mean energy with gradient": lambda: expected_energy(y, energy, gradient=True),
        "the same for marginals of one label each": lambda: expected_energy(labels, energy, gradient=True),
    }
    seconds = best_times(tasks, repeats)
    for name in list(tasks)[:2]:
        seconds[name] *= edges / part
    first, second = (seconds[name] for name in list(tasks)[:2])
    rows = [[name, f"{1e3 * t:.0f}", f"{t / second:.2f}", f"{t / first:.2f}"] for name, t in seconds.items()]
    text = (
        "512 x 512 pixels, 16 labels, distances truncated at 4. A pass over the tables reads all 256 entries for every "
        f"one of the {edges:,} edges; it is timed on {part:,} of them, and multiplied. Merging the cumulative sums of both "
        "ends takes 30 steps for an edge instead, whatever the table. Goal: with gradient at most 3 evaluations of the "
        "tables. Where many sums are equal, both sides of the kinks are looked at."
    )
    header = ["", "ms", "ratio to tables between marginals", "ratio to their sum"]
    return f"## The mean energy of complete rounding\n\n{text}\n\n{markdown(header, rows)}"


def uai_bounds() -> str:
    """The linear relaxation of UAI instances against HiGHS on the whole local polytope."""
    rows = []
    for name, energy in uai_energies().items():
        whole: list[float] = []
        their = cpu_seconds(lambda energy=energy, whole=whole: whole.append(relaxed(energy)))
        points: list[FractionalLabeling] = []
        own = cpu_seconds(lambda energy=energy, points=points: points.append(relax(energy, "lp")))
        steps = cpu_seconds(lambda energy=energy: relax(energy, "first_order", tol=1e-3))
        found = points[0]
        error = abs(found.lower_bound - whole[0]) / max(1.0, abs(whole[0]))
        row = [name, f"{whole[0]:.6f}", f"{error:.0e}", str(found.n_fractional), str(found.certified)]
        rows.append([*row, f"{their:.2f}", f"{own:.2f}", f"{steps:.2f}"])
        print(rows[-1], flush=True)
    text = (
        "UAI 2014 instances: the least over the whole local polytope by HiGHS, and how far the bound of `relax(energy, "
        "'lp')` is from it, as a part of it (goal: 1e-6). Seconds of HiGHS, of `'lp'`, and of `'first_order'` to a gap of "
        "1e-3."
    )
    header = ["instance", "HiGHS", "difference", "fractional nodes", "certified", "HiGHS s", "lp s", "first_order s"]
    return f"## Bounds of UAI instances\n\n{text}\n\n{markdown(header, rows)}"


def first_order() -> str:
    """Seconds until value and bound are within 1e-3, against HiGHS on the same program."""
    rows = []
    for name, pairwise, weight in (
        ("Potts", Metric("potts"), 0.3),
        ("Potts", Metric("potts"), 0.4),
        ("truncated linear", Metric("linear", limit=3), 0.12),
        ("a table for every edge", None, 0.4),
    ):
        rng = np.random.default_rng(1)
        unary = rng.random((64, 64, 8))
        energy = Energy.grid(unary, "potts" if pairwise is None else pairwise, weights=weight)
        if pairwise is None:
            energy = Energy(energy.unary, energy.edges, rng.normal(size=(len(energy.edges), 8, 8)), weights=weight)
        answers: list[FractionalLabeling] = []
        own = cpu_seconds(lambda energy=energy, answers=answers: answers.append(relax(energy, "first_order", tol=1e-3)))
        print(name, own, answers[0], flush=True)
        # HiGHS may take long; it has as many seconds as tell who is first.
        limit = max(60.0, 20 * own)
        their, value = highs(energy, limit)
        found = answers[0]
        against = "" if value is None else f"{(found.value - value) / abs(value):.1e}"
        seconds = f"{their:.1f}" if value is not None else f"> {their:.0f}"
        row = [name, f"{weight:g}", f"{found.value:.3f}", f"{found.lower_bound:.3f}", against, str(found.n_fractional)]
        rows.append([*row, f"{own:.1f}", seconds])
        print(rows[-1], flush=True)
    text = (
        "64 x 64 nodes, 8 labels. `relax(energy, 'first_order', tol=1e-3)`: cost of its point, its bound, how far the "
        "cost is above the least of HiGHS, and processor seconds of both (HiGHS on the small form for Potts, on the whole "
        "local polytope otherwise; it is stopped after 20 times as long, or a minute, of the clock)."
    )
    header = ["tables", "weight", "value", "bound", "above HiGHS", "fractional nodes", "seconds", "HiGHS seconds"]
    return f"## First-order steps against HiGHS\n\n{text}\n\n{markdown(header, rows)}"


def highs(energy: Energy, limit: float) -> tuple[float, float | None]:
    """Processor seconds of HiGHS, and the least value; None if it was stopped."""
    from maxmargin._utils import time_limit
    from maxmargin.labeling.messages import table_shape
    from maxmargin.labeling.potts_program import potts_program

    begin = time.process_time()
    shape = table_shape(energy.table)
    if shape.kind == "potts":
        with time_limit(limit):
            small = potts_program(energy, shape.slope)
        return time.process_time() - begin, None if small is None else small[1]
    value = relaxed(energy, limit)
    return time.process_time() - begin, None if np.isnan(value) else value


def energies_of_roundings(n_graphs: int, n_seeds: int, roundings: dict[str, Rounding] | None = None) -> str:
    """Mean and minimum energies on the generators, over seeds; more rows by more roundings."""
    rows = []
    for kind in KINDS:
        for metric in METRICS:
            # (mean, minimum) of every input and rounding, for all seeds and energies; fractional nodes; expansion and bound.
            found: dict[tuple[str, str], list[list[tuple[float, float]]]] = {}
            fractional: dict[str, list[int]] = {}
            others = []
            for seed in range(n_seeds):
                for k, energy in enumerate(rounding_problems(metric, kind, n_graphs, seed)):
                    linear = relax(energy)
                    others.append((minimize(energy, "expansion", truncate=True).energy, linear.lower_bound))
                    for source, point in (("lp", linear), ("qp", relax(energy, "qp")), ("trws", relax(energy, "trws"))):
                        fractional.setdefault(source, []).append(point.n_fractional)
                        for name, rounding in (roundings or HAND_MADE).items():
                            per_seed = found.setdefault((source, name), [[] for _ in range(n_seeds)])
                            per_seed[seed].append(rounding(point, energy, 1000 * seed + k))
            expansion, bound = np.mean(others, axis=0)
            for (source, name), per_seed in found.items():
                means = np.mean(per_seed, axis=1)
                spread = means.std(axis=0, ddof=1) if n_seeds > 1 else np.full(2, np.nan)
                printed = PRINTED[metric].get(name) if source == "lp" else None
                said = "" if printed is None else f"{printed[0]:.3f} / {printed[1]:.3f}"
                numbers = [f"{mean:.3f} ± {apart:.3f}" for mean, apart in zip(means.mean(axis=0), spread, strict=True)]
                row = [f"{kind}, {metric}", source, f"{np.mean(fractional[source]):.1f}", name]
                rows.append([*row, *numbers, said, f"{expansion:.3f}", f"{bound:.3f}"])
                print(rows[-1], flush=True)
    text = (
        f"25 nodes, all pairs of them joined, 21 labels; {n_graphs} energies for each of {n_seeds} seeds, {DRAWS:,} draws "
        "for each of them. Means over energies, ± the standard deviation between seeds. Inputs: the linear relaxation "
        "(`lp`), Frank-Wolfe (`qp`), min-marginals of TRW-S (`trws`, temperature 1); how many nodes are fractional. "
        "Printed: the thesis' numbers, for an approximate linear program on other energies, of strengths that are not "
        "known. Expansion moves and the linear relaxation's bound are for the same energies.\n\n"
        "What holds: where the linear relaxation is fractional (balanced), minima of windows are below that of one number "
        "for all nodes, clearly for Potts, hardly for linear distances, where its mean is the lower one. What does not: "
        "with couplings as strong as printed (heavy) the relaxation is a labeling, the best one, and all roundings return "
        "it. Averages far above minima, as printed, come from inputs that are far from the best of a relaxation, such as "
        "min-marginals at temperature 1 here; of these the largest marginals are best taken."
    )
    header = ["energies", "input", "fractional", "rounding", "E_avg", "E_min", "printed avg / min", "expansion", "LP bound"]
    return f"## Energies of roundings\n\n{text}\n\n{markdown(header, rows)}"


def mean_and_spread(values: np.ndarray) -> list[str]:
    """Mean over seeds, and the standard deviation between them, of (seeds, 2) numbers."""
    mean, apart = values.mean(axis=0), values.std(axis=0, ddof=1)
    # Sums in another order are no spread.
    apart[apart < 1e-12 * np.abs(mean)] = 0.0
    return [f"{own:.7g} ± {around:.2g}" for own, around in zip(mean, apart, strict=True)]


def pictures(folder: Path, n_seeds: int) -> str:
    """Stereo, inpainting and UAI energies: hand-made roundings of several inputs."""
    from benchmarks.labeling.labeling import stereo_energy

    unary, weights, metric = stereo_energy(folder, "tsukuba")
    everything = {"tsukuba": [Energy.grid(unary, metric, weights=weights)], "house": [house()]}
    everything["house, parts of 32 x 32"] = house_parts(4, 32, np.random.default_rng(0))
    for name, energy in uai_energies().items():
        everything.setdefault(uai_group(name, energy), []).append(energy)
    rows = []
    for name, energies in everything.items():
        whole = name in ("tsukuba", "house")
        draws = 40 if whole else 200
        window = {"interval": 2} if energies[0].n_labels == 2 else {}
        others = [np.mean([minimize(energy, "trws", max_sweeps=200).energy for energy in energies])]
        others.append(np.mean([minimize(energy, "expansion", truncate=True).energy for energy in energies]))
        inputs = ("trws",) if whole else ("lp", "qp", "trws") if energies[0].n_labels == 2 else ("first_order", "qp", "trws")
        solved: dict[str, list[FractionalLabeling]] = {}
        for source in inputs:
            hot = {"temperature": TEMPERATURE} if source == "trws" and "house" in name else {}
            solved[source] = [relax(energy, source, **hot) for energy in energies]
        # The bound of TRW-S, where there is no linear relaxation.
        others.append(np.mean([point.lower_bound for point in solved[inputs[0]]]))
        for source, points in solved.items():
            fractional = np.mean([point.n_fractional for point in points])
            for method in HAND_MADE:
                options = window if method == "interval" else {}
                numbers = np.empty((n_seeds, len(energies), 2))
                for seed in range(n_seeds):
                    for k, (point, energy) in enumerate(zip(points, energies, strict=True)):
                        drawn = round_labeling(point, energy, method, draws, seed, **options)
                        numbers[seed, k] = drawn.mean, drawn.minimum
                row = [name, source, f"{fractional:.0f} of {np.mean([energy.n_nodes for energy in energies]):.0f}", method]
                rows.append([*row, *mean_and_spread(numbers.mean(axis=1)), *(f"{value:.7g}" for value in others)])
                print(rows[-1], flush=True)
    text = (
        f"The stereo pair (16 labels) and house with {GREY_VALUES} grey values, whole and four parts of it of which 30 to 80 % "
        "are known; four UAI grids of 100 nodes, four of 400, six segmentations. Means over energies, ± the standard deviation "
        f"between {n_seeds} seeds of 200 draws each (40 for whole images). Inputs: the linear relaxation (`lp`, `first_order`), "
        f"Frank-Wolfe (`qp`), min-marginals of TRW-S (`trws`, for house at temperature {TEMPERATURE:g}, else 1); windows of 2 "
        "labels for UAI instances. Labels that TRW-S finds on its way, expansion moves (which on grids cut off what is not "
        "submodular) and the bound, that of TRW-S for whole images, are for the same energies.\n\n"
        "What holds: where the relaxation is a labeling (parts of house, segmentations) every rounding returns the optimum, and "
        "expansion moves are at best level with it. What does not: on grids with couplings of both signs nothing is left to "
        "round. Nearly all marginals of the relaxation are one half, so that the draws, which keep equal nodes together, give "
        "all nodes the same label. Labels of Frank-Wolfe are the lowest there, below those of TRW-S; on house and "
        "segmentations they are the worst. Of min-marginals take the largest; only on the stereo pair do draws reach lower, "
        "and not as low as labels TRW-S finds on its way."
    )
    header = ["energy", "input", "fractional", "rounding", "E_avg", "E_min", "TRW-S labels", "expansion", "bound"]
    return f"## Energies of pictures\n\n{text}\n\n{markdown(header, rows)}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5, help="timings per entry; the best counts")
    parser.add_argument("--graphs", type=int, default=12, help="energies per seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the stereo pairs")
    sections = {
        "roundings": lambda: thousand_roundings(),
        "means": lambda: mean_energies(options.repeats),
        "uai": lambda: uai_bounds(),
        "first_order": lambda: first_order(),
        "energies": lambda: energies_of_roundings(options.graphs, options.seeds),
        "pictures": lambda: pictures(options.data, options.seeds),
    }
    parser.add_argument("--only", choices=list(sections), help="one of the sections")
    options = parser.parse_args()
    text = "Times are those of the processor, ratios from the same run."
    for name, section in sections.items():
        if options.only in (None, name):
            update_report(RESULTS, "Relaxations and roundings", text, [section()])


if __name__ == "__main__":
    main()
