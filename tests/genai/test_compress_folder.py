"""Folders of ONNX Runtime GenAI that compress reads and writes, without and with the runtime."""

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from click.testing import CliRunner

import edge_embed
from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.errors import EdgeEmbedError
from edge_embed.validation.options import ValidationOptions

from .folders import CONFIG, DIM, ROWS, TOKENIZER_FILES, made_folder

SIZES: dict[str, Any] = {"method": "rows", "bits": 8}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return made_folder(tmp_path / "dense")


def compress(folder: Path, output: Path, **given: Any) -> Any:
    return workflow.compress(folder, output=output, **SIZES, **given)


def config_in(folder: Path) -> Any:
    return json.loads((folder / "genai_config.json").read_text())


def logits_of(folder: Path) -> Any:
    ids, past = np.arange(8)[None], np.zeros((1, 1, 0, DIM), np.float32)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
    feeds |= {f"past_key_values.0.{kind}": past for kind in ("key", "value")}
    options = onnxruntime.SessionOptions()
    if library := config_in(folder)["model"]["decoder"]["session_options"].get("custom_ops_library"):
        options.register_custom_ops_library(str(folder / library))
    return onnxruntime.InferenceSession(folder / "model.onnx", options).run(["logits"], feeds)[0]


class TestWrittenFolder:
    @pytest.mark.parametrize("library", [True, False])
    def test_compressed_folder_gives_nearly_equal_logits(self, tmp_path: Path, folder: Path, library: bool) -> None:
        compress(folder, tmp_path / "small", library=library)
        dense = logits_of(folder)
        np.testing.assert_allclose(logits_of(tmp_path / "small"), dense, atol=0.02 * np.abs(dense).max())

    def test_compressed_folder_keeps_other_files(self, tmp_path: Path, folder: Path) -> None:
        (folder / "adapters").mkdir()
        (folder / "adapters" / "one.bin").write_bytes(b"\0\1")
        compress(folder, tmp_path / "small")
        for name in ("tokenizer.json", "chat_template.jinja", "adapters/one.bin"):
            assert (tmp_path / "small" / name).read_bytes() == (folder / name).read_bytes()

    def test_configuration_gains_library_only(self, tmp_path: Path, folder: Path) -> None:
        compress(folder, tmp_path / "small")
        expected = copy.deepcopy(CONFIG)
        expected["model"]["decoder"]["session_options"]["custom_ops_library"] = edge_embed.get_library_path().name
        assert config_in(tmp_path / "small") == expected
        library = edge_embed.get_library_path()
        assert (tmp_path / "small" / library.name).read_bytes() == library.read_bytes()

    def test_folder_without_library_has_unchanged_configuration(self, tmp_path: Path, folder: Path) -> None:
        compress(folder, tmp_path / "small", library=False)
        assert config_in(tmp_path / "small") == CONFIG
        assert not [path for path in (tmp_path / "small").iterdir() if path.suffix == ".so"]

    def test_report_in_folder_states_sizes_of_files(self, tmp_path: Path, folder: Path) -> None:
        report = compress(folder, tmp_path / "small").report
        found = json.loads((tmp_path / "small" / "edge_embed_report.json").read_text())
        written = sum((tmp_path / "small" / name).stat().st_size for name in ("model.onnx", "model.onnx.data"))
        assert found["compressed_bytes"] == written == report.compressed_bytes
        assert found["tables"] == json.loads(json.dumps(report.to_json()["tables"]))

    def test_compressed_folder_is_inspected_and_validated(self, tmp_path: Path, folder: Path) -> None:
        compress(folder, tmp_path / "small")
        assert [table.num_embeddings for table in edge_embed.inspect(tmp_path / "small").tables] == [ROWS]
        report = workflow.validate(
            folder, tmp_path / "small", options=ValidationOptions(iterations=2, more_cases=4, atol=1e-4)
        )
        assert report.passed, report.failures()

    def test_given_session_memory_replaces_none(self, tmp_path: Path, folder: Path) -> None:
        wanted: dict[str, Any] = {"method": "dpq", "num_codes": 16, "num_groups": 4}
        for name, given, expected in (("none", None, 0), ("some", 2, 2 << 20)):
            workflow.compress(folder, output=tmp_path / name, memory_megabytes=given, **wanted)
            model = onnx.load(tmp_path / name / "model.onnx", load_external_data=False)
            limits = [item.i for node in model.graph.node for item in node.attribute if item.name == "memory_bytes"]
            assert limits == [expected]

    def test_compressed_folder_is_not_compressed_again(self, tmp_path: Path, folder: Path) -> None:
        workflow.compress(folder, output=tmp_path / "first", modules=["words"], **SIZES)
        with pytest.raises(
            EdgeEmbedError, match=r"got 'words' compressed already, .* give the original model$"
        ) as caught:
            compress(tmp_path / "first", tmp_path / "second")
        assert len(str(caught.value)) < 300
        assert not (tmp_path / "second").exists()


