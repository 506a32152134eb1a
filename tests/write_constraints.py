"""Constraints for ``pip install --constraint`` from a report of pip on standard input: the exact version of every package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version


def pinned(report: dict[str, Any]) -> str:
    """One ``name==version`` per line, without the build of a version and without the package itself.

    >>> packages = [("NumPy", "2.4.6"), ("torch", "2.13.0+cpu"), ("maxmargin", "0.1.0")]
    >>> report = {"install": [{"metadata": {"name": name, "version": version}} for name, version in packages]}
    >>> print(pinned(report), end="")
    numpy==2.4.6
    torch==2.13.0
    """
    found = {str(canonicalize_name(one["metadata"]["name"])): Version(one["metadata"]["version"]) for one in report["install"]}
    return "".join(f"{name}=={found[name].public}\n" for name in sorted(found.keys() - {"maxmargin"}))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    header = f"# Versions that `make test` and `make demo` install with Python {version}; written by `make constraints`.\n"
    target.parent.mkdir(exist_ok=True)
    target.write_text(header + pinned(json.load(sys.stdin)), encoding="utf-8")
