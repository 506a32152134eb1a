"""How long operations usually take, and which take far too long: the rule by which engines speak of stragglers."""

from __future__ import annotations

import logging
import statistics
from collections import defaultdict, deque

# An operation that takes so many times the usual is waiting for something.
_SLOW = 5.0
# Of so many answers the median is the usual time.
_KEPT = 20


class Pace:
    """Seconds that every operation took of late.

    Parameters
    ----------
    patience : float
        Seconds that no operation is called slow before.

    Examples
    --------
    >>> pace = Pace(patience=30.0)
    >>> pace.is_slow("look", 1000.0)  # nobody knows what is usual
    False
    >>> for seconds in (8.0, 9.0, 10.0):
    ...     pace.took("look", seconds)
    >>> pace.usual("look"), pace.is_slow("look", 44.0), pace.is_slow("look", 46.0)
    (9.0, False, True)
    """

    def __init__(self, patience: float = 30.0) -> None:
        self.patience = patience
        self._times: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=_KEPT))

    def took(self, operation: str, seconds: float) -> None:
        """An answer came after so long."""
        self._times[operation].append(seconds)

    def usual(self, operation: str) -> float:
        """The median of the last answers, at least a millisecond; NaN if there were none."""
        times = self._times.get(operation)
        return max(statistics.median(times), 1e-3) if times else float("nan")

    def is_slow(self, operation: str, taken: float) -> bool:
        """Whether a question that is not answered after so long should be."""
        return taken > self.patience and taken > _SLOW * self.usual(operation)

    def warn(self, logger: logging.Logger, shard: int, source: str, where: str, operation: str, taken: float) -> None:
        """Say which shard, where it comes from and where it is, and what takes how long."""
        logger.warning(
            "shard %d (%s) on %s has been busy with %r for %.0f s, %.1f times the usual",
            shard, source, where, operation, taken, taken / self.usual(operation),
        )  # fmt: skip
