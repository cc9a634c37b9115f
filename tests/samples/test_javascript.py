"""The samples for browsers and Node.js: their commands, suggestions beside those in Python, and changed bundles."""

import json
import re
import shutil
import subprocess
import unicodedata
from pathlib import Path

import numpy as np
import pytest

from edge_embed.targets.web.browser import browser_lacks, open_page
from edge_embed.validation.tokenizer_texts import HARD
from tests.samples.next_word_bundle import TEXTS, changed_byte, edit, rehash, write_bundle, write_golden

from python.complete import Completer  # isort: skip

pytestmark = pytest.mark.slow
SAMPLES = Path(__file__).parents[2] / "samples"
READ = ["golden.json", "model.onnx", "vocabulary.json"]  # files that the samples read

# The page, as its user sees it: suggestions, then those after a click on the first.
PROBE = """
globalThis.alive = fetch("alive").then((response) => response.body.getReader().read());
const texts = (selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent);
const buttons = () => texts("#suggestions button");
async function wait(until) {
  while (!until()) await new Promise((resolve) => setTimeout(resolve, 20));
}
await wait(() => document.documentElement.dataset.ready);
const state = document.getElementById("state").textContent;
const result = { state, suggestions: buttons(), downloads: texts("#downloads tr"), total: texts("#total")[0] };
if (result.suggestions.length) {
  document.querySelector("#suggestions button").click();
  await wait(() => buttons().join() !== result.suggestions.join());
  Object.assign(result, { text: document.getElementById("text").value, later: buttons() });
}
result.width = document.documentElement.scrollWidth - document.documentElement.clientWidth;
await fetch("result.json", { method: "PUT", body: JSON.stringify(result) });
"""


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("javascript") / "bundle")


