"""UAI files: Markov networks as the inference competitions exchange them.

A file names the kind of network, the number of variables and how many labels each one has, then the variables of every factor,
then a table for every factor whose last variable changes fastest. Tables hold potentials, which are multiplied: ``exp(-cost)``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np

from maxmargin._utils import Floats, Ints
from maxmargin.labeling.energy import MAX_LABELS, Energy

Values = Literal["potential", "cost"]
# exp(-cost) is an ordinary number for costs of this size.
_LARGEST_COST = 700.0


class UAIError(ValueError):
    """A file that is no UAI file, or not a whole one."""


def read_uai(path: str | Path, values: Values = "potential") -> Energy:
    """The energy of a Markov network with factors of one and two variables.

    Variables with fewer labels than others have the missing ones forbidden. A potential of 0 in the table of one variable forbids
    the label; in the table of two it becomes a cost greater than all others together. Factors without variables are constant, and
    are added to the costs of node 0.

    Parameters
    ----------
    path : str or Path
    values : {"potential", "cost"}
        Whether tables hold potentials, as the format says, or costs (negative logarithms), as some programs write them.
    """
    _check_values(values)
    try:
        words = _Words(Path(path).read_text(encoding="ascii").split(), str(path))
    except UnicodeDecodeError:
        raise UAIError(f"{path} is no UAI file: it holds other than plain characters") from None
    kind = words.take("the kind of network")
    if kind.upper() != "MARKOV":
        raise UAIError(f"{path} begins with {kind[:20]!r}; only MARKOV networks can be read")
    n = words.count("the number of variables", least=1)
    sizes = np.array([words.count(f"the number of labels of variable {i}", least=1, most=MAX_LABELS) for i in range(n)])
    scopes = _read_scopes(words, n)
    n_labels = int(sizes.max())
    try:
        return _read_costs(words, n, n_labels, sizes, scopes, values)
    except MemoryError:
        what = f"{n} variables of up to {n_labels} labels and {len(scopes)} factors"
        raise UAIError(f"{path} has {what}, more than the memory holds") from None


def _read_costs(words: _Words, n: int, n_labels: int, sizes: Ints, scopes: list[list[int]], values: Values) -> Energy:
    """The tables, and the energy they make."""
    unary = np.where(np.arange(n_labels) < sizes[:, None], 0.0, np.inf)
    pairs: list[list[int]] = []
    tables: list[Floats] = []
    for f, scope in enumerate(scopes):
        shape = tuple(int(sizes[i]) for i in scope)
        costs = _read_table(words, f, len(scopes), shape, values)
        if len(scope) == 0:
            unary[0] += float(costs)
        elif len(scope) == 1:
            unary[scope[0], : shape[0]] += costs
        else:
            table = np.zeros((n_labels, n_labels))
            table[: shape[0], : shape[1]] = costs
            pairs.append(scope)
            tables.append(table)
    words.end()
    shut = np.flatnonzero(np.isinf(unary).all(axis=1))
    if shut.size:
        raise UAIError(f"{words.path}: the factors of variable {shut[0]} alone give all of its labels a potential of 0")
    return Energy(unary, pairs, _stack(tables, unary) if tables else None)


def write_uai(path: str | Path, energy: Energy, values: Values = "potential") -> None:
    """Write an energy without cliques as a Markov network: a factor for every node, then one for every edge.

    Parameters
    ----------
    path : str or Path
    energy : Energy
    values : {"potential", "cost"}
        Write potentials ``exp(-cost)``, or the costs themselves, which few other programs read but which have no limits.
    """
    _check_values(values)
    if energy.cliques:
        raise ValueError("energy has cliques; UAI files are written for energies of nodes and edges only")
    tables = np.broadcast_to(energy.table, (len(energy.edges), *energy.table.shape[-2:])) * energy.weights[:, None, None]
    if values == "potential":
        for name, costs in (("unary", energy.unary), ("pairwise", tables)):
            large = np.isfinite(costs) & (np.abs(costs) > _LARGEST_COST)
            if large.any():
                at = tuple(map(int, np.argwhere(large)[0]))
                raise ValueError(
                    f"{name}[{', '.join(map(str, at))}] = {costs[at]:g} is too large to be written as exp(-cost); "
                    "divide all costs by a number, or pass values='cost'"
                )
    n = energy.n_nodes
    lines = ["MARKOV", str(n), " ".join([str(energy.n_labels)] * n), str(n + len(energy.edges))]
    lines += [f"1 {i}" for i in range(n)] + [f"2 {a} {b}" for a, b in energy.edges]
    for table in [*energy.unary, *tables]:
        entries = np.exp(-table) if values == "potential" else table
        lines += ["", str(entries.size)]
        lines += [" ".join(map(repr, row.tolist())) for row in np.atleast_2d(entries)]
    Path(path).write_text("\n".join(lines) + "\n", encoding="ascii")


class _Words:
    """The words of a file, one after the other; complains about one that is missing or not what was expected."""

    def __init__(self, words: list[str], path: str) -> None:
        self._words, self.path, self._at = words, path, 0

    def take(self, what: str) -> str:
        if self._at == len(self._words):
            raise UAIError(f"{self.path} ends before {what}; it is cut short, or no UAI file")
        self._at += 1
        return self._words[self._at - 1]

    def count(self, what: str, least: int = 0, most: int | None = None) -> int:
        word = self.take(what)
        # Python refuses to read numbers of thousands of digits.
        if not word.isdecimal() or len(word) > 20 or int(word) < least:
            raise UAIError(f"{self.path}: {what} is {word[:20]!r}, but must be an integer of at least {least}")
        if most is not None and int(word) > most:
            raise UAIError(f"{self.path}: {what} is {word}; at most {most} are possible")
        return int(word)

    def numbers(self, size: int, what: str) -> Floats:
        words = self._words[self._at : self._at + size]
        self._at += len(words)
        if len(words) < size:
            raise UAIError(f"{self.path} ends in {what}: {size - len(words)} of {size} numbers are missing; it is cut short")
        try:
            return np.array(words, dtype=np.float64)
        except ValueError:
            bad = next(word for word in words if not _is_number(word))
            raise UAIError(f"{self.path}: {bad[:20]!r} in {what} is no number") from None

    def end(self) -> None:
        if self._at < len(self._words):
            raise UAIError(f"{self.path} goes on after the last table, with {self._words[self._at][:20]!r}")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _check_values(values: Any) -> None:
    if values not in ("potential", "cost"):
        raise ValueError(f"values={values!r} is unknown; choose 'potential' or 'cost'")


def _read_scopes(words: _Words, n: int) -> list[list[int]]:
    n_factors = words.count("the number of factors")
    scopes = []
    for f in range(n_factors):
        size = words.count(f"the number of variables of factor {f}")
        if size > 2:
            raise UAIError(f"{words.path}: factor {f} has {size} variables; only factors of one and two can be read")
        scope = [words.count(f"a variable of factor {f}") for _ in range(size)]
        for i in scope:
            if i >= n:
                raise UAIError(f"{words.path}: factor {f} has variable {i}; they are numbered 0 to {n - 1}")
        if len(set(scope)) < size:
            raise UAIError(f"{words.path}: factor {f} has variable {scope[0]} twice")
        scopes.append(scope)
    return scopes


def _read_table(words: _Words, f: int, n_factors: int, shape: tuple[int, ...], values: Values) -> Floats:
    what = f"the table of factor {f} (of {n_factors})"
    size = words.count(f"the size of {what}")
    if size != int(np.prod(shape)):
        expected = " x ".join(map(str, shape)) or "1"
        raise UAIError(f"{words.path}: {what} has {size} entries, but its variables have {expected} labels")
    numbers = words.numbers(size, what).reshape(shape)
    if np.isnan(numbers).any() or (numbers == -np.inf).any():
        raise UAIError(f"{words.path}: {what} has an entry that is no cost or potential")
    if values == "cost":
        return numbers
    if (numbers < 0).any() or (numbers == np.inf).any():
        bad = numbers[(numbers < 0) | (numbers == np.inf)][0]
        raise UAIError(f"{words.path}: {what} has the potential {bad:g}; if these are costs, pass values='cost'")
    with np.errstate(divide="ignore"):
        return np.asarray(-np.log(numbers))


def _stack(tables: list[Floats], unary: Floats) -> Floats:
    """All tables, or one if they are equal; what is forbidden costs more than all the rest can differ."""
    stacked = np.stack(tables)
    forbidden = np.isinf(stacked)
    if forbidden.any():
        finite = np.where(forbidden, 0.0, stacked)
        spread = float(np.abs(finite).max(axis=(1, 2)).sum() + np.where(np.isinf(unary), 0.0, np.abs(unary)).max(axis=1).sum())
        stacked = np.where(forbidden, 1.0 + 2.0 * spread, stacked)
    return stacked[0] if (stacked == stacked[0]).all() else stacked
