"""Training under surrogates against margin rescaling: time, questions to the decoder. ``python -m benchmarks.surrogates``."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from scipy import sparse

from benchmarks.datasets import ROOT, find, ocr_words
from benchmarks.timing import markdown, write_report
from maxmargin.data import read_conll
from maxmargin.problems import MulticlassProblem, SurrogateMulticlassProblem, SurrogateTreeProblem, TreeProblem
from maxmargin.solvers import BCFW
from maxmargin.surrogates import make_surrogate

NAMES = ("slack", "beta", "log", "prob")


def sentences(n: int) -> tuple[object, np.ndarray, np.ndarray, int, int]:
    """First sentences of CoNLL-2000, words and parts of speech in a window of three: rows, tags, offsets, K, outside."""
    data = read_conll(find("conll2000", "train.txt.gz"))[:n]
    names: dict[str, int] = {}
    at, begin, tags, offsets = [], [0], [], [0]
    for sentence in data:
        words = [("<", "<"), *((token[0].lower(), token[1]) for token in sentence), (">", ">")]
        for t, token in enumerate(sentence, start=1):
            for shift in (-1, 0, 1):
                for kind, value in zip("wp", words[t + shift], strict=True):
                    at.append(names.setdefault(f"{kind}{shift}={value}", len(names)))
            begin.append(len(at))
            tags.append(token[-1])
        offsets.append(len(tags))
    classes, y = np.unique(tags, return_inverse=True)
    X = sparse.csr_array((np.ones(len(at)), np.array(at), np.array(begin)), shape=(len(tags), len(names)))
    return X, y, np.array(offsets), len(classes), int(np.flatnonzero(classes == "O")[0])


def measure(solver: BCFW, problem: object, lam: float) -> tuple[float, float, float, float]:
    """Processor seconds, passes, relative gap and questions per call of the oracle."""
    problem.block_data  # noqa: B018 - compiled before the clock runs
    before, start = getattr(problem, "queries", 0), time.thread_time()
    solution = solver.solve(problem, lam)
    seconds = time.thread_time() - start
    asked = getattr(problem, "queries", 0) - before
    return seconds, solution.passes, solution.gap / solution.primal, asked / (solution.passes * problem.n_blocks) or 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=int, default=2000)
    parser.add_argument("--sentences", type=int, default=1000)
    options = parser.parse_args()
    words, _ = ocr_words()
    offsets = words.offsets[: options.words + 1]
    X, y = words.X[: offsets[-1]], words.y[: offsets[-1]]
    T, tags, ends, K, outside = sentences(options.sentences)
    cases = {
        f"OCR, {options.words:,} words": (
            0.001,
            TreeProblem(X, y, offsets, None, 26),
            {name: SurrogateTreeProblem(X, y, offsets, None, 26, surrogate=make_surrogate(name)) for name in NAMES},
        ),
        f"CoNLL-2000, {options.sentences:,} sentences": (
            0.001,
            TreeProblem(T, tags, ends, None, K),
            {
                name: SurrogateTreeProblem(T, tags, ends, None, K, surrogate=make_surrogate(name), outside=outside)
                for name in (*NAMES, "micro_f1")
            },
        ),
    }
    rng = np.random.default_rng(0)
    D, digits = rng.normal(size=(3000, 64)), rng.integers(0, 10, 3000)
    costs = np.abs(np.subtract.outer(np.arange(10.0), np.arange(10.0)))
    # Slack rescaling multiplies margins by costs, so that its lambda is in units of costs times that of margin rescaling.
    for unit, title in ((1.0, "cost of the difference"), (9.0, "the same cost, at most 1")):
        own = costs / unit
        cases[f"10 classes, {title}, 3,000 x 64"] = (
            0.01,
            MulticlassProblem(D, digits, 10, own),
            {name: SurrogateMulticlassProblem(D, digits, 10, own, surrogate=make_surrogate(name)) for name in ("slack", "beta")},
        )
    rows = []
    solvers = {
        "10 passes, fw": BCFW(max_passes=11),
        "pairwise, gap 1%": BCFW(steps="pairwise", cache=20, tol=1e-2, max_passes=200),
        "exact, gap 1%": BCFW(steps="exact", tol=1e-2, max_passes=200),
    }
    for title, (lam, margin, others) in cases.items():
        for kind, solver in solvers.items():
            if not solver.needs <= margin.capabilities:
                continue
            for name, problem in others.items():
                # The same run with margin, just before.
                base, own = measure(solver, margin, lam), measure(solver, problem, lam)
                per_pass = own[0] / own[1] / (base[0] / base[1])
                rows.append(
                    [
                        title,
                        kind,
                        name,
                        f"{base[0]:.2f}",
                        f"{own[0]:.2f}",
                        f"{own[0] / base[0]:.2f}",
                        f"{per_pass:.2f}",
                        f"{base[1]:.0f}",
                        f"{own[1]:.0f}",
                        f"{own[3]:.2f}",
                    ]
                )
                print(rows[-1], flush=True)
    header = [
        "data",
        "run",
        "surrogate",
        "margin, s",
        "surrogate, s",
        "ratio",
        "ratio per pass",
        "margin's passes",
        "passes",
        "questions per call",
    ]
    text = (
        "Training by blocks, processor time of one thread; each surrogate takes turns with margin rescaling at the same lambda. "
        "Every exact check includes the proof that no labeling exceeds the one found. The runs to a gap of 1% are those of two "
        "different objectives, so their passes differ: with costs of up to 9, slack rescaling at the same lambda is regularised "
        "as little as margin rescaling at a lambda that is smaller by the square of a typical cost."
    )
    write_report(
        Path(__file__).parent / "results" / "surrogates.md", "Surrogates: what they cost", [text, markdown(header, rows)]
    )


if __name__ == "__main__":
    if not ROOT.exists():
        raise SystemExit("set MAXMARGIN_DATA to the folder of the data")
    main()
