"""Loss-augmented ranking against ``np.sort``: ratios, scaling, memory."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
from benchmarks import FOLDER
from benchmarks.timing import best_times, best_wall_time, cpu_seconds_of, exponent, markdown, update_report, write_report

import maxmargin as mm
from maxmargin.ranking import RankingLoss

KINDS = ["overlapping", "separated", "cauchy", "rounded", "equal", "ascending", "descending"]
LIMITS = {"overlapping": 0.7, "separated": 0.35}  # of np.sort, at N = 1e6; 0.9 for the others


def make(kind, n_neg, n_pos, seed=0):
    """Scores and relevance; negatives N(0,1) and positives N(1,1) unless the name says otherwise."""
    rng = np.random.default_rng(seed)
    negatives, positives = rng.normal(size=n_neg), rng.normal(size=n_pos) + 1
    if kind == "separated":
        negatives, positives = negatives - 2, 2 + 0.5 * rng.normal(size=n_pos)
    elif kind == "cauchy":
        negatives, positives = rng.standard_cauchy(n_neg), rng.standard_cauchy(n_pos) + 1
    elif kind == "rounded":
        negatives, positives = negatives.round(2), positives.round(2)
    elif kind == "equal":
        negatives, positives = np.zeros(n_neg), np.zeros(n_pos)
    scores = np.concatenate([positives, negatives])
    order = rng.permutation(len(scores))
    if kind in ("ascending", "descending"):
        order = np.argsort(scores if kind == "ascending" else -scores)
    return scores[order], order < n_pos


def against_sort(n_neg, n_pos, kinds, loss, repeats):
    """Times of the call, of np.sort of as many normal deviates, and of np.sum of them."""
    deviates = np.random.default_rng(1).normal(size=n_neg)
    tasks = {"sort": lambda: np.sort(deviates), "sum": lambda: np.sum(deviates)}
    for kind in kinds:
        scores, relevant = make(kind, n_neg, n_pos)
        tasks[kind] = lambda s=scores, r=relevant: mm.most_violating_ranking(s, r, loss)
    return best_times(tasks, repeats)


def ratio_section(loss, positives, repeats):
    rows, misses = [], []
    for n_pos in positives:
        times = against_sort(1_000_000, n_pos, KINDS, loss, repeats)
        cells = []
        for kind in KINDS:
            ratio = times[kind] / times["sort"]
            cells.append(f"{ratio:.2f} ({times[kind] / times['sum']:.0f})")
            if n_pos in (100, 1000) and ratio > LIMITS.get(kind, 0.9):
                misses.append(f"{kind} at P = {n_pos}: {ratio:.2f} > {LIMITS.get(kind, 0.9)}")
        rows.append([f"{n_pos:,}", f"{times['sort'] * 1e3:.1f} ms", *cells])
        print(rows[-1], flush=True)
    verdict = "Limits (0.7 overlapping, 0.35 separated, 0.9 others; P = 100 and 1,000): "
    verdict += "all kept." if not misses else "missed: " + "; ".join(misses) + "."
    return (
        f"## {loss}, N = 1,000,000, one thread: time / `np.sort` of N normal deviates (in brackets / `np.sum`)\n\n"
        + markdown(["P", "np.sort", *KINDS], rows)
        + ("\n\n" + verdict if loss == "ap" else "")
    )


def scaling_section(sizes, positives, repeats):
    """Every length, number of positives and distribution, and how the time grows from 1e5 on."""
    tables, seconds = [], {}
    for n_neg in sizes:
        rows = []
        for n_pos in positives:
            times = against_sort(n_neg, n_pos, KINDS, "ap", max(3, min(repeats, repeats * 1_000_000 // n_neg)))
            cells = [f"{times[k] * 1e3:.3g} ({times[k] / times['sort']:.2f})" for k in KINDS]
            rows.append([f"{n_pos:,}", f"{times['sort'] * 1e3:.3g}", *cells])
            print(n_neg, rows[-1], flush=True)
            for name, value in times.items():
                seconds.setdefault((n_pos, name), []).append(value)
        tables.append(f"N = {n_neg:,}\n\n" + markdown(["P", "np.sort", *KINDS], rows))
    large = [k for k, n in enumerate(sizes) if n >= 100_000]
    rows = []
    for n_pos in positives:
        times = [[seconds[n_pos, name][k] for k in large] for name in ["sort", "sum", *KINDS]]
        rows.append([f"{n_pos:,}", *(f"{exponent([sizes[k] for k in large], column):.3f}" for column in times)])
    tables.append("Exponent of the time in N from 1e5 on\n\n" + markdown(["P", "np.sort", "np.sum", *KINDS], rows))
    tables.append("Where an exponent is above 1.05, compare `np.sum`: 1e5 scores fit into the cache, 1e7 do not.")
    return "\n\n".join(["## ap, milliseconds (in brackets / `np.sort`)", *tables])


def classic_section(repeats):
    scores, relevant = make("overlapping", 3120, 227)
    methods = ["auto", "quicksort", "sort", "greedy"]
    rows = []
    for loss in ("ap", "ndcg"):
        tasks = {m: lambda m=m, loss=loss: mm.most_violating_ranking(scores, relevant, loss, method=m) for m in methods}
        times = best_times(tasks, repeats)
        rows.append([loss, *(f"{times[m] * 1e6:.0f} us" for m in methods), f"{times['greedy'] / times['auto']:.0f}"])
        print(rows[-1], flush=True)
    return (
        "## The paper's size: P = 227, N = 3,120 (the paper reports 11 for AP and 129 for NDCG)\n\n"
        + markdown(["loss", *methods, "greedy / auto"], rows)
        + "\n\nGreedy evaluates the loss from its definition at every place (for NDCG two logarithms)."
    )


CUT_OFFS = ["ndcg@10", "ndcg@100", "ap@10", "ap@100", "mrr@10", "p@10", "p@100", "recall@100", "rbp"]


def cutoff_section(repeats, sorts):
    """Losses of the first places, and queries with them."""
    rows, worst = [], 0.0
    for loss in CUT_OFFS:
        times = against_sort(1_000_000, 100, KINDS, loss, repeats)
        ratios = [times[kind] / times["sort"] for kind in KINDS]
        worst = max(worst, *ratios)
        rows.append([loss, f"{times['sort'] * 1e3:.1f} ms", *(f"{ratio:.2f}" for ratio in ratios)])
        print(rows[-1], flush=True)
    scores, relevant = make("overlapping", 1_000_000, 100)
    deviates = np.random.default_rng(1).normal(size=1_000_000)
    minus = {
        loss: partial(mm.most_violating_ranking, scores, relevant, loss, loss_scale=-1.0) for loss in ("ndcg@10", "ndcg@100")
    }
    times = best_times({"sort": partial(np.sort, deviates), **minus}, max(3, repeats // 4))
    rng = np.random.default_rng(0)
    scores, relevant, qid = rng.normal(size=100_000), rng.random(100_000) < 0.1, np.repeat(np.arange(1000), 100)
    many = {
        loss: partial(mm.most_violating_rankings, scores, relevant, qid, loss, n_jobs=1)
        for loss in ("ndcg", "ndcg@10", "ap@10", "rbp")
    }
    queries = best_times(many, repeats)
    limit = f"Limit 1.0: {'kept' if worst <= 1 else 'missed'}, the largest is {worst:.2f}."
    others = [
        [f"{loss}, subtracted (`loss_scale=-1`), N = 1e6, P = 100, overlapping / np.sort", f"{times[loss] / times['sort']:.2f}"]
        for loss in minus
    ]
    others += [
        [f"{loss}, 1,000 queries of 100 documents, one thread / ndcg", f"{queries[loss] / queries['ndcg']:.2f}"] for loss in many
    ]
    print(limit, others, flush=True)
    return (
        "## Losses of the first places, N = 1,000,000, P = 100, one thread: time / `np.sort` of N normal deviates\n\n"
        + markdown(["loss", "np.sort", *KINDS], rows)
        + f"\n\n{limit} `np.sort` is the faster of numpy's two on this processor: {sorts}.\n\n"
        + markdown(["what", "ratio"], others)
    )


class UserAP(RankingLoss):
    """Average precision as a user would write it."""

    proved_suitable = True  # in the paper; otherwise all pairs of a list would be looked at first

    def derivative(self, j, i, n_pos, n_neg):
        """As in the paper."""
        return -i / ((i + j) * (i + j - 1.0)) / n_pos

    def value(self, negatives_above, n_neg):
        """In closed form."""
        return float(np.mean(negatives_above / (np.arange(1, len(negatives_above) + 1) + negatives_above)))


def small_section(repeats):
    rng = np.random.default_rng(0)
    scores, relevant, qid = rng.normal(size=100_000), rng.random(100_000) < 0.1, np.repeat(np.arange(1000), 100)
    rows = []
    for loss in ("ap", "ndcg"):
        for jobs in (1, None):
            task = partial(mm.most_violating_rankings, scores, relevant, qid, loss, n_jobs=jobs)
            seconds = best_wall_time(task, repeats * 5)
            rows.append([f"{loss}, {'all cores' if jobs is None else 'one thread'}", f"{seconds * 1e3:.2f} ms"])
    scores, relevant = make("overlapping", 1_000_000, 100)
    narrow = scores.astype(np.float32)
    tasks = {
        "built in": partial(mm.most_violating_ranking, scores, relevant, "ap"),
        "user": partial(mm.most_violating_ranking, scores, relevant, UserAP()),
        "float32": partial(mm.most_violating_ranking, narrow, relevant, "ap"),
    }
    times = best_times(tasks, repeats)
    deviates = rng.normal(size=1_000_000)
    published = partial(mm.most_violating_ranking, scores, relevant, "ap", method="quicksort")
    slow = best_times({"quicksort": published, "sort": partial(np.sort, deviates)}, 5)
    rows += [
        ["N = 1e6: a loss written in Python / built in", f"{times['user'] / times['built in']:.2f}"],
        ["N = 1e6, P = 100: the published quicksort-flavoured algorithm / np.sort", f"{slow['quicksort'] / slow['sort']:.1f}"],
        ["N = 1e6: float32 scores / float64", f"{times['float32'] / times['built in']:.2f}"],
    ]
    print(rows, flush=True)
    return "## 1,000 queries of 100 documents in one call, and other figures\n\n" + markdown(["what", "value"], rows)


MEMORY_PROBE = """
import sys, numpy as np, maxmargin as mm
from benchmarks.ranking.ranking_inference import make
scores, relevant = make({kind!r}, {n}, {p})
mm.most_violating_ranking(scores[:5000], np.arange(5000) < 10)
def peak():
    return int(next(l for l in open('/proc/self/status') if l.startswith('VmHWM')).split()[1]) * 1024
