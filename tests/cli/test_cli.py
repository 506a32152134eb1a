"""The command as a user calls it."""

import gzip
import json
import subprocess
import sys

import click
import numpy as np
import pytest
from tests.cases.command_runner import CliRunner

import maxmargin
from maxmargin import metrics
from maxmargin.cli.main import COMMANDS, Unloaded, main


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(main, list(map(str, args)))


TABLE = "qid,relevance,score,text\na,1,0.9,x\na,0,0.5,y\nb,0,3,z\nb,2,1.5,u\n"


def test_version_and_help(run):
    assert maxmargin.__version__ in run("--version").output
    for command in ([], ["demo"], ["evaluate"], ["report"]):
        result = run(*command, "--help")
        assert result.exit_code == 0 and "maxmargin" in result.output
    assert run("evalute").exit_code == 2


def test_evaluate_table(run, tmp_path):
    (tmp_path / "r.csv").write_text(TABLE)
    result = run("evaluate", "r.csv", "-m", "map", "-m", "ndcg@10", "--per-query")
    assert result.exit_code == 0
    assert result.output.splitlines()[2].split() == ["a", "1.0000", "1.0000"]
    assert result.output.splitlines()[-1].split()[:2] == ["all", "0.7500"]
    (tmp_path / "r.tsv.gz").write_bytes(gzip.compress(TABLE.replace(",", "\t").encode()))
    answer = json.loads(run("evaluate", "r.tsv.gz", "--json", "--gains", "exponential", "--per-query").output)
    assert answer["queries"] == 2 and answer["samples"] == 4
    expected = metrics.evaluate([1, 0, 0, 2], [0.9, 0.5, 3, 1.5], qid=list("aabb"), gains="exponential")
    assert answer["metrics"] == pytest.approx(expected)
    assert answer["per_query"]["b"]["map"] == 0.5


def test_evaluate_reads_a_table_once(tmp_path):
    command = [sys.executable, "-m", "maxmargin", "evaluate", "/dev/stdin", "--json", "-m", "map"]
    split = "relevance,score,qid\n1,0.9,a\n0,3,b\n0,0.5,a\n2,1.5,b\n"
    out = subprocess.run(command, input=split, capture_output=True, text=True, check=True).stdout
    assert json.loads(out) == {"samples": 4, "queries": 2, "metrics": {"map": 0.75}}


def test_evaluate_parquet(run, tmp_path):
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    pq.write_table(
        pa.table({"relevance": [1, 0, 0, 2], "score": [0.9, 0.5, 3, 1.5], "qid": list("aabb")}), tmp_path / "r.parquet"
    )
    assert json.loads(run("evaluate", "r.parquet", "--json", "-m", "map").output)["metrics"] == {"map": 0.75}


def test_evaluate_letor(run, tmp_path):
    (tmp_path / "t.letor").write_text("2 qid:7 1:0.1 2:3 # doc\n\n0 qid:7 1:0.4\r\n1 qid:8 3:1\n")
    (tmp_path / "p.txt").write_text("0.5\n0.7\n-1e3\n")
    answer = json.loads(run("evaluate", "t.letor", "p.txt", "--json", "-m", "map").output)
    assert answer == {"samples": 3, "queries": 2, "metrics": {"map": 0.75}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty"),
        ("qid,score\n1,2\n", "line 1: there is no column 'relevance'"),
        ("relevance,score\n1\n", "line 2: 1 fields, but the header has 2"),
        ("relevance,score\n1,2\n1,x\n", "line 3: score 'x' is not a number"),
        ("relevance,score\n1,nan\n", "line 2: score 'nan' is not finite"),
        ("relevance,score\n", "no rows"),
    ],
)
def test_evaluate_bad_tables(run, tmp_path, content, message):
    (tmp_path / "r.csv").write_text(content)
    result = run("evaluate", "r.csv")
    assert result.exit_code == 1 and message in result.output and "r.csv" in result.output


def test_evaluate_bad_files(run, tmp_path):
    (tmp_path / "t.letor").write_text("1 qid:7 1:0.1\n0 1:0.4\n")
    (tmp_path / "p.txt").write_text("0.5\n")
    assert "line 2: some lines have a qid" in run("evaluate", "t.letor", "p.txt").output
    (tmp_path / "t.letor").write_text("1 1:0.1\n0 1:0.4\n")
    assert "has 1 scores" in run("evaluate", "t.letor", "p.txt").output
    (tmp_path / "t.letor").write_text("good 1:0.1\n")
    assert "line 1: label 'good' is not a number" in run("evaluate", "t.letor", "p.txt").output
    (tmp_path / "t.letor").write_text("\n")
    assert "holds no samples" in run("evaluate", "t.letor", "p.txt").output
    (tmp_path / "b.csv").write_bytes(b"relevance,score\n\xff\xfe,1\n")
    assert "not a text file" in run("evaluate", "b.csv").output
    (tmp_path / "b.csv.gz").write_bytes(b"relevance,score\n1,1\n")
    assert "gzip" in run("evaluate", "b.csv.gz").output
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(b"relevance,score\n" + b"1,1\n" * 99)[:-12])
    assert "gzip" in run("evaluate", "b.csv.gz").output
    (tmp_path / "r.csv").write_text(TABLE)
    result = run("evaluate", "r.csv", "-m", "ndcg@ten")
    assert result.exit_code == 2 and "metric 'ndcg@ten' is unknown" in result.output
    assert run("evaluate", "missing.csv").exit_code == 2


