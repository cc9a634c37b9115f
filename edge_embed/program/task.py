"""Task of a transformers model, by its configuration; a class for several tasks names none."""

import json
from pathlib import Path
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole

_CONFIG, _PIPELINE = "config.json", "modules.json"  # the latter: sentence-transformers, where the class is one step
_MOST = 16 << 20
_TASKS = {  # of the Hub, by the end of the name of a class
    "ForCausalLM": "text-generation",
    "GPT2LMHeadModel": "text-generation",
    "ForMaskedLM": "fill-mask",
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
}


def task_of(folder: Path) -> str:
    """Return the task of the model in a folder, or an empty text if it is unknown."""
    if not (folder / _CONFIG).is_file() or (folder / _PIPELINE).exists():
        return ""
    try:
        config = json.loads(read_whole(folder / _CONFIG, _MOST, "a configuration"))
    except (BadInputError, ValueError, RecursionError):
        return ""
    return _task(config) if isinstance(config, dict) else ""


def _task(config: dict[str, Any]) -> str:
    classes, labels = config.get("architectures"), config.get("id2label")
    if not (isinstance(classes, list) and len(classes) == 1) or {"vision_config", "audio_config"} & config.keys():
        return ""
    if isinstance(labels, dict) and len(labels) == 1:  # a score, as of a reranker
        return ""
    return next((task for end, task in _TASKS.items() if str(classes[0]).endswith(end)), "")
