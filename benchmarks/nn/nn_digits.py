"""One network, three losses: average precision of each digit against the rest.

Ten networks, one per digit, are trained side by side as one batch: a loss that is a sum over digits, and an optimiser that
works coordinate by coordinate, keep them independent.
"""

from __future__ import annotations

import argparse
from typing import NamedTuple

import numpy as np
import torch
from benchmarks import FOLDER
from benchmarks.timing import markdown, write_report
from scipy.stats import t as student
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from maxmargin.nn import APLoss
from maxmargin.ranking import average_precision

RATES = [0.001, 0.003, 0.01, 0.03, 0.1]
SETTINGS = ["plain", "rare positives", "label noise"]
KEPT, FLIPPED = 0.1, 0.05
HIDDEN, STEPS, LOOK_EVERY = 32, 200, 10


class Part(NamedTuple):
    """Samples (n, 64); for each digit, labels and which samples take part, both of shape (10, n)."""

    X: torch.Tensor
    y: torch.Tensor
    used: torch.Tensor


def parts(setting, seed):
    """Half for training, a quarter each for validation and test; what is spoilt is spoilt in the first two."""
    X, digit = load_digits(return_X_y=True)
    rng = np.random.default_rng(seed)
    rest, test = train_test_split(np.arange(len(X)), test_size=0.25, stratify=digit, random_state=seed)
    train, validation = train_test_split(rest, test_size=1 / 3, stratify=digit[rest], random_state=seed)
    made = []
    for rows in (train, validation, test):
        y = digit[rows] == np.arange(10)[:, None]
        used = np.ones(y.shape, dtype=bool)
        if rows is not test and setting == "rare positives":
            for labels, row in zip(y, used, strict=True):
                positives = rng.permutation(np.flatnonzero(labels))
                row[positives[max(4, round(KEPT * len(positives))) :]] = False
        if rows is not test and setting == "label noise":
            y = y ^ (rng.random(y.shape) < FLIPPED)
        made.append(Part(torch.tensor(X[rows] / 16, dtype=torch.float32), torch.tensor(y), torch.tensor(used)))
    return made


def cross_entropy(scores, part, weighted=False):
    """Mean over the samples of each digit, summed over digits; weighted: both classes count the same."""
    y, used = part.y.float(), part.used
    weight = used.float()
    if weighted:
        n_pos, n = (part.y & used).sum(1, keepdim=True), used.sum(1, keepdim=True)
        weight = weight * torch.where(part.y, n / (2 * n_pos), n / (2 * (n - n_pos)))
    each = torch.nn.functional.binary_cross_entropy_with_logits(scores, y, weight, reduction="none")
    return (each.sum(1) / used.sum(1)).sum()


hinge = APLoss("sum")
LOSSES = {
    "AP": lambda scores, part: hinge(scores, part.y, part.used),
    "cross-entropy": cross_entropy,
    "weighted": lambda scores, part: cross_entropy(scores, part, weighted=True),
}


class TenNetworks(torch.nn.Module):
    """64 inputs, one hidden layer, one score; ten times."""

    def __init__(self, generator) -> None:
        super().__init__()

        def start(*shape):
            return torch.nn.Parameter((2 * torch.rand(*shape, generator=generator) - 1) / shape[1] ** 0.5)

        self.first, self.bias = start(10, 64, HIDDEN), torch.nn.Parameter(torch.zeros(10, 1, HIDDEN))
        self.second = start(10, HIDDEN, 1)

    def forward(self, X):
        """Scores of shape (10, n)."""
        hidden = torch.relu(torch.matmul(X, self.first) + self.bias)
        return torch.matmul(hidden, self.second).squeeze(2)


def precisions(network, part):
    """AP of each digit, shape (10,)."""
    with torch.no_grad():
        scores = network(part.X)
    return np.array([average_precision(y[u].numpy(), s[u].numpy()) for s, y, u in zip(scores, part.y, part.used, strict=True)])


def train(loss, rate, data, seed):
    """Validation and test AP of each digit after every so many steps, two arrays of shape (looks, 10)."""
    training, validation, test = data
    network = TenNetworks(torch.Generator().manual_seed(seed))
    optimizer = torch.optim.Adam(network.parameters(), rate)
    seen = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        LOSSES[loss](network(training.X), training).backward()
        optimizer.step()
        if step % LOOK_EVERY == 0:
            seen.append((precisions(network, validation), precisions(network, test)))
    return np.array([v for v, _ in seen]), np.array([t for _, t in seen])


