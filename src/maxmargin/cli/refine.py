"""``maxmargin train --refine``: steps on the loss itself, taken only where held-out folds gain more than their standard error."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from maxmargin.cli.options import speaking_of
from maxmargin.cli.signals import noting_signals
from maxmargin.core.solvers import ConvergenceWarning

if TYPE_CHECKING:
    from maxmargin.io import RankingData
    from maxmargin.ranking import DirectLossMinimizer

FOLDS = 5


class Refined(NamedTuple):
    """A model whose loss was descended, whether held-out folds say that it is better, and signals that ended it."""

    model: DirectLossMinimizer
    signals: list[int]

    @property
    def taken(self) -> bool:
        """Whether the steps are worth it."""
        return bool(self.model.accepted_) and not self.signals

    def describe(self) -> dict[str, Any]:
        """What was found."""
        model = self.model
        return {"taken": self.taken, "gain": float(model.gain_), "standard_error": float(model.gain_error_), "folds": FOLDS}


def check_refinable(parameters: dict[str, Any]) -> None:
    """Complain about settings that cannot be refined."""
    if parameters["loss"] == "accuracy":
        raise click.UsageError("--refine descends a rank loss, and --loss accuracy is none; choose another loss")
    if parameters["scale"] == "query":
        raise click.UsageError("--refine does not know --scale query; use --scale standard or none, or leave out --refine")


def refine(data: RankingData, data_file: Path, parameters: dict[str, Any], *, show: bool) -> Refined:
    """Descend from the hinge with the same C, in every fold and then on all data."""
    from maxmargin.ranking import DirectLossMinimizer

    names = ("loss", "C", "relevance_threshold", "grades", "random_state", "time_limit")
    model = DirectLossMinimizer(
        **{name: parameters[name] for name in names}, standardize=parameters["scale"] == "standard", validation=FOLDS,
        verbose=int(show and sys.stderr.isatty()),
    )  # fmt: skip
    with noting_signals() as signals, warnings.catch_warnings(), speaking_of(data_file):
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(data.X, data.y, data.qid)
    return Refined(model, signals)


def refined_line(found: dict[str, Any]) -> str:
    """For people."""
    gain = f"{found['gain']:+.4f} (standard error {found['standard_error']:.4f}) on {found['folds']} held-out folds"
    return f"refinement: {'taken, not certified' if found['taken'] else 'not taken'}, gain {gain}"
