"""Model card and licence notices of a bundle, as Markdown and as text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edge_embed.bundle.golden import GoldenPair, GoldenTensor
from edge_embed.bundle.manifest import GOLDEN, MANIFEST, BundleManifest
from edge_embed.methods.words import method_words
from edge_embed.report.results.bundled import Ran
from edge_embed.report.results.table_record import TableRecord

CARD, NOTICE = "README.md", "NOTICE"
LICENCE_KEYS = ("licence", "license")  # of metadata; both spellings are used
_SHOWN = 8  # values of an array


@dataclass(frozen=True)
class Provenance:
    """Origin of a bundle.

    Attributes:
        source: name of the file of the model; empty for a module.
        sha256: its hash; empty for a module or a folder.
    """

    source: str = ""
    sha256: str = ""


def model_card(
    manifest: BundleManifest,
    tables: Sequence[TableRecord],
    golden: GoldenPair,
    ran: Sequence[Ran],
    provenance: Provenance,
) -> str:
    """Return the model card, in Markdown.

    Args:
        manifest: manifest of the bundle, without the card.
        tables: embeddings of the model.
        golden: golden pair.
        ran: runs of the golden pair.
        provenance: origin of the model.
    """
    task = manifest.metadata.get("task", "")
    licence = licence_of(manifest.metadata)
    parts = [
        *(["---", f"license: {_plain(licence)}", "---", ""] if licence else []),
        f"# {_plain(manifest.name)}",
        "",
        *([_plain(task), ""] if task else []),
        "## Files",
        "",
        *_table(("file", "bytes"), [(f"`{name}`", f"{file.bytes:,}") for name, file in manifest.files.items()]),
        "",
        f"`{MANIFEST}` has the SHA-256 of each file, and the versions that the model requires.",
        "",
        "## Embedding tables",
        "",
        *_table(
            ("table", "method", "rows x columns", "dense float32 bytes", "bytes"),
            [_table_cells(table) for table in tables],
        ),
        "",
        "## Fidelity",
        "",
        f"`{GOLDEN}` holds inputs and the outputs of the PyTorch model. "
        + ("The exported file gave the same:" if ran else "The exported file was not run."),
        "",
        *(_table(("runtime", "largest absolute error"), [(run.way, _error(run)) for run in ran]) if ran else []),
        "",
        "## Run it",
        "",
        "```python",
        "import numpy as np",
        "",
        "import edge_embed",
        "",
        'model = edge_embed.open_bundle(".")  # compares hashes and golden outputs',
        f"outputs = model.run({{{', '.join(map(_argument, golden.inputs))}}})",
        "```",
        "",
        "## Provenance",
        "",
        *_origin(manifest, provenance),
    ]
    return "\n".join(parts) + "\n"


def notices(metadata: Mapping[str, str]) -> str:
    """Return the licence notices, as text."""
    licence = licence_of(metadata)
    model = f"licence {_plain(licence)}" if licence else "no licence was stated when the model was saved"
    return (
        f"Model: {model}.\n\n"
        "The operators in the model file, and the operator library of edge-embed that an app may add:\n"
        "edge-embed, Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0\n"
    )


def licence_of(metadata: Mapping[str, str]) -> str:
    """Return the licence that was saved with a model, or an empty text."""
    return next((metadata[key] for key in LICENCE_KEYS if metadata.get(key)), "")


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    lines = [titles, ["---"] * len(titles), *rows]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines]


def _table_cells(table: TableRecord) -> tuple[str, ...]:
    dense = 4 * table.num_embeddings * table.embedding_dim
    return (
        _plain(table.name),
        method_words(table.method, table.embedding_dim, table.settings),
        f"{table.num_embeddings:,} x {table.embedding_dim:,}",
        f"{dense:,}",
        "not compressed" if table.packed_bytes is None else f"{table.packed_bytes:,}",
    )


def _error(run: Ran) -> str:
    return run.status if run.error is None else f"{run.error:.2g}"


def _argument(tensor: GoldenTensor) -> str:
    values = ", ".join(map(repr, tensor.values.tolist()[:_SHOWN]))
    if len(tensor.values) > _SHOWN:
        return f"{tensor.name!r}: ..."
    kind = "object" if tensor.dtype == "string" else tensor.dtype
    return f'{tensor.name!r}: np.array([{values}], "{kind}").reshape({list(tensor.shape)})'


def _origin(manifest: BundleManifest, provenance: Provenance) -> list[str]:
    rows = [("exported by", manifest.made_by)]
    if provenance.source:
        rows.append(("from", f"`{_plain(provenance.source)}`"))
    if provenance.sha256:
        rows.append(("SHA-256 of that file", f"`{provenance.sha256}`"))
    return _table(("", ""), rows)


def _plain(text: str) -> str:
    """Return a text on one line, without signs that Markdown or the card's header would read."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).replace("`", "'").split())
