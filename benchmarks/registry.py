"""Run all benchmarks, or those whose names begin with the arguments: ``python -m benchmarks.registry ranking nn.layerwise``."""

from __future__ import annotations

import os
import subprocess
import sys

# In the order in which they run, with arguments where they need any. Some take hours.
BENCHMARKS = (
    "ranking.ranking_inference", "labeling.graphcut", "structured.native_oracle", "core.engine", "multiclass.multiclass",
    "sequences.ocr", "graphs.snakes", "labeling.trws", "core.partial_linearization", "nn.nn_loss", "nn.nn_digits",
    "ranking.latent_ranking", "io.reader --megabytes 40 --repeats 3", "ranking.approximate_ranking", "nn.layerwise",
    "ranking.ranking_training", "ranking.ranking_memory", "ranking.ranking_quality", "ranking.ranking_cutoff",
    "rare_events.rare_events", "core.path", "labeling.labeling", "labeling.max_marginals", "labeling.parsimonious",
    "vision.pictures", "labeling.rounding", "nn.learned_rounding", "registration.registration", "registration.learned_metric",
    "ranking.high_order_ranking", "surrogates.surrogates", "multilabel.multilabel", "hierarchy.hierarchy", "parsing.parsing",
    "nn.parsing_bilstm", "sequences.chunking", "boosting.boosting", "sequences.tagging", "core.defaults",
    "distributed.distributed", "distributed.distributed_peers", "distributed.out_of_core",
)  # fmt: skip


def main(prefixes: list[str]) -> None:
    chosen = [one for one in BENCHMARKS if not prefixes or one.startswith(tuple(prefixes))]
    if not chosen:
        sys.exit(f"no benchmark begins with {' or '.join(prefixes)}; there are {', '.join(BENCHMARKS)}")
    for one in chosen:
        # Workers share the cores; BLAS must not start threads of its own.
        threads = {"OMP_NUM_THREADS": "1"} if one.startswith("distributed.") else {}
        module, *arguments = one.split()
        subprocess.run([sys.executable, "-m", f"benchmarks.{module}", *arguments], env={**os.environ, **threads}, check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
