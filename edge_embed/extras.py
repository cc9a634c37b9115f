"""Extras of the package: the purpose of each, its missing distributions, and the extra that installs a module."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata

from edge_embed.errors import EdgeEmbedError

_PURPOSES = {
    "runtime": "`edge_embed.create_session`, which runs exported ONNX files",
    "export": "training, compression, export and validation of models",
    "inspect": "`edge-embed inspect` of ONNX files",
    "bench": "`edge-embed bench`: its peers, and plots",
    "report": "HTML reports and plots",
    "tflite": "TFLite files of tables: export, reading and runs",
    "tflite-models": "export of whole models as TFLite files",
    "tokenizer": "`edge-embed export --tokenizer`, and models with text inputs",
    "genai": "folders of ONNX Runtime GenAI: they are built, and generate text",
    "transformers": "folders of transformers models",
    "hub": "the Hugging Face Hub: `edge-embed push`, `edge_embed.from_pretrained`",
    "package": "`edge-embed package`: the operator library for other platforms",
}
_DISTRIBUTION = "edge-embed"
_EXTRA = re.compile(r"""extra == ['"]([^'"]+)['"]""")


@dataclass(frozen=True)
class ExtraInfo:
    """Optional part of the package.

    Attributes:
        name: Name in ``edge-embed[name]``.
        purpose: Its purpose.
        lacks: Distributions that it names and that are not installed; empty if it is complete.
        command: Command that installs it.
    """

    name: str
    purpose: str
    lacks: tuple[str, ...]
    command: str


def list_extras() -> tuple[ExtraInfo, ...]:
    """Return all extras for users, in the order of their purposes; none if the package is not installed."""
    requirements = _requirements()
    if not requirements:
        return ()
    return tuple(
        ExtraInfo(name, purpose, tuple(dict.fromkeys(_missing(name, requirements))), _command(name))
        for name, purpose in _PURPOSES.items()
    )


def find_extra(name: str) -> str | None:
    """Return the extra that names a distribution; None if the core requires it, or nothing does."""
    for requirement in _requirements():
        extra = _EXTRA.search(requirement)
        if extra and _name(requirement) == name:
            return extra[1]
    return None


def distribution_of(error: ImportError) -> str:
    """Return the distribution of a module that cannot be imported.

    A module name with a dot is inside an installed distribution.
    """
    return (error.name or "?").replace("_", "-")


@contextmanager
def named_extras() -> Iterator[None]:
    """Name the extra that installs a missing module, if there is one.

    Raises:
        EdgeEmbedError: in place of the `ModuleNotFoundError` of a package that an extra names.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = distribution_of(error)
        extra = find_extra(package)
        if extra is None:
            raise
        raise EdgeEmbedError(
            f"this requires the package {package}, which is not installed: {_command(extra)}"
        ) from error


def is_installed(name: str) -> bool:
    """Return whether a distribution is installed."""
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def _command(extra: str) -> str:
    return f'python -m pip install "{_DISTRIBUTION}[{extra}]"'


def _requirements() -> list[str]:
    try:
        return metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return []


def _name(requirement: str) -> str:
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0]


def _missing(extra: str, requirements: list[str]) -> Iterator[str]:
    """Yield the distributions of an extra, and of the extras that it names, that are not installed."""
    for requirement in requirements:
        marker = _EXTRA.search(requirement)
        if not marker or marker[1] != extra:
            continue
        name = _name(requirement)
        if name == _DISTRIBUTION:
            for inner in re.search(r"\[([^]]*)\]", requirement)[1].split(","):  # type: ignore[index]
                yield from _missing(inner.strip(), requirements)
        elif not is_installed(name):
            yield name
