"""Files of predictions."""

from __future__ import annotations

import math

import numpy as np

from maxmargin._types import Floats
from maxmargin.data.source import DataError, Source, lines, name_of, number


def read_scores(path: Source) -> Floats:
    """One number per line, as ``svm_rank_classify`` and others write their predictions."""
    scores = []
    for line, text in enumerate(map(str.strip, lines(path)), start=1):
        if not text:
            continue
        try:
            score = number(text)
        except ValueError:
            raise DataError(f"{name_of(path)}, line {line}: score {text[:40]!r} is not a number; write one per line") from None
        if not math.isfinite(score):
            raise DataError(f"{name_of(path)}, line {line}: score {text!r} is not finite; write a number for every sample")
        scores.append(score)
    if not scores:
        raise DataError(f"{name_of(path)}: holds no scores; one number per line is needed")
    return np.array(scores)
