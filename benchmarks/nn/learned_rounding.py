"""Learned rounding beside roundings made by hand. ``python -m benchmarks.nn.learned_rounding [--only SECTION]``.

Every seed has its own networks and its own test energies; the training energies are the same for all seeds.
"""

from __future__ import annotations

import argparse
import dataclasses
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks import FOLDER
from benchmarks.labeling.rounding_pictures import GREY_VALUES, TEMPERATURE, house_parts, relaxed_picture, uai_energies, uai_group
from benchmarks.labeling.rounding_problems import METRICS, rounding_problems
from benchmarks.timing import markdown, update_report

from maxmargin.labeling import Energy, FractionalLabeling, Roundings, minimize, relax, round_labeling
from maxmargin.nn import LearnedRounding

RESULTS = FOLDER / "results" / "learned_rounding.md"
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
    return [(energy, relax(energy, source)) for energy in energies]


def compared(
    training: list[Problem],
    tests: list[list[Problem]],
    networks: dict[str, Model],
    draws: int,
    window: int | None = None,
    alone: bool = False,
) -> tuple[dict[str, Any], dict[str, float]]:
    """(mean, minimum) of every method for every seed and test energy, and processor seconds of training and of tuning one.

    ``alone``: networks that are trained on nothing but the test energy, for as many steps as others are tuned, too.
    """
    found: dict[str, list[Any]] = {}
    seconds: dict[str, float] = {}

    def note(name: str, drawn: list[Roundings]) -> None:
        found.setdefault(name, []).append([(one.mean, one.minimum) for one in drawn])

    for seed, test in enumerate(tests):
        for name in BY_HAND:
            options = {"interval": window} if name == "interval" and window else {}
            note(name, [round_labeling(y, energy, name, draws, seed, n_jobs=1, **options) for energy, y in test])
        for name, make in networks.items():
            if alone:
                begin = time.process_time()
                fresh = dataclasses.replace(make(seed), epochs=20, entropy=0.0)
                own_models = [dataclasses.replace(fresh).fit([energy], [y]) for energy, y in test]
                seconds[f"{name}, 20 steps alone"] = (time.process_time() - begin) / len(test)
                drawn = [own.round(e, draws, seed, fractional=y) for own, (e, y) in zip(own_models, test, strict=True)]
                note(f"{name}, 20 steps alone", drawn)
            begin = time.process_time()
            model = make(seed).fit([energy for energy, _ in training], [y for _, y in training])
            seconds[name] = time.process_time() - begin
            note(name, [model.round(energy, draws, seed, fractional=y) for energy, y in test])
            begin = time.process_time()
            tuned = [model.tune(energy, 20, fractional=y, entropy=0.0) for energy, y in test]
            seconds[f"{name} + 20 steps"] = (time.process_time() - begin) / len(test)
            note(f"{name} + 20 steps", [own.round(e, draws, seed, fractional=y) for own, (e, y) in zip(tuned, test, strict=True)])
        print(seed, {name: np.round(np.mean(values[-1], axis=0), 3).tolist() for name, values in found.items()}, flush=True)
    return found, seconds


def rows_of(
    title: str, found: dict[str, Any], seconds: dict[str, float], printed: dict[str, str], others: list[str]
) -> list[list[str]]:
    """Means over test energies, and how they differ between seeds; ``found`` has (seeds, energies, 2) numbers of a method."""
    found = {name: np.mean(values, axis=1) for name, values in found.items()}
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
    return f"{value:.3f}" if abs(value) < 1e4 else f"{value:.6g}"


