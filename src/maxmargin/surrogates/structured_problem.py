"""A structure with its data: the general problem. Built-in structures have faster ones of their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import (
    ArrayProblem,
    Audit,
    Bounds,
    Cut,
    Decoded,
    Problem,
    Structure,
    SupportsFastProblem,
    check_decoder,
    encoded,
    overridden,
    supports,
    warn_of_override,
)
from maxmargin.surrogates.audit import N_AUDITED, audit
from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.make import make_surrogate
from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.sample import Sample


class StructuredProblem(ArrayProblem):
    """A :class:`maxmargin.core.Structure` with its data. Sparse joint features stay sparse.

    Parameters
    ----------
    structure : Structure
        Joint features, loss and decoder.
    X, Y : sequences of equal length
        Inputs and true outputs.
    surrogate : str or Surrogate, optional
        Which hinge; margin rescaling by default. See :mod:`maxmargin.surrogates`.

    Attributes
    ----------
    queries : int
        Questions to the decoder so far; more than cuts where the search of a surrogate needs several.

    Examples
    --------
    >>> from maxmargin.multiclass import ClassStructure
    >>> problem = StructuredProblem(ClassStructure(2, 1), np.array([[1.0], [-1.0]]), [1, 0])
    >>> problem.cut(0, np.zeros(2))
    Cut(psi=SparseVector(indices=array([0, 1], dtype=int32), values=array([-1.,  1.])), loss=1.0, bound=None)
    """

    def __init__(self, structure: Structure, X: Sequence[Any], Y: Sequence[Any], surrogate: str | Surrogate = "margin") -> None:
        if not isinstance(structure, Structure):
            raise TypeError(f"structure must be an object of a subclass of maxmargin.core.Structure, not {structure!r}")
        check_decoder(structure)
        if len(X) != len(Y):
            raise ValueError(f"X has {len(X)} samples, but Y has {len(Y)}; they must be equal")
        if len(X) == 0:
            raise ValueError("X is empty; at least one sample is needed")
        self.structure = structure
        self.surrogate = make_surrogate(surrogate)
        self.surrogate.check_structure(structure)
        self.samples = [Sample(structure, k, x, y) for k, (x, y) in enumerate(zip(X, Y, strict=True))]
        self.n_blocks = len(self.samples)
        self.n_features = self.samples[0].n_features
        for sample in self.samples:
            if sample.n_features != self.n_features:
                raise ValueError(
                    f"joint_feature has length {sample.n_features} for sample {sample.number}, but {self.n_features} for sample 0"
                )
        self.audited = [self.samples[k] for k in np.unique(np.linspace(0, self.n_blocks - 1, N_AUDITED).astype(int))]
        for sample in self.audited:
            sample.seen = {}
        self.exact, self.relaxed = structure.exact, structure.relaxed
        if not self.exact:
            # A decoder that knows what it may have missed.
            first = self.samples[0]
            self.exact = isinstance(structure.decode(first.x, np.zeros(self.n_features), first.truth, 1.0, 1.0), Decoded)
        # Tangents of a function that is not convex are no lower bounds of it.
        self.convex = self.surrogate.convex
        self.exact &= self.convex

    @property
    def queries(self) -> int:
        """Questions to the decoder so far."""
        return sum(sample.queries for sample in self.samples)

    @property
    def bounds(self) -> Bounds | None:
        """Those of the structure."""
        return self.structure.bounds

    def cuts(self, blocks: Sequence[int], weights: Floats) -> list[Cut]:
        """The tangent cuts of several samples; more than one are asked for in a batch."""
        found = self.surrogate.cuts(self.structure, [self.samples[block] for block in blocks], weights)
        if self.exact and not self.structure.exact and isinstance(self.surrogate, Margin):
            # A decoder that knows bounds elsewhere, but none here. Searches of other surrogates prove what they have found.
            found = [replace(cut, bound=np.inf) if cut.bound is None else cut for cut in found]
        return found

    def audit(self, weights: Floats) -> Audit | None:
        """Whether the decoder missed an output that it finds for other questions; None if it claims nothing."""
        return audit(self, weights) if self.exact else None


def make_problem(structure: Structure, X: Sequence[Any], Y: Sequence[Any], surrogate: str | Surrogate = "margin") -> Problem:
    """Return the problem of inputs X with true outputs Y, compiled if the structure has one for margin rescaling.

    A structure has it by a method ``make_problem(xs, ys)`` of encoded samples. A subclass that overrides another method of such
    a structure gets the general problem, which calls the override.

    Examples
    --------
    >>> from maxmargin.multiclass import ClassStructure
    >>> make_problem(ClassStructure(2, 1), [[1.0], [-1.0]], [1, 0]).mean_cut(np.zeros(2))
    Cut(psi=array([-1.,  1.]), loss=1.0, bound=None)
    """
    chosen = make_surrogate(surrogate)
    fast = isinstance(structure, Structure) and type(chosen) is Margin and supports(structure, SupportsFastProblem)
    if not fast or len(X) != len(Y) or len(X) == 0:
        if hasattr(structure, "make_problem") and (override := overridden(structure, "make_problem")) is not None:
            warn_of_override(override, structure)
        return StructuredProblem(structure, X, Y, chosen)
    samples = [encoded(structure, k, x, y) for k, (x, y) in enumerate(zip(X, Y, strict=True))]
    problem: Problem = structure.make_problem([x for x, _ in samples], [y for _, y in samples])  # type: ignore[attr-defined]
    return problem
