"""Markov networks from files and back."""

from itertools import product

import numpy as np
import pytest

from maxmargin.labeling import Energy, Metric, UAIError, minimize, read_uai, write_uai

# Three variables, the last with three labels; a constant, two factors of one variable, two of two, one of them backwards.
TEXT = """MARKOV
3
2 2 3
5
0
1 0
2 0 1
2 2 1
1 2

1
 2.0
2
 0.5 0.25
4
 1 2
 3 4
6
 1 2 3
 4 5 6
3 1 0 1
"""


def potential(y):
    """Of the network in TEXT, written out."""
    a, b, c = y
    return 2.0 * [0.5, 0.25][a] * [[1, 2], [3, 4]][a][b] * [[1, 2], [3, 4], [5, 6]][c][b] * [1, 0, 1][c]


def test_energies_are_negative_logarithms(tmp_path):
    path = tmp_path / "net.uai"
    path.write_text(TEXT)
    energy = read_uai(path)
    assert (energy.n_nodes, energy.n_labels) == (3, 3)
    for y in product(range(2), range(2), range(3)):
        with np.errstate(divide="ignore"):
            assert energy.energy(y) == pytest.approx(-np.log(potential(y)))
    assert np.isinf(energy.energy([2, 0, 0]))
    best = minimize(energy, "exhaustive")
    assert np.exp(-best.energy) == pytest.approx(max(potential(y) for y in product(range(2), range(2), range(3))))


@pytest.mark.parametrize("values", ["potential", "cost"])
def test_what_is_written_is_read(tmp_path, values):
    rng = np.random.default_rng(0)
    unary = rng.normal(size=(5, 3))
    unary[1, 2] = np.inf
    edges = [(0, 1), (4, 2), (1, 0)]
    for pairwise in (Metric("linear"), rng.normal(size=(3, 3, 3))):
        energy = Energy(unary, edges, pairwise, weights=rng.random(3))
        write_uai(tmp_path / "net.uai", energy, values)
        again = read_uai(tmp_path / "net.uai", values)
        for _ in range(20):
            y = rng.integers(0, 2, 5)
            assert again.energy(y) == pytest.approx(energy.energy(y), rel=1e-12)
        assert np.isinf(again.unary[1, 2])


def test_equal_tables_are_shared_and_impossible_pairs_dear(tmp_path):
    path = tmp_path / "net.uai"
    path.write_text("MARKOV 3 2 2 2 2 2 0 1 2 1 2 4 1 0.5 0.5 1 4 1 0.5 0.5 1")
    assert read_uai(path).table.shape == (2, 2)
    path.write_text("MARKOV 2 2 2 3 1 0 1 1 2 0 1 2 1 1e-9 2 1e-9 1 4 0 1 1 0")
    energy = read_uai(path)
    assert sorted(map(energy.energy, product(range(2), repeat=2)))[1] < energy.energy([0, 0])


def test_files_that_end_early_are_told(tmp_path):
    path = tmp_path / "net.uai"
    words = TEXT.split()
    for length in range(len(words)):
        path.write_text(" ".join(words[:length]))
        with pytest.raises(UAIError, match=r"ends (before|in) .*cut short"):
            read_uai(path)
    path.write_text(" ".join(words[:-2]))
    with pytest.raises(UAIError, match=r"ends in the table of factor 4 \(of 5\): 2 of 3 numbers are missing"):
        read_uai(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("BAYES 1 2 0", "begins with 'BAYES'; only MARKOV"),
        ("MARKOV x", "the number of variables is 'x'"),
        ("MARKOV 1 0 0", "labels of variable 0 is '0'"),
        ("MARKOV 3 2 2 2 1 3 0 1 2", "factor 0 has 3 variables"),
        ("MARKOV 2 2 2 1 2 0 2", "factor 0 has variable 2; they are numbered 0 to 1"),
        ("MARKOV 2 2 2 1 2 1 1", "factor 0 has variable 1 twice"),
        ("MARKOV 1 2 1 1 0 3 1 1 1", r"the table of factor 0 \(of 1\) has 3 entries, but its variables have 2 labels"),
        ("MARKOV 1 2 1 1 0 2 1 one", "'one' in the table of factor 0"),
        ("MARKOV 1 2 1 1 0 2 1 -1", "has the potential -1; if these are costs"),
        ("MARKOV 1 2 1 1 0 2 1 nan", "no cost or potential"),
        ("MARKOV 1 2 1 1 0 2 0 0", "give all of its labels a potential of 0"),
        ("MARKOV 1 2 1 1 0 2 1 1 7", "goes on after the last table, with '7'"),
    ],
)
def test_files_that_are_wrong_are_told(tmp_path, text, message):
    path = tmp_path / "net.uai"
    path.write_text(text)
    with pytest.raises(UAIError, match=message):
        read_uai(path)


def test_other_errors(tmp_path):
    path = tmp_path / "net.uai"
    path.write_bytes(b"\x89PNG\xff")
    with pytest.raises(UAIError, match="no UAI file"):
        read_uai(path)
    with pytest.raises(ValueError, match=r"unary\[0, 1\] = 1000 is too large to be written as exp"):
        write_uai(path, Energy([[0, 1000.0]]))
    with pytest.raises(ValueError, match="values='log' is unknown"):
        write_uai(path, Energy([[0, 1.0]]), "log")
