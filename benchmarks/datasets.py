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
from scipy.sparse import csr_matrix
from sklearn.datasets import load_svmlight_file

from maxmargin.io import load_svmlight

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


class Queries(NamedTuple):
    """Documents (n, p) with grades (n,) and the query of each (n,)."""

    X: Any
    y: Floats
    qid: Ints

    def take(self, rows: NDArray[Any]) -> Queries:
        return Queries(self.X[rows], self.y[rows], self.qid[rows])


def _queries(paths: list[Path], sizes: list[Path] | None = None) -> Queries:
    """Files of documents, one behind the other; queries are numbered in their order."""
    X, y, qid, first = [], [], [], 0
    for k, path in enumerate(paths):
        data = load_svmlight(path)
        if sizes is None:
            number = np.unique(np.asarray(data.qid), return_inverse=True)[1]
        else:
            lengths = np.loadtxt(sizes[k], dtype=np.int64)
            number = np.repeat(np.arange(len(lengths)), lengths)
        X.append(data.X.toarray())
        y.append(data.y)
        qid.append(first + number)
        first = int(qid[-1].max()) + 1
    return Queries(np.concatenate(X), np.concatenate(y), np.concatenate(qid))


def mq2008() -> list[Queries]:
    """The five parts of LETOR MQ2008; folds are three in a row, the next to validate, the next to test."""
    return [_queries([find("ltr_mq2008", f"S{k}.txt.gz")]) for k in range(1, 6)]


def mslr() -> Queries:
    """86 queries of MSLR-WEB10K with 136 features."""
    return _queries([find("ltr_mslr_5k", f"msn1.fold1.{part}.5k.txt.gz") for part in ("train", "test")])


def lightgbm_example() -> Queries:
    """251 queries that come with LightGBM, 300 features."""
    files, sizes = ([find("ltr_lightgbm", f"rank.{part}.{kind}") for part in ("train", "test")] for kind in ("gz", "query"))
    return _queries(files, sizes)


def binary(name: str) -> tuple[Any, NDArray[np.bool_]]:
    """``"w8a"`` or ``"a9a"``: a CSR matrix, and which samples are positive."""
    data = load_svmlight(find(f"libsvm_{name}", f"{name}.gz"))
    return csr_matrix(data.X), data.y > 0
