"""An exported model with a tokenizer gives on texts the training form's results on the library's ids."""

import json
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from torch import Tensor, nn

import edge_embed
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.tokenizer_texts import HARD
from edge_embed.workflow import load

from .conftest import KINDS, MEAN_EXAMPLE, ROWS, Mean

Saved = Callable[[str], Path]
DATA = os.environ.get("EDGE_EMBED_DATA")


class Identity(nn.Module):
    """A module that returns its ids, beside a table lookup of them."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = edge_embed.DPQEmbedding(ROWS, 8, num_codes=4, num_groups=2)

    def forward(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return ids + 0, lengths + 0, self.embedding(ids).sum(1)


def export(model: nn.Module, example: object, tokenizer: Path, folder: Path, **options: object) -> Path:
    edge_embed.export(model, "onnx", folder / "out.onnx", example, tokenizer=tokenizer, **options)
    return folder / "out.onnx"


@pytest.fixture(scope="module")
def identity(saved: Saved, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return the file of `Identity` behind a kind of tokenizer."""
    done: dict[str, Path] = {}
    example = {"ids": torch.tensor([[1, 2], [3, 4]]), "lengths": torch.tensor([2, 1])}

    def made(kind: str) -> Path:
        if kind not in done:
            done[kind] = export(Identity(), example, saved(kind), tmp_path_factory.mktemp("identity"))
        return done[kind]

    return made


def different(path: Path, tokenizer: Path, texts: list[str], batch: int) -> list[str]:
    """Return the texts for which the file makes other ids than the library."""
    library, session = Tokenizer.from_file(str(tokenizer)), edge_embed.create_session(path)
    found = []
    for at in range(0, len(texts), batch):
        some = texts[at : at + batch]
        ids, lengths, _ = session.run(None, {"text": np.array(some, dtype=object)})
        for text, row, length in zip(some, ids, lengths, strict=True):
            if row[:length].tolist() != library.encode(text).ids or row[length:].any() != (row[length:] != 0).any():
                found.append(text)
    return found


@pytest.mark.parametrize("kind", KINDS)
class TestHardTexts:
    @pytest.mark.slow
    def test_ids_of_hard_texts_match_library(self, kind: str, identity: Callable[[str], Path], saved: Saved) -> None:
        assert different(identity(kind), saved(kind), list(HARD), batch=1) == []
        assert different(identity(kind), saved(kind), list(HARD), batch=len(HARD)) == []

    @pytest.mark.slow
    @pytest.mark.skipif(
        DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)"
    )
    def test_ids_of_real_sentences_match_library(
        self, kind: str, identity: Callable[[str], Path], saved: Saved
    ) -> None:
        sentences = []
        for name in ("multi30k/val.lc.norm.tok.de", "wikitext2-valtest/wiki.valid.txt"):
            with tarfile.open(Path(DATA or "") / f"{name.split('/')[0]}.tar.xz") as archive:
                file = archive.extractfile(name)
                assert file is not None
                sentences += [line for line in file.read().decode().splitlines() if line.strip()]
        assert len(sentences) > 3000
        assert different(identity(kind), saved(kind), sentences, batch=32) == []


@pytest.mark.parametrize("kind", ["BPE", "RoBERTa"])
def test_text_ending_like_an_added_token_matches_library(
    kind: str, identity: Callable[[str], Path], saved: Saved
) -> None:
    texts = [f"I {begin}{sign}" for begin in ("<", "<|", "<s", "</", "<mas") for sign in ("", "3", "\u00e9", " ", "<")]
    assert different(identity(kind), saved(kind), texts, batch=1) == []


