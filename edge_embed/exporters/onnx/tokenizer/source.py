"""Reading of a ``tokenizer.json``, with a check of the parts that can be exported; others are refused by name.

The file is data: its structure is checked before the library `tokenizers` reads it, and no code from it runs. Only
tokenizers whose ids the exported nodes reproduce are accepted.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from edge_embed.errors import BadInputError, EdgeEmbedError, located, one_line
from edge_embed.exporters.onnx.tokenizer.checks import MAX_ID, REMEDY, Kind, check_parts, checked_kind, parse
from edge_embed.input_file import read_whole

Side = Literal["left", "right"]

EXTRA = 'pip install "edge-embed[tokenizer]"'
_LARGEST_BYTES = 64 << 20
_PAD_TOKENS = ("[PAD]", "<pad>", "<|pad|>")


@dataclass(frozen=True)
class Batching:
    """The conversion of the ids of several texts to one array.

    Attributes:
        before: ids in front of every text, such as that of ``[CLS]``.
        after: ids behind every text.
        max_length: largest number of ids of a text, with those around it; None for no limit.
        truncated_side: side on which a longer text loses ids.
        pad_id: id that fills shorter texts.
        padded_side: side of the padding.
        length: ids of every row if the file fixes it, otherwise None: those of the longest text.
        multiple: the length of rows is rounded up to a multiple of this number.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]
    max_length: int | None = None
    truncated_side: Side = "right"
    pad_id: int = 0
    padded_side: Side = "right"
    length: int | None = None
    multiple: int = 1


@dataclass(frozen=True)
class TokenizerSource:
    """A tokenizer that can be exported.

    Attributes:
        path: path of its file.
        sha256: SHA-256 of its bytes.
        kind: type of its model.
        content: the parsed file.
        library: the same tokenizer in the library `tokenizers`, with padding even if the file has none.
        batching: settings of the file for padding, truncation, and ids around a text.
    """

    path: Path
    sha256: str
    kind: Kind
    content: dict[str, Any]
    library: Any
    batching: Batching

    @property
    def num_ids(self) -> int:
        """Return the number of rows that a table needs: the largest possible id, plus 1."""
        ids = (*self.library.get_vocab().values(), self.batching.pad_id, *self.batching.before, *self.batching.after)
        return 1 + int(max(ids))

    @property
    def added_tokens(self) -> list[dict[str, Any]]:
        """Return the tokens that are searched in the text first."""
        found: list[dict[str, Any]] = self.content["added_tokens"]
        return found

    @property
    def signs_in_runs(self) -> bool:
        """Return whether adjacent signs are one word."""
        return bool(self.content["pre_tokenizer"]["type"] == "Whitespace")


def read_tokenizer(path: Path) -> TokenizerSource:
    """Read a tokenizer file.

    Raises:
        BadInputError: the file is missing, damaged, too large or no ``tokenizer.json``, or has a part that the
            exported nodes would treat differently.
        EdgeEmbedError: the library `tokenizers` is not installed.
    """
    data = _read(path)
    try:
        content = parse(data)
        kind = checked_kind(content)
        check_parts(content, kind)
        library = _in_library(data)
        _check_ids(library)
        batching = _batching(content, library)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    return TokenizerSource(path, hashlib.sha256(data).hexdigest(), kind, content, library, batching)


def _read(path: Path) -> bytes:
    with located(str(path)):
        return read_whole(path, _LARGEST_BYTES, "a tokenizer.json")


def _in_library(data: bytes) -> Any:
    try:
        from tokenizers import Tokenizer  # noqa: PLC0415
    except ImportError as error:
        raise EdgeEmbedError(f"a tokenizer requires the package tokenizers, which is not installed: {EXTRA}") from error
    try:
        library = Tokenizer.from_str(data.decode("utf-8"))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit):
            raise
        # A panic of the library is a BaseException of a class that the library does not export.
        raise BadInputError(f"the library tokenizers cannot load it ({one_line(error)}): {REMEDY}") from error
    return library


def _check_ids(library: Any) -> None:
    largest = max(library.get_vocab().values(), default=-1)
    if not 0 <= largest < MAX_ID:
        raise BadInputError(f"got largest id {largest}, expected 0 to {MAX_ID - 1}")


def _batching(content: dict[str, Any], library: Any) -> Batching:
    library.no_padding()
    before, after = _around(library)
    truncation, padding = _truncation(content, len(before) + len(after)), _padding(content, library)
    settings = content.get("padding") or {}
    library.enable_padding(
        direction=padding.get("padded_side", "right"),
        pad_id=padding["pad_id"],
        pad_type_id=settings.get("pad_type_id", 0),
        pad_token=settings.get("pad_token", "[PAD]"),
        length=padding.get("length"),
        pad_to_multiple_of=settings.get("pad_to_multiple_of"),
    )
    return Batching(before, after, **truncation, **padding)


def _around(library: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the library puts before and behind every text."""
    limits = library.truncation
    library.no_truncation()
    texts = ("a", "b c")
    plain = [list(library.encode(text, add_special_tokens=False).ids) for text in texts]
    whole = [list(library.encode(text).ids) for text in texts]
    count = len(whole[0]) - len(plain[0])
    for at in range(count + 1):
        before, after = whole[0][:at], whole[0][at + len(plain[0]) :]
        if all(full == [*before, *inner, *after] for full, inner in zip(whole, plain, strict=True)):
            if limits:
                library.enable_truncation(**limits)
            return tuple(before), tuple(after)
    raise BadInputError("its post_processor does more than add ids before and after a text, which is not supported")


def _truncation(content: dict[str, Any], around: int) -> dict[str, Any]:
    settings = content.get("truncation")
    if not settings:
        return {}
    most, strategy = settings.get("max_length"), settings.get("strategy")
    if strategy not in ("LongestFirst", "OnlyFirst"):
        raise BadInputError(f"truncation: got strategy {strategy!r:.40}, expected LongestFirst or OnlyFirst")
    if type(most) is not int or not around < most < MAX_ID:
        raise BadInputError(
            f"truncation: got max_length {most!r:.40}, expected more than the {around} ids around a text"
        )
    return {"max_length": most, "truncated_side": _side(settings)}


def _padding(content: dict[str, Any], library: Any) -> dict[str, Any]:
    settings = content.get("padding")
    if not settings:
        known = (library.token_to_id(token) for token in _PAD_TOKENS)
        return {"pad_id": next((number for number in known if number is not None), 0)}
    strategy, multiple = settings.get("strategy"), settings.get("pad_to_multiple_of") or 1
    length = strategy.get("Fixed") if isinstance(strategy, dict) else None
    values = (settings.get("pad_id"), multiple, 1 if length is None else length)
    if not all(type(value) is int and 0 <= value < MAX_ID for value in values):
        raise BadInputError(f"padding: got pad_id, multiple and length {values!r:.80}, expected integers")
    return {"pad_id": values[0], "padded_side": _side(settings), "length": length, "multiple": multiple}


def _side(settings: dict[str, Any]) -> Side:
    return "left" if settings.get("direction") == "Left" else "right"
