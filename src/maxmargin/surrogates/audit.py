"""An audit of decoders that claim to find the maximum: asked in other ways, they may come upon something better.

Whatever a decoder returns for an input is an output of it, so one that is worth more than the answer to the question itself
proves that the maximum was missed. Such outputs are looked for among those of the run and, by further questions, where an
output of another sample looks better; that alone proves nothing, as it may not be an output of this one. So an exact decoder
is never accused; most local searches are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import Audit, Decoded, Structure, size

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate
    from maxmargin.surrogates.sample import Sample
    from maxmargin.surrogates.structured_problem import StructuredProblem

# Samples that are looked at, at most; outputs of other samples that are tried for each.
N_AUDITED, _FOREIGN = 64, 24
# Differences of hinges below this part of their terms are rounding.
_ROUNDING = 1e-7


def audit(problem: StructuredProblem, weights: Floats) -> Audit:
    """Look for better outputs than the decoder's at ``weights``; two questions per sample that is looked at."""
    rng = np.random.default_rng(0)
    known = [list((sample.seen or {}).values()) for sample in problem.audited]
    foreign = [y for sample, seen in zip(problem.audited, known, strict=True) for y in (sample.truth, *seen)]
    claims = problem.surrogate.cuts(problem.structure, problem.audited, weights)
    looks = [
        _Look(problem.structure, problem.surrogate, sample, weights, claim.upper(weights), seen)
        for sample, claim, seen in zip(problem.audited, claims, known, strict=True)
    ]
    for look in looks:
        some = [foreign[k] for k in rng.permutation(len(foreign))[:_FOREIGN]]
        look.suspicion = max(map(look.gain, some), default=0.0)
    questions = len(looks)
    for look in sorted(looks, key=lambda look: -look.suspicion):
        if questions > 0 and look.excess == 0:
            questions -= look.ask(rng, _KINDS if look.suspicion > 0 else [_KINDS[questions % len(_KINDS)]])
    return Audit(len(looks), sum(look.excess > 0 for look in looks), max(look.excess for look in looks))


class _Look:
    """The claim of a decoder about one sample, against other outputs of it.

    ``excess`` says by how much one of them is better, and ``suspicion`` by how much one of another sample would be.
    """

    def __init__(
        self, structure: Structure, surrogate: Surrogate, sample: Sample, weights: Floats, claimed: float, seen: list[Any]
    ) -> None:
        self.structure, self.sample, self.weights, self.claimed, self.seen = structure, sample, weights, claimed, seen
        self.surrogate = surrogate
        # Of the numbers that the claim is a difference of.
        self.size = abs(claimed) + size(sample.feature, weights)
        self.excess, self.suspicion = max(map(self.gain, seen), default=0.0), 0.0

    def ask(self, rng: np.random.Generator, kinds: Sequence[str]) -> int:
        """Further questions, until one of them proves something; how many."""
        for count, kind in enumerate(kinds, 1):
            weights, truth, b = self.weights, self.sample.truth, 1.0
            if kind == "more loss":
                b = 3.0
            elif kind == "prediction":
                truth, b = None, 0.0
            elif kind == "other truth" and self.seen:
                truth = self.seen[int(rng.integers(len(self.seen)))]
            else:
                size = float(np.sqrt(np.mean(weights**2))) or 1.0
                weights = weights + 0.5 * size * rng.normal(size=len(weights))
            try:
                answer = self.structure.decode(self.sample.x, weights, truth, 1.0, b)
            except Exception:  # a user's code, asked in a way that training does not
                continue
            self.excess = self.gain(answer.output if isinstance(answer, Decoded) else answer)
            if self.excess > 0:
                return count
        return len(kinds)

    def gain(self, y: Any) -> float:
        """What an output is worth above the claim, beyond rounding; zero if it is no output of this sample."""
        try:
            cut = self.sample.cut(self.structure, y)
            worth = self.surrogate.worth(self.structure, self.sample, y, cut, self.weights)
        except Exception:  # a user's code, and perhaps an output of another kind
            return 0.0
        gain = worth - self.claimed
        # What psi makes of the rounding of scores grows with the loss.
        terms = (self.size + cut.loss + size(cut.psi, self.weights)) * max(1.0, cut.loss)
        return gain if gain > _ROUNDING * (terms + abs(worth)) else 0.0


_KINDS = ("other truth", "prediction", "more loss", "other weights")
