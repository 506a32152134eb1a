"""The fastest problem for a structure and data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from maxmargin.problem import Problem
from maxmargin.problems.graph import GraphProblem
from maxmargin.problems.labelings import ChainProblem, TreeProblem
from maxmargin.problems.multiclass import MulticlassProblem
from maxmargin.problems.ranking import RankingProblem
from maxmargin.problems.structured import StructuredProblem
from maxmargin.structures import (
    ChainStructure,
    ClassStructure,
    GraphStructure,
    RankingStructure,
    RelaxedGraphStructure,
    Structure,
    TreeStructure,
)
from maxmargin.structures.base import built_in, encoded
from maxmargin.structures.rows import stack
from maxmargin.surrogates import Margin, Surrogate, make_surrogate


def make_problem(structure: Structure, X: Sequence[Any], Y: Sequence[Any], surrogate: str | Surrogate = "margin") -> Problem:
    """The problem of inputs X with true outputs Y: a fast one for a built-in structure, the general one for any other.

    A structure of which somebody has replaced a method is not built in: its own methods are asked. Fast problems are for
    margin rescaling.

    Examples
    --------
    >>> from maxmargin.structures import ClassStructure
    >>> make_problem(ClassStructure(2, 1), [[1.0], [-1.0]], [1, 0]).mean_cut(np.zeros(2))
    Cut(psi=array([-1.,  1.]), loss=1.0, bound=None)
    """
    fast = _FAST.get(built_in(structure)) if isinstance(structure, Structure) else None
    chosen = make_surrogate(surrogate)
    if type(chosen) is not Margin or fast is None or len(X) != len(Y) or len(X) == 0:
        return StructuredProblem(structure, X, Y, chosen)
    samples = [encoded(structure, k, x, y) for k, (x, y) in enumerate(zip(X, Y, strict=True))]
    return fast(structure, [x for x, _ in samples], [y for _, y in samples])


def _classes(structure: Any, xs: list[Any], ys: list[Any]) -> Problem:
    return MulticlassProblem(stack(xs), np.array(ys, dtype=np.int64), structure.n_classes, structure.costs)


def _labelings(structure: Any, xs: list[Any], ys: list[Any]) -> Problem:
    X, forests = structure.gather(xs)
    y, K = np.concatenate(ys), structure.n_labels
    if forests.parent is None:
        return ChainProblem(X, y, forests.offsets, K, normalize=structure.normalize)
    return TreeProblem(X, y, forests.offsets, forests.parent, K, normalize=structure.normalize)


def _lists(structure: Any, xs: list[Any], ys: list[Any]) -> Problem:
    offsets = np.concatenate([[0], np.cumsum([x.shape[0] for x in xs])])
    return RankingProblem(stack(xs), np.concatenate([y.relevant for y in ys]), structure.rank_loss, offsets)


def _graphs(structure: Any, xs: list[Any], ys: list[Any], relaxed: bool) -> Problem:
    own = structure.n_labels, structure.pairwise, structure.costs
    return GraphProblem(xs, ys, *own, relaxed, normalize=structure.normalize)


_FAST: dict[Any, Callable[[Any, list[Any], list[Any]], Problem]] = {
    ClassStructure: _classes,
    ChainStructure: _labelings,
    TreeStructure: _labelings,
    GraphStructure: lambda own, xs, ys: _graphs(own, xs, ys, False),
    RelaxedGraphStructure: lambda own, xs, ys: _graphs(own, xs, ys, True),
    RankingStructure: _lists,
}
