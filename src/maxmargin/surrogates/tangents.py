"""From a search to a cut: the tangent of the best output's psi in the weights, with a bound of what was missed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from maxmargin._utils import Floats
from maxmargin.core import (
    Cut,
    SparseVector,
    Structure,
    SupportsBestByLoss,
    SupportsCone,
    SupportsEnumeration,
    SupportsKBest,
    Vector,
    difference,
    supports,
    why_not,
)
from maxmargin.surrogates.cone_search import angular
from maxmargin.surrogates.hull import hull_search, recover
from maxmargin.surrogates.oracle import Candidate, LambdaOracle
from maxmargin.surrogates.result import ROUNDING, SearchResult
from maxmargin.surrogates.sample import Sample
from maxmargin.surrogates.slack_searches import binary_search, bisecting, sarawagi
from maxmargin.surrogates.structure_oracle import StructureOracle

if TYPE_CHECKING:
    from maxmargin.surrogates.base import Surrogate

# Outputs of a sample that are kept to begin the next search with.
_KEPT = 10

_SLACK_SEARCHES: dict[str, Callable[[LambdaOracle, Sequence[Candidate]], SearchResult]] = {
    "angular": angular,
    "bisect": bisecting,
    "sarawagi": sarawagi,
    "binary": binary_search,
}


def check_search(surrogate: Surrogate, structure: Structure) -> None:
    """Complain about a search that the structure has no methods for."""
    kind = type(structure).__name__
    if surrogate.search == "enumerate" and not supports(structure, SupportsEnumeration):
        raise TypeError(
            f"search='enumerate' needs all_outputs(x), which {kind} does not offer: {why_not(structure, SupportsEnumeration)}; "
            "use search='hull' or 'auto'"
        )
    if surrogate.search == "angular" and not supports(structure, (SupportsCone, SupportsEnumeration, SupportsKBest)):
        raise TypeError(
            f"search='angular' needs decode_within(x, weights, truth, lam, low, high), all_outputs or k_best, which {kind} does "
            f"not offer: {why_not(structure, (SupportsCone, SupportsEnumeration, SupportsKBest))}; use search='hull' or 'auto'"
        )


def search_structure(
    surrogate: Surrogate, structure: Structure, oracle: StructureOracle, known: Sequence[Candidate]
) -> SearchResult:
    """By the method that the surrogate names."""
    name = surrogate.search
    if name == "enumerate":
        return enumerate_outputs(surrogate, oracle)
    if name in _SLACK_SEARCHES:
        return _SLACK_SEARCHES[name](oracle, known)
    # The question of margin rescaling is a good one to begin with.
    found = hull_search(surrogate, oracle, known, first=1.0)
    if name == "auto" and not found.exact and not structure.relaxed:
        if supports(structure, SupportsBestByLoss):
            found = counted(surrogate, oracle, found)
        elif len(found.labels) > 1 and oracle.lists():
            found = recover(surrogate, oracle, found)
    return found


def counted(surrogate: Surrogate, oracle: LambdaOracle, found: SearchResult) -> SearchResult:
    """The best single output, from the best one for every loss: psi does not fall with the margin error (spec 7.4)."""
    before = oracle.calls
    points = oracle.best_by_loss()
    values = np.asarray(surrogate.value(np.array([point.h for point in points]), np.array([point.g for point in points])))
    top = int(values.argmax())
    best, incumbent = max((found.best, found.incumbent), (float(values[top]), points[top]), key=lambda pair: pair[0])
    return replace(found, incumbent=incumbent, best=best, upper=best, calls=found.calls + oracle.calls - before)


def enumerate_outputs(surrogate: Surrogate, oracle: LambdaOracle) -> SearchResult:
    """The best of all outputs, by looking at every one."""
    best, value, count = oracle.truth, 0.0, 0
    for point in oracle.everything():
        there, count = float(surrogate.value(point.h, point.g)), count + 1
        if there > value:
            best, value = point, there
    return SearchResult((best,), (1.0,), value, best, value, value, count, [], [])


def tangent_cut(surrogate: Surrogate, structure: Structure, sample: Sample, oracle: StructureOracle) -> Cut:
    """The cut of a sample: the tangent at the best output found, with a bound unless nothing better exists."""
    known = [oracle.known(key, entry) for key, entry in sample.warm.items()]
    found = search_structure(surrogate, structure, oracle, known)
    vertices = {point.key: point.output for point in found.vertices}
    vertices[found.incumbent.key] = found.incumbent.output
    vertices.pop(oracle.truth.key, None)
    sample.warm = vertices if len(vertices) <= _KEPT else dict(list(vertices.items())[-_KEPT:])
    if sample.seen is not None:
        for entry in vertices.values():
            sample.remember(entry.cut, entry.y)
    labels: tuple[Candidate, ...] = (found.incumbent,)
    weights: tuple[float, ...] = (1.0,)
    if structure.relaxed:
        # Averages of outputs are outputs.
        labels, weights = found.labels, found.weights
    cut = cut_of_mixture(surrogate, labels, weights)
    if found.exact or (structure.relaxed and np.isfinite(found.upper) and found.upper <= found.value * (1 + 2 * ROUNDING)):
        return cut
    return Cut(cut.psi, cut.loss, found.upper)


def cut_of_mixture(surrogate: Surrogate, labels: Sequence[Candidate], weights: Sequence[float]) -> Cut:
    """``psi = psi_h * (feature of the truth - mixed feature)``, and ``loss`` what makes it the value of psi at the weights."""
    mixed: Vector
    if len(labels) == 1:
        h, g, mixed = labels[0].h, labels[0].g, labels[0].output.cut.psi
    else:
        h = sum(w * point.h for w, point in zip(weights, labels, strict=True))
        g = sum(w * point.g for w, point in zip(weights, labels, strict=True))
        mixed = _mixed([point.output.cut.psi for point in labels], weights)
    if g == 0 and len(labels) == 1 and not surrogate.value(h, g) > 0:
        # The truth, or what costs nothing: the hinge is zero there.
        return Cut(difference(mixed, mixed), 0.0)
    pair = surrogate.affine(g)
    if pair is not None:
        slope, loss = float(pair[0]), float(pair[1])
    else:
        slope = float(surrogate.gradient(h, g)[0])
        loss = float(surrogate.value(h, g)) - slope * h
    return Cut(_times(mixed, slope), loss)


def _times(vector: Vector, factor: float) -> Vector:
    return SparseVector(vector.indices, factor * vector.values) if isinstance(vector, SparseVector) else factor * vector


def _mixed(vectors: Sequence[Vector], weights: Sequence[float]) -> Vector:
    first, second = (_times(vector, weight) for vector, weight in zip(vectors, weights, strict=True))
    return difference(first, _times(second, -1.0))


def cuts_of(surrogate: Surrogate, structure: Structure, samples: Sequence[Sample], weights: Floats) -> list[Cut]:
    """The tangent cuts of some samples."""
    return [tangent_cut(surrogate, structure, sample, StructureOracle(structure, sample, weights)) for sample in samples]
