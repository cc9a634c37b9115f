"""Model card and licence notices of a bundle, as Markdown and as text."""

from collections.abc import Iterator, Sequence

from edge_embed.bundle.golden import GoldenPair, GoldenTensor
from edge_embed.bundle.manifest import GOLDEN, MANIFEST, BundleManifest
from edge_embed.methods.words import method_words
from edge_embed.report.results.bundled import Ran
from edge_embed.report.results.provenance import Provenance
from edge_embed.report.results.table_record import TableRecord
from edge_embed.report.views.markdown.blocks import join, table, text
from edge_embed.report.views.markdown.card import file_table, header, origin_table
from edge_embed.report.views.words import plain

NOTICE = "NOTICE"
_SHOWN = 8  # values of an array


def model_card(
    manifest: BundleManifest,
    tables: Sequence[TableRecord],
    golden: GoldenPair,
    ran: Sequence[Ran],
    origin: Provenance,
) -> str:
    """Return the model card, in Markdown.

    Args:
        manifest: manifest of the bundle, without the card.
        tables: embeddings of the model.
        golden: golden pair.
        ran: runs of the golden pair.
        origin: origin of the model.
    """
    return join(_blocks(manifest, tables, golden, ran, origin))


def _blocks(
    manifest: BundleManifest,
    tables: Sequence[TableRecord],
    golden: GoldenPair,
    ran: Sequence[Ran],
    origin: Provenance,
) -> Iterator[str]:
    yield header(origin, manifest.target)
    yield f"# {text(manifest.name)}"
    if origin.task:
        yield text(origin.task)
    yield "## Files"
    yield file_table({name: file.bytes for name, file in manifest.files.items()})
    yield f"`{MANIFEST}` has the SHA-256 of each file, and the versions that the model requires."
    yield "## Embedding tables"
    yield table(("table", "method", "rows x columns", "dense float32 bytes", "bytes"), map(_cells, tables), texts=3)
    yield "## Fidelity"
    result = "The exported file gave the same:" if ran else "The exported file was not run."
    yield f"`{GOLDEN}` holds inputs and the outputs of the PyTorch model. {result}"
    if ran:
        yield table(("runtime", "largest absolute error"), ((text(run.way), _error(run)) for run in ran))
    yield "## Run it"
    yield _program(golden)
    yield "## Provenance"
    yield origin_table(manifest.made_by, origin, {})


def notices(licence: str) -> str:
    """Return the licence notices, as text.

    Args:
        licence: licence of the model; empty if none was stated.
    """
    model = f"licence {plain(licence)}" if licence else "no licence was stated when the model was saved"
    return (
        f"Model: {model}.\n\n"
        "The operators in the model file, and the operator library of edge-embed that an app may add:\n"
        "edge-embed, Apache License 2.0, https://www.apache.org/licenses/LICENSE-2.0\n"
    )


def _cells(record: TableRecord) -> tuple[str, ...]:
    dense = 4 * record.num_embeddings * record.embedding_dim
    return (
        text(record.name),
        text(method_words(record.method, record.embedding_dim, record.settings)),
        f"{record.num_embeddings:,} x {record.embedding_dim:,}",
        f"{dense:,}",
        "not compressed" if record.packed_bytes is None else f"{record.packed_bytes:,}",
    )


def _error(run: Ran) -> str:
    return run.status if run.error is None else f"{run.error:.2g}"


def _program(golden: GoldenPair) -> str:
    return (
        "```python\nimport numpy as np\n\nimport edge_embed\n\n"
        'model = edge_embed.open_bundle(".")  # compares hashes and golden outputs\n'
        f"outputs = model.run({{{', '.join(map(_argument, golden.inputs))}}})\n```"
    )


def _argument(tensor: GoldenTensor) -> str:
    values = ", ".join(map(repr, tensor.values.tolist()[:_SHOWN]))
    if len(tensor.values) > _SHOWN:
        return f"{tensor.name!r}: ..."
    kind = "object" if tensor.dtype == "string" else tensor.dtype
    return f'{tensor.name!r}: np.array([{values}], "{kind}").reshape({list(tensor.shape)})'
