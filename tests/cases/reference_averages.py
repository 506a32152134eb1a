"""Averages over the outputs of classes and trees, by their formulas: what the compiled blocks do in their own way.

A distribution over classes is an array of log-probabilities: nothing underflows to a zero that could not grow. One over
labelings is kept as log-marginals of nodes (L, K) and of edges (E, K, K), [parent's label][own label], which determine all
expectations; a tree distribution with given marginals is ``prod_t mu_t^(1 - degree) * prod over edges mu`` (spec A9).
"""

import numpy as np
from tests.cases.enumerated import EnumeratedProblem

from maxmargin import _core
from maxmargin.core import Cut
from maxmargin.multiclass import MulticlassProblem
from maxmargin.ranking import BinaryProblem


def log_normalize(values):
    top = values.max()
    return values - (top + np.log(np.sum(np.exp(values - top))))


def near_vertex(size, vertex, mass):
    """Log-probabilities with all but ``mass`` on ``vertex``, the rest spread evenly."""
    result = np.full(size, np.log(mass / size))
    result[vertex] = np.log1p(-mass * (size - 1) / size)
    return result


def log_mix(values, other, step):
    """Logarithm of ``(1 - step) exp(values) + step exp(other)``."""
    with np.errstate(divide="ignore"):
        return np.logaddexp(np.log1p(-step) + values, np.log(step) + other)


def tilt(values, hinges, temperature):
    """``values + hinges / temperature``, normalised; at temperature 0 the first best output alone."""
    if temperature == 0:
        return np.where(np.arange(len(hinges)) == np.argmax(hinges), 0.0, -np.inf)
    return log_normalize(values + hinges / temperature)


def averages(problem):
    """Who averages over the outputs of a problem."""
    if isinstance(problem, EnumeratedProblem):
        return problem
    return (ClassAverages if isinstance(problem, MulticlassProblem | BinaryProblem) else TreeAverages)(problem)


class ClassAverages:
    """Of problems with one label out of K, or of two; for the latter the truth is the first output."""

    def __init__(self, problem):
        self.problem = problem

    def outputs(self, block):
        """Features and losses of all labels, and which is the truth."""
        p, x = self.problem, self.problem.X[[block]]
        x = np.asarray(x.toarray() if hasattr(x, "toarray") else x)[0]
        if isinstance(p, BinaryProblem):
            return np.array([0 * x, p.y[block] * x]), np.array([0.0, 1.0]), 0
        weight, truth = 1.0 if p.sample_weight is None else p.sample_weight[block], p.y[block]
        psi = np.array([np.outer(np.eye(p.n_classes)[truth] - np.eye(p.n_classes)[k], x).ravel() for k in range(p.n_classes)])
        return weight * psi, weight * p.costs[truth], truth

    def interior(self, block, mass):
        _, loss, truth = self.outputs(block)
        return near_vertex(len(loss), truth, mass)

    def tilt(self, block, distribution, weights, temperature):
        psi, loss, _ = self.outputs(block)
        return tilt(distribution, loss - psi @ weights, temperature)

    def mix(self, distribution, other, step):
        return log_mix(distribution, other, step)

    def average(self, block, distribution):
        psi, loss, _ = self.outputs(block)
        p = np.exp(distribution)
        return Cut(p @ psi, float(p @ loss))


class TreeAverages:
    """Of chains, trees and forests."""

    def __init__(self, problem):
        self.problem, self.forests = problem, problem.forests

    def interior(self, block, mass):
        """Independent nodes, each close to its true label."""
        children, parents = self.forests.edges(block)
        truth = self.problem.y[self.forests.rows(block)]
        nodes = np.stack([near_vertex(self.problem.n_labels, label, mass) for label in truth])
        return nodes, nodes[parents][:, :, None] + nodes[children][:, None, :]

    def tilt(self, block, distribution, weights, temperature):
        rows, parts, K = self.forests.rows(block), self.problem._parts(weights), self.problem.n_labels
        children, parents = self.forests.edges(block)
        scores = self.problem._augmented(rows, parts)
        parent = np.full(len(scores), -1, dtype=np.int32)
        parent[children] = parents
        if temperature == 0:
            log_nodes, log_edges, _ = _core.tree_marginals(scores, np.ascontiguousarray(parts.transition), parent, 0.0)
            return log_nodes, log_edges[children]
        nodes, edges = distribution
        degree = np.bincount(np.append(children, parents), minlength=len(scores))
        unary = (1.0 - degree)[:, None] * nodes + scores / temperature
        # Roots have no edge upwards; their tables are ignored.
        tables = np.zeros((len(scores), K, K))
        tables[children] = edges + parts.transition / temperature
        log_nodes, log_edges, _ = _core.tree_marginals(unary, tables, parent, 1.0)
        return log_nodes, log_edges[children]

    def mix(self, distribution, other, step):
        return tuple(log_mix(one, two, step) for one, two in zip(distribution, other, strict=True))

    def average(self, block, distribution):
        """Features and loss depend on the marginals alone."""
        rows, problem, K = self.forests.rows(block), self.problem, self.problem.n_labels
        children, parents = self.forests.edges(block)
        truth = np.eye(K)[problem.y[rows]]
        nodes = truth - np.exp(distribution[0])
        loss = float(np.sum(problem.cost[rows] * np.sum(truth * nodes, axis=1)))
        pairs = truth[parents].T @ truth[children] - np.exp(distribution[1]).sum(axis=0)
        ends = [nodes[mask[rows]].sum(axis=0) for mask in (self.forests.is_root, self.forests.is_leaf)]
        return Cut(np.concatenate([(nodes.T @ problem.X[rows]).ravel(), *ends, pairs.ravel()]), max(0.0, loss))
