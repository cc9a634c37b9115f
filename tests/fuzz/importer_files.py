"""Fuzz targets: tables in files of other tools (word vectors, fastText, safetensors, model2vec), and tokenizers."""

import functools
import gzip
import random
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import containers
import fasttext
import numpy as np
from driver import Reader, change_bytes
from safetensors.numpy import save
from tokenizers import Tokenizer, models, pre_tokenizers

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.tokenizer.source import read_tokenizer
from edge_embed.importers import recognize
from edge_embed.importers.reading_options import AS_IT_SHOWS

_ROWS, _COLUMNS = 40, 4
_NUMBERS = np.random.default_rng(0).standard_normal((_ROWS, _COLUMNS)).astype(np.float32)
_WORDS = [f"wörd{row}" for row in range(_ROWS)]

Mutant = Callable[[random.Random], bytes]


def _read(path: Path) -> object:
    reader = recognize._reader(path, (), AS_IT_SHOWS)
    if reader is None:
        raise BadInputError("is no file of vectors")
    return reader()  # without the program, whose capture takes longer than reading


def _reader(name: str, sound: bytes, mutant: Mutant, passes: Callable[[bytes], bool], **more: object) -> Reader:
    return Reader(name, _read, (BadInputError,), mutant, sound, passes=passes, **more)


def text() -> Reader:
    """Return the reader of word2vec text; its container is lines."""
    sound = _text()

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.2 else containers.change_lines)(random_, sound)

    return _reader("vectors.vec", sound, mutant, lambda data: b"\n" in data and b"\0" not in data)


def _text() -> bytes:
    rows = (f"{word} {' '.join(f'{x:.3f}' for x in row)}" for word, row in zip(_WORDS, _NUMBERS, strict=True))
    return "\n".join([f"{_ROWS} {_COLUMNS}", *rows, ""]).encode()


def gzipped() -> Reader:
    """Return the reader of compressed word2vec text; some mutants expand far beyond their size."""
    sound = gzip.compress(_text(), mtime=0)

    def mutant(random_: random.Random) -> bytes:
        kind = random_.random()
        if kind < 0.2:
            return change_bytes(random_, sound)
        if kind < 0.205:
            return gzip.compress(bytes(8 << 20), mtime=0)
        return containers.change_gzip(random_, sound, containers.change_lines)

    return _reader("vectors.vec.gz", sound, mutant, containers.is_gzip)


def _binary(header: str) -> bytes:
    rows = (word.encode() + b" " + row.tobytes() for word, row in zip(_WORDS, _NUMBERS, strict=True))
    return f"{header}\n".encode() + b"".join(rows)


def binary() -> Reader:
    """Return the reader of word2vec binary; its container is the line of sizes and enough bytes."""
    header = f"{_ROWS} {_COLUMNS}"
    sound = _binary(header)

    def mutant(random_: random.Random) -> bytes:
        kind = random_.random()
        if kind < 0.15:
            return change_bytes(random_, sound)
        if kind < 0.4:
            sizes = (0, 1, -1, 3, 39, 41, 10**4, 10**9, 2**31, 2**63, 10**30, "x", "")
            return _binary(
                random_.choice((f"{random_.choice(sizes)} 4", f"40 {random_.choice(sizes)}", "40 4 1", "40"))
            )
        start = len(header) + 1
        body = bytearray(sound[start:])
        for _ in range(random_.choice((1, 2, 8))):
            body[random_.randrange(len(body))] = random_.choice((0, 10, 32, 255, 127, 0x80))
        return sound[:start] + body

    def passes(data: bytes) -> bool:
        sizes = data.partition(b"\n")[0].split()
        return len(sizes) == 2 and all(size.isdigit() for size in sizes) and len(data) > 6 * _ROWS

    return _reader("vectors.bin", sound, mutant, passes)


@functools.cache
def _fasttext(quantised: bool) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "text.txt"
        words = [f"w{at}" for at in range(270)]
        lines = (f"__label__{at % 260} {' '.join(words[at % 250 : at % 250 + 9])}" for at in range(300))
        text.write_text("\n".join(lines))
        model = fasttext.train_supervised(
            str(text), dim=4, epoch=1, bucket=300, thread=11, minn=2, maxn=3, lr=0.01, verbose=0
        )
        if quantised:
            model.quantize(input=str(text), epoch=1, verbose=0, qnorm=True)
        model.save_model(str(Path(folder) / "model"))
        return (Path(folder) / "model").read_bytes()


