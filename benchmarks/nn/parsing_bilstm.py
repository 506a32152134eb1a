"""A small BiLSTM parser on UD English (EWT): margin all the way, and others after it.

As in the thesis, training begins with the structured hinge and goes on with ProbLoss at a lower rate; the same parser goes on
with the hinge at that rate instead. All ways go on from the same weights.
"""

from __future__ import annotations

import argparse
import copy
import time
from typing import Any

import numpy as np
import torch
from benchmarks import FOLDER
from benchmarks.parsing.parsing import treebank
from benchmarks.timing import markdown, update_report
from scipy.stats import wilcoxon

from maxmargin.nn import BiLSTMParser, train_parser
from maxmargin.surrogates import ProbLoss

WAYS: tuple[tuple[str, Any], ...] = (
    ("margin", "margin"),
    ("slack", "slack"),
    ("ProbLoss, convex", ProbLoss()),
    ("ProbLoss, raw", ProbLoss(convex=False)),
)


def right_words(model: Any, sentences: Any) -> Any:
    """Of every sentence: words with the right head and label, words with the right head, words; without and with punctuation."""
    found = []
    for sentence, (heads, labels) in zip(sentences, model.predict(sentences), strict=True):
        right = heads == np.array(sentence.heads)
        both, counted = right & (labels == np.array(sentence.labels)), np.array(sentence.tags) != "PUNCT"
        found.append([(both & counted).sum(), (right & counted).sum(), counted.sum(), both.sum(), right.sum(), len(right)])
    return np.array(found)


def main() -> None:
    """Write a part of benchmarks/results/parsing.md."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--more", type=int, default=4)
    parser.add_argument("--seeds", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    train = [sentence for sentence in treebank("train") if len(sentence) <= 40][: arguments.sentences]
    test = treebank("test")
    counts: dict[str, list[Any]] = {"before": [], **{name: [] for name, _ in WAYS}}
    seconds: dict[str, float] = dict.fromkeys(counts, 0.0)
    for seed in range(arguments.seeds):
        model = BiLSTMParser.for_sentences(train, word_dim=50, tag_dim=16, hidden_dim=48, arc_dim=48, seed=seed)
        start = time.process_time()
        train_parser(model, train, epochs=arguments.epochs, learning_rate=2e-3, word_dropout=0.2, seed=seed)
        seconds["before"] += time.process_time() - start
        counts["before"].append(right_words(model, test))
        for name, surrogate in WAYS:
            own, start = copy.deepcopy(model), time.process_time()
            settings: Any = {"learning_rate": 5e-4, "word_dropout": 0.2, "seed": seed + 100}
            train_parser(own, train, epochs=arguments.more, surrogate=surrogate, **settings)
            seconds[name] += time.process_time() - start
            counts[name].append(right_words(own, test))
            print(seed, name, f"{100 * counts[name][-1][:, 4].sum() / counts[name][-1][:, 5].sum():.2f}", flush=True)
    rows = []
    reference = sum(own[:, 0] for own in counts["margin"])
    for name, found in counts.items():
        sums = np.array([own.sum(axis=0) for own in found])
        parts = [100 * sums[:, 4] / sums[:, 5], 100 * sums[:, 3] / sums[:, 5], 100 * sums[:, 1] / sums[:, 2]]
        parts.append(100 * sums[:, 0] / sums[:, 2])
        cells = [f"{part.mean():.2f} ({part.min():.2f} to {part.max():.2f})" for part in parts]
        p = "" if name in ("before", "margin") else f"{wilcoxon(sum(own[:, 0] for own in found) - reference).pvalue:.2g}"
        epochs = arguments.epochs if name == "before" else arguments.more
        title = f"margin, {epochs} epochs" if name == "before" else f"... then {name}, {epochs} more"
        rows.append([title, *cells, f"{seconds[name] / (arguments.seeds * epochs):.1f}", p])
    columns = ["training", "UAS", "LAS", "UAS, no punctuation", "LAS, no punctuation", "seconds per epoch", "p against margin"]
    section = (
        f"## BiLSTM\n\nTest sentences in percent, mean and range over {arguments.seeds} seeds; the first {len(train):,} training "
        "sentences of up to 40 words, gold tags, no\npretrained embeddings, states of 48, Adam at 0.002 and then 0.0005. Seconds "
        "are processor time. The last column is the p-value of a\ntwo-sided Wilcoxon signed-rank test over test sentences, of "
        "right heads and labels summed over the seeds.\n\n" + markdown(columns, rows)
    )
    update_report(FOLDER / "results" / "parsing.md", "UD English EWT, first-order parsers", "", [section])


if __name__ == "__main__":
    main()
