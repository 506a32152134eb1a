"""Labeling of sequences by a chain-structured SVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from maxmargin.estimators.labelings import LABELING, LabelingSVM
from maxmargin.structures.forest import CHAINS


class ChainSVM(LabelingSVM):
    """Structured SVM for sequences: emissions, first and last labels, transitions; Hamming loss per position.

    A data set is a list with one entry per sequence: an array or a sparse matrix of shape (L, p), or a list of L
    dictionaries of features as CRF packages take them; sparse matrices and dictionaries stay sparse. Labels are a list of
    sequences of length L, of numbers or strings.

    Parameters
    ----------
    C : float, default=1.0
        Weight of the hinges, one per sequence.
    normalize : bool, default=True
        Divide the loss of a sequence by its length.
    fit_intercept : bool, default=True
        Add a constant feature to every position.
    bounds, solver, tol, max_iter, time_limit, warm_start, random_state, verbose, callback
        As in :class:`maxmargin.estimators.Estimator`.

    Attributes
    ----------
    classes_ : array of shape (K,)
    coef_ : array of shape (K, p)
    intercept_, first_, last_ : arrays of shape (K,)
    transition_ : array of shape (K, K)
        Score of the row's label followed by the column's.
    n_features_in_, feature_names_in_
        Number of features and, if they come as dictionaries, their names, in the order of the columns of ``coef_``.
    primal_objective_, dual_objective_, dual_gap_, oracle_gap_, certified_, n_iter_, history_
        The certificate; see :class:`maxmargin.estimators.Estimator`.

    Examples
    --------
    Labels that repeat the sign of the input, unless it is unclear:

    >>> import numpy as np
    >>> X = [np.array([[1.0], [0.9], [-0.1], [-1.0]]), np.array([[-1.0], [0.1], [1.0]])]
    >>> y = [["up", "up", "down", "down"], ["down", "up", "up"]]
    >>> model = ChainSVM(C=10).fit(X, y)
    >>> [list(map(str, labels)) for labels in model.predict([np.array([[0.8], [-0.9]])])]
    [['up', 'down']]
    """

    words = CHAINS
    ends = ("first_", "last_")
    holds: ClassVar[Mapping[str, Any]] = {**LABELING, **dict.fromkeys(ends, ("classes",))}

    def _blocks(self, X: Sequence[Any]) -> tuple[list[Any], list[NDArray[Any]] | None]:
        return list(X), None
