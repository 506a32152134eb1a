"""Surrogates ``psi(margin error, loss)`` that bound the loss of a prediction, the search for their most violating output, and
the general structured problem.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate as Surrogate
    from maxmargin.surrogates.compiled import CompiledSurrogate, compiled_search, compiled_surrogate
    from maxmargin.surrogates.cone_search import angular as angular
    from maxmargin.surrogates.convexity import check_convex
    from maxmargin.surrogates.hull import MOST_HULL_CALLS
    from maxmargin.surrogates.hull import hull_search as hull_search
    from maxmargin.surrogates.hull import recover as recover
    from maxmargin.surrogates.latent_problem import LatentStructuredProblem as LatentStructuredProblem
    from maxmargin.surrogates.latent_problem import convex_surrogate
    from maxmargin.surrogates.make import SURROGATES as SURROGATES
    from maxmargin.surrogates.make import make_surrogate as make_surrogate
    from maxmargin.surrogates.margin import Margin as Margin
    from maxmargin.surrogates.micro_f1 import MicroF1 as MicroF1
    from maxmargin.surrogates.oracle import Answer as Answer
    from maxmargin.surrogates.oracle import Candidate as Candidate
    from maxmargin.surrogates.oracle import LambdaOracle as LambdaOracle
    from maxmargin.surrogates.oracle import PointOracle as PointOracle
    from maxmargin.surrogates.result import ROUNDING
    from maxmargin.surrogates.result import SearchResult as SearchResult
    from maxmargin.surrogates.result import Step as Step
    from maxmargin.surrogates.sample import Sample as Sample
    from maxmargin.surrogates.scaling import BetaScaling as BetaScaling
    from maxmargin.surrogates.scaling import GeneralizedScaling as GeneralizedScaling
    from maxmargin.surrogates.scaling import Slack as Slack
    from maxmargin.surrogates.slack_searches import MOST_CALLS, TOLERANCE
    from maxmargin.surrogates.slack_searches import binary_search as binary_search
    from maxmargin.surrogates.slack_searches import bisecting as bisecting
    from maxmargin.surrogates.slack_searches import sarawagi as sarawagi
    from maxmargin.surrogates.smooth import LogLoss as LogLoss
    from maxmargin.surrogates.smooth import ProbLoss as ProbLoss
    from maxmargin.surrogates.structured_problem import StructuredProblem as StructuredProblem
    from maxmargin.surrogates.structured_problem import make_problem as make_problem
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
