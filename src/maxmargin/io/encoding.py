"""Columns of a table that hold text or truth values, as numbers.

What a column holds is seen from its first cell that is not missing: a number, ``true`` or ``false``, or text with a letter in it
(what has none, a date say, is more often a mistake). Truth values become 1 and 0. Text is one-hot encoded: one column for every
different text, in order of appearance, called ``colour=red``. Text of more than 200 kinds, or of more than 20 that are more than
half of the rows, is refused unless the column is said to be categorical: it is more likely ids, or queries. A model keeps these
*kinds*; text that is not among them gives a row of zeros, and a warning.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from maxmargin._utils import Floats, Setting, warn
from maxmargin.io.source import DataError, number

Kind = Literal["boolean"] | list[str]

_TRUTH = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0, "1.0": 1.0, "0.0": 0.0}
_MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "?"})
# Categories of one column: more are ids, names or sentences; so are these many if half of the rows have one of their own.
_MOST, _MANY = 200, 20
_MOST_INSISTED = 10_000  # for columns that are said to be categorical


class UnseenCategoryWarning(UserWarning):
    """Text that no training sample has."""


class Encoding(NamedTuple):
    """Columns of features in their order, and the kinds of those that are not numbers."""

    columns: list[str]
    kinds: dict[str, Kind]

    def names(self) -> list[str]:
        """Names of the features that the columns become.

        >>> Encoding(["length", "colour"], {"colour": ["red", "blue"]}).names()
        ['length', 'colour=red', 'colour=blue']
        """
        names = []
        for column in self.columns:
            kind = self.kinds.get(column)
            names += [f"{column}={text}" for text in kind] if isinstance(kind, list) else [column]
        return names

    def spread(self, codes: Floats) -> Floats:
        """Features of samples whose categories are given by their places, -1 for none: (n, columns) to (n, features)."""
        if not any(isinstance(kind, list) for kind in self.kinds.values()):
            return codes
        parts = []
        for k, column in enumerate(self.columns):
            kind = self.kinds.get(column)
            own = codes[:, k : k + 1]
            parts.append((own == np.arange(len(kind))).astype(np.float64) if isinstance(kind, list) else own)
        return np.hstack(parts) if parts else codes


def drop_column(problem: str, column: str, *before: str) -> DataError:
    """Complain about a column that is best left out."""
    return DataError(problem, [*before, "leave it out with ", Setting("drop", [column])], "drop")


def _too_many(problem: str, column: str) -> DataError:
    """Complain about text that is hardly a category."""
    remedies: list[str | Setting] = [
        "leave it out with ", Setting("drop", [column]), ", say that it holds the queries with ", Setting("query", column),
        ", or insist with ", Setting("categorical", [column]),
    ]  # fmt: skip
    return DataError(f"{problem}, more likely ids than categories", remedies, "categorical")


class Coder:
    """Cells of a row as numbers, truth values as 1 and 0, text as places among the categories of its column.

    Parameters
    ----------
    labels, features : sequences of str
        Columns, in the order of the cells.
    known : mapping of str to Kind, optional
        Kinds of the features; those not in it are numbers. Without it they are seen from the cells.
    categorical : collection of str
        Columns whose numbers are names, too.
    """

    def __init__(
        self, labels: Sequence[str], features: Sequence[str], known: Mapping[str, Kind] | None, categorical: Collection[str] = ()
    ) -> None:
        self.columns = [*labels, *features]
        self.n_labels = len(labels)
        self._coders: list[Any] = [_Unknown(column, texts=False) for column in labels]
        for column in features:
            if column in categorical:
                self._coders.append(_Words(column, insisted=True))
            elif known is None:
                self._coders.append(_Unknown(column, texts=True))
            else:
                self._coders.append(_of_kind(column, known.get(column)))
        self.plain = all(coder is None for coder in self._coders)  # whether all are numbers, for certain

    def values(self, cells: Sequence[str], place: str) -> list[float] | None:
        """Numbers of a row, NaN where what a column holds is not yet known; None if a cell that must be a number is none."""
        try:
            return self._values(cells, place)
        except DataError:
            raise
        except ValueError:
            return None

    def _values(self, cells: Sequence[str], place: str) -> list[float]:
        found = []
        for k, cell in enumerate(cells):
            coder = self._coders[k]
            if coder is None:
                value = number(cell)
                if not math.isfinite(value):
                    raise ValueError(f"{cell!r} is not finite")
            else:
                value = coder.code(text := cell.strip(), place)
                if isinstance(coder, _Unknown) and coder.become is not False:
                    self._coders[k] = coder.become
                    if coder.become is not None:
                        value = coder.become.code(text, place)
            found.append(value)
        self.plain = all(coder is None for coder in self._coders)
        return found

    def column_values(self, k: int, texts: Sequence[str], row: int, name: str) -> Floats:
        """Numbers of the cells of one column that holds text, from this row on."""
        coder = self._coders[k]
        return np.array([coder.code(text.strip(), f"{name}, row {row + place + 1}") for place, text in enumerate(texts)])

    def settle(self, k: int, kind: Literal["number", "boolean", "text"]) -> None:
        """Say what a column holds, where that is not yet known: by its type in the file."""
        if isinstance(self._coders[k], _Unknown):
            column = self.columns[k]
            self._coders[k] = _Words(column) if kind == "text" else _Truth(column) if kind == "boolean" else None

    def is_coded(self, k: int) -> bool:
        """Whether the cells of a column need not be numbers."""
        return isinstance(self._coders[k], _Words | _Truth)

    def kind(self, k: int) -> Kind | None:
        """What a column is, None for numbers."""
        coder = self._coders[k]
        if isinstance(coder, _Words):
            return list(coder.places)
        return "boolean" if isinstance(coder, _Truth) else None

    def finish(self, name: str, codes: Floats) -> tuple[Floats, Encoding]:
        """Features and how they came about, from the codes of the features; warns about text never seen before."""
        features, coders = self.columns[self.n_labels :], self._coders[self.n_labels :]
        for k, (column, coder) in enumerate(zip(features, coders, strict=True)):
            if isinstance(coder, _Unknown):
                raise drop_column(f"{name}: column {column!r} has no value at all, every cell is missing", column)
            if isinstance(coder, _Words):
                coder.tell()
                coder.check(name, len(codes))
                # Cells before the first one that said what they are.
                for row, text in enumerate(coder.early):
                    codes[row, k] = coder.places[text]
        kinds = {column: kind for k, column in enumerate(features) if (kind := self.kind(self.n_labels + k)) is not None}
        encoding = Encoding(list(features), kinds)
        return encoding.spread(codes), encoding


def _of_kind(column: str, kind: Kind | None) -> Any:
    if kind is None:
        return None
    return _Truth(column) if kind == "boolean" else _Words(column, kind)


class _Unknown:
    """A column of which all cells so far were missing; ``become`` is what it turned out to be, None for numbers."""

    def __init__(self, column: str, *, texts: bool) -> None:
        self.column, self.texts = column, texts
        self.early: list[str] = []
        self.first = ""
        self.become: Any = False

    def code(self, text: str, place: str) -> float:
        lower = text.lower()
        if self.texts and lower in _MISSING:
            self.first = self.first or place
            self.early.append(text)
            return math.nan
        try:
            value, self.become = number(text), None
        except ValueError:
            self.become = _Truth(self.column) if lower in ("true", "false") else None
            if self.become is None and self.texts and any(map(str.isalpha, text)):
                self.become = _Words(self.column)
                self.become.early = self.early
                for other in self.early:
                    self.become.code(other, place)
            elif self.become is None:
                raise
            value = math.nan
        if self.early and not isinstance(self.become, _Words):
            problem = f"{self.first}: {self.column} {self.early[0]!r} is missing"
            raise drop_column(problem, self.column, "fill in what is missing, or leave out these rows, or the column: ")
        if self.become is None and not math.isfinite(value):
            raise ValueError(f"{text!r} is not finite")
        return value


class _Truth:
    def __init__(self, column: str) -> None:
        self.column = column

    def code(self, text: str, place: str) -> float:
        value = _TRUTH.get(text.lower())
        if value is None:
            raise DataError(
                f"{place}: {self.column} {text[:40]!r} is neither true nor false",
                ["correct it, or take its texts for categories with ", Setting("categorical", [self.column])],
                "categorical",
            )
        return value


class _Words:
    """Categories: those given, or as they appear."""

    def __init__(self, column: str, known: Sequence[str] | None = None, *, insisted: bool = False) -> None:
        self.column, self.growing, self.insisted = column, known is None, insisted
        self.places = {text: k for k, text in enumerate(known or ())}
        self.early: list[str] = []
        self.unseen: dict[str, int] = {}
        self.first = ""

    def code(self, text: str, place: str) -> float:
        found = self.places.get(text)
        if found is not None:
            return float(found)
        if self.growing:
            most = _MOST_INSISTED if self.insisted else _MOST
            if len(self.places) == most:
                problem = f"{place}: column {self.column!r} is text with more than {most:,} different values"
                raise drop_column(problem, self.column) if self.insisted else _too_many(problem, self.column)
            return float(self.places.setdefault(text, len(self.places)))
        self.first = self.first or f"{place}: {self.column} {text[:40]!r}"
        self.unseen[text] = self.unseen.get(text, 0) + 1
        return -1.0

    def check(self, name: str, n_rows: int) -> None:
        """Complain about text that is another one in most rows."""
        n = len(self.places)
        if self.growing and not self.insisted and n > max(_MANY, n_rows / 2):
            problem = f"{name}: column {self.column!r} is text with {n} different values in {n_rows} rows"
            raise _too_many(problem, self.column)

    def tell(self) -> None:
        if self.unseen:
            rows, others = sum(self.unseen.values()), len(self.unseen) - 1
            more = f"; {rows} rows have it or {others} others" if others else f"; {rows} rows have it" if rows > 1 else ""
            text = f"{self.first} is a category that was not seen in training, so it counts as none of them{more}"
            warn(text, UnseenCategoryWarning)
