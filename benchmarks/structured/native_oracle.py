"""A pass of BCFW with compiled code of one's own, against the built-in models."""

from __future__ import annotations

import argparse
import time

import numba
import numpy as np
from benchmarks import FOLDER
from benchmarks.datasets import ROOT, Sequences, mnist, ocr_words
from benchmarks.timing import markdown, write_report
from scipy import sparse

from maxmargin.core import Structure
from maxmargin.core.solvers import BCFW
from maxmargin.multiclass import MulticlassProblem
from maxmargin.sequences import ChainProblem, DecodedProblem, decoder_signature
from maxmargin.structured import NativeProblem, native_signature
from maxmargin.surrogates import StructuredProblem


# Without the promise that there is no NaN, a maximum is not vectorised.
@numba.cfunc(decoder_signature(), fastmath={"nnan", "nsz", "reassoc"})
def viterbi(reals, integers, block, n_nodes, n_labels, scores, table, labels):
    """The best labels of a chain."""
    best = np.empty((n_nodes, n_labels))  # from a position on, given its label
    for t in range(n_nodes - 1, -1, -1):
        for a in range(n_labels):
            after = 0.0
            if t + 1 < n_nodes:
                after = best[t + 1, 0] + table[a * n_labels]
                for b in range(n_labels):
                    after = max(after, best[t + 1, b] + table[a * n_labels + b])
            best[t, a] = scores[t * n_labels + a] + after
    last = -1
    for t in range(n_nodes):
        label, highest = 0, -np.inf
        for b in range(n_labels):
            value = best[t, b] + (table[last * n_labels + b] if t > 0 else 0.0)
            if value > highest:
                label, highest = b, value
        labels[t] = last = label
    return 0


@numba.njit(inline="always")
def _answer(n_labels, y, values):
    """The most violating label, from scores at the beginning of `values`."""
    best, highest = y, values[y] - 1.0
    for k in range(n_labels):
        if k != y and values[k] > highest:
            best, highest = k, values[k]
    return best


# Weights are [feature][label]: the scores of all labels are sums over contiguous memory. They are summed up in `values`,
# which is free until the answer is written, four features at a time. The answer is written one label after the other.
@numba.cfunc(native_signature())
def dense_classes(reals, integers, block, weights, indices, values, loss):
    """Integers: K, p, labels. Reals: X."""
    K, p, y = integers[0], integers[1], integers[2 + block]
    first, in_fours = block * p, p // 4 * 4
    for k in range(K):
        values[k] = 0.0
    for j in range(0, in_fours, 4):
        a, b, c, d = reals[first + j], reals[first + j + 1], reals[first + j + 2], reals[first + j + 3]
        w = j * K
        for k in range(K):
            values[k] += (a * weights[w + k] + b * weights[w + K + k]) + (c * weights[w + 2 * K + k] + d * weights[w + 3 * K + k])
    for j in range(in_fours, p):
        for k in range(K):
            values[k] += reals[first + j] * weights[j * K + k]
    best = _answer(K, y, values)
    if best == y:
        return 0
    loss[0] = 1.0
    for j in range(p):
        indices[j], values[j] = j * K + y, reals[first + j]
    for j in range(p):
        indices[p + j], values[p + j] = j * K + best, -reals[first + j]
    return 2 * p


@numba.cfunc(native_signature())
def sparse_classes(reals, integers, block, weights, indices, values, loss):
    """Integers: K, n, labels, begins of rows (n + 1), columns times K. Reals: the entries of X."""
    K, n, y = integers[0], integers[1], integers[2 + block]
    first, last = integers[2 + n + block], integers[3 + n + block]
    columns = 3 + 2 * n
    for k in range(K):
        values[k] = 0.0
    in_fours = first + (last - first) // 4 * 4
    for e in range(first, in_fours, 4):
        a, b, c, d = reals[e], reals[e + 1], reals[e + 2], reals[e + 3]
        at = columns + e
        u, v, w, x = integers[at], integers[at + 1], integers[at + 2], integers[at + 3]
        for k in range(K):
            values[k] += (a * weights[u + k] + b * weights[v + k]) + (c * weights[w + k] + d * weights[x + k])
    for e in range(in_fours, last):
        for k in range(K):
            values[k] += reals[e] * weights[integers[columns + e] + k]
    best = _answer(K, y, values)
    if best == y:
        return 0
    loss[0] = 1.0
    count = last - first
    for e in range(count):
        indices[e], values[e] = integers[columns + first + e] + y, reals[first + e]
    for e in range(count):
        indices[count + e], values[count + e] = integers[columns + first + e] + best, -reals[first + e]
    return 2 * count


