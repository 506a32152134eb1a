"""The pictures of docs/learned_rounding.md."""

from __future__ import annotations

import torch
from benchmarks import FOLDER
from benchmarks.labeling.rounding_problems import rounding_problems
from benchmarks.nn.learned_rounding import NETWORKS, TRAINING_SEED, with_solutions

from maxmargin._utils import save_figure
from maxmargin._utils.figures import plot_draws
from maxmargin.labeling import relax, round_labeling
from maxmargin.nn.figures import plot_rounding_history

IMAGES = FOLDER.parent / "docs" / "images"


def main() -> None:
    torch.set_num_threads(1)
    training = with_solutions(rounding_problems("uniform", "balanced", 8, TRAINING_SEED), "lp")
    (energy,) = rounding_problems("uniform", "balanced", 1, 0)
    y = relax(energy, "lp")
    names = ("complete", "kleinberg_tardos")
    energies = {name.replace("_", "-"): round_labeling(y, energy, name, 1000, 0).energies for name in names}
    for name, make in NETWORKS.items():
        if name == "learned, as published":
            continue  # off the scale
        model = make(0).fit([energy for energy, _ in training], [y for _, y in training])
        if name == "learned, messages":
            energies[name] = model.round(energy, 1000, 0, fractional=y).energies
            save_figure(plot_rounding_history(model.history_), IMAGES / "learned_rounding_training.png")
        energies[f"{name}, tuned"] = model.tune(energy, 20, fractional=y).round(energy, 1000, 0, fractional=y).energies
    save_figure(plot_draws(energies, y.lower_bound), IMAGES / "learned_rounding_draws.png")


if __name__ == "__main__":
    main()
