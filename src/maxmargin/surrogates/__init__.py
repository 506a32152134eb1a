"""Surrogates: bounds of the loss of a prediction by margin errors, and which questions to a decoder yield their tangents."""

from maxmargin.surrogates.angular import angular
from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.hull import hull_search, recover
from maxmargin.surrogates.label_set_oracle import LabelSetOracle
from maxmargin.surrogates.label_set_searches import FoundSets, LabelSetSearches
from maxmargin.surrogates.make import SURROGATES, make_surrogate
from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.micro_f1 import MicroF1
from maxmargin.surrogates.oracle import Answer, Candidate, LambdaOracle, PointOracle
from maxmargin.surrogates.result import SearchResult, Step
from maxmargin.surrogates.sample import Sample
from maxmargin.surrogates.scaling import BetaScaling, GeneralizedScaling, Slack
from maxmargin.surrogates.slack_searches import binary_search, bisecting, sarawagi
from maxmargin.surrogates.smooth import LogLoss, ProbLoss

__all__ = [
    "SURROGATES", "Answer", "BetaScaling", "Candidate", "FoundSets", "GeneralizedScaling", "LabelSetOracle", "LabelSetSearches",
    "LambdaOracle", "LogLoss",
    "Margin", "MicroF1", "PointOracle", "ProbLoss", "Sample", "SearchResult", "Slack", "Step", "Surrogate", "angular",
    "binary_search", "bisecting", "hull_search", "make_surrogate", "recover", "sarawagi",
]  # fmt: skip
