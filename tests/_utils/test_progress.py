"""Lines that say how far a run is: rewritten on a terminal, few and plain elsewhere."""

import io

import pytest

from maxmargin._utils import StatusLine


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    class Clock:
        now = 0.0

        def __call__(self):
            return self.now

    return Clock()


def test_a_terminal_shows_one_line(clock):
    out = Terminal()
    with StatusLine(stream=out, clock=clock) as line:
        line.show("one")
        line.show("two")
    assert out.getvalue() == "\r\033[Kone\r\033[Ktwo\n"


def test_nothing_stays_of_a_transient_line(clock):
    out = Terminal()
    with StatusLine(transient=True, stream=out, clock=clock) as line:
        line.show("one")
    assert out.getvalue() == "\r\033[Kone\r\033[K"
    with StatusLine(stream=out, clock=clock):
        pass
    assert out.getvalue() == "\r\033[Kone\r\033[K", "nothing was shown, so there is nothing to end"


@pytest.mark.parametrize(("transient", "last"), [(False, "89\n"), (True, "")])
def test_a_pipe_gets_few_lines_and_the_last(clock, transient, last):
    out = io.StringIO()
    with StatusLine(transient=transient, stream=out, clock=clock) as line:
        for number in range(90):
            clock.now = number / 10
            line.show(str(number))
    assert out.getvalue() == "50\n" + last


def test_a_line_is_not_printed_twice(clock):
    out = io.StringIO()
    line = StatusLine(stream=out, clock=clock)
    clock.now = 6
    line.show("all")
    line.close()
    line.close()
    assert out.getvalue() == "all\n"
