"""Files in the attribute-relation format (ARFF): what the header declares, and rows, dense or sparse, that keep to it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from maxmargin._utils import Floats
from maxmargin.io.source import DataError, Source, lines, name_of, number

Kind = Literal["numeric", "nominal", "text", "hierarchical"]

_KINDS: dict[str, Kind] = {"numeric": "numeric", "real": "numeric", "integer": "numeric", "string": "text", "date": "text"}
# A word in quotes, where a backslash takes away the meaning of what follows, or one without.
_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_NAME = re.compile(rf"\s*({_QUOTED}|[^\s{{}}]+)\s*(.*)", re.DOTALL)
_FIELD = re.compile(rf"\s*({_QUOTED}|[^,'\"]*)\s*(,|$)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Attribute(NamedTuple):
    """A column: its name, what it holds, and the values of a nominal one, or the entries of a hierarchical one."""

    name: str
    kind: Kind
    values: tuple[str, ...] = ()


class Row(NamedTuple):
    """Values as they are written, by attribute; None where one is missing. What a sparse row leaves out is not among them."""

    line: int
    columns: Sequence[int]
    values: Sequence[str | None]
    sparse: bool


@dataclass
class ArffTable:
    """An ARFF file: the name of the relation, the attributes and the rows."""

    name: str
    relation: str
    attributes: list[Attribute]
    rows: list[Row] = field(repr=False)

    def place(self, row: Row) -> str:
        """Where a row stands, for messages."""
        return f"{self.name}, line {row.line}"

    def error(self, row: Row, column: int, value: str | None, remedy: str) -> DataError:
        """A complaint about one value."""
        written = "?" if value is None else value[:40]
        return DataError(f"{self.place(row)}: attribute {self.attributes[column].name!r} has the value {written!r}; {remedy}")


def read_arff(path: Source) -> ArffTable:
    r"""An ARFF file, dense or sparse, as text; names in ``.gz`` or ``.bz2`` are unpacked.

    Attributes are numeric, nominal, strings or dates, or ``hierarchical`` as in the files of Clus. Every row is checked: how many
    values it has, and that nominal ones were declared.

    Examples
    --------
    >>> table = read_arff(b"@relation 'a b'\n@attribute size numeric\n@attribute c {x, 'y z'}\n@data\n1.5, 'y z'\n{0 2}\n")
    >>> table.relation, table.attributes[1]
    ('a b', Attribute(name='c', kind='nominal', values=('x', 'y z')))
    >>> [list(zip(row.columns, row.values)) for row in table.rows]
    [[(0, '1.5'), (1, 'y z')], [(0, '2')]]
    """
    name, numbered = name_of(path), _content(path)
    relation, attributes = "", list[Attribute]()
    for line, text in numbered:
        place = f"{name}, line {line}"
        word, _, rest = text.partition(" ") if " " in text else text.partition("\t")
        match word.lower():
            case "@relation":
                relation = _unquoted(rest.strip())
            case "@attribute":
                attributes.append(_attribute(rest, place))
            case "@data":
                break
            case _:
                raise DataError(
                    f"{place}: {text[:40]!r} is not a line of an ARFF header; only @relation, @attribute and comments that begin "
                    "with % stand before @data"
                )
    else:
        raise DataError(f"{name}: has no line @data; is it an ARFF file, and complete?")
    _check_names(attributes, name)
    allowed = [frozenset(own.values) if own.kind == "nominal" else None for own in attributes]
    rows = [_row(text, line, name, attributes, allowed) for line, text in numbered]
    if not rows:
        raise DataError(f"{name}: holds no rows after @data; at least one is needed")
    return ArffTable(name, relation, attributes, rows)


def _content(path: Source) -> Iterator[tuple[int, str]]:
    """Lines that say something, with their numbers."""
    for line, text in enumerate(lines(path), start=1):
        stripped = text.strip()
        if stripped and not stripped.startswith("%"):
            yield line, stripped


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] in "'\"" and text[-1] == text[0]:
        return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text[1:-1])
    return text


def _attribute(text: str, place: str) -> Attribute:
    found = _NAME.match(text)
    if found is None or not found[2]:
        raise DataError(f"{place}: an attribute needs a name and a type, such as 'size numeric' or 'c {{a, b}}'")
    name, kind = _unquoted(found[1]), found[2].strip()
    if kind.startswith("{"):
        if not kind.endswith("}"):
            raise DataError(f"{place}: the values of attribute {name!r} do not end in '}}'; close the list on the same line")
        values = _fields(kind[1:-1], place)
        if len(set(values)) < len(values):
            raise DataError(f"{place}: attribute {name!r} declares a value more than once; name every value once")
        return Attribute(name, "nominal", values)
    word, rest = (*kind.split(None, 1), "")[:2]
    if word.lower() == "hierarchical":
        return Attribute(name, "hierarchical", _fields(rest, place))
    if word.lower() not in _KINDS:
        known = ", ".join([*_KINDS, "hierarchical"])
        raise DataError(f"{place}: attribute {name!r} has the type {word[:40]!r}; known are {known}, and values in braces")
    return Attribute(name, _KINDS[word.lower()])


def _check_names(attributes: list[Attribute], name: str) -> None:
    if not attributes:
        raise DataError(f"{name}: declares no attribute; every column needs a line such as '@attribute size numeric'")
    names = [own.name for own in attributes]
    if len(set(names)) < len(names):
        twice = next(own for own in names if names.count(own) > 1)
        raise DataError(f"{name}: {names.count(twice)} attributes are called {twice!r}; give every one a name of its own")


def _fields(text: str, place: str) -> tuple[str, ...]:
    """What stands between commas, without quotes."""
    if "'" not in text and '"' not in text:
        return tuple(value.strip() for value in text.split(","))
    found, at = list[str](), 0
    while True:
        match = _FIELD.match(text, at)
        if match is None:
            raise DataError(
                f"{place}: quotes in {text[at : at + 40]!r} do not close before a comma; write \\' for one in a value"
            )
        found.append(_unquoted(match[1].strip()))
        at = match.end()
        if match[2] != ",":
            return tuple(found)


def _row(text: str, line: int, name: str, attributes: list[Attribute], allowed: list[frozenset[str] | None]) -> Row:
    place = f"{name}, line {line}"
    columns: Sequence[int]
    if text.startswith("{"):
        columns, values = _sparse_row(text, place, len(attributes))
    else:
        values = _fields(text, place)
        if len(values) != len(attributes):
            more = "too many" if len(values) > len(attributes) else "too few"
            raise DataError(
                f"{place}: a row of {len(values)} values is {more} for the {len(attributes)} attributes of the header; correct "
                "the row, put values that hold commas into quotes, or declare the attribute"
            )
        columns = range(len(values))
    written: list[str | None] = [None if value == "?" else value for value in values]
    for column, value in zip(columns, written, strict=True):
        known = allowed[column]
        if known is not None and value is not None and value not in known:
            declared = ", ".join(attributes[column].values[:10])
            raise DataError(
                f"{place}: attribute {attributes[column].name!r} has the value {value[:40]!r}, which is not declared; its values "
                f"are {{{declared}{', ...' if len(known) > 10 else ''}}}; correct the row or declare the value"
            )
    return Row(line, columns, written, text.startswith("{"))


def _sparse_row(text: str, place: str, n_attributes: int) -> tuple[list[int], tuple[str, ...]]:
    if not text.endswith("}"):
        raise DataError(f"{place}: a sparse row that begins with '{{' must end in '}}'; is the line complete?")
    inner = text[1:-1].strip()
    columns, values = list[int](), list[str]()
    for entry in _sparse_entries(inner) if inner else ():
        index, value = (*entry.split(None, 1), "", "")[:2]
        if not (index.isascii() and index.isdigit()) or not value.strip():
            raise DataError(f"{place}: {entry[:40]!r} is no entry of a sparse row; write 'index value', indices counted from 0")
        column = int(index)
        if column >= n_attributes:
            raise DataError(f"{place}: index {column} is too large for {n_attributes} attributes, which are counted from 0")
        if columns and column <= columns[-1]:
            raise DataError(f"{place}: index {column} follows {columns[-1]}; indices of a sparse row must rise, each once")
        columns.append(column)
        values.append(_unquoted(value.strip()))
    return columns, tuple(values)


def _sparse_entries(text: str) -> Iterator[str]:
    if "'" not in text and '"' not in text:
        return (entry.strip() for entry in text.split(","))
    return (found[0].strip() for found in re.finditer(rf"(?:{_QUOTED}|[^,'\"])+", text))


# ---- from text to numbers ------------------------------------------------------------------------------------------------------


class Columns(NamedTuple):
    """Features made of attributes: a dense array or CSR array of shape (n, p), and the names of the columns."""

    X: Any
    names: list[str]


def feature_columns(table: ArffTable, columns: Sequence[int]) -> Columns:
    """Numbers from numeric and nominal attributes; missing values become NaN.

    A nominal attribute of two values is one column, 0 for the first and 1 for the second, or the values themselves if they are
    numbers; one of more values is a column ``name=value`` for each, with a one where the value is that. The result is sparse if
    the rows of the file are.
    """
    names, first, codes = list[str](), dict[int, int](), dict[int, dict[str, float] | None]()
    for column in columns:
        own = table.attributes[column]
        first[column] = len(names)
        if own.kind == "numeric":
            names.append(own.name)
            codes[column] = None
        elif own.kind == "nominal" and len(own.values) <= 2:
            names.append(own.name)
            codes[column] = _two_values(own.values)
        elif own.kind == "nominal":
            names += [f"{own.name}={value}" for value in own.values]
        else:
            raise DataError(
                f"{table.name}: attribute {own.name!r} holds {own.kind} values, which are no features; "
                f"leave it out with ignore=[{own.name!r}]"
            )
    # What a sparse row leaves out is zero, or the first value of a nominal attribute; zeros need not be told.
    nominal = [column for column in first if table.attributes[column].kind == "nominal"]
    values = {column: table.attributes[column].values[0] for column in nominal}
    unsaid = {column: value for column, value in values.items() if (codes.get(column) or {}).get(value) != 0}
    is_sparse = any(row.sparse for row in table.rows)
    data, at, ends = list[float](), list[int](), [0]
    for row in table.rows:
        said = zip(row.columns, row.values, strict=True)
        for column, value in chain(said, _unsaid(row, unsaid)) if row.sparse else said:
            if column not in first:
                continue
            place = first[column]
            if column in codes:
                cell = _cell(table, row, column, value, codes[column])
                if cell != 0:
                    data.append(cell)
                    at.append(place)
            elif value is None:
                many = len(table.attributes[column].values)
                data += [math.nan] * many
                at += range(place, place + many)
            else:
                data.append(1.0)
                at.append(place + table.attributes[column].values.index(value))
        ends.append(len(data))
    shape = len(table.rows), len(names)
    if is_sparse:
        from scipy.sparse import csr_array

        X: Any = csr_array((np.array(data), np.array(at, dtype=np.int32), np.array(ends, dtype=np.int32)), shape=shape)
        X.sort_indices()
        return Columns(X, names)
    dense: Floats = np.zeros(shape)
    dense[np.repeat(np.arange(shape[0]), np.diff(ends)), at] = data
    return Columns(dense, names)


def _two_values(values: tuple[str, ...]) -> dict[str, float]:
    try:
        found = {value: number(value) for value in values}
    except ValueError:
        return {value: float(index) for index, value in enumerate(values)}
    return found if all(map(math.isfinite, found.values())) else {value: float(k) for k, value in enumerate(values)}


def _unsaid(row: Row, values: dict[int, str]) -> Iterator[tuple[int, str]]:
    """What a sparse row means by saying nothing."""
    written = set(row.columns)
    return ((column, value) for column, value in values.items() if column not in written)


def _cell(table: ArffTable, row: Row, column: int, value: str | None, code: dict[str, float] | None) -> float:
    if value is None:
        return math.nan
    if code is not None:
        return code[value]
    try:
        found = number(value)
    except ValueError:
        raise table.error(row, column, value, "a number is needed, or ? where it is missing") from None
    if not math.isfinite(found):
        raise table.error(row, column, value, "it must be finite; write ? where it is missing")
    return found
