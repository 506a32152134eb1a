"""Losses of rankings and of dependency trees, as torch modules, a BiLSTM parser, and layer-wise SVM training.

All of them are trained by loss-augmented inference.

Needs torch: ``pip install 'maxmargin[nn]'``. Nothing else in the library imports it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("maxmargin.nn needs torch; install it with: pip install 'maxmargin[nn]'") from error

from maxmargin.nn.bilstm_parser import BiLSTMParser, ParsedSentence, ParserEpoch, train_parser
from maxmargin.nn.layerwise import LayerStep, LayerwiseSVM
from maxmargin.nn.rank_losses import APLoss, AUCLoss, DirectLoss, NDCGLoss, RankingHinge
from maxmargin.nn.tree_losses import TreeLoss

__all__ = [
    "APLoss", "AUCLoss", "BiLSTMParser", "DirectLoss", "LayerStep", "LayerwiseSVM", "NDCGLoss", "ParsedSentence", "ParserEpoch",
    "RankingHinge", "TreeLoss", "train_parser",
]  # fmt: skip
