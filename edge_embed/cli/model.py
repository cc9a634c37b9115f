"""The model that a command is given: options that say how it is loaded."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_embed.cli.output import Command

if TYPE_CHECKING:
    from edge_embed.program.program import Program

Load = Callable[..., "Program"]

FILE = click.Path(path_type=Path)


def model_options(command: Command) -> Command:
    """Those of a file that does not say everything, which become one argument: ``load``."""

    @click.option(
        "--input",
        "declared",
        multiple=True,
        metavar="NAME:DTYPE[DIM,...]",
        help="An input of a plain torch.save file, such as ids:int64[batch,seq].",
    )
    @click.option(
        "--model",
        "factory",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="For a state_dict: your function that makes its model. Needs --input.",
    )
    @click.option("--allow-pickle", is_flag=True, help="Load by unpickling. This runs code from the file.")
    @wraps(command)
    def with_load(*, declared: tuple[str, ...], factory: str | None, allow_pickle: bool, **given: Any) -> None:
        load = partial(_load, declared=declared, factory=factory, allow_pickle=allow_pickle)
        command(load=load, **given)

    return with_load


def _load(
    model: Path,
    tables: tuple[str, ...] = (),
    *,
    declared: tuple[str, ...],
    factory: str | None,
    allow_pickle: bool,
) -> "Program":
    from edge_embed import workflow
    from edge_embed.program.input_spec import parse_input
    from edge_embed.program.state_dict import import_factory

    with importing_from(Path.cwd()) if allow_pickle or factory is not None else nullcontext():
        return workflow.load(
            model,
            inputs=[parse_input(text) for text in declared],
            allow_pickle=allow_pickle,
            factory=None if factory is None else import_factory(factory),
            tables=tables,
        )


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Find the user's own modules, as ``python`` does; a console script does not look into the current folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # their module may have taken it out
            sys.path.remove(str(folder))
