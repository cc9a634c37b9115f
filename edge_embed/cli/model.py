"""The MODEL argument of a command: options for loading it."""

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
    from edge_embed.importers.reading_options import Reading
    from edge_embed.program.program import Program


class NamedPath(click.Path):
    """A path that is not empty."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Refuse the empty path of an unset variable of a shell, which would be the current folder."""
        if str(value) == "":
            self.fail("got an empty path, expected the path of a file or folder.", param, ctx)
        return super().convert(value, param, ctx)


FILE = NamedPath(path_type=Path)
# Sections of `--help`: the parameters of `model_options`.
MODEL_SECTIONS = {
    "Reading MODEL": ["declared", "factory", "weights", "allow_pickle", "no_cache"],
    "Reading a file of vectors": ["has_tokens", "tokens_from", "encoding_errors", "drop_duplicates"],
}


@dataclass(frozen=True)
class Load:
    """Loads a saved model, according to the options."""

    declared: tuple[str, ...]
    factory: str | None
    weights: str | None
    allow_pickle: bool
    no_cache: bool
    reading: dict[str, Any]

    @property
    def given(self) -> list[str]:
        """Return the names of the options that were given."""
        return [name for names in self._by_kind.values() for name in names]

    @property
    def _by_kind(self) -> dict[str, list[str]]:
        """Return the names of the options that were given, by the kind of model that requires them."""
        of_pytorch = {
            "--input": self.declared,
            "--model": self.factory,
            "--weights": self.weights,
            "--allow-pickle": self.allow_pickle,
        }
        return {
            "a PyTorch file": [name for name, value in of_pytorch.items() if value],
            "the folder of a transformers model": ["--no-cache"] if self.no_cache else [],
            "a file of word vectors": reading_of(self.reading).given,
        }

    @property
    def arguments(self) -> list[str]:
        """Return the options as arguments of a command line."""
        found = [part for text in self.declared for part in ("--input", text)]
        found += [] if self.factory is None else ["--model", self.factory]
        found += ["--allow-pickle"] if self.allow_pickle else []
        return [*found, "--no-cache"] if self.no_cache else found

    def __call__(self, model: Path, tables: tuple[str, ...] = ()) -> "Program":
        """Load the program of a file; if the file has several tables, load the named ones."""
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
                weights=self.weights,
                tables=tables,
                reading=reading_of(self.reading),
                cache=not self.no_cache,
            )

    def unless_runtime(self, model: Path, tables: tuple[str, ...] = ()) -> "Path | Program":
        """Load the program of a file, or return the path of a runtime's file, which needs no options."""
        from edge_embed.importers.genai_folder import is_genai
        from edge_embed.inspection.inspect import is_onnx_file, is_tflite_file

        if not (is_onnx_file(model) or is_tflite_file(model) or is_genai(model)):
            return self(model, tables)
        if self.given:
            required = [f"{', '.join(names)}: requires {kind}" for kind, names in self._by_kind.items() if names]
            raise click.UsageError(f"{'; '.join(required)}: leave it out for {model.name}")
        return model


def model_options(command: Command) -> Command:
    """Add the options of a file that is not self-describing, which become one argument: ``load``."""

    @click.option(
        "--input",
        "declared",
        multiple=True,
        metavar="NAME:DTYPE[DIM,...]",
        help="Input of a plain torch.save file, such as ids:int64[batch,seq].",
    )
    @click.option(
        "--model",
        "factory",
        metavar="PACKAGE.MODULE:FUNCTION",
        help="state_dict: your function that returns its model. Requires --input.",
    )
    @click.option("--weights", metavar="PATH", help="Checkpoint: path of its weights, such as ema.module.")
    @click.option("--allow-pickle", is_flag=True, help="Load by unpickling, which runs code from the file.")
    @click.option("--no-cache", is_flag=True, help="Decoder's folder: no keys and values; logits of all positions.")
    @reading_options
    @wraps(command)
    def with_load(
        *,
        declared: tuple[str, ...],
        factory: str | None,
        weights: str | None,
        allow_pickle: bool,
        no_cache: bool,
        reading: dict[str, Any],
        **given: Any,
    ) -> None:
        command(load=Load(declared, factory, weights, allow_pickle, no_cache, reading), **given)

    return with_load


def reading_options(command: Command) -> Command:
    """Add the options of word vectors, which become one argument: ``reading``, for `reading_of`."""

    @click.option(
        "--tokens/--no-tokens",
        "has_tokens",
        default=None,
        help="Whether each row begins with a token. [detected]",
    )
    @click.option(
        "--tokens-from",
        type=FILE,
        metavar="FILE",
        help="Tokens of the rows: lines, metadata.tsv or JSON.",
    )
    @click.option(
        "--encoding-errors",
        type=click.Choice(["strict", "replace", "skip"]),
        default="strict",
        show_default=True,
        help="Handling of tokens that are not UTF-8; skip drops the row.",
    )
    @click.option("--drop-duplicates", is_flag=True, help="Drop every row whose token has occurred before.")
    @wraps(command)
    def with_reading(
        *,
        has_tokens: bool | None,
        tokens_from: Path | None,
        encoding_errors: str,
        drop_duplicates: bool,
        **given: Any,
    ) -> None:
        reading = {
            "has_tokens": has_tokens,
            "tokens_from": tokens_from,
            "encoding_errors": encoding_errors,
            "drop_duplicates": drop_duplicates,
        }
        command(reading=reading, **given)

    return with_reading


def reading_of(given: dict[str, Any]) -> "Reading":
    """Return the settings for reading word vectors, from the options."""
    from edge_embed.importers.reading_options import Reading

    return Reading(**given)


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Find the user's own modules, as ``python`` does; a console script does not search the current folder."""
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        with suppress(ValueError):  # their module may have removed it
            sys.path.remove(str(folder))
