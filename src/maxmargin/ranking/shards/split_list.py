"""Lists that lie in several shards: which these are, how much each counts, and all of them ranked in common rounds."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from maxmargin._utils import ArgumentError, Floats, Ints
from maxmargin.distributed import Conversation, run_rounds
from maxmargin.ranking import RankingLoss, shares_of_counts
from maxmargin.ranking.shards.list_inference import ScatteredList, ScatteredRanking

# Questions of a round, by shard: block, operation, arguments.
Questions = dict[int, list[tuple[int, str, tuple[Any, ...]]]]
# Asks shards; whether it is the last round; answers of each shard in the order of its questions.
Ask = Callable[[Questions, bool], dict[int, list[dict[str, Any]]]]

_LAST = ("place", "place_equal")


@dataclass(eq=False)
class Block:
    """A list under one notion of relevance.

    Attributes
    ----------
    number : int
        By which shards know it: level times the number of lists, plus that of the list.
    holders : list of int
        Shards that have rows of it.
    weight : float
        Of its hinge in the sum over all blocks.
    ranking : ScatteredList
    """

    number: int
    holders: list[int]
    weight: float
    ranking: ScatteredList


def scattered_names(shards: Conversation, filled: Sequence[dict[str, Any]]) -> list[str]:
    """Names of the lists that lie in several shards, from what those with rows say of themselves; that of all rows has none."""
    whole = [bool(info["one_list"]) for info in filled]
    if any(whole) and not all(whole):
        k = [bool(info["rows"] and info["one_list"]) for info in shards.infos].index(True)
        raise ValueError(
            f"shard {k} ({shards.engine.describe(k)}) has no queries, and others have; give qid for all, or for none"
        )
    if all(whole):
        return [""] if len(filled) > 1 else []
    return _shared_names(shards)


def _shared_names(shards: Conversation) -> list[str]:
    """Names of the queries that lie in several shards, in the order of the shards; in two rounds at most.

    Shards tell 8 bytes of every query first, by which those that may be in several of them are found.
    """
    if shards.n_shards == 1:
        return []
    hashes = [answer["hashes"] for answer in shards.plain("query_hashes")]
    found, counts = np.unique(np.concatenate(hashes), return_counts=True)
    suspects = found[counts > 1]
    if not len(suspects):
        return []
    names = [name for answer in shards.plain("query_names", suspects) for name in answer["names"]]
    seen: dict[str, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
    return [name for name, times in seen.items() if times > 1]


def check_together(shards: Conversation) -> None:
    """Complain about a query that comes back after others, in rows that are in the order of the shards: it may be another one."""
    hashes = [own for answer in shards.plain("query_hashes") if len(own := answer["hashes"])]
    # A query that goes on is the last of a shard and the first of the next.
    bridges = np.array([a[-1] for a, b in pairwise(hashes) if a[-1] == b[0]], dtype=np.uint64)
    found, counts = np.unique(np.concatenate([*hashes, bridges]), return_counts=True)
    often = dict(zip(*np.unique(bridges, return_counts=True), strict=True))
    # In k shards, and k - 1 bridges between them.
    bad = [name for name, count in zip(found[counts > 1], counts[counts > 1], strict=True) if count != 2 * often.get(name, 0) + 1]
    if bad:
        names = [name for answer in shards.plain("query_names", np.array(bad[:1])) for name in answer["names"]]
        problem = f"query {names[0][:60]} has appeared before, with others in between"
        raise ArgumentError("files", problem, "put the samples of a query together, or give queries other names")


def scattered_blocks(loss: RankingLoss, prepared: Sequence[dict[str, Any]], task: dict[str, Any]) -> tuple[list[Block], int]:
    """The blocks of scattered lists, from what shards have of them; and how many lists have none."""
    relevant = np.array([answer["relevant"] for answer in prepared], dtype=np.int64)  # (shards, levels, lists)
    rows = np.array([answer["rows"] for answer in prepared], dtype=np.int64)  # (shards, lists)
    weights = _weights(rows, np.array([answer["weights"] for answer in prepared]))
    sizes, positives = rows.sum(axis=0), relevant.sum(axis=0)
    mixed = (positives > 0) & (positives < sizes)
    shares: Floats = mixed / np.maximum(mixed.sum(axis=0), 1)
    if task.get("gains"):
        shares = np.where(mixed, shares_of_counts(positives, sizes, task["levels"], task["gains"], loss.at), 0.0)
    blocks = []
    for level, k in np.argwhere(mixed):
        holders = np.flatnonzero(rows[:, k])
        n_pos = relevant[holders, level, k]
        ranking = ScatteredList(loss, n_pos, rows[holders, k] - n_pos)
        weight = float(weights[k] * shares[level, k])
        blocks.append(Block(int(level * len(sizes) + k), holders.tolist(), weight, ranking))
    return blocks, int(np.count_nonzero(~mixed.any(axis=0) & (sizes > 0)))


def _weights(rows: Ints, weights: Floats) -> Floats:
    """That of every list, which all shards that have some of it must agree on."""
    here = rows > 0
    highest, lowest = np.where(here, weights, -np.inf).max(axis=0), np.where(here, weights, np.inf).min(axis=0)
    if (highest != lowest).any():
        raise ValueError("a query that lies in several shards has different weights there; give all of its rows the same")
    return np.asarray(highest)


def rank_all(
    blocks: Sequence[Block], starts: Sequence[ScatteredList], ask: Ask, n_shards: int, loss_scale: float
) -> tuple[list[ScatteredRanking], list[ScatteredList]]:
    """The most violating ranking of every block; and lists that know the buckets that were used, to begin with the next time.

    This time they begin with those of ``starts``, one for each block, which stay as they are. The last round asks all shards,
    whether they have any of the lists or not.
    """
    rankings = [copy.copy(start) for start in starts]

    def send(asked: dict[int, tuple[str, Any]]) -> dict[int, Any]:
        questions: Questions = {}
        for k, (operation, args) in asked.items():
            block = blocks[k]
            for place, shard in enumerate(block.holders):
                own = args[place] if isinstance(args, list) else args
                questions.setdefault(shard, []).append((block.number, operation, own))
        last = all(operation in _LAST for operation, _ in asked.values())
        if last:
            questions.update({shard: [] for shard in range(n_shards) if shard not in questions})
        answers = ask(dict(sorted(questions.items())), last)
        places = dict.fromkeys(questions, 0)
        found: dict[int, Any] = {}
        for k in asked:
            found[k] = []
            for shard in blocks[k].holders:
                found[k].append(answers[shard][places[shard]])
                places[shard] += 1
        return found

    return run_rounds([ranking.find(loss_scale) for ranking in rankings], send), rankings
