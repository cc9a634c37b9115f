"""The sample for iOS, which no compiler of Swift has read here: its syntax, and what it shares with the bundle.

Syntax trees give the JSON keys, texts of errors, regular expressions and names of the sources. The regular expressions
run in ICU, the engine of NSRegularExpression.
"""

import json
import re
import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from edge_embed.bundle.golden import _MOST_TOLERANCE, GoldenTensor
from edge_embed.bundle.manifest import EXTENSIONS, FORMAT_VERSION, LIBRARY, MANIFEST, ONNXRUNTIME
from edge_embed.validation.tokenizer_texts import HARD
from tests.samples.icu import find_all
from tests.samples.next_word_bundle import TEXTS, write_bundle

from python.complete import Completer  # isort: skip

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "ios"
PACKAGE = {path.name: path for path in sorted((SAMPLE / "Sources" / "NextWord").glob("*.swift"))}
APP = {path.name: path for path in sorted((SAMPLE / "App").glob("*.swift"))}
SOURCES = {"Package.swift": SAMPLE / "Package.swift", **PACKAGE, **APP}
MODULES = {  # of names that the sources use
    r"ORT\w+": "OnnxRuntimeBindings",
    "SHA256": "CryptoKit",
    r"URL|Data|FileHandle|UserDefaults|NS\w+|localizedDescription|autoreleasepool": "Foundation",
    "ObservableObject|Published": "Combine",
    "View|StateObject": "SwiftUI",
    "Suggestion": "NextWord",
}
ALL = ["".join(map(chr, range(at, at + 256))) for at in range(0, 0x20000, 256)]  # all characters in use, nearly


@pytest.fixture(scope="module")
def parser() -> "Parser":
    remedy = "tree-sitter and tree-sitter-swift are missing: pip install tree-sitter tree-sitter-swift"
    tree_sitter = pytest.importorskip("tree_sitter", reason=remedy)
    grammar = pytest.importorskip("tree_sitter_swift", reason=remedy)
    made: Parser = tree_sitter.Parser(tree_sitter.Language(grammar.language()))
    return made


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("ios") / "bundle")


