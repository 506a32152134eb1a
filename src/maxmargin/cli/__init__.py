"""The ``maxmargin`` command. Each subcommand imports what it needs when it runs, so ``--help`` answers at once."""