def tuned(loss, data, seed):
    """Test AP of each digit at the learning rate and step of the best validation AP, and that learning rate."""
    runs = [train(loss, rate, data, seed) for rate in RATES]
    validation, test = (np.concatenate(part) for part in zip(*runs, strict=True))
    # Few positives make many equal validation scores; the first of them would favour small learning rates.
    tied = [np.flatnonzero(column == column.max()) for column in validation.T]
    best = np.array([places[len(places) // 2] for places in tied])
    return test[best, np.arange(10)], np.array(RATES)[best // (STEPS // LOOK_EVERY)]


def interval(differences):
    """Mean and half the width of its 95% interval, from one number per seed."""
    n = len(differences)
    return np.mean(differences), student.ppf(0.975, n - 1) * np.std(differences, ddof=1) / n**0.5


def section(setting, seeds):
    found = {name: [] for name in LOSSES}
    rates = {name: [] for name in LOSSES}
    for seed in range(seeds):
        data = parts(setting, seed)
        for name in LOSSES:
            scores, chosen = tuned(name, data, seed)
            found[name].append(scores)
            rates[name].append(chosen)
        print(setting, seed, {name: f"{np.mean(values[-1]):.4f}" for name, values in found.items()}, flush=True)
    results = {name: 100 * np.array(values) for name, values in found.items()}
    rows = []
    for digit in range(10):
        cells = [f"{results[name][:, digit].mean():.2f}" for name in LOSSES]
        gain, width = interval(results["AP"][:, digit] - results["cross-entropy"][:, digit])
        rows.append([str(digit), *cells, f"{gain:+.2f} ± {width:.2f}"])
    cells = [f"{values.mean():.2f}" for values in results.values()]
    lines = []
    for peer in ("cross-entropy", "weighted"):
        difference = results["AP"] - results[peer]
        gain, width = interval(difference.mean(1))
        verdict = "better" if gain > width else "worse" if gain < -width else "not told apart"
        lines.append(
            f"AP against {peer if peer != 'weighted' else 'weighted cross-entropy'}: {gain:+.2f} ± {width:.2f}, {verdict}; "
            f"ahead in {np.mean(difference > 0):.0%} of the pairs of digit and seed, behind in {np.mean(difference < 0):.0%}."
        )
        if peer == "cross-entropy":
            rows.append(["mean", *cells, f"{gain:+.2f} ± {width:.2f}"])
    lines.append("Median learning rate: " + ", ".join(f"{name} {np.median(chosen):g}" for name, chosen in rates.items()) + ".")
    table = markdown(["digit", *LOSSES, "AP - cross-entropy"], rows)
    return "\n\n".join([f"## {setting[0].upper() + setting[1:]}", table, "\n".join(f"- {line}" for line in lines)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="splits and initial weights")
    options = parser.parse_args()
    torch.set_num_threads(1)
    intro = (
        f"scikit-learn's digits, 64 - {HIDDEN} - 1 units with ReLU, Adam with full batches, {STEPS} steps. The losses "
        f"share splits, initial weights and steps; each has its own learning rate (of {', '.join(map(str, RATES))}) and number "
        f"of steps, chosen per digit by validation AP, the middle one of equals. Half of the data trains, a quarter validates, "
        f"a quarter tests. Rare positives: {KEPT:.0%} of them are left in training and validation. Label noise: {FLIPPED:.0%} "
        f"of the labels of training and validation are flipped, so that about a third of those marked positive are not. Tests "
        f"are never spoilt. `weighted` is cross-entropy in which both classes weigh the same. Entries are mean test AP in "
        f"percent over {options.seeds} seeds; ± is half of a 95% interval over seeds. Seeds share "
        f"the data, so that intervals are somewhat too narrow."
    )
    sections = [section(setting, options.seeds) for setting in SETTINGS]
    path = FOLDER / "results" / "nn_digits.md"
    write_report(path, "A network trained for average precision", [intro, *sections])


if __name__ == "__main__":
    main()