def now():
    return int(next(l for l in open('/proc/self/status') if l.startswith('VmRSS')).split()[1]) * 1024
open('/proc/self/clear_refs', 'w').write('5')
before = now()
mm.most_violating_ranking(scores, relevant)
print((peak() - before) / (8 * {n}))
"""


def memory_section():
    if not Path("/proc/self/clear_refs").exists():
        return "## Memory\n\nNot measured: this system does not report peak memory."
    rows = []
    for n_pos in (100, 1000, 10_000):
        cells = []
        for kind in KINDS:
            probe = MEMORY_PROBE.format(kind=kind, n=5_000_000, p=n_pos)
            out = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
            cells.append(f"{float(out.stdout):.2f}")
        rows.append([f"{n_pos:,}", *cells])
        print(rows[-1], flush=True)
    text = "## Peak extra memory, N = 5,000,000, in arrays of N float64 (the returned gradient is one of them)\n\n"
    return text + markdown(["P", *KINDS], rows)


def start_section():
    bare = cpu_seconds_of([sys.executable, "-c", "pass"], 10)
    imported = cpu_seconds_of([sys.executable, "-c", "import maxmargin"], 10)
    helped = cpu_seconds_of([sys.executable, "-m", "maxmargin", "--help"], 10)
    used = cpu_seconds_of([sys.executable, "-c", "import maxmargin; maxmargin.most_violating_ranking"], 10)
    rows = [
        ["interpreter alone", f"{bare:.3f}"],
        ["import maxmargin", f"{imported:.3f}"],
        ["maxmargin --help", f"{helped:.3f}"],
        ["import maxmargin; maxmargin.most_violating_ranking", f"{used:.3f}"],
    ]
    print(rows, flush=True)
    return "## Start-up, processor seconds of the whole process\n\n" + markdown(["command", "seconds"], rows)


# On some processors numpy sorts several times faster without its AVX-512 code; a slow peer would flatter us.
_SWITCH, _WITHOUT = "NPY_DISABLE_CPU_FEATURES", "X86_V4 AVX512_ICL AVX512_SPR"
_SORT_PROBE = """
import time, numpy as np
x, best = np.random.default_rng(1).normal(size=1_000_000), 1e9
for _ in range(15):
    start = time.thread_time(); np.sort(x); best = min(best, time.thread_time() - start)
