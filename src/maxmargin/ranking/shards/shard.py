"""Rows of lists to be ranked: scores of registered weights stay here, hinges and slopes along lines are made of them.

A *root* is the product of the rows with weights that the client has registered, by number. The scores of every point of a line
search are combinations of few roots, a *recipe*: coefficients and numbers, the latter rising. They are added up in that order.

Queries that lie in this shard alone are solved here, in one round. Of a list that lies in several shards this one has a part, and
answers the questions of :mod:`maxmargin.ranking.shards.list_inference` about it.
"""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from maxmargin import _core
from maxmargin._utils import Booleans, Floats, Ints, thread_count
from maxmargin.core import is_sparse, times
from maxmargin.distributed import Answer, Context, MissingError, Rows, RowShard, TaskShard, with_columns
from maxmargin.ranking import RankingLoss, RankingProblem, gain_shares, ranking_loss, solve_lists
from maxmargin.ranking.shards.judging import LOSS, irrelevant_above, views, whole_sums
from maxmargin.ranking.shards.list_shard import ListPart, Scores
from maxmargin.ranking.shards.lists import Found, Lists

# Gradients that are kept for features to be asked for: cuts are made at two of the points of a search, which looks at five at
# most. Those of whole lists can be made anew.
_KEPT = 3
_KEPT_OF_SCATTERED = 5
# Roots that are kept; a client drops those it does not need, but one that is gone cannot. Six or seven are in use at a time.
_MOST_ROOTS = 32

# What a shard says of scores that are not finite; the client then asks where they are.
_NOT_FINITE: Answer = {"answers": [], "hinge": np.nan}

_ONE, _EMPTY = np.ones(1), np.zeros(0)


@dataclass(eq=False)
class _Working:
    """A pass over scattered lists that is not over yet."""

    key: tuple[Any, ...]
    scores: Floats
    # Of the only list of a shard: what the scores of its negatives are made of, and where the positives below them are written.
    made_of: tuple[Floats, list[Floats]] | None = None
    below: Floats | None = None
    lists: dict[int, ListPart] = field(default_factory=dict)
    # Negatives above every own positive.
    above: dict[int, Ints] = field(default_factory=dict)


