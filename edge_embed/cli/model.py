"""The model that a command is given: options that say how it is loaded."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from edge_embed.cli.output import Command

if TYPE_CHECKING:
    from edge_embed.program.program import Program

FILE = click.Path(path_type=Path)


@dataclass(frozen=True)
class Load:
    """Loads a saved model, by what the options say of it."""

    declared: tuple[str, ...]
    factory: str | None
    allow_pickle: bool

    @property
    def given(self) -> list[str]:
        """The options that were given."""
        given = {"--input": self.declared, "--model": self.factory, "--allow-pickle": self.allow_pickle}
        return [name for name, value in given.items() if value]

    @property
    def arguments(self) -> list[str]:
        """The same on a command line."""
        found = [part for text in self.declared for part in ("--input", text)]
        found += [] if self.factory is None else ["--model", self.factory]
        return [*found, "--allow-pickle"] if self.allow_pickle else found

    def __call__(self, model: Path, tables: tuple[str, ...] = ()) -> "Program":
        """The program of a file; of one that has several tables, of those that are named."""
        from edge_embed import workflow
        from edge_embed.program.input_spec import parse_input
        from edge_embed.program.state_dict import import_factory

        runs_code = self.allow_pickle or self.factory is not None
        with importing_from(Path.cwd()) if runs_code else nullcontext():
            return workflow.load(
                model,
                inputs=[parse_input(text) for text in self.declared],
                allow_pickle=self.allow_pickle,
                factory=None if self.factory is None else import_factory(self.factory),
                tables=tables,
            )


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
        command(load=Load(declared, factory, allow_pickle), **given)

    return with_load


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Find the user's own modules, as ``python`` does; a console script does not look into the current folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # their module may have taken it out
            sys.path.remove(str(folder))
