"""Layer-wise SVM training of a small convolutional network for AP, NDCG and the 0-1 loss.

The third experiment of the CVPR 2018 paper with MNIST in place of CIFAR-10: a network warm-started by Adadelta on cross-entropy,
then LW-SVM with each loss; and how much of the training the inference takes, by method.
"""

from __future__ import annotations

import argparse
import copy
import time
from unittest import mock

import numpy as np
import torch
from benchmarks import FOLDER
from benchmarks.datasets import mnist
from benchmarks.timing import markdown, write_report
from torch import nn

from maxmargin import most_violating_ranking
from maxmargin.nn import LayerwiseSVM
from maxmargin.nn._layer_problem import LayerProblem
from maxmargin.nn._piecewise import read_network
from maxmargin.nn._score_hinges import ScoreHinge, score_hinge
from maxmargin.ranking import average_precision
from maxmargin.ranking.metrics import ndcg

N_TRAIN, N_VALIDATION, N_LARGE = 1500, 1500, 20_000
WARM_EPOCHS, MORE_EPOCHS, LOOK_EVERY = 10, 60, 10
LOSSES = {"ap": "AP", "ndcg": "NDCG", "accuracy": "0-1, one against the rest", "multiclass": "0-1, multi-class"}
STRENGTHS = [100.0, 1000.0, 10_000.0]
BUDGET = {"proximal": 10.0, "max_epochs": 5, "max_iter": 12}
METHODS = ["auto", "quicksort", "sort", "greedy"]
METRICS = {"AP": average_precision, "NDCG": ndcg}


def tensors(pixels, digits, rows):
    return torch.tensor(pixels[rows].reshape(-1, 1, 28, 28), dtype=torch.float32), digits[rows]


def one_hot(digits):
    return digits[:, None] == np.arange(10)


def small_network(seed):
    """About 1,300 weights in three layers."""
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, stride=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(48, 10),
    )  # fmt: skip


def adadelta(network, data, epochs, seed):
    """Cross-entropy in batches of 100; yields after every epoch."""
    X, digits = data[0], torch.tensor(data[1])
    generator = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adadelta(network.parameters(), lr=1.0)
    for epoch in range(1, epochs + 1):
        for rows in torch.randperm(len(X), generator=generator).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(X[rows]), digits[rows]).backward()
            optimizer.step()
        yield epoch


def evaluate(network, data, kind):
    """Mean AP and mean NDCG over the digits in percent, and accuracy.

    ``kind`` is "scores", or "relative" for scores minus the log of the sum of the exponentials of all: multi-class losses do not
    see a constant that is added to all scores of a sample, but a ranking of samples does.
    """
    with torch.no_grad():
        scores = torch.cat([network(part) for part in data[0].split(500)]).double()
    if kind == "relative":
        scores = scores.log_softmax(dim=1)
    table, truth = scores.numpy(), one_hot(data[1])
    means = [100 * np.mean([metric(t, s) for t, s in zip(truth.T, table.T, strict=True)]) for metric in METRICS.values()]
    return np.array([*means, 100 * np.mean(table.argmax(axis=1) == data[1])])


def chosen(runs, validation, test, kind):
    """Test AP at the best validation AP, test NDCG at the best validation NDCG, accuracy at the former."""
    seen = [(evaluate(network, validation, kind), network) for network in runs]
    by_ap, by_ndcg = (max(seen, key=lambda entry: entry[0][k])[1] for k in (0, 1))
    at_ap = evaluate(by_ap, test, kind)
    return np.array([at_ap[0], evaluate(by_ndcg, test, kind)[1], at_ap[2]])


class Recorded(ScoreHinge):
    """A hinge that keeps the tables of scores it was asked for."""

    def __init__(self, inner, tables):
        super().__init__(inner.relevant)
        self.inner, self.tables = inner, tables

    def __call__(self, scores):
        self.tables.append(scores.copy())
        return self.inner(scores)


def layerwise(start, loss, C, train, tables=None):
    """The trained network, the model, and processor seconds."""
    network = copy.deepcopy(start)
    model = LayerwiseSVM(network, loss, C, **BUDGET)
    made = score_hinge if tables is None else lambda name, truth: Recorded(score_hinge(name, truth), tables)
    began = time.process_time()
    with mock.patch("maxmargin.nn.layerwise.score_hinge", made):
        model.fit(train[0], one_hot(train[1]))
    return network, model, time.process_time() - began