def synthetic(kind: str, source: str, n_training: int, n_test: int, n_seeds: int, metrics: tuple[str, ...] = ()) -> str:
    """All distances, or those in ``metrics``, whose section then has a name of its own."""
    rows = []
    for metric in metrics or METRICS:
        training = with_solutions(rounding_problems(metric, kind, n_training, TRAINING_SEED), source)
        tests = [with_solutions(rounding_problems(metric, kind, n_test, seed), source) for seed in range(n_seeds)]
        everything = [energy for test in tests for energy, _ in test]
        expansion = np.mean([minimize(energy, "expansion", truncate=True).energy for energy in everything])
        bound = np.mean([relax(energy, "lp").lower_bound for energy in everything])
        fractional = np.mean([y.n_fractional for test in tests for _, y in test])
        found, seconds = compared(training, tests, NETWORKS, 1000)
        title = f"{metric} ({fractional:.0f} of 25 fractional)"
        rows += rows_of(title, found, seconds, PRINTED[metric], [f"{expansion:.3f}", f"{bound:.3f}"])
    text = (
        f"The generator {kind!r} of `benchmarks/labeling/rounding_problems.py`: complete graphs of 25 nodes, 21 labels; "
        f"{n_training} training energies, {n_test} test energies for each of {n_seeds} seeds, inputs by `relax(energy, "
        f"{source!r})`, 1,000 draws. Means over test energies, ± the standard deviation between seeds (other networks, other "
        "test energies). 50 training energies and 50 for testing were used for the printed numbers, on energies of "
        "strengths that are not known; "
        "the printed learned rounding has 20 tuning steps. Seeds below: in how many of them mean and minimum are below those of "
        "every rounding made by hand on the same energies. Processor seconds are of training, and of tuning for one energy."
    )
    numbers = ["E_avg", "E_min", "seeds below: avg, min", "printed avg / min", "expansion", "LP bound", "seconds"]
    header = ["energies", "rounding", *numbers]
    title = ", ".join(["Complete graphs", kind, *metrics, *(["more energies"] if metrics else [])])
    return f"## {title}\n\n{text}\n\n{markdown(header, rows)}"


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
    from benchmarks.labeling.labeling import stereo_energy

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


def inpainting(n_training: int, n_test: int, n_seeds: int) -> str:
    side, rows = 20, []
    parts = house_parts(n_training, side, np.random.default_rng(TRAINING_SEED))
    own = [house_parts(n_test, side, np.random.default_rng(seed)) for seed in range(n_seeds)]
    everything = [energy for test in own for energy in test]
    others = [np.mean([minimize(energy, "trws", max_sweeps=200).energy for energy in everything])]
    others.append(np.mean([minimize(energy, "expansion", truncate=True).energy for energy in everything]))
    others.append(np.mean([relax(energy, "first_order").lower_bound for energy in everything]))
    networks: dict[str, Model] = {
        "learned, convolutions": lambda seed: LearnedRounding("grid", epochs=20, random_state=seed),
        "learned, messages": lambda seed: LearnedRounding("graph", epochs=15, random_state=seed),
    }
    for source in ("first_order", "trws", "qp"):
        training = [(energy, relaxed_picture(energy, source)) for energy in parts]
        tests = [[(energy, relaxed_picture(energy, source)) for energy in test] for test in own]
        fractional = np.mean([y.n_fractional for test in tests for _, y in test])
        found, seconds = compared(training, tests, networks, 100)
        title = f"{source} ({fractional:.0f} of {side * side} fractional)"
        rows += rows_of(title, found, seconds, {}, [shown(value) for value in others])
    text = (
        f"Parts of {side} x {side} pixels of house, at random places of which 30 to 80 % are known: {GREY_VALUES} grey values, "
        f"squared differences to those that are known, truncated linear distances. {n_training} to train on, {n_test} for "
        f"testing for each of {n_seeds} seeds (parts may overlap), 100 draws. Inputs: the linear relaxation, min-marginals of "
        f"TRW-S at temperature {TEMPERATURE:g} and Frank-Wolfe. Labels of TRW-S, expansion moves and the bound of the linear "
        "relaxation are for the same energies."
    )
    header = ["input", "rounding", "E_avg", "E_min", "seeds below: avg, min", "TRW-S labels", "expansion", "LP bound", "seconds"]
    return f"## Parts of an inpainting problem\n\n{text}\n\n{markdown(header, [row[:5] + row[6:] for row in rows])}"


def by_folds(
    problems: list[Problem], n_folds: int, n_seeds: int, networks: dict[str, Model]
) -> tuple[dict[str, Any], dict[str, float]]:
    """Every energy with networks that were trained on energies of other folds: (seeds, energies, 2) numbers of a method."""
    numbers: dict[str, Any] = {}
    seconds: dict[str, float] = {}
    for fold in range(n_folds):
        training = [problem for k, problem in enumerate(problems) if k % n_folds != fold]
        found, seconds = compared(training, [problems[fold::n_folds]] * n_seeds, networks, 100, window=2, alone=True)
        for name, values in found.items():
            numbers.setdefault(name, np.empty((n_seeds, len(problems), 2)))[:, fold::n_folds] = values
    return numbers, seconds


