"""The sample for React Native: the app under Node.js, its types, its package for Android, and its tokenizer in Hermes.

react_native_app.cjs runs all code of the app, with onnxruntime-node in place of onnxruntime-react-native.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from edge_embed.bundle.manifest import BundleFile
from tests.samples.next_word_bundle import TEXTS, changed_byte, rehash, write_bundle

from python.complete import Completer  # isort: skip

pytestmark = [pytest.mark.slow, pytest.mark.long]  # 700 packages of npm are installed
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
NAMES = ("browser", "node", "react_native")
READ = ["bundle.json", "golden.json", "model.onnx", "vocabulary.json"]  # files that the app reads
DARK_ERROR = "#ff8a80"
OTHER: dict[str, tuple[dict[str, object], str]] = {  # changes of a manifest, and what the app tells
    "format": ({"format_version": 2}, "got format_version 2, expected 1"),
    "target": ({"target": "tflite"}, "got target tflite, expected onnx"),
    "engine": ({"requires": {"onnxruntime": "99.1"}}, "got onnxruntime-react-native 1.30.0, expected 99.1 or newer"),
    "texts": ({"requires": {"onnxruntime_extensions": "0.15"}}, "which onnxruntime-react-native cannot run"),
    "tokenizer": ({"metadata": {}}, "got tokenizer undefined"),
}
SETTINGS = os.environ | {"CI": "1", "EXPO_OFFLINE": "1", "EXPO_NO_TELEMETRY": "1"}


def run(command: list[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)], cwd=folder, env=SETTINGS, capture_output=True, text=True, encoding="utf-8", check=False
    )


def output(command: list[str | Path], folder: Path) -> str:
    done = run(command, folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("react_native") / "bundle")


@pytest.fixture(scope="module")
def app(bundle: Path) -> Path:
    """Copy the sample to a folder that keeps its packages, and run the commands of its README after that of the demo.

    The 700 packages are installed again only when their versions change.
    """
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: apt-get install npm")
    packages = b"".join(
        (SAMPLES / "react_native" / f"{name}.json").read_bytes() for name in ("package", "package-lock")
    )
    root = ROOT / "build" / "react_native" / hashlib.sha256(packages).hexdigest()[:12]
    for name in NAMES:
        unpacked = shutil.ignore_patterns("node_modules", "assets", "android", "ios")
        shutil.copytree(SAMPLES / name, root / "samples" / name, ignore=unpacked, dirs_exist_ok=True)
    shutil.rmtree(root / "build", ignore_errors=True)
    shutil.copytree(bundle, root / "build" / "next_word" / "bundle")
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", (SAMPLES / "react_native" / "README.md").read_text(), re.M | re.S)
    make, install, pack = commands.splitlines()
    assert make == "make demo"
    if not (root / "installed").exists():
        options = "--ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error"
        for command in (f"{install} {options}", f"npm ci --prefix samples/node {options}"):
            output(["bash", "-euc", command], root)
        output(["bash", "-euc", "npm run postinstall --prefix samples/react_native"], root)
        (root / "installed").touch()
    output(["bash", "-euc", pack], root)
    return root / "samples" / "react_native"


@dataclass
class Start:
    """A start of the app: files in its package, its own folder, and texts typed into it."""

    assets: Path
    documents: Path
    texts: list[str]


def packed(bundle: Path, folder: Path) -> Path:
    """Copy a bundle as copy_bundle.mjs does."""
    folder.mkdir(parents=True)
    for path in bundle.iterdir():
        shutil.copy(path, folder / f"{path.name}.bin")
    return folder


def change(path: Path, changes: dict[str, object]) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def with_other_golden(assets: Path, value: float | str) -> Path:
    """Change a golden value, and give the manifest the new hash."""
    golden, manifest = assets / "golden.json.bin", assets / "bundle.json.bin"
    content = json.loads(golden.read_text())
    values = content["outputs"][0]["values"]
    values[5] = value if isinstance(value, str) else values[5] + value
    golden.write_text(json.dumps(content))
    found = BundleFile.of(golden)
    files = json.loads(manifest.read_text())["files"]
    files["golden.json"] = {"bytes": found.bytes, "sha256": found.sha256}
    change(manifest, {"files": files})
    return assets


def starts_of(bundle: Path, folder: Path) -> dict[str, Start]:
    """Every start that a test below looks at; those named ``later`` and ``another`` are of one app."""

    def assets(name: str) -> Path:
        return packed(bundle, folder / name / "my assets")

    made = {"right": Start(assets("right"), folder / "documents", TEXTS)}
    made["later"] = Start(assets("later"), folder / "documents", [])
    changed_byte(made["later"].assets / "golden.json.bin")
    made["another"] = Start(assets("another"), folder / "documents", [])
    changed_byte(made["another"].assets / "golden.json.bin")
    change(made["another"].assets / "bundle.json.bin", {"name": "another"})
    for name in READ:
        made[name] = Start(assets(name), folder / name, [])
        changed_byte(made[name].assets / f"{name}.bin")
    for name, (changes, _) in OTHER.items():
        made[name] = Start(assets(name), folder / name, [])
        change(made[name].assets / "bundle.json.bin", changes)
    for value in (0.01, "NaN"):
        made[f"golden {value}"] = Start(with_other_golden(assets(f"golden {value}"), value), folder / str(value), [])
    made["missing"] = Start(assets("missing"), folder / "missing", [])
    (made["missing"].assets / "vocabulary.json.bin").unlink()
    for start in made.values():
        start.documents.mkdir(exist_ok=True)
    return made


@pytest.fixture(scope="module")
def starts(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Start]:
    return starts_of(bundle, tmp_path_factory.mktemp("phone"))


@pytest.fixture(scope="module")
def shown(app: Path, starts: dict[str, Start], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the app shows in each start, all in one process."""
    runs = tmp_path_factory.mktemp("runs") / "runs.json"
    runs.write_text(
        json.dumps(
            [{"assets": str(s.assets), "documents": str(s.documents), "texts": s.texts} for s in starts.values()]
        )
    )
    engine = app.parent / "node" / "node_modules" / "onnxruntime-node"
    found = output(["node", Path(__file__).with_name("react_native_app.cjs"), app, engine, runs], app)
    return dict(zip(starts, json.loads(found), strict=True))


