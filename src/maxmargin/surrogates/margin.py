"""Margin rescaling: the hinge ``max over y of loss(y) + score(y) - score(truth)``, which one question finds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Cut, Decoded, Structure, difference, dot
from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.sample import Sample

# How far an upper bound may lie below the output that comes with it: rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Margin(Surrogate):
    """The structured hinge with margin rescaling, ``h + g``; one question finds it, whatever ``search`` says.

    Examples
    --------
    >>> float(Margin().value(1.0, 2.0))
    3.0
    """

    def value(self, h: Any, g: Any) -> Any:
        """``h + g``."""
        return np.add(h, g)

    def gradient(self, h: Any, g: Any) -> tuple[Any, Any]:
        """``(1, 1)``."""
        ones = np.ones(np.broadcast_shapes(np.shape(h), np.shape(g)))[()]
        return ones, ones

    def tangent(self, h: Any, g: Any) -> Any:
        """1."""
        return self.gradient(h, g)[0]

    def affine(self, g: Any) -> tuple[Any, Any]:
        """``(1, g)``."""
        return np.ones_like(g, dtype=np.float64), g

    def cuts(self, structure: Structure, samples: Sequence[Sample], weights: Floats) -> list[Cut]:
        """The tangent cuts of some samples at ``weights``."""
        if len(samples) == 1:
            answers = [structure.decode(samples[0].x, weights, samples[0].truth, 1.0, 1.0)]
        else:
            xs, truths = [sample.x for sample in samples], [sample.truth for sample in samples]
            answers = list(structure.decode_batch(xs, weights, truths, 1.0, 1.0))
        if len(answers) != len(samples):
            raise ValueError(f"decode_batch returned {len(answers)} outputs for {len(samples)} samples")
        found = []
        for sample, answer in zip(samples, answers, strict=True):
            bounded = isinstance(answer, Decoded)
            output = answer.output if bounded else answer
            cut = sample.cut(structure, output)
            sample.remember(cut, output)
            sample.queries += 1
            found.append(_bounded(sample, cut, answer.upper, weights) if bounded else cut)
        return found


def _bounded(sample: Sample, cut: Cut, upper: float, weights: Floats) -> Cut:
    """The cut with the bound ``upper - score(truth)`` of the hinge."""
    own, hinge = dot(sample.feature, weights), cut.hinge(weights)
    bound = float(upper) - own
    if not bound >= hinge - _ROUNDING * (abs(upper) + abs(own) + cut.loss):
        raise ValueError(
            f"decode returned the upper bound {upper:.9g} for sample {sample.number}, but an output that is worth more, "
            f"{hinge + own:.9g}; the bound must hold for all outputs"
        )
    if hinge < 0:
        # An output that is worse than the truth, which is known.
        cut = Cut(difference(sample.feature, sample.feature), 0.0)
    return replace(cut, bound=max(bound, hinge, 0.0))
