import json
from pathlib import Path

import numpy as np

from maxmargin.io import READERS, RankingData


def load_jsonl(path):
    rows = [json.loads(line) for line in Path(path).read_text().splitlines()]
    return RankingData(np.array([row["x"] for row in rows]), np.array([row["y"] for row in rows], dtype=float))


READERS[".jsonl"] = load_jsonl
