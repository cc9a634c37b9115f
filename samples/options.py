"""Options of a sample's command line."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

_Command = TypeVar("_Command", bound=Callable[..., object])


def data_option(text: str, required: bool = False) -> Callable[[_Command], _Command]:
    """Return the option ``--data``, the folder with the archives of the data sets, or the variable EDGE_EMBED_DATA."""
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
        quick: whether to train less, which shows every step but gives worse scores.
        seed: random seed.
        output: folder for the saved and exported models.
    """

    data: Path
    quick: bool
    seed: int
    output: Path


def make_folder(path: Path) -> None:
    """Create the folder for results if it is missing.

    Raises:
        click.ClickException: if it cannot be created.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(f"--output: {path} cannot be created: {error.strerror}") from error
