"""Short summaries of data, by which warm starts and checkpoints know their own problem."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np


def fingerprint(*parts: Any) -> bytes:
    """A digest: equal for equal data, and different for different ones as far as anybody knows."""
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        arrays = [part.data, part.indices, part.indptr, part.shape] if hasattr(part, "indptr") else [part]
        for array in arrays:
            if isinstance(array, np.ndarray) and array.dtype != object:
                digest.update(f"{array.dtype}{array.shape}".encode())
                # Row by row, whatever the layout; only parts of another layout are copied at a time.
                pieces = [array] if array.flags.c_contiguous else (array[k : k + 4096] for k in range(0, len(array), 4096))
                for own in pieces:
                    digest.update(np.ascontiguousarray(own).view(np.uint8).data)
            else:
                digest.update(f"{array!r};".encode())
    return digest.digest()
