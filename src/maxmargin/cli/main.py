"""Options of the command; the work is done in the modules beside this one."""

from __future__ import annotations

from pathlib import Path

import click

from maxmargin import __version__

_EXISTING = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maxmargin")
def main() -> None:
    r"""Learn rankings by the metric you report, with a certified duality gap.

    \b
    maxmargin demo                                    two minutes with real data
    maxmargin evaluate results.csv                    MAP, NDCG, ... of scored samples
    """


@main.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("demo/precision_recall.png"),
    show_default=True,
    help="Where to write the figure (.png, .svg or .pdf).",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the cross-validation folds.")
def demo(output: Path, seed: int) -> None:
    r"""Train for AP, for NDCG and for accuracy on handwritten digits, and compare.

    \b
    Example: maxmargin demo -o curves.svg
    """
    from maxmargin.cli.demo import run

    run(output, seed)


@main.command()
@click.argument("data", type=_EXISTING)
@click.argument("scores", type=_EXISTING, required=False)
@click.option("-m", "--metric", "metrics", multiple=True, help="map, mrr, ndcg, ndcg@K, p@K, auc; may be repeated.")
@click.option("--gains", type=click.Choice(["linear", "exponential"]), default="linear", show_default=True, help="Gains of NDCG.")
@click.option("--relevance", default="relevance", show_default=True, help="Column of the labels (tables only).")
@click.option("--score", default="score", show_default=True, help="Column of the scores (tables only).")
@click.option("--qid", default="qid", show_default=True, help="Column of the queries, if there is one (tables only).")
@click.option("--per-query", is_flag=True, help="Also one line for every query.")
@click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
def evaluate(
    data: Path,
    scores: Path | None,
    metrics: tuple[str, ...],
    gains: str,
    relevance: str,
    score: str,
    qid: str,
    per_query: bool,
    as_json: bool,
) -> None:
    r"""Ranking metrics of scored samples.

    DATA is a table (.csv or .tsv, perhaps .gz or .bz2, or .parquet) with a header and columns for relevance, score and, if
    there are several queries, qid. Or DATA is a svmlight/LETOR file and SCORES holds one score per line. Metrics are means
    over the queries.

    \b
    Examples:
      maxmargin evaluate results.csv -m map -m ndcg@10
      maxmargin evaluate test.letor predictions.txt --gains exponential --json
    """
    from maxmargin.cli.evaluate import run
    from maxmargin.data import DataError

    columns = {"relevance": relevance, "score": score, "qid": qid}
    try:
        click.echo(run(data, scores, metrics, gains, columns, per_query, as_json))
    except (DataError, OSError, ImportError) as error:
        raise click.ClickException(str(error)) from error