def test_demo_shows_the_classifier_level_and_ahead(run, tmp_path):
    result = run("demo", "-o", "out/curves.png")
    assert result.exit_code == 0, result.output
    rows = {line.split("  ")[0]: line.split() for line in result.output.splitlines()}
    own, logistic = rows["RankingClassifier"], rows["LogisticRegression"]
    assert float(own[1]) > float(logistic[1]) - 0.01
    assert float(own[5]) > float(logistic[2]) + 0.1
    assert "refinement:" in result.output and "Find the eights" in result.output
    assert (tmp_path / "out/curves.png").read_bytes().startswith(b"\x89PNG")
    assert [p.name for p in (tmp_path / "out").iterdir()] == ["curves.png"]


def modules_after(code):
    command = [sys.executable, "-c", f"{code}; import sys; print(*sys.modules)"]
    out = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(out.stdout.split())


def test_imports_are_lazy():
    assert not {"numpy", "sklearn", "matplotlib", "torch"} & modules_after("import maxmargin")
    assert not {"numpy", "sklearn", "matplotlib", "torch"} & modules_after("import maxmargin.cli")
    loaded = modules_after("import maxmargin; maxmargin.most_violating_ranking([1., 2.], [0, 1])")
    assert "numpy" in loaded and not {"sklearn", "matplotlib", "scipy", "torch"} & loaded


def test_help_loads_no_command():
    loaded = modules_after("from maxmargin.cli.main import main; main(['--help'], standalone_mode=False)")
    assert "maxmargin.cli.main" in loaded
    assert not {"numpy", *(f"maxmargin.cli.{place.partition(':')[0]}" for place, _ in COMMANDS.values())} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_refuses_before_it_loads_what_it_works_with(name):
    loaded = modules_after(f"from maxmargin.cli.main import main; main(['{name}', '--help'], standalone_mode=False)")
    assert f"maxmargin.cli.{COMMANDS[name][0].partition(':')[0]}" in loaded
    assert not {"scipy", "sklearn", "matplotlib", "PIL", "distributed", "torch", "maxmargin.rare_events"} & loaded


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_has_the_first_sentence_of_the_help(name):
    command = main.get_command(click.Context(main), name)
    assert command.name == name and command.get_short_help_str(1000) == COMMANDS[name][1]


def test_training_without_the_classifier_does_not_load_it(tmp_path):
    (tmp_path / "a.letor").write_text("1 qid:1 1:2\n0 qid:1 1:1\n1 qid:2 1:3\n0 qid:2 1:0\n")
    words = ["train", str(tmp_path / "a.letor"), "--model", str(tmp_path / "m")]
    loaded = modules_after(f"from maxmargin.cli.main import main; main({words}, standalone_mode=False)")
    assert "maxmargin.ranking" in loaded and "maxmargin.rare_events" not in loaded


@pytest.mark.parametrize(
    ("error", "code", "message"), [(KeyboardInterrupt, 130, "interrupted"), (ImportError("no PIL"), 1, "Error: no PIL")]
)
def test_a_command_that_cannot_be_loaded_ends_with_its_exit_code(run, monkeypatch, error, code, message):
    def fail(name):
        raise error

    monkeypatch.setitem(main.commands, "cv", Unloaded("cv", *COMMANDS["cv"]))
    monkeypatch.setattr("maxmargin.cli.main.import_module", fail)
    result = run("cv", "a.letor")
    assert result.exit_code == code and message in result.stderr


def test_a_command_of_the_user_takes_the_place_of_ours(run, monkeypatch):
    monkeypatch.setattr(main, "commands", {**main.commands})
    main.add_command(click.Command("cv", callback=lambda: click.echo("mine"), help="My own."))
    assert run("cv").output == "mine\n" and "  cv        My own.\n" in run("--help").output


def test_public_names_resolve():
    assert all(hasattr(maxmargin, name) for name in maxmargin.__all__)
    assert set(maxmargin.__all__) < set(dir(maxmargin))
    with pytest.raises(AttributeError, match="no attribute 'RankSVM'"):
        maxmargin.RankSVM  # noqa: B018


def test_release_of_the_interpreter_lock():
    """Two threads solve at once; a counter in a third keeps running meanwhile."""
    import threading

    scores, relevant = np.random.default_rng(0).normal(size=3_000_000), np.arange(3_000_000) < 100
    done = threading.Event()
    ticks = 0

    def solve():
        maxmargin.most_violating_ranking(scores, relevant, method="sort")
        done.set()

    thread = threading.Thread(target=solve)
    thread.start()
    while not done.wait(0.001):
        ticks += 1
    thread.join()
    assert ticks > 10
