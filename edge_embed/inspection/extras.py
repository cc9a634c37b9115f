"""The extras of the package: what each is for, what of it is missing, and the command that installs it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata

_PURPOSES = {
    "bench": "`edge-embed bench`: the libraries that it compares with, and plots",
    "compress": "`edge-embed compress` with dpq and opq: k-means",
    "report": "HTML reports and plots",
    "tflite": "TFLite files of tables: written, read and run",
    "tflite-models": "whole models as TFLite files",
    "tokenizer": "`edge-embed export --tokenizer`, and models that take text",
    "transformers": "folders of transformers models",
}
_DISTRIBUTION = "edge-embed"


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
    """All extras for users, in the order of their names; none where the package is not installed."""
    try:
        requirements = metadata.requires(_DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return ()
    return tuple(
        ExtraInfo(
            name, purpose, tuple(_missing(name, requirements)), f'python -m pip install "{_DISTRIBUTION}[{name}]"'
        )
        for name, purpose in _PURPOSES.items()
    )


def _missing(extra: str, requirements: list[str]) -> Iterator[str]:
    """Names of the distributions of an extra, and of extras that it names, that are not installed."""
    for requirement in requirements:
        if not re.search(rf"""extra == ['"]{re.escape(extra)}['"]""", requirement):
            continue
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        if name == _DISTRIBUTION:
            for inner in re.search(r"\[([^]]*)\]", requirement)[1].split(","):  # type: ignore[index]
                yield from _missing(inner.strip(), requirements)
            continue
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            yield name
