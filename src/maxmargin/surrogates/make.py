"""Surrogates by their names."""

from __future__ import annotations

from collections.abc import Callable

from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.micro_f1 import MicroF1
from maxmargin.surrogates.scaling import BetaScaling, Slack
from maxmargin.surrogates.smooth import LogLoss, ProbLoss

SURROGATES: dict[str, Callable[[], Surrogate]] = {
    "beta": lambda: BetaScaling(0.5),
    "log": LogLoss,
    "margin": Margin,
    "micro_f1": MicroF1,
    "prob": ProbLoss,
    "slack": Slack,
}


def make_surrogate(surrogate: str | Surrogate) -> Surrogate:
    """The surrogate behind a name, or the one that was passed, checked.

    Examples
    --------
    >>> make_surrogate("slack")
    Slack(search='auto')
    """
    if isinstance(surrogate, str):
        try:
            return SURROGATES[surrogate]()
        except KeyError:
            known = ", ".join(map(repr, sorted(SURROGATES)))
            raise ValueError(f"surrogate={surrogate!r} is unknown; choose one of {known}, or pass a Surrogate object") from None
    if not isinstance(surrogate, Surrogate):
        raise TypeError(f"surrogate must be a name or an object of maxmargin.surrogates, not {surrogate!r}")
    if type(surrogate) is not Margin:
        surrogate.check()
    return surrogate
