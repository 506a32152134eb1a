"""Surrogates: bounds of the loss of a prediction by margin errors, and which questions to a decoder yield their tangents."""

from maxmargin.surrogates.base import Surrogate
from maxmargin.surrogates.make import SURROGATES, make_surrogate
from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.micro_f1 import MicroF1
from maxmargin.surrogates.sample import Sample
from maxmargin.surrogates.scaling import BetaScaling, GeneralizedScaling, Slack
from maxmargin.surrogates.smooth import LogLoss, ProbLoss

__all__ = [
    "SURROGATES", "BetaScaling", "GeneralizedScaling", "LogLoss", "Margin", "MicroF1", "ProbLoss", "Sample", "Slack", "Surrogate",
    "make_surrogate",
]  # fmt: skip
