"""Torch modules: losses of rankings and dependency trees, a BiLSTM parser, layer-wise training, learned rounding.

Needs torch: ``pip install 'maxmargin[nn]'``. Nothing else in the library imports it.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.nn._rounding_training import RoundingEpoch, VarianceCollapseWarning
    from maxmargin.nn.bilstm_parser import BiLSTMParser, ParsedSentence, ParserEpoch, train_parser
    from maxmargin.nn.expected_energy import ExpectedEnergyLoss
    from maxmargin.nn.layerwise import LayerStep, LayerwiseSVM
    from maxmargin.nn.learned_rounding import LearnedRounding
    from maxmargin.nn.rank_losses import APLoss, AUCLoss, DirectLoss, NDCGLoss, RankingHinge
    from maxmargin.nn.rounding_network import RoundingNetwork
    from maxmargin.nn.tree_losses import TreeLoss
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
