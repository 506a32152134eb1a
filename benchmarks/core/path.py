"""The certified regularization path: passes, time, memory, and what it looks like.

The whole takes more than an hour of processor time. Results of parts are kept in a folder of temporary files, so that a run
that was interrupted goes on where it stopped, as long as the code is the same; ``--fresh`` measures everything anew.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import binary, mnist, news20, ocr_words
from benchmarks.sequences.ocr import EPSILON, GRID, test_loss
from benchmarks.timing import markdown, update_report

import maxmargin
from maxmargin._utils import replacing
from maxmargin.core import TracedPath, trace_path
from maxmargin.core.path import Rule
from maxmargin.core.solvers import BCFW, OneSlackCuttingPlane, Solver
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import AveragePrecision, BinaryProblem, RankingProblem
from maxmargin.sequences import ChainProblem

RESULTS = FOLDER / "results"
PACKAGE = Path(maxmargin.__file__).parent
KAPPAS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
LAMBDA_MIN = float(GRID[0])
OURS = BCFW(steps="pairwise", cache=20)
# Solver, rule, whether the path is certified.
METHODS: dict[str, tuple[Solver, Rule, bool]] = {
    "HEU-G": (BCFW(steps="fw", stop="heuristic"), "transport", False),
    "HEU-U": (BCFW(steps="fw", stop="heuristic", sampling="uniform"), "transport", False),
    "STD-G": (BCFW(steps="fw"), "transport", True),
    "STD-U": (BCFW(steps="fw", sampling="uniform"), "transport", True),
    "pairwise, transport": (OURS, "transport", True),
    "pairwise, interpolate": (OURS, "interpolate", True),
}
# Tables 5.2, 5.3 and 5.4 of the thesis: total passes, breakpoints, smallest test loss, for each kappa.
PRINTED = {
    "HEU-G": (
        (2711.946, 1708.943, 1301.869, 1247.567, 1076.005, 1070.634),
        (142, 168, 225, 364, 1060, 2105),
        (0.113, 0.118, 0.121, 0.120, 0.125, 0.125),
    ),
    "HEU-U": (
        (5102.513, 2939.686, 2485.238, 2109.278, 1874.513, 1851.846),
        (142, 168, 226, 365, 1065, 2115),
        (0.113, 0.113, 0.116, 0.120, 0.123, 0.121),
    ),
    "STD-G": (
        (4405.881, 2287.803, 2120.969, 1786.437, 2100.304, 2572.735),
        (133, 135, 153, 193, 349, 501),
        (0.114, 0.115, 0.118, 0.120, 0.118, 0.120),
    ),
    "STD-U": (
        (5487.914, 4078.553, 2649.019, 2306.304, 2122.717, 2174.990),
        (132, 134, 148, 182, 306, 420),
        (0.113, 0.116, 0.119, 0.120, 0.122, 0.121),
    ),
}


# ---- keeping and timing -------------------------------------------------------------------------------------------------------


@cache
def folder() -> Path:
    """Where results are kept; another one after a change of the code that is measured."""
    digest = hashlib.sha256()
    for part in ("path", "solvers", "problems", "structures", "inference", "losses", "_core*"):
        for file in sorted(f for place in PACKAGE.glob(part) for f in ([place] if place.is_file() else place.rglob("*.py"))):
            digest.update(file.read_bytes())
    place = Path(tempfile.gettempdir()) / f"maxmargin-benchmark-path-{digest.hexdigest()[:12]}"
    place.mkdir(exist_ok=True)
    return place


def kept(name: str, measure: Callable[[], Any], fresh: bool) -> Any:
    """What was measured before, or what is measured now; as JSON."""
    file = folder() / f"{name.replace(' ', '_').replace(',', '')}.json"
    if file.exists() and not fresh:
        return json.loads(file.read_text())
    found = measure()
    with replacing(file) as out:
        out.write(json.dumps(found).encode())
    print(f"{name}: {json.dumps(found)[:300]}", flush=True)
    return json.loads(json.dumps(found))


def prose(text: str) -> str:
    """One line."""
    return " ".join(text.split())


def timed(task: Callable[[], Any], repeats: int = 1) -> tuple[Any, float, float]:
    """The last result, and the smallest processor and wall seconds."""
    seconds, wall, result = np.inf, np.inf, None
    for _ in range(repeats):
        began, began_wall = time.process_time(), time.perf_counter()
        result = task()
        seconds, wall = min(seconds, time.process_time() - began), min(wall, time.perf_counter() - began_wall)
    return result, seconds, wall


# ---- 1: the words, as in the thesis -------------------------------------------------------------------------------------------


@cache
def words() -> tuple[ChainProblem, Any]:
    """Training words as a model, and the test words."""
    train, test = ocr_words()
    return ChainProblem(train.X, train.y, train.offsets, 26), test


def true_gaps(path: TracedPath, model: ChainProblem) -> tuple[float, float]:
    """The largest duality gap of a path traced with estimates, from hinges that were looked at, and where it is."""
    worst, place = 0.0, 0.0
    for segment in path.segments:
        weights, k = path.store[segment.model], segment.model
        hinge = model.mean_cut(weights).hinge(weights)
        # The lower bounds are values of the dual; they are true in any case.
        gap = 0.5 * segment.hi * path.squared_norms[k] + hinge - path.duals[k]
        for lam in (segment.hi, segment.lo):
            transported = gap + (1.0 - lam / segment.hi) * (hinge - gap)
            if transported > worst:
                worst, place = transported, lam
    return worst, place


def cell(method: str, kappa: float) -> dict[str, Any]:
    """One path on the words."""
    model, test = words()
    solver, rule, certified = METHODS[method]
    path, seconds, wall = timed(
        lambda: trace_path(
            model, epsilon=EPSILON, lambda_min=LAMBDA_MIN, solver=solver, kappa=kappa, rule=rule, certified=certified
        )
    )
    assert path.complete and path.certified == certified
    found = {
        "passes": path.total_passes,
        "breakpoints": len(path.breakpoints),
        "solves": len(path),
        "loss": min(test_loss(path.weights(float(lam)), test) for lam in GRID),
        "seconds": seconds,
        "wall": wall,
    }
    if not certified:
        found["gap"], found["place"] = true_gaps(path, model)
    return found


def ocr_section(fresh: bool) -> list[str]:
    """Tables 5.2 to 5.4."""
    cells = {}
    for kappa in (0.9, 0.7, 0.5, 0.95, 0.3, 0.1):
        for method in reversed(METHODS):
            cells[method, kappa] = kept(f"ocr {method} {kappa:g}", lambda m=method, k=kappa: cell(m, k), fresh)
    model, _ = words()
    ours = [cells["pairwise, interpolate", kappa]["passes"] for kappa in KAPPAS]
    text = f"""
        {model.n_blocks:,} training words, {model.n_features:,} weights, all of the data in every cell; epsilon = {EPSILON:g},
        lambda from {LAMBDA_MIN:g} up, one seed. STD stops on exact gaps, HEU on estimates (and certifies nothing), G draws
        blocks by their gaps, U uniformly: the published algorithm, `rule="transport"` with `BCFW(steps="fw")`. Numbers in
        parentheses are those printed in the thesis. "pairwise" is `BCFW(steps="pairwise", cache=20)`, our best solver for chains,
        with the published rule and with ours. Table 5.1, the grid, is in [ocr.md](ocr.md).
    """
    parts = ["## Words, as in the thesis", prose(text)]
    titles = (
        ("passes", "Total passes (Table 5.2). The grid of 20 independent solves takes 1,139 passes in the thesis.", "{:,.0f}"),
        ("breakpoints", "Breakpoints (Table 5.3).", "{:.0f}"),
        ("loss", "Smallest test loss over 20 look-ups (Table 5.4).", "{:.3f}"),
    )
    for number, (field, title, form) in enumerate(titles):
        rows = []
        for k, kappa in enumerate(KAPPAS):
            row = [f"{kappa:g}"]
            for method in METHODS:
                printed = f" ({form.format(PRINTED[method][number][k])})" if method in PRINTED else ""
                row.append(form.format(cells[method, kappa][field]) + printed)
            rows.append(row)
        parts += [title, markdown(["kappa", *METHODS], rows)]

    def table(form: str, methods: list[str]) -> str:
        filled = {key: form.format(**entry) for key, entry in cells.items() if key[0] in methods}
        return markdown(["kappa", *methods], [[f"{k:g}", *[filled.get((m, k), "-") for m in methods]] for k in KAPPAS])

    gaps = f"""
        Largest true gap of the heuristic paths, which were to stay below {EPSILON:g}, and the lambda where it occurs (Figure
        5.2 of the thesis: below epsilon for kappa up to 0.5, above it for larger ones). All other paths are certified.
    """
    fewest = f"""
        Fewest passes of a certified path: {min(ours):.0f}. The fewest in the thesis are 1,786.437, and 1,070.634 without a
        certificate.
    """
    differs = """
        What differs from the thesis: after a change of lambda our heuristic solver visits every block once before it trusts
        the sum of its estimates (drawn uniformly, that takes several passes), so that its solves end farther below the goal,
        steps are longer and breakpoints fewer. The exact one makes at least a pass before a check, and checks early only when
        the estimates promise 0.8 of the goal, to the same effect.
    """
    parts += ["Processor / wall seconds.", table("{seconds:.0f} / {wall:.0f}", list(METHODS))]
    parts += [prose(gaps), table("{gap:.3f} at {place:.1e}", [m for m in METHODS if not METHODS[m][2]])]
    parts += [prose(fewest), prose(differs)]
    return parts


# ---- 2: a path against a grid -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Case:
    """One problem with a range of lambda."""

    name: str
    model: Callable[[], Any]
    solver: Solver
    epsilon: float
    lows: float
    highs: float
    repeats: int = 1


def ranking_model() -> RankingProblem:
    X, relevant = binary("w8a")
    return RankingProblem(X, relevant, AveragePrecision())


CASES = [
    Case("OCR words, chains", lambda: words()[0], OURS, 0.1, 1e-4, 1e3),
    Case("w8a, ranking by AP", ranking_model, OneSlackCuttingPlane(max_passes=5000), 0.1, 1e-6, 1.0, 3),
    Case("w8a, ranking by AP", ranking_model, OneSlackCuttingPlane(max_passes=5000), 0.01, 1e-6, 1.0, 3),
    Case("w8a, ranking by AP", ranking_model, OneSlackCuttingPlane(max_passes=5000), 0.001, 1e-6, 1.0, 3),
    Case("MNIST, 10 classes", lambda: MulticlassProblem(*mnist(), 10), BCFW(steps="exact"), 0.1, 1e-5, 1e2),
    Case("MNIST, 10 classes", lambda: MulticlassProblem(*mnist(), 10), BCFW(steps="exact"), 0.02, 1e-5, 1e2),
]


def over_grid(model: Any, case: Case, warm: bool) -> float:
    """Passes of 20 solves from large lambda to small, each from nothing or from the one before."""
    solver, total, last = dataclasses.replace(case.solver, epsilon=case.epsilon), 0.0, None
    for lam in np.geomspace(case.highs, case.lows, 20):
        solution = solver.solve(model, float(lam), start=last)
        assert solution.certified and solution.gap <= case.epsilon
        total += solution.passes
        last = solution if warm else None
    return total


def race(case: Case) -> dict[str, Any]:
    """Seconds of everything on one case."""
    model = case.model()
    found: dict[str, Any] = {}
    for name, warm in (("cold", False), ("warm", True)):
        passes, seconds, wall = timed(lambda warm=warm: over_grid(model, case, warm), case.repeats)
        found[name] = {"passes": passes, "seconds": seconds, "wall": wall}
    for rule, repeats, limit in (("interpolate", case.repeats, None), ("transport", 1, max(10.0, 4 * found["cold"]["wall"]))):
        path, seconds, wall = timed(
            lambda rule=rule, limit=limit: trace_path(
                model, epsilon=case.epsilon, lambda_min=case.lows, solver=case.solver, rule=rule, time_limit=limit
            ),
            repeats,
        )
        assert path.certified and (path.complete or rule == "transport")
        found[rule] = {
            "passes": path.total_passes,
            "seconds": seconds,
            "wall": wall,
            "solves": len(path),
            "complete": path.complete,
            "end": path.lambda_end,
        }
    return found


def race_section(fresh: bool) -> list[str]:
    """A path against a grid of independent solves."""
    rows, missed = [], []
    for case in CASES:
        found = kept(f"race {case.name} {case.epsilon:g}", lambda c=case: race(c), fresh)
        cold, warm, ours, published = (found[name] for name in ("cold", "warm", "interpolate", "transport"))
        if ours["seconds"] > cold["seconds"]:
            text = f"""
                {case.name} at epsilon = {case.epsilon:g} is dearer than the grid. The path needs {ours["solves"]} weights,
                since their number grows with the root of 1 / epsilon while a grid always has 20; and a solve takes
                {ours["passes"] / ours["solves"]:.0f} passes, against {cold["passes"] / 20:.0f} from zero and
                {warm["passes"] / 20:.0f} on the grid that goes on from the solve before: a nearby start does not make up for
                that.
            """
            missed.append(prose(text))
        form = "{seconds:.1f} ({passes:,.0f})"
        more = "" if published["complete"] else "> "
        rows.append(
            [
                case.name,
                f"{case.epsilon:g}",
                f"{case.lows:g} to {case.highs:g}",
                form.format(**cold),
                form.format(**warm),
                form.format(**ours) + f", {ours['solves']}",
                f"{ours['seconds'] / cold['seconds']:.2f}",
                f"{ours['wall'] / cold['wall']:.2f}",
                more + form.format(**published) + f", {published['solves']}",
                f"{more}{published['seconds'] / cold['seconds']:.1f}" + (f" (to {published['end']:.1e})" if more else ""),
            ]
        )
    header = ["problem", "epsilon", "lambda", "cold grid", "warm grid", "path", "path / cold", "wall"]
    text = """
        Seconds of processor time (and passes): 20 solves on a grid from zero weights, the same with each solve going on from
        the one before, and the whole path, which covers every lambda from the lower end of the grid up to infinity, by our
        rule (`rule="interpolate"`, with its default kappa) and by the published one; for paths also the number of weights.
        All with the same solver and the same certified absolute gap. Ratios are of processor time, and of wall time where it
        says so; a path that did not end within four times the wall time of the grid, or ten seconds, is given with the lambda
        it had come to.
    """
    return ["## A path against a grid of 20", prose(text), markdown([*header, "transport", "transport / cold"], rows), *missed]


# ---- 3: memory ----------------------------------------------------------------------------------------------------------------


# Small enough for about 2,000 segments.
LONG_EPSILON = 0.004


def memory_model() -> BinaryProblem:
    """The last five of twenty newsgroups against the rest; 62,061 terms, rows of norm 1."""
    from sklearn.preprocessing import normalize

    counts, label = news20()
    return BinaryProblem(normalize(counts), np.where(label >= 15, 1.0, -1.0))


def peak_megabytes() -> float:
    """Largest resident memory so far. Not getrusage, which starts from the peak of the parent process."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024


