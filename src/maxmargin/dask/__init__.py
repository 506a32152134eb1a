"""Training on a Dask cluster: shards are actors on its workers, and workers may come and go.

Needs Dask: ``pip install 'maxmargin[dask]'``. Nothing else in the library imports it.
"""

from __future__ import annotations

try:
    import distributed as _distributed  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] not in ("dask", "distributed"):
        raise
    raise ImportError("maxmargin.dask needs Dask; install it with: pip install 'maxmargin[dask]'") from error

from maxmargin.dask.chains import DaskChainSVM
from maxmargin.dask.engine import DaskEngine
from maxmargin.dask.multiclass import DaskMulticlassSVM
from maxmargin.dask.ranking import DaskRankingSVM

__all__ = ["DaskChainSVM", "DaskEngine", "DaskMulticlassSVM", "DaskRankingSVM"]
