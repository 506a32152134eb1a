"""Structured SVMs for your own structure, with or without latent variables, in Python or compiled."""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.structured.latent import LatentStructuredSVM as LatentStructuredSVM
    from maxmargin.structured.latent_classes import LatentClasses as LatentClasses
    from maxmargin.structured.native import NativeProblem as NativeProblem
    from maxmargin.structured.native import native_signature as native_signature
    from maxmargin.structured.svm import StructuredSVM as StructuredSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