class TestWholeModel:
    @pytest.mark.slow
    def test_outputs_from_texts_match_outputs_from_ids(self, saved: Saved, tmp_path: Path) -> None:
        torch.manual_seed(0)
        model, texts = Mean(), ["Ünïcode [MASK] text", "", "a"]
        path = export(model, MEAN_EXAMPLE, saved("BERT uncased"), tmp_path)
        library = Tokenizer.from_file(str(saved("BERT uncased")))
        library.enable_padding()
        encoded = library.encode_batch(texts)
        ids, mask = (torch.tensor([getattr(one, name) for one in encoded]) for name in ("ids", "attention_mask"))
        for portable in (False, True):
            (got,) = edge_embed.create_session(path, portable).run(None, {"text": np.array(texts, dtype=object)})
            np.testing.assert_allclose(got, model.eval()(ids, mask).detach(), atol=1e-6)  # a mean of some rows

    @pytest.mark.slow
    def test_export_twice_gives_same_bytes(self, saved: Saved, tmp_path: Path) -> None:
        model, files = Mean(), []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            files.append(export(model, MEAN_EXAMPLE, saved("words and signs"), tmp_path / name).read_bytes())
        assert files[0] == files[1]

    @pytest.mark.slow
    def test_external_data_works_behind_tokenizer(self, saved: Saved, tmp_path: Path) -> None:
        model = Mean()
        path = export(model, MEAN_EXAMPLE, saved("BPE"), tmp_path, external_data="always")
        assert (tmp_path / "out.onnx.data").exists()
        program = load(model, MEAN_EXAMPLE)
        options = ValidationOptions(iterations=0, tokenizer=saved("BPE"))
        assert edge_embed.validate(program, path, options=options).passed

    @pytest.mark.slow
    def test_bag_behind_tokenizer_takes_ids_and_offsets(self, saved: Saved, tmp_path: Path) -> None:
        class Bags(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.bag = edge_embed.DPQEmbeddingBag(ROWS, 8, num_codes=4, num_groups=2, mode="sum")

            def forward(self, ids: Tensor, offsets: Tensor) -> Tensor:
                return self.bag(ids, offsets)

        model, texts = Bags(), ["tables on phones", "", "a b"]
        example = {"ids": torch.tensor([1, 2, 3]), "offsets": torch.tensor([0, 1])}
        path = export(model, example, saved("words at spaces"), tmp_path)
        library = Tokenizer.from_file(str(saved("words at spaces")))
        ids = [library.encode(text).ids for text in texts]
        flat = torch.tensor([one for row in ids for one in row])
        offsets = torch.tensor([0, *np.cumsum([len(row) for row in ids])[:-1]])
        (got,) = edge_embed.create_session(path).run(None, {"text": np.array(texts, dtype=object)})
        np.testing.assert_allclose(got, model.eval()(flat, offsets).detach(), atol=1e-6)  # sums of some rows


class TestSettingsOfTheFile:
    @pytest.mark.parametrize("side", ["left", "right"])
    @pytest.mark.parametrize("kind", ["RoBERTa", "BERT cased"])
    @pytest.mark.slow
    def test_padding_and_truncation_match_library(self, saved: Saved, tmp_path: Path, kind: str, side: str) -> None:
        library = Tokenizer.from_file(str(saved(kind)))
        library.enable_truncation(6, direction=side)
        library.enable_padding(direction=side, pad_id=1, length=6)
        library.save(str(tmp_path / "tokenizer.json"))
        example = {"ids": torch.ones(2, 6, dtype=torch.int64), "lengths": torch.tensor([6, 6])}
        shapes = {"ids": {0: torch.export.Dim.DYNAMIC}, "lengths": {0: torch.export.Dim.DYNAMIC}}
        path = export(Identity(), example, tmp_path / "tokenizer.json", tmp_path, dynamic_shapes=shapes)
        texts = ["one two three four five six seven eight", "", "a"]
        ids, lengths, _ = edge_embed.create_session(path).run(None, {"text": np.array(texts, dtype=object)})
        expected = library.encode_batch(texts)
        assert ids.tolist() == [one.ids for one in expected]
        assert lengths.tolist() == [sum(one.attention_mask) for one in expected]

    def test_manifest_names_tokenizer(self, identity: Callable[[str], Path], saved: Saved) -> None:
        from edge_embed.inspection.inspect import inspect_file

        about = inspect_file(identity("RoBERTa")).tokenizer
        assert about is not None
        source = json.loads(saved("RoBERTa").read_text(encoding="utf-8"))
        assert (about["kind"], about["pad_id"], about["before"], about["after"]) == ("BPE", 1, [0], [2])
        assert about["num_ids"] == len(source["model"]["vocab"])
        assert len(about["sha256"]) == 64
