"""The ``maxmargin`` command. Its parts import what they need when they run, so that ``--help`` answers at once."""

from maxmargin.cli.main import main

__all__ = ["main"]
