"""Numbers of ``genai_config.json``, with the bounds of ONNX Runtime GenAI 0.18.

The runtime stores integers in 32 bits, and refuses a number with a fraction, a text, a truth value and null. It accepts
some sizes below 1, and fails at the first token or ignores them.
"""

import logging
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

from edge_embed.errors import BadInputError

_LOG = logging.getLogger(__name__)
_MOST = 2**31 - 1
_REMEDY = "correct it, or build the folder again"


class _Integer(NamedTuple):
    """Meaning and bounds of an integer; without ``is_required`` it may be left out."""

    meaning: str
    least: int = 1
    most: int = _MOST
    is_required: bool = False


_MODEL = {
    "vocab_size": _Integer("the number of rows", is_required=True),
    "context_length": _Integer("the largest number of tokens", is_required=True),
}
_DECODER = {
    "num_hidden_layers": _Integer("the number of layers", most=10_000, is_required=True),
    "head_size": _Integer("the columns of an attention head"),
    "hidden_size": _Integer("the columns of a hidden state"),
    "num_attention_heads": _Integer("the number of attention heads"),
    "num_key_value_heads": _Integer("the number of attention heads of keys and values"),
}
_SESSION = {
    "intra_op_num_threads": _Integer("a number of threads", least=-_MOST),
    "inter_op_num_threads": _Integer("a number of threads", least=-_MOST),
    "log_severity_level": _Integer("a level", least=-_MOST),
    "log_verbosity_level": _Integer("a level", least=-_MOST),
}
_WINDOW = {
    "window_size": _Integer("the tokens in the attention window", is_required=True),
    "cache_slack": _Integer("the tokens kept before the window", least=0),
    "pad_value": _Integer("the id at unused places", least=-_MOST),
}
_SEARCH = {
    "max_length": _Integer("the largest number of tokens of a text", least=0),
    "min_length": _Integer("the smallest number of tokens of a text", least=-_MOST),
    "batch_size": _Integer("the number of texts"),
    "num_beams": _Integer("the number of beams"),
    "num_return_sequences": _Integer("the number of results"),
    "top_k": _Integer("the number of likely tokens", least=-_MOST),
    "no_repeat_ngram_size": _Integer("a number of tokens", least=-_MOST),
    "chunk_size": _Integer("a number of tokens", least=0),
    "random_seed": _Integer("a random seed", least=-_MOST),
}
_REAL = ("diversity_penalty", "length_penalty", "repetition_penalty", "temperature", "top_p")
_BOOLEAN = ("do_sample", "early_stopping", "past_present_share_buffer")
_TOKENS = ("bos_token_id", "pad_token_id", "bot_token_id", "eot_token_id", "bor_token_id", "eor_token_id")


def check_numbers(config: dict[str, Any], folder: str) -> None:
    """Check the numbers of a configuration whose parts are objects.

    Args:
        config: content of ``genai_config.json``.
        folder: path of its folder, for the warning of a token with the id -1, which means none.

    Raises:
        BadInputError: a number is missing, of another kind or out of bounds. The message names it.
    """
    model, search = config["model"], config.get("search", {})
    decoder = model["decoder"]
    _check_integers(model, _MODEL, "model")
    _check_integers(decoder, _DECODER, "model.decoder")
    _check_integers(decoder.get("session_options", {}), _SESSION, "model.decoder.session_options")
    if "sliding_window" in decoder:
        _check_window(decoder["sliding_window"], decoder["num_hidden_layers"])
    for key, at in _token_ids(model, folder):
        if type(at) is not int or not 0 <= at < model["vocab_size"]:
            raise BadInputError(
                f"model.{key}: got {at!r:.80}, expected an id below {model['vocab_size']} (model.vocab_size): {_REMEDY}"
            )
    _check_integers(search, _SEARCH, "search")
    _check_search(search)
    if search.get("max_length", 0) > model["context_length"]:
        raise BadInputError(
            f"search.max_length: got {search['max_length']}, expected at most {model['context_length']} "
            f"(model.context_length): {_REMEDY}"
        )


def _check_window(window: dict[str, Any], layers: int) -> None:
    place = "model.decoder.sliding_window"
    _check_integers(window, _WINDOW, place)
    found = window.get("layers", [])
    for at in found if isinstance(found, list) else [found]:
        if type(at) is not int or not 0 <= at < layers:
            raise BadInputError(
                f"{place}.layers: got {at!r:.80}, expected numbers below {layers} (num_hidden_layers): {_REMEDY}"
            )


def _check_integers(part: dict[str, Any], integers: dict[str, _Integer], place: str) -> None:
    for key, (meaning, least, most, is_required) in integers.items():
        if key not in part and not is_required:
            continue
        found = part.get(key)
        if type(found) is not int or not least <= found <= most:
            got = f"{found!r:.80}" if key in part else "none"
            bounds = f"an integer from {least} to {most}"
            raise BadInputError(f"{place}.{key}: got {got}, expected {bounds}, {meaning}: {_REMEDY}")


def _token_ids(model: dict[str, Any], folder: str) -> Iterator[tuple[str, object]]:
    """Yield keys and ids of special tokens; there may be several that end a text."""
    if "eos_token_id" in model:
        found = model["eos_token_id"]
        yield from (("eos_token_id", at) for at in (found if isinstance(found, list) else [found]))
    for key in _TOKENS:
        if key not in model:
            continue
        if type(model[key]) is int and model[key] == -1:  # of models without such a token
            _LOG.warning("%s: model.%s: got -1, the id of no token: leave this token out of texts", folder, key)
        else:
            yield key, model[key]


def _check_search(search: dict[str, Any]) -> None:
    for key in _REAL:
        found = search.get(key, 1.0)
        if type(found) not in (int, float) or not math.isfinite(found):
            raise BadInputError(f"search.{key}: got {found!r:.80}, expected a finite number: {_REMEDY}")
    for key in _BOOLEAN:
        if type(found := search.get(key, False)) is not bool:
            raise BadInputError(f"search.{key}: got {found!r:.80}, expected true or false: {_REMEDY}")
