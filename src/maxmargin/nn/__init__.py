"""Torch modules: losses of rankings and dependency trees, a BiLSTM parser, layer-wise training, learned rounding.

Needs torch: ``pip install 'maxmargin[nn]'``. Nothing else in the library imports it.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.nn._rounding_training import RoundingEpoch as RoundingEpoch
    from maxmargin.nn._rounding_training import VarianceCollapseWarning as VarianceCollapseWarning
    from maxmargin.nn.bilstm_parser import BiLSTMParser as BiLSTMParser
    from maxmargin.nn.bilstm_parser import ParsedSentence as ParsedSentence
    from maxmargin.nn.bilstm_parser import ParserEpoch as ParserEpoch
    from maxmargin.nn.bilstm_parser import train_parser as train_parser
    from maxmargin.nn.expected_energy import ExpectedEnergyLoss as ExpectedEnergyLoss
    from maxmargin.nn.layerwise import LayerStep as LayerStep
    from maxmargin.nn.layerwise import LayerwiseSVM as LayerwiseSVM
    from maxmargin.nn.learned_rounding import LearnedRounding as LearnedRounding
    from maxmargin.nn.rank_losses import APLoss as APLoss
    from maxmargin.nn.rank_losses import AUCLoss as AUCLoss
    from maxmargin.nn.rank_losses import DirectLoss as DirectLoss
    from maxmargin.nn.rank_losses import NDCGLoss as NDCGLoss
    from maxmargin.nn.rank_losses import RankingHinge as RankingHinge
    from maxmargin.nn.rounding_network import RoundingNetwork as RoundingNetwork
    from maxmargin.nn.tree_losses import TreeLoss as TreeLoss
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
