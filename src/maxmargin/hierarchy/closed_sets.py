"""The best set of labels of a hierarchy, given a score for every node: a dynamic program on trees, HiGHS on other graphs.

A set is closed: whoever is in it has all its ancestors in it; it holds the root, and ends only where it may, at leaves or also at
inner nodes. Its score is the sum over its nodes.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from maxmargin._utils import Floats
from maxmargin.hierarchy.hierarchy import Hierarchy

Bools = NDArray[np.bool_]


class Program(NamedTuple):
    """What HiGHS found: a set, perhaps in fractions, its score, and an upper bound of the score of any set."""

    z: Floats
    value: float
    upper: float

    @property
    def fractional(self) -> bool:
        """Whether it is no set, but an average of several."""
        return bool((np.abs(self.z - np.round(self.z)) > 1e-6).any())


class LabelSets:
    """Closed sets of the nodes of a hierarchy that end at some of its nodes.

    Parameters
    ----------
    hierarchy : Hierarchy
    ends : bool array of shape (M,), optional
        Where a set may end; leaves by default.

    Examples
    --------
    >>> sets = LabelSets(Hierarchy.from_parents([-1, 0, 0, 1, 1]))
    >>> sets.best(np.array([[0.0, -1.0, -0.5, 2.0, 0.5]])).astype(int)
    array([[1, 1, 0, 1, 1]])
    """

    def __init__(self, hierarchy: Hierarchy, ends: Bools | None = None) -> None:
        self.hierarchy = hierarchy
        leaf = np.zeros(len(hierarchy), dtype=bool)
        leaf[hierarchy.leaves] = True
        self.ends = leaf if ends is None else np.asarray(ends, dtype=bool) | leaf

    def best(self, scores: Floats) -> Bools:
        """The best set for every row of node scores, shape (n, M); exact."""
        scores = self.hierarchy.check_per_node(np.atleast_2d(scores), "scores")
        if not self.hierarchy.is_tree:
            return np.array([np.round(self.solve(row).z) > 0.5 for row in scores])
        best, picked = np.array(scores, dtype=np.float64), np.zeros(scores.shape, dtype=bool)
        for node in range(len(self.hierarchy) - 1, -1, -1):
            children = self.hierarchy.children[node]
            if len(children):
                own = best[:, children]
                chosen = own > 0
                if not self.ends[node]:
                    # Someone must be below.
                    none = ~chosen.any(axis=1)
                    chosen[none, np.argmax(own[none], axis=1)] = True
                picked[:, children] = chosen
                best[:, node] += np.where(chosen, own, 0.0).sum(axis=1)
        picked[:, 0] = True
        parent = self.hierarchy.parent
        for node in range(1, len(self.hierarchy)):
            picked[:, node] &= picked[:, parent[node]]
        return picked

    def k_best(self, scores: Floats, k: int) -> list[tuple[float, Bools]]:
        """The k best sets for one row of node scores, distinct, best first, with their scores.

        On a tree lists of children are combined; elsewhere, where two children may have the same one below them, by one integer
        program after the other, each without the sets that were found.
        """
        return self._k_best_of_tree(scores, k) if self.hierarchy.is_tree else self._k_best_of_graph(scores, k)

    def _k_best_of_graph(self, scores: Floats, k: int) -> list[tuple[float, Bools]]:
        answers: list[tuple[float, Bools]] = []
        while len(answers) < k:
            # At least one node must be different: z counts where the set has none, 1 - z where it has one.
            known = np.array([chosen for _, chosen in answers], dtype=np.float64).reshape(-1, len(self.hierarchy))
            more: dict[str, Any] = {"rows": 1.0 - 2.0 * known, "low": 1.0 - known.sum(axis=1), "high": np.inf} if answers else {}
            found = self.solve(scores, **more)
            if found is None:
                break
            answers.append((found.value, found.z > 0.5))
        return answers

    def _k_best_of_tree(self, scores: Floats, k: int) -> list[tuple[float, Bools]]:
        lists: list[list[tuple[float, tuple[int, ...]]]] = [[] for _ in self.hierarchy.nodes]
        for node in range(len(self.hierarchy) - 1, -1, -1):
            # Combinations of children so far: the empty one first, to be dropped in the end where nobody may end.
            found: list[tuple[float, tuple[int, ...]]] = [(0.0, ())]
            for child in self.hierarchy.children[node]:
                options = sorted([(0.0, ()), *lists[child]], key=lambda pair: -pair[0])
                pairs = ((a + b, p + q) for (a, p), (b, q) in itertools.product(found, options))
                # One more than k: the empty one may go.
                found = heapq.nlargest(k + 1, pairs, key=lambda pair: pair[0])
            if not self.ends[node]:
                found = [pair for pair in found if pair[1]]
            lists[node] = [(value + float(scores[node]), (node, *below)) for value, below in found[:k]]
        answers = []
        for value, members in lists[0]:
            chosen = np.zeros(len(self.hierarchy), dtype=bool)
            chosen[list(members)] = True
            answers.append((value, chosen))
        return answers

    def solve(self, scores: Floats, *, relaxed: bool = False, rows: Any = None, low: Any = None, high: Any = None) -> Any:
        """The best set by an integer program, or by its relaxation; with more constraints ``low <= rows z <= high`` if given.

        (6.22) of the source, corrected (E26): the largest value, "someone below" for inner nodes only, and the root is in, which
        excludes the empty set and makes the relaxation integral on trees. None if the constraints leave no set.
        """
        m = len(self.hierarchy)
        matrix, limits = self._constraints
        constraints = [LinearConstraint(matrix, limits, np.inf)]
        if rows is not None:
            constraints.append(LinearConstraint(np.atleast_2d(rows), low, high))
        least = np.zeros(m)
        least[0] = 1.0
        found = milp(
            -np.asarray(scores, dtype=np.float64),
            integrality=np.full(m, 0 if relaxed else 1),
            bounds=Bounds(least, 1),
            constraints=constraints,
            # Without this HiGHS is content with one in ten thousand.
            options={"mip_rel_gap": 0.0},
        )
        if found.x is None:
            return None
        z = np.clip(found.x, 0.0, 1.0) if relaxed else np.round(found.x)
        value = float(z @ scores)
        bound = -found.mip_dual_bound if not relaxed and found.mip_dual_bound is not None else value
        return Program(z, value, max(value, float(bound)))

    @cached_property
    def _constraints(self) -> tuple[Any, Floats]:
        above, below = self.hierarchy.edges.T
        m, e = len(self.hierarchy), len(above)
        at = np.arange(e)
        with_parents = sparse.csr_array((np.ones(e), (at, above)), shape=(e, m)) - sparse.csr_array(
            (np.ones(e), (at, below)), shape=(e, m)
        )
        inner = np.flatnonzero(~self.ends)
        below_of: Any = sparse.csr_array((np.ones(e), (above, below)), shape=(m, m)) - sparse.eye_array(m)
        matrix: Any = sparse.vstack([with_parents, sparse.csr_array(below_of)[inner]], format="csr")
        # HiGHS of scipy before 1.15 takes no others.
        matrix.indices, matrix.indptr = matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)
        return matrix, np.zeros(matrix.shape[0])

    def all(self) -> Iterator[Bools]:
        """Every set, one by one: for hierarchies of up to about twenty nodes."""
        free = np.arange(1, len(self.hierarchy))
        if len(free) > 20:
            raise ValueError(f"{len(free) + 1} nodes have too many sets to list; 21 are the most")
        above, below = self.hierarchy.edges.T
        for code in range(1 << len(free)):
            chosen = np.ones(len(self.hierarchy), dtype=bool)
            chosen[free] = (code >> np.arange(len(free))) & 1
            if (chosen[above] | ~chosen[below]).all() and (
                ~chosen | self.ends | np.isin(np.arange(len(chosen)), above[chosen[below]])
            ).all():
                yield chosen
