import click

from maxmargin.cli.main import main
from maxmargin.io import load


@main.command()
@click.argument("data")
def count(data):
    """How many samples a file has."""
    click.echo(load(data).X.shape[0])
