"""Folder of a decoder for ONNX Runtime GenAI: ``genai_config.json``, the ONNX file that it names, and a tokenizer."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError, located, suggested
from edge_embed.importers.genai_numbers import check_numbers
from edge_embed.importers.genai_tokenizer import check_tokenizer
from edge_embed.importers.json_object import read_json_object
from edge_embed.input_file import check_regular, path_beside

GENAI_CONFIG = "genai_config.json"
CUSTOM_OPS_LIBRARY = "custom_ops_library"  # of the session options
GENAI_VERSIONS = "0.18"
_PARTS = ("model", "search", "engine")
_MOST_JSON = 64 << 20
_OBJECTS = ("session_options", "run_options", "compile_options", "sliding_window", "inputs", "outputs")
# Types of decoders of one ONNX file, as this version reads them.
DECODERS = frozenset(
    """chatglm decoder ernie4_5 gemma gemma2 gemma3_text gemma4_text gpt2 gptoss granite granitemoehybrid internlm2 lfm2
    llama mistral mistral3_text nemotron olmo phi phi3 phi3small phimoe qwen2 qwen2_5_vl_text qwen3 qwen3_5_text
    qwen3_5_moe_text qwen3_vl_text smollm3""".split()
)
_EXPECTED = f"as the model builder of onnxruntime-genai {GENAI_VERSIONS} writes it"


@dataclass(frozen=True)
class GenaiFolder:
    """A folder that was read.

    Attributes:
        path: the folder.
        config: content of ``genai_config.json``.
        model: the ONNX file of the decoder.
        has_tokenizer: whether the runtime encodes and decodes texts; without a tokenizer it generates from ids.
    """

    path: Path
    config: dict[str, Any]
    model: Path
    has_tokenizer: bool

    @property
    def decoder(self) -> dict[str, Any]:
        """Return the description of the decoder in the configuration."""
        found: dict[str, Any] = self.config["model"]["decoder"]
        return found

    @property
    def library(self) -> str | None:
        """Return the name of the library of operators that a session loads, if any."""
        found: str | None = self.decoder.get("session_options", {}).get(CUSTOM_OPS_LIBRARY)
        return found

    @property
    def library_path(self) -> Path | None:
        """Return the path of this library.

        Raises:
            BadInputError: it is not a path in the folder, as the runtime requires.
        """
        if self.library is None:
            return None
        what = f"{GENAI_CONFIG}: {CUSTOM_OPS_LIBRARY}"
        if Path(self.library).is_absolute():
            raise BadInputError(
                f"{what}: got {self.library!r:.200}, expected a path in the folder, which may move to a device: copy "
                "the library into it, and give its name"
            )
        return path_beside(self.path, self.library, what)

    @property
    def window(self) -> int:
        """Return the length of the attention window of some layers, or 0."""
        size: int = self.decoder.get("sliding_window", {}).get("window_size", 0)
        return size

    def names(self, part: str) -> list[str]:
        """Return the names that the configuration gives the ``inputs`` or ``outputs`` of the decoder."""
        layers = self.decoder["num_hidden_layers"]
        spelled = [name for name in self.decoder.get(part, {}).values() if isinstance(name, str)]
        of_layers = (
            [name.replace("%d", str(at)) for at in range(layers)] if "%d" in name else [name] for name in spelled
        )
        return [name for names in of_layers for name in names]


def is_genai(path: Path) -> bool:
    """Return whether a path is a folder of ONNX Runtime GenAI, even if its configuration is a broken link."""
    return os.path.lexists(path / GENAI_CONFIG)


def decoder_file(path: Path) -> Path:
    """Return the ONNX file of a folder of ONNX Runtime GenAI; other paths are returned unchanged.

    Raises:
        BadInputError: as `read_genai`.
    """
    return read_genai(path).model if is_genai(path) else path


def read_genai(folder: Path) -> GenaiFolder:
    """Read the configuration of a folder, and check that it describes one decoder in an ONNX file.

    Raises:
        BadInputError: the configuration is damaged, of an unknown version or of a model in several ONNX files. Also: a
            file is missing, or the tokenizer is incomplete or has ids without a row.
    """
    with located(str(folder)):
        config = read_json_object(folder / GENAI_CONFIG, _MOST_JSON, "the configuration of ONNX Runtime GenAI")
        with located(GENAI_CONFIG):
            model = _decoder_file(folder, config)
            check_numbers(config, str(folder))
        has_tokenizer = check_tokenizer(folder, config["model"]["vocab_size"], f"{GENAI_CONFIG}: model.vocab_size")
        return GenaiFolder(folder, config, model, has_tokenizer)


def _decoder_file(folder: Path, config: dict[str, Any]) -> Path:
    if unknown := [name for name in config if name not in _PARTS]:
        raise BadInputError(f"got {unknown[0]!r:.80}, expected {', '.join(_PARTS)}, {_EXPECTED}")
    model = _object(config, "model")
    _object(config, "search")
    _check_type(model)
    decoder = _object(model, "decoder")
    if "pipeline" in decoder:
        raise BadInputError(f"got a decoder in several files (pipeline), expected one filename, {_EXPECTED}")
    if unknown := [name for name, value in decoder.items() if isinstance(value, dict) and name not in _OBJECTS]:
        raise BadInputError(f"got a decoder with {unknown[0]!r:.80}, expected {', '.join(_OBJECTS)}, {_EXPECTED}")
    for part in _OBJECTS:
        _object(decoder, part)
    for part in ("inputs", "outputs"):
        for key, name in _object(decoder, part).items():
            if not isinstance(name, str):
                raise BadInputError(f"{part}.{key:.80}: got {name!r:.80}, expected a name, {_EXPECTED}")
    library = decoder.get("session_options", {}).get(CUSTOM_OPS_LIBRARY, "none")
    if not isinstance(library, str) or not library:
        raise BadInputError(f"{CUSTOM_OPS_LIBRARY}: got {library!r:.80}, expected the path of a library, or no entry")
    name = decoder.get("filename")
    if not isinstance(name, str) or os.path.basename(name) != name or not name.endswith(".onnx"):
        raise BadInputError(f"model.decoder.filename: got {name!r:.80}, expected the name of an ONNX file, {_EXPECTED}")
    path = path_beside(folder, name, "model.decoder.filename")
    with located(f"{name:.80}"):
        check_regular(path, "the ONNX file of the decoder")
    return path


def _check_type(model: dict[str, Any]) -> None:
    """Raise for a model that the runtime does not know, or that has other parts than a decoder."""
    if several := [name for name, value in model.items() if isinstance(value, dict) and name != "decoder"]:
        raise BadInputError(f"got a model with a part {several[0]!r:.80}, expected a decoder alone, {_EXPECTED}")
    kind = model.get("type")
    if not isinstance(kind, str) or kind not in DECODERS:
        raise BadInputError(
            f"model.type: got {kind!r:.80}, expected the type of a decoder, such as llama: "
            f"{suggested(str(kind), DECODERS)}build the folder with onnxruntime-genai {GENAI_VERSIONS}"
        )


def _object(parent: dict[str, Any], name: str) -> dict[str, Any]:
    found = parent.get(name, {})
    if not isinstance(found, dict):
        raise BadInputError(f"{name}: got {found!r:.80}, expected an object, {_EXPECTED}")
    return found
