"""Problems with hidden parts, on their way to a room of their own."""

from maxmargin.models.bags import Bags, supervised_share
from maxmargin.models.latent import ImputedModel, LatentModel, LatentMulticlass
from maxmargin.models.latent_ranking import JointLatentRankingModel, LatentBinaryModel, LatentRankingModel

__all__ = [
    "Bags",
    "ImputedModel",
    "JointLatentRankingModel",
    "LatentBinaryModel",
    "LatentModel",
    "LatentMulticlass",
    "LatentRankingModel",
    "supervised_share",
]
