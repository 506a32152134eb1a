"""Real data for benchmarks, read in place from the folder in MAXMARGIN_DATA (by default ``../shared/data``)."""

from __future__ import annotations

import bz2
import gzip
import os
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_svmlight_file

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
ROOT = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parent.parent.parent / "shared" / "data"))


def find(*parts: str) -> Path:
    """A file, or the end of the program with a word on how to get it."""
    path = ROOT.joinpath(*parts)
    if not path.exists():
        sys.exit(f"{path.name} is not in {ROOT.name}/{'/'.join(parts[:-1])}; set MAXMARGIN_DATA to a folder that has it")
    return path


class Sequences(NamedTuple):
    """Features (N, p) and labels (N,) of sequences that follow each other; sequence i is ``offsets[i]:offsets[i + 1]``."""

    X: Floats
    y: Ints
    offsets: Ints


def ocr_words() -> tuple[Sequences, Sequences]:
    """Handwritten words: folds 1 to 9 for training (6,251 words), fold 0 for testing; 128 pixels and a constant."""
    with np.load(find("ocr_letters", "ocr_letters.npz")) as data:
        pixels = np.unpackbits(data["pixels_packed"], axis=1).astype(np.float64)
        labels, offsets, folds = data["labels"].astype(np.int64), data["offsets"].astype(np.int64), data["folds"]
    X = np.hstack([pixels, np.ones((len(pixels), 1))])

    def part(words: NDArray[Any]) -> Sequences:
        rows = np.concatenate([np.arange(offsets[w], offsets[w + 1]) for w in words])
        lengths = offsets[words + 1] - offsets[words]
        return Sequences(X[rows], labels[rows], np.concatenate([[0], np.cumsum(lengths)]))

    return part(np.flatnonzero(folds > 0)), part(np.flatnonzero(folds == 0))


def mnist(kind: str = "train") -> tuple[Floats, Ints]:
    """Pixels in [0, 1], shape (n, 784), and digits; ``kind`` is "train" or "t10k"."""
    with gzip.open(find("mnist", f"{kind}-images-idx3-ubyte.gz")) as file:
        pixels = np.frombuffer(file.read(), dtype=np.uint8, offset=16).reshape(-1, 784)
    with gzip.open(find("mnist", f"{kind}-labels-idx1-ubyte.gz")) as file:
        digits = np.frombuffer(file.read(), dtype=np.uint8, offset=8)
    return pixels / 255.0, digits.astype(np.int64)


def news20() -> tuple[Any, Ints]:
    """Term counts of 15,935 documents as a CSR matrix, and labels 0 to 19."""
    with bz2.open(find("libsvm_news20", "news20.bz2")) as file:
        X, y = load_svmlight_file(file)
    # liblinear takes 32-bit indices only.
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, y.astype(np.int64) - 1


def w8a() -> tuple[Any, Ints]:
    """300 binary attributes of 49,749 web pages as a CSR matrix, and labels 0 and 1 (3 %)."""
    with gzip.open(find("libsvm_w8a", "w8a.gz")) as file:
        X, y = load_svmlight_file(file, n_features=300)
    return X, (y > 0).astype(np.int64)
