"""Conversations that run together: each has answers as if it were alone, in fewer rounds, whatever goes wrong."""

import gc
import threading
import weakref

import numpy as np
import pytest
from event_cases import engine_of, samples

from maxmargin.deadline import seconds_left, time_limit
from maxmargin.distributed import Fault, ShardedEvents
from maxmargin.distributed.client import Conversation
from maxmargin.distributed.events import Labels
from maxmargin.distributed.voices import together
from maxmargin.losses import ranking_loss

X, Y = samples(80, 3, seed=2)
N_FOLDS = 3


def prepared(**settings):
    engine = engine_of(X, Y, (0.3, 0.7), **settings)
    events = ShardedEvents(engine, Labels(np.array(["common", "rare"])))
    events.standardize()
    events.stratify(N_FOLDS, seed=0)
    return engine, events


def descent(part):
    """Points of a fold, each of which depends on the one before: no two folds ask the same."""

    def work(events):
        train, held = events.lists(ranking_loss("ap"), part), events.lists(ranking_loss("ap"), part, tested=True)
        weights, found = np.array([1.0, part, -0.5]), []
        for _ in range(2 + part):
            point = train.at(weights, 0.1)
            weights = weights - point.gradient
            found += [point.loss, point.value, *point.gradient, held.loss(weights)]
        return found

    return work


WORKS = [descent(part) for part in range(N_FOLDS)]


def test_each_as_if_it_were_alone():
    engine, events = prepared()
    before = engine.rounds
    expected = [work(events) for work in WORKS]
    alone = engine.rounds - before
    before = engine.rounds
    assert events.together(WORKS) == expected
    # As many as the longest, and two more: to begin and to end.
    assert engine.rounds - before < 0.6 * alone and events.shards.repeats == 0
    # And those who go on afterwards find all as it was.
    assert [work(events) for work in WORKS] == expected and events.shards.repeats == 0


def test_shards_of_a_run_are_let_go():
    engine, events = prepared()
    seen = []

    def work(own):
        WORKS[0](own)
        seen.append([len(shard._voices) for shard in engine._shards])

    events.together([work, work])
    assert [2, 2, 2] in seen and [len(shard._voices) for shard in engine._shards] == [0, 0, 0]
    # Also if one of them fails, or nobody has said that it is over; at once, and not when garbage is next collected.
    gc.disable()
    try:
        with pytest.raises(ZeroDivisionError):
            events.together([work, lambda own: 1 / (len(WORKS[0](own)) - len(WORKS[0](own)))])
        assert [len(shard._voices) for shard in engine._shards] == [0, 0, 0]
        events.shards.plain("several", "one", [(0, "info", ())])
        voices = [weakref.ref(shard._voices[0]) for shard in engine._shards]
        events.shards.plain("several", "another", [(1, "info", ())])
        assert [list(shard._voices) for shard in engine._shards] == [[1], [1], [1]] and not any(voice() for voice in voices)
    finally:
        gc.enable()


def test_what_is_small():
    _, events = prepared()
    assert events.is_small
    events.n_samples = 400_000
    assert not events.is_small
    events.n_samples, events.sizes = 80, np.zeros((2, 51))
    assert not events.is_small


@pytest.mark.parametrize("kind", ["lost before", "lost after", "nan"])
def test_every_round_and_every_fault(kind):
    engine, events = prepared()
    first = engine.rounds
    expected, repeats = events.together(WORKS), 0
    for number in range(first, engine.rounds - 1):
        broken, own = prepared(faults=[Fault(kind, number, number % 3)])
        assert own.together(WORKS) == expected, number
        # Who is lost after the last question is not missed; and not every answer has a number that could be spoilt.
        assert broken.moves > 0 or kind == "nan" or number >= engine.rounds - 3, number
        repeats += own.shards.repeats
    # Somebody has to count what was asked again.
    assert repeats > 0


def test_interrupts_and_errors_end_all_of_them():
    engine, _ = prepared()
    first, before = engine.rounds, threading.active_count()
    _, events = prepared(faults=[Fault("interrupt", first + 4)])
    with pytest.raises(KeyboardInterrupt):
        events.together(WORKS)
    _, events = prepared()
    with pytest.raises(ZeroDivisionError):
        events.together([*WORKS, lambda own: 1 / 0])
    for thread in threading.enumerate():
        if thread.daemon and thread is not threading.current_thread():
            thread.join(timeout=10)
    assert threading.active_count() <= before


def test_limits_of_time_and_errors_of_shards():
    engine, events = prepared()
    with time_limit(50.0):
        assert all(0 < left <= 50 for left in events.together([lambda own: seconds_left()] * 2))
    with pytest.raises(ValueError, match="EventShard has no operation 'nothing'"):
        together(Conversation(engine), [lambda own: own.plain("nothing"), lambda own: own.plain("info")])
