"""The sample in C++: its commands, suggestions beside those in Python, changed bundles, and Windows under Wine."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import edge_embed
from tests.debian_package import debian_package
from tests.docs.pages import DOCS, Page
from tests.onnxruntime_archive import lay_out_archive
from tests.packages.windows_runs import windows_runtime
from tests.samples.next_word_bundle import TEXTS, changed_byte, edit, rehash, write_bundle, write_golden

from python.complete import Completer  # isort: skip

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "cpp"
CONTROLS = "a\nb\x1b[2Jc\x7fd\x9be\u00e9"
FILES = ["golden.json", "model.onnx", "vocabulary.json", "README.md", "bundle.json"]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bundle(tmp_path_factory.mktemp("cpp") / "bundle")


@pytest.fixture(scope="module")
def commands() -> list[list[str]]:
    """Return the commands of each block of the README, after that of the demo."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (SAMPLE / "README.md").read_text(), re.M | re.S)
    body, library = (block.splitlines() for block in blocks)
    assert body[0] == "make demo"
    return [body[1:], library]


@pytest.fixture(scope="module")
def copied(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the sample, the bundle, and ONNX Runtime as its release archives are."""
    if not Path("/usr/include/openssl/evp.h").is_file():
        pytest.skip("openssl/evp.h is missing: apt-get install libssl-dev")
    root = tmp_path_factory.mktemp("copied")
    shutil.copytree(SAMPLE, root / "samples" / "cpp")
    shutil.copytree(bundle, root / "build" / "next_word" / "bundle")
    (root / ".venv").symlink_to(Path(shutil.which("edge-embed", path=_scripts()) or "").parents[1])
    lay_out_archive(root / "onnxruntime")
    return root


def _scripts() -> str:
    return str(ROOT / ".venv" / "bin") + os.pathsep + os.environ["PATH"]


@pytest.fixture(scope="module")
def json_package() -> Path:
    return debian_package("nlohmann-json3-dev", "include/nlohmann/json.hpp")


def bash(command: str, cwd: Path, json_package: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CMAKE_BUILD_TYPE": "Debug", "CMAKE_PREFIX_PATH": str(json_package)}
    done = subprocess.run(
        ["bash", "-euc", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def program(copied: Path, json_package: Path, commands: list[list[str]]) -> Path:
    """Build the program without the operator library; return its path."""
    for command in commands[0]:
        done = bash(command, copied, json_package)
    assert done.stderr == "portable bodies\n"
    return Path(shutil.move(copied / "build" / "cpp", copied / "build" / "body")) / "complete"


@pytest.fixture(scope="module")
def program_with_library(program: Path, copied: Path, json_package: Path, commands: list[list[str]]) -> Path:
    """Build the program with the operator library; return its path."""
    bash(commands[0][0], copied, json_package)
    for command in commands[1]:
        done = bash(command, copied, json_package)
    assert done.stderr == f"operator library {edge_embed.__version__}\n"
    return copied / "build" / "cpp" / "complete"


def complete(program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=False)


def words_of(bundle: Path, texts: list[str]) -> list[str]:
    """Return the suggestions of the sample in Python, as both programs print them."""
    return [
        " -> " + ", ".join(f"{word} ({round(100 * chance)}%)" for word, chance in suggestions)
        for suggestions in Completer(bundle).suggest(texts)
    ]


def with_manifest(bundle: Path, folder: Path, changed: Mapping[str, object]) -> Path:
    shutil.copytree(bundle, folder)
    edit(folder, **changed)
    return folder


def with_golden(bundle: Path, folder: Path, golden: object) -> Path:
    """Return a bundle with another golden pair, whose hash is right."""
    shutil.copytree(bundle, folder)
    write_golden(folder, golden)
    return folder


def test_cpp_suggests_what_python_suggests(program: Path, bundle: Path) -> None:
    texts = [*TEXTS, "a b\u00a0c", "tab\there -- x.y-z' .5", "\u0391\u03b2\u03b3 \u0434\u043e\u043c"]
    done = complete(program, bundle, *texts)
    assert done.returncode == 0, done.stderr
    for line, text, words in zip(done.stdout.splitlines(), texts, words_of(bundle, texts), strict=True):
        assert line == f"  {text}{' ' * (28 - len(text.encode()))}{words}"


def test_cpp_ids_are_those_of_python(
    copied: Path, program: Path, bundle: Path, json_package: Path, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    known = [chr(code) for code in (*range(1, 127), *range(0xC0, 0x250), 0x85, 0xA0, *range(0x2000, 0x2030))]
    texts = ["".join(random.choice(known, 30)).replace("\n", " ") + " word1 caf\u00e93" for _ in range(300)]
    (tmp_path / "texts").write_bytes("\n".join(texts).encode() + b"\n")
    (tmp_path / "ids.cc").write_text(
        '#include <clocale>\n#include <fstream>\n#include <iostream>\n#include "next_word.h"\n'
        "int main(int, char** arguments) try {\n  std::setlocale(LC_CTYPE, arguments[3]);\n  const Ort::Env env;\n"
        "  const NextWord model(open_bundle(env, arguments[1]));\n  std::ifstream file(arguments[2]);\n"
        "  for (std::string line; std::getline(file, line);) {\n"
        '    for (auto id : model.encode(line)) std::cout << id << " ";\n    std::cout << "\\n";\n  }\n'
        '} catch (const std::exception& error) {\n  std::cerr << error.what() << "\\n";\n  return 1;\n}\n'
    )
    objects = [str(path) for path in program.parent.rglob("*.o") if path.name != "complete.cc.o"]
    library = copied / "onnxruntime" / "lib"
    folders = copied / "samples" / "cpp", copied / "onnxruntime" / "include", json_package / "include"
    command = ["c++", "-std=c++17", str(tmp_path / "ids.cc"), *objects, *(f"-I{folder}" for folder in folders)]
    command += [f"-L{library}", "-lonnxruntime", "-lcrypto", f"-Wl,-rpath,{library}", "-o", str(tmp_path / "ids")]
    subprocess.run(command, check=True)
    refused = complete(tmp_path / "ids", bundle, tmp_path / "texts", "C")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("got locale C, expected one of UTF-8: ")
    done = complete(tmp_path / "ids", bundle, tmp_path / "texts", "C.UTF-8")
    assert done.returncode == 0, done.stderr
    completer = Completer(bundle)
    got = [[int(number) for number in line.split()] for line in done.stdout.splitlines()]
    different = [text for text, ids in zip(texts, got, strict=True) if ids != completer.encode(text)]
    assert different == []


def test_cpp_suggests_the_same_with_the_operator_library(program_with_library: Path, bundle: Path) -> None:
    done = complete(program_with_library, bundle, TEXTS[0])
    assert done.stdout.rstrip("\n").endswith(*words_of(bundle, TEXTS[:1]))


def test_cpp_names_the_version_of_a_library_that_is_too_old(
    program_with_library: Path, bundle: Path, tmp_path: Path
) -> None:
    folder = with_manifest(bundle, tmp_path / "bundle", {"requires": {"edge_embed_ops": "99.1"}})
    done = complete(program_with_library, folder, TEXTS[0])
    got = f"got operator library {edge_embed.__version__}, expected 99.1 or newer: update it"
    assert (done.returncode, done.stderr) == (0, f"portable bodies: {got}\n")
    assert done.stdout.rstrip("\n").endswith(*words_of(bundle, TEXTS[:1]))


@pytest.mark.parametrize("name", FILES)
def test_cpp_names_the_changed_file(program: Path, bundle: Path, tmp_path: Path, name: str) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    changed_byte(folder / name)
    done = complete(program, folder, "a")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {name}: ")
    (folder / name).unlink()
    missing = complete(program, folder, "a")
    assert (missing.returncode, missing.stdout) == (1, "")
    assert missing.stderr.startswith(f"Error: {name}: no such file")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"format_version": 2}, "got format_version 2, expected 1"),
        ({"format_version": "1"}, "got format_version"),
        ({"format_version": 1.9}, "got format_version 1.9, expected 1"),
        ({"target": "tflite"}, "got target tflite, expected onnx"),
        ({"requires": {"onnxruntime": "99.1"}}, "expected 99.1 or newer"),
        ({"requires": {"onnxruntime_extensions": "0.15"}}, "contains a tokenizer"),
        ({"metadata": {}}, "got tokenizer none, expected"),
        ({"files": {"../model.onnx": {"bytes": 1, "sha256": ""}}}, 'got a file named "../model.onnx"'),
        ({"files": {}}, "got no hash of model.onnx"),
        ({"files": {"model.onnx\0": {"bytes": 1, "sha256": ""}}}, "expected a plain name"),
        ({"files": []}, "bundle.json: "),
        ({"model": 5}, "bundle.json: is damaged"),
        ({"metadata": {"tokenizer": 5}}, "bundle.json: is damaged"),
        ({"metadata": []}, "bundle.json: is damaged"),
        ({"requires": {"onnxruntime": "x"}}, 'requires: onnxruntime: got "x", expected a version such as 1.18'),
        ({"files": {"a": {"bytes": 5.9, "sha256": ""}}}, "files: a: bytes: got 5.9, expected a whole number"),
        ({"files": {"a": {"bytes": -1, "sha256": ""}}}, "files: a: bytes: got -1, expected a whole number"),
        ({"files": {"a": {"bytes": 1 << 64, "sha256": ""}}}, "expected a whole number"),
        ({"files": {"a": {"bytes": True, "sha256": ""}}}, "files: a: bytes: got true, expected a whole number"),
    ],
)
def test_cpp_refuses_other_bundles(
    program: Path, bundle: Path, tmp_path: Path, changed: dict[str, object], message: str
) -> None:
    done = complete(program, with_manifest(bundle, tmp_path / "bundle", changed), "a")
    assert (done.returncode, message in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize("changed", [{"target": CONTROLS}, {"model": CONTROLS}, {"metadata": {"tokenizer": CONTROLS}}])
def test_cpp_prints_no_control_characters(
    program: Path, bundle: Path, tmp_path: Path, changed: dict[str, object]
) -> None:
    done = complete(program, with_manifest(bundle, tmp_path / "bundle", changed), "a")
    assert (done.returncode, done.stdout) == (1, "")
    assert "a?b?[2Jc?d\u00bfe\u00e9" in done.stderr


def test_cpp_prints_no_control_characters_of_words(program: Path, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    words = json.loads((folder / "vocabulary.json").read_text())
    (folder / "vocabulary.json").write_text(json.dumps([*words[:2], *[CONTROLS] * (len(words) - 2)]))
    rehash(folder)
    done = complete(program, folder, "x")
    assert (done.returncode, done.stdout.count("a?b?[2Jc?d\u00bfe\u00e9 (")) == (0, 3)


def test_cpp_names_a_model_that_does_not_open(program: Path, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    content = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(content[: len(content) // 2])
    rehash(folder)
    done = complete(program, folder, "a")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert re.fullmatch(
        r"Error: model\.onnx: ONNX Runtime \S+ cannot open it: .*: export the bundle again\n", done.stderr
    )


def test_cpp_refuses_a_full_device(program: Path, bundle: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([program, bundle, "a"], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 1
    assert "Error: standard output: got a failed write, expected room for the suggestions: " in done.stderr


@pytest.mark.parametrize("value", [0.01, "NaN", "-Infinity", 1e300])
def test_cpp_finds_other_outputs(program: Path, bundle: Path, tmp_path: Path, value: float | str) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden["outputs"][0]["values"][5] = value
    done = complete(program, with_golden(bundle, tmp_path / "bundle", golden), "a")
    assert done.returncode == 1
    assert "output output: got" in done.stderr
    assert "at position 5" in done.stderr


def test_cpp_reads_positions_of_a_long_output(program: Path, bundle: Path, tmp_path: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    output = golden["outputs"][0]
    output["positions"] = [7, 3]
    output["values"] = [output["values"][7], output["values"][3]]
    assert complete(program, with_golden(bundle, tmp_path / "right", golden), "a").returncode == 0
    output["positions"] = [3, 7]
    assert "at position 3" in complete(program, with_golden(bundle, tmp_path / "wrong", golden), "a").stderr


def test_cpp_refuses_golden_pairs_that_compare_nothing(program: Path, bundle: Path, tmp_path: Path) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden["outputs"][0]["values"] = golden["outputs"][0]["values"][:3]
    done = complete(program, with_golden(bundle, tmp_path / "few", golden), "a")
    assert (done.returncode, "golden.json: output: values: got 3, expected " in done.stderr) == (1, True)
    golden["outputs"][0]["values"] = []
    done = complete(program, with_golden(bundle, tmp_path / "none", golden), "a")
    assert (done.returncode, done.stderr) == (1, "Error: golden.json: got no values, expected outputs to compare\n")


def test_cpp_names_a_vocabulary_that_does_not_fit(program: Path, bundle: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    (folder / "vocabulary.json").write_text('["a", "b"]')
    rehash(folder)
    assert "Error: vocabulary.json: got 2 words, expected those of " in complete(program, folder, "a").stderr
    files = json.loads((folder / "bundle.json").read_text())["files"]
    del files["vocabulary.json"]
    edit(folder, files=files)
    assert "bundle.json: got no hash of vocabulary.json" in complete(program, folder, "a").stderr


@pytest.mark.parametrize(
    ("name", "shape", "value", "message"),
    [
        ("ids", ["ids", 5], 0.0, "output: got another type or shape"),
        ("ids", [1, "ids", 5], float("nan"), "output: got a score that is no number"),
        ("words", [1, "ids", 5], 0.0, "ONNX Runtime "),
    ],
)
def test_cpp_refuses_another_model(
    program: Path, bundle: Path, tmp_path: Path, name: str, shape: list[object], value: float, message: str
) -> None:
    folder = Path(shutil.copytree(bundle, tmp_path / "bundle"))
    sizes = [helper.make_node("Shape", [name], ["size"], start=1)]
    parts = [["one", "size", "answers"], ["size", "answers"]][len(shape) == 2]
    constants = [numpy_helper.from_array(np.array([size]), name) for name, size in (("one", 1), ("answers", 5))]
    fill = numpy_helper.from_array(np.array([value], np.float32))
    sizes += [
        helper.make_node("Concat", parts, ["sizes"], axis=0),
        helper.make_node("ConstantOfShape", ["sizes"], ["output"], value=fill),
    ]
    ids = helper.make_tensor_value_info(name, TensorProto.INT64, [1, "ids"])
    output = helper.make_tensor_value_info("output", TensorProto.FLOAT, shape)
    graph = helper.make_graph(sizes, "fill", [ids], [output], constants)
    opsets = [helper.make_opsetid("", 18)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "model.onnx")
    count = [1, 1, 5] if len(shape) == 3 else [1, 5]
    values = ["NaN" if np.isnan(value) else value] * 5
    golden = {
        "inputs": [{"name": name, "dtype": "int64", "shape": [1, 1], "values": [0]}],
        "outputs": [{"name": "output", "dtype": "float32", "shape": count, "values": values}],
    }
    write_golden(folder, golden)
    done = complete(program, folder, "a")
    assert (done.returncode, f"Error: model.onnx: {message}" in done.stderr) == (1, True), done.stderr


@pytest.mark.parametrize(
    ("side", "changed", "message"),
    [
        ("inputs", {"name": "words"}, f"ONNX Runtime {onnxruntime.__version__} refuses its inputs or outputs: "),
        ("inputs", {"shape": [1 << 31, 1 << 31]}, "ids: values: got "),
        ("inputs", {"shape": [-1, -3]}, "ids: shape: got [-1,-3], expected sizes: "),
        ("inputs", {"shape": [5.9]}, "ids: shape: got [5.9], expected sizes: "),
        ("inputs", {"shape": [1 << 63]}, "ids: shape: got [9223372036854775808], expected sizes: "),
        ("inputs", {"shape": [True]}, "ids: shape: got [true], expected sizes: "),
        ("inputs", {"values": []}, "ids: values: got 0, expected those of shape "),
        ("inputs", {"dtype": "complex64"}, "got dtype complex64, expected "),
        ("inputs", {"values": ["a"], "shape": [1]}, 'ids: values: got "a", expected int64: '),
        ("inputs", {"values": [5.9], "shape": [1]}, "ids: values: got 5.9, expected int64: "),
        ("inputs", {"values": [-1], "shape": [1], "dtype": "uint64"}, "ids: values: got -1, expected uint64: "),
        (
            "inputs",
            {"values": [(1 << 64) - 1], "shape": [1]},
            "ids: values: got 18446744073709551615, expected int64: ",
        ),
        ("inputs", {"values": [True], "shape": [1], "dtype": "float32"}, "ids: values: got true, expected float32: "),
        ("outputs", {"shape": [5.9]}, "output: shape: got [5.9], expected sizes: "),
        ("outputs", {"atol": 1e300}, "output: atol: got 1e+300, expected 0 <= atol < 1e+30: "),
        ("outputs", {"rtol": -0.1}, "output: rtol: got -0.1, expected 0 <= rtol < 1e+30: "),
        ("outputs", {"atol": float("nan")}, "is damaged: "),
        ("outputs", {"values": [0], "positions": [0.9]}, "output: positions: got 0.9, expected 0 <= position < "),
        ("outputs", {"values": [0], "positions": [1 << 40]}, "output: positions: got 1099511627776, expected "),
    ],
)
def test_cpp_refuses_damaged_golden_pairs(
    program: Path, bundle: Path, tmp_path: Path, side: str, changed: dict[str, object], message: str
) -> None:
    golden = json.loads((bundle / "golden.json").read_text())
    golden[side][0] |= changed
    done = complete(program, with_golden(bundle, tmp_path / "bundle", golden), "a")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1), done.stderr
    assert done.stderr.startswith(f"Error: golden.json: {message}"), done.stderr


def test_cpp_page_prints_errors(copied: Path, tmp_path: Path) -> None:
    page = Page(DOCS / "deployment" / "cpp.md")
    (tmp_path / "main.cc").write_text(page.only("cpp"))
    (tmp_path / "onnxruntime").symlink_to(copied / "onnxruntime")
    subprocess.run(["bash", "-euc", page.only("sh cpp").splitlines()[0]], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch("Error: .*libedge_embed_ops.so.*\n", done.stderr)


@pytest.mark.long
def test_cpp_for_windows_suggests_the_same_under_wine(
    copied: Path, json_package: Path, bundle: Path, tmp_path: Path
) -> None:
    """Zig builds it; its C library of MinGW takes minutes without a cache."""
    if shutil.which("wine") is None:
        pytest.skip("wine is missing: apt-get install wine")
    zig = Path(pytest.importorskip("ziglang").__file__).parent / "zig"
    for part in ("include/nlohmann", "share/cmake/nlohmann_json"):  # apart from the headers of Linux
        shutil.copytree(json_package / part, tmp_path / "json" / part)
    (tmp_path / "onnxruntime.def").write_text("LIBRARY onnxruntime.dll\nEXPORTS\nOrtGetApiBase\n")
    library = tmp_path / "onnxruntime.lib"
    described = ["-d", tmp_path / "onnxruntime.def", "-l", library]
    subprocess.run([zig, "dlltool", "-m", "i386:x86-64", *described], check=True)
    options = {
        "CMAKE_TOOLCHAIN_FILE": ROOT / "runtime_ops" / "cmake" / "Zig.cmake",
        "EDGE_EMBED_ZIG": zig,
        "EDGE_EMBED_ZIG_TARGET": "x86_64-windows-gnu",
        "EDGE_EMBED_ZIG_DRIVER": "c++",
        "ONNXRUNTIME_INCLUDE_DIR": copied / "onnxruntime" / "include",
        "ONNXRUNTIME_LIBRARY": library,
        "CMAKE_PREFIX_PATH": tmp_path / "json",
    }
    build = tmp_path / "build"
    given = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run(["cmake", "-S", copied / "samples" / "cpp", "-B", build, *given], check=True)
    subprocess.run(["cmake", "--build", build], check=True)
    shutil.copy(windows_runtime() / "onnxruntime.dll", build)
    changed = Path(shutil.copytree(bundle, tmp_path / "changed"))
    changed_byte(changed / "model.onnx")
    environment = {**os.environ, "WINEDEBUG": "-all", "WINEPREFIX": str(tmp_path / "wine")}
    right, wrong = (
        subprocess.run(
            ["wine", build / "complete.exe", folder, TEXTS[0]],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        for folder in (bundle, changed)
    )
    assert right.stdout.rstrip().endswith(*words_of(bundle, TEXTS[:1])), right.stderr
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "model.onnx: got SHA-256" in wrong.stderr
