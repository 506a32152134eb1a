"""A structure, a sample and weights as the oracle that searches ask."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import (
    Cut,
    Decoded,
    Structure,
    SupportsCone,
    SupportsEnumeration,
    SupportsKBest,
    SupportsListing,
    SupportsLossValues,
    difference,
    dot,
    supports,
)
from maxmargin.surrogates.oracle import Answer, Candidate, LambdaOracle, in_angle
from maxmargin.surrogates.sample import Sample

# How far an upper bound may lie below the output that comes with it: rounding.
_ROUNDING = 1e-9
# Outputs among which one in a cone is looked for, where there is nothing but the k best.
_MOST_LISTED = 256


class Known(NamedTuple):
    """An output with its features and loss against the truth, which do not depend on the weights."""

    y: Any
    cut: Cut


class StructureOracle(LambdaOracle):
    """Questions about one sample at some weights; outputs of candidates are :class:`Known`.

    Parameters
    ----------
    structure : Structure
        Asked by ``decode``; ``k_best``, ``decode_within``, ``best_by_loss``, ``all_outputs`` and ``loss_values`` are used where
        it has them.
    sample : Sample
        What is found is checked there, and counted.
    weights : array of shape (d,)
    """

    def __init__(self, structure: Structure, sample: Sample, weights: Floats) -> None:
        self.structure, self.sample, self.weights = structure, sample, weights
        self._own: float | None = None
        # Neither the truth nor what is kept of earlier searches has changed with the weights.
        self.warm: dict[Hashable, Known] = sample.warm
        if sample.own is None:
            sample.own = key_of(sample.truth), Known(sample.truth, Cut(difference(sample.feature, sample.feature), 0.0))
        self.truth = self._true(*sample.own)

    @property
    def own(self) -> float:
        """Score of the truth."""
        if self._own is None:
            self._own = dot(self.sample.feature, self.weights)
        return self._own

    def candidate(self, y: Any) -> Candidate:
        """An output as a point."""
        key = key_of(y)
        return self.known(key, self.warm.get(key) or Known(y, self.sample.cut(self.structure, y)))

    def known(self, key: Hashable, known: Known) -> Candidate:
        """The same at these weights."""
        cut = known.cut
        return Candidate(-dot(cut.psi, self.weights), cut.loss, key, known)

    def _true(self, key: Hashable, known: Known) -> Candidate:
        """The truth, whose score needs no look at the weights."""
        return Candidate(0.0, 0.0, key, known)

    def ask(self, a: float, b: float) -> Answer:
        """By ``decode``."""
        self._count()
        return self._answer(self.structure.decode(self.sample.x, self.weights, self.sample.truth, a, b), a, b)

    def _answer(self, answer: Any, a: float, b: float) -> Answer:
        bounded = isinstance(answer, Decoded)
        found = self.candidate(answer.output if bounded else answer)
        value = found.along(a, b)
        if not bounded:
            return Answer(found, value if self.structure.exact else np.inf)
        upper = float(answer.upper) - a * self.own
        if not upper >= value - _ROUNDING * (abs(answer.upper) + abs(a * self.own) + abs(value)):
            raise ValueError(
                f"decode returned the upper bound {answer.upper:.9g} for sample {self.sample.number}, but an output that is "
                f"worth more, {value + a * self.own:.9g}; the bound must hold for all outputs"
            )
        return Answer(found, max(upper, value))

    def k_best(self, a: float, b: float, k: int) -> list[Candidate]:
        """By the structure's own."""
        return [found for found, _ in self.listed(a, b, k) if found is not None]

    def listed(self, a: float, b: float, k: int) -> list[Answer]:
        """The same, with bounds: infinity from a structure that is not exact and has none."""
        self._count()
        found = self._offered("k_best")(self.sample.x, self.weights, self.sample.truth, a, b, k)
        return [self._answer(y, a, b) for y in found]

    def lists(self) -> bool:
        """Whether the structure has ``k_best``, and it is worth its cost for this sample."""
        if not supports(self.structure, SupportsKBest):
            return False
        return not supports(self.structure, SupportsListing) or bool(self._offered("can_list")(self.sample.x))

    def within(self, lam: float, low: float, high: float) -> Answer:
        """By ``decode_within``; else among all outputs, or the k best of them."""
        if supports(self.structure, SupportsCone):
            self._count()
            y = self._offered("decode_within")(self.sample.x, self.weights, self.sample.truth, lam, low, high)
            return Answer(None, -np.inf) if y is None else self._answer(y, 1.0, lam)
        if supports(self.structure, SupportsEnumeration):
            inside = [point for point in self.everything() if in_angle(point, low, high)]
            found = max(inside, key=lambda point: point.along(1.0, lam), default=None)
            return Answer(found, -np.inf if found is None else found.along(1.0, lam))
        k = 8
        while True:
            listed = self.listed(1.0, lam, k)
            for answer in listed:
                if answer.found is not None and in_angle(answer.found, low, high):
                    return answer
            if len(listed) < k:
                return Answer(None, -np.inf)
            if k >= _MOST_LISTED:
                # Whatever is in there is worth no more than the last one listed.
                return Answer(None, listed[-1].upper)
            k *= 2

    def best_by_loss(self) -> list[Candidate]:
        """By the structure's own; one question."""
        self._count()
        return [self.candidate(y) for y in self._offered("best_by_loss")(self.sample.x, self.weights, self.sample.truth)]

    def everything(self) -> Iterable[Candidate]:
        """All outputs, if the structure can list them; one question."""
        self._count()
        return (self.candidate(y) for y in self._offered("all_outputs")(self.sample.x))

    def losses(self) -> Floats | None:
        """Those that the structure says are possible; averages of outputs, where they are outputs too, can have any."""
        if self.structure.relaxed or not supports(self.structure, SupportsLossValues):
            return None
        found = self._offered("loss_values")(self.sample.x, self.sample.truth)
        return None if found is None else np.asarray(found, dtype=np.float64)

    def most_loss(self) -> float:
        """By one question for every sample, since it does not depend on the weights."""
        if self.sample.most_loss is None:
            self.sample.most_loss = self.ask(0.0, 1.0).upper
        return self.sample.most_loss

    def _offered(self, name: str) -> Callable[..., Any]:
        method: Callable[..., Any] = getattr(self.structure, name)
        return method

    def _count(self) -> None:
        self.calls += 1
        self.sample.queries += 1


