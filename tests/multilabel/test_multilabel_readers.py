"""ARFF files of Mulan, MEKA and Clus, and svmlight files with lists of labels."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from maxmargin.hierarchy import load_hierarchical
from maxmargin.io import DataError, read_arff
from maxmargin.multilabel import load_multilabel, load_multilabel_svmlight, read_label_names

DATA = Path(os.environ.get("MAXMARGIN_DATA", Path(__file__).parents[3] / "shared" / "data"))


def file_of(*parts):
    path = DATA.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{'/'.join(parts)} is not there; set MAXMARGIN_DATA to the folder that has it")
    return path


HEADER = """% a comment
@RELATION 'm: -C 2 -x'

@attribute "label a" {0,1}
@attribute l\\'b {1, 0}
@ATTRIBUTE\tsize\tREAL
@attribute colour {red, 'dark blue', "it's", '?x'}
@attribute flag {no,yes}
@data
"""


def meka(rows, header=HEADER):
    return (header + rows).encode()


def test_dense_rows_with_nominal_missing_and_quoted_values():
    text = meka("0,1, -1.5e1,'dark blue',yes\n% in between\n1,0,?,\"it's\",?\n0,0,2,?,no\n")
    data = load_multilabel(text, missing="nan")
    assert data.label_names == ["label a", "l\\'b"]
    assert data.Y.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert data.feature_names == ["size", "colour=red", "colour=dark blue", "colour=it's", "colour=?x", "flag"]
    np.testing.assert_array_equal(
        data.X, [[-15, 0, 1, 0, 0, 1], [np.nan, 0, 0, 1, 0, np.nan], [2, np.nan, np.nan, np.nan, np.nan, 0]]
    )
    filled = load_multilabel(text, missing="mean")
    np.testing.assert_array_equal(filled.X[1], [-6.5, 0, 0, 1, 0, 0.5])
    np.testing.assert_array_equal(filled.X[2], [2, 0, 0.5, 0.5, 0, 0])


def test_sparse_rows_mean_the_first_value_by_what_they_leave_out():
    dense = meka("1,1,3,red,no\n0,0,0,'dark blue',no\n0,1,0,red,yes\n")
    # l'b declares 1 first: leaving it out says 1, as leaving out the colour says red.
    sparse = meka("{0 1,2 3}\n{1 0, 3 'dark blue'}\n{4 yes}\n")
    one, other = load_multilabel(dense), load_multilabel(sparse)
    np.testing.assert_array_equal(one.X, other.X.toarray())
    np.testing.assert_array_equal(one.Y, other.Y.toarray())
    assert other.X.format == other.Y.format == "csr"
    assert load_multilabel(meka("{}\n")).X.toarray().tolist() == [[0, 1, 0, 0, 0, 0]]


def test_two_values_that_are_numbers_are_these_numbers():
    header = "@relation r\n@attribute a {1,0}\n@attribute b {-1,1}\n@attribute y {0,1}\n@data\n"
    assert load_multilabel(meka("1,-1,1\n0,1,0\n", header), -1).X.tolist() == [[1, -1], [0, 1]]
    assert load_multilabel(meka("{}\n{0 0,1 1}\n", header), ["y"]).X.toarray().tolist() == [[1, -1], [0, 1]]


def test_which_attributes_are_labels(tmp_path):
    header = "@relation plain\n@attribute a numeric\n@attribute b {0,1}\n@attribute c numeric\n@data\n"
    text = meka("0.5,1,0\n2,0,1\n", header)
    for labels in (-2, ["b", "c"], b'<labels><label name="b"><label name="c"/></label></labels>'):
        data = load_multilabel(text, labels)
        assert (data.label_names, data.Y.tolist(), data.X.ravel().tolist()) == (["b", "c"], [[1, 0], [0, 1]], [0.5, 2.0])
    (tmp_path / "birds.arff.gz").write_bytes(gzip.compress(text))
    with pytest.raises(DataError, match=r"birds.arff.gz: neither the name of the relation.*pass labels="):
        load_multilabel(tmp_path / "birds.arff.gz")
    (tmp_path / "birds.xml").write_bytes(b'<labels><label name="c"/></labels>')
    assert load_multilabel(tmp_path / "birds.arff.gz", ignore=["b"]).label_names == ["c"]
    # Order of the XML file, not of the header.
    assert load_multilabel(text, ["c", "b"]).Y.tolist() == [[0, 1], [1, 0]]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0,1,2,red,no,7\n", r"line 10: a row of 6 values is too many for the 5 attributes.*correct"),
        ("0,1,2,red\n", "line 10: a row of 4 values is too few for the 5 attributes"),
        ("0,1,2,green,no\n", "line 10: attribute 'colour' has the value 'green', which is not declared"),
        ("\n0,1,two,red,no\n", "line 11: attribute 'size' has the value 'two'; a number is needed"),
        ("0,1,inf,red,no\n", "line 10: attribute 'size' has the value 'inf'; it must be finite"),
        ("0,1,1_000,red,no\n", "'1_000'; a number is needed"),
        ("?,1,1,red,no\n", "attribute 'label a' has the value '\\?'; a label is 0 or 1"),
        ("0,1,?,red,no\n", "line 10: a feature is missing.*missing='mean'"),
        ("0,1,1,'red,no\n", "line 10: quotes in"),
        ("{2 1, 2 3}\n", "line 10: index 2 follows 2; indices of a sparse row must rise"),
        ("{5 1}\n", "line 10: index 5 is too large for 5 attributes"),
        ("{2 1\n", "line 10: a sparse row that begins with '{' must end in '}'"),
        ("{2}\n", "line 10: '2' is no entry of a sparse row"),
        ("{x 1}\n", "line 10: 'x 1' is no entry of a sparse row"),
        ("", "holds no rows after @data"),
    ],
)
def test_bad_rows_are_told_with_their_line(rows, message):
    with pytest.raises(DataError, match=message):
        load_multilabel(meka(rows))


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("@relation r\n", "no line @data"),
        ("@relation r\n@data\n1\n", "declares no attribute"),
        ("@relation r\n@attribute a\n@data\n1\n", "line 2: an attribute needs a name and a type"),
        ("@relation r\n@attribute a what\n@data\n1\n", "line 2: attribute 'a' has the type 'what'; known are numeric"),
        ("@relation r\n@attribute a {0,1\n@data\n1\n", "line 2: the values of attribute 'a' do not end"),
        ("@relation r\n@attribute a {0,0}\n@data\n1\n", "line 2: attribute 'a' declares a value more than once"),
        ("@relation r\n@attribute a real\n@attribute a real\n@data\n1,1\n", "2 attributes are called 'a'"),
        ("@relation r\nhello\n@data\n1\n", "line 2: 'hello' is not a line of an ARFF header"),
        ("@relation '-C 1'\n@attribute a string\n@attribute b real\n@data\nx,1\n", "'a' is to be a label, but its values"),
        ("@relation '-C 1'\n@attribute a real\n@attribute b string\n@data\n1,x\n", "leave it out with ignore=\\['b'\\]"),
        ("@relation '-C 1'\n@attribute a real\n@attribute b real\n@data\n0.5,1\n", "line 5: attribute 'a' has the value '0.5'"),
        ("@relation '-C 2'\n@attribute a real\n@attribute b real\n@data\n1,1\n", "2 labels are declared for 2 attributes"),
    ],
)
def test_bad_headers(header, message):
    with pytest.raises(DataError, match=message):
        load_multilabel(header.encode())


def test_bad_names_and_label_files():
    with pytest.raises(DataError, match="no attribute 'z', which labels names"):
        load_multilabel(meka("0,1,2,red,no\n"), ["z"])
    with pytest.raises(DataError, match="not a sound XML file"):
        read_label_names(b"<labels>")
    with pytest.raises(DataError, match="has no labels"):
        read_label_names(b"<labels/>")
    with pytest.raises(ValueError, match="missing='what' must be"):
        load_multilabel(meka("0,1,2,red,no\n"), missing="what")


def test_trees_imply_what_lies_above_a_path():
    header = "@relation r\n@attribute a real\n@attribute class hierarchical 1/2/3, 2\n@data\n"
    data = load_hierarchical(meka("1,1/2/3@2@2\n2,?\n3,1/2\n", header))
    assert data.nodes == ["1", "1/2", "1/2/3", "2"]
    assert data.edges == [("root", "1"), ("1", "1/2"), ("1/2", "1/2/3"), ("root", "2")]
    assert data.label_sets == [("1/2/3", "2"), (), ("1/2",)]
    assert data.indicator().toarray().tolist() == [[1, 1, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]]
    assert data.indicator(ancestors=False).toarray().tolist() == [[0, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]]


def test_pairs_are_edges_of_a_dag_if_rows_name_their_ends():
    header = "@relation r\n@attribute a real\n@attribute class hierarchical root/p,root/q,p/x,q/x,u/x\n@data\n"
    data = load_hierarchical(meka("1,x\n2,q@root\n", header))
    assert data.nodes == ["p", "q", "x", "u"]
    assert data.edges == [("root", "u"), ("root", "p"), ("root", "q"), ("p", "x"), ("q", "x"), ("u", "x")]
    assert data.label_sets == [("x",), ("q",)]
    assert data.indicator().toarray().tolist() == [[1, 1, 1, 1], [0, 1, 0, 0]]
    tree = load_hierarchical(meka("1,root/p\n", header))
    assert ("root", "root") in tree.edges and tree.label_sets == [("root/p",)]


def test_a_label_outside_the_hierarchy_is_told_with_its_line():
    header = "@relation r\n@attribute a real\n@attribute class hierarchical 1,1/2\n@data\n"
    with pytest.raises(DataError, match="line 6: the label '1/3' is not a node of the hierarchy that attribute 'class' declares"):
        load_hierarchical(meka("1,1/2\n2,1@1/3\n", header))
    with pytest.raises(DataError, match="has 0 attributes of the type hierarchical"):
        load_hierarchical(meka("0,1,2,red,no\n"))


def test_svmlight_lists_of_labels():
    data = load_multilabel_svmlight(b"2,10 1:0.5 3:1 # c\n\n 2:2\n1:1\n10\n", n_features=4, label_names=["10", "3", "2"])
    assert data.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [1, 0, 0]]
    assert data.X.toarray().tolist() == [[0.5, 0, 1, 0], [0, 2, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    for text, message in (
        (b"1 0:1\n", "line 1: feature index 0 is not above 0"),
        (b"1 2:1 2:1\n", "line 1: feature index 2 is not above 2"),
        (b"1 2\n", "value '' of a feature is not a number"),
        (b"1 a:2\n", "'a:2' is not a feature"),
        (b"1 1:nan\n", "is not finite"),
        (b"\n", "holds no samples"),
    ):
        with pytest.raises(DataError, match=message):
            load_multilabel_svmlight(text)
    with pytest.raises(DataError, match="line 1: feature index 3 is beyond n_features=2"):
        load_multilabel_svmlight(b"1 3:1\n", n_features=2)
    with pytest.raises(DataError, match="'1', which is not in label_names"):
        load_multilabel_svmlight(b"1 3:1\n", label_names=["2"])


def test_files_of_mulan_meka_and_clus():
    folder = file_of("multilabel_emotions", "emotions.xml").parent
    emotions = load_multilabel(folder / "emotions-train.arff.gz", folder / "emotions.xml")
    assert emotions.X.shape == (391, 72) and round(emotions.Y.sum() / 391, 3) == 1.813
    scene = load_multilabel(file_of("multilabel_scene", "scene.arff.bz2"))
    assert scene.X.shape == (2407, 294) and scene.label_names[0] == "beach" and round(scene.Y.mean(axis=0).sum(), 2) == 1.07
    yeast = load_multilabel_svmlight(file_of("multilabel_yeast", "yeast_train.svm.gz"))
    assert yeast.X.shape == (1500, 103) and yeast.label_names == [str(k) for k in range(14)]
    funcat = load_hierarchical(file_of("hier_yeast_funcat", "cellcycle_FUN.valid.arff.gz"))
    assert funcat.X.shape == (848, 77) and np.isfinite(funcat.X).all() and len(funcat.nodes) == 499


def test_scipy_reads_the_same_numbers():
    arff = pytest.importorskip("scipy.io.arff")
    path = file_of("multilabel_emotions", "emotions-test.arff.gz")
    with gzip.open(path, "rt") as file:
        rows, _ = arff.loadarff(file)
    table = read_arff(path)
    ours = load_multilabel(path, -6)
    theirs = np.array([[float(row[name]) for name in ours.feature_names] for row in rows])
    assert len(table.rows) == len(rows)
    np.testing.assert_array_equal(ours.X, theirs)
