"""Labeling of the nodes of trees by a tree-structured SVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from maxmargin.estimators.labelings import LABELING, LabelingSVM
from maxmargin.structures.forest import TREES


class TreeSVM(LabelingSVM):
    """Structured SVM for trees: emissions, labels of roots and leaves, pairs of parent and child; Hamming loss per node.

    A data set is a list of :class:`maxmargin.structures.Tree`, or of pairs ``(features, parent)``: an array or a sparse matrix
    of shape (L, p), or a list of L dictionaries, and for every node the number of its parent, which comes before it, or -1
    for a root; there may be several roots. Labels are a list of sequences of length L, of numbers or strings.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per tree.
    normalize : bool, default=True
        Divide the loss of a tree by its number of nodes.
    fit_intercept : bool, default=True
        Add a constant feature to every node.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
    intercept_, root_, leaf_ : arrays of shape (K,)
        A node that is a root and a leaf gets both.
    transition_ : array of shape (K, K)
        Score of the row's label at the parent and the column's at the child.
    n_features_in_, feature_names_in_
        Number of features and, if they come as dictionaries, their names, in the order of the columns of ``coef_``.
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.estimators.Estimator`.

    Examples
    --------
    Children that agree with their parent, unless the input says otherwise:

    >>> import numpy as np
    >>> from maxmargin.structures import Tree
    >>> X = [Tree(np.array([[1.0], [0.8], [-0.1]]), [-1, 0, 0]), Tree(np.array([[-1.0], [0.1], [1.0], [-0.9]]), [-1, 0, 0, 1])]
    >>> y = [["yes", "yes", "yes"], ["no", "no", "yes", "no"]]
    >>> model = TreeSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([Tree(np.array([[0.7], [-0.05], [-1.0]]), [-1, 0, 0])])]
    [['yes', 'yes', 'no']]
    """

    words = TREES
    ends = ("root_", "leaf_")
    holds: ClassVar[Mapping[str, Any]] = {**LABELING, **dict.fromkeys(ends, ("classes",))}

    def _blocks(self, X: Sequence[Any]) -> tuple[list[Any], list[NDArray[Any]] | None]:
        features, parents = [], []
        for k, tree in enumerate(X):
            if not isinstance(tree, tuple | list) or len(tree) != 2:
                raise ValueError(f"tree {k} of X must be a pair (features, parent), such as maxmargin.structures.Tree")
            parent = np.asarray(tree[1])
            if parent.size and parent.dtype.kind not in "iu":
                raise TypeError(f"parents of tree {k} of X must be integers, -1 for a root, but have dtype {parent.dtype}")
            features.append(tree[0])
            parents.append(parent)
        return features, parents
