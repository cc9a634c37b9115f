"""Configuration, tokenizer and operator library of a GenAI folder are checked; the library is never loaded."""

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import pytest
from click.testing import CliRunner

from edge_embed import workflow
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.importers.genai_folder import read_genai
from edge_embed.inspection.inspect import inspect_file
from edge_embed.report.results.validation import Check
from edge_embed.runtime.library import ENVIRONMENT_NAME, get_library_path, package_version
from edge_embed.validation.pair.genai_checks import folder_checks

from .folders import DIM, ROWS, TOKENIZER_FILES, made_folder

VERSION, OTHER_VERSION = package_version(), "9" + package_version()[1:]
Change = Callable[[Path], Any]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a place with the folder ``dense`` and its compressed form ``small``."""
    place = tmp_path_factory.mktemp("pair")
    made_folder(place / "dense")
    workflow.compress(
        place / "dense", "dpq", output=place / "small", num_codes=16, num_groups=4, modules=["words"], open=False
    )
    return place


@pytest.fixture
def small(tmp_path: Path, pair: Path) -> Path:
    return Path(shutil.copytree(pair / "small", tmp_path / "small"))


def library_in(folder: Path) -> Path:
    return folder / get_library_path().name


def bytes_changed(old: bytes, new: bytes) -> Change:
    def change(folder: Path) -> None:
        content = library_in(folder).read_bytes()
        assert old in content
        library_in(folder).write_bytes(content.replace(old, new))

    return change


def library_of(content: bytes) -> Change:
    return lambda folder: library_in(folder).write_bytes(content)


def config_changed(change: Callable[[dict[str, Any]], Any]) -> Change:
    def apply(folder: Path) -> None:
        path = folder / "genai_config.json"
        config = json.loads(path.read_text())
        change(config["model"])
        path.write_text(json.dumps(config))

    return apply


def named(library: str) -> Change:
    return config_changed(lambda model: model["decoder"]["session_options"].update(custom_ops_library=library))


def elf(processor: int) -> bytes:
    return b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 3, processor) + bytes(100)


LIBRARIES: dict[str, tuple[Change, str]] = {
    "missing": (lambda folder: library_in(folder).unlink(), "no such file: expected the operator library: copy the"),
    "empty": (library_of(b""), "got a file that begins with b'', expected a library"),
    "a text": (library_of(b"hello"), "got a file that begins with b'hello', expected a library"),
    "another processor": (library_of(elf(183)), "got a library for Linux arm64, expected one for"),
    "an unknown processor": (library_of(elf(258)), "got a library for Linux processor 258, expected one for"),
    "macOS": (
        library_of(b"\xcf\xfa\xed\xfe\x0c\0\0\1" + bytes(24)),
        "got a library for macOS arm64, expected one for",
    ),
    "macOS, both": (
        library_of(b"\xca\xfe\xba\xbe\0\0\0\2\1\0\0\x07" + bytes(16) + b"\1\0\0\x0c" + bytes(16)),
        "got a library for macOS x86-64, macOS arm64, expected one for",
    ),
    "Windows": (
        library_of(b"MZ" + bytes(58) + b"\x40\0\0\0PE\0\0\x64\xaa" + bytes(20)),
        "got a library for Windows arm64, expected one for",
    ),
    "cut": (
        lambda folder: library_in(folder).write_bytes(get_library_path().read_bytes()[:100_000]),
        "got a library that ends early, after 100,000 bytes: copy the",
    ),
    "no operators": (
        bytes_changed(b"RegisterCustomOps\0", b"RegisterCustomAps\0"),
        "without the function RegisterCustomOps",
    ),
    "another version": (
        bytes_changed(f"{VERSION}\0".encode(), f"{OTHER_VERSION}\0".encode()),
        f"got an operator library of version {OTHER_VERSION}, expected {VERSION} as the package: copy the",
    ),
    "fewer methods": (bytes_changed(b"\0DPQLogits\0", b"\0XPQLogits\0"), "got an operator library without DPQLogits"),
    "outside": (named("../lib.so"), "is outside the model's folder"),
    "an absolute path": (named("/usr/lib/lib.so"), "got '/usr/lib/lib.so', expected a path in the folder"),
    "a link to outside": (
        lambda folder: [library_in(folder).unlink(), library_in(folder).symlink_to(get_library_path())],
        "is outside the model's folder",
    ),
    "a folder": (
        lambda folder: [library_in(folder).unlink(), library_in(folder).mkdir()],
        "is not a regular file",
    ),
}
CONFIGURATIONS: dict[str, tuple[Change, str]] = {
    "more rows": (
        config_changed(lambda model: model.update(vocab_size=ROWS + 1)),
        f"vocab_size: got {ROWS + 1}, expected the {ROWS} columns of logits",
    ),
    "other columns": (
        config_changed(lambda model: model["decoder"].update(hidden_size=DIM + 1)),
        f"hidden_size: got {DIM + 1}, expected the {DIM} columns of words",
    ),
    "other heads": (
        config_changed(lambda model: model["decoder"].update(num_key_value_heads=4)),
        "num_key_value_heads: got 4, expected the 1 of",
    ),
    "more layers": (
        config_changed(lambda model: model["decoder"].update(num_hidden_layers=2)),
        "got 'past_key_values.1.key', which model.onnx lacks",
    ),
    "another name of logits": (
        config_changed(lambda model: model["decoder"]["outputs"].update(logits="scores")),
        "outputs: got 'scores', which model.onnx lacks",
    ),
}


def checks(folder: Path) -> tuple[Check, ...]:
    found = read_genai(folder)
    return folder_checks(found, onnx.load(found.model, load_external_data=False))


@pytest.mark.parametrize("name", LIBRARIES)
def test_wrong_library_fails_and_inspect_names_it(small: Path, name: str) -> None:
    change, message = LIBRARIES[name]
    change(small)
    configuration, _, library = checks(small)
    assert (configuration.status, library.status) == ("passed", "failed")
    assert library.detail.startswith("genai_config.json: custom_ops_library")
    assert message in library.detail
    assert library.detail in inspect_file(small).warnings


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_configuration_of_another_file_fails_and_inspect_names_it(small: Path, name: str) -> None:
    change, message = CONFIGURATIONS[name]
    change(small)
    configuration, _, library = checks(small)
    assert (configuration.status, library.status) == ("failed", "passed")
    assert message in configuration.detail
    assert configuration.detail in inspect_file(small).warnings


def test_columns_of_dense_table_differ_and_compress_refuses(tmp_path: Path, pair: Path) -> None:
    dense = Path(shutil.copytree(pair / "dense", tmp_path / "dense"))
    CONFIGURATIONS["other columns"][0](dense)
    with pytest.raises(BadInputError, match=f"hidden_size: got {DIM + 1}, expected the {DIM} columns of words"):
        workflow.compress(dense, "rows", output=tmp_path / "small", bits=8)
    assert not (tmp_path / "small").exists()


@pytest.mark.parametrize(("heads", "status"), [((4,), "failed"), ((1,), "passed"), ((1, 4), "passed")])
def test_heads_of_attention_are_compared_unless_layers_differ(small: Path, heads: tuple[int, ...], status: str) -> None:
    found = read_genai(small)
    model = onnx.load(found.model, load_external_data=False)
    for count in heads:
        model.graph.node.append(onnx.helper.make_node("GroupQueryAttention", ["a"], ["b"], num_heads=count))
        model.graph.node.append(onnx.helper.make_node("RotaryEmbedding", ["a"], ["c"], num_heads=2))
    configuration, *_ = folder_checks(found, model)
    assert configuration.status == status
    if status == "failed":
        assert "num_attention_heads: got 1, expected num_heads 4 of attention in model.onnx" in configuration.detail


@pytest.mark.parametrize(("rows", "status"), [(127, "failed"), (128, "passed")])
def test_context_is_at_most_rows_of_angles(small: Path, rows: int, status: str) -> None:
    found = read_genai(small)
    model = onnx.load(found.model, load_external_data=False)
    model.graph.initializer.append(onnx.helper.make_tensor("cos", onnx.TensorProto.FLOAT, (rows, 8), [0.0] * 8 * rows))
    model.graph.node.append(
        onnx.helper.make_node("GroupQueryAttention", [*"abcdefg", "cos", "sin"], ["b"], num_heads=1)
    )
    configuration, *_ = folder_checks(found, model)
    assert configuration.status == status
    if status == "failed":
        assert "model.context_length: got 128, expected at most 127, the positions that model" in configuration.detail


@pytest.mark.parametrize("kind", ["MatMul", "MatMulNBits"])
@pytest.mark.parametrize(("factor", "status"), [(2, "failed"), (1, "passed")])
def test_head_size_is_that_of_product_behind_attention(small: Path, kind: str, factor: int, status: str) -> None:
    found = read_genai(small)
    size = found.decoder["head_size"]
    heads, width = found.decoder["num_attention_heads"], found.decoder["num_attention_heads"] * size * factor
    model = onnx.load(found.model, load_external_data=False)
    model.graph.initializer.append(onnx.helper.make_tensor("w", onnx.TensorProto.FLOAT, (width, 1), [0.0] * width))
    model.graph.node.append(onnx.helper.make_node("GroupQueryAttention", ["a"], ["b"], num_heads=heads))
    columns = {} if kind == "MatMul" else {"K": width}
    model.graph.node.append(onnx.helper.make_node(kind, ["b", "w"], ["c"], **columns))
    configuration, *_ = folder_checks(found, model)
    assert configuration.status == status
    if status == "failed":
        expected = f"head_size: got {size}, expected head size {2 * size} of attention in model.onnx"
        assert expected in configuration.detail


def test_folder_without_tokenizer_is_named_in_checks_and_inspect(small: Path) -> None:
    assert checks(small)[1].status == "passed"
    for name in TOKENIZER_FILES:
        (small / name).unlink()
    tokenizer = checks(small)[1]
    assert (tokenizer.status, "generates from ids alone" in tokenizer.detail) == ("not run", True)
    assert tokenizer.detail in inspect_file(small).warnings


@pytest.mark.parametrize("value", [3, None, ""])
def test_library_entry_of_wrong_type_is_refused(small: Path, value: Any) -> None:
    named(value)(small)
    with pytest.raises(BadInputError, match=r"custom_ops_library: got .*, expected the path of a library, or no entry"):
        read_genai(small)


def test_library_that_ran_is_told_from_another_one(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    *_, own = checks(small)
    assert (own.status, own.detail.endswith("the same as the one that ran here")) == ("passed", True)
    assert any(f"operator library {VERSION} for " in note for note in inspect_file(small).notes)
    with library_in(small).open("ab") as file:
        file.write(b"\0")
    *_, other = checks(small)
    other_bytes = f"with other bytes than {get_library_path()}, the library of this installation"
    assert (other.status, f"{other_bytes}, which ran: set {ENVIRONMENT_NAME} to it to run it" in other.detail) == (
        "not run",
        True,
    )
    assert inspect_file(small).notes[-1].endswith(other_bytes)
    monkeypatch.setenv(ENVIRONMENT_NAME, str(library_in(small)))
    *_, chosen = checks(small)
    assert chosen.detail == own.detail


def test_folder_without_library_or_with_that_of_others_uses_bodies(small: Path) -> None:
    bytes_changed(b"ee_version\0", b"xx_version\0")(small)
    *_, others = checks(small)
    assert (others.status, "library of others" in others.detail) == ("not run", True)
    config_changed(lambda model: model["decoder"]["session_options"].pop("custom_ops_library"))(small)
    *_, none = checks(small)
    assert (none.status, none.detail) == ("passed", "genai_config.json names none: the runtime uses portable bodies")
    assert inspect_file(small).notes[-1] == (
        "genai_config.json: custom_ops_library: none, so the runtime uses portable bodies"
    )
    model = onnx.load(small / "model.onnx", load_external_data=False)
    del model.functions[:]
    *_, bare = folder_checks(read_genai(small), model)
    assert (bare.status, "DPQEmbedding, which has no portable body" in bare.detail) == ("failed", True)


def test_dense_folder_has_no_remark(pair: Path) -> None:
    report = inspect_file(pair / "dense")
    assert not [text for text in (*report.notes, *report.warnings) if "genai_config" in text]


def test_folder_beside_pytorch_model_is_refused(pair: Path) -> None:
    from torch import nn

    with pytest.raises(BadInputError, match="beside a PyTorch model, expected the GenAI folder that compress made it"):
        workflow.validate(nn.Linear(2, 2), pair / "small")


@pytest.mark.slow
@pytest.mark.parametrize("command", ["validate", "check"])
def test_library_with_other_bytes_is_shown_in_plain_output(pair: Path, small: Path, command: str) -> None:
    with library_in(small).open("ab") as file:
        file.write(b"\0")
    options = ["--iterations", "2"] if command == "validate" else []
    done = CliRunner().invoke(main, [command, str(pair / "dense"), str(small), *options])
    assert done.exit_code == 0, done.output
    assert "with other bytes than" in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", ["validate", "check"])
def test_faults_of_folder_end_command_with_3(pair: Path, small: Path, command: str) -> None:
    LIBRARIES["missing"][0](small)
    CONFIGURATIONS["other columns"][0](small)
    options = ["--iterations", "2"] if command == "validate" else []
    done = CliRunner().invoke(main, [command, str(pair / "dense"), str(small), *options, "-q"])
    assert done.exit_code == 3, done.output
    assert "operator library of the folder: genai_config.json: custom_ops_library" in done.stderr
    assert "configuration of the folder: genai_config.json: model.decoder.hidden_size: got 17" in done.stderr
