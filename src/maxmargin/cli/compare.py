"""``maxmargin compare``: runs or models on the same queries, the first one against each of the others."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np

from maxmargin._utils import Floats
from maxmargin.cli.evaluate import Scored, by_model, format_table, metric_values, refuse_auc, shortened, trec_scored
from maxmargin.cli.one_list import compare_lists, list_words
from maxmargin.cli.options import GAINS, INPUT, JSON, METRICS, DataOptions, known_metrics, sample_options, with_exit_codes
from maxmargin.cli.paired import TESTS, bootstrap_interval, compare_paired, holm
from maxmargin.io import DataError, is_archive

_METRICS = ("map", "ndcg@10")
_SAMPLES = 10_000


class System(NamedTuple):
    """What is compared: values of every metric by query."""

    name: str
    values: dict[str, dict[str, float]]


@click.command()
@click.argument("files", nargs=-1, type=INPUT, metavar="RUN RUN... | MODEL MODEL... DATA")
@click.option("--qrels", type=INPUT, help="Judgements of the runs: lines 'query 0 document relevance'.")
@click.option("-m", "--metric", "metrics", multiple=True, callback=known_metrics, help=f"{METRICS}; may be repeated.")
@GAINS
@click.option("-c", "--complete", is_flag=True, help="With --qrels: all judged queries count, those without results as 0.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="For chance.")
@sample_options
@JSON
@with_exit_codes
def compare(
    files: tuple[Path, ...],
    reading: DataOptions,
    qrels: Path | None,
    complete: bool,
    metrics: tuple[str, ...],
    gains: Any,
    seed: int,
    as_json: bool,
) -> None:
    """Tell whether the difference between runs, or models, is more than chance.

    Every other run is compared with the first one, query by query: the mean difference with a 95 % interval (bootstrap over the
    queries), and the p-values of a paired t test, of a randomisation test and of the sign test, all two-sided. They are corrected
    by Holm's method for the number of comparisons, that of other runs times that of metrics. Only queries that are in all runs
    count, or with -c all in the judgements.

    If DATA is one list, its samples are drawn again in place of queries, relevant and irrelevant ones apart: intervals of the
    metrics and of the difference, and a p-value from the same draws.

    \b
    Examples:
      maxmargin compare old.run new.run --qrels test.qrels -m AP -m nDCG@10
      maxmargin compare old.model new.model test.letor --json
    """
    _check_files(files, qrels)
    if qrels is not None:
        refuse_auc(metrics)
    elif complete:
        raise click.UsageError("--complete is for --qrels")
    wanted = list(metrics or _METRICS)
    paths = files if qrels is not None else files[:-1]
    names = _names(paths)
    if qrels is None:
        scored = [by_model(path, files[-1], reading) for path in paths]
        _check_same_meaning(scored, names, files[-1])
        if scored[0].qid is None or len(scored[0].query_names or ()) == 1:
            answer = compare_lists(scored, names, files[-1], wanted, gains, seed)
            click.echo(json.dumps(answer, indent=2) if as_json else list_words(answer))
            return
    else:
        scored = [trec_scored(qrels, path, complete) for path in paths]
    systems = _systems(names, scored, wanted, gains)
    queries = _common(systems)
    if len(queries) < 2:
        raise DataError(
            f"{qrels}: leaves one query that all runs have, and paired tests compare values of many queries; give data with at "
            "least two"
        )
    missing = max(len(system.values[wanted[0]]) for system in systems) - len(queries)
    if missing:
        click.echo(f"Warning: {missing} queries are not in all runs and do not count; --complete counts them as 0", err=True)
    answer = _answer(systems, queries, wanted, seed)
    click.echo(json.dumps(answer, indent=2) if as_json else _words(answer))


def _names(paths: Sequence[Path]) -> list[str]:
    names = [path.name for path in paths]
    names = [str(path) if names.count(path.name) > 1 else path.name for path in paths]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise click.UsageError(f"{twice} is named twice; name different ones to compare")
    return names


def _systems(names: list[str], all_scored: list[Scored], metrics: list[str], gains: Any) -> list[System]:
    systems = []
    for name, scored in zip(names, all_scored, strict=True):
        values, queries = metric_values(scored, metrics, gains)
        by_query = {metric: dict(zip(map(str, queries), value.tolist(), strict=True)) for metric, value in values.items()}
        systems.append(System(name, by_query))
    return systems


def _check_same_meaning(scored: list[Scored], names: list[str], data_file: Path) -> None:
    """Complain about models that differ in what is relevant in these data."""
    first = scored[0]
    for name, other in zip(names[1:], scored[1:], strict=True):
        ours, theirs = (found.threshold or 0.0 for found in (first, other))
        if ((first.relevance > ours) != (other.relevance > theirs)).any():
            raise DataError(
                f"{data_file}: {names[0]} takes labels above {ours:g} for relevant, {name} those above {theirs:g}, so their "
                "metrics are not of the same thing; train both with the same --threshold"
            )


def _check_files(files: tuple[Path, ...], qrels: Path | None) -> None:
    """Complain about files that cannot be compared."""
    if qrels is not None:
        if len(files) < 2:
            raise click.UsageError("two runs are needed to compare: RUN RUN --qrels FILE")
        return
    if len(files) < 3:
        raise click.UsageError("two models and the data to compare them on are needed: MODEL MODEL DATA; or runs with --qrels")
    for path in files[:-1]:
        if not is_archive(path):
            raise click.UsageError(f"{path} is no model; name models and then data, or runs with --qrels FILE")


def _common(systems: list[System]) -> list[str]:
    """Queries of all systems, in the order of the first."""
    first, *others = [next(iter(system.values.values())) for system in systems]
    return [query for query in first if all(query in other for other in others)]


def _answer(systems: list[System], queries: list[str], metrics: list[str], seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for metric in metrics:
        values: list[Floats] = [np.array([system.values[metric][query] for query in queries]) for system in systems]
        for system, ours in zip(systems, values, strict=True):
            low, high = bootstrap_interval(ours, rng, _SAMPLES, 0.95)
            row: dict[str, Any] = {"metric": metric, "name": system.name, "mean": float(ours.mean()), "interval": [low, high]}
            if ours is not values[0]:
                found = compare_paired(ours, values[0], rng, _SAMPLES)._asdict()
                row |= {"against": systems[0].name, **found, "difference_interval": [found.pop("low"), found.pop("high")]}
                row = {key: value for key, value in row.items() if key not in ("low", "high")}
            rows.append(row)
    compared = [row for row in rows if "against" in row]
    for test in TESTS:
        for row, p in zip(compared, holm([row[test] for row in compared]), strict=True):
            row[f"{test}_holm"] = p
    return {"queries": len(queries), "comparisons": len(compared), "level": 0.95, "results": rows}


def _words(answer: dict[str, Any]) -> str:
    n, rows = answer["comparisons"], []
    for row in answer["results"]:
        line = [shortened(row["name"]), row["metric"], f"{row['mean']:.4f}"]
        if "against" in row:
            low, high = row["difference_interval"]
            tests = [_p(row[f"{test}_holm"]) for test in TESTS]
            counts = f"{row['wins']}/{row['losses']}/{row['ties']}"
            line += [f"{row['difference']:+.4f}", f"{low:+.4f} .. {high:+.4f}", *tests, counts]
        rows.append([*line, *[""] * (9 - len(line))])
    header = ["", "metric", "mean", "difference", "95 % interval", "p: t test", "randomisation", "sign test", "won/lost/equal"]
    holm_note = f", corrected by Holm for {n} comparisons" if n > 1 else ""
    notes = f"{answer['queries']} queries; differences to {answer['results'][0]['name']}, p-values two-sided{holm_note}"
    return f"{notes}\n{format_table(header, rows)}"


def _p(value: float) -> str:
    return f"{value:.3f}" if value >= 0.001 else f"{value:.0e}"
