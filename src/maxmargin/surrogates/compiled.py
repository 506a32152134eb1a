"""Which surrogates the compiled searches know, and how they are told."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.micro_f1 import MicroF1
from maxmargin.surrogates.scaling import BetaScaling, GeneralizedScaling, Slack
from maxmargin.surrogates.smooth import LogLoss, ProbLoss


class CompiledSurrogate(NamedTuple):
    """A surrogate as ``cpp/surrogates/psi.hpp`` takes it."""

    kind: Literal["generalized", "logistic", "probability", "raw_probability", "micro_f1"]
    alpha: float
    beta: float

    @property
    def affine(self) -> bool:
        """Whether an output has one cut for all weights."""
        return self.kind in ("generalized", "micro_f1")


def compiled_surrogate(surrogate: Surrogate) -> CompiledSurrogate | None:
    """The compiled form; None of a surrogate of one's own, of one that is not convex, and for other searches than the hull.

    Examples
    --------
    >>> compiled_surrogate(BetaScaling(0.5))
    CompiledSurrogate(kind='generalized', alpha=1.0, beta=0.5)
    """
    if surrogate.search not in ("auto", "hull"):
        return None
    # A subclass may have a psi of its own.
    kind = type(surrogate)
    if kind is Margin:
        return CompiledSurrogate("generalized", 1.0, 0.0)
    if kind is Slack:
        return CompiledSurrogate("generalized", 1.0, 1.0)
    if isinstance(surrogate, GeneralizedScaling) and kind in (GeneralizedScaling, BetaScaling) and surrogate.alpha > 0:
        # With alpha = 0 psi jumps at the truth, and no search along the hull may begin there.
        return CompiledSurrogate("generalized", float(surrogate.alpha), float(surrogate.beta))
    if isinstance(surrogate, LogLoss) and kind is LogLoss:
        return CompiledSurrogate("logistic", float(1.0 / np.log(surrogate.base)), 0.0)
    if isinstance(surrogate, ProbLoss) and kind is ProbLoss and surrogate.convex:
        return CompiledSurrogate("probability", float(surrogate.tau), 0.0)
    if kind is MicroF1:
        return CompiledSurrogate("micro_f1", 0.0, 0.0)
    return None


def compiled_search(surrogate: Surrogate) -> CompiledSurrogate | None:
    """The form for searches alone, whose answers may be gradients: the raw ProbLoss has one too, and the micro F1 has none.

    Examples
    --------
    >>> print(compiled_surrogate(ProbLoss(convex=False)), compiled_search(ProbLoss(convex=False, tau=1.0)))
    None CompiledSurrogate(kind='raw_probability', alpha=1.0, beta=0.0)
    """
    if isinstance(surrogate, ProbLoss) and type(surrogate) is ProbLoss and surrogate.search in ("auto", "hull"):
        return CompiledSurrogate("probability" if surrogate.convex else "raw_probability", float(surrogate.tau), 0.0)
    form = compiled_surrogate(surrogate)
    return None if form is None or form.kind == "micro_f1" else form