@pytest.fixture(scope="module")
def manifest(bundle: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((bundle / MANIFEST).read_text(encoding="utf-8"))
    return content


@pytest.fixture(scope="module")
def expressions(parser: "Parser") -> dict[str, str]:
    """Return the raw strings of Vocabulary.swift by the name of their constant, with the constants in them."""
    found: dict[str, str] = {}
    root = parser.parse(SOURCES["Vocabulary.swift"].read_bytes()).root_node
    for constant in nodes(root, "property_declaration"):
        for string in nodes(constant, "raw_string_literal"):
            name = text_of(nodes(constant, "pattern")[0])
            parts = re.split(r"\\#\((\w+)\)", text_of(string)[2:-2])  # text, name of a constant, text, ...
            found[name] = "".join(found[part] if at % 2 else part for at, part in enumerate(parts))
    return found


def walk(node: "Node") -> Iterator["Node"]:
    yield node
    for child in node.children:
        yield from walk(child)


def nodes(node: "Node", *types: str) -> list["Node"]:
    return [each for each in walk(node) if each.type in types]


def text_of(node: "Node") -> str:
    assert node.text is not None
    return node.text.decode()


def faults(parser: "Parser", source: bytes) -> list[str]:
    """Return the places that are no Swift."""
    found = (node for node in walk(parser.parse(source).root_node) if node.is_error or node.is_missing)
    return [f"line {node.start_point.row + 1}: {node.type}" for node in found]


def known(text: str) -> str:
    """Return a text without characters that Python's version of Unicode lacks."""
    return "".join(each for each in text if unicodedata.category(each) not in ("Cn", "Cs"))


@pytest.mark.parametrize("name", SOURCES)
def test_source_is_swift(parser: "Parser", name: str) -> None:
    assert faults(parser, SOURCES[name].read_bytes()) == []


@pytest.mark.parametrize("name", SOURCES)
def test_broken_source_is_found(parser: "Parser", name: str) -> None:
    content = SOURCES[name].read_bytes()
    for sign in (b")", b'"', b"}"):
        at = content.rfind(sign)
        assert at < 0 or faults(parser, content[:at] + content[at + 1 :]), sign


@pytest.mark.parametrize("name", SOURCES)
def test_source_imports_the_modules_of_its_names(parser: "Parser", name: str) -> None:
    root = parser.parse(SOURCES[name].read_bytes()).root_node
    imported = {text_of(node).split()[-1] for node in nodes(root, "import_declaration")}
    used = {text_of(node) for node in nodes(root, "simple_identifier", "type_identifier")}
    needed = {module for names, module in MODULES.items() if any(re.fullmatch(names, each) for each in used)}
    if name in PACKAGE:
        needed.discard("NextWord")  # the module itself
    assert needed <= imported | ({"Combine", "Foundation"} if "SwiftUI" in imported else set())


def declared(parser: "Parser", paths: dict[str, Path], needed: str = "") -> set[str]:
    """Return the names of types and of their members; those with a modifier, if one is given."""
    found = set()
    for path in paths.values():
        root = parser.parse(path.read_bytes()).root_node
        for node in nodes(root, "class_declaration", "function_declaration", "property_declaration"):
            assert node.parent is not None
            if node.parent.type in ("source_file", "class_body", "enum_class_body"):
                modifiers = [text_of(each) for each in node.children if each.type == "modifiers"]
                names = [text_of(each) for each in node.children if each.type.endswith(("identifier", "pattern"))]
                found |= {name for name in names if needed in " ".join(modifiers)}
    return found


def test_app_uses_public_names_of_the_package(parser: "Parser") -> None:
    roots = [parser.parse(path.read_bytes()).root_node for path in APP.values()]
    used = {text_of(node) for root in roots for node in nodes(root, "simple_identifier", "type_identifier")}
    public = declared(parser, PACKAGE, "public")
    assert {"NextWord", "Suggestion", "open", "operators", "probability", "suggest", "word"} <= used & public
    internal = declared(parser, PACKAGE) - declared(parser, PACKAGE, "private") - public
    assert used & internal - declared(parser, APP) == set()


def test_decoded_keys_are_those_of_the_exporter(parser: "Parser", bundle: Path, manifest: dict[str, Any]) -> None:
    golden = json.loads((bundle / "golden.json").read_text(encoding="utf-8"))
    large = GoldenTensor.of_output("y", np.zeros(5000, np.float32), 1e-4, 1e-3).to_json()
    written = {
        "Manifest": manifest.keys(),
        "File": manifest["files"]["model.onnx"].keys(),
        "Golden": golden.keys(),
        "GoldenTensor": large.keys(),
    }
    assert golden["outputs"][0].keys() == large.keys() - {"positions"}
    read = {}
    for path in PACKAGE.values():
        for struct in nodes(parser.parse(path.read_bytes()).root_node, "class_declaration"):
            parents = [text_of(each) for each in struct.children if each.type == "inheritance_specifier"]
            if "Decodable" in parents:
                body = struct.child_by_field_name("body")
                assert body is not None
                read[text_of(struct.children[1])] = set(keys_of(body))
    assert read.keys() == written.keys()
    assert {name: keys - written[name] for name, keys in read.items() if keys - written[name]} == {}
    assert "format_version" in read["Manifest"]
    assert read["GoldenTensor"] == large.keys()  # no rule of the comparison is left out


def keys_of(body: "Node") -> Iterator[str]:
    """Return the keys of a decodable struct: those of its CodingKeys, else its properties."""
    entries = [entry for each in body.children for entry in nodes(each, "enum_entry") if "CodingKeys" in text_of(each)]
    for entry in entries:
        raw = nodes(entry, "line_str_text")
        yield from map(text_of, raw or [each for each in entry.children if each.type == "simple_identifier"])
    if not entries:
        properties = [each for each in body.children if each.type == "property_declaration"]
        yield from (text_of(nodes(each, "pattern")[0]) for each in properties)


def test_names_in_texts_are_those_of_the_exporter(bundle: Path, manifest: dict[str, Any]) -> None:
    source = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.values())
    assert set(re.findall(r'requires\["(\w+)"\]', source)) == {EXTENSIONS, LIBRARY, ONNXRUNTIME}
    assert set(re.findall(r'metadata\["(\w+)"\]', source)) <= manifest["metadata"].keys()
    assert set(re.findall(r'from: "([\w.]+)"', source)) <= manifest["files"].keys() | {MANIFEST}
    golden = json.loads((bundle / "golden.json").read_text(encoding="utf-8"))
    assert re.findall(r'withInputs: \["(\w+)"', source) == [tensor["name"] for tensor in golden["inputs"]]
    assert re.findall(r'outputNames: \["(\w+)"', source) == [tensor["name"] for tensor in golden["outputs"]]
    assert re.findall(r"formatVersion = (\d+)", source) == [str(FORMAT_VERSION)]
    types = re.findall(r'(?:name: |integers\()"(\w+)", (?:code: )?\.(\w+)', source)
    assert {tensor["dtype"] for side in golden.values() for tensor in side} <= {name for name, _ in types}
    for name, code in types:
        GoldenTensor.from_json({"name": "x", "dtype": name, "shape": [1], "values": [1]})
        assert code.lower() == name.removesuffix("32" if name == "float32" else "")


