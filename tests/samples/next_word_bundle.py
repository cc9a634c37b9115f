"""A bundle of the model of the demo, small and untrained."""

from pathlib import Path

import torch
from next_word.model import NextWord
from next_word.vocabulary import Vocabulary

import edge_embed

TEXTS = ["Return a list of", "a caf\u00e9, isn't it? x_1 \u6771\u4eac", "", "zzz \U0001f44d unknown!"]


def write_bundle(folder: Path, seed: int = 0) -> Path:
    """Write the bundle; each seed gives another model."""
    torch.manual_seed(seed)
    words = " ".join(f"word{at} caf\u00e9{at} {at}.5" for at in range(40))
    vocabulary = Vocabulary.of([*TEXTS[:2], words])
    model = NextWord(len(vocabulary), len(vocabulary), width=32, hidden=16)
    with torch.no_grad():
        model.answer.weight.mul_(20)  # probabilities that differ in their first digits
    saved = folder.with_suffix(".pt")
    example = torch.tensor([vocabulary.encode(TEXTS[0])])
    metadata = {"task": "next word", "tokenizer": vocabulary.token}
    edge_embed.save(model.eval(), saved, example, vocabulary=vocabulary.words, metadata=metadata)
    edge_embed.export(saved, "onnx", folder, bundle=True, progress=lambda *_: None)
    return folder


def changed_byte(path: Path) -> None:
    """Change the last byte of a file."""
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