def native_problem(X, y, K):
    """Dense rows, or sparse ones where that saves time; the same choice as the built-in model's."""
    n, p = X.shape
    if np.count_nonzero(X) > 0.4 * X.size:
        return NativeProblem(dense_classes, n, K * p, X, np.concatenate([[K, p], y]), max_entries=max(2 * p, K))
    rows = sparse.csr_array(X)
    integers = np.concatenate([[K, n], y, rows.indptr, rows.indices.astype(np.int64) * K])
    most = max(2 * int(np.diff(rows.indptr).max()), K)
    return NativeProblem(sparse_classes, n, K * p, rows.data, integers, max_entries=most)


class Classes(Structure):
    """Multi-class in Python, one sample at a time."""

    def __init__(self, n_classes):
        self.eye = np.eye(n_classes)

    def joint_feature(self, x, y):
        return np.outer(self.eye[y], x).ravel()

    def loss(self, truth, y):
        return float(truth != y)

    def decode(self, x, weights, truth=None, a=1.0, b=0.0):
        wrong = 0.0 if truth is None else 1.0 - self.eye[truth]
        return int(np.argmax(a * (weights.reshape(len(self.eye), -1) @ x) + b * wrong))


class BatchClasses(Classes):
    """The same with a batch method."""

    def decode_batch(self, xs, weights, truths=None, a=1.0, b=0.0):
        wrong = 0.0 if truths is None else 1.0 - self.eye[np.asarray(truths)]
        return np.argmax(a * (np.stack(xs) @ weights.reshape(len(self.eye), -1).T) + b * wrong, axis=1).tolist()


def make(n, p, K):
    """Overlapping Gaussian classes."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, K, n)
    return 0.25 * rng.normal(size=(K, p))[y] + rng.normal(size=(n, p)), y, K


def seconds_per_pass(problem, lam, passes, **settings):
    """Processor time of a run of so many passes, checks included, over the passes; and the dual objective it reached."""
    solver = BCFW(tol=1e-12, max_passes=passes, check_every=passes, **settings)
    start = time.thread_time()
    solution = solver.solve(problem, lam)
    return (time.thread_time() - start) / solution.passes, solution.dual


def compare(name, data, lam, repeats, settings, python_samples):
    """One row: times of built-in and native take turns; ratios are medians over the turns."""
    X, y, K = data
    n = len(y)
    problems = {"built in": MulticlassProblem(X, y, K), "native": native_problem(X, y, K)}
    times: dict[str, list[float]] = {label: [] for label in problems}
    duals = {}
    for problem in problems.values():
        seconds_per_pass(problem, lam, 1, **settings)
    for _ in range(repeats):
        for label, problem in problems.items():
            seconds, duals[label] = seconds_per_pass(problem, lam, 10, **settings)
            times[label].append(seconds)
    if settings["steps"] == "fw" and not np.isclose(*duals.values(), rtol=1e-6):
        raise AssertionError(f"dual objectives differ: {duals}")
    ratio = np.median(np.array(times["native"]) / np.array(times["built in"]))
    row = [name, settings["sampling"], settings["steps"], f"{np.median(times['built in']) / n * 1e9:.0f} ns", f"{ratio:.2f}"]
    some = slice(0, python_samples)
    small = MulticlassProblem(X[some], y[some], K)
    ways = {
        "batch": StructuredProblem(BatchClasses(K), list(X[some]), y[some].tolist()),
        "python": StructuredProblem(Classes(K), list(X[some]), y[some].tolist()),
    }
    here = lam * n / len(small.y)
    for problem in ways.values():
        ratios = []
        for _ in range(3):
            fast, _ = seconds_per_pass(small, here, 10, **settings)
            slow, _ = seconds_per_pass(problem, here, 2, **settings)
            ratios.append(slow / fast)
        row.append(f"{np.median(ratios):.0f}")
    print(row, flush=True)
    return row


def make_chains(n, length, p, K):
    """Random sequences whose labels depend on the features."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n * length, p))
    y = np.argmax(X @ rng.normal(size=(p, K)) + rng.normal(size=(n * length, K)), axis=1)
    return Sequences(X, y, np.arange(0, n * length + 1, length))


