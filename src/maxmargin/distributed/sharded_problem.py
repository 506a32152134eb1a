"""What all problems over shards have in common: blocks by number, and a fingerprint of all parts."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Cut, Problem, fingerprint
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.engine import Engine


class ShardedProblem(Problem):
    """Blocks of all shards, one shard after the other.

    Attributes
    ----------
    shards : Conversation
        Asks the shards, and counts what had to be repeated.
    """

    def __init__(self, shards: Conversation, counts: Sequence[int]) -> None:
        self.shards = shards
        self.n_blocks = sum(counts)
        # Block k is of the last shard that begins at k or before.
        self._begin = np.concatenate([[0], np.cumsum(counts)])

    @property
    def engine(self) -> Engine:
        """Whose shards these are."""
        return self.shards.engine

    def cut(self, block: int, weights: Floats) -> Cut:
        """The cut of one block."""
        return self.cuts([block], weights)[0]

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Cuts of some blocks; d numbers for each come to the client, so this is for few of them."""
        chosen = np.asarray(list(blocks), dtype=np.int64)
        shard = np.searchsorted(self._begin, chosen, side="right") - 1
        asked = np.unique(shard).tolist()
        found = self.shards.ask("cuts", lambda k: (chosen[shard == k] - self._begin[k], weights), asked)
        made: list[Any] = [None] * len(chosen)
        for k, answer in zip(asked, found, strict=True):
            parts = zip(answer["psi"], answer["loss"], answer["bound"], answer["bounded"], strict=True)
            for place, (psi, loss, bound, bounded) in zip(np.flatnonzero(shard == k), parts, strict=True):
                made[place] = Cut(psi, float(loss), float(bound) if bounded else None)
        return made

    @abstractmethod
    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all blocks, in one pass."""

    def fingerprint(self) -> bytes | None:
        """Of the data of all shards, in their order, and of the task; None if one of them has none."""
        digests = [answer["digest"] for answer in self.shards.plain("digest")]
        return fingerprint(type(self).__qualname__, self.shards.key, *digests) if all(digests) else None


def n_columns(infos: Sequence[dict[str, Any]], engine: Engine) -> int:
    """Columns of the features of all shards: sparse ones may have fewer where the last are empty."""
    most = max(int(info["n_features"]) for info in infos)
    for k, info in enumerate(infos):
        if not info["sparse"] and info["rows"] and info["n_features"] != most:
            raise ValueError(
                f"X has {info['n_features']} columns in shard {k} ({engine.describe(k)}), but {most} elsewhere; all parts of the "
                "data need the same"
            )
    return most


def all_labels(shards: Conversation, most: int) -> Any:
    """The labels of all shards, in order; None if there are more than ``most``."""
    found = shards.plain("labels", most + 1)
    parts = [answer["labels"] for answer in found if len(answer["labels"])]
    if not parts:
        raise ValueError(f"the {shards.n_shards} shards hold no data; at least one needs a sample")
    labels = np.unique(np.concatenate(parts))
    return None if len(labels) > most else labels
