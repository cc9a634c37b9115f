"""What the user of a sample asked for."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])


def data_option(text: str, required: bool = False) -> Callable[[_Command], _Command]:
    """``--data``: the folder with the archives of the data sets, or the variable EDGE_EMBED_DATA."""
    return click.option(
        "--data",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        required=required,
        envvar="EDGE_EMBED_DATA",
        show_envvar=True,
        help=text,
    )


@dataclass(frozen=True)
class Options:
    """Options of the command line.

    Attributes:
        data: folder with the archives; nothing is written there.
        quick: less training: shows the way, learns less.
        seed: of everything random.
        output: folder for the saved and exported models.
    """

    data: Path
    quick: bool
    seed: int
    output: Path


def make_folder(path: Path) -> None:
    """Make the folder for results, where it is not there.

    Raises:
        click.ClickException: if it cannot be made.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"--output: {path} cannot be made: {error.strerror}") from error
