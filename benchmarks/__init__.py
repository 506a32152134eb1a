"""Each module makes one table of ``results/``; run it with ``python -m benchmarks.NAME``."""