def test_errors_have_the_texts_of_the_browser_sample(parser: "Parser") -> None:
    mine = set()
    for path in PACKAGE.values():
        for statement in nodes(parser.parse(path.read_bytes()).root_node, "control_transfer_statement"):
            parts = [part for each in nodes(statement, "line_string_literal") for part in each.children]
            mine.add(
                "".join(text_of(part) if part.type == "line_str_text" else "{}" for part in parts if part.is_named)
            )
    page = ROOT / "samples" / "browser" / "page"
    scripts = "".join((page / name).read_text(encoding="utf-8") for name in ("bundle.js", "json.js", "next_word.js"))
    scripts = scripts.replace("${engine.name}", "onnxruntime")
    found = re.findall(r'(?:Error\(\s*|return )(?:`([^`]*)`|"([^"]+)")', scripts)
    theirs = {re.sub(r"\[?\$\{[^}]*\}\]?", "{}", template or text) for template, text in found}
    theirs -= {
        "hashes need a secure page: serve it over HTTPS or from localhost",
        "{}got {}, expected {}",  # a wrong type, which JSONDecoder words in Swift
        "golden.json: input {}: got {}, expected one of {}",  # here of outputs too
    }
    assert len(theirs) >= 11
    assert theirs - mine == set()


def test_values_of_wrong_types_are_refused_with_their_place(parser: "Parser") -> None:
    """``localizedDescription`` of a DecodingError names no key, and an error of the decoder names no file."""
    source = SOURCES["JSONFile.swift"].read_text(encoding="utf-8")
    cases = {text_of(each) for each in nodes(parser.parse(source.encode()).root_node, "switch_pattern")}
    for case in ("typeMismatch", "valueNotFound", "keyNotFound", "dataCorrupted"):
        assert any(f".{case}(" in each for each in cases), case
    assert "context.codingPath" in source
    bounds = {
        re.findall(r"0 <= number < (\w+)", (ROOT / "samples" / path).read_text(encoding="utf-8"))[0]
        for path in (
            "browser/page/bundle.js",
            "android/app/src/main/kotlin/edgeembed/nextword/Json.kt",
            "ios/Sources/NextWord/Golden.swift",
        )
    }
    assert bounds == {f"{_MOST_TOLERANCE:g}".replace("+", "")}


def test_typed_text_is_not_changed(parser: "Parser") -> None:
    root = parser.parse(SOURCES["ContentView.swift"].read_bytes()).root_node
    called = {text_of(each) for each in nodes(root, "navigation_suffix")}
    assert {".autocorrectionDisabled", ".textInputAutocapitalization", ".keyboardType"} <= called