def compare_decoders(name, data, K, lam, repeats, settings):
    """One row: the built-in chain against the same with Viterbi of one's own."""
    problems = {
        "built in": ChainProblem(data.X, data.y, data.offsets, K),
        "decoder": DecodedProblem(viterbi, data.X, data.y, data.offsets, None, K),
    }
    times: dict[str, list[float]] = {label: [] for label in problems}
    for problem in problems.values():
        seconds_per_pass(problem, lam, 1, **settings)
    for _ in range(repeats):
        duals = []
        for label, problem in problems.items():
            seconds, dual = seconds_per_pass(problem, lam, 10, **settings)
            times[label].append(seconds)
            duals.append(dual)
        if not np.isclose(*duals, rtol=1e-6):
            raise AssertionError(f"dual objectives differ: {duals}")
    ratio = np.median(np.array(times["decoder"]) / np.array(times["built in"]))
    n = len(data.offsets) - 1
    row = [name, settings["sampling"], settings["steps"], f"{np.median(times['built in']) / n * 1e9:.0f} ns", f"{ratio:.2f}"]
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7, help="turns per entry; the median of the ratios counts")
    options = parser.parse_args()
    shapes = [(4000, 100, 10), (4000, 100, 26), (4000, 100, 100), (4000, 1000, 10)]
    data = {f"{n:,} x {p:,}, {K} classes": make(n, p, K) for n, p, K in shapes}
    chains = {"2,000 sequences of 10, 50 inputs, 20 labels": (make_chains(2000, 10, 50, 20), 20)}
    if ROOT.is_dir():
        data["MNIST, 60,000 x 784, 10 classes"] = (*mnist(), 10)
        chains["OCR, 6,251 words, 26 labels"] = (ocr_words()[0], 26)
    else:
        print("real data are left out; set MAXMARGIN_DATA to the folder that has them")
    rows = []
    for name, problem in data.items():
        lam = 10 / len(problem[1])
        for sampling, steps in (("permutation", "fw"), ("gap", "fw"), ("gap", "pairwise")):
            rows.append(compare(name, problem, lam, options.repeats, {"sampling": sampling, "steps": steps}, 500))
    header = ["data", "sampling", "steps", "built in, per call", "native / built in", "batch / built in", "Python / built in"]
    text = (
        "Ten passes of BCFW from zero and one exact check, C = 0.1, one thread, processor time; built-in model and native oracle "
        "take turns with the same seeds, and the ratios are medians. With plain steps (fw) both take the same steps to the same "
        "dual objective. The native oracle is numba code with weights laid out [feature][label]. *Batch* and *Python* are "
        "`decode_batch` and `decode` of a `Structure`, two passes on the first 500 samples; the compiled loop calls them back, "
        "one sample at a time for steps, so that the batch method is used by the exact check alone."
    )
    decoders = [
        compare_decoders(name, *problem, 0.01, options.repeats, {"sampling": "gap", "steps": steps, "cache": cache})
        for name, problem in chains.items()
        for steps, cache in (("fw", 0), ("pairwise", 20))
    ]
    second = (
        "`DecodedProblem`: the library keeps scores, features and blocks, the user's function only searches for the best labels. "
        "Chains with Viterbi written in numba against the built-in one, lambda = 0.01; both take the same steps."
    )
    titles = ["data", "sampling", "steps", "built in, per call", "decoder / built in"]
    path = FOLDER / "results" / "native_oracle.md"
    sections = [second, markdown(titles, decoders), text, markdown(header, rows)]
    write_report(path, "Compiled code of one's own", sections)


if __name__ == "__main__":
    main()
