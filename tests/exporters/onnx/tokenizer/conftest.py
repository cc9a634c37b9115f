"""Tokenizers of every kind, trained on a few hundred words; nothing is downloaded."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from torch import Tensor, nn

import edge_embed

pytest.importorskip("tokenizers", reason="an extra is missing: pip install 'edge-embed[tokenizer]'")
pytest.importorskip("onnxruntime_extensions", reason="an extra is missing: pip install 'edge-embed[tokenizer]'")

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

from edge_embed.validation import tokenizer as tokenizer_check
from edge_embed.validation.tokenizer_texts import HARD

ROWS = 700
GUIDES = sorted((Path(__file__).parents[4] / "docs" / "guides").glob("*.md"))
TEXTS = [line for guide in GUIDES for line in guide.read_text(encoding="utf-8").splitlines()] + [*HARD, *HARD]


def byte_level() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    _train(tokenizer, trainers.BpeTrainer, ["<|endoftext|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    return tokenizer


def roberta() -> Tokenizer:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    special = ["<s>", "<pad>", "</s>", "<unk>", AddedToken("<mask>", lstrip=True, special=True)]
    _train(tokenizer, trainers.BpeTrainer, special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer


def bert(lowercase: bool, strip_accents: bool | None = None) -> Tokenizer:
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    _train(tokenizer, trainers.WordPieceTrainer, ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def words(normalizer: Any, pre_tokenizer: Any) -> Tokenizer:
    tokenizer = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    _train(tokenizer, trainers.WordLevelTrainer, ["[PAD]", "[UNK]"])
    return tokenizer


def _train(tokenizer: Tokenizer, trainer: Any, special: list[str], **options: Any) -> None:
    made = trainer(vocab_size=ROWS - 50, special_tokens=special, show_progress=False, **options)
    tokenizer.train_from_iterator(TEXTS, made)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "BPE": byte_level,
    "RoBERTa": roberta,
    "BERT uncased": lambda: bert(True),
    "BERT cased": lambda: bert(False),
    "BERT lower case with accents": lambda: bert(True, False),
    "words at spaces": lambda: words(None, pre_tokenizers.WhitespaceSplit()),
    "words and signs": lambda: words(normalizers.Lowercase(), pre_tokenizers.Whitespace()),
    "words without accents": lambda: words(
        normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]),
        pre_tokenizers.BertPreTokenizer(),
    ),
}


class Mean(nn.Module):
    """A mean over the ids that are no padding."""

    def __init__(self, rows: int = ROWS) -> None:
        super().__init__()
        self.embedding = edge_embed.DPQEmbedding(rows, 8, num_codes=16, num_groups=4)

    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        mask = attention_mask[..., None].float()
        return (self.embedding(ids) * mask).sum(1) / mask.sum(1).clamp(min=1)


MEAN_EXAMPLE = {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]])}


@pytest.fixture(scope="session", autouse=True)
def _same_texts_run_once() -> Iterator[None]:
    """Cache the tokenizer check, which every export would run on hundreds of texts in a process of its own."""
    run, found = tokenizer_check._run, dict[tuple[object, ...], list[dict[str, Any]]]()

    def run_once(model: onnx.ModelProto, batches: list[list[str]]) -> list[dict[str, Any]]:
        program = tokenizer_check.tokenizer_run.__file__
        words = program, model.SerializeToString(deterministic=True), json.dumps(batches)
        if words not in found:
            found[words] = run(model, batches)
        return found[words]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer_check, "_run", run_once)
        yield


@pytest.fixture(scope="session")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that gives the file of a kind of tokenizer."""
    folder = tmp_path_factory.mktemp("tokenizers")

    def made(kind: str) -> Path:
        path = folder / f"{kind}.json"
        if not path.exists():
            KINDS[kind]().save(str(path))
        return path

    return made


@pytest.fixture
def changed(saved: Callable[[str], Path], tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes the file of a kind with parts replaced by ``path.to.part=value``."""

    def made(kind: str, parts: dict[str, Any]) -> Path:
        content = json.loads(saved(kind).read_text(encoding="utf-8"))
        for name, value in parts.items():
            *owners, last = name.split(".")
            owner = content
            for part in owners:
                owner = owner[part]
            owner[last] = value
        path = tmp_path / "tokenizer.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        return path

    return made
