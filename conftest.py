"""Settings of all tests: what is not collected where torch is not installed, and examples that are the same on every machine."""

from importlib.util import find_spec

from hypothesis import HealthCheck, settings

# No limit of time for an example. `--hypothesis-profile=random` tries others in every run.
settings.register_profile("random", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("fixed", settings.get_profile("random"), derandomize=True)
settings.load_profile("fixed")

# Not every Python has a build of torch for the CPU (see TORCH in the Makefile).
_DOCS = ["docs/nn.md", "docs/learned_rounding.md", "docs/parsing.md"]
NEED_TORCH = ["tests/nn", "tests/cases/learned_rounding_cases.py", "src/maxmargin/nn", *_DOCS]

collect_ignore = [] if find_spec("torch") else NEED_TORCH


def pytest_terminal_summary(terminalreporter):
    """Say what was skipped."""
    if collect_ignore:
        terminalreporter.write_line(f"torch is not installed, so these are skipped: {', '.join(collect_ignore)}")
