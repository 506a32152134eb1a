"""Rank losses for networks against ``torch.sort`` and against losses over all pairs."""

from __future__ import annotations

import argparse
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import torch
from benchmarks import FOLDER
from benchmarks.ranking.ranking_inference import make
from benchmarks.timing import best_times, markdown, write_report

from maxmargin.nn import APLoss, AUCLoss, DirectLoss, NDCGLoss


def tensors(kind, n_neg, n_pos, dtype):
    scores, relevant = make(kind, n_neg, n_pos)
    return torch.tensor(scores, dtype=dtype, requires_grad=True), torch.tensor(relevant)


def both_ways(loss, scores, relevant):
    """Forward and backward."""
    scores.grad = None
    loss(scores, relevant).backward()


def hinge_by_table(scores, relevant):
    """The same hinge as APLoss, from the table of every negative at every rank; plain torch operations."""
    high, low = scores[relevant].sort(descending=True).values, scores[~relevant].sort(descending=True).values
    n_pos, n_neg = len(high), len(low)
    i, j = torch.arange(1, n_pos + 1, dtype=scores.dtype), torch.arange(1, n_neg + 1, dtype=scores.dtype)[:, None]
    raised = (2 / n_neg * (low[:, None] - high) + i / ((i + j) * (i + j - 1))) / n_pos
    # From the last positive upwards; staying below all of them gains nothing.
    gains = raised.flip(1).cumsum(1)
    return gains.max(1).values.clamp(min=0).sum()


def smooth_ap(scores, relevant, temperature=0.1):
    """AP with sigmoids of all differences to positives in place of ranks, as Smooth-AP and its kin have it."""
    inside = torch.sigmoid((scores[None, :] - scores[relevant][:, None]) / temperature)
    among = inside[:, relevant].sum(1) + 0.5
    return 1 - (among / (inside.sum(1) + 0.5)).mean()


def sort_section(repeats):
    rows, worst = [], 0.0
    for dtype in (torch.float32, torch.float64):
        deviates = torch.randn(1_000_000, dtype=dtype, generator=torch.Generator().manual_seed(1))
        tasks = {"torch.sort": partial(torch.sort, deviates), "np.sort": partial(np.sort, deviates.numpy())}
        for kind in ("overlapping", "separated", "rounded"):
            data = tensors(kind, 1_000_000, 1000, dtype)
            tasks[f"APLoss, {kind}"] = partial(both_ways, APLoss(), *data)
            if kind == "overlapping":
                tasks["NDCGLoss, overlapping"] = partial(both_ways, NDCGLoss(), *data)
                tasks["AUCLoss, overlapping"] = partial(both_ways, AUCLoss(), *data)
                tasks["DirectLoss(ap, 1.0), overlapping"] = partial(both_ways, DirectLoss("ap", 1.0), *data)
        times = best_times(tasks, repeats)
        for name, seconds in times.items():
            ratio = seconds / times["torch.sort"]
            rows.append([f"{name}, {str(dtype).removeprefix('torch.')}", f"{seconds * 1e3:.1f}", f"{ratio:.2f}"])
            worst = max(worst, ratio) if name.startswith("APLoss") else worst
            print(rows[-1], flush=True)
    return (
        "## N = 1,000,000, P = 1,000, one thread: forward and backward against `torch.sort` of N normal deviates\n\n"
        + markdown(["what", "ms", "/ torch.sort"], rows)
        + f"\n\nLimit for APLoss, 2 times `torch.sort`: {'kept' if worst <= 2 else 'missed'}, at most {worst:.2f}. "
        "`torch.sort` also returns the order, which costs it much; numpy's vectorised sort of values alone is the stricter "
        "yardstick, given for comparison."
    )


def sorted_both_ways(scores):
    """A sort of which something is made."""
    scores.grad = None
    torch.sort(scores).values.sum().backward()


def short_section(repeats):
    """Lists so short that calls, not scores, take the time; a thousand calls are one measurement."""

    def often(call):
        for _ in range(1000):
            call()

    rows, overhead, forward = [], 0.0, 0.0
    for n in (64, 256, 1024, 4096):
        generator = torch.Generator().manual_seed(n)
        scores = torch.randn(n, generator=generator).requires_grad_()
        relevant = torch.rand(n, generator=generator) < 0.1
        grades = torch.randint(0, 5, (n,), generator=generator)
        times = best_times(
            {
                "sort": partial(often, partial(torch.sort, scores.detach())),
                "sort both": partial(often, partial(sorted_both_ways, scores)),
                "forward": partial(often, partial(APLoss(), scores.detach(), relevant)),
                "both": partial(often, partial(both_ways, APLoss(), scores, relevant)),
                "ndcg": partial(often, partial(both_ways, NDCGLoss(at=10), scores, relevant)),
                "graded": partial(often, partial(both_ways, NDCGLoss(at=10, gains="exponential"), scores, grades)),
            },
            repeats,
        )
        ratios = {name: seconds / times["sort"] for name, seconds in times.items()}
        if n == 256:
            overhead, forward = ratios["both"], ratios["forward"]
        columns = ("sort both", "forward", "both", "ndcg", "graded")
        rows.append([str(n), f"{1e3 * times['sort']:.1f}", *(f"{ratios[name]:.1f}" for name in columns)])
        print(rows[-1], flush=True)
    head = ["scores", "torch.sort, us", "torch.sort, both ways", "APLoss, forward", "APLoss, both ways"]
    head += ["NDCGLoss at 10", "the same with five grades"]
    return (
        "## Short lists, float32, one thread, as multiples of `torch.sort`\n\n"
        + markdown(head, rows)
        + f"\n\nLimit for 256 scores, 10 times `torch.sort`: {'kept' if forward <= 10 else 'missed'} forward, {forward:.1f}; "
        f"{'kept' if overhead <= 10 else 'missed'} both ways, {overhead:.1f}; torch's own backward pass is the larger part."
    )


