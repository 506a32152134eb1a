"""Tables that documents repeat in part are those of the benchmarks."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
# Columns of docs/which_method.md after the first one, by their names in the benchmark.
COLUMNS = ("LogisticRegression", "RankingClassifier", "RankingSVM", "LogisticRegression, balanced")


def rows_below(text, head):
    """Cells of the table whose first line begins so, its head first."""
    lines = text[text.index(head) :].splitlines()
    table = lines[: next((k for k, line in enumerate(lines) if not line.startswith("|")), len(lines))]
    return [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in table if not line.startswith("| ---")]


def measured():
    return (ROOT / "benchmarks" / "results" / "rare_events.md").read_text()


def test_rare_events_in_which_method():
    head, *rows = rows_below(measured(), "|  | LogisticRegression | RankingClassifier")
    places = [head.index(name) for name in COLUMNS]
    # Of the mean the number of tables, which is that of the rows, is left out.
    wanted = [[row[0].split(" over")[0], *(row[k].removesuffix(f" ({len(rows) - 1})") for k in places)] for row in rows]
    found = rows_below((ROOT / "docs" / "which_method.md").read_text(), "| table (rows x features")[1:]
    table = "\n".join(f"| {' | '.join(row)} |" for row in wanted)
    assert found == wanted, f"docs/which_method.md must repeat benchmarks/results/rare_events.md:\n{table}"


def test_sentences_about_rare_events():
    head, *rows = rows_below(measured(), "|  | LogisticRegression | RankingClassifier")
    refined = [row[head.index("refined")].split(" of ") for row in rows[:-1]]
    taken, folds = (sum(int(pair[k]) for pair in refined) for k in (0, 1))
    times = {row[0]: row[3] for row in rows_below(measured(), "|  | rank, linear")}
    text = " ".join((ROOT / "docs" / "which_method.md").read_text().split())
    assert f"refinement was taken in {taken} of {folds} folds" in text
    assert f"at {float(times['RankingClassifier']):.1f} times the time of a tuned logistic regression" in text
