"""Tokenizers of words, WordPiece and WordLevel, from small operators of onnxruntime-extensions.

Its BertTokenizer has three limits. It accepts one text at a time, and it keeps the known beginning of an unknown word.
It lower-cases and strips accents only for a part of Unicode. So characters are replaced by a map (see characters.py),
and a word with an unknown piece becomes one unknown id, as in the library.

    text -> added tokens marked -> characters replaced -> words at spaces -> pieces -> ids and their text
"""

import json
import re
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from edge_embed.exporters.onnx.tokenizer.characters import (
    FIRST_MARK,
    LAST_MARK,
    pattern,
    read_characters,
    stand_in,
    token_mark,
)
from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource

# The operators crash without a text or without a word: an additional word is put behind the texts and removed again.
_GUARD = "a"

# Inside a function ONNX Runtime lacks the types of other libraries' outputs, and crashes in LabelEncoder without them:
# `Where (never, nothing, x)` is x with the type of strings.
_NO_LIMIT = 1 << 30  # characters of a word; the library accepts larger numbers than the operator

_TO_CHARACTERS = """
  guarded = Concat <axis: int = 0> (text, guard)
  text_0 = ai.onnx.contrib.StringRegexReplace (guarded, marks_pattern, stand_in)
{added}
  without = ai.onnx.contrib.StringRegexReplace (text_{num_added}, dropped_pattern, nothing)
  clean = ai.onnx.contrib.StringRegexReplace (without, parted_pattern, in_spaces)
  characters_ = com.microsoft.Tokenizer <mark: int = 0, mincharnum: int = 1> (clean)
  characters = Where (never, nothing, characters_)
  number = ai.onnx.ml.LabelEncoder (characters)
  image = Gather (images, number)
  no_number = Constant <value_int: int = 0> ()
  unchanged = Equal (number, no_number)
  replaced = Where (unchanged, characters, image)
  joined = ai.onnx.contrib.StringJoin (replaced, nothing, join_axis)
  apart = ai.onnx.contrib.StringRegexReplace (joined, signs_pattern, in_spaces)
  spaced = ai.onnx.contrib.StringRegexReplace (apart, spaces_pattern, space)
  cells, words, grid = ai.onnx.contrib.StringSplit (spaced, space, skip_empty)
  column_0 = Constant <value_int: int = 0> ()
  word_text = Gather <axis: int = 1> (cells, column_0)
"""

_WORD_PIECE = """
  no_rows = Constant <value_ints: ints = []> ()
  pieces_, offsets_of_words, piece_begins, piece_ends = ai.onnx.contrib.WordpieceTokenizer (words, no_rows)
  pieces = Where (never, nothing, pieces_)
  piece_ids = ai.onnx.ml.LabelEncoder (pieces)
  zero_piece = Constant <value_int: int = 0> ()
  one_piece = Constant <value_int: int = 1> ()
  piece_zeros = Mul (piece_ids, zero_piece)
  word_zeros = Mul (word_text, zero_piece)
  word_ones = Add (word_zeros, one_piece)
  is_first = ScatterElements <axis: int = 0> (piece_zeros, piece_begins, word_ones)
  piece_axis = Constant <value_int: int = 0> ()
  words_so_far = CumSum (is_first, piece_axis)
  word_of_piece = Sub (words_so_far, one_piece)
  unknown_id = Constant <value_int: int = {unknown}> ()
  is_unknown = Equal (piece_ids, unknown_id)
  unknown_pieces = Cast <to: int = 7> (is_unknown)
  unknown_words = ScatterElements <axis: int = 0, reduction: string = "max"> (word_zeros, word_of_piece, unknown_pieces)
  of_unknown_word = Gather (unknown_words, word_of_piece)
  of_known_word = Equal (of_unknown_word, zero_piece)
  is_kept = Or (is_unknown, of_known_word)
  guarded_ids = Compress (piece_ids, is_kept)
  kept_words = Compress (word_of_piece, is_kept)
  id_text = Gather (word_text, kept_words)
"""

_WORD_LEVEL = """
  typed_words = Where (never, nothing, words)
  guarded_ids = ai.onnx.ml.LabelEncoder (typed_words)
  id_text = Identity (word_text)
"""

