"""Structured SVMs for your own structure, with or without latent variables, in Python or compiled."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.structured.latent import LatentStructuredSVM
    from maxmargin.structured.latent_classes import LatentClasses
    from maxmargin.structured.native import NativeProblem, native_signature
    from maxmargin.structured.svm import StructuredSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
