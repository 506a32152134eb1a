"""The scikit-learn face: ``fit``, ``predict``, ``score``, with the certificate in the fitted attributes."""

from maxmargin.estimators.ranking import RankingSVM

__all__ = ["RankingSVM"]
