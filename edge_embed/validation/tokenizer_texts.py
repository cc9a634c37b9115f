"""Texts on which an exported tokenizer is compared with the library: cases in which tokenizers often differ.

They hold characters of many scripts, composed and decomposed, signs, all kinds of spaces, invisible characters and long
words. Others are made from the tokenizer itself: random sequences of its tokens, and its added tokens in many contexts.
"""

import random

from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource

_SEED = 0
_RANDOM_TEXTS = 200
_MOST_ADDED = 32
_SCRIPTS = ((0x20, 0x7F), (0xA0, 0x250), (0x300, 0x370), (0x370, 0x530), (0x590, 0x700), (0x900, 0xA00), (0xE00, 0xE80),
            (0x1E00, 0x2000), (0x2000, 0x2070), (0x2460, 0x2500), (0x3000, 0x3100), (0x4E00, 0x4F00), (0xAC00, 0xAD00),
            (0xF900, 0xFB00), (0xFE00, 0xFFFE), (0x10400, 0x10450), (0x1F300, 0x1F650), (0x1, 0x20), (0x7F, 0xA0),
            (0x1D160, 0x1D170), (0xE000, 0xE010), (0x100000, 0x100008), (0x10FFF8, 0x110000))  # fmt: skip
HARD = (
    "",
    " ",
    "\t\n",
    "\u00a0\u3000",
    "a",
    "Hello world",
    " two  spaces ",
    "tab\tnew\nline\r\n\u2028\u2029\u0085\v\f\x1c end",
    "caf\u00e9 cafe\u0301 CAF\u00c9 na\u00efve \u00c5ngstr\u00f6m A\u030angstro\u0308m",
    "\ufb01ne \ufb02ow \ufb00",
    "stra\u00dfe STRASSE \u1e9e",
    "\u0130stanbul \u0131 I i I\u0307",
    "\u01c4 \u01c5 \u01c6",
    "\u03a3\u038a\u03a3\u03a5\u03a6\u039f\u03a3 \u03c2 \u03c3",
    "\u4f60\u597d\u4e16\u754c mixed\u82f1\u6587",
    "\u65e5\u672c\u8a9e \u30ab\u30bf\u30ab\u30ca \u3072\u3089\u304c\u306a \u304b\u3099 \u304c",
    "\u8c48 \U0002f800 \ufa0e \u3400",
    "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab",
    "\uff0c\u3002\uff01\uff1f\u300c\u300d\u3005\u3007",
    "\u0645\u0631\u062d\u0628\u0627 \u0633\u0644\u0627\u0645\u200c\u0639\u0644\u06cc\u06a9\u0645 \ufdfa",
    "\u202eabc\u202c\u200e\u200f\u061c",
    "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05be\u05c0",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u0e01\u0e47 \u0e51\u0e52\u0e53",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0ba4\u0bae\u0bbf\u0bb4\u0bcd",
    "Vi\u1ec7t Vie\u0323\u0302t",
    "\U0001f44d",
    "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f468\U0001f3fd\u200d\U0001f4bb",
    "\U0001f1e9\U0001f1ea \u2764\ufe0f 1\ufe0f\u20e3",
    "\u0301",
    "\u0301\u0302abc \u0316\u0300",
    "a\x01b\x7fc\x80d\x9fe",
    "\ufffd \ufffe \uffff \U0010ffff",
    "\ue000 \U00100000",
    "soft\u00adhyphen zero\u200bwidth\u2060 \ufeff \u180e",
    "don't we're I'll it's 'tis I'M HE'S",
    "1234567890 3.14 1,000 $5 50%",
    "\u00bd \u00b2 \u0663 \u2167 \u2460 \u2160\u24b6\uff21",
    "C++ & <tag> [x] {y} `z` ~ ^ | \\ / @ # * _ - = +",
    "\u201cquotes\u201d \u2018x\u2019 \u2013 \u2014 \u2026 \u2022 \u20ac",
    "a.b.c e-mail foo@bar.com http://x.y/z?q=1",
    "!?!! ... --",
    "x  <mask> y <mask>z",
    "[UNK] [CLS] x [SEP] a[MASK]b [PAD] [ CLS ]",
    "<s> </s> <unk> <pad> x<|endoftext|>y",
    "##ing \u0120hello \u2581hello \u010a",
    "\u212a \u212b \u2126 \u2121 \u00b5 \u03bc",
    "\U00010400\U00010428 \U0001e900 \u10a0\u13a0 \u1c90",
    "_under_score_ a\u0660b",
    "a" * 99,
    "a" * 100,
    "a" * 101,
    "ab" * 300,
    "\u00e9" * 120,
    "ab " * 200,
)


def texts_for(source: TokenizerSource) -> list[str]:
    """Return the texts for one tokenizer; they are the same in every call."""
    chance = random.Random(_SEED)
    tokens = sorted(source.content["model"]["vocab"])
    found = [*HARD]
    for token in source.added_tokens[:_MOST_ADDED]:
        content = token["content"]
        found += [f"x {content[:at]}3" for at in range(1, min(len(content), 4))]
        found += [
            content,
            f"a{content}b",
            f" {content} ",
            f"a {content}  b {content}",
            content + content,
            content.swapcase(),
        ]
    for _ in range(_RANDOM_TEXTS):
        found.append("".join(_character(chance) for _ in range(chance.randrange(1, 24))))
        found.append(chance.choice(("", " ")).join(chance.choice(tokens) for _ in range(chance.randrange(1, 12))))
    # The operators read a text up to its first NUL, as C does; the documentation states this limit.
    return [text.replace("\0", " ") for text in found]


def _character(chance: random.Random) -> str:
    low, high = chance.choice(_SCRIPTS)
    return chr(chance.randrange(low, high))
