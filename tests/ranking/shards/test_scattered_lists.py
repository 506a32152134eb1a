"""One list over shards: the same ranking, loss and hinge as on one machine, wherever the list is cut."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.cases.brute_force import largest_hinge
from tests.cases.scattered_cases import Shards, ranked_by, scattered

import maxmargin as mm
from maxmargin import _core
from maxmargin.ranking import RankingLoss, ranking_loss
from maxmargin.ranking.shards import ScatteredList, list_inference
from maxmargin.ranking.shards.list_shard import ListPart, Scores

LOSSES = ["ap", "ndcg", "auc", "mrr", "rbp", "ndcg@3", "ap@2", "p@2", "recall@4"]
KINDS = {
    "normal": lambda rng, n: rng.normal(size=n),
    "cauchy": lambda rng, n: rng.standard_cauchy(n),
    "log-normal": lambda rng, n: np.exp(3 * rng.normal(size=n)),
    "twenty values": lambda rng, n: rng.integers(0, 20, n) * 0.1,
    "rounded": lambda rng, n: rng.normal(size=n).round(2),
    "two values": lambda rng, n: rng.integers(0, 2, n) * 1.0,
    "sorted": lambda rng, n: np.sort(rng.normal(size=n)),
    "close": lambda rng, n: 1 + 1e-12 * rng.normal(size=n),
    "constant": lambda rng, n: np.full(n, 0.3),
    "subnormal": lambda rng, n: 5e-324 * rng.integers(0, 9, n),
}


def check(shards, found, scores, relevant, loss, scale=1.0):
    """Equal to the kernel for one machine: in every entry, or within ties as often."""
    whole = mm.most_violating_ranking(scores, relevant, loss, loss_scale=scale)
    assert found.loss == whole.loss
    gradient = shards.gradient(found.unit)
    mine, theirs = (np.lexsort((g, scores, relevant)) for g in (gradient, whole.gradient))
    np.testing.assert_allclose(gradient[mine], whole.gradient[theirs], rtol=1e-12, atol=0)
    centred = np.asarray(scores, dtype=float) - np.mean(scores)
    exact = math.fsum([*(gradient * centred).tolist(), scale * found.loss])
    assert found.hinge == pytest.approx(max(0.0, exact), rel=1e-12, abs=1e-12 * (1 + np.abs(gradient) @ np.abs(centred)))


@st.composite
def cut_lists(draw):
    """Short lists with ties and extreme scores, both classes, and where to cut them: shards may be empty."""
    n = draw(st.integers(2, 30))
    relevant = draw(arrays(np.bool_, n).filter(lambda truth: truth.any() and not truth.all()))
    values = draw(st.sampled_from([st.integers(-3, 3).map(float), st.floats(-4, 4), st.floats(-1e200, 1e200)]))
    return draw(arrays(np.float64, n, elements=values)), relevant, draw(st.lists(st.integers(0, n), max_size=6))


@settings(max_examples=150, deadline=None)
@given(case=cut_lists(), loss=st.sampled_from(LOSSES), scale=st.sampled_from([1.0, 0.0, 0.125, 16.0]))
@example((np.zeros(4), np.array([True, False, False, True]), [0, 0, 2, 4]), "ap", 1.0)
@example((np.array([1.0, 0.0]), np.array([True, False]), [1]), "ap", 1.0)
def test_wherever_short_lists_are_cut(case, loss, scale):
    scores, relevant, cuts = case
    check(*scattered(scores, relevant, cuts, loss, scale), scores, relevant, loss, scale)


@pytest.mark.parametrize("loss", ["ap", "ndcg", "mrr", "auc"])
def test_every_cut_of_every_small_list_equals_enumeration(loss):
    values = [0.0, 0.5, 1.0]
    rng = np.random.default_rng(0)
    for relevant in itertools.product([False, True], repeat=4):
        if not any(relevant) or all(relevant):
            continue
        scores = rng.choice(values, size=4)
        best = largest_hinge(loss, scores, np.array(relevant))
        for cuts in itertools.combinations_with_replacement(range(5), 2):
            assert scattered(scores, relevant, cuts, loss)[1].hinge == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("positives", [1, 40, 3000])
def test_long_lists(kind, positives, monkeypatch):
    rng = np.random.default_rng([len(kind), positives])
    n = 12_000
    scores, relevant = KINDS[kind](rng, n), np.zeros(n, dtype=bool)
    relevant[rng.choice(n, positives, replace=False)] = True
    scores[relevant] += rng.choice([0, 1])
    monkeypatch.setattr(list_inference, "_UNDECIDED", int(rng.choice([0, 65_536])))
    loss = str(rng.choice(LOSSES))
    check(*scattered(scores, relevant, rng.integers(0, n, 3), loss, n_threads=2), scores, relevant, loss)


@pytest.mark.parametrize("n", [300, 30_000])
@pytest.mark.parametrize("kind", ["twenty values", "rounded", "normal"])
def test_the_number_of_shards_changes_nothing_not_even_who_of_a_tie_is_where(kind, n):
    rng = np.random.default_rng(8)
    scores, relevant = KINDS[kind](rng, n), rng.random(n) < 0.05
    (whole, found), *others = (scattered(scores, relevant, rng.integers(0, n, k - 1)) for k in (1, 2, 3, 7))
    for shards, other in others:
        np.testing.assert_array_equal(shards.gradient(other.unit), whole.gradient(found.unit))
        assert other.loss == found.loss and other.hinge == pytest.approx(found.hinge, rel=1e-13)


def test_buckets_of_the_last_time_save_a_round_until_they_do_not_part_the_scores():
    rng = np.random.default_rng(3)
    n = 40_000
    scores, change, relevant = rng.normal(size=n), rng.normal(size=n), np.arange(n) % 1000 == 0
    shards = Shards(np.zeros(n), relevant, [10_000, 25_000])
    lists = ScatteredList(ranking_loss("ap"), shards.n_pos, shards.n_neg)
    rounds = []
    for place in (None, 0.0, 0.01, 0.02, 1e4, 1.01e4):
        shards.move(np.zeros(n) if place is None else scores + place * change)
        shards.asked.clear()
        check(shards, ranked_by(lists.find(), shards), shards.scores, relevant, "ap")
        rounds.append(shards.asked[:])
    assert rounds[0] == ["look", "place_equal"]
    assert rounds[1] == ["look", "count", "write", "place"]
    assert rounds[2] == rounds[3] == rounds[5] == ["look", "write", "place"]
    assert rounds[4] == ["look", "sample", "count", "write", "place"]


def test_many_undecided_are_split_before_they_are_sent(monkeypatch):
    rng = np.random.default_rng(4)
    n = 20_000
    # A third of them is in one bucket.
    scores, relevant = np.where(rng.random(n) < 0.3, 1 + 1e-5 * rng.normal(size=n), rng.normal(size=n)), rng.random(n) < 0.3
    monkeypatch.setattr(list_inference, "_UNDECIDED", 0)
    monkeypatch.setattr(ScatteredList, "_most", lambda self, shards: 10)
    shards, found = scattered(scores, relevant, [7_000], "ap")
    assert {"split", "decide", "undecided"} <= set(shards.asked)
    check(shards, found, scores, relevant, "ap")


@pytest.mark.parametrize("loss", ["ap", "ndcg", "auc", "ap@2"])
def test_where_nearly_all_are_below_a_floor_two_rounds_do(loss):
    rng = np.random.default_rng(8)
    n, base = 120_000, ["look", "count", "write", "place"]
    relevant = rng.random(n) < 2e-4
    scores = rng.normal(size=n) + 7 * relevant
    shards = Shards(scores, relevant, [40_000, 40_000, 90_000])
    ranking = ScatteredList(ranking_loss(loss), shards.n_pos, shards.n_neg)
    moved = scores + 0.01 * rng.normal(size=n)
    tied = scores.round(1)
    above = np.where(relevant, scores - 6, scores)  # not below any more: the proof fails, or too many are kept
    places = [scores, moved, tied, moved, above, scores, moved, np.zeros(n), scores, 100 * scores]
    asked = []
    for place in places:
        shards.asked.clear()
        shards.move(place)
        check(shards, ranked_by(ranking.find(), shards), place, relevant, loss)
        asked.append([operation for operation in shards.asked if operation not in ("split", "decide", "undecided")])
    assert asked[0] == base
    assert asked[1] == asked[2] == asked[3] == ["look", "place"]
    assert asked[4][1:] != ["place"]
    assert asked[6] == ["look", "place"]
    assert asked[7] == ["look", "place_equal"]


@settings(max_examples=60, deadline=None)
@given(
    scores=arrays(np.float64, 40, elements=st.one_of(st.integers(-3, 3).map(float), st.floats(-4, 4))),
    cuts=st.lists(st.integers(0, 40), max_size=4),
    floor=st.one_of(st.integers(-5, 5).map(float), st.floats(-5, 5), st.just(1e300), st.just(-1e300)),
    loss=st.sampled_from(LOSSES),
)
def test_no_floor_is_believed_without_a_proof(scores, cuts, floor, loss):
    relevant = np.arange(40) % 5 == 0
    scores = scores + 4.0 * relevant
    shards = Shards(scores, relevant, cuts)
    ranking = ScatteredList(ranking_loss(loss), shards.n_pos, shards.n_neg)
    ranking.begin_with(np.array([0.0, floor]))
    assert ranking.guess().tolist() == [0.0, floor]
    check(shards, ranked_by(ranking.find(), shards), scores, relevant, loss)


def test_nothing_as_long_as_the_list_is_sent():
    rng = np.random.default_rng(5)
    n = 200_000
    scores, relevant = rng.normal(size=n), np.zeros(n, dtype=bool)
    relevant[rng.choice(n, 100, replace=False)] = True
    shards = Shards(scores, relevant, [100_000])
    sent = 0

    def counted(operation, args):
        nonlocal sent
        replies = shards(operation, args)
        sent += sum(size_of(args[k] if isinstance(args, list) else args) + size_of(reply) for k, reply in enumerate(replies))
        return replies

    ranked_by(ScatteredList(ranking_loss("ap"), shards.n_pos, shards.n_neg).find(), counted)
    assert sent < 0.1 * scores.nbytes


def size_of(message):
    """Bytes of the arrays in a message."""
    if isinstance(message, np.ndarray):
        return message.nbytes
    parts = message.values() if isinstance(message, dict) else message if isinstance(message, tuple | list) else ()
    return sum(map(size_of, parts))


class Halves(RankingLoss):
    """AUC with every pair counted half, written in Python."""

    def derivative(self, j, i, n_pos, n_neg):
        return np.full(len(j), -0.5 / (n_pos * n_neg))

    def value(self, negatives_above, n_neg):
        return float(0.5 * negatives_above.mean() / n_neg)


class Falling(Halves):
    """Not QS-suitable."""

    def derivative(self, j, i, n_pos, n_neg):
        return -0.5 * (n_neg + j) / n_neg / (n_pos * n_neg)

    def value(self, negatives_above, n_neg):
        above = np.asarray(negatives_above, dtype=float)
        return float(0.5 * (n_neg * above + above * (above + 1) / 2).mean() / n_neg**2)


def test_losses_written_in_python():
    rng = np.random.default_rng(6)
    scores, relevant = rng.normal(size=5_000), rng.random(5_000) < 0.01
    check(*scattered(scores, relevant, [2_000, 2_000], Halves()), scores, relevant, Halves())
    with pytest.raises(ValueError, match="not QS-suitable"):
        scattered(scores, relevant, [2_000], Falling())


def test_counts_that_do_not_add_up_are_a_defect():
    rng = np.random.default_rng(7)
    scores, relevant = rng.normal(size=9_000), np.arange(9_000) % 100 == 0
    shards = Shards(scores, relevant, [4_000])

    def one_short(operation, args):
        replies = shards(operation, args)
        if operation == "count":
            replies[0]["counts"]["counts"][0] -= 1
        return replies

    with pytest.raises(RuntimeError, match="do not add up"):
        ranked_by(ScatteredList(ranking_loss("ap"), shards.n_pos, shards.n_neg).find(), one_short)


def test_a_list_without_positives_or_with_a_negative_scale():
    with pytest.raises(ValueError, match="relevant and irrelevant"):
        ScatteredList(ranking_loss("ap"), [0, 0], [3, 4])
    with pytest.raises(ValueError, match="loss_scale=-1"):
        scattered([1.0, 0.0], [True, False], [], loss_scale=-1)


@pytest.mark.parametrize("guess", ["none", "buckets", "floor"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300, 1e-300])
@pytest.mark.parametrize("made", [False, True])
def test_scores_that_are_not_finite_are_seen_whatever_is_guessed(guess, bad, made):
    scores = np.random.default_rng(0).normal(size=70_000)
    scores[69_999] = bad
    roots = [scores, np.zeros(len(scores))] if made else [scores]
    buckets = np.array([1.0, -1.0, 1024, 0.0, 0.0]) if guess == "buckets" else None
    room = Scores(np.ones(len(roots)), roots, np.full(len(scores), np.nan))
    floor = 3.0 if guess == "floor" else None
    found = ListPart().look(room, np.empty(len(scores)), buckets, 0, floor, 1000)
    assert found["finite"] == (bad == 1e-300)
    assert ("first" in found) == found["finite"]


@pytest.mark.parametrize("n", [1, 1024, 1025, 3000])
def test_equal_scores_are_seen_before_they_are_made(n):
    half = np.full(n, 0.25)
    room, below = np.full(n, np.nan), np.full(n, np.nan)
    shard = _core.ListShard(np.ones(2), [half, half], room, below)
    assert shard.all_equal() and shard.first() == 0.5 and np.isnan(room).all()
    shard.place_equal(np.array([3.0, 1.0]), np.array([1, n - 1]), 0.0)
    assert below.tolist() == [3.0] + [1.0] * (n - 1) and shard.total() == 0.5 * (n + 2)
    half[n - 1] = 0.5
    assert shard.all_equal() == (n == 1)
    assert shard.best(1).tolist() == [1.0] and room[n - 1] == 1.0


@pytest.mark.parametrize("kind", ["overlapping", "separated", "tied"])
def test_more_positives_than_single_precision_counts(kind, monkeypatch):
    """All negatives are sent then; here the limit is moved."""
    monkeypatch.setattr(list_inference, "_MOST_POSITIVES", 50)
    rng = np.random.default_rng(0)
    relevant = np.arange(20_000) % 200 == 0
    scores = rng.normal(size=20_000) + (8 if kind == "separated" else 1) * relevant
    scores = scores.round(1) if kind == "tied" else scores
    shards = Shards(scores, relevant, [5000, 7000])
    ranked = ScatteredList(ranking_loss("ap"), shards.n_pos, shards.n_neg)
    for _ in range(2):
        check(shards, ranked_by(ranked.find(), shards), scores, relevant, "ap")
    assert shards.asked == 2 * ["look", "aside", "place"]


def test_sixteen_million_positives_below_three_negatives():
    relevant = np.ones(2**24 + 1004, dtype=bool)
    relevant[[5, 2**23, -1]] = False
    scores = np.where(relevant, 0.0, 10.0)
    scores[5] = 11.0
    shards = Shards(scores, relevant, [2**22])
    found = ranked_by(ScatteredList(ranking_loss("auc"), shards.n_pos, shards.n_neg).find(), shards)
    n_pos = int(shards.n_pos.sum())
    assert [part.below.tolist() for part in shards.parts] == [[n_pos], [n_pos, n_pos]]
    assert found.hinge == pytest.approx(1 + 2 * 31 / 3, rel=1e-14)
