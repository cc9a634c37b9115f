"""Files in the folder of a transformers model that its program does not contain: tokenizer and pooling."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole
from edge_embed.report.results.model_source import LeftOut

_TOKENIZERS = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
    "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model", "chat_template.jinja",
)  # fmt: skip
_MODULES = "modules.json"  # of sentence-transformers
_MOST_JSON = 1 << 20
_SHOWN = 5


def folder_left_out(folder: Path) -> tuple[LeftOut, ...]:
    """Return the files of a folder that the program does not contain, with their purpose."""
    return (*_tokenizer(folder), *_steps(folder))


def _tokenizer(folder: Path) -> Iterator[LeftOut]:
    files = [folder / name for name in _TOKENIZERS if (folder / name).is_file()]
    if files:
        remedy = "keep it beside the output file"
        if (folder / "tokenizer.json").is_file():
            file = shlex.quote(str(folder / "tokenizer.json"))
            remedy += f", or include it in an ONNX file: export --tokenizer {file}"
        names = ", ".join(file.name for file in files)
        yield LeftOut("tokenizer", f"{names}: {remedy}", nbytes=sum(file.stat().st_size for file in files))


def _steps(folder: Path) -> Iterator[LeftOut]:
    """Yield the steps that sentence-transformers applies to the outputs of a model."""
    try:
        steps: Any = json.loads(read_whole(folder / _MODULES, _MOST_JSON, f"a {_MODULES}"))
    except (OSError, ValueError, RecursionError, BadInputError):
        return
    behind = steps[1:] if isinstance(steps, list) else []
    names = [str(step.get("type", "")).rpartition(".")[2][:40] for step in behind if isinstance(step, dict)]
    if names:
        shown = ", ".join(names[:_SHOWN])
        yield LeftOut(shown, f"of sentence-transformers ({_MODULES}): outputs are those of the model before this step")