def one_seed(seed, pools):
    """Test metrics of every method, and of the steps: how many were taken, and whether any climbed."""
    (X, digits), test = pools
    rows = np.random.default_rng(seed).permutation(len(X))[: N_TRAIN + N_VALIDATION]
    train, validation = tensors(X, digits, rows[:N_TRAIN]), tensors(X, digits, rows[N_TRAIN:])
    start = small_network(seed)
    for _ in adadelta(start, train, WARM_EPOCHS, seed):
        pass
    found = {"warm start": [evaluate(start, test, kind) for kind in ("scores", "relative")]}
    network = copy.deepcopy(start)
    runs = [copy.deepcopy(network) for epoch in adadelta(network, train, MORE_EPOCHS, seed + 100) if epoch % LOOK_EVERY == 0]
    found["cross-entropy, goes on"] = [chosen(runs, validation, test, kind) for kind in ("scores", "relative")]
    steps = {}
    for loss, label in LOSSES.items():
        trained = [layerwise(start, loss, C, train) for C in STRENGTHS]
        found[f"LW-SVM, {label}"] = [chosen([r[0] for r in trained], validation, test, kind) for kind in ("scores", "relative")]
        steps[loss] = [trained[k][1] for k in range(len(STRENGTHS))]
        print(seed, label, np.round(found[f"LW-SVM, {label}"][0], 2), f"{sum(r[2] for r in trained):.0f} s", flush=True)
    return found, steps, (start, train)


def mean_and_error(values):
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / len(values) ** 0.5:.2f}"


def quality(results):
    rows = []
    for name in results[0]:
        for k, kind in enumerate(("scores", "relative")):
            columns = np.array([found[name][k] for found in results]).T
            rows.append([name, kind, *(mean_and_error(column) for column in columns)])
    return markdown(["training", "ranked by", "mean AP", "mean NDCG", "accuracy"], rows)


def differences(results):
    """Seed by seed: both ranked by their scores, then each by what suits it better on average."""
    lines = []
    for metric, own, k in (("AP", "LW-SVM, AP", 0), ("NDCG", "LW-SVM, NDCG", 1)):
        for peer in ("LW-SVM, 0-1, one against the rest", "LW-SVM, 0-1, multi-class", "cross-entropy, goes on"):
            table = {name: np.array([[kind[k] for kind in found[name]] for found in results]) for name in (own, peer)}
            plain = table[own][:, 0] - table[peer][:, 0]
            best = [table[name][:, np.argmax(table[name].mean(axis=0))] for name in (own, peer)]
            lines.append(
                f"- mean {metric}, {own} minus {peer}: {mean_and_error(plain)} by scores (ahead in {sum(plain > 0)} of "
                f"{len(plain)} seeds), {mean_and_error(best[0] - best[1])} if each is ranked by what suits it better"
            )
    return "\n".join(lines)


def training_record(results):
    rows = []
    for loss, label in LOSSES.items():
        for k, C in enumerate(STRENGTHS):
            models = [steps[loss][k] for steps in results]
            history = [step for model in models for step in model.history_]
            rows.append(
                [
                    label, f"{C:g}", f"{np.mean([m.initial_objective_ for m in models]):.1f}",
                    f"{np.mean([m.objective_ for m in models]):.1f}", f"{np.mean([step.taken for step in history]):.0%}",
                    f"{np.mean([step.passes for step in history]):.0f}",
                    f"{np.median([step.gap / step.primal for step in history]):.1%}",
                ]
            )  # fmt: skip
            for model in models:
                objectives = [model.initial_objective_, *(step.objective for step in model.history_)]
                assert all(np.diff(objectives) <= 0), "a step raised the objective"
    return markdown(["loss", "C", "F at start", "F at end", "steps taken", "passes per step", "median relative gap"], rows)


def replay(tables, truth, loss, method):
    """Processor seconds of the inference of recorded tables."""
    columns = [(np.ascontiguousarray(s), t) for table in tables for s, t in zip(table.T, truth.T, strict=True)]
    began = time.thread_time()
    for scores, relevant in columns:
        most_violating_ranking(scores, relevant, loss, method=method)
    return time.thread_time() - began


