"""Shards on a Ray cluster, behind the same protocol as on a Dask one.

Needs Ray: ``pip install 'maxmargin[ray]'``. Nothing else in the library imports it.
"""

from __future__ import annotations

try:
    import ray as _ray  # noqa: F401
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "ray":
        raise
    raise ImportError("maxmargin.ray needs Ray; install it with: pip install 'maxmargin[ray]'") from error

from maxmargin.ray.engine import RayEngine

__all__ = ["RayEngine"]
