"""``maxmargin compare`` on one list: there are no queries to draw, so its samples are, the same ones for all models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from maxmargin._utils import Floats
from maxmargin.cli.evaluate import Scored, format_table, relevance_for, shortened
from maxmargin.cli.paired import holm
from maxmargin.io import DataError
from maxmargin.ranking import RankedLists, metric_named
from maxmargin.report import DrawnLists, how_drawn, interval, p_value, redraws


def compare_lists(
    scored: list[Scored], names: list[str], data_file: Path, metrics: list[str], gains: Any, seed: int
) -> dict[str, Any]:
    """Every metric of every model with its interval, and of the others the difference to the first, as JSON can hold it."""
    threshold = scored[0].threshold or 0.0
    relevant = scored[0].relevance > threshold
    if relevant.all() or not relevant.any():
        only = "relevant" if relevant.any() else "irrelevant"
        raise DataError(
            f"{data_file}: is one list of {only} samples only (labels above {threshold:g} are relevant), so all rankings are "
            "equal; give data with both"
        )
    try:
        found = [[_lists(one, metric, threshold) for metric in metrics] for one in scored]
        values = [[_value(metric, gains, lists) for metric, lists in zip(metrics, own, strict=True)] for own in found]
        draws: list[list[list[Floats]]] = [[[] for _ in metrics] for _ in scored]
        for times in redraws(relevant, seed):
            for own, into in zip(found, draws, strict=True):
                for metric, lists, kept in zip(metrics, own, into, strict=True):
                    kept.append(metric_named(metric, gains)(DrawnLists(lists, times)))
    except ValueError as error:  # grades that a metric does not know
        raise DataError(f"{data_file}: {error}") from error
    rows: list[dict[str, Any]] = []
    for k, metric in enumerate(metrics):
        base = np.concatenate(draws[0][k])
        for name, value, drawn in zip(names, values, draws, strict=True):
            ours = np.concatenate(drawn[k])
            ends = list(interval(value[k], ours, 0, 1))
            row: dict[str, Any] = {"metric": metric, "name": name, "mean": value[k], "interval": ends}
            if name != names[0]:
                difference = value[k] - values[0][k]
                ends = list(interval(difference, ours - base))
                p = p_value(difference, ours - base)
                row |= {"against": names[0], "difference": difference, "difference_interval": ends, "bootstrap": p}
            rows.append(row)
    compared = [row for row in rows if "against" in row]
    for row, p in zip(compared, holm([row["bootstrap"] for row in compared]), strict=True):
        row["bootstrap_holm"] = p
    sizes = {"samples": len(relevant), "relevant": int(relevant.sum()), "queries": 1}
    how = how_drawn(len(np.concatenate(draws[0][0])))
    return {**sizes, "comparisons": len(compared), "level": 0.95, "how": how, "results": rows}


def _lists(scored: Scored, metric: str, threshold: float) -> RankedLists:
    return RankedLists(relevance_for(metric, scored.relevance, threshold), scored.scores, None)


def _value(metric: str, gains: Any, lists: RankedLists) -> float:
    return float(metric_named(metric, gains)(lists)[0])


def list_words(answer: dict[str, Any]) -> str:
    """For people."""
    n, rows = answer["comparisons"], []
    for row in answer["results"]:
        low, high = row["interval"]
        line = [shortened(row["name"]), row["metric"], f"{row['mean']:.4f}", f"{low:.4f} .. {high:.4f}"]
        if "against" in row:
            low, high = row["difference_interval"]
            line += [f"{row['difference']:+.4f}", f"{low:+.4f} .. {high:+.4f}", f"{row['bootstrap_holm']:.3f}"]
        rows.append([*line, *[""] * (7 - len(line))])
    header = ["", "metric", "value", "95 % interval", "difference", "95 % interval", "p"]
    corrected = f", corrected by Holm for {n} comparisons" if n > 1 else ""
    sizes = f"{answer['samples']} samples, {answer['relevant']} relevant"
    first = f"one list of {sizes}; differences to {answer['results'][0]['name']}"
    how = f"intervals and two-sided p-values{corrected}: {answer['how']}"
    return f"{first}\n{how}\n{format_table(header, rows)}"