@pytest.fixture(scope="module")
def copied(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the samples, and run the commands of both READMEs after that of the demo."""
    if shutil.which("npm") is None:
        pytest.skip("npm is missing: apt-get install npm")
    root = tmp_path_factory.mktemp("copied")
    for name in ("browser", "node"):
        shutil.copytree(SAMPLES / name, root / "samples" / name, ignore=shutil.ignore_patterns("node_modules"))
    (root / "build").mkdir()
    shutil.copytree(bundle, root / "build" / "next_word" / "bundle")
    for name in ("browser", "node"):
        (commands,) = re.findall(r"^```sh\n(.*?)^```$", (SAMPLES / name / "README.md").read_text(), re.M | re.S)
        make, npm, *rest = commands.splitlines()
        assert make == "make demo"
        options = "--ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error"
        for command in (f"{npm} {options}", *rest):
            done = subprocess.run(["bash", "-euc", command], cwd=root, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
    return root


def node(copied: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", *map(str, arguments)], cwd=copied, capture_output=True, text=True, encoding="utf-8", check=False
    )


def rounded(suggestions: list[tuple[str, float]], form: str) -> list[str]:
    return [form.format(word, round(100 * chance)) for word, chance in suggestions]


def test_node_suggests_what_python_suggests(copied: Path, bundle: Path) -> None:
    done = node(copied, "samples/node/complete.mjs", "build/next_word/bundle", *TEXTS)
    assert done.returncode == 0, done.stderr
    for line, text, expected in zip(done.stdout.splitlines(), TEXTS, Completer(bundle).suggest(TEXTS), strict=True):
        assert line == f"  {text:28} -> " + ", ".join(rounded(expected, "{} ({}%)")) or not text.isascii()
        assert line.endswith(", ".join(rounded(expected, "{} ({}%)")))


def test_ids_are_those_of_python(copied: Path, bundle: Path, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    texts = [*TEXTS, *HARD]
    # Node.js may know letters of a later Unicode version.
    known = [chr(code) for code in range(32, 0x2FF0) if unicodedata.category(chr(code)) != "Cn"]
    texts += ["".join(random.choice(known, 30)) + " word1 caf\u00e93" for _ in range(300)]
    (tmp_path / "texts.json").write_text(json.dumps(texts))
    (tmp_path / "ids.mjs").write_text(f"""
        import {{ readFile }} from "node:fs/promises";
        import {{ NextWord }} from {json.dumps((copied / "samples/browser/page/next_word.js").as_uri())};
        const json = async (path) => JSON.parse(await readFile(path, "utf8"));
        const [folder, texts] = process.argv.slice(2);
        const words = await json(folder + "/vocabulary.json");
        const bundle = {{ manifest: await json(folder + "/bundle.json"), json: () => words }};
        const model = new NextWord(bundle, undefined);
        console.log(JSON.stringify((await json(texts)).map((text) => model.encode(text))));
    """)
    done = node(copied, tmp_path / "ids.mjs", bundle, tmp_path / "texts.json")
    assert done.returncode == 0, done.stderr
    got, completer = json.loads(done.stdout), Completer(bundle)
    different = [text for text, ids in zip(texts, got, strict=True) if ids != completer.encode(text)]
    assert different == []


@pytest.mark.parametrize("name", [*READ, "bundle.json"])
def test_node_names_the_changed_file(copied: Path, bundle: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    changed_byte(folder / name)
    done = node(copied, "samples/node/complete.mjs", folder, "a")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {name}: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": 2}, "got format_version 2, expected 1"),
        ({"target": "tflite"}, "got target tflite, expected onnx"),
        ({"requires": {"onnxruntime": "99.1"}}, "expected 99.1 or newer"),
        ({"requires": {"onnxruntime": "99.1"}}, "got onnxruntime-node "),
        ({"files": {"../model.onnx": {"bytes": 1, "sha256": ""}}}, "got a file named ../model.onnx"),
        ({"files": {}}, "got no hash of model.onnx"),
        ({"model": "missing.onnx"}, "got no hash of missing.onnx"),
        ({"requires": {"onnxruntime_extensions": "0.15"}}, "contains a tokenizer"),
        ({"metadata": {}}, "got tokenizer undefined"),
    ],
)
def test_node_refuses_other_bundles(
    copied: Path, bundle: Path, tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    edit(folder, **changed)
    done = node(copied, "samples/node/complete.mjs", folder, "a")
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


def test_node_names_the_folder_without_bundle(copied: Path, tmp_path: Path) -> None:
    done = node(copied, "samples/node/complete.mjs", tmp_path / "nope", "a")
    message = "got no bundle.json (ENOENT), expected a folder of edge-embed export --bundle: check the path"
    assert (done.returncode, done.stderr) == (1, f"Error: {tmp_path / 'nope'}: {message}\n")


SUM = {"bytes": 1, "sha256": ""}
MANIFEST: dict[str, object] = {
    "format_version": 1,
    "target": "onnx",
    "model": "m",
    "files": {"m": SUM, "golden.json": SUM},
}
INPUT: dict[str, object] = {"name": "x", "dtype": "int64", "shape": [1], "values": [1]}
OUTPUT: dict[str, object] = {"name": "y", "dtype": "float32", "shape": [1], "values": [0.5]}
NUMBER = "got {}, expected 0 <= number < 1e30"
WRONG: list[tuple[str, dict[str, object], str]] = [  # which part is changed, how, and the error
    ("manifest", {"format_version": "1"}, 'bundle.json: is damaged: format_version: got "1", expected a whole number'),
    ("manifest", {"model": 1}, "bundle.json: is damaged: model: got 1, expected a text"),
    ("manifest", {"requires": None}, "bundle.json: is damaged: requires: got null, expected an object"),
    ("manifest", {"requires": {"onnxruntime": 1.18}}, "requires: onnxruntime: got 1.18, expected a text"),
    ("manifest", {"metadata": []}, "metadata: got [], expected an object"),
    ("manifest", {"files": [1, 2]}, "bundle.json: is damaged: files: got [1,2], expected an object"),
    ("manifest", {"files": {"m": 1}}, "files: m: got 1, expected an object"),
    ("manifest", {"files": {"m": SUM | {"bytes": 5.9}}}, "files: m: bytes: got 5.9, expected a whole number"),
    ("manifest", {"files": {"m": SUM | {"bytes": "5"}}}, 'files: m: bytes: got "5", expected a whole number'),
    ("manifest", {"files": {"m": {"bytes": 5}}}, "files: m: sha256: got nothing, expected a text"),
    ("input", {"values": [1.5]}, "golden.json: is damaged: input x: The number 1.5 cannot be converted"),
    ("output", {"shape": None}, "golden.json: is damaged: outputs: 0: shape: got null, expected a list"),
    ("output", {"values": [[1]]}, "outputs: 0: values: 0: got [1], expected a number"),
    ("output", {"values": ["toString"]}, "golden.json: is damaged: values: got toString, expected a number"),
    ("output", {"positions": [0.5]}, "outputs: 0: positions: 0: got 0.5, expected a whole number"),
    ("output", {"positions": [9], "values": ["NaN"]}, "output y: got 1 values, expected one at position 9"),
    ("output", {"atol": 1e300}, f"outputs: 0: atol: {NUMBER.format('1e+300')}"),
    ("output", {"rtol": -1}, f"outputs: 0: rtol: {NUMBER.format('-1')}"),
    ("output", {"rtol": None}, f"outputs: 0: rtol: {NUMBER.format('null')}"),
    ("output", {"values": [1.5], "atol": 1}, "opened"),
]
# Opens bundles with an engine whose output is always 0.5.
OPEN = """
const {{ openBundle }} = await import({page});
const ort = {{
  Tensor: class {{}},
  InferenceSession: {{ create: async () => ({{ run: async () => ({{ y: output }}) }}) }},
}};
const output = {{ type: "float32", dims: [1], data: Float32Array.of(0.5) }};
for (const {{ manifest, golden }} of {bundles}) {{
  const bytes = (content) => new TextEncoder().encode(JSON.stringify(content));
  const sha256 = async () => new ArrayBuffer(0);
  if (manifest.files["golden.json"]) manifest.files["golden.json"].bytes = bytes(golden).length;
  const files = {{ "bundle.json": bytes(manifest), "golden.json": bytes(golden), m: new Uint8Array(1) }};
  const read = async (name) => files[name];
  const engine = {{ name: "engine", version: "1" }};
  console.log(await openBundle(read, ort, {{ engine, sha256 }}).then(() => "opened", ({{ message }}) => message));
}}
"""


def test_node_names_the_value_of_a_wrong_type() -> None:
    right = {"manifest": MANIFEST, "input": INPUT, "output": OUTPUT}
    bundles = []
    for part, changed, _ in WRONG:
        parts = right | {part: right[part] | changed}
        golden = {"inputs": [parts["input"]], "outputs": [parts["output"]]}
        bundles.append({"manifest": parts["manifest"], "golden": golden})
    page = json.dumps((SAMPLES / "browser" / "page" / "bundle.js").as_uri())
    script = OPEN.format(page=page, bundles=json.dumps(bundles))
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, encoding="utf-8", check=False
    )
    assert done.returncode == 0, done.stderr
    for line, (part, changed, message) in zip(done.stdout.splitlines(), WRONG, strict=True):
        assert message in line, (part, changed)
        assert "is damaged" not in line or line.endswith(": copy or download the bundle again")


@pytest.mark.parametrize("error", [0.01, "NaN"])
def test_node_finds_other_outputs(copied: Path, bundle: Path, tmp_path: Path, error: float | str) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    golden = json.loads((folder / "golden.json").read_text())
    values = golden["outputs"][0]["values"]
    values[5] = error if isinstance(error, str) else values[5] + error
    write_golden(folder, golden)
    done = node(copied, "samples/node/complete.mjs", folder, "a")
    assert done.returncode == 1
    assert "output output: got" in done.stderr
    assert "at position 5" in done.stderr


def test_node_refuses_golden_pairs_that_compare_nothing(copied: Path, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    golden = json.loads((folder / "golden.json").read_text())
    golden["outputs"][0]["values"] = golden["outputs"][0]["values"][:3]
    write_golden(folder, golden)
    assert "got 3 golden values, expected" in node(copied, "samples/node/complete.mjs", folder, "a").stderr
    write_golden(folder, golden | {"outputs": []})
    done = node(copied, "samples/node/complete.mjs", folder, "a")
    assert (done.returncode, done.stderr) == (1, "Error: golden.json: got no values, expected outputs to compare\n")


@pytest.mark.parametrize(
    ("words", "message"), [('["a", "b"]', "got 2 words, expected"), ("[1, null]", "0: got 1, expected a text")]
)
def test_node_names_a_vocabulary_that_does_not_fit(
    copied: Path, bundle: Path, tmp_path: Path, words: str, message: str
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    (folder / "vocabulary.json").write_text(words)
    rehash(folder)
    done = node(copied, "samples/node/complete.mjs", folder, "a")
    assert done.returncode == 1
    assert done.stderr.startswith("Error: vocabulary.json: ")
    assert message in done.stderr


def open_in_browser(page: Path, folder: Path) -> dict[str, object]:
    """Return what the page shows in headless Chromium."""
    if lacks := browser_lacks():
        pytest.skip(f"{lacks[0].what}: {lacks[0].remedy}")
    (folder / "probe.mjs").write_text(PROBE)
    html = (page / "index.html").read_text()
    (folder / "page.html").write_text(html.replace("</head>", '<script type="module" src="probe.mjs"></script></head>'))
    files = {path.relative_to(page).as_posix(): path for path in page.rglob("*") if path.is_file()}
    files |= {name: folder / name for name in ("page.html", "probe.mjs")}
    open_page(files, {"result.json": folder / "result.json"}, 120)
    shown: dict[str, object] = json.loads((folder / "result.json").read_text())
    return shown


def test_page_suggests_what_python_suggests(copied: Path, bundle: Path, tmp_path: Path) -> None:
    shown = open_in_browser(copied / "build" / "browser", tmp_path)
    completer = Completer(bundle)
    first, later = (completer.suggest([text])[0] for text in ("Return a list of", shown["text"]))
    assert shown["state"].endswith("Golden outputs agree.")
    assert shown["suggestions"] == rounded(first, "{} {} %")
    assert shown["text"] == f"Return a list of {first[0][0]}"
    assert shown["later"] == rounded(later, "{} {} %")
    size = (bundle / "model.onnx").stat().st_size
    assert f"bundle/model.onnx{size:,}" in shown["downloads"]
    assert any(row.startswith("ort/ort-wasm-simd-threaded.wasm") for row in shown["downloads"])
    assert shown["width"] == 0  # nothing is wider than the window


def test_page_names_the_changed_file(copied: Path, tmp_path: Path) -> None:
    page = Path(shutil.copytree(copied / "build" / "browser", tmp_path / "page"))
    changed_byte(page / "bundle" / "model.onnx")
    shown = open_in_browser(page, tmp_path)
    assert shown["state"].startswith("model.onnx: got SHA-256")
    assert shown["suggestions"] == []


def test_page_is_not_written_over_another_folder(copied: Path, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "app.js").write_text("mine")
    for arguments, message in (
        ([], "expected: node build.mjs BUNDLE OUTPUT"),
        ([tmp_path, tmp_path / "new"], "got no bundle.json"),
        ([bundle, tmp_path], "a folder of something else"),
        ([bundle, bundle / "page"], "lies in the bundle"),
    ):
        done = node(copied, "samples/browser/build.mjs", *arguments)
        assert (done.returncode, message in done.stderr) == (1, True)
    assert (tmp_path / "app.js").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["app.js"]
