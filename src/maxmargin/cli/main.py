"""The command. Each subcommand is in a module beside this one, which is loaded when the subcommand is invoked."""

from __future__ import annotations

from importlib import import_module

import click

from maxmargin import __version__
from maxmargin.cli.options import exit_codes

# For each subcommand its module and attribute, and the first sentence of its help, which is shown before the module is loaded.
COMMANDS = {
    "compare": ("compare:compare", "Tell whether the difference between runs, or models, is more than chance."),
    "cv": ("cv:cv", "Choose C by cross-validation."),
    "demo": (
        "demo:demo",
        "Find rare events: the classifier for them and three other linear models, on digits and where labels are wrong.",
    ),
    "evaluate": ("evaluate:evaluate", "Ranking metrics of scored samples, of a model or of a TREC run."),
    "inpaint": ("vision:inpaint", "Take noise out of a grey IMAGE and fill in its holes, which are dark in MASK."),
    "inspect": (
        "inspect:inspect",
        (
            "What a model file holds: class and settings, certificate, training data, columns, the features with "
            "the largest weights."
        ),
    ),
    "pack": (
        "pack:pack",
        "Write FILES into packed shards: folders that are memory-mapped, for training on several machines or beyond memory.",
    ),
    "path": ("path:path", "Models for every lambda, and so for every C, from one run; choose the best."),
    "predict": ("predict:predict", "Score samples with a model: one number per line, in the order of DATA."),
    "register": (
        "register:register",
        "Move SOURCE onto TARGET: two images, or two volumes, that show the same thing in different shapes.",
    ),
    "report": ("report:report", "Write a page about a model, judged on DATA: one HTML file that needs no network."),
    "segment": ("vision:segment", "Divide IMAGE into regions by colour, with smooth boundaries that follow contrast."),
    "stereo": (
        "vision:stereo",
        "Depth from two images: how far every pixel of LEFT has moved to the left in RIGHT, brighter is nearer.",
    ),
    "tag": ("tag:tag", "Tags of words: chunks, entities, parts of speech."),
    "train": ("train:train", "Train a ranking model for a metric."),
}


class Unloaded(click.Command):
    """A subcommand whose module is not loaded yet."""

    def __init__(self, name: str, place: str, sentence: str) -> None:
        super().__init__(name, help=sentence)
        self.place = place


class LazyGroup(click.Group):
    """A group that loads the module of a subcommand when the subcommand is needed, as in the documentation of click."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The subcommand, loaded."""
        command = self.commands.get(cmd_name)
        if isinstance(command, Unloaded):
            module, _, attribute = command.place.partition(":")
            with exit_codes():
                command = self.commands[cmd_name] = getattr(import_module(f"maxmargin.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of subcommands, none of them loaded."""
        click.Group(commands=self.commands).format_commands(ctx, formatter)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
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


for name, (place, sentence) in COMMANDS.items():
    main.add_command(Unloaded(name, place, sentence))