def changed(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Return a function that changes the configuration in a folder."""

    def apply(folder: Path) -> None:
        config = config_in(folder)
        change(config)
        (folder / "genai_config.json").write_text(json.dumps(config))

    return apply


def decoder(**values: Any) -> Callable[[Path], None]:
    return changed(lambda config: config["model"]["decoder"].update(values))


def other_rows_behind_dynamic_logits(folder: Path) -> None:
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "rows"
    (folder / "model.onnx").write_bytes(model.SerializeToString())
    changed(lambda config: config["model"].update(vocab_size=ROWS + 1))(folder)


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no JSON": (lambda folder: (folder / "genai_config.json").write_text("{"), "genai_config.json: is not valid JSON"),
    "a list": (lambda folder: (folder / "genai_config.json").write_text("[]"), "expected an object"),
    "another part": (changed(lambda config: config.update(version=9)), "got 'version', expected model, search, engine"),
    "vision": (changed(lambda config: config["model"].update(vision={})), "got a model with a part 'vision'"),
    "a pipeline": (decoder(pipeline=[]), "got a decoder in several files"),
    "no file name": (decoder(filename=3), "filename: got 3, expected the name of an ONNX file"),
    "a file elsewhere": (decoder(filename="../model.onnx"), "expected the name of an ONNX file"),
    "no such file": (decoder(filename="other.onnx"), "other.onnx: no such file"),
    "no number of layers": (decoder(num_hidden_layers="two"), "num_hidden_layers: got 'two'"),
    "more layers": (decoder(num_hidden_layers=2), "got 'past_key_values.1.key', which model.onnx lacks"),
    "another input": (
        changed(lambda config: config["model"]["decoder"]["inputs"].update(position_ids="position_ids")),
        "inputs: got 'position_ids', which model.onnx lacks",
    ),
    "inputs of no object": (decoder(inputs=[1]), "inputs: got [1], expected an object"),
    "session options of no object": (decoder(session_options=None), "session_options: got None, expected an object"),
    "names with several numbers": (
        changed(lambda config: config["model"]["decoder"]["inputs"].update(past_key_names="%d.%d%s")),
        "got '0.0%s', which model.onnx lacks",
    ),
    "no number of rows": (changed(lambda config: config["model"].update(vocab_size=None)), "vocab_size: got None"),
    "a tokenizer of another model": (
        lambda folder: (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": [3, {"id": 10**30}]})),
        f"got {ROWS} rows, expected more than the largest id 1e+30",
    ),
    "fewer rows": (changed(lambda config: config["model"].update(vocab_size=ROWS - 1)), f"largest id {ROWS - 1}"),
    "more rows": (
        changed(lambda config: config["model"].update(vocab_size=ROWS + 1)),
        f"vocab_size: got {ROWS + 1}, expected the {ROWS} columns of logits",
    ),
    "fewer layers": (
        decoder(num_hidden_layers=0),
        "num_hidden_layers: got 0, expected an integer from 1 to 10000",
    ),
    "other heads": (
        decoder(num_key_value_heads=4),
        "num_key_value_heads: got 4, expected the 1 of 'past_key_values.0.k",
    ),
    "other sizes": (
        decoder(head_size=3),
        f"head_size: got 3, expected the {DIM} of 'past_key_values.0.key' in model.on",
    ),
    "other rows behind logits of any size": (
        other_rows_behind_dynamic_logits,
        f"vocab_size: got {ROWS + 1}, expected the {ROWS} rows of words",
    ),
    "a library of others": (
        changed(lambda config: config["model"]["decoder"]["session_options"].update(custom_ops_library="other.so")),
        "custom_ops_library: got 'other.so', expected none",
    ),
    "a damaged tokenizer": (
        lambda folder: (folder / "tokenizer.json").write_text("{"),
        "tokenizer.json: is not valid JSON",
    ),
    "no tokenizer.json": (
        lambda folder: (folder / "tokenizer.json").unlink(),
        "dense: tokenizer.json: no such file: expected the vocabulary of the tokenizer: copy all tokenizer files",
    ),
    "no context": (
        changed(lambda config: config["model"].update(context_length=-1)),
        "model.context_length: got -1, expected an integer from 1",
    ),
    "a cut model": (lambda folder: (folder / "model.onnx").write_bytes(b"\x08"), "model.onnx: is"),
    "cut weights": (lambda folder: (folder / "model.onnx.data").write_bytes(b"\0"), "model.onnx"),
    "a pipe": (lambda folder: os.mkfifo(folder / "pipe"), "pipe: got no regular file"),
    "a linked folder": (lambda folder: (folder / "link").symlink_to("."), "link: got no regular file"),
    "a link to a folder elsewhere": (lambda folder: (folder / "link").symlink_to("/"), "file 'link': is outside"),
    "a link to a file elsewhere": (lambda folder: (folder / "link").symlink_to(__file__), "file 'link': is outside"),
}


@pytest.mark.parametrize("content", [{"added_tokens": 5, "model": {"vocab": {}}}, {"model": {"vocab": [["a", 0.5]]}}])
def test_tokenizer_of_other_form_is_copied(tmp_path: Path, folder: Path, content: dict[str, Any]) -> None:
    (folder / "tokenizer.json").write_text(json.dumps(content))
    compress(folder, tmp_path / "small", open=False)
    assert json.loads((tmp_path / "small" / "tokenizer.json").read_text()) == content


def test_folder_without_tokenizer_is_compressed_with_warning(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in TOKENIZER_FILES:
        (folder / name).unlink()
    compress(folder, tmp_path / "small", open=False)
    assert f"{folder}: no tokenizer, so the runtime generates from ids alone" in caplog.text


class TestMistakes:
    @pytest.mark.parametrize("name", WRONG)
    def test_wrong_folder_is_named_and_nothing_is_written(self, tmp_path: Path, folder: Path, name: str) -> None:
        change, message = WRONG[name]
        change(folder)
        done = CliRunner().invoke(
            main, ["compress", str(folder), "-o", str(tmp_path / "small"), "--method", "rows", "--bits", "8", "-q"]
        )
        assert (done.exit_code, message in done.output) == (2, True), done.output
        assert "Traceback" not in done.output
        assert sorted(path.name for path in tmp_path.iterdir()) == ["dense"]

    def test_existing_folder_stays_without_force(self, tmp_path: Path, folder: Path) -> None:
        other = made_folder(tmp_path / "small")
        before = {path.name: path.read_bytes() for path in other.iterdir()}
        with pytest.raises(EdgeEmbedError, match="exists;"):
            compress(folder, other)
        assert {path.name: path.read_bytes() for path in other.iterdir()} == before

    def test_existing_folder_is_replaced_with_force(self, tmp_path: Path, folder: Path) -> None:
        (made_folder(tmp_path / "small") / "old.txt").write_text("old")
        compress(folder, tmp_path / "small", force=True)
        assert not (tmp_path / "small" / "old.txt").exists()
        assert (tmp_path / "small" / "edge_embed_report.json").is_file()
        assert sorted(path.name for path in tmp_path.iterdir()) == ["dense", "small"]

    def test_folder_of_other_files_stays_with_force(self, tmp_path: Path, folder: Path) -> None:
        (tmp_path / "papers").mkdir()
        (tmp_path / "papers" / "thesis.txt").write_text("years")
        with pytest.raises(EdgeEmbedError, match=r"got a folder without genai_config\.json"):
            compress(folder, tmp_path / "papers", force=True)
        assert (tmp_path / "papers" / "thesis.txt").read_text() == "years"

    def test_link_as_output_is_named(self, tmp_path: Path, folder: Path) -> None:
        (tmp_path / "small").symlink_to(tmp_path)
        with pytest.raises(EdgeEmbedError, match=r"overlaps .* read by this command"):
            compress(folder, tmp_path / "small", force=True)
        (tmp_path / "other").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "other")
        with pytest.raises(EdgeEmbedError, match="link: is a link, expected the path of a new folder"):
            compress(folder, tmp_path / "link", force=True)

    @pytest.mark.parametrize("output", ["dense", "dense/small", "."])
    def test_output_that_touches_input_is_refused(self, tmp_path: Path, folder: Path, output: str) -> None:
        if output == ".":
            shutil.copy(folder / "genai_config.json", tmp_path)
        with pytest.raises(EdgeEmbedError, match=r"overlaps .* read by this command"):
            compress(folder, tmp_path / output, force=True)
        assert (folder / "model.onnx").is_file()

    def test_failed_opening_leaves_nothing(self, tmp_path: Path, folder: Path) -> None:
        model = (folder / "model.onnx").read_bytes()
        (folder / "model.onnx").write_bytes(model.replace(b"Tanh", b"Tank"))
        with pytest.raises(EdgeEmbedError, match="Tank"):
            compress(folder, tmp_path / "small")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["dense"]

    def test_export_of_folder_names_commands_that_read_it(self, tmp_path: Path, folder: Path) -> None:
        with pytest.raises(
            EdgeEmbedError, match="a folder of ONNX Runtime GenAI: compress, inspect and validate accept it"
        ):
            workflow.export(folder, "onnx", tmp_path / "out.onnx")


class TestGeneration:
    def test_library_and_body_generate_equal_tokens(self, tmp_path: Path, folder: Path) -> None:
        pytest.importorskip("onnxruntime_genai", reason="onnxruntime-genai is missing: pip install 'edge-embed[genai]'")
        from .generation import generate

        compress(folder, tmp_path / "small")
        compress(folder, tmp_path / "body", library=False)
        with_library, with_body = (generate(tmp_path / name, 4, 16, ROWS) for name in ("small", "body"))
        assert [one.tokens for one in with_library] == [one.tokens for one in with_body]
        assert len({token for one in with_body for token in one.tokens}) >= 4
