"""Folder of a decoder for ONNX Runtime GenAI: ``genai_config.json``, the ONNX file that it names, and a tokenizer."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, located
from edge_embed.importers.json_object import read_json_object
from edge_embed.input_file import check_regular, path_beside

GENAI_CONFIG = "genai_config.json"
CUSTOM_OPS_LIBRARY = "custom_ops_library"  # of the session options
GENAI_VERSIONS = "0.18"
_PARTS = ("model", "search", "engine")
_MOST_JSON, _MOST_TOKENIZER = 64 << 20, 256 << 20
_TOKENIZER = "tokenizer.json"
_EXPECTED = f"as the model builder of onnxruntime-genai {GENAI_VERSIONS} writes it"


@dataclass(frozen=True)
class GenaiFolder:
    """A folder that was read.

    Attributes:
        path: the folder.
        config: content of ``genai_config.json``.
        model: the ONNX file of the decoder.
    """

    path: Path
    config: dict[str, Any]
    model: Path

    @property
    def decoder(self) -> dict[str, Any]:
        """Return the description of the decoder in the configuration."""
        found: dict[str, Any] = self.config["model"]["decoder"]
        return found

    @property
    def window(self) -> int:
        """Return the length of the attention window of some layers, or 0."""
        sliding = self.decoder.get("sliding_window")
        size = sliding.get("window_size") if isinstance(sliding, dict) else None
        return size if isinstance(size, int) else 0

    def names(self, part: str) -> list[str]:
        """Return the names that the configuration gives the ``inputs`` or ``outputs`` of the decoder."""
        layers = self.decoder.get("num_hidden_layers", 0)
        spelled = [name for name in self.decoder.get(part, {}).values() if isinstance(name, str)]
        of_layers = (
            [name.replace("%d", str(at)) for at in range(layers)] if "%d" in name else [name] for name in spelled
        )
        return [name for names in of_layers for name in names]


def is_genai(path: Path) -> bool:
    """Return whether a path is a folder of ONNX Runtime GenAI."""
    return (path / GENAI_CONFIG).is_file()


def decoder_file(path: Path) -> Path:
    """Return the ONNX file of a folder of ONNX Runtime GenAI; other paths are returned unchanged.

    Raises:
        BadInputError: as `read_genai`.
    """
    return read_genai(path).model if is_genai(path) else path


def read_genai(folder: Path) -> GenaiFolder:
    """Read the configuration of a folder, and check that it describes one decoder in an ONNX file.

    Raises:
        BadInputError: the configuration is damaged, of an unknown version or of a model in several ONNX files, or a
            file is missing, or the tokenizer has ids without a row.
    """
    with located(str(folder)):
        config = read_json_object(folder / GENAI_CONFIG, _MOST_JSON, "the configuration of ONNX Runtime GenAI")
        with located(GENAI_CONFIG):
            model = _decoder_file(folder, config)
            rows = _rows(config["model"])
        _check_ids(folder, rows)
        return GenaiFolder(folder, config, model)


def _decoder_file(folder: Path, config: dict[str, Any]) -> Path:
    if unknown := [name for name in config if name not in _PARTS]:
        raise BadInputError(f"got {unknown[0]!r:.80}, expected {', '.join(_PARTS)}, {_EXPECTED}")
    model = _object(config, "model")
    if several := [name for name in ("encoder", "embedding", "vision", "speech") if name in model]:
        raise BadInputError(f"got a model with a part {several[0]!r}, expected a decoder alone, {_EXPECTED}")
    decoder = _object(model, "decoder")
    if "pipeline" in decoder:
        raise BadInputError(f"got a decoder in several files (pipeline), expected one filename, {_EXPECTED}")
    for part in ("session_options", "inputs", "outputs"):
        _object(decoder, part)
    name, layers = decoder.get("filename"), decoder.get("num_hidden_layers", 0)
    if not isinstance(name, str) or os.path.basename(name) != name:
        raise BadInputError(f"model.decoder.filename: got {name!r:.80}, expected the name of an ONNX file, {_EXPECTED}")
    if not isinstance(layers, int) or not 0 <= layers <= 10_000:
        raise BadInputError(f"model.decoder.num_hidden_layers: got {layers!r:.80}, expected the number of layers")
    path = path_beside(folder, name, "model.decoder.filename")
    with located(name):
        check_regular(path, "the ONNX file of the decoder")
    return path


def _rows(model: dict[str, Any]) -> int:
    rows = model.get("vocab_size")
    if not isinstance(rows, int) or rows < 1:
        raise BadInputError(f"model.vocab_size: got {rows!r:.80}, expected the number of rows, {_EXPECTED}")
    return rows


def _check_ids(folder: Path, rows: int) -> None:
    """Raise for a tokenizer with ids that the model has no row for."""
    path = folder / _TOKENIZER
    if not path.exists():  # a tokenizer of another form
        return
    content = read_json_object(path, _MOST_TOKENIZER, "a tokenizer")
    model, added = content.get("model"), content.get("added_tokens")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    ids = [*vocabulary.values()] if isinstance(vocabulary, dict) else []
    ids += [len(vocabulary) - 1] if isinstance(vocabulary, list) else []
    ids += [token.get("id") for token in added if isinstance(token, dict)] if isinstance(added, list) else []
    largest = max((at for at in ids if isinstance(at, int)), default=-1)
    if largest >= rows:
        raise BadInputError(
            f"{GENAI_CONFIG}: model.vocab_size: got {rows} rows, expected more than the largest id {largest:.6g} of "
            f"{_TOKENIZER}: use the tokenizer of this model"
        )


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name, {})
    if not isinstance(found, dict):
        raise BadInputError(f"{name}: got {found!r:.80}, expected an object, {_EXPECTED}")
    return found