def buttons(suggestions: list[tuple[str, float]]) -> list[str]:
    return [f"{word} {round(100 * chance)} %" for word, chance in suggestions]


def test_app_suggests_what_python_suggests(shown: dict[str, Any], bundle: Path) -> None:
    right = shown["right"]
    typed = [right["first"], *right["typed"]]
    texts = ["Return a list of", *TEXTS]
    assert [each["text"] for each in typed] == texts
    for each, expected in zip(typed, Completer(bundle).suggest(texts), strict=True):
        assert each["suggestions"] == buttons(expected)
        assert each["labels"] == [f"Add the word {word}" for word, _ in expected]
        assert each["state"].endswith("Golden outputs agree.")


def test_touched_suggestion_is_added(shown: dict[str, Any], bundle: Path) -> None:
    completer = Completer(bundle)
    text = f"{TEXTS[-1]} {completer.suggest(TEXTS)[-1][0][0]}"
    touched = shown["right"]["touched"]
    assert touched["text"] == text
    assert touched["suggestions"] == buttons(completer.suggest([text])[0])


def test_model_is_opened_by_its_path(shown: dict[str, Any], starts: dict[str, Start]) -> None:
    assert shown["right"]["opened"] == [str(starts["right"].assets / "model.onnx.bin")]


def refusal(shown: dict[str, Any], starts: dict[str, Start], name: str) -> str:
    first = shown[name]["first"]
    assert (first["suggestions"], first["color"]) == ([], DARK_ERROR)
    assert [*starts[name].documents.glob("checked_bundle")] == []  # the next start compares again
    state: str = first["state"]
    return state


@pytest.mark.parametrize("name", READ)
def test_app_names_the_changed_file(shown: dict[str, Any], starts: dict[str, Start], name: str) -> None:
    assert refusal(shown, starts, name).startswith(f"{name}: ")


@pytest.mark.parametrize("name", OTHER)
def test_app_refuses_other_bundles(shown: dict[str, Any], starts: dict[str, Start], name: str) -> None:
    assert OTHER[name][1] in refusal(shown, starts, name)


@pytest.mark.parametrize("value", [0.01, "NaN"])
def test_app_finds_other_outputs(shown: dict[str, Any], starts: dict[str, Start], value: float | str) -> None:
    message = refusal(shown, starts, f"golden {value}")
    assert message.startswith("output output: got ")
    assert "at position 5" in message


def test_app_names_the_missing_file(shown: dict[str, Any], starts: dict[str, Start]) -> None:
    assert refusal(shown, starts, "missing").startswith("vocabulary.json: is missing in this app: npm run bundle")


def test_passed_check_is_not_repeated_for_the_same_bundle(shown: dict[str, Any]) -> None:
    assert shown["later"]["first"]["suggestions"] == shown["right"]["first"]["suggestions"]
    assert shown["another"]["first"]["state"].startswith("golden.json: got SHA-256")


