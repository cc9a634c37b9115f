"""The Android sample, compiled against stubs and run on the JVM: suggestions as in Python, and changed bundles."""

import json
import re
import shutil
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import helper

import edge_embed
from edge_embed.packages.android import compile_helper
from edge_embed.runtime.library import get_library_path
from edge_embed.validation.tokenizer_texts import HARD
from tests.samples.android_app import MAIN, SAMPLE, App, compile_app, kotlinc, referenced, resources, started, strings
from tests.samples.icu import find_all
from tests.samples.next_word_bundle import TEXTS, changed_byte, edit, rehash, write_bundle, write_golden

from python.complete import Completer, Suggestions  # isort: skip

pytestmark = pytest.mark.slow
FILES = ["NOTICE", "README.md", "bundle.json", "golden.json", "model.onnx", "vocabulary.json"]


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("android") / "bundle")


@pytest.fixture
def bundle(shipped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(shipped, tmp_path / "assets" / "bundle"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return compile_app(tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def app(compiled: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Start the app with the operator library of this machine and the helper class of the package for Android."""
    helper_class = tmp_path_factory.mktemp("aar") / "classes.jar"
    compile_helper(helper_class)
    with started([*compiled, helper_class], get_library_path().parent) as running:
        yield running


@pytest.fixture(scope="module")
def texts() -> list[str]:
    random = np.random.default_rng(0)
    # The JVM and ICU may know letters of another Unicode version than Python.
    known = [chr(at) for at in range(32, 0x2FF0) if unicodedata.ucd_3_2_0.category(chr(at)) != "Cn"]
    made = ["".join(random.choice(known, 30)) + " word1 caf\u00e93" for _ in range(300)]
    spaces = [f"a{chr(at)}b" for at in range(0x3100) if chr(at).isspace()]
    return [*TEXTS, *HARD, *made, *spaces]


def assert_same(got: list[list[Any]], expected: list[Suggestions]) -> None:
    for found, suggestions in zip(got, expected, strict=True):
        assert [word for word, _ in found] == [word for word, _ in suggestions]
        np.testing.assert_allclose([chance for _, chance in found], [chance for _, chance in suggestions], rtol=1e-4)


def test_app_suggests_what_python_suggests(app: App, bundle: Path) -> None:
    answer = app.ask("open", folder=bundle, suggest=TEXTS)
    assert_same(answer["suggestions"], Completer(bundle).suggest(TEXTS))


def test_ids_are_those_of_python(app: App, bundle: Path, texts: list[str]) -> None:
    got, completer = app.ask("open", folder=bundle, encode=texts)["ids"], Completer(bundle)
    different = [text for text, ids in zip(texts, got, strict=True) if ids != completer.encode(text)]
    assert different == []


def test_pattern_finds_in_icu_what_python_finds(app: App, bundle: Path, texts: list[str]) -> None:
    """Regular expressions of Android are those of ICU, and have other classes than those of the JVM."""
    python = re.compile(json.loads((bundle / "bundle.json").read_text())["metadata"]["tokenizer"])
    found = find_all(app.ask("token")["token"], texts)
    different = [text for text, words in zip(texts, found, strict=True) if words != python.findall(text)]
    assert different == []


@pytest.mark.parametrize("name", FILES)
def test_changed_file_is_named(app: App, bundle: Path, tmp_path: Path, name: str) -> None:
    changed_byte(bundle / name)
    answer = app.ask("install", assets=bundle, folder=tmp_path / "files")
    assert answer["error"].startswith(f"{name}: ")


@pytest.mark.parametrize("name", FILES)
def test_shorter_or_missing_file_is_named(app: App, bundle: Path, tmp_path: Path, name: str) -> None:
    (bundle / name).write_bytes((bundle / name).read_bytes()[:-3])
    assert app.ask("install", assets=bundle, folder=tmp_path / "files")["error"].startswith(f"{name}: ")
    (bundle / name).unlink()
    answer = app.ask("install", assets=bundle, folder=tmp_path / "files")
    assert answer["error"].startswith(f"{name}: cannot be copied: ")


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format_version": 1, "target": "onnx"}', b'{"target": "caf\xe9"}'])
def test_damaged_manifest_is_named(app: App, bundle: Path, content: bytes) -> None:
    (bundle / "bundle.json").write_bytes(content)
    assert app.ask("open", folder=bundle)["error"].startswith("bundle.json: is damaged: ")


SUM = {"bytes": 1, "sha256": ""}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": "1"}, 'format_version: got "1", expected a whole number'),
        ({"model": 1}, "model: got 1, expected a text"),
        ({"requires": None}, "requires: got null, expected an object"),
        ({"requires": {"onnxruntime": 1.18}}, "requires: onnxruntime: got 1.18, expected a text"),
        ({"metadata": []}, "metadata: got [], expected an object"),
        ({"files": [1, 2]}, "files: got [1,2], expected an object"),
        ({"files": {"m": SUM | {"bytes": 5.9}}}, "files: m: bytes: got 5.9, expected a whole number"),
        ({"files": {"m": SUM | {"bytes": "5"}}}, 'files: m: bytes: got "5", expected a whole number'),
        ({"files": {"m": SUM | {"sha256": 5}}}, "files: m: sha256: got 5, expected a text"),
    ],
)
def test_value_of_a_wrong_type_in_the_manifest_is_named(
    app: App, bundle: Path, changed: dict[str, object], message: str
) -> None:
    edit(bundle, **changed)
    expected = f"bundle.json: is damaged: {message}: copy or download the bundle again"
    assert app.ask("open", folder=bundle)["error"] == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"shape": None}, "shape: got null, expected a list"),
        ({"shape": [2.9, 2]}, "shape: 0: got 2.9, expected a whole number"),
        ({"values": [[1], 2, 3, 4]}, "values: 0: got [1], expected a number"),
        ({"values": ["1.5", 2, 3, 4]}, 'values: 0: got "1.5", expected a number'),
        ({"positions": [0.5, 1, 2, 3]}, "positions: 0: got 0.5, expected a whole number"),
        ({"atol": 1e300}, "atol: got 1.0E300, expected 0 <= number < 1e30"),
        ({"rtol": -1}, "rtol: got -1, expected 0 <= number < 1e30"),
        ({"rtol": "1"}, 'rtol: got "1", expected 0 <= number < 1e30'),
    ],
)
def test_value_of_a_wrong_type_in_the_golden_pair_is_named(
    app: App, tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    golden = write_types(tmp_path / "types")
    golden["outputs"][0].update(changed)
    write_golden(tmp_path / "types", golden)
    expected = f"golden.json: is damaged: outputs: 0: {message}: copy or download the bundle again"
    assert app.ask("open", folder=tmp_path / "types")["error"] == expected


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"model": "other"}, "bundle.json: got no hash of other: copy or download the bundle again"),
        ({"format_version": 2}, "bundle.json: got format_version 2, expected 1: update this app"),
        ({"target": "tflite"}, "bundle.json: got target tflite, expected onnx: export it again"),
        ({"requires": {"onnxruntime": "99.1"}}, "expected 99.1 or newer: update it"),
        ({"requires": {"onnxruntime_extensions": "0.15"}}, "bundle.json: its model contains a tokenizer"),
        ({"metadata": {}}, "bundle.json: got tokenizer null"),
        ({"files": {"../model.onnx": {"bytes": 1, "sha256": ""}}}, "got a file ../model.onnx, expected a name"),
    ],
)
def test_app_refuses_another_bundle(app: App, bundle: Path, changed: dict[str, object], message: str) -> None:
    edit(bundle, **changed)
    # NextWord refuses another tokenizer after the bundle was opened.
    assert message in app.ask("open", folder=bundle, encode=[])["error"]


@pytest.mark.parametrize(
    ("got", "least", "refused"),
    [("1.9.0", "1.18", True), ("1.18", "1.18.1", True), ("1.18.0-rc2+cpu", "1.18", False), ("2.0", "1.18", False)],
)
def test_versions_are_compared_by_numbers(app: App, bundle: Path, got: str, least: str, refused: bool) -> None:
    edit(bundle, requires={"onnxruntime": least})
    answer = app.ask("open", onnxruntime=got, folder=bundle)
    assert answer.get("error") == (f"got onnxruntime {got}, expected {least} or newer: update it" if refused else None)


@pytest.mark.parametrize("error", [0.01, "NaN", "Infinity"])
def test_golden_pair_finds_other_values(app: App, bundle: Path, error: float | str) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    values = golden["outputs"][0]["values"]
    values[5] = error if isinstance(error, str) else values[5] + error
    write_golden(bundle, golden)
    message = app.ask("open", folder=bundle)["error"]
    assert message.startswith("output output: got ")
    assert " at position 5, expected " in message
    assert message.endswith(": this engine computes something else than the trained model")


def test_golden_pair_without_values_is_refused(app: App, bundle: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden["outputs"][0]["values"] = golden["outputs"][0]["values"][:3]
    write_golden(bundle, golden)
    assert "got 3 golden values, expected" in app.ask("open", folder=bundle)["error"]
    golden["outputs"][0]["values"] = []
    write_golden(bundle, golden)
    assert app.ask("open", folder=bundle)["error"] == "golden.json: got no values, expected outputs to compare"


def test_vocabulary_that_is_too_short_is_named(app: App, bundle: Path) -> None:
    (bundle / "vocabulary.json").write_text('["a", "b"]')
    rehash(bundle)
    assert app.ask("open", folder=bundle, suggest=TEXTS)["error"].startswith("vocabulary.json: got 2 words, expected ")


DTYPES: dict[str, list[Any]] = {
    "float32": [0.5, "NaN", "-Infinity", 3],
    "float64": [1e300, "NaN", "Infinity", -0.0],
    "int8": [-128, 127, 0, -1],
    "int16": [-32768, 32767, 0, -1],
    "int32": [-(1 << 31), (1 << 31) - 1, 0, 1],
    "int64": [(1 << 53) + 1, -(1 << 63), (1 << 63) - 1, 0],  # doubles lack the first
    "uint8": [200, 255, 0, 1],
    "bool": [True, False, True, False],
}
CASTS: dict[str, tuple[str, list[Any]]] = {
    "float16": ("float32", [0.5, "NaN", "-Infinity", 3]),
    "uint16": ("int32", [0, 65535, 0, 1]),
    "uint32": ("int32", [1 << 31, (1 << 31) - 1, 0, 1]),
}


def write_types(folder: Path) -> dict[str, Any]:
    """Write a bundle whose outputs have all types, and return its golden pair."""
    values = DTYPES | {name: of for name, (_, of) in CASTS.items()}
    codes = {name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in values}
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in DTYPES]
    nodes += [
        helper.make_node("Cast", [source], [f"{name}_out"], to=codes[name]) for name, (source, _) in CASTS.items()
    ]
    inputs = [helper.make_tensor_value_info(name, codes[name], [2, 2]) for name in DTYPES]
    outputs = [helper.make_tensor_value_info(f"{name}_out", codes[name], [2, 2]) for name in values]
    graph = helper.make_graph(nodes, "types", inputs, outputs)
    folder.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8), folder / "model.onnx"
    )
    (folder / "bundle.json").write_text(json.dumps({"format_version": 1, "target": "onnx", "model": "model.onnx"}))
    golden = {
        side: [
            {"name": name + suffix, "dtype": name, "shape": [2, 2], "values": [*of]}
            for name, of in values.items()
            if suffix or name in DTYPES
        ]
        for side, suffix in (("inputs", ""), ("outputs", "_out"))
    }
    write_golden(folder, golden)
    return golden


def other_than(value: bool | float | str) -> bool | float:
    if isinstance(value, bool):
        return not value
    return (
        77 if isinstance(value, str) else value - 1 if abs(value) < 1e300 and value > 0 else value / 2 if value else 1
    )


def test_values_of_all_types_are_compared(app: App, tmp_path: Path) -> None:
    golden = write_types(tmp_path / "types")
    assert "error" not in app.ask("open", folder=tmp_path / "types")
    for output in golden["outputs"]:
        for at, value in enumerate(output["values"]):
            output["values"][at] = other_than(value)
            write_golden(tmp_path / "types", golden)
            error = app.ask("open", folder=tmp_path / "types")["error"]
            assert error.startswith(f"output {output['name']}: got ")
            assert f" at position {at}, expected " in error
            output["values"][at] = value


def test_tolerances_and_positions_are_those_of_the_golden_pair(app: App, tmp_path: Path) -> None:
    folder = tmp_path / "types"
    golden = write_types(folder)
    output = golden["outputs"][0]
    assert output["name"] == "float32_out"
    for tolerances, value, agrees in (
        ({"atol": 0.25}, 3.25, True),
        ({"atol": 0.25}, 3.26, False),
        ({"rtol": 0.5}, 2, True),
        ({"rtol": 0.5}, 1.99, False),
    ):
        golden["outputs"] = [output | {"positions": [1, 3], "values": ["NaN", value], **tolerances}]
        write_golden(folder, golden)
        error = app.ask("open", folder=folder).get("error", "")
        assert (error == "") == agrees
        assert agrees or f"got 3.0 at position 3, expected {value}" in error


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"name": "other"}, "output other: got none"),
        ({"positions": [9], "values": ["NaN"]}, "got 4 values, expected one at position 9: "),
        ({"shape": [4]}, "output float32_out: got float32 [2, 2], expected float32 [4]"),
        ({"dtype": "float64"}, "output float32_out: got float32 [2, 2], expected float64 [2, 2]"),
    ],
)
def test_golden_pair_names_another_output(app: App, tmp_path: Path, changed: dict[str, object], message: str) -> None:
    golden = write_types(tmp_path / "types")
    golden["outputs"][0].update(changed)
    write_golden(tmp_path / "types", golden)
    assert message in app.ask("open", folder=tmp_path / "types")["error"]


def test_input_of_unknown_type_is_named(app: App, tmp_path: Path) -> None:
    golden = write_types(tmp_path / "types")
    golden["inputs"][0]["dtype"] = "uint64"
    write_golden(tmp_path / "types", golden)
    error = app.ask("open", folder=tmp_path / "types")["error"]
    assert error.startswith("golden.json: input float32: got uint64, expected one of float32, float64, int8, ")


def test_library_of_the_package_is_found_and_runs_the_model(app: App, bundle: Path) -> None:
    assert app.ask("library")["version"] == edge_embed.__version__
    answer = app.ask("open", folder=bundle, library="found", suggest=TEXTS)
    assert (answer["registered"], answer.get("notice")) == ("libedge_embed_ops.so", None)
    assert_same(answer["suggestions"], Completer(bundle).suggest(TEXTS))


def test_older_library_is_left_out_and_the_version_is_named(app: App, bundle: Path) -> None:
    answer = app.ask("open", folder=bundle, library="0.0.9", suggest=TEXTS)
    least = json.loads((bundle / "bundle.json").read_text())["requires"]["edge_embed_ops"]
    assert answer["notice"].startswith(f"got edge_embed_ops 0.0.9, expected {least} or newer: ")
    assert "registered" not in answer
    assert_same(answer["suggestions"], Completer(bundle).suggest(TEXTS))


def test_error_of_the_library_is_shown_and_nothing_stays_open(app: App, bundle: Path) -> None:
    assert app.ask("open", folder=bundle, library="99")["error"] == "a library of version 99 was called"


def test_app_without_library_finds_none(compiled: list[Path]) -> None:
    with started(compiled) as alone:
        assert "version" not in alone.ask("library")


class TestInstalled:
    """The copy of the bundle, and the check that is remembered."""

    def test_check_is_remembered(self, app: App, bundle: Path, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        first = app.ask("install", assets=bundle, folder=folder, suggest=TEXTS)
        assert sorted(first["read"]) == FILES
        changed_byte(folder / "golden.json")  # not read again
        later = app.ask("install", assets=bundle, folder=folder, suggest=TEXTS)
        assert later["read"] == ["bundle.json"]
        assert later["suggestions"] == first["suggestions"]

    def test_failed_check_is_not_remembered(self, app: App, bundle: Path, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        content = (bundle / "model.onnx").read_bytes()
        changed_byte(bundle / "model.onnx")
        for _ in range(2):
            assert "model.onnx: got SHA-256" in app.ask("install", assets=bundle, folder=folder)["error"]
        (bundle / "model.onnx").write_bytes(content)
        assert "error" not in app.ask("install", assets=bundle, folder=folder)

    @pytest.mark.parametrize("changed", [{"onnxruntime": "99.0"}, {"library": "0.0.9"}])
    def test_check_is_repeated_in_other_versions(
        self, app: App, bundle: Path, tmp_path: Path, changed: dict[str, str]
    ) -> None:
        folder = tmp_path / "files"
        app.ask("install", assets=bundle, folder=folder)
        changed_byte(folder / "model.onnx")
        answer = app.ask("install", assets=bundle, folder=folder, **changed)
        assert sorted(answer["read"]) == FILES
        assert "error" not in answer

    def test_bundle_of_a_newer_app_replaces_the_copy(self, app: App, bundle: Path, tmp_path: Path) -> None:
        folder = tmp_path / "files"
        app.ask("install", assets=bundle, folder=folder)
        newer = write_bundle(tmp_path / "newer", seed=1)
        (newer / "NOTICE").unlink()
        rehash(newer)
        answer = app.ask("install", assets=newer, folder=folder, suggest=TEXTS)
        assert_same(answer["suggestions"], Completer(newer).suggest(TEXTS))
        assert not (folder / "NOTICE").exists()

    def test_copy_that_cannot_be_opened_is_made_anew_at_the_next_start(
        self, app: App, bundle: Path, tmp_path: Path
    ) -> None:
        folder = tmp_path / "files"
        app.ask("install", assets=bundle, folder=folder)
        (folder / "model.onnx").write_bytes(b"")
        assert "error" in app.ask("install", assets=bundle, folder=folder)
        answer = app.ask("install", assets=bundle, folder=folder)
        assert "error" not in answer
        assert sorted(answer["read"]) == FILES


class TestScreen:
    def test_screen_shows_suggestions_and_a_tap_adds_the_word(self, app: App, bundle: Path, tmp_path: Path) -> None:
        screens = app.ask("screens", assets=bundle.parent, folder=tmp_path, type="Return a list of")["screens"]
        completer = Completer(bundle)
        word = completer.suggest(["Return a list of"])[0][0][0]
        assert [screen["text"] for screen in screens] == ["", "Return a list of", f"Return a list of {word}"]
        for screen in screens:
            (expected,) = completer.suggest([screen["text"]])
            assert screen["suggestions"] == [f"{word} {round(100 * chance)} %" for word, chance in expected]
            assert re.fullmatch(r"Computed in \d+ ms\. Golden outputs agree\.", screen["state"])

    def test_screen_shows_the_changed_file(self, app: App, bundle: Path, tmp_path: Path) -> None:
        changed_byte(bundle / "vocabulary.json")
        for screen in app.ask("screens", assets=bundle.parent, folder=tmp_path, type="a")["screens"]:
            assert screen["state"].startswith("vocabulary.json: got SHA-256 ")
            assert screen["suggestions"] == []

    def test_screen_shows_the_version_that_the_library_needs(self, app: App, bundle: Path, tmp_path: Path) -> None:
        edit(bundle, requires={"edge_embed_ops": "99.1"})
        (screen, *_) = app.ask("screens", assets=bundle.parent, folder=tmp_path, type="a")["screens"]
        assert len(screen["suggestions"]) == 3
        assert "expected 99.1 or newer" in screen["state"]


def test_resources_and_classes_that_xml_names_exist() -> None:
    assert referenced("string") == strings().keys() - {"suggestion", "computed"}
    styles = ElementTree.parse(MAIN / "res" / "values" / "themes.xml").getroot().iter("style")
    assert referenced("style") == {style.attrib["name"] for style in styles}
    manifest = ElementTree.parse(MAIN / "AndroidManifest.xml")
    names = [element.get("{http://schemas.android.com/apk/res/android}name", "") for element in manifest.iter()]
    classes = [name.removeprefix(".") for name in names if name.startswith(".")]
    assert len(classes) == 2
    assert all((MAIN / "kotlin" / "edgeembed" / "nextword" / f"{name}.kt").is_file() for name in classes)
    assert len(set(resources()["id"])) == len(resources()["id"])


def test_page_scrolls_and_keeps_its_margins_beside_the_bars_of_the_system() -> None:
    android = "{http://schemas.android.com/apk/res/android}"
    root = ElementTree.parse(MAIN / "res" / "layout" / "activity_main.xml").getroot()
    assert (root.tag, len(root)) == ("ScrollView", 1)
    fitting = [element for element in root.iter() if f"{android}fitsSystemWindows" in element.attrib]
    assert fitting == [root]
    assert f"{android}padding" not in root.attrib  # fitsSystemWindows replaces it
    assert f"{android}padding" in root[0].attrib


def test_rules_keep_the_classes_of_the_native_code() -> None:
    build = (SAMPLE / "app" / "build.gradle.kts").read_text()
    (rules,) = re.findall(r'"(\S+\.pro)"', build)
    assert "-keep class ai.onnxruntime.** { *; }" in (SAMPLE / "app" / rules).read_text().splitlines()


def test_gradle_of_the_wrapper_is_that_of_the_readme() -> None:
    wrapper = (SAMPLE / "gradle" / "wrapper" / "gradle-wrapper.properties").read_text()
    (version,) = re.findall(r"^distributionUrl=.*/gradle-([\d.]+)-bin\.zip$", wrapper, re.M)
    assert {*re.findall(r"Gradle (\d[\d.]*\d)", (SAMPLE / "README.md").read_text())} == {version}


def test_gradle_files_have_no_syntax_errors(tmp_path: Path) -> None:
    """Their names are Gradle's, so those errors are expected."""
    files = sorted(SAMPLE.rglob("*.gradle.kts"))
    assert len(files) == 3
    copies = [shutil.copy(path, tmp_path / f"{at}.gradle.kts") for at, path in enumerate(files)]
    errors = re.findall(r"error: .*", kotlinc([Path(copy) for copy in copies], tmp_path / "classes").stderr)
    assert any("unresolved reference: android" in error for error in errors)
    assert [error for error in errors if re.match("error: (expecting|unexpected)", error)] == []


def test_gradle_copies_the_bundle_of_the_demo_and_takes_phones_of_the_package() -> None:
    from edge_embed.packages.android import _MANIFEST
    from edge_embed.packages.platforms import PLATFORMS

    text = (SAMPLE / "app" / "build.gradle.kts").read_text()
    (bundle,) = re.findall(r'projectDirectory\.dir\("(.+)"\)', text)
    assert (SAMPLE / bundle).resolve() == SAMPLE.parents[1] / "build" / "next_word" / "bundle"
    assert re.findall(r"minSdk = (\d+)", text) == re.findall(r'minSdkVersion="(\d+)"', _MANIFEST)
    (abis,) = re.findall(r"abiFilters \+= listOf\((.+)\)", text)
    assert sorted(re.findall(r'"(.+?)"', abis)) == sorted(build.abi for build in PLATFORMS["android"].builds)


def test_readme_lists_every_source() -> None:
    text = (SAMPLE / "README.md").read_text(encoding="utf-8")
    assert set(re.findall(r"`(\w+\.kt)`", text)) == {path.name for path in MAIN.rglob("*.kt")}
