"""Surrogates: convex bounds of the loss of a prediction, and which question to a decoder yields their tangent."""

from maxmargin.surrogates.margin import Margin
from maxmargin.surrogates.sample import Sample

__all__ = ["Margin", "Sample"]