class SizedOracle(StructureOracle):
    """Outputs that are sets, in the plane of :class:`maxmargin.surrogates.MicroF1`."""

    def known(self, key: Hashable, known: Known) -> Candidate:
        """Loss plus margin error, and minus the sizes of output and truth."""
        sizes = float(self._offered("set_size")(known.y)) + float(self._offered("set_size")(self.sample.truth))
        return Candidate(known.cut.loss - dot(known.cut.psi, self.weights), -sizes, key, known)

    def _true(self, key: Hashable, known: Known) -> Candidate:
        """The truth, which has a size."""
        return self.known(key, known)

    def ask(self, a: float, b: float) -> Answer:
        """By ``decode_sized``."""
        self._count()
        found = self._offered("decode_sized")(self.sample.x, self.weights, self.sample.truth, a, a, b)
        # The size of the truth is no part of the question.
        own = b * float(self._offered("set_size")(self.sample.truth))
        if isinstance(found, Decoded):
            found = Decoded(found.output, found.upper - own)
        return self._answer(found, a, b)


def key_of(y: Any) -> Hashable:
    """By what an output is known again, whatever it is."""
    if type(y) is int:
        return y
    if isinstance(y, np.ndarray):
        return y.shape, y.tobytes()
    if isinstance(y, tuple | list):
        return tuple(key_of(part) for part in y)
    if isinstance(y, Hashable):
        return y
    return repr(y)
