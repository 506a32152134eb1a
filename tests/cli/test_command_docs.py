"""The sessions in docs/command.md, command by command with the output it shows, and in the README."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.cases.command_runner import CliRunner

from maxmargin.cli.main import main

ROOT = Path(__file__).parents[2]
PAGE, README = ROOT / "docs" / "command.md", ROOT / "README.md"


def blocks(language, page=PAGE):
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def steps(page=PAGE):
    """(command, output shown) in the order of the page."""
    for block in blocks("console", page):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def words(text):
    """Words, and numbers as numbers; passes and seconds differ between machines."""
    text = re.sub(r"\d+ passes in \S+ s", "", text)
    number = r"[-+]?\d*\.?\d+(e[-+]?\d+)?,?"
    return [float(word.rstrip(",")) if re.fullmatch(number, word) else word for word in text.split()]


def test_session(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_data, use_model = blocks("python")
    exec(make_data, {})
    commands = list(steps())
    used = {command.split()[1] for command, _ in commands if command.startswith("maxmargin")}
    assert used == {"cv", "train", "predict", "evaluate", "compare", "inspect", "pack"}
    for command, shown in commands:
        if command.startswith("maxmargin "):
            result = CliRunner().invoke(main, shlex.split(command)[1:])
            assert result.exit_code == 0, result.output
            found, expected = words(result.output), words(shown)
            assert [type(word) for word in found] == [type(word) for word in expected], result.output
            for ours, theirs in zip(found, expected, strict=True):
                # The last digits, and how far inside the tolerance the gap ends, depend on the machine.
                near = isinstance(ours, float) and ours == pytest.approx(theirs, abs=0.02, rel=0.02)
                assert ours == theirs or near, (command, ours, theirs)
        else:
            subprocess.run(command, shell=True, check=True)
    exec(use_model, {})
    assert capsys.readouterr().out == "ap 0.01 (30,) True\n"


def test_commands_of_the_readme(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(blocks("python")[0], {})
    commands = [command for command, _ in steps(README)]
    assert len(commands) == 3
    for command in commands:
        result = CliRunner().invoke(main, shlex.split(command)[1:])
        assert result.exit_code == 0, result.output
    assert {"ranker.model", "report.html"} <= {path.name for path in tmp_path.iterdir()}