def test_page_pins_the_engine_of_the_package(app: Path) -> None:
    build = app / "node_modules" / "onnxruntime-react-native" / "android" / "build.gradle"
    dependency = "com.microsoft.onnxruntime:onnxruntime-android:"
    assert f'"{dependency}latest.integration@aar"' in build.read_text()  # else the page need not say how to pin it
    page = (ROOT / "docs" / "deployment" / "react-native.md").read_text()
    packages = json.loads((app / "package.json").read_text())["dependencies"]
    assert re.findall(rf'force "{dependency}(.+)"', page) == [packages["onnxruntime-react-native"]]


def test_types_are_those_of_the_packages(app: Path) -> None:
    output(["npx", "tsc"], app)


def test_metro_packs_the_app_and_hermes_compiles_it(app: Path, bundle: Path, tmp_path: Path) -> None:
    output(["npx", "expo", "export", "--platform", "android", "--output-dir", tmp_path], app)
    (code,) = tmp_path.rglob("*.hbc")
    assert code.read_bytes()[:8] == bytes.fromhex("c61fbc03c103191f")  # of Hermes bytecode
    files = {hashlib.sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "assets").iterdir()}
    assert files == {BundleFile.of(path).sha256 for path in bundle.iterdir()}


@pytest.mark.parametrize("platform", ["android", "ios"])
def test_engine_is_linked(app: Path, platform: str) -> None:
    command: list[str | Path] = ["npx", "expo-modules-autolinking", "react-native-config", "--json"]
    config = json.loads(output([*command, "--platform", platform], app))
    assert "onnxruntime-react-native" in config["dependencies"]


def members(ranges: str) -> set[int]:
    """Return the code points of a class that Hermes lists, such as ``0x1c- 0-9A-Z_a-z0xaa0xb2-0xb3``."""
    item = r"(0x(?:(?!0x)[0-9a-f])+|.)"
    found: set[int] = set()
    for match in re.finditer(f"{item}(?:-{item})?", ranges):
        begin, end = (int(text, 16) if len(text) > 1 else ord(text) for text in (match[1], match[2] or match[1]))
        found.update(range(begin, end + 1))
    return found


def test_hermes_reads_the_tokenizer_as_python(app: Path, tmp_path: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("the compiler of Hermes has another path: run this test under Linux")
    module = json.dumps((app.parent / "browser" / "page" / "next_word.js").as_uri())
    script = f"import({module}).then(({{ TOKEN }}) => console.log(`print(${{TOKEN}});`));"
    (tmp_path / "token.js").write_text(output(["node", "-e", script], app))
    hermes = app / "node_modules" / "react-native" / "sdks" / "hermesc" / "linux64-bin" / "hermesc"
    listing = output([hermes, "-dump-bytecode", tmp_path / "token.js"], app)
    letters, joints, again, others = re.findall(r"U16Bracket: \[(.*)\]$", listing, re.M)
    assert letters == again
    assert joints == "'--."  # the sign ' and those from - to .
    word, other = members(letters), members(others.removeprefix("^"))
    assert others.startswith("^")
    known = [code for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) not in {"Cn", "Cs"}]
    assert [hex(code) for code in known if (code in word) != bool(re.match(r"\w", chr(code)))] == []
    assert [hex(code) for code in known if (code not in other) != bool(re.match(r"[^\w\s]", chr(code)))] == []


def test_bundle_is_not_copied_unless_the_app_can_open_it(app: Path, bundle: Path, tmp_path: Path) -> None:
    outside = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    (outside / "model.onnx.data").touch()
    rehash(outside)
    incomplete = Path(shutil.copytree(bundle, tmp_path / "incomplete"))
    (incomplete / "model.onnx").unlink()
    damaged = Path(shutil.copytree(bundle, tmp_path / "damaged"))
    change(damaged / "bundle.json", {"files": [1]})
    before = sorted(path.name for path in (app / "assets" / "bundle").iterdir())
    commands: list[tuple[list[str | Path], str]] = [
        ([], "got no folder, expected: node copy_bundle.mjs BUNDLE"),
        ([tmp_path], "got no bundle.json, expected a folder of edge-embed export --bundle"),
        ([incomplete], "model.onnx: got no bytes, expected"),
        ([damaged], "Error: bundle.json: is damaged: files: got [1], expected an object: copy or download"),
        ([app / "assets" / "bundle"], "is the folder of the copy, expected another one"),
        ([outside], "got model.onnx.data, expected all weights in the model: export with --external-data never"),
    ]
    for arguments, message in commands:
        done = run(["node", "copy_bundle.mjs", *arguments], app)
        assert (done.returncode, message in done.stderr) == (1, True), done.stderr
    assert sorted(path.name for path in (app / "assets" / "bundle").iterdir()) == before
