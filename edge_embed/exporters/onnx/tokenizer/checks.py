"""Checks whether a ``tokenizer.json`` can be exported, by its structure alone, before any library reads it."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from edge_embed.errors import BadInputError, one_line

Kind = Literal["BPE", "WordPiece", "WordLevel"]

REMEDY = "save it with the library tokenizers (tokenizer.save('tokenizer.json'))"
MAX_ID = 1 << 24
_MAX_ADDED_TOKENS, _LONGEST_ADDED_TOKEN = 256, 256
# The parts that each kind supports in front of its model. A sequence of normalizers is supported if each part is.
_NORMALIZERS = {"BertNormalizer", "Lowercase", "StripAccents", "NFD", "NFKD"}
_PRE_TOKENIZERS: dict[str, set[str]] = {
    "BPE": {"ByteLevel"},
    "WordPiece": {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"},
    "WordLevel": {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"},
}
# Settings of a BPE that change ids, with the supported values.
_BPE_SETTINGS: dict[str, tuple[Any, ...]] = {
    "dropout": (None, 0.0),
    "continuing_subword_prefix": (None, ""),
    "end_of_word_suffix": (None, ""),
    "fuse_unk": (None, False),
    "byte_fallback": (None, False),
    "ignore_merges": (None, False),
}


def parse(data: bytes) -> dict[str, Any]:
    """Parse the object in a file, with ``model`` and ``added_tokens``.

    Raises:
        BadInputError: the file holds no such object.
    """
    try:
        content = json.loads(data.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON, nested too deep, numbers of 5,000 digits
        raise BadInputError(f"is not a tokenizer.json ({one_line(error)}): {REMEDY}") from error
    if not isinstance(content, dict) or not isinstance(content.get("model"), dict):
        raise BadInputError(f"is not a tokenizer.json: expected an object with a 'model': {REMEDY}")
    added = content.setdefault("added_tokens", [])
    if not isinstance(added, list) or not all(_is_added_token(token) for token in added):
        raise BadInputError(f"its 'added_tokens' are not a list of tokens with ids: {REMEDY}")
    if len(added) > _MAX_ADDED_TOKENS:
        raise BadInputError(f"got {len(added)} added tokens, expected at most {_MAX_ADDED_TOKENS}")
    return content


def _no_number(text: str) -> None:
    raise ValueError(f"{text} is not a number of JSON")


def _is_added_token(token: Any) -> bool:
    if not isinstance(token, dict) or not isinstance(token.get("content"), str) or type(token.get("id")) is not int:
        return False
    return len(token["content"]) <= _LONGEST_ADDED_TOKEN


def checked_kind(content: dict[str, Any]) -> Kind:
    """Return the type of the model, after checks of its vocabulary.

    Raises:
        BadInputError: the type cannot be exported.
    """
    model = content["model"]
    kind = _type(model)
    if kind not in _PRE_TOKENIZERS:
        raise BadInputError(
            f"got a tokenizer of type {kind!r:.40}, expected one of {', '.join(_PRE_TOKENIZERS)}: "
            "onnxruntime-extensions returns other ids for Unigram and SentencePiece; run the tokenizer in front "
            "of the model instead"
        )
    vocabulary = model.get("vocab")
    if not isinstance(vocabulary, dict) or not all(type(number) is int for number in vocabulary.values()):
        raise BadInputError(f"its vocabulary is not an object of tokens and ids: {REMEDY}")
    if not all(0 <= number < MAX_ID for number in vocabulary.values()):
        raise BadInputError(f"its vocabulary has ids outside 0 to {MAX_ID - 1}: {REMEDY}")
    if len(set(vocabulary.values())) < len(vocabulary):
        raise BadInputError(f"its vocabulary has duplicate ids: {REMEDY}")
    unknown = model.get("unk_token")
    if kind != "BPE" and not (isinstance(unknown, str) and unknown in vocabulary):
        raise BadInputError(f"its unk_token {unknown!r:.40} is missing in its vocabulary: add it")
    return kind  # type: ignore[no-any-return]


def check_parts(content: dict[str, Any], kind: Kind) -> None:
    """Refuse parts in front of the model that the exported nodes would treat differently.

    Raises:
        BadInputError: a part is not supported; the message names it.
    """
    pre_tokenizer, taken = _type(content.get("pre_tokenizer")), _PRE_TOKENIZERS[kind]
    if pre_tokenizer not in taken:
        raise BadInputError(
            f"got pre_tokenizer {pre_tokenizer!r:.40} for a {kind} model, expected {' or '.join(sorted(taken))}"
        )
    if kind == "BPE":
        _check_byte_level(content)
    else:
        _check_normalizer(content.get("normalizer"))
    for token in content["added_tokens"]:
        for flag in ("single_word", "normalized"):
            if token.get(flag) and (flag == "single_word" or content.get("normalizer")):
                raise BadInputError(f"added token {token['content']!r:.40}: got {flag}=true, expected false")
    _check_overlap([token["content"] for token in content["added_tokens"]])


def _check_byte_level(content: dict[str, Any]) -> None:
    pre_tokenizer, model = content["pre_tokenizer"], content["model"]
    if content.get("normalizer") is not None:
        raise BadInputError(f"got normalizer {_type(content['normalizer'])!r:.40} for a BPE model, expected none")
    if pre_tokenizer.get("add_prefix_space") or pre_tokenizer.get("use_regex") is False:
        raise BadInputError("pre_tokenizer ByteLevel: expected add_prefix_space=false and use_regex=true")
    for name, values in _BPE_SETTINGS.items():
        if model.get(name) not in values:
            raise BadInputError(f"BPE model: got {name}={model[name]!r:.40}, expected none")
    if not isinstance(model.get("merges"), list):
        raise BadInputError(f"its merges are not a list: {REMEDY}")
    if not model["merges"]:
        raise BadInputError("BPE model: got no merges, expected at least one")


def _check_normalizer(normalizer: Any) -> None:
    """Refuse normalizers that treat a character differently depending on its context."""
    names = [_type(part) for part in _flat(normalizer)]
    wrong = [name for name in names if name not in _NORMALIZERS]
    if wrong:
        known = ", ".join(sorted(_NORMALIZERS))
        raise BadInputError(f"got normalizer {wrong[0]!r:.40}, expected one of {known}, or none")
    decomposes = any(name in ("NFD", "NFKD") for name in names)
    if decomposes and "StripAccents" not in names:  # marks would require sorting
        raise BadInputError("got normalizer NFD or NFKD without StripAccents, expected both")


def _flat(normalizer: Any) -> Sequence[Any]:
    if normalizer is None:
        return []
    if _type(normalizer) == "Sequence":
        parts = normalizer.get("normalizers")
        return parts if isinstance(parts, list) else [None]
    return [normalizer]


def _type(part: Any) -> Any:
    found = part.get("type") if isinstance(part, dict) else part
    return found if isinstance(found, str | None) else repr(found)


def _check_overlap(tokens: Sequence[str]) -> None:
    """Refuse added tokens that overlap, because their order of search would matter."""
    for one in tokens:
        for other in tokens:
            ends = (one[-length:] for length in range(1, min(len(one), len(other) + 1)))
            if one != other and any(other.startswith(end) for end in ends):
                raise BadInputError(f"added tokens {one!r:.40} and {other!r:.40} overlap, which is not supported")
