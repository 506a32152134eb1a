"""Click's runner, the same for every version that the package allows: output, standard output and standard error apart."""

from __future__ import annotations

import inspect
from typing import Any

from click import testing

_OLD = "mix_stderr" in inspect.signature(testing.CliRunner).parameters  # before 8.2


class _Result(testing.Result):
    @property
    def output(self) -> str:
        """What a terminal shows, not always in its order."""
        return self.stdout + self.stderr


class CliRunner(testing.CliRunner):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options, **({"mix_stderr": False} if _OLD else {}))

    def invoke(self, *args: Any, **options: Any) -> testing.Result:
        result = super().invoke(*args, **options)
        if _OLD:
            result.__class__ = _Result
        return result