def inference_times(start, train, pools):
    """Inference within one training, and for more samples within one pass over the first layer."""
    (X, digits), _ = pools
    rows, large = [], tensors(X, digits, np.arange(N_LARGE))
    for loss in ("ap", "ndcg"):
        tables = []
        network, _, seconds = layerwise(start, loss, 1000.0, train, tables)
        truth = one_hot(train[1])
        spent = {method: min(replay(tables, truth, loss, method) for _ in range(2)) for method in METHODS}
        rows.append(["training", f"{N_TRAIN:,}", LOSSES[loss], str(len(tables)), f"{seconds:.1f} s", *ratios(spent, seconds)])
        layers, seen, truth = read_network(network), [], one_hot(large[1])
        problem = LayerProblem(layers[0], layers[1:], large[0].double(), Recorded(score_hinge(loss, truth), seen))
        began = time.process_time()
        problem.bound_and_gradient(layers[0].weights.numpy())
        seconds = time.process_time() - began
        spent = {method: min(replay(seen, truth, loss, method) for _ in range(2)) for method in METHODS}
        rows.append(["one pass", f"{N_LARGE:,}", LOSSES[loss], "1", f"{seconds:.1f} s", *ratios(spent, seconds)])
    header = ["", "samples", "loss", "tables", "processor time"]
    header += [f"inference, {METHODS[0]}", *(f"{method} / {METHODS[0]}" for method in METHODS[1:])]
    return markdown([*header, *(f"total with {method}" for method in METHODS[1:])], rows)


def ratios(spent, total):
    """Ours as a share of the total, the others as multiples of ours, and what the total would be with them."""
    ours = spent["auto"]
    others = [f"{spent[method] / ours:.1f}" for method in METHODS[1:]]
    return [f"{ours / total:.2%}", *others, *(f"{(total - ours + spent[method]) / total:.3f}" for method in METHODS[1:])]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="samples and initial weights")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pools = mnist(), tensors(*mnist("t10k"), slice(None))
    began = time.process_time()
    seeds = [one_seed(seed, pools) for seed in range(options.seeds)]
    results = [found for found, _, _ in seeds]
    intro = (
        f"MNIST, {N_TRAIN:,} samples to train, {N_VALIDATION:,} to choose from, the usual 10,000 to test. Two convolutions with "
        f"ReLU and max-pooling and a linear layer with ten outputs, 1,300 weights. All start from the same {WARM_EPOCHS} epochs "
        f"of Adadelta on cross-entropy. LW-SVM: {BUDGET['max_epochs']} rounds over the layers, at most {BUDGET['max_iter']} "
        f"passes per step, proximal {BUDGET['proximal']:g} at first, C of {', '.join(f'{C:g}' for C in STRENGTHS)} by the metric "
        f"on validation data; cross-entropy goes on for up to {MORE_EPOCHS} epochs, chosen likewise. Means over the digits in "
        f"percent; ± is the standard error over {options.seeds} seeds, which share the test data. Multi-class losses do not care "
        f"for a constant that is added to all scores of a sample, but rankings do: `relative` ranks by the log of the softmax of "
        f"the scores."
    )
    gaps = (
        "## Steps\n\nMeans over seeds; F is the regularised objective, a step not taken found nothing better in its passes. No "
        "step raised the objective."
    )
    times = (
        "## Time of inference\n\nThe tables of scores that training (C = 1000, first seed) asked inference for, ten lists each, "
        "solved again by each method. `auto` is ours; its time is a share of the processor time of training, those of the others "
        "are multiples of ours. `total with` is what training would take with the other method, as a multiple of what it takes. "
        "`greedy` is the O(PN) scan, the method that the paper compares with. Below the same for one pass over the first layer "
        "with more samples."
    )
    sections = [intro, quality(results), differences(results), gaps, training_record([steps for _, steps, _ in seeds])]
    sections += [times, inference_times(*seeds[0][2], pools)]
    sections += [f"Processor time of the whole run: {time.process_time() - began:.0f} s."]
    write_report(FOLDER / "results" / "layerwise.md", "Layer-wise SVM training for rank losses", sections)


if __name__ == "__main__":
    main()
