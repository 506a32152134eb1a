"""An audit of decoders that claim to find the maximum: asked in other ways, they may come upon something better.

Whatever a decoder returns for an input is an output of it, so one that is worth more than the answer to the question itself
proves that the maximum was missed. Such outputs are looked for among those of the run, those without loss or for other
weights, those that a search from them comes to, and, where an output of another sample looks better, those for weights that
favour it. So an exact decoder is never accused; most local searches are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from maxmargin.cuts import Audit, Cut
from maxmargin.structures.base import Decoded

if TYPE_CHECKING:
    from maxmargin.problems.structured import StructuredProblem
    from maxmargin.surrogates import Sample

Floats = NDArray[np.float64]

# Samples that are looked at, at most; outputs of other samples that are tried for each.
N_AUDITED, _FOREIGN = 64, 24
# Differences of hinges below this part of their terms are rounding.
_ROUNDING = 1e-7


def audit(problem: StructuredProblem, weights: Floats) -> Audit:
    """Look for better outputs than the decoder's at ``weights``."""
    # One question for the claim and some for other outputs: about a pass, unless samples are very few.
    n_looked = min(len(problem.audited), max(4, problem.n_blocks // 4))
    looked = [problem.audited[k] for k in np.unique(np.linspace(0, len(problem.audited) - 1, n_looked).astype(int))]
    foreign = [y for sample in problem.audited for y in (sample.truth, *(sample.seen or {}).values())]
    rng = np.random.default_rng(0)
    found = [_Look(problem, sample, weights).excess(foreign, rng) for sample in looked]
    return Audit(len(found), sum(excess > 0 for excess in found), max(found))


class _Look:
    """The claim of a decoder about one sample, against other outputs of it."""

    def __init__(self, problem: StructuredProblem, sample: Sample, weights: Floats) -> None:
        self.structure, self.sample, self.weights = problem.structure, sample, weights
        self.seen = list((sample.seen or {}).values())
        self.cut = problem.surrogate.search(self.structure, [sample], weights)[0]
        self.claimed = self.cut.upper(weights)

    def excess(self, foreign: list[Any], rng: np.random.Generator) -> float:
        """By how much some output is better than the claim; zero if none is."""
        size = np.sqrt(np.mean(self.weights**2)) or 1.0
        noisy = self.weights + size * rng.normal(size=len(self.weights))
        predicted = self._ask(self.weights, None, 0.0)
        outputs = [*self.seen, predicted, self._ask(noisy, self.sample.truth, 1.0)]
        if predicted is not None:
            outputs.append(self._ask(self.weights, predicted, 1.0))
        some = [foreign[k] for k in rng.permutation(len(foreign))[:_FOREIGN]]
        promising = max(((self._gain(y), k) for k, y in enumerate(some)), default=(0.0, 0))
        if promising[0] > 0:
            favoured = self._cut(some[promising[1]])
            assert favoured is not None
            # Its score becomes larger than that of the answer by as much as the hinge could be.
            toward = self.cut.dense(len(self.weights)) - favoured.dense(len(self.weights))
            step = (1.0 + abs(self.claimed)) / max(float(toward @ toward), 1e-300)
            outputs.append(self._ask(self.weights + step * toward, self.sample.truth, 1.0))
        return max(map(self._gain, outputs), default=0.0)

    def _ask(self, weights: Floats, truth: Any, b: float) -> Any:
        """Another output of the same input; None if the decoder does not answer such questions."""
        try:
            answer = self.structure.decode(self.sample.x, weights, truth, 1.0, b)
        except Exception:  # a user's code, asked in ways that training does not
            return None
        return answer.output if isinstance(answer, Decoded) else answer

    def _cut(self, y: Any) -> Cut | None:
        try:
            return None if y is None else self.sample.cut(self.structure, y)
        except Exception:  # an output of another kind
            return None

    def _gain(self, y: Any) -> float:
        """What an output is worth above the claim, beyond rounding."""
        cut = self._cut(y)
        if cut is None:
            return 0.0
        terms = abs(self.claimed) + cut.loss + float(np.abs(cut.dense(len(self.weights))) @ np.abs(self.weights))
        gain = cut.hinge(self.weights) - self.claimed
        return gain if gain > _ROUNDING * terms else 0.0
