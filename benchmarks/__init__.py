"""Benchmarks by task. Each makes one table of ``results/``; run it with ``python -m benchmarks.TASK.NAME``."""

from pathlib import Path

FOLDER = Path(__file__).parent
