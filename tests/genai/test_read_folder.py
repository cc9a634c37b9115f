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
        ({"eos_token_id": -1}, f"model.eos_token_id: got -1, expected an id below {ROWS}"),
        ({"eos_token_id": None}, "model.eos_token_id: got None"),
        ({"bos_token_id": "a"}, "model.bos_token_id: got 'a'"),
        ({"bos_token_id": [1]}, r"model.bos_token_id: got \[1\]"),
        ({"pad_token_id": ROWS}, f"model.pad_token_id: got {ROWS}, expected an id below {ROWS}"),
        ({"pad_token_id": -2}, "model.pad_token_id: got -2"),
        ({"context_length": 0}, "model.context_length: got 0, expected an integer from 1 to 2147483647, the largest"),
        ({"context_length": True}, "model.context_length: got True"),
        ({"context_length": 2.5}, "model.context_length: got 2.5"),
        ({"context_length": "8"}, "model.context_length: got '8'"),
        ({"context_length": 2**31}, "model.context_length: got 2147483648"),
        ({"context_length": 8}, r"search.max_length: got 128, expected at most 8 .model.context_length."),
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
        ({"num_hidden_layers": 0}, "num_hidden_layers: got 0, expected an integer from 1 to 10000"),
        ({"head_size": 0}, "head_size: got 0, expected an integer from 1"),
        ({"hidden_size": "16"}, "hidden_size: got '16'"),
        ({"num_attention_heads": None}, "num_attention_heads: got None"),
        ({"num_key_value_heads": -1}, "num_key_value_heads: got -1"),
        ({"session_options": {"intra_op_num_threads": True}}, "session_options.intra_op_num_threads: got True"),
        ({"sliding_window": {}}, "sliding_window.window_size: got none, expected an integer from 1"),
        (
            {"sliding_window": {"window_size": 4, "layers": [0, 1]}},
            r"sliding_window.layers: got 1, expected numbers be",
        ),
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


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"max_length": -1}, "max_length: got -1"),
        ({"num_beams": 0}, "num_beams: got 0, expected an integer from 1"),
        ({"top_k": 2.5}, "top_k: got 2.5"),
        ({"temperature": True}, "temperature: got True, expected a finite number"),
        ({"top_p": float("nan")}, "top_p: got nan"),
        ({"do_sample": 1}, "do_sample: got 1, expected true or false"),
    ],
)
def test_search_number_of_wrong_kind_is_named(folder: Path, search: dict[str, Any], message: str) -> None:
    config = json.loads(json.dumps(CONFIG))
    config["search"] |= search
    (folder / "genai_config.json").write_text(json.dumps(config))
    with pytest.raises(BadInputError, match=f"genai_config.json: search.{message}"):
        read_genai(folder)


def test_id_of_no_token_is_a_warning(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_config(folder, {"pad_token_id": -1})
    read_genai(folder)
    assert "model.pad_token_id: got -1, the id of no token" in caplog.text


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


TIKTOKEN = json.dumps({"tiktoken_file": "words.tiktoken"})
INCOMPLETE: dict[str, tuple[dict[str, str | None], str]] = {
    "no vocabulary": (
        {"tokenizer.json": None},
        "tokenizer.json: no such file: .*remove tokenizer_config.json, chat_tem",
    ),
    "no settings": (
        {"tokenizer_config.json": None},
        "tokenizer_config.json: no such file: .*remove tokenizer.json, chat",
    ),
    "a template alone": (
        {"tokenizer.json": None, "tokenizer_config.json": None},
        "tokenizer_config.json: no such file",
    ),
    "an empty vocabulary": ({"tokenizer.json": ""}, "tokenizer.json: is not valid JSON"),
    "no model": ({"tokenizer.json": "{}"}, "tokenizer.json: model: got None, expected the tokens with their ids"),
    "a number": ({"tokenizer.json": '{"model": {"vocab": 3}}'}, "tokenizer.json: model.vocab: got 3"),
    "a named vocabulary": (
        {"tokenizer_config.json": TIKTOKEN},
        "words.tiktoken: no such file: .*names as tiktoken_file",
    ),
    "one that a module names": ({"tokenizer_module.json": TIKTOKEN}, "words.tiktoken: no such file"),
    "one elsewhere": ({"tokenizer_config.json": '{"tiktoken_file": "../words"}'}, "'../words': is outside the model's"),
    "one of no name": ({"tokenizer_config.json": '{"tiktoken_file": 3}'}, "tiktoken_file: got 3, expected the name"),
}


@pytest.mark.parametrize("name", INCOMPLETE)
def test_incomplete_tokenizer_is_named(folder: Path, name: str) -> None:
    files, message = INCOMPLETE[name]
    for file, content in files.items():
        (folder / file).unlink(missing_ok=True)
        if content is not None:
            (folder / file).write_text(content)
    with pytest.raises(BadInputError, match=f"dense: .*{message}"):
        read_genai(folder)


def test_tokenizer_may_be_absent_or_in_another_file(folder: Path) -> None:
    (folder / "tokenizer.json").rename(folder / "words.tiktoken")
    (folder / "tokenizer_config.json").write_text(TIKTOKEN)
    assert read_genai(folder).has_tokenizer
    for name in ("words.tiktoken", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).unlink()
    assert not read_genai(folder).has_tokenizer


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