def pairs_section(repeats):
    rows, least = [], float("inf")
    for dtype in (torch.float32, torch.float64):
        scores, relevant = tensors("overlapping", 10_000, 1000, dtype)
        exact, table = APLoss()(scores, relevant).item(), hinge_by_table(scores, relevant).item()
        assert abs(exact - table) < (1e-4 if dtype == torch.float32 else 1e-10), (exact, table)
        tasks = {
            "APLoss": partial(both_ways, APLoss(), scores, relevant),
            "the same hinge by a P x N table": partial(both_ways, hinge_by_table, scores, relevant),
            "smooth AP over P x (P + N) pairs": partial(both_ways, smooth_ap, scores, relevant),
            "DirectLoss(ap, 1.0), positive": partial(both_ways, DirectLoss("ap", 1.0, 1), scores, relevant),
            "DirectLoss(ap, 1.0), negative": partial(both_ways, DirectLoss("ap", 1.0, -1), scores, relevant),
        }
        times = best_times(tasks, repeats)
        for name, seconds in times.items():
            ratio = seconds / times["APLoss"]
            rows.append([f"{name}, {str(dtype).removeprefix('torch.')}", f"{seconds * 1e3:.2f}", f"{ratio:.0f}"])
            if "table" in name or "smooth" in name:
                least = min(least, ratio)
            print(rows[-1], flush=True)
    return (
        "## N = 10,000, P = 1,000, one thread: forward and backward against losses over all pairs, in torch\n\n"
        + markdown(["what", "ms", "/ APLoss"], rows)
        + f"\n\nLimit, 50 times faster than either: {'kept' if least >= 50 else 'missed'}, at least {least:.0f}."
    )


def batch_section(repeats):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(1000, 100, generator=generator).requires_grad_()
    relevant = torch.rand(1000, 100, generator=generator) < 0.1
    mask = torch.rand(1000, 100, generator=generator) < 0.8
    tasks = {
        "APLoss": partial(both_ways, APLoss(), scores, relevant),
        "APLoss, a fifth is padding": lambda: both_ways(lambda s, r: APLoss()(s, r, mask), scores, relevant),
        "APLoss, query by query": lambda: both_ways(lambda s, r: sum(map(APLoss(), s, r)), scores, relevant),
        "torch.sort of the rows": partial(torch.sort, scores.detach(), dim=1),
    }
    times = best_times(tasks, repeats)
    rows = [[name, f"{seconds * 1e3:.2f}"] for name, seconds in times.items()]
    print(rows, flush=True)
    return "## 1,000 queries of 100 documents, float32, one thread: forward and backward\n\n" + markdown(["what", "ms"], rows)


MEMORY_PROBE = """
import torch
from benchmarks.nn.nn_loss import both_ways, hinge_by_table, smooth_ap, tensors
from maxmargin.nn import APLoss
def status(key):
    return int(next(l for l in open('/proc/self/status') if l.startswith(key)).split()[1]) * 1024
both_ways({loss}, *tensors('overlapping', 5000, 10, torch.float32))
scores, relevant = tensors('overlapping', {n}, {p}, torch.float32)
open('/proc/self/clear_refs', 'w').write('5')
before = status('VmRSS')
both_ways({loss}, scores, relevant)
print((status('VmHWM') - before) / (4 * {n}))
"""


def memory_section():
    if not Path("/proc/self/clear_refs").exists():
        return "## Memory\n\nNot measured: this system does not report peak memory."
    rows = []
    for loss, n, p in [
        ("APLoss()", 1_000_000, 1000),
        ("APLoss()", 4_000_000, 1000),
        ("APLoss()", 16_000_000, 1000),
        ("APLoss()", 4_000_000, 100_000),
        ("hinge_by_table", 100_000, 1000),
        ("smooth_ap", 100_000, 1000),
    ]:
        probe = MEMORY_PROBE.format(loss=loss, n=n, p=p)
        out = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, text=True)
        rows.append([loss, f"{n:,}", f"{p:,}", f"{float(out.stdout):.1f}"])
        print(rows[-1], flush=True)
    text = "## Peak extra memory of forward and backward, in tensors of N float32 (the gradient in `scores.grad` is one)\n\n"
    return text + markdown(["loss", "N", "P", "tensors"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=15, help="timings per entry; the best counts")
    options = parser.parse_args()
    torch.set_num_threads(1)
    sections = [
        f"torch {torch.__version__}. Processor time, the best of {options.repeats}, in turns.",
        sort_section(options.repeats),
        pairs_section(options.repeats),
        short_section(options.repeats),
        batch_section(options.repeats),
        memory_section(),
    ]
    write_report(FOLDER / "results" / "nn_loss.md", "Rank losses for networks", sections)


if __name__ == "__main__":
    main()
