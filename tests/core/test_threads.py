"""Threads that wait for the next call: any number of callers, children of a fork, exceptions, signals, the end of the process."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from maxmargin import most_violating_ranking, most_violating_rankings
from maxmargin._utils import thread_count


def long_list(seed=0, n=300_000):
    """Scores and labels of a list that is shared out among threads."""
    rng = np.random.default_rng(seed)
    relevant = rng.random(n) < 1e-3
    return rng.normal(size=n) + relevant, relevant


def answer(n_jobs, seed=0):
    """Of such a list."""
    found = most_violating_ranking(*long_list(seed), n_jobs=n_jobs)
    return found.hinge, found.gradient.tobytes()


def n_threads_of_this_process():
    return len(os.listdir("/proc/self/task"))


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="threads are counted as Linux tells them")
def test_threads_are_kept_and_no_more_of_them_than_cores():
    expected = answer(1)
    answer(2)
    before = n_threads_of_this_process()
    for n_jobs in (2, 3, 64, 1000, 2):
        assert answer(n_jobs) == expected
    assert n_threads_of_this_process() - before <= max(2, thread_count(None)) - 1
    kept = n_threads_of_this_process()
    for _ in range(20):
        answer(2)
    assert n_threads_of_this_process() == kept


def test_many_callers_at_once():
    expected = {seed: answer(1, seed) for seed in range(4)}
    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(lambda k: answer(2 + k % 3, k % 4), range(48)))
    assert found == [expected[k % 4] for k in range(48)]


def test_an_exception_of_a_thread_is_the_callers_and_leaves_no_trace():
    scores, _ = long_list()
    relevant = np.arange(len(scores)) % 500 == 0
    query = np.repeat(np.arange(300), len(scores) // 300)
    expected = most_violating_rankings(scores, relevant, query, n_jobs=4)
    broken = scores.copy()
    broken[200_123] = np.nan
    for _ in range(5):
        with pytest.raises(ValueError, match=r"scores\[200123\] is NaN"):
            most_violating_rankings(broken, relevant, query, n_jobs=4)
        found = most_violating_rankings(scores, relevant, query, n_jobs=4)
        assert np.array_equal(found.gradient, expected.gradient)


def run(program):
    """In a process of its own, which must end by itself."""
    setup = "import sys, threading; sys.path.insert(0, sys.argv[1])\nfrom test_threads import *\n"
    command = [sys.executable, "-W", "error::RuntimeWarning", "-c", setup + program, str(Path(__file__).parent)]
    # Threads of others are no matter of ours.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, env=environment).stdout


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_children_of_a_fork_have_threads_of_their_own():
    # The last children are made while another thread is at work, and may hold any lock.
    program = """
expected = answer(2)
at_work = threading.Thread(target=lambda: [answer(2) for _ in range(40)])
for k in range(8):
    if k == 4:
        at_work.start()
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        same = answer(2) == expected and answer(2) == expected
        own = n_threads_of_this_process() if Path("/proc/self/task").is_dir() else 2
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0 if answer(2) == expected else 1)
        os._exit(0 if same and own > 1 and os.waitpid(grandchild, 0)[1] == 0 else 1)
    assert os.waitpid(child, 0)[1] == 0, k
    assert answer(2) == expected
at_work.join()
print("same")
"""
    assert run(program) == "same\n"


def test_the_process_ends_while_threads_wait():
    assert run("answer(2)\nprint('done')") == "done\n"


@pytest.mark.skipif(not hasattr(signal, "sigtimedwait"), reason="signals cannot be waited for here")
def test_signals_are_left_to_the_threads_of_the_caller():
    program = """
answer(2)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
os.kill(os.getpid(), signal.SIGUSR1)  # would end the process if a thread took it
assert signal.sigtimedwait([signal.SIGUSR1], 10).si_signo == signal.SIGUSR1
print("held")
"""
    assert run(program) == "held\n"
