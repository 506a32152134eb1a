"""Digests of data, by which equal problems are known again."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def fingerprint(*parts: Any) -> bytes:
    """A short summary of data: equal for equal data, and different for different ones as far as anybody knows."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        arrays = [part.data, part.indices, part.indptr] if hasattr(part, "indptr") else [part]
        for array in arrays:
            if isinstance(array, np.ndarray) and array.dtype != object:
                digest.update(f"{array.dtype}{array.shape}".encode())
                digest.update(np.ascontiguousarray(array).view(np.uint8).data)
            else:
                digest.update(repr(array).encode())
    return digest.digest()
