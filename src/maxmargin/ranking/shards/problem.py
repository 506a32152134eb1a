"""Rankings whose rows are spread over shards: the hinge of a rank loss, scores that stay where the rows are, exact cuts."""

from __future__ import annotations

import math
import secrets
import weakref
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from maxmargin._utils import Floats
from maxmargin.core import Cut, Tangent, fingerprint
from maxmargin.distributed import MOST_REPEATS, Conversation, Engine, ShardedProblem, ShardError, all_labels, n_columns, tree_sum
from maxmargin.ranking import NDCG, RankingLoss, ranking_loss
from maxmargin.ranking.shards.handles import Gradient, Point, Root, Scores
from maxmargin.ranking.shards.list_inference import ScatteredList, ScatteredRanking
from maxmargin.ranking.shards.split_list import Block, Questions, rank_all, scattered_blocks, scattered_names

# As for estimators: with grades every one is a problem of its own.
_MOST_GRADES = 1000


class ShardedRanking(ShardedProblem):
    """The mean hinge of the lists of all shards, as :class:`~maxmargin.ranking.RankingProblem` has it on one machine.

    Solvers get handles in place of scores: ``scores`` registers weights, ``tangent`` asks the shards for hinges at a combination
    of registered ones, and ``features`` for the gradient as a sum of rows. Neither scores nor gradients nor rows leave a shard.

    Parameters
    ----------
    engine : Engine
        Of shards of the kind "ranking".
    loss : str or RankingLoss
        One that has no name must have been given to the sources too.
    relevance_threshold : float, optional
        Labels above it are relevant; by default those above zero, or above the lowest of all shards if that is greater.
    grades : bool or {"linear", "exponential"}
        As in :class:`maxmargin.RankingSVM`.
    scale : array of shape (d,), optional
        Features are as if divided by these numbers, such as those of :func:`~maxmargin.distributed.feature_scaling`: weights and
        sums of rows are divided here, and rows stay as they are. What one would take off a feature makes no difference to any
        ranking.

    Attributes
    ----------
    thresholds : array of shape (levels,)
        Labels above each of them are relevant in turn.
    n_skipped : int
        Lists without any block: every ranking of them is right.
    total_weight : float
        Of all blocks.
    n_roots : int
        Weights that are registered and in use.

    Examples
    --------
    >>> from maxmargin.distributed import LocalEngine, ShardOf, split_rows
    >>> from maxmargin.core.solvers import OneSlackCuttingPlane
    >>> rng = np.random.default_rng(0)
    >>> X, qid = rng.normal(size=(60, 3)), np.repeat(np.arange(10), 6)
    >>> y = X[:, 0] + rng.normal(size=60) > 1
    >>> engine = LocalEngine([ShardOf(rows, "ranking") for rows in split_rows(X, y, 3, qid)])
    >>> problem = ShardedRanking(engine, "ap")
    >>> found = OneSlackCuttingPlane().solve(problem, 0.01)
    >>> found.certified, problem.n_blocks, problem.n_skipped, [len(part.y) for part in split_rows(X, y, 3, qid)]
    (True, 9, 1, [24, 18, 18])
    """

    def __init__(
        self,
        engine: Engine,
        loss: str | RankingLoss = "ap",
        *,
        relevance_threshold: float | None = None,
        grades: bool | Literal["linear", "exponential"] = False,
        scale: ArrayLike | None = None,
    ) -> None:
        self.loss = ranking_loss(loss)
        shards = Conversation(engine)
        task = self._task(shards, relevance_threshold, grades)
        self.thresholds: Floats = task["thresholds"]
        shards.set_task(task)
        found = shards.ask("prepare")
        super().__init__(shards, [int(answer["n_blocks"]) for answer in found])
        self.scattered, n_skipped = scattered_blocks(self.loss, found, task)
        self.n_blocks += len(self.scattered)
        self.n_features = int(task["n_features"])
        self.scale = None if scale is None else _check_scale(scale, self.n_features)
        self.n_skipped = n_skipped + sum(int(answer["n_skipped"]) for answer in found)
        self.total_weight = math.fsum(
            [*(float(answer["total_weight"]) for answer in found), *(block.weight for block in self.scattered)]
        )
        self._refuse_nothing(found)
        # From where no other problem on these shards counts.
        self._numbers = count(secrets.randbits(62))
        self._roots: weakref.WeakValueDictionary[int, Root] = weakref.WeakValueDictionary()

    # ---- what the shards are told -----------------------------------------------------------------------------------------

    def _task(self, shards: Conversation, threshold: float | None, grades: Any) -> dict[str, Any]:
        if grades not in (False, True, "linear", "exponential"):
            raise ValueError(f"grades={grades!r} must be True, False, 'linear' or 'exponential'")
        if threshold is not None and (grades or not math.isfinite(threshold)):
            problem = (
                "is not for grades, which are all thresholds; leave it out" if grades else "must be a finite number, or None"
            )
            raise ValueError(f"relevance_threshold={threshold!r} {problem}")
        filled = [info for info in shards.infos if info["rows"]]
        if not filled:
            raise ValueError(f"the {shards.n_shards} shards hold no data; at least one needs rows")
        task = {
            "loss": self.loss.native_name() or "",
            "n_features": n_columns(shards.infos, shards.engine),
            "scattered": scattered_names(shards, filled),
        }
        if not grades:
            lowest = max(0.0, min(float(info["lowest"]) for info in filled))
            return {**task, "thresholds": np.array([lowest if threshold is None else float(threshold)])}
        levels = all_labels(shards, _MOST_GRADES)
        if levels is None:
            raise ValueError(
                f"grades={grades!r} trains for every distinct label, and y has more than {_MOST_GRADES}; round y to a few "
                "grades, or give relevance_threshold"
            )
        levels = np.asarray(levels, dtype=np.float64)
        task["thresholds"] = levels[:-1] if len(levels) > 1 else levels
        if grades is True:
            return task
        if not (isinstance(self.loss, NDCG) and task["loss"]):
            raise ValueError(f"grades={grades!r} are the gains of NDCG, and {self.loss!r} knows none; use loss='ndcg', or True")
        return {**task, "gains": grades, "levels": levels}

    def _refuse_nothing(self, found: list[dict[str, Any]]) -> None:
        """Complain where there is nothing to learn."""
        if self.n_blocks == 0:
            filled = [info for info in self.shards.infos if info["rows"]]
            rows, relevant = sum(int(info["rows"]) for info in filled), sum(int(answer["n_relevant"]) for answer in found)
            lowest, highest = min(info["lowest"] for info in filled), max(info["highest"] for info in filled)
            problem, remedy = ", but holds only one class", "mark relevant samples by 1, others by 0, or set relevance_threshold"
            if relevant not in (0, rows):
                problem, remedy = " of the same query, but no query has both", "check qid"
            raise ValueError(
                f"y must contain relevant and irrelevant samples{problem} (labels are from {lowest:g} to {highest:g}, and those "
                f"above {self.thresholds[0]:g} are relevant); {remedy}"
            )
        if not self.total_weight > 0:
            raise ValueError("the weight is zero for every query with relevant and irrelevant samples; one must count")

    # ---- cuts -------------------------------------------------------------------------------------------------------------

    @property
    def n_roots(self) -> int:
        """Weights that are registered and in use."""
        return len(self._roots)

    def scores(self, weights: Floats) -> Scores:
        """A handle; the shards compute nothing before it is used."""
        return Scores({self._register(weights): 1.0}, self._register)

    def tangent(self, scores: Scores, loss_scale: float = 1.0) -> Tangent:
        """The mean hinge at scores; in one round, where no list lies in several shards, else in three or four."""
        found, rankings = self._pass(scores, loss_scale, None)
        for block, ranking in zip(self.scattered, rankings, strict=True):
            block.ranking = ranking
        return found

    def features(self, coefficients: Gradient) -> Floats:
        """The gradient as a sum of rows, shape (d,); in one round, the first time."""
        return coefficients.psi()

    def mean_cut(self, weights: Floats) -> Cut:
        """The average over all blocks; what later passes begin with is not changed by it."""
        found, _ = self._pass(self.scores(weights), 1.0, None)
        return Cut(-self.features(found.gradient), found.loss)

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """Cuts of some blocks; those of scattered lists come after all others."""
        n_whole = self.n_blocks - len(self.scattered)
        whole = [block for block in blocks if block < n_whole]
        found_whole = super().cuts(whole, self.unscaled(weights)) if whole else []
        known = {block: Cut(self.unscaled(cut.psi), cut.loss, cut.bound) for block, cut in zip(whole, found_whole, strict=True)}
        scores = self.scores(weights)
        for block in set(blocks) - known.keys():
            found, _ = self._pass(scores, 1.0, [int(block) - n_whole])
            n = self.n_blocks
            known[block] = Cut(-n * self.features(found.gradient), n * found.loss)
        return [known[block] for block in blocks]

    def cut(self, block: int, weights: Floats) -> Cut:
        """The cut of one block."""
        return self.cuts([block], weights)[0]

    def unscaled(self, values: Any) -> Any:
        """Divided by the scales of features, if there are any: weights for rows as they are, or sums of rows as if scaled."""
        return values if self.scale is None else values / self.scale

    def fingerprint(self) -> bytes | None:
        """Of data and task, and of the scales."""
        found = super().fingerprint()
        return found if found is None or self.scale is None else fingerprint(found, self.scale)

    def pack_scores(self, scores: Scores) -> dict[str, Any]:
        """The recipe of scores, with the weights of its roots; for files."""
        roots = sorted(scores.terms, key=lambda root: root.number)
        guesses = {f"buckets.{k}": block.ranking.guess() for k, block in enumerate(self.scattered)}
        return {
            "roots.weights": np.array([root.weights for root in roots]),
            "roots.coefficients": np.array([scores.terms[root] for root in roots]),
            **guesses,
        }

    def check_packed_scores(self, arrays: dict[str, Any]) -> None:
        """Complain about arrays that :meth:`pack_scores` cannot have returned."""
        if any(not ScatteredList.is_guess(array) for name, array in arrays.items() if name.startswith("buckets.")):
            raise ValueError("its buckets are none")
        weights, coefficients = arrays["roots.weights"], arrays["roots.coefficients"]
        sound = weights.ndim == 2 and weights.shape[1] == self.n_features and coefficients.shape == weights.shape[:1]
        if not sound or not len(weights) or not np.isfinite(weights).all() or not np.isfinite(coefficients).all():
            raise ValueError("its roots are not weights")

    def unpack_scores(self, psi: Floats, arrays: dict[str, Any]) -> tuple[Scores, Gradient]:
        """The way back; and the gradient there, of which it is known that it has the features ``-psi``."""
        parts = zip(arrays["roots.weights"], arrays["roots.coefficients"].tolist(), strict=True)
        scores = Scores({self._register(weights): coefficient for weights, coefficient in parts}, self._register)
        for k, block in enumerate(self.scattered):
            # Of other shards other lists are scattered; a guess that fits badly costs a round.
            if (guess := arrays.get(f"buckets.{k}")) is not None:
                block.ranking.begin_with(guess)
        point = Point(scores, {}, [])
        point.psi = -psi
        return scores, Gradient(point, self._features_at)

    def _pass(
        self, scores: Scores, loss_scale: float, chosen: list[int] | None, starts: list[ScatteredList] | None = None
    ) -> tuple[Tangent, list[ScatteredList]]:
        """The tangent at scores, of all blocks or of some scattered ones; and what scattered lists can begin with next time.

        This time they begin with what they know, or with ``starts``.
        """
        n, blocks = self.n_blocks, self.scattered if chosen is None else [self.scattered[k] for k in chosen]
        begun = [block.ranking for block in blocks] if starts is None else starts

        def work() -> tuple[list[dict[str, Any]], list[ScatteredRanking], list[ScatteredList]]:
            return (
                self._scattered_pass(scores, loss_scale, chosen, blocks, begun)
                if blocks
                else (self._look(scores, loss_scale), [], [])
            )

        found, ranked, rankings = self.shards.whole(work)
        dots = [math.fsum(parts) / n for parts in zip(*(answer["dots"].tolist() for answer in found), strict=True)]
        losses = [float(answer["loss"]) for answer in found]
        losses += [block.weight * one.loss for block, one in zip(blocks, ranked, strict=True)]
        hinges = [float(answer["hinge"]) for answer in found]
        hinges += [block.weight * one.hinge for block, one in zip(blocks, ranked, strict=True)]
        known = dict(zip(scores.recipe()["roots"].tolist(), dots, strict=True))
        point = Point(Scores(dict(scores.terms), self._register), known, losses, (loss_scale, chosen, begun))
        return Tangent(math.fsum(hinges) / n, math.fsum(losses) / n, Gradient(point, self._features_at)), rankings

    def _look(self, scores: Scores, loss_scale: float) -> list[dict[str, Any]]:
        return self._ask("look", scores, lambda shard: (loss_scale,))

    def _scattered_pass(
        self, scores: Scores, loss_scale: float, chosen: list[int] | None, blocks: list[Block], starts: list[ScatteredList]
    ) -> tuple[list[dict[str, Any]], list[ScatteredRanking], list[ScatteredList]]:
        numbers = None if chosen is None else [block.number for block in blocks]
        units = [(block.number, block.weight * block.ranking.unit) for block in blocks]
        begun: set[int] = set()
        ends: list[dict[str, Any]] = []

        def ask(questions: Questions, last: bool) -> dict[int, list[dict[str, Any]]]:
            asked = list(questions)

            def rest(shard: int) -> tuple[Any, ...]:
                return loss_scale, numbers, questions[shard], shard not in begun, units if last else None

            found = self._ask("step", scores, rest, asked)
            begun.update(asked)
            if last:
                ends.extend(found)
            return {shard: answer["answers"] for shard, answer in zip(asked, found, strict=True)}

        ranked, rankings = rank_all(blocks, starts, ask, self.shards.n_shards, loss_scale)
        return ends, ranked, rankings

    def _features_at(self, point: Point) -> Floats:
        loss_scale, chosen, starts = point.extra
        numbers = None if chosen is None else [self.scattered[k].number for k in chosen]
        losses = point.losses
        for _ in range(MOST_REPEATS):
            found = self._ask("features", point.scores, lambda shard: (loss_scale, numbers))
            if not any("lost" in answer for answer in found):
                break
            # What scattered lists have to do with each other is known after a pass over all shards only. It begins with what the
            # first one began with: by another way sums of the same gradient may differ in their last bits.
            self.shards.repeats += 1
            tangent, _ = self._pass(point.scores, loss_scale, chosen, starts)
            losses = tangent.gradient.point.losses
        else:
            raise ShardError(
                f"a shard was lost {MOST_REPEATS} times between a pass and its cut; look after the workers, and start again from "
                "the checkpoint"
            )
        for k, (answer, loss) in enumerate(zip(found, losses, strict=False)):
            if answer.get("loss") != loss or losses != point.losses:
                # Of another ranking, as good as the first but for rounding: with the loss of that one it would be no cut.
                raise self._changed(k)
        total: Floats = self.unscaled(tree_sum([answer["psi"] for answer in found]) / self.n_blocks)
        return total

    def _changed(self, shard: int) -> ShardError:
        return ShardError(
            f"shard {shard} ({self.engine.describe(shard)}) was made anew on a machine whose sums differ in their last bits, in "
            "the middle of a step; start again from the checkpoint, or use machines of one kind"
        )

    def _ask(
        self, operation: str, scores: Scores, rest: Callable[[int], tuple[Any, ...]], only: Sequence[int] | None = None
    ) -> list[dict[str, Any]]:
        """An operation at some scores, which every shard gets what it lacks for."""
        recipe = scores.recipe()
        weights = {root.number: root.weights for root in scores.terms}
        alive = set(self._roots)

        @cache
        def registered(number: int) -> Floats:
            return np.asarray(self.unscaled(weights[number]))

        def message(shard: int) -> tuple[Any, ...]:
            held = self.shards.roots[shard]
            new = {number: registered(number) for number in sorted(weights.keys() - held)}
            dead = sorted(held - alive)
            return {**recipe, "new": new, "drop": np.array(dead, dtype=np.int64)}, *rest(shard)

        found = self.shards.ask(operation, message, only)
        asked = range(self.shards.n_shards) if only is None else only
        for shard in asked:
            held = self.shards.roots[shard]
            held &= alive
            held.update(weights)
        return found

    def _register(self, weights: Floats) -> Root:
        root = Root(next(self._numbers), np.array(weights, dtype=np.float64))
        self._roots[root.number] = root
        return root


def _check_scale(scale: ArrayLike, n_features: int) -> Floats:
    values = np.asarray(scale, dtype=np.float64)
    if values.shape != (n_features,) or not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"scale has shape {values.shape}; give a positive, finite number for each of the {n_features} features")
    return values
