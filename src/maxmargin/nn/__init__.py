"""Losses of rankings and of dependency trees, as torch modules, a BiLSTM parser, layer-wise SVM training; learned rounding.

All but the last are trained by loss-augmented inference.

Needs torch: ``pip install 'maxmargin[nn]'``. Nothing else in the library imports it.
"""

from __future__ import annotations

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "torch":
        raise
    raise ImportError("maxmargin.nn needs torch; install it with: pip install 'maxmargin[nn]'") from error

from maxmargin.nn._rounding_training import RoundingEpoch, VarianceCollapseWarning
from maxmargin.nn.bilstm_parser import BiLSTMParser, ParsedSentence, ParserEpoch, train_parser
from maxmargin.nn.expected_energy import ExpectedEnergyLoss
from maxmargin.nn.layerwise import LayerStep, LayerwiseSVM
from maxmargin.nn.learned_rounding import LearnedRounding
from maxmargin.nn.rank_losses import APLoss, AUCLoss, DirectLoss, NDCGLoss, RankingHinge
from maxmargin.nn.rounding_network import RoundingNetwork
from maxmargin.nn.tree_losses import TreeLoss

__all__ = [
    "APLoss", "AUCLoss", "BiLSTMParser", "DirectLoss", "ExpectedEnergyLoss", "LayerStep", "LayerwiseSVM", "LearnedRounding",
    "NDCGLoss", "ParsedSentence", "ParserEpoch", "RankingHinge", "RoundingEpoch", "RoundingNetwork", "TreeLoss",
    "VarianceCollapseWarning", "train_parser",
]  # fmt: skip
