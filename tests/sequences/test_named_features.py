"""Names of features to columns, against scikit-learn's vectoriser."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction import DictVectorizer

from maxmargin.sequences.named_features import FeatureNames, are_named

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["a", "b", "a=b", "word", "w" * 40])
VALUE = st.one_of(
    st.floats(-1e6, 1e6, allow_nan=False), st.integers(-5, 5), st.booleans(), TEXT, st.lists(TEXT, max_size=3), st.just(1.0)
)
BLOCKS = st.lists(st.lists(st.dictionaries(TEXT, VALUE, max_size=6), max_size=4), min_size=1, max_size=5)


def in_order_of(names, vectorizer):
    return np.array([vectorizer.vocabulary_[name] for name in names], dtype=int)


@settings(max_examples=150, deadline=None)
@given(BLOCKS, BLOCKS, st.booleans())
def test_equals_the_vectorizer_of_scikit_learn(train, test, constant):
    rows = [row for block in train for row in block]
    # It wants a feature at least.
    rows.append({"there": 1.0})
    vectorizer = DictVectorizer().fit(rows)
    names = FeatureNames()
    X, offsets = names.encode([*train, [{"there": 1.0}]], growing=True, constant=constant)
    assert sorted(names.array()) == vectorizer.feature_names_
    assert offsets.tolist() == np.cumsum([0, *map(len, train), 1]).tolist()
    at = in_order_of(names.array(), vectorizer)
    for found, own in ((X, rows), (names.encode(test, constant=constant)[0], [row for block in test for row in block])):
        dense = found.toarray()
        if constant:
            np.testing.assert_array_equal(dense[:, -1], 1.0)
            dense = dense[:, :-1]
        expected = vectorizer.transform(own).toarray()[:, at] if own else np.zeros((0, len(at)))
        np.testing.assert_allclose(dense, expected)
        assert all((np.diff(found.indices[a:b]) > 0).all() for a, b in zip(found.indptr[:-1], found.indptr[1:], strict=True))
    # The way of names through a file.
    again = FeatureNames(names.array())
    np.testing.assert_array_equal(again.encode(test)[0].toarray(), names.encode(test)[0].toarray())


def test_lists_of_names_are_indicators_in_any_process():
    names = FeatureNames()
    X, _ = names.encode([[["b", "a"], ("a", "c"), {"e", "d", "b"}], [[], frozenset("a")]], growing=True)
    assert X.dtype == np.bool_ and names.array().tolist() == ["b", "a", "c", "d", "e"]
    rows = [[1, 1, 0, 0, 0], [0, 1, 1, 0, 0], [1, 0, 0, 1, 1], [0, 0, 0, 0, 0], [0, 1, 0, 0, 0]]
    assert X.toarray().astype(int).tolist() == rows
    # A name twice counts twice, and then there are numbers.
    assert names.encode([[["a", "a"]]])[0].toarray().tolist() == [[0.0, 2.0, 0.0, 0.0, 0.0]]


def test_values_of_all_kinds_and_names_that_are_no_text():
    names = FeatureNames()
    row = {"f32": np.float32(0.5), "i": np.int64(3), "no": False, 7: 2, "\ud800": 1, "many": 2**70}
    X, _ = names.encode([[row]], growing=True)
    assert dict(zip(names.array(), X.toarray()[0], strict=True)) == {
        "f32": 0.5, "i": 3.0, "no": 0.0, "7": 2.0, "\ud800": 1.0, "many": 2.0**70,
    }  # fmt: skip
    assert FeatureNames(names.array()).encode([[["\ud800"]]])[0].toarray()[0].tolist() == [0, 0, 0, 0, 1, 0]
    # A block that is made on the spot, and a mapping that is no dictionary.
    from types import MappingProxyType

    assert names.encode(iter([MappingProxyType({"i": k})]) for k in (1, 2))[0].toarray()[:, 1].tolist() == [1.0, 2.0]


def test_many_names_keep_their_columns():
    words = [f"word {k * 7919 % 30011}" for k in range(30011)]
    names = FeatureNames(words)
    X, _ = names.encode([[[word] for word in words]])
    np.testing.assert_array_equal(X.indices, np.arange(len(words)))
    assert names.encode([[[f"{word}?" for word in words]]])[0].nnz == 0


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"a": None}, "^1 has None for a; leave such features out"),
        ({"a": {"b": 1}}, "^1 has a dictionary for a; features are numbers, text, or lists of text"),
        ({"a": [1.0]}, r"^1 has 1.0 in the list of a; lists are of text"),
        ({"a": object}, "^1 has <class 'object'> for a"),
        ({"\udc80é": None}, r"^1 has None for \\udc80é; leave"),
        ({"\udc80": ["b", 1]}, r"^1 has 1 in the list of \\udc80; lists"),
        ({"a": 1j}, "^1 has 1j for a; features are numbers"),
        ("text", "^1 holds the text 'text' where the features of one place"),
        ([1.0], "^1 holds 1.0 in a list of names, which must be text"),
        (3, "^1 holds 3; features are a dictionary"),
    ],
)
def test_bad_rows(row, message):
    with pytest.raises(TypeError, match=message):
        FeatureNames().encode([[{"a": 1}], [row]], growing=True)


@pytest.mark.parametrize("block", [None, 5])
def test_bad_blocks(block):
    with pytest.raises(TypeError, match=f"^1 is {block}; a list with the features of every place is needed"):
        FeatureNames().encode([[{"a": 1}], block], growing=True)


def test_other_errors():
    with pytest.raises(ValueError, match="feature 'a' is there twice"):
        FeatureNames(["a", "b", "a"])

    def broken():
        yield {"a": 1}
        raise LookupError("of the user's own")

    with pytest.raises(LookupError, match="own"):
        FeatureNames().encode([broken()], growing=True)


def test_what_counts_as_named():
    assert are_named([{}]) and are_named([set("ab"), []]) and are_named(np.array([{"a": 1}], dtype=object))
    assert not are_named([]) and not are_named([[]]) and not are_named([[1.0]]) and not are_named(np.ones((2, 2)))
    assert not are_named([{"a": 1}, [1.0]])
