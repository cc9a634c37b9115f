"""model2vec models, compared with model2vec: the mean of the rows of a text equals its encoding."""

import json

import numpy as np
import pytest
import torch
from model2vec import StaticModel
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers

from edge_embed.errors import BadInputError
from edge_embed.importers.recognize import load_foreign

TOKENS = ["[PAD]", "[UNK]", *(f"w{number}" for number in range(60))]
TEXT = "w3 w7 w59 w3"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Write a model in four forms: plain, with fewer rows than tokens, in float16 and in int8."""
    folder = tmp_path_factory.mktemp("m")
    tokenizer = Tokenizer(models.WordLevel({token: row for row, token in enumerate(TOKENS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    table = np.random.default_rng(0).normal(size=(len(TOKENS), 8)).astype(np.float32)
    StaticModel(table, tokenizer).save_pretrained(folder / "plain")
    for name, options in {
        "fewer_rows": {"vocabulary_quantization": 20},
        "float16": {"quantize_to": "float16"},
        "int8": {"quantize_to": "int8"},
    }.items():
        StaticModel.from_pretrained(folder / "plain", **options).save_pretrained(folder / name)
    return folder


@pytest.mark.parametrize("name", ["plain", "fewer_rows", "float16"])
@pytest.mark.parametrize("file", [".", "model.safetensors"])
def test_mean_of_rows_equals_encoding_of_model2vec(folder, name, file):
    model, program = StaticModel.from_pretrained(folder / name), load_foreign(folder / name / file)
    assert list(program.vocabulary) == TOKENS == list(model.tokens)
    (rows,) = program.run(torch.tensor(model.tokenize([TEXT])))
    np.testing.assert_allclose(rows[0].float().mean(0), model.encode(TEXT), atol=1e-3 if name == "float16" else 1e-6)
    assert program.source == folder / name / "model.safetensors"


def test_sentence_transformers_folder_is_read(folder, tmp_path):
    inside = tmp_path / "0_StaticEmbedding"
    inside.mkdir()
    table = load_file(folder / "plain/model.safetensors")["embeddings"]
    save_file({"embedding.weight": table}, inside / "model.safetensors")
    (inside / "tokenizer.json").write_bytes((folder / "plain/tokenizer.json").read_bytes())
    program = load_foreign(tmp_path)
    assert list(program.vocabulary) == TOKENS
    torch.testing.assert_close(program.module.weight("embedding.weight"), table)


def test_int8_model_is_refused_with_remedy(folder):
    with pytest.raises(BadInputError, match=r"embeddings: got int8 .* save the model without quantize_to"):
        load_foreign(folder / "int8")


@pytest.mark.parametrize(
    ("tensors", "match"),
    [
        ({"embeddings": torch.ones(61, 8)}, "got 61 rows, expected 62, one for each token"),
        ({"embeddings": torch.ones(62)}, r"got float32 \[62\], expected a table"),
        ({"embeddings": torch.ones(62, 8), "weights": torch.ones(61)}, r"weights: got \[61\], expected \[62\]"),
        ({"embeddings": torch.ones(62, 8), "mapping": torch.ones(1, 62)}, r"mapping: got \[1, 62\], expected \[62\]"),
        (
            {"embeddings": torch.ones(9, 8), "mapping": torch.full((62,), 9)},
            "mapping: expected integers from 0 to 8",
        ),
        ({"embeddings": torch.ones(9, 8), "mapping": torch.ones(62)}, "mapping: expected integers"),
        ({"embeddings": torch.tensor([[1.0], [torch.nan]]).repeat(31, 1)}, r"row 1 \('\[UNK\]'\): got NaN"),
    ],
)
def test_tensors_that_contradict_each_other_are_refused(folder, tmp_path, tensors, match):
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "tokenizer.json").write_bytes((folder / "plain/tokenizer.json").read_bytes())
    with pytest.raises(BadInputError, match=match):
        load_foreign(tmp_path)


def test_mapping_to_few_rows_is_refused(folder, tmp_path):
    content = json.loads((folder / "plain/tokenizer.json").read_text())
    content["model"]["vocab"] = {f"t{number}": number for number in range(1000)}
    content["added_tokens"] = []
    (tmp_path / "tokenizer.json").write_text(json.dumps(content | {"model": content["model"] | {"unk_token": "t0"}}))
    mapping = torch.zeros(1000, dtype=torch.int32)
    save_file({"embeddings": torch.ones(1, 8), "mapping": mapping}, tmp_path / "model.safetensors")
    with pytest.raises(BadInputError, match="mapping: got 1000 tokens for 1 rows, expected at most 100"):
        load_foreign(tmp_path)


@pytest.mark.parametrize("text", ["", "{}", '{"model": 1}', "\udcff"])
def test_damaged_tokenizer_is_refused(folder, tmp_path, text):
    (tmp_path / "model.safetensors").write_bytes((folder / "plain/model.safetensors").read_bytes())
    (tmp_path / "tokenizer.json").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInputError, match=r"tokenizer\.json: the library tokenizers refuses it"):
        load_foreign(tmp_path)
