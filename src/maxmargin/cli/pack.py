"""``maxmargin pack``: files into packed shards."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from maxmargin._utils import StatusLine
from maxmargin.cli.options import DataOptions, Printing, check_reading
from maxmargin.distributed import pack
from maxmargin.io import expand, is_table


def run(files: tuple[str, ...], output: Path, reading: DataOptions, printing: Printing, **options: Any) -> None:
    """Pack, and say what has come out."""
    names = expand(files)
    check_reading(Path(names[0]), reading)
    if is_table(names[0]):
        wanted = reading.wanted()
        options |= {
            "label": wanted.label, "query": wanted.query, "query_needed": wanted.query_needed, "features": wanted.features,
            "drop": wanted.drop,
        }  # fmt: skip
    else:
        options["zero_based"] = reading.numbering()
    start = time.perf_counter()
    with StatusLine(shown=printing.progress, transient=True) as line:
        made = pack(names, output, tell=line.show, **options)
    printing.tell({**made._asdict(), "seconds": round(time.perf_counter() - start, 3)}, _words)


def _words(answer: dict[str, Any]) -> str:
    queries = "" if answer["queries"] is None else f"{answer['queries']} queries, "
    kept = f", {answer['kept']} of them as they were" if answer["kept"] else ""
    form = f"{'sparse' if answer['sparse'] else 'dense'} {answer['dtype']}"
    shards = f"{answer['shards']} shard{'s' if answer['shards'] > 1 else ''}"
    return (
        f"{answer['folder']}: {shards}{kept}, {answer['rows']} samples, {queries}{answer['features']} features, {form}, "
        f"{answer['bytes'] / 1e6:.1f} MB"
    )
