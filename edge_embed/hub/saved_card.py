"""Model card of a saved model in a repository of the Hub, from its file alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from edge_embed.inspection.report import FileReport, TableInfo
from edge_embed.methods.words import method_words
from edge_embed.program.provenance import provenance_of
from edge_embed.report.views.markdown.blocks import join, table, text
from edge_embed.report.views.markdown.card import code, file_table, header, origin_table
from edge_embed.runtime.library import package_version

MODEL = "model.pt"  # name of a saved model in a repository


def opening(repo_id: str, revision: str | None) -> str:
    """Return the call that opens the model of a repository."""
    branch = "" if revision is None else f', revision="{revision}"'
    return f'edge_embed.from_pretrained("{repo_id}"{branch})'


def saved_card(report: FileReport, path: Path, repo_id: str, revision: str | None) -> str:
    """Return the model card, in Markdown.

    Args:
        report: content of the file.
        path: the file.
        repo_id: id of the repository.
        revision: branch; None for the main one.
    """
    return join(_blocks(report, path, opening(repo_id, revision)))


def _blocks(report: FileReport, path: Path, call: str) -> Iterator[str]:
    origin = provenance_of(path, report.metadata)
    yield header(origin, "pytorch")
    yield f"# {text(path.stem)}"
    if origin.task:
        yield text(origin.task)
    yield "## Files"
    yield file_table({MODEL: report.file_bytes})
    yield "## Embedding tables"
    columns = ("table", "method", "rows x columns", "dense float32 bytes", "bytes")
    yield table(columns, map(_cells, report.tables), texts=3)
    yield "The fidelity of the tables was not recorded in the file."
    yield "## Use it"
    yield f"```python\nimport edge_embed\n\nmodel = {call}\n```"
    yield "## Provenance"
    rest = replace(origin, source="", sha256="")  # the source is the file itself, under another name
    yield origin_table(f"edge-embed {package_version()}", rest, {f"SHA-256 of {code(MODEL)}": code(origin.sha256)})


def _cells(found: TableInfo) -> tuple[str, ...]:
    return (
        text(found.name),
        text(method_words(found.method, found.embedding_dim, found.attributes)),
        f"{found.num_embeddings:,} x {found.embedding_dim:,}",
        f"{4 * found.num_embeddings * found.embedding_dim:,}",
        f"{found.total_inference_bytes:,}",
    )
