"""How far a run over shards is: a status line that also says what the engine is doing."""

from __future__ import annotations

from typing import Any

from maxmargin._utils import StatusLine
from maxmargin.distributed.engine import Engine


class ClusterLine(StatusLine):
    """Progress, with what the engine is doing.

    Attributes
    ----------
    engine : Engine, optional
        Whose workers, moves and bytes are shown.
    """

    engine: Engine | None = None

    def show(self, text: str) -> None:
        """Add workers, moves and bytes."""
        super().show(text if self.engine is None else f"{text}, {traffic(self.engine)}")


def traffic(engine: Engine) -> str:
    """Workers, moves and bytes, in words.

    >>> from types import SimpleNamespace
    >>> traffic(SimpleNamespace(workers=2, moves=1, bytes_up=2_500_000, bytes_down=80_000))
    '2 workers, 1 move, 2.5 MB up, 0.1 MB down'
    """
    counts = f"{_counted(engine.workers, 'worker')}, {_counted(engine.moves, 'move')}"
    return f"{counts}, {engine.bytes_up / 1e6:.1f} MB up, {engine.bytes_down / 1e6:.1f} MB down"


def numbers(engine: Engine, repeats: int) -> dict[str, Any]:
    """What an engine has done, for machines."""
    return {
        "shards": engine.n_shards, "workers": engine.workers, "rounds": engine.rounds, "moves": engine.moves,
        "repeats": repeats, "bytes_up": engine.bytes_up, "bytes_down": engine.bytes_down,
    }  # fmt: skip


def _counted(n: int, thing: str) -> str:
    return f"{n} {thing}{'' if n == 1 else 's'}"
