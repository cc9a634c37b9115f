"""View of a compression as the model card of the file that it wrote."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath

from edge_embed.report.results.compressed import CompressedTable, CompressReport
from edge_embed.report.results.provenance import Provenance
from edge_embed.report.views.calibration import CALIBRATION_COLUMNS, OF_TABLES, calibration_cells
from edge_embed.report.views.markdown.blocks import join, table, text
from edge_embed.report.views.markdown.card import code, header, origin_table
from edge_embed.report.views.text_predictions import TEXT_COLUMNS

_SIZES = ("table", "method", "rows x columns", "dense bytes", "bytes", "ratio")
_FIDELITY = ("table", "mean cosine", "relative error", "lowest cosine", "10 nearest rows that stay")
_KINDS = {".onnx": "onnx", ".tflite": "tflite"}


@dataclass(frozen=True)
class CardFacts:
    """Facts of a card that a report lacks.

    Attributes:
        name: name of the file or folder that was written.
        model: name of the model file, which is in the folder if one was written.
        sha256: hash of the model file.
        made_by: program with its version.
        settings: settings of the compression, by name.
        origin: origin of the model.
    """

    name: str
    model: str
    sha256: str
    made_by: str
    settings: Mapping[str, str]
    origin: Provenance


def compressed_card(report: CompressReport, facts: CardFacts) -> str:
    """Return the model card of a compressed model."""
    return join(_blocks(report, facts))


def _blocks(report: CompressReport, facts: CardFacts) -> Iterator[str]:
    kind = next((kind for suffix, kind in _KINDS.items() if facts.model.endswith(suffix)), "pytorch")
    yield header(facts.origin, kind)
    yield f"# {text(PurePath(facts.name).stem if kind == 'pytorch' else facts.name)}"
    if facts.origin.task:
        yield text(facts.origin.task)
    yield "## Size"
    ratio = report.dense_bytes / report.compressed_bytes
    sizes = f"{report.dense_bytes:,}", f"{report.compressed_bytes:,}", f"{ratio:.1f}x"
    yield table(("bytes before", "bytes after", "ratio"), [sizes], texts=0)
    yield table(_SIZES, map(_size_cells, report.tables), texts=3)
    yield "## Fidelity"
    yield "Rows of the compressed tables beside those of the dense ones:"
    yield table(_FIDELITY, (_fidelity_cells(one) for one in report.tables if one.fidelity))
    for one in report.tables:
        if one.next_layer_error is not None:
            yield f"{code(one.name)}: relative error {one.next_layer_error:.4f} behind the next layer."
    if report.calibration:
        yield f"Calibration on {code(report.calibration.file)}. {OF_TABLES}"
        yield table(CALIBRATION_COLUMNS, [calibration_cells(report.calibration)], texts=4)
    if report.texts:
        yield f"Next tokens of {code(report.texts.file)}, beside the original model:"
        yield table(TEXT_COLUMNS, [report.texts.figures()], texts=0)
    yield "## Use it"
    yield _use(facts, kind)
    yield "## Settings"
    yield table(("", ""), ((text(name), text(value)) for name, value in facts.settings.items()), texts=2)
    yield "## Provenance"
    yield origin_table(facts.made_by, facts.origin, {f"SHA-256 of {code(facts.model)}": code(facts.sha256)})


def _size_cells(one: CompressedTable) -> list[str]:
    shape = f"{one.num_embeddings:,} x {one.embedding_dim:,}"
    found = one.fidelity
    if found is None:
        return [text(one.name), "dense", shape, "", "not compressed", ""]
    method = text(f"{one.method} {one.setting}" if one.plan is None else f"{one.method} {one.plan}")
    return [text(one.name), method, shape, f"{found.dense_bytes:,}", f"{found.packed_bytes:,}", f"{found.ratio:.1f}x"]


def _fidelity_cells(one: CompressedTable) -> list[str]:
    found = one.fidelity
    assert found is not None
    lowest = f"{min(band.least for band in found.bands):.4f}" if found.bands else ""
    near = "" if found.neighbours is None else f"{found.neighbours:.1%}"
    return [text(one.name), f"{found.mean_cosine:.4f}", f"{found.relative_error:.4f}", lowest, near]


def _use(facts: CardFacts, kind: str) -> str:
    if facts.model != facts.name:
        return "ONNX Runtime GenAI generates text with this folder."
    opens = "load" if kind == "pytorch" else "create_session"
    if kind == "tflite":
        return "LiteRT runs this file with its built-in operators."
    return f"```python\nimport edge_embed\n\nmodel = edge_embed.{opens}({json.dumps(facts.name)})\n```"
