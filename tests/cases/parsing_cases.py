"""All dependency trees of a short sentence, one by one: what searches are checked against."""

import itertools
from functools import cache

import numpy as np


def is_tree(heads):
    for word in range(1, len(heads) + 1):
        seen = set()
        while word:
            if word in seen:
                return False
            seen.add(word)
            word = heads[word - 1]
    return True


def is_projective(heads):
    """No word between head and child that the head does not rule."""

    def ruled(word, head):
        while word and word != head:
            word = heads[word - 1]
        return word == head

    return all(ruled(between, head) for m, head in enumerate(heads, 1) for between in range(min(m, head) + 1, max(m, head)))


@cache
def all_trees(n, projective, single_root):
    found = [
        heads
        for heads in itertools.product(*([h for h in range(n + 1) if h != m] for m in range(1, n + 1)))
        if is_tree(heads) and (not projective or is_projective(heads)) and (not single_root or heads.count(0) == 1)
    ]
    return np.array(found, dtype=np.int32).reshape(-1, n)


def tree_scores(scores, trees):
    return scores[trees, np.arange(1, trees.shape[1] + 1)].sum(axis=1)