print(best)
"""


def sort_seconds(disabled: str) -> float:
    """Of ``np.sort`` of a million numbers in a fresh interpreter."""
    command = [sys.executable, "-W", "ignore", "-c", _SORT_PROBE]
    out = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, _SWITCH: disabled})
    return float(out.stdout)


def with_the_fastest_sort() -> str:
    """Start again where numpy sorts faster, unless that is here; says which sort the ratios are to."""
    if "--sort-chosen" not in sys.argv:
        default, other = sort_seconds(""), sort_seconds(_WITHOUT)
        os.environ[_SWITCH] = _WITHOUT if other < default else ""
        arguments = [*sys.argv[1:], "--sort-chosen", f"{1e3 * default:.1f} ms as it comes, {1e3 * other:.1f} ms without AVX-512"]
        os.execv(sys.executable, [sys.executable, "-W", "ignore", "-m", "benchmarks.ranking.ranking_inference", *arguments])
    return sys.argv[sys.argv.index("--sort-chosen") + 1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=25, help="timings per entry; the best counts")
    parser.add_argument("--largest", type=float, default=1e7, help="longest list of the scaling table")
    parser.add_argument(
        "--cut-offs", action="store_true", help="the section about first places alone; the others stay as they are"
    )
    parser.add_argument("--sort-chosen", help=argparse.SUPPRESS)
    options = parser.parse_args()
    sorts = with_the_fastest_sort()
    path, title = FOLDER / "results" / "ranking_inference.md", "Exact loss-augmented ranking"
    if options.cut_offs:
        update_report(path, title, "", [cutoff_section(options.repeats, sorts)])
        return
    sizes = [n for n in (1000, 10_000, 100_000, 1_000_000, 10_000_000) if n <= options.largest]
    sections = [
        ratio_section("ap", [10, 100, 1000, 10_000], options.repeats),
        ratio_section("ndcg", [10, 100, 1000, 10_000], options.repeats),
        cutoff_section(options.repeats, sorts),
        scaling_section(sizes, [10, 100, 1000, 10_000], options.repeats),
        classic_section(options.repeats),
        small_section(options.repeats),
        memory_section(),
        start_section(),
    ]
    write_report(path, title, sections)


if __name__ == "__main__":
    main()
