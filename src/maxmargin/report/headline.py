"""What the page says first, in plain words."""

from __future__ import annotations

import math
from typing import Any

from maxmargin.core import Certificate
from maxmargin.ranking import metric_named, ranking_loss
from maxmargin.report.intervals import Interval, Intervals
from maxmargin.report.plain import number, text
from maxmargin.report.ranked import Ranked

# Whoever reads "certified" beside a metric must not take it for the metric.
_MEANS = "That is about the training objective, not about how good the ranking is."
TRAINING_DATA = "These are the data that the model was trained on: on them it looks better than it is. Use others to judge it."
_TITLES = {"ap": "AP", "ndcg": "NDCG", "mrr": "reciprocal rank", "auc": "AUC"}


# Metrics of the first places.
_CUT = {"ap": "AP", "ndcg": "NDCG", "mrr": "reciprocal rank", "p": "precision", "recall": "recall"}


def _is_known(metric: str) -> bool:
    try:
        metric_named(metric, "linear")
    except ValueError:
        return False
    return True


def reported_metric(model: Any) -> tuple[str, str]:
    """The metric a model is judged by, that of its loss if that has one and AP otherwise; and what it was trained for."""
    loss: Any = getattr(model, "loss", None)
    if isinstance(loss, str) and loss == "accuracy":
        return "ap", ", trained for accuracy"
    try:
        found = ranking_loss(loss)
        native = found.native_name()
    except (AttributeError, TypeError, ValueError):
        return "ap", ""
    plain, _, cut = (native or "").partition("@")
    if plain in _CUT and cut.isdigit():
        # Where evaluation does not know the cut-off, the metric of the whole list.
        metric = str(native) if _is_known(str(native)) else plain if plain in _TITLES else "ap"
        return metric, f", trained for {_CUT[plain]}@{cut}"
    if native in _TITLES:
        return native, f", trained for {_TITLES[native]}"
    if native is not None and native.startswith("rbp(") and _is_known(native):
        return native, f", trained for {_rbp(native)}"
    # A loss of one's own has no metric.
    return "ap", f", trained for {text(native or type(found).__name__)}"


def _rbp(metric: str) -> str:
    """Rank-biased precision with its persistence."""
    return f"RBP{metric.removeprefix('rbp')}"


def metric_title(metric: str, several: bool) -> str:
    """Name of a metric for one list or for the mean over several.

    >>> [metric_title(name, several) for name, several in (("ap", True), ("ap", False), ("ap@5", True), ("rbp(p=0.8)", True))]
    ['MAP', 'AP', 'MAP@5', 'RBP(p=0.8)']
    """
    if metric.startswith("rbp"):
        return _rbp(metric)
    plain, at, cut = metric.partition("@")
    titles = {**_CUT, **_TITLES} | ({"ap": "MAP", "mrr": "MRR"} if several else {})
    return titles[plain] + at + cut


def certificate(model: Any) -> dict[str, Any]:
    """What is known about the optimality of the weights, in numbers and in words."""
    known = vars(model)
    proof = Certificate.of_attributes(known) if known.get("dual_gap_") is not None else None
    if proof is None or not math.isfinite(proof.gap):
        unknown = "Nothing is proved about how close to optimal the weights are."
        return {"relative_gap": None, "certified": False, "sentence": unknown}
    if proof.crossed:
        wrong = "The dual objective exceeds the primal one: inference is not exact, and nothing is proved about the weights."
        return {"relative_gap": None, "certified": False, "sentence": wrong}
    relative = proof.gap / max(abs(proof.primal), 1e-300)
    size = "rounding" if relative < 1e-12 else f"{percent(relative)}\N{NO-BREAK SPACE}%"
    # A latent model solves one convex problem after another; the gap speaks of the last one.
    what = "The last convex step" if hasattr(model, "objectives_") else "Training"
    if proof.certified:
        sentence = f"{what} is optimal to within {size}: certified. {_MEANS}"
    else:
        sentence = f"{what} ended with a gap of {size} that is not proved: not certified."
    return {"relative_gap": number(relative), "certified": proof.certified, "sentence": sentence}


def headline(
    ranked: list[Ranked], chance: float, metric: str, data: dict[str, Any], proof: dict[str, Any], ends: Intervals, training: bool
) -> dict[str, Any]:
    """Sentences, and the same as a row of numbers."""
    model, others = ranked[0], ranked[1:]
    several = data["queries"] > 1
    title = metric_title(metric, several)
    value = model.means[metric]
    own, *their = (row[metric] for row in ends.metrics)
    leads = [row[metric] for row in ends.leads]
    where = f"{data['samples']:,} samples, {data['relevant']:,} of them relevant"
    where += f", in {data['queries']:,} queries" if several else ""
    reached = [f"{other.name} {other.means[metric]:.3f} ({end.words()})" for other, end in zip(others, their, strict=True)]
    compared = ", ".join([*reached, f"a random ranking {chance:.3f} on average"])
    sentences = [
        f"{model.name} reaches {title} {value:.3f} (95\N{NO-BREAK SPACE}% interval {own.words()}) on {where}.",
        f"For comparison: {compared}.",
    ]
    tiles = [(f"{value:.3f}", title, f"of {model.name}; {own.words()}")]
    if others:
        k = max(range(len(others)), key=lambda k: others[k].means[metric])
        best, lead = others[k], leads[k]
        sentences.append(_verdict(model.name, best.name, lead))
        tiles.append(
            (signed(value - best.means[metric]), f"against {best.name}", f"{lead.words()}; it reaches {best.means[metric]:.3f}")
        )
    tiles.append((signed(value - chance), "against a random ranking", f"{own.words(chance)}; it reaches {chance:.3f}"))
    gap = proof["relative_gap"]
    if gap is None:
        tiles.append(("unknown", "gap to the optimum of training", "no bound"))
    else:
        shown = f"{percent(gap)}\N{NO-BREAK SPACE}%"
        bound = (shown, "gap to the optimum of training, at most", "certified for the training objective")
        tiles.append(bound if proof["certified"] else (shown, "gap to the optimum of training", "not certified"))
    return {
        "sentences": [*sentences, proof["sentence"]],
        "warning": TRAINING_DATA if training else None,
        "tiles": [list(tile) for tile in tiles],
        "metric": title,
        "value": number(value),
        "interval": own.json(),
        "baselines": {other.name: number(other.means[metric]) for other in others},
        "baseline_intervals": {other.name: end.json() for other, end in zip(others, their, strict=True)},
        "leads": {other.name: end.json() for other, end in zip(others, leads, strict=True)},
        "random": number(chance),
    }


def _verdict(name: str, other: str, lead: Interval) -> str:
    """Whether a difference is more than chance."""
    if lead.low > 0:
        return f"{name} is ahead of {other} by more than chance (difference {lead.words()})."
    if lead.high < 0:
        return f"{name} is behind {other} by more than chance (difference {lead.words()})."
    return f"These data do not tell {name} and {other} apart (difference {lead.words()})."


def percent(share: float) -> str:
    """Two digits that count.

    >>> [percent(share) for share in (0.00087, 0.013, 0.123, 1, 1e-9)]
    ['0.087', '1.3', '12', '100', '1e-07']
    """
    value = 100 * share
    return f"{value:.0f}" if value >= 9.95 or value == 0 else f"{value:.2g}" if value >= 1e-3 else f"{value:.0e}"


def signed(value: float) -> str:
    """With its sign, a true minus; a difference that rounds to nothing has none."""
    shown = f"{abs(value):.3f}"
    return shown if float(shown) == 0 else ("+" if value > 0 else "\N{MINUS SIGN}") + shown