class RankingShard(RowShard, TaskShard[Lists]):
    """Queries, and the scores of their rows.

    The task has ``loss`` (a name; empty for the loss that came with the source), ``thresholds``, ``n_features``, ``scattered``
    (names of the queries that lie in several shards) and, with graded gains, ``gains`` and all ``levels``.

    Parameters
    ----------
    rows : Rows
    loss : RankingLoss, optional
        One that has no name; it must be importable where the shard is.
    n_jobs : int, optional
        Threads; all cores by default. No answer depends on it.
    """

    operations: ClassVar[frozenset[str]] = RowShard.operations | {
        "prepare", "look", "step", "features", "cuts", "query_hashes", "query_names", "judge", "count_above",
    }  # fmt: skip

    def __init__(self, rows: Rows | tuple[Any, ...], loss: RankingLoss | None = None, n_jobs: int | None = None) -> None:
        super().__init__(rows)
        if len(self.y) and (np.diff(self.offsets) == 0).any():
            raise ValueError("a query has no rows; leave it out of the offsets")
        if not len(self.y):
            self.offsets, self.names, self.weights = np.zeros(1, dtype=np.int64), None, None
        self._check_labels()
        # A number in one file may be text in another, next to names that are none.
        self.called = [] if self.names is None else [str(name) for name in self.names]
        if self.one_list:
            self.called = [""] * (len(self.offsets) - 1)
        if len(set(self.called)) != len(self.called):
            raise ValueError("the rows of a query are apart from each other; put those of every query next to each other")
        self.own_loss = loss
        self.n_jobs = n_jobs
        self._roots: dict[int, Floats] = {}
        self._found: OrderedDict[tuple[Any, ...], Found] = OrderedDict()
        self._working: _Working | None = None
        # Arrays as long as the rows, to be used again.
        self._scratch: Floats | None = None
        self._spare: Floats | None = None
        # Weights that were judged last, and their scores.
        self._last: tuple[Floats, Floats] | None = None

    def _check_labels(self) -> None:
        if self.y.dtype.kind not in "fiub":
            raise ValueError("y must be numbers: 1 for relevant samples and 0 for others, or grades; it holds text")

    # ---- before training ----------------------------------------------------------------------------------------------------

    def query_hashes(self) -> Answer:
        """Eight bytes of every query, the same for the same name."""
        digests = b"".join(hashlib.blake2b(name.encode(), digest_size=8).digest() for name in self.called)
        return {"hashes": np.frombuffer(digests, dtype=np.uint64)}

    def query_names(self, hashes: Any) -> Answer:
        """Names of the queries with these hashes."""
        wanted = np.isin(self.query_hashes()["hashes"], hashes)
        return {"names": [name for name, asked in zip(self.called, wanted, strict=True) if asked]}

    def _build(self, task: dict[str, Any]) -> Lists:
        n_features, thresholds = int(task["n_features"]), task["thresholds"]
        places = {name: k for k, name in enumerate(task["scattered"])}
        y = np.asarray(self.y, dtype=np.float64)
        relevant = y > thresholds[:, None]
        X = with_columns(self.X, n_features) if len(y) else np.zeros((0, n_features))
        numbers = np.array([places.get(self.called[k], -1) for k in range(len(self.offsets) - 1)], dtype=np.int64)
        lists = Lists(X, relevant, self.offsets, numbers, list(places), thresholds)
        whole = np.flatnonzero(numbers < 0)
        if len(whole):
            lists.whole = self._whole(task, whole, y, relevant, n_features)
        return lists

    def _whole(self, task: dict[str, Any], whole: Ints, y: Floats, relevant: Booleans, n_features: int) -> RankingProblem:
        loss = ranking_loss(task["loss"]) if task["loss"] else self.own_loss
        if loss is None:
            raise ValueError("the loss has no name; give it to the source of every shard")
        offsets, weights = self.offsets, self.weights
        if len(whole) < len(offsets) - 1:
            rows = np.concatenate([np.arange(offsets[k], offsets[k + 1]) for k in whole])
            y, relevant = y[rows], relevant[:, rows]
            weights = None if weights is None else weights[whole]
            offsets = _ends(np.diff(offsets)[whole])
        shares = None
        if task.get("gains"):
            shares = gain_shares(y, offsets, task["thresholds"], task["gains"], loss.at, task["levels"])
        # Products with features are made elsewhere: the problem gets the shape of them only.
        return RankingProblem(np.broadcast_to(0.0, (len(y), n_features)), relevant, loss, offsets, weights, shares)

    def prepare(self, context: Context) -> Answer:
        """Of whole lists how many blocks there are, and whether any counts; of scattered ones the rows, and those relevant."""
        lists = self._find(context)
        whole, names, thresholds = lists.whole, lists.names, lists.thresholds
        n_levels = len(thresholds)
        rows, weights, relevant = np.zeros(len(names), np.int64), np.zeros(len(names)), np.zeros((n_levels, len(names)), np.int64)
        places = {name: at for at, name in enumerate(names)}
        for k, size in enumerate(np.diff(self.offsets).tolist()):
            at = places.get(self.called[k])
            if at is None:
                continue
            rows[at] = size
            weights[at] = 1.0 if self.weights is None else self.weights[k]
            for level in range(n_levels):
                relevant[level, at] = rows[at] - lists.parts[level * len(names) + at].n_negatives
        return {
            "n_blocks": 0 if whole is None else whole.n_blocks,
            "n_skipped": 0 if whole is None else whole.n_skipped,
            "n_relevant": int(np.count_nonzero(self.y > thresholds[0])),
            "total_weight": 0.0 if whole is None else math.fsum(whole.weights.ravel().tolist()),
            "rows": rows, "weights": weights, "relevant": relevant,
        }  # fmt: skip

    # ---- passes -------------------------------------------------------------------------------------------------------------

    def look(self, context: Context, recipe: dict[str, Any], loss_scale: float) -> Answer:
        """Where all lists are whole: sums of hinges and losses at the scores of a recipe, and the gradient times its roots."""
        lists = self._find(context)
        self._register(lists, recipe)
        return self._told(self._solved(context, lists, recipe, loss_scale), recipe)

    def step(
        self, context: Context, recipe: dict[str, Any], loss_scale: float, chosen: list[int] | None,
        questions: list[tuple[int, str, tuple[Any, ...]]], begin: bool, last: list[tuple[int, float]] | None,
    ) -> Answer:  # fmt: skip
        """One round of the rankings of scattered lists; in the last one, also what :meth:`look` tells of all lists together.

        ``last`` has the number of every block and what its gradient is to be multiplied with. A pass over some blocks only has
        their numbers in ``chosen``.
        """
        lists, key = self._find(context), self._key(context, recipe, loss_scale, chosen)
        if begin:
            self._register(lists, recipe)
            self._working = self._begun(lists, key, recipe)
            if self._working is None:
                return {**_NOT_FINITE}
        working = self._working
        if working is None or working.key != key:
            raise MissingError
        answers = [self._one(lists, working, *question) for question in questions]
        if begin and not all(answer.pop("finite", True) for answer in answers):
            self._working = None
            return {**_NOT_FINITE}
        if last is None:
            return {"answers": answers}
        found = self._finished(lists, working, last, loss_scale, chosen is None)
        self._keep(key, found, _KEPT_OF_SCATTERED)
        self._working = None
        self._scratch = working.scores
        return {"answers": answers, **self._told(found, recipe)}

    def features(self, context: Context, recipe: dict[str, Any], loss_scale: float, chosen: list[int] | None) -> Answer:
        """The gradient at the scores of a recipe as a sum of rows, shape (d,); and the losses, by which it is known again.

        Of scattered lists it is known from a pass over all shards only; one that is not is ``lost``.
        """
        lists = self._find(context)
        found = self._found.get(self._key(context, recipe, loss_scale, chosen))
        if found is None:
            if lists.parts or chosen is not None:
                return {"lost": True}
            self._register(lists, recipe)
            found = self._solved(context, lists, recipe, loss_scale)
        if found.rows is None:
            psi = lists.sum_of_rows(found.gradient, self.n_jobs)
        else:
            psi = lists.sum_of_some(found.rows, found.gradient, self.n_jobs)
        return {"psi": found.unit * psi, "loss": found.loss}

    def cuts(self, context: Context, blocks: Ints, weights: Floats) -> Answer:
        """The cuts of some blocks of whole lists, counted from the first of the shard."""
        lists = self._find(context)
        whole = lists.whole
        assert whole is not None
        scores, psi, losses, hinges = lists.root(weights, self.n_jobs), list[Floats](), list[float](), list[float]()
        for level, which in whole.blocks[blocks]:
            begin, end = whole.offsets[which : which + 2]
            truth = whole.relevant[level, begin:end]
            loss, _, slopes = solve_lists(scores[begin:end], truth, np.array([0, end - begin]), whole.checked, 1.0, 1)
            gradient, weight = np.zeros(len(scores)), float(whole.weights[level, which])
            gradient[begin:end] = weight * slopes
            psi.append(-lists.sum_of_rows(gradient, self.n_jobs))
            losses.append(weight * float(loss[0]))
            hinges.append(losses[-1] - float(psi[-1] @ weights))
        none = np.zeros(len(psi), dtype=bool)
        return {"psi": np.array(psi), "loss": np.array(losses), "bound": np.array(hinges), "bounded": none}

    # ---- metrics ------------------------------------------------------------------------------------------------------------

    def judge(self, context: Context, asked: dict[str, Any]) -> Answer:
        """Sums of metrics over whole queries; relevant scores and grades of scattered ones, for every view of the labels."""
        scores, y = self._judged(asked), np.asarray(self.y, dtype=np.float64)
        places = {name: k for k, name in enumerate(asked["scattered"])}
        numbers = [places.get(name, -1) for name in self.called] if self.called else [-1] * (len(self.offsets) - 1)
        whole = np.flatnonzero(np.array(numbers, dtype=np.int64) < 0)
        weights = np.ones(len(numbers)) if self.weights is None else self.weights
        names, grades_of = asked["metrics"], views(y, asked)
        if not np.isfinite(scores).all():
            return {"sums": np.full(len(names), np.nan)}  # for the client to see
        loss = None if "loss" not in asked else ranking_loss(asked["loss"]) if asked["loss"] else self.own_loss
        if LOSS in names and loss is None and len(whole):
            raise ValueError("the loss has no name; give it to the source of every shard")
        rows = self._rows_of(whole) if len(whole) < len(numbers) else slice(None)
        sizes = np.diff(self.offsets)[whole]
        sums = [
            whole_sums(grades[rows], scores[rows], sizes, weights[whole], names, asked["gains"], loss) for grades in grades_of
        ]
        answer: Answer = {
            "sums": np.mean(sums, axis=0),
            "weight": math.fsum(weights[whole].tolist()),
            "rows": np.zeros(len(places), dtype=np.int64),
            "weights": np.zeros(len(places)),
            "scores": [], "grades": [], "irrelevant": [],
        }  # fmt: skip
        owners = dict(zip(numbers, range(len(numbers)), strict=True))
        for grades in grades_of:
            for k in range(len(places)):
                own = self._rows_of([owners[k]]) if k in owners else np.zeros(0, dtype=np.int64)
                relevant = own[grades[own] > 0]
                answer["scores"].append(scores[relevant])
                answer["grades"].append(grades[relevant])
                answer["irrelevant"].append(len(own) - len(relevant))
                answer["rows"][k] = len(own)
                answer["weights"][k] = weights[owners[k]] if k in owners else 0.0
        return answer

    def count_above(self, context: Context, asked: dict[str, Any], relevant: list[Floats]) -> Answer:
        """How many irrelevant samples score at least as high as, and higher than, the relevant ones of every scattered list."""
        scores, y = self._judged(asked), np.asarray(self.y, dtype=np.float64)
        owners, answer = {name: k for k, name in enumerate(self.called)}, {"above": list[Ints](), "higher": list[Ints]()}
        n_lists = len(asked["scattered"])
        for at, others in enumerate(relevant):
            name, grades = asked["scattered"][at % n_lists], views(y, asked)[at // n_lists]
            own = self._rows_of([owners[name]]) if name in owners else np.zeros(0, dtype=np.int64)
            above, higher = irrelevant_above(others, scores[own[grades[own] <= 0]])
            answer["above"].append(above)
            answer["higher"].append(higher)
        return answer

    def _rows_of(self, lists: Any) -> Ints:
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(self.offsets[k], self.offsets[k + 1]) for k in lists)])

    def _judged(self, asked: dict[str, Any]) -> Floats:
        """Scores in the order of the rows; kept for the next question."""
        weights = asked["weights"]
        if self._last is None or not np.array_equal(self._last[0], weights):
            X = with_columns(self.X, len(weights)) if is_sparse(self.X) else self.X
            self._last = (weights.copy(), times(X, weights, self.n_jobs) if len(self.y) else np.zeros(0))
        return self._last[1]

    # ---- what operations have in common --------------------------------------------------------------------------------------

    def _begun(self, lists: Lists, key: tuple[Any, ...], recipe: dict[str, Any]) -> _Working | None:
        """A new pass; None if scores are not finite. Those of negatives of the only list are made when they are looked at."""
        if not lists.is_one_part:
            scores, finite = self._combined(recipe)
            return _Working(key, scores) if finite else None
        ((_, part),) = lists.parts.items()
        roots = [self._roots[root] for root in recipe["roots"].tolist()]
        scores, own = self._score_room(len(roots[0])), part.positives
        made_of = recipe["coefficients"], [root[part.negatives] for root in roots]
        finite = _core.combine_scores(recipe["coefficients"], [root[own] for root in roots], scores[own])
        return _Working(key, scores, made_of, self._room(len(scores))) if finite else None

    def _one(self, lists: Lists, working: _Working, number: int, operation: str, args: tuple[Any, ...]) -> Answer:
        """One question about a scattered list."""
        part = lists.parts[number]
        if operation == "look":
            own = working.lists[number] = ListPart(thread_count(self.n_jobs))
            if working.made_of is not None and working.below is not None:
                negatives = Scores(*working.made_of, working.scores[part.negatives])
                below = working.below[part.negatives]
            else:
                negatives = Scores(_ONE, [np.ascontiguousarray(working.scores[part.negatives])], _EMPTY)
                below = np.empty(part.n_negatives)
            return {**own.look(negatives, below, *args), "positives": working.scores[part.positives].copy()}
        if operation in ("place", "place_equal"):
            working.above[number], args = args[-1], args[:-1]
        if operation not in ListPart.operations:
            raise ValueError(f"lists have no operation {operation!r}; is maxmargin on the workers the version of the client?")
        answer: Answer = getattr(working.lists[number], operation)(*args)
        return answer

    def _finished(
        self, lists: Lists, working: _Working, last: list[tuple[int, float]], loss_scale: float, with_whole: bool
    ) -> Found:
        """Whole lists, and the gradients of scattered ones."""
        if working.below is not None and working.lists:
            # What was written is the gradient but for the unit, which can wait: all that follows is linear.
            ((number, own),) = working.lists.items()
            unit, part, above = dict(last)[number], lists.parts[number], -working.above[number]
            if own.kept is None:
                working.below[part.positives] = above
                return Found(0.0, 0.0, working.below, unit)
            self._spare, some = working.below, np.flatnonzero(own.below)
            rows = np.concatenate([own.kept[some], np.arange(part.n_negatives, len(working.scores))])
            return Found(0.0, 0.0, np.concatenate([own.below[some], above]), unit, rows)
        found = (
            lists.solve(working.scores, loss_scale, self.n_jobs) if with_whole else Found(0.0, 0.0, np.zeros(len(working.scores)))
        )
        for number, factor in last:
            if number in working.lists:
                part, own = lists.parts[number], working.lists[number]
                negatives = part.negatives
                if own.kept is not None:
                    negatives = negatives.start + own.kept if isinstance(negatives, slice) else negatives[own.kept]
                found.gradient[negatives] += factor * own.below
                found.gradient[part.positives] -= factor * working.above[number]
        return found

    def _solved(self, context: Context, lists: Lists, recipe: dict[str, Any], loss_scale: float) -> Found:
        """Whole lists at the scores of a recipe."""
        key = self._key(context, recipe, loss_scale, None)
        found = self._found.get(key)
        if found is None:
            scores, finite = self._combined(recipe)
            if finite:
                found = lists.solve(scores, loss_scale, self.n_jobs)
            else:
                found = Found(np.nan, np.nan, np.full(len(scores), np.nan))  # for the client to see
            self._scratch = scores
            self._keep(key, found, _KEPT)
        return found

    @staticmethod
    def _key(context: Context, recipe: dict[str, Any], loss_scale: float, chosen: list[int] | None) -> tuple[Any, ...]:
        only = None if chosen is None else tuple(chosen)
        return context["key"], recipe["roots"].tobytes(), recipe["coefficients"].tobytes(), loss_scale, only

    def _keep(self, key: tuple[Any, ...], found: Found, most: int) -> None:
        old = [self._found.pop(key)] if key in self._found else []
        self._found[key] = found
        while len(self._found) > most:
            old.append(self._found.popitem(last=False)[1])
        self._spare = next((one.gradient for one in old if one.rows is None), self._spare)

    def _room(self, size: int) -> Floats:
        """Memory for a gradient, of one that is not needed any more if there is one: fresh pages cost as much as a pass."""
        spare, self._spare = self._spare, None
        return np.empty(size) if spare is None or len(spare) != size else spare

    def _score_room(self, size: int) -> Floats:
        """Memory for scores, in the same way."""
        scores, self._scratch = self._scratch, None
        return np.empty(size) if scores is None or len(scores) != size else scores

    def _told(self, found: Found, recipe: dict[str, Any]) -> Answer:
        threads = thread_count(self.n_jobs)
        roots = [self._roots[root] for root in recipe["roots"].tolist()]
        if found.rows is not None:
            roots = [root[found.rows] for root in roots]
        dots = found.unit * _core.compensated_dots(found.gradient, roots, threads)
        return {"hinge": found.hinge, "loss": found.loss, "dots": dots}

    def _register(self, lists: Lists, recipe: dict[str, Any]) -> None:
        """Make roots that were sent, and drop those that nobody needs any more."""
        for root in recipe.get("drop", ()):
            self._roots.pop(int(root), None)
        for root, weights in recipe.get("new", {}).items():
            if root not in self._roots:
                self._roots[root] = lists.root(weights, self.n_jobs)
        lacking = [root for root in recipe["roots"].tolist() if root not in self._roots]
        if lacking:
            raise MissingError(lacking)
        for root in recipe["roots"].tolist():
            self._roots[root] = self._roots.pop(root)  # the ones used last are at the end
        while len(self._roots) > max(_MOST_ROOTS, len(recipe["roots"])):
            del self._roots[next(iter(self._roots))]

    def _combined(self, recipe: dict[str, Any]) -> tuple[Floats, bool]:
        """Scores, and whether all of them are finite."""
        roots = [self._roots[root] for root in recipe["roots"].tolist()]
        scores = self._score_room(len(roots[0]))
        finite = _core.combine_scores(recipe["coefficients"], roots, scores, thread_count(self.n_jobs))
        return scores, finite


def _ends(sizes: Ints) -> Ints:
    """Offsets of lists of some sizes, the first of them 0."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
