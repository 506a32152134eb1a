"""Learned rounding beside roundings made by hand. ``python -m benchmarks.learned_rounding [--only SECTION]``.

Every seed has its own networks and its own test energies; the training energies are the same for all seeds.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.rounding_problems import METRICS, rounding_problems
from benchmarks.timing import markdown, update_report
from maxmargin.labeling import Energy, FractionalLabeling, minimize, relax, round_labeling
from maxmargin.nn import LearnedRounding

RESULTS = Path(__file__).parent / "results" / "learned_rounding.md"
BY_HAND = ("max", "complete", "interval", "kleinberg_tardos")
# The thesis' means and minima, of 50 test energies.
PRINTED = {
    "uniform": {
        "max": "12.204 / 12.204", "complete": "12.532 / 10.435", "interval": "12.437 / 10.327", "learned": "10.180 / 10.103",
    },
    "truncated linear": {
        "max": "74.423 / 74.423", "complete": "1887.213 / 19.427", "interval": "1936.361 / 17.787", "learned": "153.801 / 14.762",
    },
    "truncated quadratic": {
        "max": "152.532 / 152.532", "complete": "904.821 / 84.640", "interval": "876.610 / 72.418", "learned": "71.469 / 65.359",
    },
}  # fmt: skip
Model = Callable[[int], LearnedRounding]
# "dense": the thesis' network, residual and with costs. Published are plain logits and a constant weight of the entropy.
NETWORKS: dict[str, Model] = {
    "learned, as published": lambda seed: LearnedRounding.as_published(epochs=200, random_state=seed),
    "learned, dense": lambda seed: LearnedRounding("dense", epochs=60, random_state=seed),
    "learned, messages": lambda seed: LearnedRounding("graph", epochs=50, random_state=seed),
}
TRAINING_SEED = 1000
Problem = tuple[Energy, FractionalLabeling]


def with_solutions(energies: list[Energy], source: str) -> list[Problem]:
    return [(energy, relax(energy, source)) for energy in energies]  # type: ignore[arg-type]


def compared(
    training: list[Problem], tests: list[list[Problem]], networks: dict[str, Model], draws: int, window: int | None = None
) -> tuple[dict[str, Any], dict[str, float]]:
    """(mean, minimum) of every method for every seed, and processor seconds of training and of tuning one energy."""
    found: dict[str, list[Any]] = {}
    seconds: dict[str, float] = {}
    for seed, test in enumerate(tests):
        for name in BY_HAND:
            options = {"interval": window} if name == "interval" and window else {}
            drawn = [round_labeling(y, energy, name, draws, seed, n_jobs=1, **options) for energy, y in test]  # type: ignore[arg-type]
            found.setdefault(name, []).append(np.mean([(one.mean, one.minimum) for one in drawn], axis=0))
        for name, make in networks.items():
            begin = time.process_time()
            model = make(seed).fit([energy for energy, _ in training], [y for _, y in training])
            seconds[name] = time.process_time() - begin
            drawn = [model.round(energy, draws, seed, fractional=y) for energy, y in test]
            found.setdefault(name, []).append(np.mean([(one.mean, one.minimum) for one in drawn], axis=0))
            begin = time.process_time()
            tuned = [model.tune(energy, 20, fractional=y, entropy=0.0) for energy, y in test]
            seconds[f"{name} + 20 steps"] = (time.process_time() - begin) / len(test)
            drawn = [own.round(energy, draws, seed, fractional=y) for own, (energy, y) in zip(tuned, test, strict=True)]
            found.setdefault(f"{name} + 20 steps", []).append(np.mean([(one.mean, one.minimum) for one in drawn], axis=0))
        print(seed, {name: np.round(values[-1], 3).tolist() for name, values in found.items()}, flush=True)
    return found, seconds


def rows_of(
    title: str, found: dict[str, Any], seconds: dict[str, float], printed: dict[str, str], others: list[str]
) -> list[list[str]]:
    rows = []
    for name, values in found.items():
        mean, spread = np.mean(values, axis=0), np.std(values, axis=0, ddof=1)
        numbers = [f"{shown(own)} ± {shown(around)}" for own, around in zip(mean, spread, strict=True)]
        better = "" if name in BY_HAND else f"{seeds_below(found, name, 0)}, {seeds_below(found, name, 1)}"
        said = printed.get("learned" if name == "learned, as published + 20 steps" else name, "")
        rows.append([title, name, *numbers, better, said, *others, f"{seconds[name]:.1f}" if name in seconds else ""])
    return rows


def seeds_below(found: dict[str, Any], name: str, which: int) -> int:
    """In how many seeds the mean (0) or the minimum (1) is below that of every rounding made by hand, clearly."""
    best = np.min([[pair[which] for pair in found[other]] for other in BY_HAND], axis=0)
    return int(np.sum([pair[which] for pair in found[name]] < best - 1e-6))


def shown(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.2e}"


def synthetic(kind: str, source: str, n_training: int, n_test: int, n_seeds: int) -> str:
    rows = []
    for metric in METRICS:
        training = with_solutions(rounding_problems(metric, kind, n_training, TRAINING_SEED), source)  # type: ignore[arg-type]
        tests = [with_solutions(rounding_problems(metric, kind, n_test, seed), source) for seed in range(n_seeds)]  # type: ignore[arg-type]
        everything = [energy for test in tests for energy, _ in test]
        expansion = np.mean([minimize(energy, "expansion", truncate=True).energy for energy in everything])
        bound = np.mean([relax(energy, "lp").lower_bound for energy in everything])
        fractional = np.mean([y.n_fractional for test in tests for _, y in test])
        found, seconds = compared(training, tests, NETWORKS, 1000)
        title = f"{metric} ({fractional:.0f} of 25 fractional)"
        rows += rows_of(title, found, seconds, PRINTED[metric], [f"{expansion:.3f}", f"{bound:.3f}"])
    text = (
        f"The generator {kind!r} of `benchmarks/rounding_problems.py`: complete graphs of 25 nodes, 21 labels; {n_training} "
        f"training energies, {n_test} test energies for each of {n_seeds} seeds, inputs by `relax(energy, {source!r})`, 1,000 "
        "draws. Means over test energies, ± the standard deviation between seeds (other networks, other test energies). 50 "
        "training energies and 50 for testing were used for the printed numbers, on energies of strengths that are not known; "
        "the printed learned rounding has 20 tuning steps. Seeds below: in how many of them mean and minimum are below those of "
        "every rounding made by hand on the same energies. Processor seconds are of training, and of tuning for one energy."
    )
    numbers = ["E_avg", "E_min", "seeds below: avg, min", "printed avg / min", "expansion", "LP bound", "seconds"]
    header = ["energies", "rounding", *numbers]
    return f"## Complete graphs, {kind}\n\n{text}\n\n{markdown(header, rows)}"


def crops(energy: Energy, n: int, height: int, width: int, rng: np.random.Generator) -> list[Energy]:
    """Parts of an image, as energies of their own."""
    nodes = np.arange(energy.n_nodes).reshape(energy.shape)
    found = []
    for _ in range(n):
        top, left = (int(rng.integers(most - size)) for most, size in zip(energy.shape, (height, width), strict=True))
        inside = nodes[top : top + height, left : left + width]
        weights = np.zeros((2, energy.n_nodes))
        horizontal = energy.edges[:, 1] - energy.edges[:, 0] == 1
        for step, own in enumerate((horizontal, ~horizontal)):
            weights[step, energy.edges[own, 0]] = energy.weights[own]
        unary = energy.unary[inside]
        found.append(Energy.grid(unary, energy.table, weights=weights[:, inside]))
    return found


def stereo(folder: Path, n_training: int, n_test: int, n_seeds: int) -> str:
    from benchmarks.labeling import stereo_energy

    unary, weights, metric = stereo_energy(folder, "tsukuba")
    whole = Energy.grid(unary, metric, weights=weights)
    rows = []
    for source in ("trws", "qp"):
        training = with_solutions(crops(whole, n_training, 20, 24, np.random.default_rng(TRAINING_SEED)), source)
        tests = [with_solutions(crops(whole, n_test, 20, 24, np.random.default_rng(seed)), source) for seed in range(n_seeds)]
        everything = [energy for test in tests for energy, _ in test]
        expansion = np.mean([minimize(energy, "expansion", truncate=True).energy for energy in everything])
        bound = np.mean([relax(energy, "trws").lower_bound for energy in everything])
        fractional = np.mean([y.n_fractional for test in tests for _, y in test])
        networks: dict[str, Model] = {
            "learned, convolutions": lambda seed: LearnedRounding("grid", epochs=20, random_state=seed),
            "learned, messages": lambda seed: LearnedRounding("graph", epochs=15, random_state=seed),
        }
        found, seconds = compared(training, tests, networks, 100)
        title = f"{source} ({fractional:.0f} of 480 fractional)"
        rows += rows_of(title, found, seconds, {}, [f"{expansion:.1f}", f"{bound:.1f}"])
    text = (
        f"Parts of 20 x 24 pixels of the tsukuba energy (16 labels, truncated linear distances) at random places, which may "
        f"overlap: {n_training} to train on, {n_test} for testing for each of {n_seeds} seeds, 100 draws. No more fits into "
        "some minutes; the thesis trained on 276 whole images. The bound is that of TRW-S."
    )
    header = ["input", "rounding", "E_avg", "E_min", "seeds below: avg, min", "printed", "expansion", "bound", "seconds"]
    kept = [k for k, name in enumerate(header) if name != "printed"]
    table = markdown([header[k] for k in kept], [[row[k] for k in kept] for row in rows])
    return f"## Parts of a stereo pair\n\n{text}\n\n{table}"


INTRODUCTION = (
    "Small trainings on few energies, since all of it should take minutes: read differences, not records. What holds and what "
    "does not is said in [the guide](../../docs/learned_rounding.md)."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=int, default=8, help="training energies")
    parser.add_argument("--test", type=int, default=2, help="test energies per seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the stereo pairs")
    sections = {
        "balanced": lambda: synthetic("balanced", "lp", options.training, options.test, options.seeds),
        "heavy": lambda: synthetic("heavy", "trws", options.training, options.test, options.seeds),
        "stereo": lambda: stereo(options.data, options.training // 2, options.test // 2, options.seeds),
    }
    parser.add_argument("--only", choices=list(sections), help="one of the sections")
    options = parser.parse_args()
    torch.set_num_threads(1)
    # The published model has nothing against it; the table shows what comes of it.
    warnings.simplefilter("ignore")
    for name, section in sections.items():
        if options.only in (None, name):
            begin = time.process_time()
            text = section()
            print(f"{name}: {time.process_time() - begin:.0f} processor seconds")
            update_report(RESULTS, "Learned rounding", INTRODUCTION, [text])


if __name__ == "__main__":
    main()
