"""What is not collected where torch is not installed: not every Python has a build for the CPU (see TORCH in the Makefile)."""

from importlib.util import find_spec

_DOCS = ["docs/nn.md", "docs/learned_rounding.md", "docs/parsing.md"]
NEED_TORCH = ["tests/nn", "tests/learned_rounding_cases.py", "src/maxmargin/nn", *_DOCS]

collect_ignore = [] if find_spec("torch") else NEED_TORCH


def pytest_terminal_summary(terminalreporter):
    """Say what was skipped."""
    if collect_ignore:
        terminalreporter.write_line(f"torch is not installed, so these are skipped: {', '.join(collect_ignore)}")
