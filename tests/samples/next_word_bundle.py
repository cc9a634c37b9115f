"""A bundle of the model of the demo, small and untrained, and changes of bundles."""

import json
from pathlib import Path

import torch
from next_word.model import NextWord
from next_word.vocabulary import Vocabulary

import edge_embed
from edge_embed.bundle.manifest import BundleFile

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


def edit(folder: Path, **changed: object) -> None:
    """Change keys of the manifest."""
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))


def rehash(folder: Path) -> None:
    """Give the manifest the hashes of changed files."""
    sums = {path.name: BundleFile.of(path) for path in folder.iterdir() if path.name != "bundle.json"}
    edit(folder, files={name: {"bytes": found.bytes, "sha256": found.sha256} for name, found in sums.items()})


def write_golden(folder: Path, golden: object) -> None:
    """Replace the golden pair, with its right hash."""
    (folder / "golden.json").write_text(json.dumps(golden))
    rehash(folder)
