"""Progress: a line that is written over on a terminal, plain lines elsewhere."""

import sys

import pytest

from maxmargin.progress import ProgressLine


def test_plain_lines_without_a_terminal(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr("maxmargin.progress.time.monotonic", lambda: clock[0])
    line = ProgressLine("run")
    for step in range(5):
        clock[0] = 0.4 * step
        line.show(f"step {step}")
    line.close()
    line.close()
    assert capsys.readouterr().err == "run: step 0\nrun: step 3\nrun: step 4\n"


@pytest.mark.parametrize("last", ["step 1", "a longer step"])
def test_a_terminal_shows_one_line(capsys, monkeypatch, last):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = ProgressLine("run")
    line.show("step 0")
    line.show(last)
    line.close()
    assert capsys.readouterr().err == f"\r\033[Krun: step 0\r\033[Krun: {last}\r\033[K"
