"""The command; options of its parts, and the work, are in the modules beside this one."""

from __future__ import annotations

from pathlib import Path

import click

from maxmargin import __version__
from maxmargin.cli.judging_commands import compare, evaluate, inspect, predict, report
from maxmargin.cli.learning_commands import cv, path, train
from maxmargin.cli.options import OUTPUT, with_exit_codes
from maxmargin.cli.picture_commands import inpaint, register, segment, stereo
from maxmargin.cli.shard_commands import pack
from maxmargin.cli.tag import tag


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="maxmargin")
def main() -> None:
    """Learn rankings by the metric you report.

    \b
    maxmargin demo                                    two minutes with real data
    maxmargin cv train.letor --model ranker.model     choose C, train, save
    maxmargin train train.letor --C 10 --model ranker.model
    maxmargin path train.letor --validation dev.letor --model ranker.model
                                                      every C at once
    maxmargin predict ranker.model test.letor         scores, or a TREC run
    maxmargin evaluate ranker.model test.letor        MAP, NDCG, ...
    maxmargin compare old.run new.run --qrels test.qrels    chance, or not
    maxmargin inspect ranker.model                    what is in the file
    maxmargin report ranker.model test.letor          a page to look at
    maxmargin tag train train.txt --model tagger.model
                                                      tags of words
    maxmargin pack 'part-*.svm' -o packed --shards 200
                                                      files for training in parts
    maxmargin train packed --engine local --model ranker.model
                                                      beyond memory, or on a cluster
    """


@main.command()
@click.option(
    "-o",
    "--output",
    type=OUTPUT,
    default=Path("demo/precision_recall.png"),
    show_default=True,
    help="Where to write the figure (.png, .svg or .pdf).",
)
@click.option("--seed", default=0, show_default=True, help="Seed of the cross-validation folds.")
@with_exit_codes
def demo(output: Path, seed: int) -> None:
    """Find rare events: the classifier for them and three other linear models, on digits and where labels are wrong.

    \b
    Example: maxmargin demo -o curves.svg
    """
    from maxmargin.cli.demo import run

    run(output, seed)


COMMANDS = (
    train, cv, path, predict, evaluate, inspect, compare, report, stereo, inpaint, segment, register, tag, pack,
)  # fmt: skip
for command in COMMANDS:
    main.add_command(command)