def uai(n_seeds: int) -> str:
    rows = []
    energies = uai_energies()
    networks: dict[str, Model] = {"learned, messages": lambda seed: LearnedRounding("graph", epochs=50, random_state=seed)}
    for family, sources in (("Grids", ("lp", "qp")), ("Segmentation", ("lp", "trws"))):
        names = [name for name in energies if name.startswith(family)]
        for source in sources:
            problems = with_solutions([energies[name] for name in names], source)
            found, seconds = by_folds(problems, 2, n_seeds, networks)
            groups = [uai_group(name, energies[name]) for name in names]
            for group in dict.fromkeys(groups):
                inside = [k for k, own in enumerate(groups) if own == group]
                own = [problems[k][0] for k in inside]
                others = [np.mean([minimize(energy, "trws", max_sweeps=200).energy for energy in own])]
                others.append(np.mean([minimize(energy, "expansion", truncate=True).energy for energy in own]))
                others.append(np.mean([relax(energy, "lp").lower_bound for energy in own]))
                part = {name: values[:, inside] for name, values in found.items()}
                fractional = np.mean([problems[k][1].n_fractional for k in inside])
                title = f"{group}: {source} ({fractional:.0f} fractional)"
                rows += rows_of(title, part, seconds, {}, [f"{value:.2f}" for value in others])
    text = (
        "The UAI 2014 instances, 2 labels each: four grids of 100 and four of 400 nodes, six segmentations of about 230. "
        "Networks are trained on every other instance of the family, and tested on the rest; both ways round; "
        "*20 steps alone* are networks that have seen nothing but the test energy. "
        f"{n_seeds} seeds of training and draws, 100 draws, windows of 2 labels. Means over instances, ± the standard deviation "
        "between seeds. The temperature of TRW-S is 1. Labels that TRW-S finds on its way, expansion moves (which on grids cut "
        "off what is not submodular) and the bound of the linear relaxation are for the same energies."
    )
    header = ["input", "rounding", "E_avg", "E_min", "seeds below: avg, min", "TRW-S labels", "expansion", "LP bound", "seconds"]
    return f"## UAI instances\n\n{text}\n\n{markdown(header, [row[:5] + row[6:] for row in rows])}"


INTRODUCTION = (
    "Small trainings on few energies, since all of it should take minutes: read differences, not records.\n\n"
    "What holds: networks of messages generalise from few energies. For Potts on complete graphs with fractional relaxations "
    "their tuned means are below those of every rounding made by hand, in all seeds. On UAI grids, where relaxations are one "
    "half nearly everywhere, they are far below all of these, and below expansion moves; training on other grids is most of it. "
    "From min-marginals of strong couplings, inpainting and segmentations their means are below those of draws by hand. What "
    "does not hold: minima are not below those of windows on complete graphs. Where the "
    "linear relaxation is a labeling (couplings as strong as printed, inpainting, segmentations), or TRW-S has found the best "
    "one (stereo), nothing can be gained; the largest marginals are the optimum. On grids labels of TRW-S and Frank-Wolfe are "
    "lower than learned ones, and on segmentations 20 steps alone are better than after training on others. "
    "Networks that see the solution alone, as published, are behind on balanced energies. More on this "
    "is in [the guide](../../docs/learned_rounding.md)."
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=int, help="training energies instead of those of the section")
    parser.add_argument("--test", type=int, help="test energies per seed instead of those of the section")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="directory of the stereo pairs")

    def sizes(n_training: int, n_test: int) -> tuple[int, int, int]:
        return options.training or n_training, options.test or n_test, options.seeds

    sections = {
        "balanced": lambda: synthetic("balanced", "lp", *sizes(8, 2)),
        "more": lambda: synthetic("balanced", "lp", *sizes(24, 6), metrics=("uniform",)),
        "heavy": lambda: synthetic("heavy", "trws", *sizes(8, 2)),
        "stereo": lambda: stereo(options.data, *sizes(4, 1)),
        "inpainting": lambda: inpainting(*sizes(4, 1)),
        "uai": lambda: uai(options.seeds),
    }
    parser.add_argument("--only", choices=[*sections, "introduction"], help="one of the sections, or the words above them")
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
    if options.only == "introduction":
        update_report(RESULTS, "Learned rounding", INTRODUCTION, [])


if __name__ == "__main__":
    main()
