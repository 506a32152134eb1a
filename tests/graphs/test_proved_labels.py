"""Labels that messages prove to be the best are not searched further."""

import itertools

import numpy as np

from maxmargin.graphs import Graph, GraphStructure
from maxmargin.graphs.structure import best_of_messages


class Listening:
    """Messages that count how often their labels are improved."""

    def __init__(self, messages):
        self._messages, self.descents = messages, 0

    def __getattr__(self, name):
        return getattr(self._messages, name)

    def descend(self, *arguments):
        self.descents += 1
        return self._messages.descend(*arguments)


def test_descents_end_at_the_bound():
    rng = np.random.default_rng(0)
    edges = np.array([(a, b) for a, b in itertools.combinations(range(6), 2) if (a + b) % 3], dtype=np.int32)
    structure = GraphStructure(3, n_labels=3, pairwise="symmetric")
    every = np.array(list(itertools.product(range(3), repeat=6)))
    proved = searched = 0
    for strength in np.repeat([0.1, 3.0], 30):
        graph = Graph(rng.normal(size=(6, 3)), edges, np.ones((len(edges), 1)))
        weights = np.concatenate([np.eye(3).ravel(), strength * rng.normal(size=6)])
        truth = rng.integers(0, 3, 6)
        scores = structure.node_scores(graph, weights, truth, 1.0)
        messages = graph.__dict__.setdefault("_messages", {})[3] = Listening(graph.messages(3))
        found = best_of_messages(graph, structure.costs_of(graph, scores, weights), truth)
        values = [weights @ structure.joint_feature(graph, y) + structure.loss(truth, y) for y in every]
        value = weights @ structure.joint_feature(graph, found.output) + structure.loss(truth, found.output)
        assert value <= max(values) + 1e-9 <= found.upper + 2e-9
        if found.upper - value <= 1e-12 * abs(value):
            assert abs(value - max(values)) <= 1e-9
        if messages.descents == 0:
            proved += 1
            assert found.upper - value <= 1e-10 * abs(value)
        else:
            searched += 1
    assert proved >= 20 and searched >= 5, (proved, searched)
