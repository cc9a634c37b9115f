"""Configurations of GenAI folders that are damaged, of another version, or of another tokenizer: each is named."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import DECODERS, is_genai, read_genai
from edge_embed.program.file_kind import check_runtime_file

from .folders import CONFIG, ROWS, TOKENIZER, made_folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_folder(tmp_path / "dense")


def write_config(folder: Path, model: dict[str, Any] | None = None, decoder: dict[str, Any] | None = None) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["model"] |= model or {}
    config["model"]["decoder"] |= decoder or {}
    (folder / "genai_config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"type": "martian"}, "model.type: got 'martian', expected the type of a decoder.*build the folder with onnx"),
        ({"type": "qwen33"}, "model.type: got 'qwen33'.*did you mean 'qwen3'"),
        ({"type": "whisper"}, "model.type: got 'whisper'"),
        ({"type": None}, "model.type: got None"),
        ({"router": {}}, "got a model with a part 'router', expected a decoder alone"),
        ({"vocab_size": True}, "model.vocab_size: got True"),
        ({"eos_token_id": [1, ROWS]}, f"model.eos_token_id: got {ROWS}, expected an id below {ROWS}"),
        ({"bos_token_id": "a"}, "model.bos_token_id: got 'a'"),
    ],
)
def test_model_of_unknown_kind_is_named(folder: Path, model: dict[str, Any], message: str) -> None:
    write_config(folder, model)
    with pytest.raises(BadInputError, match=f"genai_config.json: {message}"):
        read_genai(folder)


@pytest.mark.parametrize(
    ("decoder", "message"),
    [
        ({"experts": {}}, "got a decoder with 'experts', expected session_options"),
        ({"num_hidden_layers": None}, "num_hidden_layers: got None"),
        ({"num_hidden_layers": True}, "num_hidden_layers: got True"),
        ({"inputs": {"past_key_names": None}}, "inputs.past_key_names: got None, expected a name"),
        ({"outputs": {"logits": ["logits"]}}, r"outputs.logits: got \['logits'\], expected a name"),
        ({"filename": "genai_config.json"}, "filename: got 'genai_config.json', expected the name of an ONNX file"),
        ({"filename": "x" * 5000 + ".onnx"}, "x: cannot be read: File name too long"),
    ],
)
def test_decoder_of_unknown_form_is_named(folder: Path, decoder: dict[str, Any], message: str) -> None:
    write_config(folder, decoder=decoder)
    with pytest.raises(BadInputError, match=f"genai_config.json: .*{message}") as caught:
        read_genai(folder)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("kind", ["folder", "link"])
def test_configuration_of_no_file_is_named(folder: Path, kind: str) -> None:
    path = folder / "genai_config.json"
    path.unlink()
    path.mkdir() if kind == "folder" else path.symlink_to("gone.json")
    assert is_genai(folder)
    with pytest.raises(BadInputError, match=r"genai_config.json: (no such file|is not a regular file)"):
        read_genai(folder)


@pytest.mark.parametrize(
    ("tokenizer", "message"),
    [
        ({"model": {"vocab": {"a": ROWS}}}, f"got {ROWS} rows, expected more than the largest id {ROWS} of .*'a'"),
        ({"model": {"vocab": [["a", 0.5]] * (ROWS + 1)}}, f"largest id {ROWS} of tokenizer.json .'a'"),
        ({"added_tokens": [{"id": ROWS, "content": "new"}]}, f"largest id {ROWS} of tokenizer.json .'new'"),
        ({"model": {"vocab": {"a": -1}}}, "tokenizer.json: 'a': got the id -1, expected an integer"),
        ({"model": {"vocab": {"a": 5.0}}}, "tokenizer.json: 'a': got the id 5.0"),
    ],
)
def test_token_without_row_is_named(folder: Path, tokenizer: dict[str, Any], message: str) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(BadInputError, match=message):
        read_genai(folder)


def with_image_token(folder: Path) -> None:
    token = {"id": ROWS, "content": "<image>", "special": True}
    (folder / "tokenizer.json").write_text(json.dumps({**TOKENIZER, "added_tokens": [token]}))


def test_special_token_without_row_or_role_is_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Text models of Gemma have such a token for images."""
    with_image_token(folder)
    with caplog.at_level(logging.WARNING):
        read_genai(folder)
    assert f"'<image>' has id {ROWS}, and the model {ROWS} rows" in caplog.text


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("chat_template.jinja", "{{ messages }}<image>"),
        ("tokenizer_config.json", json.dumps({"chat_template": "<image>"})),
        ("tokenizer_config.json", json.dumps({"pad_token": {"content": "<image>"}})),
    ],
)
def test_special_token_without_row_is_refused_if_it_is_used(folder: Path, name: str, content: str) -> None:
    with_image_token(folder)
    (folder / name).write_text(content)
    with pytest.raises(BadInputError, match=f"largest id {ROWS} of tokenizer.json .'<image>'"):
        read_genai(folder)


def test_damaged_settings_of_tokenizer_are_named(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{")
    with pytest.raises(BadInputError, match=r"dense: tokenizer_config\.json: is not valid JSON"):
        read_genai(folder)


def test_types_are_those_of_the_runtime(folder: Path) -> None:
    genai = pytest.importorskip(
        "onnxruntime_genai", reason="onnxruntime-genai is missing: pip install 'edge-embed[genai]'"
    )
    for kind in DECODERS - {"gpt2", "lfm2"}:  # these require other inputs
        write_config(folder, {"type": kind})
        genai.Model(str(folder))
    write_config(folder, {"type": "martian"})
    with pytest.raises(RuntimeError, match="Unsupported model_type"):
        genai.Model(str(folder))


def test_configuration_in_place_of_its_folder_is_named(folder: Path) -> None:
    with pytest.raises(
        BadInputError, match="is the configuration of an ONNX Runtime GenAI model: give the folder that"
    ):
        check_runtime_file(folder / "genai_config.json")