def memory_of(dtype: str) -> dict[str, Any]:
    """A long path in this process; resident memory before and after, and what looking up weights takes."""
    model = memory_model()
    before = peak_megabytes()
    path, seconds, wall = timed(
        lambda: trace_path(
            model,
            epsilon=LONG_EPSILON,
            lambda_min=1e-7,
            solver=BCFW(steps="exact"),
            kappa=0.9,
            rule="transport",
            dtype=np.dtype(dtype),
        )
    )
    peak = peak_megabytes()
    lams = np.geomspace(path.lambda_end or 1e-7, path.lambdas[0], 200)
    _, look, _ = timed(lambda: [path.weights(float(lam)) for lam in lams], 5)
    dense = float(np.mean([np.count_nonzero(path.store[k]) for k in range(0, len(path), 20)])) / model.n_features
    return {
        "features": model.n_features,
        "segments": len(path.segments),
        "stored": path.store.nbytes / 2**20,
        "before": before,
        "peak": peak,
        "look": 1e3 * look / len(lams),
        "seconds": seconds,
        "wall": wall,
        "dense": dense,
        "complete": path.complete,
    }


def measured_memory(dtype: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.core.path", "--memory-of", dtype]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=os.environ).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def memory_section(fresh: bool) -> list[str]:
    """Many segments, many features."""
    rows = []
    for dtype in ("float64", "float32"):
        found = kept(f"memory {dtype}", lambda d=dtype: measured_memory(d), fresh)
        rows.append(
            [
                dtype,
                f"{found['segments']:,}",
                f"{found['features']:,}",
                f"{found['dense']:.0%}",
                f"{found['stored']:.0f}",
                f"{found['before']:.0f}",
                f"{found['peak']:.0f}",
                f"{found['look']:.2f}",
                f"{found['seconds']:.0f} / {found['wall']:.0f}",
            ]
        )
    header = ["stored as", "segments", "features", "not zero", "weights, MB", "before, MB", "peak, MB", "look-up, ms", "seconds"]
    text = f"""
        A path that was really traced: news20 (the last five of its twenty classes against the rest, hinge loss, rows of norm
        1), epsilon = {LONG_EPSILON:g}, `rule="transport"`, kappa = 0.9, lambda from 1e-7, `BCFW(steps="exact")`, each in a
        process of its own. Resident memory with the data loaded, and its peak at the end; MB are 2^20 bytes. Seconds are
        processor / wall time of the tracing, look-up is `weights(lambda)`, the mean of 200. These weights are hardly sparse,
        and 2,000 dense vectors of 62,061 numbers take 947 MB as float64, 474 MB as float32: for less than 1 GB in all, store
        float32, which costs one more pass per solve.
    """
    return ["## Memory", prose(text), markdown(header, rows)]


# ---- 4: a figure --------------------------------------------------------------------------------------------------------------


def draw() -> list[str]:
    """Bounds of the gap by both rules, and coefficients."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"] = "none"
    plt.rcParams["svg.hashsalt"] = "path"
    model, _ = words()
    kappas: dict[Rule, float] = {"interpolate": 0.9, "transport": 0.7}
    paths = {
        rule: trace_path(model, epsilon=EPSILON, lambda_min=LAMBDA_MIN, solver=OURS, kappa=kappa, rule=rule)
        for rule, kappa in kappas.items()
    }
    figure, axes = plt.subplots(3, 1, figsize=(8, 8), sharex=True, layout="constrained")
    for ax, (rule, path) in zip(axes, paths.items(), strict=False):
        ends = np.array([[s.hi, s.lo] for s in path.segments]).ravel()
        gaps = np.array([[s.gap_hi, s.gap_lo] for s in path.segments]).ravel()
        ax.plot(ends, gaps, linewidth=0.8)
        ax.plot(path.breakpoints, [path.gap_bound(float(lam)) for lam in path.breakpoints], "|", color="black", markersize=5)
        ax.axhline(EPSILON, linestyle=":", color="0.5")
        ax.set_ylabel("bound of the gap")
        counts = f"{len(path.breakpoints)} breakpoints, {path.total_passes:.0f} passes"
        ax.set_title(f'rule="{rule}", kappa = {path.kappa:g}: {counts}')
    path = paths["interpolate"]
    last = np.abs(path.store[len(path) - 1])
    features = np.argsort(-last)[:12]
    lams, coefficients = path.coef_path(features)
    # Piecewise constant, as the weights are.
    ranges = path.ranges()
    for column in coefficients.T:
        ends = [[(min(hi, lams[0]), value), (lo, value)] for (hi, lo), value in zip(ranges, column, strict=True)]
        steps = np.array(ends)
        axes[2].plot(steps[..., 0].ravel(), steps[..., 1].ravel(), linewidth=0.8)
    axes[2].set_ylabel("coefficient")
    axes[2].set_title("The 12 largest weights of the path above, piecewise constant")
    axes[2].set_xlabel("lambda")
    axes[2].set_xscale("log")
    with replacing(RESULTS / "path.svg") as file:
        figure.savefig(file, format="svg", metadata={"Date": None})
    text = f"""
        OCR words, epsilon = {EPSILON:g} (dotted), `BCFW(steps="pairwise", cache=20)`. Ticks are breakpoints: where the
        weights change.
    """
    return ["## Gaps and coefficients", prose(text), "![bounds of the gap and coefficients over lambda](path.svg)"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    choices = ["ocr", "race", "memory", "figure"]
    parser.add_argument("--only", nargs="+", choices=choices, help="these sections; the others stay as they are")
    parser.add_argument("--fresh", action="store_true", help="measure again what an earlier run has left in temporary files")
    parser.add_argument("--memory-of", choices=["float64", "float32"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.memory_of:
        print(json.dumps(memory_of(options.memory_of)))
        return
    sections: dict[str, Callable[[], list[str]]] = {
        "ocr": lambda: ocr_section(options.fresh),
        "race": lambda: race_section(options.fresh),
        "memory": lambda: memory_section(options.fresh),
        "figure": draw,
    }
    for name, section in sections.items():
        if not options.only or name in options.only:
            update_report(RESULTS / "path.md", "The regularization path", "", ["\n\n".join(section())])


if __name__ == "__main__":
    main()
