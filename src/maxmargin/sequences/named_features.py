"""Features with names as a sparse matrix: one pass over dictionaries, in compiled code.

What a dictionary says follows :class:`sklearn.feature_extraction.DictVectorizer`: a number is the value of the feature of that
name, text is an indicator of ``name=text``, and a list of text one of each. A list of names will do as well, as CRF packages take
it: each is an indicator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Ints


class FeatureNames:
    """Names of features, and the column that each stands for.

    Parameters
    ----------
    names : iterable of str
        Names that are known already, in the order of their columns.

    Examples
    --------
    >>> names = FeatureNames()
    >>> rows, offsets = names.encode([[{"word": "dog", "length": 3.0}], [["word=dog", "new"], {}]], growing=True)
    >>> rows.toarray(), offsets
    (array([[1., 3., 0.],
           [1., 0., 1.],
           [0., 0., 0.]]), array([0, 1, 3]))
    >>> names.array().tolist()
    ['word=dog', 'length', 'new']
    >>> names.encode([[{"word": "cat", "length": 2.0}]])[0].toarray()         # what is not known counts for nothing
    array([[0., 2., 0.]])
    """

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._vocabulary = _core.Vocabulary()
        for k, name in enumerate(names):
            if self._vocabulary.add(name) != k:
                raise ValueError(f"feature {name!r} is there twice; names must be different")

    def __len__(self) -> int:
        return len(self._vocabulary)

    def array(self) -> NDArray[Any]:
        """All names, an array of objects of shape (p,)."""
        found = np.empty(len(self), dtype=object)
        found[:] = self._vocabulary.names()
        return found

    def encode(self, blocks: Iterable[Any], *, growing: bool = False, constant: bool = False) -> tuple[Any, Ints]:
        """Rows of all blocks below each other, and where each block begins.

        Parameters
        ----------
        blocks : iterable of iterables
            Every block has rows, dictionaries or lists of names. Each is looked at once, in order, and may be made on the spot.
        growing : bool
            Give columns to names that have none, in the order in which they come; otherwise they are left out.
        constant : bool
            Add a column of ones, the last.

        Returns
        -------
        X : CSR array of shape (rows, p) or (rows, p + 1)
            Of booleans where all values are 1, which take an eighth of the memory; of float64 elsewhere.
        offsets : int array of shape (blocks + 1,)

        Raises
        ------
        TypeError
            Its text begins with the number of the block.
        """
        values, columns, begin, offsets = self._vocabulary.encode(blocks, growing, constant)
        data: NDArray[Any] = np.ones(len(columns), dtype=np.bool_) if values is None else values
        # scipy has one type for both, and would copy the columns into that of 64 bits.
        starts: NDArray[Any] = begin.astype(np.int32) if len(columns) <= np.iinfo(np.int32).max else begin
        matrix: Any = sparse.csr_array((data, columns, starts), shape=(len(starts) - 1, len(self) + constant))
        # Rows are made so.
        matrix.has_sorted_indices = matrix.has_canonical_format = True
        return matrix, offsets.astype(np.int64)


def are_named(rows: Any) -> bool:
    """Whether the rows of a block are dictionaries or lists of names, not numbers.

    >>> are_named([{"a": 1}]), are_named([["a"], []]), are_named([[1.0]])
    (True, True, False)
    """
    if not isinstance(rows, list | tuple) and not (isinstance(rows, np.ndarray) and rows.dtype == object):
        return False
    kinds = {_is_named(row) for row in rows}
    return True in kinds and False not in kinds


def hold_names(blocks: Iterable[Any]) -> bool:
    """Whether blocks are of named features: by the first that is not empty, nor has nothing but empty lists.

    >>> hold_names([[], [[], []], [["a"]]]), hold_names([[[1.0]], [["a"]]])
    (True, False)
    """
    for rows in blocks:
        if are_named(rows):
            return True
        if not isinstance(rows, list | tuple) or any(_is_named(row) is not None for row in rows):
            return False
    return False


def _is_named(row: Any) -> bool | None:
    """None for an empty list, which is of either kind."""
    if isinstance(row, Mapping):
        return True
    if not isinstance(row, list | tuple | set | frozenset):
        return False
    return isinstance(next(iter(row)), str) if row else None
