"""``python -m maxmargin`` is the command."""

from maxmargin.cli import main as command

if __name__ == "__main__":
    command.main(prog_name="maxmargin")
