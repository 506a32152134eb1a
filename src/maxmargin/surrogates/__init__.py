"""Surrogates ``psi(margin error, loss)`` that bound the loss of a prediction, the search for their most violating output, and
the general structured problem.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate
    from maxmargin.surrogates.compiled import CompiledSurrogate, compiled_search, compiled_surrogate
    from maxmargin.surrogates.cone_search import angular
    from maxmargin.surrogates.convexity import check_convex
    from maxmargin.surrogates.hull import MOST_HULL_CALLS, hull_search, recover
    from maxmargin.surrogates.latent_problem import LatentStructuredProblem, convex_surrogate
    from maxmargin.surrogates.make import SURROGATES, make_surrogate
    from maxmargin.surrogates.margin import Margin
    from maxmargin.surrogates.micro_f1 import MicroF1
    from maxmargin.surrogates.oracle import Answer, Candidate, LambdaOracle, PointOracle
    from maxmargin.surrogates.result import ROUNDING, SearchResult, Step
    from maxmargin.surrogates.sample import Sample
    from maxmargin.surrogates.scaling import BetaScaling, GeneralizedScaling, Slack
    from maxmargin.surrogates.slack_searches import MOST_CALLS, TOLERANCE, binary_search, bisecting, sarawagi
    from maxmargin.surrogates.smooth import LogLoss, ProbLoss
    from maxmargin.surrogates.structured_problem import StructuredProblem, make_problem
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
