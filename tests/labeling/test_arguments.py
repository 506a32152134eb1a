"""Arguments that are wrong, or empty, or unusual but right."""

import numpy as np
import pytest

from maxmargin.labeling import (
    HST,
    Cliques,
    Diameter,
    Energy,
    FunctionDiversity,
    Metric,
    PnPotts,
    UAIError,
    linkage_tree,
    minimize,
    minimum_cut,
    read_uai,
    shortest_paths,
)

CHAIN = Energy([[0, 2, 1], [1, 1, 0], [3, 0, 1]], edges=[(0, 1), (1, 2)], pairwise="potts")
TWO = Energy([[0, 2], [1, 1], [3, 0]], edges=[(0, 1), (1, 2)], pairwise="potts")


def test_the_shortest_of_equal_edges_counts():
    np.testing.assert_array_equal(shortest_paths(2, [(0, 1), (0, 1)], [1, 3]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(shortest_paths(2, [(0, 1), (1, 0)], [3, 1]), [[0, 1], [1, 0]])
    np.testing.assert_array_equal(shortest_paths(2, [], []), [[0, np.inf], [np.inf, 0]])
    for edges, lengths, message in (
        ([(0, 2)], [1.0], r"edges\[0\] = \(0, 2\) is out of range; labels are numbered 0 to 1"),
        ([(0, 1), (-1, 0)], [1.0, 1.0], r"edges\[1\] = \(-1, 0\)"),
        ([(0, 1)], [-1.0], r"lengths\[0\] = -1 must not be negative"),
        ([(0, 1)], [1.0, 2.0], "lengths has shape"),
        ([(0.5, 1)], [1.0], "edges must be integers"),
    ):
        with pytest.raises(ValueError, match=message):
            shortest_paths(2, edges, lengths)


@pytest.mark.parametrize("method", ["auto", "bp", "trws"])
@pytest.mark.parametrize("init", ["best", "unary", "constant"])
def test_messages_start_anywhere(method, init):
    found = minimize(CHAIN, method, init=init)
    assert found.certified and found.energy == minimize(CHAIN, "exhaustive").energy


def test_cliques_of_nothing_are_no_cliques():
    empty = [Cliques([], PnPotts()), Cliques([], Diameter("linear"))]
    energy = Energy(CHAIN.unary, CHAIN.edges, "potts", cliques=empty)
    assert energy.cliques == () and minimize(energy).method == "bp"
    assert minimize(energy, "trws").certified


def test_wrong_cliques():
    for node in (2**32, 2**63, -(2**40)):
        with pytest.raises(ValueError, match=rf"members\[0\] has node {node}"):
            Energy([[0, 1.0]] * 3, cliques=Cliques([np.array([node])], PnPotts()))
    for cost in (3.0, "potts", PnPotts):
        with pytest.raises((TypeError, ValueError), match="cost must be PnPotts or a Diversity"):
            Cliques([[0, 1]], cost)
    with pytest.raises(TypeError, match="weights must be real numbers"):
        Cliques([[0, 1]], PnPotts(), weights="a")
    with pytest.raises(TypeError, match="tree must be an HST, but is a str; make one by linkage_tree"):
        minimize(CHAIN, "hierarchical", tree="linkage")


@pytest.mark.parametrize("method", ["mincut", "exhaustive", "bp", "trws", "expansion", "swap", "cooccurrence", "parsimonious"])
def test_common_options_are_checked_everywhere(method):
    for options, message in (
        ({"max_sweeps": 1.5}, "max_sweeps=1.5 must be an integer of at least 1"),
        ({"max_sweeps": 0}, "max_sweeps=0"),
        ({"time_limit": "a"}, "time_limit='a' must be a positive number"),
        ({"time_limit": -1}, "time_limit=-1"),
        ({"random_state": -1}, "random_state=-1 must be an integer that is not negative"),
        ({"random_state": "a"}, "random_state='a'"),
        ({"init": "worst"}, "init='worst' is unknown"),
        ({"init": [0, 1, 2]}, "init has label 2 at node 2"),
    ):
        with pytest.raises(ValueError, match=message):
            minimize(TWO, method, **options)


def test_grids_and_lists_of_cliques_name_the_place():
    costs = np.zeros((3, 4, 2))
    costs[1, 2, 1] = np.nan
    with pytest.raises(ValueError, match=r"unary\[1, 2, 1\] = nan is no cost; use numbers, or inf to forbid a label"):
        Energy.grid(costs, "potts")
    costs[1, 2] = np.inf
    with pytest.raises(ValueError, match=r"unary\[1, 2\] forbids every label of the pixel; leave at least one finite"):
        Energy.grid(costs, "potts")
    weights = np.ones((2, 3, 4))
    weights[0, :, -1], weights[1, 1, 3] = np.nan, np.inf  # those of steps that leave the grid are not read
    with pytest.raises(ValueError, match=r"weights\[1, 1, 3\] = inf must be finite; 0 leaves the edge out"):
        Energy.grid(np.zeros((3, 4, 2)), "potts", weights=weights)
    with pytest.raises(ValueError, match=r"pairwise\[0, 1\] = nan must be finite"):
        Energy.grid(np.zeros((3, 4, 2)), [[0, np.nan], [1, 0]])
    some = [Cliques([[0, 1]], PnPotts()), Cliques([[0, 2], [0, 9]], PnPotts())]
    with pytest.raises(ValueError, match=r"cliques\[1\]: members\[1\] has node 9; nodes are numbered 0 to 2"):
        Energy(np.zeros((3, 2)), cliques=some)


def test_what_is_refused_has_a_remedy():
    steep = Metric("quadratic")
    with pytest.raises(ValueError, match="shortest_paths, or pass validate=False and choose the method 'cooccurrence'"):
        Energy(np.zeros((3, 3)), cliques=Cliques([[0, 1, 2]], Diameter(steep)))
    with pytest.raises(ValueError, match="shortest_paths, or pass validate=False and choose the method 'cooccurrence'"):
        Diameter(steep.table(3))
    # Both of what is said helps.
    a, b = np.triu_indices(3, 1)
    Diameter(shortest_paths(3, np.stack([a, b], axis=1), steep.table(3)[a, b]))
    doubtful = Energy(np.eye(3), cliques=Cliques([[0, 1, 2]], Diameter(steep, validate=False)))
    assert minimize(doubtful, "cooccurrence").energy == minimize(doubtful, "exhaustive").energy
    with pytest.raises(ValueError, match="lengths of shortest_paths are one"):
        linkage_tree(steep.table(3))
    with pytest.raises(ValueError, match=r"weights\[1\] = -1 of a clique must be .*; 0 leaves the clique out"):
        Cliques([[0, 1], [1, 2]], PnPotts(), [1, -1])
    with pytest.raises(ValueError, match=r"is no diversity.*Cardinality, Diameter, L1 and TreeLength are some"):
        Energy(np.zeros((3, 3)), cliques=Cliques([[0, 1]], FunctionDiversity(lambda labels: (len(labels) - 1) ** 3)))
    with pytest.raises(TypeError, match=r"labels must be integers, but has dtype float64; pass labels.astype\(int\)"):
        Energy(np.zeros((2, 2))).energy([0.0, 1.0])


def test_options_of_methods_are_named():
    with pytest.raises(TypeError, match=r"it takes 'tol'$"):
        minimize(CHAIN, "trws", colour=1)
    with pytest.raises(TypeError, match=r"it takes 'tree', 'n_jobs'$"):
        minimize(CHAIN, "hierarchical", colour=1)
    with pytest.raises(TypeError, match=r"it takes none$"):
        minimize(TWO, "mincut", colour=1)
    with pytest.raises(ValueError, match="connectivity=0 must be 4 or 8"):
        Energy.grid(np.zeros((2, 2, 2)), "potts", connectivity=0)


def test_interrupted_in_the_callback_of_a_cut():
    def stop(value, bound):
        raise KeyboardInterrupt

    found = minimize(TWO, "mincut", callback=stop)
    assert found.status == "interrupted" and found.energy == minimize(TWO, "exhaustive").energy


@pytest.mark.parametrize("count", ["40000", str(10**13), "9" * 5000])
def test_uai_files_with_too_many_labels(tmp_path, count):
    path = tmp_path / "many.uai"
    path.write_text(f"MARKOV 1 {count} 0")
    with pytest.raises(UAIError, match=r"many\.uai: the number of labels of variable 0"):
        read_uai(path)


def test_trees_of_no_nodes():
    with pytest.raises(TypeError, match="parents must be numbers of nodes, but has dtype float64"):
        HST([2.7, 2, -1], lengths=[1, 1, 0])


def test_integer_cuts_are_exact():
    large = 2**53 + 1
    cut = minimum_cut(2, [(0, 1)], [large], source=[2**60, 0], sink=[0, 2**60])
    assert cut.value == large and isinstance(cut.value, int)
    assert minimum_cut(2, [(0, 1)], np.array([large], np.uint64), [2**60, 0], [0, 2**60]).value == large
    assert minimum_cut(2, [(0, 1)], [2**62], [2**62, 0], [0, 2**62]).value == 2.0**62