def test_ids_are_those_of_python(expressions: dict[str, str], bundle: Path) -> None:
    completer = Completer(bundle)
    words: list[str] = json.loads((bundle / "vocabulary.json").read_text(encoding="utf-8"))
    ids = {word: at for at, word in enumerate(words)}
    random = np.random.default_rng(0)
    letters = [chr(code) for code in range(32, 0x2FF0)]
    mixed = ["".join(random.choice(letters, 30)) + " word1 caf\u00e93" for _ in range(300)]
    texts = [known(text) for text in [*TEXTS, *HARD, *ALL, *mixed]]
    got = find_all(expressions["token"], texts)
    python = re.compile(expressions["pythonToken"])
    assert [text for text, tokens in zip(texts, got, strict=True) if tokens != python.findall(text)] == []
    encoded = [[0, *(ids.get(each, 1) for each in tokens)] for tokens in got]
    assert encoded == [completer.encode(text) for text in texts]


def test_expression_of_the_bundle_is_accepted(expressions: dict[str, str], manifest: dict[str, Any]) -> None:
    assert expressions["pythonToken"] == manifest["metadata"]["tokenizer"]


def test_suggested_words_are_those_of_python(expressions: dict[str, str]) -> None:
    characters = known("".join(ALL))
    assert len(characters) > 40_000
    some = characters[:9000] + characters[9000::20]  # most others are Chinese and Korean
    found = find_all(expressions["word"], [each + "x" for each in some])
    assert [each for each, words in zip(some, found, strict=True) if bool(words) != each.isalnum()] == []
    assert find_all(expressions["word"], ["<unk>"]) == [[]]


def test_library_functions_are_those_of_the_headers() -> None:
    source = SOURCES["OperatorLibrary.swift"].read_text(encoding="utf-8")
    assert "import EdgeEmbedOps" in source
    headers = ["package/include/edge_embed/ops.h", "c_api/edge_embed.h"]
    declared = "".join((ROOT / "runtime_ops" / header).read_text(encoding="utf-8") for header in headers)
    for name in ("ee_version", "RegisterEdgeEmbedOps"):
        assert name in source
        assert re.search(rf"^EE_API .*\b{name}\(", declared, re.M)
    readme = (SAMPLE / "README.md").read_text(encoding="utf-8")
    (folder,) = re.findall(r"edge-embed package --platform ios -o (\S+)", readme)
    assert f'.package(path: "../../{folder}")' in readme
    assert f'.product(name: "EdgeEmbedOps", package: "{Path(folder).name}")' in readme


def test_commands_put_the_bundle_where_the_package_reads_it(bundle: Path, tmp_path: Path) -> None:
    (commands,) = re.findall(r"^```sh\n(.*?)^```$", (SAMPLE / "README.md").read_text(), re.M | re.S)
    make, *rest = commands.splitlines()
    assert make == "make demo"
    shutil.copytree(SAMPLE, tmp_path / "samples" / "ios", ignore=shutil.ignore_patterns("bundle"))
    shutil.copytree(bundle, tmp_path / "build" / "next_word" / "bundle")
    for _ in range(2):  # the second time replaces the bundle
        subprocess.run(["bash", "-euc", "\n".join(rest)], cwd=tmp_path, check=True)
    (resource,) = re.findall(r'\.copy\("(\w+)"\)', SOURCES["Package.swift"].read_text(encoding="utf-8"))
    assert f'Bundle.module.bundleURL.appendingPathComponent("{resource}")' in SOURCES["NextWord.swift"].read_text()
    copied = tmp_path / "samples" / "ios" / "Sources" / "NextWord" / resource
    assert sorted(path.name for path in copied.iterdir()) == sorted(path.name for path in bundle.iterdir())
    assert f"/{copied.relative_to(tmp_path / 'samples' / 'ios')}/" in (SAMPLE / ".gitignore").read_text().splitlines()
