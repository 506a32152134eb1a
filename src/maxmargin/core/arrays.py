"""Problems that are what their arrays say: these have a compiled form and a fingerprint, unless a subclass has its own way."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy import sparse

from maxmargin import _core
from maxmargin._utils import Floats, Matrix
from maxmargin.core.cuts import Cut
from maxmargin.core.digest import fingerprint
from maxmargin.core.problem import Override, Problem, overridden, warn_of_override
from maxmargin.core.structure import user_override

# Rows with fewer entries than this are worth storing without their zeros.
_SPARSE = 0.4


class ArrayProblem(Problem):
    """A problem of this package. Its compiled form and its fingerprint know the methods of the class that has written them.

    A subclass that replaces a method is neither bypassed by the one nor taken for its base by the other.
    """

    def cut(self, block: int, weights: Floats) -> Cut:
        """The tangent cut of one block."""
        return self.cuts([block], weights)[0]

    def make_block_data(self) -> _core.BlockData | None:
        """Return the problem in the form of the compiled block engine; None if it has none."""
        return None

    def _contents(self) -> tuple[object, ...] | None:
        """All arrays and settings the hinges depend on; None if there is more to it."""
        return None

    def _override(self, method: str) -> Override | None:
        """Find an override, in the problem or in its structure, that the result of a method would ignore."""
        structure = getattr(self, "structure", None)
        return overridden(self, method) or (None if structure is None else user_override(structure))

    @cached_property
    def block_data(self) -> _core.BlockData | None:
        """For the compiled block solvers; None if a subclass has an oracle of its own."""
        override = self._override("make_block_data")
        if override is None:
            return self.make_block_data()
        if type(self).make_block_data is not ArrayProblem.make_block_data:
            warn_of_override(override, self if isinstance(self, override.cls) else self.structure)  # type: ignore[attr-defined]
        return None

    @cached_property
    def _fingerprint(self) -> bytes | None:
        contents = None if self._override("_contents") else self._contents()
        writer = next(cls for cls in type(self).__mro__ if "_contents" in vars(cls))
        return None if contents is None else fingerprint(writer.__qualname__, *contents)

    def fingerprint(self) -> bytes | None:
        """A digest of all arrays and settings; None if a subclass has methods of its own."""
        return self._fingerprint


def compiled_features(X: Matrix) -> _core.Features:
    """Rows of a dense or CSR matrix; dense ones that are mostly zeros, such as pixels, are stored sparse.

    Of a sparse matrix of booleans that are all true nothing but their places is kept. No array is copied that can be used as
    it is.
    """
    if not sparse.issparse(X):
        X = np.ascontiguousarray(X, dtype=np.float64)
        # A look at some of the entries; a wrong guess costs time, nothing else.
        if np.count_nonzero(X.ravel()[:: max(1, X.size // 100_000)]) > _SPARSE * min(X.size, 100_000):
            return _core.Features(X, None, None, X.shape[1])
        return _core.Features(*_core.compress_rows(X), X.shape[1])
    matrix: Matrix = X
    rows = matrix.tocsr()
    if not rows.has_canonical_format:
        rows = rows.astype(np.float64)
        rows.sum_duplicates()
    indicators = rows.dtype == np.bool_ and bool(rows.data.all())
    values = None if indicators else np.ascontiguousarray(rows.data, dtype=np.float64)
    columns, begin = np.ascontiguousarray(rows.indices, dtype=np.int32), np.ascontiguousarray(rows.indptr, dtype=np.int64)
    return _core.Features(values, columns, begin, int(rows.shape[1]))
