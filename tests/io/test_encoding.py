"""Columns of text and truth values: one-hot, remembered, and what is new."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import OneHotEncoder

from maxmargin.io import DataError, Encoding, UnseenCategoryWarning, load_table

TEXT = b"y;colour;size;member\n1;red;2;True\n0;blue;3;false\n1;;4;TRUE\n0;red;5;false\n"


def test_text_is_one_hot_and_truth_is_one_or_zero():
    data = load_table(TEXT, "y")
    assert data.feature_names == ["colour=red", "colour=blue", "colour=", "size", "member"]
    assert data.X.tolist() == [[1, 0, 0, 2, 1], [0, 1, 0, 3, 0], [0, 0, 1, 4, 1], [1, 0, 0, 5, 0]]
    assert data.encoding == Encoding(["colour", "size", "member"], {"colour": ["red", "blue", ""], "member": "boolean"})
    assert load_table(b"y,a\ntrue,1\nfalse,2\n", "y").y.tolist() == [1, 0]


def test_the_same_encoding_for_other_samples():
    encoding = load_table(TEXT, "y").encoding
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_table(b"member,size,other,colour,y\n1,7,x,blue,0\n", "y", encoding=encoding)
    assert data.X.tolist() == [[0, 1, 0, 7, 1]]
    with pytest.warns(
        UnseenCategoryWarning, match=r"line 2: colour 'green' .* not seen in training.*; 3 rows have it or 1 others"
    ):
        data = load_table(b"member,size,colour,y\n0,7,green,0\n0,7,pink,0\n0,7,green,1\n", "y", encoding=encoding)
    assert data.X.tolist() == [[0, 0, 0, 7, 0]] * 3
    # A column of numbers stays one.
    with pytest.raises(DataError, match="line 2: size 'big' is not a number"):
        load_table(b"member,size,colour,y\n0,big,red,0\n", "y", encoding=encoding)


def test_columns_left_out_and_numbers_that_are_names():
    data = load_table(TEXT, "y", drop=["colour"], categorical=["size"])
    assert data.feature_names == ["size=2", "size=3", "size=4", "size=5", "member"]
    with pytest.raises(DataError, match="there is no column 'colr' for drop; the header has 'y', 'colour'"):
        load_table(TEXT, "y", drop=["colr"])
    with pytest.raises(DataError, match="column 'size' is needed, and drop leaves it out"):
        load_table(TEXT, "y", features=["size"], drop=["size"])
    with pytest.raises(DataError, match="is the label, the query or left out"):
        load_table(TEXT, "y", categorical=["y"])
    with pytest.raises(ValueError, match="leave out features, drop and categorical"):
        load_table(TEXT, "y", drop=["size"], encoding=data.encoding)
    assert load_table(b"qid,y,a\n1,1,2\n", "y", drop=["qid"]).feature_names == ["a"]
    with pytest.raises(TypeError, match=r"pass \['size'\]"):
        load_table(TEXT, "y", drop="size")
    many = b"y,name\n" + b"".join(b"1,name %d\n" % k for k in range(1001))
    with pytest.raises(DataError, match=r"line 202: column 'name' is text with more than 200 .*drop=\['name'\].*query='name'"):
        load_table(many, "y")
    assert len(load_table(many, "y", categorical=["name"]).feature_names) == 1001
    assert load_table(many, "y", query="name", features=[], split_queries="keep").X.shape == (1001, 0)
    for kinds, rows, fine in ((20, 20, True), (21, 42, True), (21, 41, False), (200, 400, True), (200, 399, False)):
        text = b"y,name\n" + b"".join(b"1,name %d\n" % (k % kinds) for k in range(rows))
        if fine:
            assert load_table(text, "y").X.shape == (rows, kinds)
        else:
            with pytest.raises(DataError, match=rf"{kinds} different values in {rows} rows, more likely ids"):
                load_table(text, "y")
        assert load_table(text, "y", categorical=["name"]).X.shape == (rows, kinds)
        # Other samples of the same columns may be few.
        encoding = load_table(text, "y", categorical=["name"]).encoding
        assert load_table(b"y,name\n1,name 3\n", "y", encoding=encoding).X.sum() == 1
    most = b"y,name\n" + b"".join(b"1,name %d\n" % k for k in range(10_001))
    with pytest.raises(DataError, match="more than 10,000 different values"):
        load_table(most, "y", categorical=["name"])


def test_missing_cells_before_the_first_that_says_what_it_is():
    data = load_table(b"y,a\n1,NA\n0,none\n1,b\n0,NA\n", "y")
    assert data.encoding.kinds == {"a": ["NA", "none", "b"]}
    assert data.X.argmax(axis=1).tolist() == [0, 1, 2, 0]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["a", "b", "c d", "é", "x1"]), st.integers(-9, 9)), min_size=1, max_size=12))
def test_as_a_known_encoder(rows):
    text = "y,w,n\n" + "".join(f"1,{word},{n}\n" for word, n in rows)
    data = load_table(text.encode(), "y")
    words = [[word] for word, _ in rows]
    order = list(dict.fromkeys(word for (word,) in words))
    expected = OneHotEncoder(categories=[order], sparse_output=False).fit_transform(words)
    np.testing.assert_array_equal(data.X, np.hstack([expected, [[n] for _, n in rows]]))


def test_parquet_has_the_same(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    columns = {"y": [1, 0, 1, 0], "colour": pa.array(["red", "blue", None, "red"]), "size": [2, 3, 4, 5]}
    columns |= {"member": [True, False, True, False]}
    for colour in (columns["colour"], columns["colour"].dictionary_encode()):
        pq.write_table(pa.table(columns | {"colour": colour}), tmp_path / "a.parquet", row_group_size=3)
        data, same = load_table(tmp_path / "a.parquet", "y"), load_table(TEXT, "y")
        assert data.encoding == same.encoding
        np.testing.assert_array_equal(data.X, same.X)
        again = load_table(tmp_path / "a.parquet", "y", encoding=same.encoding)
        np.testing.assert_array_equal(again.X, same.X)
