"""Losses of rankings and of dependency trees, as torch modules, and layer-wise SVM training; all by loss-augmented inference.

Needs torch: ``pip install 'maxmargin[nn]'``. Nothing else in the library imports it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("maxmargin.nn needs torch; install it with: pip install 'maxmargin[nn]'") from error

from maxmargin.nn.layerwise import LayerStep, LayerwiseSVM
from maxmargin.nn.rank_losses import APLoss, AUCLoss, DirectLoss, NDCGLoss, RankingHinge
from maxmargin.nn.tree_losses import TreeLoss

__all__ = ["APLoss", "AUCLoss", "DirectLoss", "LayerStep", "LayerwiseSVM", "NDCGLoss", "RankingHinge", "TreeLoss"]
