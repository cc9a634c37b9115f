"""The extras of the package: what each is for, what of it is missing, and which one brings a missing module."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata

from edge_embed.errors import EdgeEmbedError

_PURPOSES = {
    "runtime": "`edge_embed.create_session`: exported ONNX files run",
    "export": "models are trained, compressed, exported and validated",
    "inspect": "`edge-embed inspect` of ONNX files",
    "bench": "`edge-embed bench`: the libraries that it compares with, and plots",
    "compress": "`edge-embed compress` with dpq and opq: k-means",
    "report": "HTML reports and plots",
    "tflite": "TFLite files of tables: written, read and run",
    "tflite-models": "whole models as TFLite files",
    "tokenizer": "`edge-embed export --tokenizer`, and models that take text",
    "transformers": "folders of transformers models",
}
_DISTRIBUTION = "edge-embed"
_EXTRA = re.compile(r"""extra == ['"]([^'"]+)['"]""")


@dataclass(frozen=True)
class ExtraInfo:
    """An optional part of the package.

    Attributes:
        name: As in ``edge-embed[name]``.
        purpose: What it is for.
        lacks: Distributions that it names and that are not installed; empty if it is complete.
        command: Installs it.
    """

    name: str
    purpose: str
    lacks: tuple[str, ...]
    command: str


def list_extras() -> tuple[ExtraInfo, ...]:
    """All extras for users, in the order of what they are for; none where the package is not installed."""
    requirements = _requirements()
    if not requirements:
        return ()
    return tuple(
        ExtraInfo(name, purpose, tuple(dict.fromkeys(_missing(name, requirements))), _command(name))
        for name, purpose in _PURPOSES.items()
    )


def find_extra(name: str) -> str | None:
    """The extra that names a distribution; None where the core needs it, or nothing does."""
    for requirement in _requirements():
        extra = _EXTRA.search(requirement)
        if extra and _name(requirement) == name:
            return extra[1]
    return None


def distribution_of(error: ImportError) -> str:
    """The distribution whose module cannot be imported; a name with a dot is of a module inside an installed one."""
    return (error.name or "?").replace("_", "-")


@contextmanager
def named_extras() -> Iterator[None]:
    """Say which extra brings a module that is missing, if one does.

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
        raise EdgeEmbedError(f"this needs the package {package}, which is not installed: {_command(extra)}") from error


def is_installed(name: str) -> bool:
    """Whether a distribution is installed."""
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
    """Names of the distributions of an extra, and of extras that it names, that are not installed."""
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
