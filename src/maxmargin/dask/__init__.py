"""Estimators that train on a Dask cluster. Workers may join and leave during training.

Needs Dask: ``pip install 'maxmargin[dask]'``.
"""

from typing import TYPE_CHECKING

from maxmargin._api import lazy_names

if TYPE_CHECKING:
    from maxmargin.dask.chains import DaskChainSVM as DaskChainSVM
    from maxmargin.dask.multiclass import DaskMulticlassSVM as DaskMulticlassSVM
    from maxmargin.dask.ranking import DaskRankingSVM as DaskRankingSVM
else:
    __getattr__, __dir__, __all__ = lazy_names(__name__)
