"""``python -m maxmargin`` is the command."""

from maxmargin.cli.main import main

if __name__ == "__main__":
    main(prog_name="maxmargin")
