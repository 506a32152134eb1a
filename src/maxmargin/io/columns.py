"""What the readers of tables have in common: which columns are wanted, and what comes out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from maxmargin._utils import Floats, Setting
from maxmargin.io.encoding import Encoding, Kind
from maxmargin.io.queries import Codes, Names
from maxmargin.io.source import DataError

# In lower case; the last three are what pandas calls an index without a name.
_IDS = ("id", "docid", "doc_id", "document_id", "sample_id", "row_id", "unnamed: 0", "__index_level_0__", "")


class Wanted(NamedTuple):
    """Names of columns; ``features`` None stands for all others but ids. Without ``label`` labels are not read and become NaN."""

    label: str | None
    query: str | None
    features: Sequence[str] | None
    query_needed: bool = True  # or else read only if it is there
    ignored: Sequence[str] = ()  # never a feature unless named as one
    asked_by: str = ""  # what needs exactly these features, for messages
    drop: Sequence[str] = ()  # columns that are no features
    categorical: Sequence[str] = ()  # columns whose numbers are names
    kinds: Mapping[str, Kind] | None = None  # of columns that are not numbers; or else they are seen from the cells

    @property
    def labels(self) -> list[str]:
        """Column of the labels, if wanted."""
        return [] if self.label is None else [self.label]


class Table(NamedTuple):
    """Features (n, p), labels (n,), codes (n,) and names of queries, or None; columns and, for text, lines of rows."""

    X: Floats
    y: Floats
    qid: Codes | None
    query_names: Names | None
    encoding: Encoding
    query: str | None = None  # their column
    lines: Sequence[int] | None = None


def name_columns(problem: str, *before: str | Setting) -> DataError:
    """Complain about a column that cannot be a feature."""
    return DataError(problem, [*before, "name the columns to use with ", Setting("features")], "features")


def choose(names: list[str], wanted: Wanted, place: str) -> tuple[list[str], str | None]:
    """Columns of the features and of the query; every column that is used must be there once."""
    query = wanted.query if wanted.query_needed or (wanted.query in names and wanted.query not in wanted.drop) else None
    _check_named(names, wanted, place)
    others = (wanted.label, query, *wanted.ignored, *wanted.drop)
    possible = [name for name in names if name not in others and name.strip().lower() not in _IDS]
    features = possible if wanted.features is None else list(wanted.features)
    if wanted.label in features:
        raise DataError(f"{place}: column {wanted.label!r} is named as the label and as a feature; name another for one of them")
    if wanted.features is not None and len(set(features)) < len(features):
        twice = next(name for name in features if features.count(name) > 1)
        raise DataError(f"{place}: column {twice!r} is named {features.count(twice)} times as a feature; name it once")
    for column in [*wanted.labels, *features, *([] if query is None else [query])]:
        if column not in names:
            if wanted.asked_by and column in features:
                here = f"feature {features.index(column) + 1} of {wanted.asked_by}"
                raise DataError(f"{place}: there is no column {column!r}, {here}; the header has {', '.join(map(repr, names))}")
            header = f"the header has {', '.join(map(repr, names))}"
            if wanted.asked_by and column == query:
                whose = f"which holds the queries of {wanted.asked_by}"
                raise DataError(f"{place}: there is no column {column!r}, {whose}", [header, "; name it with ", Setting("qid")])
            if column == wanted.label:
                remedy: list[str | Setting] = [header, "; name it with ", Setting("label")]
                raise DataError(f"{place}: there is no column {column!r} of labels", remedy)
            raise DataError(f"{place}: there is no column {column!r}; {header}")
        if names.count(column) > 1:
            raise DataError(f"{place}: {names.count(column)} columns are called {column!r}; give every column a name of its own")
    return features, query


def _check_named(names: list[str], wanted: Wanted, place: str) -> None:
    """Complain about columns that options name to no end."""
    for option in ("drop", "categorical"):
        for column in getattr(wanted, option):
            if column not in names:
                header = f"the header has {', '.join(map(repr, names))}"
                raise DataError([f"{place}: there is no column {column!r} for ", Setting(option), f"; {header}"], "", option)
            if option == "categorical" and (column in wanted.labels or column in (wanted.query, *wanted.drop)):
                problem = [f"{place}: column {column!r} is the label, the query or left out, and no feature for "]
                raise DataError([*problem, Setting(option)], "name features", option)
    both = [column for column in wanted.drop if column in (wanted.features or ()) or column in wanted.labels]
    if both:
        raise DataError(
            [f"{place}: column {both[0]!r} is needed, and ", Setting("drop"), " leaves it out"], "do one of both", "drop"
        )
