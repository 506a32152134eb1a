"""Models bind data, loss and inference into an oracle that hands out cuts. They know no solver's insides."""

from maxmargin.models.ranking import RankingModel

__all__ = ["RankingModel"]
