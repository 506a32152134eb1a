"""The rule by which engines say that a shard is slow."""

import logging

from maxmargin.distributed.pace import Pace


def test_slow_is_five_times_the_usual_and_beyond_patience():
    pace = Pace(patience=2.0)
    assert not pace.is_slow("look", 1e9)  # nothing is known of it
    for seconds in [0.1] * 15 + [1.0] * 25:  # the last twenty count
        pace.took("look", seconds)
    assert pace.usual("look") == 1.0
    assert not pace.is_slow("look", 4.9)
    assert pace.is_slow("look", 5.1)
    assert not pace.is_slow("other", 5.1)
    pace.took("quick", 1e-6)
    assert not pace.is_slow("quick", 1.9)  # within patience
    assert pace.is_slow("quick", 2.1)


def test_what_is_said(caplog):
    pace = Pace()
    pace.took("look", 4.0)
    with caplog.at_level(logging.WARNING):
        pace.warn(logging.getLogger("maxmargin"), 3, "part-3.svm", "worker tcp://a:1", "look", 40.0)
    said = "shard 3 (part-3.svm) on worker tcp://a:1 has been busy with 'look' for 40 s, 10.0 times the usual"
    assert caplog.messages == [said]
