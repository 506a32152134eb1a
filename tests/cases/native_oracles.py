"""Oracles as compiled functions, for the tests: multi-class in numba and in C, chains in numba, a decoder of chains in C."""

import ctypes
import shutil
import subprocess
from importlib.util import find_spec

import numpy as np

HAVE_NUMBA = find_spec("numba") is not None
COMPILER = shutil.which("gcc") or shutil.which("cc")

SIGNATURE = """
#include <math.h>
#include <stdint.h>
#define ORACLE(name) int64_t name(const double *reals, const int64_t *integers, int64_t block, const double *weights, \\
                                  int32_t *indices, double *values, double *loss)
"""

# Integers: K, p, labels. Weights and features are [label][feature], as in MulticlassProblem.
C_CODE = (
    SIGNATURE
    + """
ORACLE(classes) {
    const int64_t K = integers[0], p = integers[1], y = integers[2 + block];
    const double *x = reals + block * p;
    int64_t best = y;
    double highest = -INFINITY;
    for (int64_t k = 0; k < K; ++k) {
        double score = k != y;
        for (int64_t j = 0; j < p; ++j) score += weights[k * p + j] * x[j];
        if (score > highest) highest = score, best = k;
    }
    *loss = best != y;
    if (best == y) return 0;
    for (int64_t j = 0; j < p; ++j) {
        indices[j] = (int32_t)(y * p + j), values[j] = x[j];
        indices[p + j] = (int32_t)(best * p + j), values[p + j] = -x[j];
    }
    return 2 * p;
}

/* The same, with every feature in two pieces, in an order that interleaves the labels, and the truth written as zeros. */
ORACLE(pieces) {
    const int64_t count = classes(reals, integers, block, weights, indices + 4000, values + 4000, loss);
    const int64_t p = integers[1], y = integers[2 + block];
    if (count == 0) {
        indices[0] = (int32_t)(y * p), values[0] = 0;
        return 1;
    }
    int64_t at = 0;
    for (int64_t j = 0; j < p; ++j)
        for (int64_t half = 0; half < 2; ++half)
            for (int64_t side = 0; side < 2; ++side) {
                indices[at] = indices[4000 + side * p + j];
                values[at++] = (half ? 0.75 : 0.25) * values[4000 + side * p + j];
            }
    return at;
}

/* A decoder of chains: Viterbi. Room for 16 nodes of 8 labels. */
int64_t viterbi(const double *reals, const int64_t *integers, int64_t block, int64_t n_nodes, int64_t n_labels,
                const double *scores, const double *table, int32_t *labels) {
    double best[16][8];
    int32_t back[16][8];
    for (int64_t t = 0; t < n_nodes; ++t)
        for (int64_t k = 0; k < n_labels; ++k) {
            double highest = t ? -INFINITY : 0;
            for (int64_t a = 0; t && a < n_labels; ++a)
                if (best[t - 1][a] + table[a * n_labels + k] > highest)
                    highest = best[t - 1][a] + table[a * n_labels + k], back[t][k] = (int32_t)a;
            best[t][k] = highest + scores[t * n_labels + k];
        }
    labels[n_nodes - 1] = 0;
    for (int64_t k = 1; k < n_labels; ++k)
        if (best[n_nodes - 1][k] > best[n_nodes - 1][labels[n_nodes - 1]]) labels[n_nodes - 1] = (int32_t)k;
    for (int64_t t = n_nodes - 1; t > 0; --t) labels[t - 1] = back[t][labels[t]];
    return 0;
}

/* Faults: integers[0] says which. */
ORACLE(faulty) {
    loss[0] = 1, indices[0] = 0, values[0] = 1;
    switch (integers[0]) {
        case 0: indices[0] = 3; break;
        case 1: indices[0] = -1; break;
        case 2: loss[0] = -1; break;
        case 3: loss[0] = NAN; break;
        case 4: values[0] = NAN; break;
        case 5: values[0] = INFINITY; break;
        case 6: return 3;
        case 7: return -1;
        case 8: loss[0] = INFINITY; break;
        case 9: loss[0] = 0; break; /* worse than the truth as soon as the weight is positive */
    }
    return 1;
}
"""
)


