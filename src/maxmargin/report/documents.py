"""The documents of queries, in the order of the model, as many as the page has room for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from maxmargin._utils import Ints
from maxmargin.report.page import as_json
from maxmargin.report.plain import number, text
from maxmargin.report.ranked import Judged, Ranked

_ROOM = 1_000_000  # characters, of all queries together
_TOP = 50  # documents of a long query that are shown whatever they are
_RELEVANT = 50  # and relevant ones beyond


def documents(ranked: list[Ranked], judged: Judged, order: Ints, names: Mapping[Any, str]) -> dict[str, Any]:
    """Queries in the given order, for each the place, number, label and score of documents and their places elsewhere."""
    model = ranked[0].lists
    ids = model.qid.tolist()
    elsewhere = []
    for other in ranked[1:]:
        place = np.empty(len(judged), dtype=np.int64)
        place[other.lists.rows] = other.lists.place
        elsewhere.append(place)
    shown: list[dict[str, Any]] = []
    room = _ROOM
    for k in order.tolist():
        begin, size = int(model.starts[k]), int(model.sizes[k])
        here = np.arange(size)
        if size > _TOP + _RELEVANT:
            late = _TOP + np.flatnonzero(model.relevant[begin + _TOP : begin + size])[:_RELEVANT]
            here = np.concatenate((here[:_TOP], late))
        rows = [
            # Samples are counted from 1, as in messages and in runs.
            [p + 1, r + 1, number(judged.labels[r], 4), number(model.scores[begin + p], 5), *(int(at[r]) for at in elsewhere)]
            for p, r in zip(here.tolist(), model.rows[begin + here].tolist(), strict=True)
        ]
        entry = {"name": text(names.get(ids[k], ids[k])), "samples": size, "rows": rows}
        room -= len(as_json(entry))
        if room < 0:
            break
        shown.append(entry)
    return {"queries": shown, "top": _TOP, "beyond": _RELEVANT, "of": len(order)}
