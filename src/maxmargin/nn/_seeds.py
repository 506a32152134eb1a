"""Random numbers of one's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Random numbers of one's own; those of others go on as if nothing had been."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