def fasttext_model(quantised: bool) -> Reader:
    """Return the reader of fastText models; their container is a magic number, options and a dictionary with counts."""
    sound = _fasttext(quantised)
    options = dict.fromkeys(range(4, 56, 4), "<i") | {56: "<d"}
    counts = {64: "<i", 68: "<i", 72: "<i", 76: "<q", 84: "<q"}
    (entries,) = struct.unpack_from("<i", sound, 64)
    at = 92
    kinds: dict[int, str] = {}
    for _ in range(entries):
        at = sound.index(b"\0", at) + 1
        kinds |= {at: "<q", at + 8: "<b"}
        at += 9
    matrix = {at: "<b", at + 1: "<q", at + 9: "<q"}
    if quantised:
        matrix = {at: "<b", at + 1: "<b", at + 2: "<q", at + 10: "<q", at + 18: "<i"}
        codes = at + 22 + struct.unpack_from("<i", sound, at + 18)[0]
        matrix |= {codes + 4 * field: "<i" for field in range(4)}

    def mutant(random_: random.Random) -> bytes:
        kind = random_.randrange(10)
        if kind < 2:
            return change_bytes(random_, sound)
        if kind < 8:
            layouts = (options, counts, matrix, matrix, kinds, options | matrix)[kind - 2]
            return containers.change_numbers(random_, sound, layouts)
        changed = bytearray(sound)
        for _ in range(random_.choice((1, 4, 64))):  # names, numbers, codes
            changed[random_.randrange(92, len(changed))] = random_.choice((0, 255, 32, 0x7F, 0x80))
        return bytes(changed)

    def passes(data: bytes) -> bool:
        return (data[:64] == sound[:64] and data[64:92] == sound[64:92]) or (
            data[:4] == sound[:4] and len(data) == len(sound)
        )

    return _reader("model.ftz" if quantised else "model.bin", sound, mutant, passes)


def safetensors() -> Reader:
    """Return the reader of a table among the tensors of a safetensors file."""
    sound = save({"words.weight": _NUMBERS, "bias": np.zeros(3, np.float32)}, {"format": "pt"})

    def mutant(random_: random.Random) -> bytes:
        change = change_bytes if random_.random() < 0.25 else containers.change_safetensors
        return change(random_, sound)

    return _reader("model.safetensors", sound, mutant, containers.is_safetensors)


def _tokenizer() -> Tokenizer:
    library = Tokenizer(models.WordLevel({word: row for row, word in enumerate(_WORDS)}, unk_token=_WORDS[1]))
    library.pre_tokenizer = pre_tokenizers.Whitespace()
    library.enable_padding(pad_id=0, pad_token=_WORDS[0])
    return library


def model2vec() -> Reader:
    """Return the reader of a table with fewer rows than tokens, beside its tokenizer."""
    mapping = np.arange(_ROWS) % 10
    sound = save({"embeddings": _NUMBERS[:10].copy(), "mapping": mapping, "weights": np.ones(_ROWS)})

    def mutant(random_: random.Random) -> bytes:
        change = change_bytes if random_.random() < 0.25 else containers.change_safetensors
        return change(random_, sound)

    beside = {"tokenizer.json": _tokenizer().to_str().encode()}
    return _reader("model.safetensors", sound, mutant, containers.is_safetensors, beside=beside)


def tokenizer_of_model2vec() -> Reader:
    """Return the reader of the tokenizer beside a table."""
    table = save({"embeddings": _NUMBERS})
    sound = _tokenizer().to_str().encode()

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.25 else containers.change_json)(random_, sound)

    def read(path: Path) -> object:
        return _read(path.with_name("model.safetensors"))

    beside = {"model.safetensors": table}
    return Reader("tokenizer.json", read, (BadInputError,), mutant, sound, passes=containers.is_json, beside=beside)


def tokenizer() -> Reader:
    """Return the reader of a tokenizer that an export adds to a model."""
    sound = _tokenizer().to_str().encode()

    def mutant(random_: random.Random) -> bytes:
        return (change_bytes if random_.random() < 0.25 else containers.change_json)(random_, sound)

    return Reader("tokenizer.json", read_tokenizer, (BadInputError,), mutant, sound, passes=containers.is_json)


READERS: dict[str, Callable[[], Reader]] = {
    "word2vec-text": text,
    "word2vec-gzip": gzipped,
    "word2vec-binary": binary,
    "fasttext-bin": partial(fasttext_model, False),
    "fasttext-ftz": partial(fasttext_model, True),
    "safetensors": safetensors,
    "model2vec": model2vec,
    "model2vec-tokenizer": tokenizer_of_model2vec,
    "tokenizer": tokenizer,
}
