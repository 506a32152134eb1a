"""The lowest versions that pyproject.toml allows, one ``name==version`` per line: constraints for `make minimum`.

Tools of the tests (ruff, mypy, ...) stay free: they are no part of what users install. So does torch, of which `make test` has
one build; its lowest version was tried by hand.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

_FREE = ("test", "bench", "peers", "nn")
_LOWEST = re.compile(r"([A-Za-z0-9_.-]+)\s*>=\s*([0-9.]+)")


def lowest_versions(text: str) -> dict[str, str]:
    """Lowest version of every run-time requirement.

    >>> lowest_versions('[project]\\ndependencies = ["numpy>=1.26"]\\noptional-dependencies.plot = ["matplotlib>=3.8,<5"]')
    {'numpy': '1.26', 'matplotlib': '3.8'}
    """
    project = tomllib.loads(text)["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"] + [need for name, needs in extras.items() if name not in _FREE for need in needs]
    found = (_LOWEST.match(need) for need in wanted)
    return {match[1]: match[2] for match in found if match}


if __name__ == "__main__":
    here = Path(__file__).resolve().parents[1] / "pyproject.toml"
    for name, version in lowest_versions(here.read_text(encoding="utf-8")).items():
        print(f"{name}=={version}.*" if version.count(".") == 1 else f"{name}=={version}")