def c_library(folder):
    """The C oracles, compiled and loaded."""
    source, library = folder / "oracles.c", folder / "oracles.so"
    source.write_text(C_CODE)
    subprocess.run([COMPILER, "-O2", "-shared", "-fPIC", "-o", library, source, "-lm"], check=True)
    return ctypes.CDLL(str(library))


def numba_classes():
    """Multi-class; integers are K, p and the labels."""
    import numba

    from maxmargin.structured import native_signature

    @numba.cfunc(native_signature())
    def classes(reals, integers, block, weights, indices, values, loss):
        n_labels, p, y = integers[0], integers[1], integers[2 + block]
        x = numba.carray(reals, ((block + 1) * p,))[block * p :]
        best, highest = y, -np.inf
        for k in range(n_labels):
            score = 0.0 if k == y else 1.0
            for j in range(p):
                score += weights[k * p + j] * x[j]
            if score > highest:
                best, highest = k, score
        if best == y:
            loss[0] = 0.0
            return 0
        loss[0] = 1.0
        for j in range(p):
            indices[j], values[j] = y * p + j, x[j]
            indices[p + j], values[p + j] = best * p + j, -x[j]
        return 2 * p

    return classes


def numba_chains():
    """Chains with normalised Hamming loss and the features of ChainProblem; integers are K, p, offsets and labels."""
    import numba

    from maxmargin.structured import native_signature

    @numba.cfunc(native_signature())
    def chains(reals, integers, block, weights, indices, values, loss):
        K, p, n = integers[0], integers[1], integers[2]
        begin, end = integers[3 + block], integers[4 + block]
        length = end - begin
        X = numba.carray(reals, (end * p,))
        y = numba.carray(integers, (n + 4 + end,))[n + 4 :]
        first, last = K * p, K * p + K
        step = last + K
        score = np.zeros((length, K))
        back = np.zeros((length, K), dtype=np.int64)
        for t in range(length):
            for k in range(K):
                value = 0.0 if k == y[begin + t] else 1.0 / length
                for j in range(p):
                    value += weights[k * p + j] * X[(begin + t) * p + j]
                if t == 0:
                    value += weights[first + k]
                if t == length - 1:
                    value += weights[last + k]
                if t > 0:
                    best = -np.inf
                    for a in range(K):
                        through = score[t - 1, a] + weights[step + a * K + k]
                        if through > best:
                            best, back[t, k] = through, a
                    value += best
                score[t, k] = value
        labels = np.zeros(length, dtype=np.int64)
        labels[length - 1] = np.argmax(score[length - 1])
        for t in range(length - 1, 0, -1):
            labels[t - 1] = back[t, labels[t]]
        wrong, at = 0, 0
        for t in range(length):
            truth, found = y[begin + t], labels[t]
            if truth != found:
                wrong += 1
                for j in range(p):
                    indices[at], values[at] = truth * p + j, X[(begin + t) * p + j]
                    indices[at + 1], values[at + 1] = found * p + j, -X[(begin + t) * p + j]
                    at += 2
                for edge, here in ((first, 0), (last, length - 1)):
                    if t == here:
                        indices[at], values[at] = edge + truth, 1.0
                        indices[at + 1], values[at + 1] = edge + found, -1.0
                        at += 2
            if t > 0 and (truth != found or y[begin + t - 1] != labels[t - 1]):
                indices[at], values[at] = step + y[begin + t - 1] * K + truth, 1.0
                indices[at + 1], values[at + 1] = step + labels[t - 1] * K + found, -1.0
                at += 2
        loss[0] = wrong / length
        return at

    return chains
