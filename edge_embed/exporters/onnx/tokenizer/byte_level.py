"""Byte-level BPE, as in GPT-2 and RoBERTa: one operator of onnxruntime-extensions, which is exact."""

import json
import re
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource
from edge_embed.exporters.onnx.tokenizer.words import strings

# The operator loses the end of a text that is the beginning of an added token ("I <3" if there is "<s>"). So each
# text gets an additional token at its end, whose id, the last of every row, is removed again.
_GUARD = "\U0010fffe\U0010ffff\U0010fffe"

# Added tokens that absorb the space beside them: the operator supports this only in part.
_SPACE = r"[\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000}]*"

_BODY = """
{stripped}
  guarded = ai.onnx.contrib.StringRegexReplace (text_{count}, end_pattern, guard)
  padded, guarded_mask = ai.onnx.contrib.HfJsonTokenizer (guarded)
  columns_axis = Constant <value_ints: ints = [1]> ()
  columns_end = Constant <value_ints: ints = [9223372036854775807]> ()
  shifted_mask = Slice (guarded_mask, columns_axis, columns_end, columns_axis)
  rows_of_mask = Shape <end: int = 1> (guarded_mask)
  one_column = Concat <axis: int = 0> (rows_of_mask, columns_axis)
  no_column_ = ConstantOfShape (one_column)
  no_column = Cast <to: int = 7> (no_column_)
  given_mask = Concat <axis: int = 1> (shifted_mask, no_column)
  axis_1 = Constant <value_ints: ints = [1]> ()
  lengths = ReduceSum <keepdims: int = 0> (given_mask, axis_1)
  one_row = Constant <value_ints: ints = [-1]> ()
  all_padded = Reshape <allowzero: int = 0> (padded, one_row)
  all_mask = Reshape <allowzero: int = 0> (given_mask, one_row)
  are_ids = Cast <to: int = 9> (all_mask)
  flat = Compress (all_padded, are_ids)
"""


class ByteLevel:
    """The nodes from ``text`` to ``flat`` and ``lengths`` of a BPE."""

    def __init__(self, source: TokenizerSource) -> None:
        missing = 256 - len(_alphabet() & source.content["model"]["vocab"].keys())
        if missing:
            raise BadInputError(
                f"{missing} of the 256 bytes are missing in its vocabulary, so some texts have no ids: train it with "
                "initial_alphabet=pre_tokenizers.ByteLevel.alphabet()"
            )
        model = source.content["model"]
        greedy = [token for token in source.added_tokens if token.get("lstrip") or token.get("rstrip")]
        guard = {"id": source.num_ids, "content": _GUARD, "special": True, "normalized": False}
        plain = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
        added = [token | plain for token in (*source.added_tokens, guard)]
        kept: dict[str, Any] = {"version": "1.0", "added_tokens": added}
        kept["pre_tokenizer"] = source.content["pre_tokenizer"]
        kept["model"] = {"type": "BPE", "vocab": model["vocab"], "merges": model["merges"]}
        stripped = ["  text_0 = Identity (text)"]
        self.constants = {"end_pattern": strings(r"\z"), "guard": strings(_GUARD)}
        for at, token in enumerate(greedy):
            left, right = (_SPACE if token.get(side) else "" for side in ("lstrip", "rstrip"))
            self.constants[f"greedy_{at}"] = strings(left + re.escape(token["content"]) + right)
            self.constants[f"bare_{at}"] = strings(token["content"].replace("\\", r"\\"))
            stripped.append(f"  text_{at + 1} = ai.onnx.contrib.StringRegexReplace (text_{at}, greedy_{at}, bare_{at})")
        self.body = _BODY.format(stripped="\n".join(stripped), count=len(greedy))
        self.attributes: dict[str, dict[str, Any]] = {
            "padded": {
                "tokenizer_config": json.dumps({"tokenizer_class": "GPT2Tokenizer"}),
                "tokenizer_vocab": json.dumps(kept, ensure_ascii=False, separators=(",", ":")),
            }
        }


def _alphabet() -> set[str]:
    from tokenizers import pre_tokenizers  # noqa: PLC0415

    return set(pre_tokenizers.ByteLevel.alphabet())