_WITHOUT_GUARD = """
  guarded_size = Shape (guarded)
  none = ConstantOfShape (guarded_size)
  none_of_any = Cast <to: int = 7> (none)
  one_id = Constant <value_int: int = 1> ()
  id_zeros = Sub (id_text, id_text)
  id_ones = Add (id_zeros, one_id)
  guarded_lengths = ScatterElements <axis: int = 0, reduction: string = "add"> (none_of_any, id_text, id_ones)
  from_start = Constant <value_ints: ints = [0]> ()
  to_guard = Constant <value_ints: ints = [-1]> ()
  lengths = Slice (guarded_lengths, from_start, to_guard)
  flat = Slice (guarded_ids, from_start, to_guard)
"""


class Words:
    """The nodes from ``text`` to ``flat`` and ``lengths`` of a tokenizer of words."""

    def __init__(self, source: TokenizerSource) -> None:
        model = source.content["model"]
        characters = read_characters(source)
        images = characters.images()
        added = sorted(source.added_tokens, key=lambda token: (-len(token["content"]), token["content"]))
        ids = dict(model["vocab"]) | {token_mark(at): token["id"] for at, token in enumerate(added)}
        unknown = model["vocab"][model["unk_token"]]
        is_pieces = source.kind == "WordPiece"
        replace_added = "\n".join(
            f"  text_{at + 1} = ai.onnx.contrib.StringRegexReplace (text_{at}, added_{at}, mark_{at})"
            for at in range(len(added))
        )
        self.body = (
            _TO_CHARACTERS.format(added=replace_added, num_added=len(added))
            + (_WORD_PIECE.format(unknown=unknown) if is_pieces else _WORD_LEVEL)
            + _WITHOUT_GUARD
        )
        self.constants = {
            "guard": strings(_GUARD),
            "marks_pattern": strings(pattern(map(chr, range(FIRST_MARK, LAST_MARK + 1)))),
            "stand_in": strings(stand_in(model["vocab"])),
            "images": strings("", *images.values()),
            "dropped_pattern": strings(pattern(characters.dropped())),
            "parted_pattern": strings(f"({pattern(characters.parted())})"),
            "signs_pattern": strings(f"({pattern(characters.signs)}{'+' if source.signs_in_runs else ''})"),
            "in_spaces": strings(r" \1 "),
            "spaces_pattern": strings(pattern(characters.spaces)),
            "nothing": strings(""),
            "never": numpy_helper.from_array(np.array([False])),
            "join_axis": numpy_helper.from_array(np.array([1])),
            "space": strings(" "),
            "skip_empty": numpy_helper.from_array(np.array([True])),
        }
        for at, token in enumerate(added):
            self.constants[f"added_{at}"] = strings(re.escape(token["content"]))
            self.constants[f"mark_{at}"] = strings(f" {token_mark(at)} ")
        numbers = {character: at for at, character in enumerate(images, 1)}
        self.attributes: dict[str, dict[str, Any]] = {
            "characters_": {"separators": [""], "pad_value": ""},
            "number": _labels(numbers, 0),
            "piece_ids" if is_pieces else "guarded_ids": _labels(ids, unknown),
        }
        if is_pieces:
            self.attributes["pieces_"] = {
                "vocab": json.dumps(ids, ensure_ascii=False, separators=(",", ":")),
                "suffix_indicator": model.get("continuing_subword_prefix", "##"),
                "unknown_token": " ",  # matches no piece
                "max_input_chars_per_word": min(model.get("max_input_chars_per_word", 100), _NO_LIMIT),
            }


def _labels(ids: dict[str, int], default: int) -> dict[str, Any]:
    # An empty list has no type, so it gets one character that no text has.
    ids = ids or {chr(LAST_MARK): default}
    return {"keys_strings": list(ids), "values_int64s": list(ids.values()), "default_int64": default}


def strings(*values: str) -> TensorProto:
    """Return a tensor [number of values] of strings."""
    return TensorProto(dims=[len(values)], data_type=TensorProto.STRING, string_data=[text.encode() for text in values])
