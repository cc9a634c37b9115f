"""Folders that transformers wrote: the program returns the outputs of the module; incomplete models are refused."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

import edge_embed
from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.importers.folder_left_out import folder_left_out
from edge_embed.importers.recognize import load_foreign
from edge_embed.importers.transformers_size import bounded, check_files
from edge_embed.inspection.inspect import inspect_file
from edge_embed.program.program import ProgramInput
from edge_embed.validation.options import ValidationOptions

transformers = pytest.importorskip("transformers", reason="transformers is missing: pip install 'edge-embed[dev]'")

SMALL = {"vocab_size": 300, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
IDS = torch.tensor([[5, 17, 299, 1, 8], [3, 3, 8, 2, 0], [1, 0, 2, 9, 250]])
MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])


def bert() -> Any:
    return transformers.BertModel(transformers.BertConfig(**SMALL, hidden_size=32))


def llama() -> Any:
    config = transformers.LlamaConfig(**SMALL, hidden_size=32, num_key_value_heads=1, tie_word_embeddings=True)
    return transformers.LlamaForCausalLM(config).to(torch.bfloat16)


def t5() -> Any:
    config = transformers.T5Config(vocab_size=300, d_model=32, d_kv=16, d_ff=32, num_layers=1, num_heads=2)
    return transformers.T5ForConditionalGeneration(config)


def saved(make: Callable[[], Any], folder: Path) -> Any:
    """Save a module, and return it as loaded again in float32."""
    torch.manual_seed(0)
    made = make()
    made.save_pretrained(folder)
    return type(made).from_pretrained(folder, dtype=torch.float32).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("bert") / "model.of.mine"
    saved(bert, path)
    return path


def changed(folder: Path, copy: Path, **config: Any) -> Path:
    shutil.copytree(folder, copy)
    path = copy / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **config}))
    return copy


@pytest.mark.parametrize(
    ("make", "more", "outputs"),
    [
        (bert, {}, ("last_hidden_state", "pooler_output")),
        pytest.param(llama, {}, ("logits",), marks=pytest.mark.slow),
        pytest.param(
            t5, {"decoder_input_ids": IDS[:, :3]}, ("logits", "encoder_last_hidden_state"), marks=pytest.mark.slow
        ),
    ],
)
def test_program_outputs_equal_those_of_module(
    make: Callable[[], Any], more: dict[str, Tensor], outputs: tuple[str, ...], tmp_path: Path
) -> None:
    module = saved(make, tmp_path)
    inputs = {"input_ids": IDS, "attention_mask": MASK, **more}
    program = workflow.load(tmp_path, cache=False)
    shapes = {given.name: given.shape for given in program.inputs}
    assert shapes["input_ids"] == shapes["attention_mask"] == ("batch", "sequence")
    assert shapes.keys() == inputs.keys()
    assert program.output_names == outputs
    with torch.no_grad():
        expected = module(**inputs)
    for name, got in zip(outputs, program.run(*inputs.values()), strict=True):
        torch.testing.assert_close(got, expected[name])


SOME_LONG = [(llama, "model.embed_tokens", 2), pytest.param(t5, "shared", 3, marks=pytest.mark.long)]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "table", "uses"), SOME_LONG)
def test_folder_is_compressed_exported_and_validated(
    make: Callable[[], Any], table: str, uses: int, tmp_path: Path
) -> None:
    saved(make, tmp_path / "model")
    small = tmp_path / "small.pt"
    _, report = workflow.compress(tmp_path / "model", "dpq", num_codes=16, num_groups=16, output=small)
    assert {each.name: each.uses for each in report.tables if not each.reason} == {table: uses}
    edge_embed.export(small, "onnx", tmp_path / "small.onnx")
    assert edge_embed.validate(small, tmp_path / "small.onnx", options=ValidationOptions(iterations=0)).passed


@pytest.mark.slow
def test_transformers_library_prints_nothing(folder: Path) -> None:
    code = "import sys; from edge_embed import workflow; workflow.load(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"architectures": ["PhantomModel"]}, "config.json: got the model class PhantomModel, expected a class of"),
        ({"architectures": ["AutoTokenizer"]}, "got the model class AutoTokenizer"),
        ({"architectures": "BertModel"}, "architectures: got 'BertModel', expected a list of names"),
        ({"vocab_size": "three"}, "cannot load it .*vocab_size.*expected int.*check its files"),
        ({"model_type": "phantom", "architectures": None}, "cannot load it .*phantom.*create the module and pass it"),
        (
            {"num_hidden_layers": 2},
            r"weights are missing: (encoder.layer.1[\w.]+, ){4}[\w.]+ and \d+ more: save the whole",
        ),
        ({"vocab_size": 301}, r"word_embeddings.weight: got \[300, 32\], expected \[301, 32\] of config.json"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "got quantised weights, expected floats"),
    ],
)
def test_folder_without_complete_model_is_refused(
    config: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    path = changed(folder, tmp_path / "model", **config)
    with pytest.raises(BadInputError, match=f"^{path}: .*{message}"):
        load_foreign(path)


def test_custom_code_of_folder_is_refused_and_not_run(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "model", model_type="own", auto_map={"AutoConfig": "own.Config"})
    (path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    with pytest.raises(BadInputError, match="contains custom code"):
        load_foreign(path)
    assert not (tmp_path / "ran").exists()


def test_weights_truncated_or_pickled_are_refused(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "model")
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(BadInputError, match=r"model.safetensors: is damaged .*save the whole model"):
        load_foreign(path)
    weights.unlink()
    torch.save({}, path / "pytorch_model.bin")
    with pytest.raises(
        BadInputError, match=r"has no .safetensors file; other files.*are not read: save the whole model"
    ):
        load_foreign(path)


def test_model_of_images_is_refused(tmp_path: Path) -> None:
    config = transformers.ViTConfig(hidden_size=8, num_hidden_layers=1, num_attention_heads=1, intermediate_size=8)
    transformers.ViTModel(config).save_pretrained(tmp_path)
    with pytest.raises(BadInputError, match="ViTModel has no input input_ids, expected a text model"):
        load_foreign(tmp_path)


def test_input_option_for_folder_is_refused(folder: Path) -> None:
    with pytest.raises(BadInputError, match="inputs are known: leave it out"):
        load_foreign(folder, inputs=[ProgramInput("ids", torch.int64, ("batch",))])


@pytest.mark.slow
def test_inspect_lists_tables_with_bytes_in_folder(tmp_path: Path) -> None:
    bert().to(torch.bfloat16).save_pretrained(tmp_path)
    report = inspect_file(tmp_path)
    assert report.kind == "transformers"
    assert report.file_bytes == (tmp_path / "model.safetensors").stat().st_size
    words = {table.name: table for table in report.dense}["embeddings.word_embeddings"]
    assert (words.num_embeddings, words.embedding_dim) == (300, 32)
    assert words.stored_bytes == pytest.approx(300 * 32 * 2, rel=0.05)  # the file has a header too
    assert words.share == words.stored_bytes / report.file_bytes
    assert [port.name for port in report.inputs] == ["input_ids", "attention_mask"]


def test_weights_without_place_in_model_are_named_in_log(
    folder: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = changed(folder, tmp_path / "model")
    weights = load_file(path / "model.safetensors")
    save_file({**weights, "extra.weight": torch.ones(3)}, path / "model.safetensors", metadata={"format": "pt"})
    load_foreign(path)
    assert "BertModel does not use extra.weight, which are left out" in caplog.text


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "."])
def test_folder_is_never_replaced_by_compress_with_force(name: str, folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "model")
    before = (path / "model.safetensors").read_bytes(), (path / "config.json").read_bytes()
    with pytest.raises(BadInputError, match="is read by this command"):
        workflow.compress(path, "dpq", num_codes=16, num_groups=8, output=path / name, force=True)
    assert ((path / "model.safetensors").read_bytes(), (path / "config.json").read_bytes()) == before


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"num_hidden_layers": 2**40}, "num_hidden_layers: got 1099511627776, expected at most"),
        ({"text_config": {"n_layers": 50_000}}, "n_layers: got 50000"),
        ({"num_labels": 2**33}, "num_labels: got 8589934592"),
        ({"hidden_size": 2**20}, "describes a model of more than .* numbers"),
        ({"vocab_size": 2**50}, "describes a model of more than .* numbers"),
        ({"max_position_embeddings": 2**40}, "describes a model of more than .* numbers"),
    ],
)
def test_configuration_far_larger_than_weights_is_refused(
    folder: Path, tmp_path: Path, config: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        load_foreign(changed(folder, tmp_path / "model", **config))


def test_layers_without_limit_are_refused(folder: Path, tmp_path: Path) -> None:
    """The limit holds for any name of the key that states the number of layers."""
    with bounded(check_files(folder)), pytest.raises(BadInputError, match="describes a model of more than"):
        torch.nn.Sequential(*(torch.nn.LayerNorm(1) for _ in range(2**40)))
    torch.nn.Sequential(*(torch.nn.LayerNorm(1) for _ in range(3000)))  # without the limit


@pytest.mark.parametrize("shard", ["../secret.safetensors", "/etc/passwd", "link.safetensors", "a/../../x", "..\\x"])
def test_shard_outside_folder_is_refused_before_opening(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shard: str
) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (tmp_path / "secret.safetensors").write_bytes((model / "model.safetensors").read_bytes())
    (model / "link.safetensors").symlink_to(tmp_path / "secret.safetensors")
    index = {"metadata": {}, "weight_map": {"embeddings.word_embeddings.weight": shard}}
    (model / "model.safetensors.index.json").write_text(json.dumps(index))
    monkeypatch.setattr("edge_embed.importers.transformers_size.opened", lambda path: pytest.fail(f"{path} was opened"))
    with pytest.raises(BadInputError, match="is outside the model's folder"):
        load_foreign(model)


def test_shards_that_link_to_hub_blobs_are_read(folder: Path, tmp_path: Path) -> None:
    snapshot = tmp_path / "models--me--bert" / "snapshots" / "1234"
    blobs = snapshot.parents[1] / "blobs"
    shutil.copytree(folder, blobs)
    snapshot.mkdir(parents=True)
    names = {"config.json": "config.json", "model-00001-of-00001.safetensors": "model.safetensors"}
    for name, blob in names.items():
        (snapshot / name).symlink_to(Path("../../blobs") / blob)
    index = {"metadata": {}, "weight_map": {"x": "model-00001-of-00001.safetensors"}}
    (snapshot / "model.safetensors.index.json").write_text(json.dumps(index))
    assert check_files(snapshot).tensors == check_files(folder).tensors


@pytest.mark.parametrize(
    ("weight_map", "message"),
    [
        ({"x": "model-00002-of-00002.safetensors"}, r"shard model-00002-of-00002\.safetensors is missing: fetch it"),
        ({"x": "m" * 5000}, "shard mmm"),
        ({}, r"weight_map: got \{\}, expected the shard of each weight"),
        ("model.safetensors", "weight_map: got 'model.safetensors', expected"),
    ],
    ids=["missing", "long", "empty", "text"],
)
def test_index_without_its_shards_is_refused(folder: Path, tmp_path: Path, weight_map: Any, message: str) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (model / "model.safetensors").rename(model / "model-00001-of-00002.safetensors")
    (model / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(BadInputError, match=message):
        load_foreign(model)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n", "is a Git LFS pointer"),
        (b"GGUF" + bytes(60), "GGUF"),
    ],
)
def test_weights_of_another_format_are_refused_by_name(folder: Path, tmp_path: Path, content: bytes, kind: str) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (model / "model.safetensors").write_bytes(content)
    with pytest.raises(BadInputError, match=f"model.safetensors: .*{kind}"):
        load_foreign(model)


@pytest.mark.parametrize("name", ["generation_config.json", "model.safetensors"])
def test_pipe_in_folder_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (model / name).unlink(missing_ok=True)
    os.mkfifo(model / name)
    with pytest.raises(BadInputError, match="is not a regular file"):
        load_foreign(model)


@pytest.mark.parametrize("content", ["[" * 5000, "{", "[]", '{"num_hidden_layers": ' + "9" * 5000 + "}", ""])
def test_configuration_that_is_not_json_object_is_refused(folder: Path, tmp_path: Path, content: str) -> None:
    model = Path(shutil.copytree(folder, tmp_path / "model"))
    (model / "config.json").write_text(content)
    with pytest.raises(BadInputError, match=r"config\.json"):
        load_foreign(model)


def with_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models

    tokens = {f"w{number}": number for number in range(SMALL["vocab_size"])}
    Tokenizer(models.WordLevel(tokens, unk_token="w0")).save(str(folder / "tokenizer.json"))


@pytest.mark.parametrize("make", [bert, llama])
@pytest.mark.slow
def test_folder_with_tokenizer_is_model_and_lists_left_out_files(make: Callable[[], Any], tmp_path: Path) -> None:
    folder = tmp_path / "my model"
    make().save_pretrained(folder)
    with_tokenizer(folder)
    (folder / "tokenizer_config.json").write_text("{}")
    report = inspect_file(folder)
    assert report.kind == "transformers"
    (left_out,) = report.source.left_out
    assert left_out.what == "tokenizer"
    assert left_out.nbytes == (folder / "tokenizer.json").stat().st_size + 2
    assert "tokenizer.json, tokenizer_config.json: keep it beside" in left_out.reason
    assert f"export --tokenizer '{folder}/tokenizer.json'" in left_out.reason


@pytest.mark.slow
def test_pooling_after_model_is_listed_as_left_out(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "model")
    kinds = ["models.Transformer", "models.Pooling", "models.Normalize"]
    (path / "modules.json").write_text(json.dumps([{"type": f"sentence_transformers.{kind}"} for kind in kinds]))
    program = load_foreign(path)
    assert program is not None
    assert [left.what for left in program.facts.left_out] == ["Pooling, Normalize"]
    for broken in ("{", "[[]]", "[1, 2]", '{"a": 1}'):
        (path / "modules.json").write_text(broken)
        assert folder_left_out(path) == ()


def test_damaged_weights_beside_tokenizer_are_refused(folder: Path, tmp_path: Path) -> None:
    path = changed(folder, tmp_path / "model")
    with_tokenizer(path)
    weights = path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(BadInputError, match=r"model\.safetensors"):
        load_foreign(path)
