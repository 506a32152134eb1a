"""Files of predictions."""

from __future__ import annotations

import numpy as np

from maxmargin._types import Floats
from maxmargin.data.source import DataError, Source, finite_score, lines, name_of


def read_scores(path: Source) -> Floats:
    """One number per line, as ``svm_rank_classify`` and others write their predictions."""
    scores = []
    for line, text in enumerate(map(str.strip, lines(path)), start=1):
        if text:
            place = f"{name_of(path)}, line {line}"
            scores.append(finite_score(text, place, "write one per line", "write a number for every sample"))
    if not scores:
        raise DataError(f"{name_of(path)}: holds no scores; one number per line is needed")
    return np.array(scores)
