"""onnxruntime-web under Node.js and in Chromium: the same numbers, plain failures, nothing left behind."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

from edge_embed.exporters.onnx.export import export_onnx
from edge_embed.layers.bag import ANTEmbeddingBag
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.tied_output import TiedOutput
from edge_embed.layers.tt import TTEmbedding
from edge_embed.lowering.graph import lower_program
from edge_embed.program.capture import write_archive
from edge_embed.program.reader import read_program
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject
from edge_embed.targets.tensors import read_tensors, write_tensors
from edge_embed.targets.web.package import SCRIPTS, fetch_runtime
from edge_embed.targets.web.server import JobServer
from edge_embed.validation.exported import ExportedModel
from edge_embed.validation.model_inputs import make_cases
from edge_embed.validation.model_paths import compare_target
from edge_embed.validation.options import ValidationOptions

NAMES = ("node", "browser")
QUICK = RunOptions(iterations=2, time_limit=60)


@pytest.fixture(scope="session")
def ready() -> dict[str, str]:
    """Why each target cannot run here, empty where it can."""
    reasons = {}
    for name in NAMES:
        lacks = make_target(name).lacks()
        reasons[name] = "; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks)
    if not all(reasons.values()):
        try:
            fetch_runtime(300)
        except NotRunError as error:
            return dict.fromkeys(NAMES, str(error))
    return reasons


@pytest.fixture(params=NAMES)
def target(request, ready):
    if ready[request.param]:
        pytest.skip(ready[request.param])
    return make_target(request.param)


@pytest.fixture
def browser(ready):
    if ready["browser"]:
        pytest.skip(ready["browser"])
    return make_target("browser")


@pytest.fixture
def temporary(monkeypatch):
    """The folder that everything temporary goes to, and that thus is in the command line of every process."""
    with tempfile.TemporaryDirectory(prefix="ee", dir="/tmp") as folder:  # a long one is another test
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def processes(folder: Path, word: str = "") -> list[int]:
    """Processes that live, with a folder and a word in their command lines."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and word in line:
            found.append(int(path.parent.name))
    return found


def seconds_used(process: int) -> float:
    """Processor time; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_for(condition, seconds: float = 30.0):
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8, variant="vq", padding_idx=0)
        self.encoder = nn.GRU(48, 16, batch_first=True)
        self.tags = nn.Linear(16, 5)

    def forward(self, ids):
        states, _ = self.encoder(self.words(ids))
        return {"tags": self.tags(states), "padded": ids == 0}


class HalfTagger(Tagger):
    def __init__(self):
        super().__init__()
        self.words.freeze(value_type="float16")


class Half(nn.Module):
    """Hands float16 out, too."""

    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(600, 48, 16, 8).half()

    def forward(self, ids, scale):
        return self.words(ids) * scale


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = ANTEmbeddingBag(500, 24, 10, mode="mean", padding_idx=0)
        self.classes = nn.Linear(24, 4)
        with torch.no_grad():
            self.words.transform.copy_(torch.rand(500, 10) * (torch.rand(500, 10) < 0.3))

    def forward(self, ids):
        return self.classes(self.words(ids))


class Suggestions(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = TTEmbedding(1000, 32, rank=8)
        self.encoder = nn.LSTM(32, 32, batch_first=True)
        self.output = TiedOutput(self.words, bias=True)

    def forward(self, ids):
        states, _ = self.encoder(self.words(ids))
        return self.output.topk(states[:, -1], 5)


IDS = torch.tensor([[17, 4, 256], [3, 0, 99]])
MODELS = {
    "DPQ and GRU": (Tagger, (IDS,), "never"),
    "DPQ and GRU, external data": (Tagger, (IDS,), "always"),
    "values in float16": (HalfTagger, (IDS,), "never"),
    "float16 throughout": (Half, (IDS, torch.tensor(1.5, dtype=torch.float16)), "never"),
    "bags of ANT": (Classifier, (IDS,), "never"),
    "TT, tied head, top-k": (Suggestions, (IDS,), "never"),
}


@pytest.fixture(scope="session")
def subjects(tmp_path_factory):
    """Exported models, made when first asked for."""
    made = {}

    def make(name):
        if name not in made:
            folder = tmp_path_factory.mktemp("model")
            torch.manual_seed(0)
            model, example, external = MODELS[name]
            with (folder / "model.pt").open("wb") as file:
                write_archive(model(), file, example)
            program = read_program(folder / "model.pt")
            export_onnx(lower_program(program), folder / "model.onnx", external)
            exported = ExportedModel(folder / "model.onnx")
            made[name] = Subject(exported.path, program, exported.files[1:])
        return made[name]

    return make


def compare(target, subject, options=QUICK):
    cases, _ = make_cases(subject.program, np.random.default_rng(0))
    chosen = ValidationOptions().for_weights(
        half=any(b.dtype == torch.float16 for b in subject.program.module.buffers())
    )
    feeds = [case.feeds(subject.program) for case in cases]
    return compare_target(target, subject, cases, feeds, chosen, options)


def run(target, model, outputs, feeds, options=QUICK):
    subject = Subject(model, SimpleNamespace(output_names=outputs))
    with target.prepare(subject, options) as prepared:
        return prepared.run([feeds], options)


def small_model(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "small", inputs, outputs, initializers)
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("elsewhere", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), path)
    return path


@pytest.fixture
def endless(tmp_path):
    """A model that counts to 2^62."""
    state, count, going = (
        helper.make_tensor_value_info(*spec)
        for spec in (("state", TensorProto.FLOAT, [1]), ("i", TensorProto.INT64, []), ("go", TensorProto.BOOL, []))
    )
    grown = helper.make_tensor_value_info("grown", TensorProto.FLOAT, [1])
    going_on = helper.make_tensor_value_info("going_on", TensorProto.BOOL, [])
    nodes = [helper.make_node("Sin", ["state"], ["grown"]), helper.make_node("Identity", ["go"], ["going_on"])]
    body = helper.make_graph(nodes, "body", [count, going, state], [going_on, grown])
    trips = helper.make_tensor("trips", TensorProto.INT64, [], [2**62])
    yes = helper.make_tensor("yes", TensorProto.BOOL, [], [True])
    loop = helper.make_node("Loop", ["trips", "yes", "x"], ["y"], body=body)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in "xy"]
    return small_model(tmp_path / "endless.onnx", [loop], ends[:1], ends[1:], [trips, yes])


ONE = {"x": np.ones(1, np.float32)}


class TestParity:
    @pytest.mark.parametrize("name", MODELS)
    def test_a_model_gives_what_it_gave_in_training(self, target, subjects, name, request):
        subject = subjects(name)
        temporary = request.getfixturevalue("temporary")  # empty: what torch leaves there is no concern here
        result = compare(target, subject)
        assert (result.status, result.evidence) == ("passed", "executed-native"), result.detail
        assert [output.status for output in result.outputs] == ["passed"] * len(result.outputs)
        assert (
            result.versions["onnxruntime-web"]
            == json.loads((SCRIPTS / "package.json").read_text())["dependencies"]["onnxruntime-web"]
        )
        assert "Chrome/" in result.versions["browser"] if target.name == "browser" else result.versions["node"]
        assert result.times.create > 0
        assert result.times.first > 0
        assert len(result.times.calls) == 2
        assert result.counters["wasm_heap_bytes"] > 1 << 20
        assert (processes(temporary), list(temporary.iterdir())) == ([], [])

    def test_values_of_every_type_come_through(self, target, tmp_path):
        feeds = {name: np.array([[0, 1, 100]], name) for name in (
            "float32", "float16", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        )}  # fmt: skip
        feeds |= {
            "bool": np.array([True, False]),
            "text": np.array([["a", "", "żółw 🐢"]], object),
            "empty": np.zeros((0, 3), np.float32),
            "scalar": np.array(-(2**62)),
        }
        kinds = {name: helper.np_dtype_to_tensor_dtype(array.dtype) for name, array in feeds.items() if name != "text"}
        kinds["text"] = TensorProto.STRING
        nodes = [helper.make_node("Identity", [name], [f"same_{name}"]) for name in feeds]
        ends = [
            [helper.make_tensor_value_info(f"{prefix}{name}", kinds[name], feeds[name].shape) for name in feeds]
            for prefix in ("", "same_")
        ]
        model = small_model(tmp_path / "the same #1 ż%20.onnx", nodes, *ends)
        (outputs,) = run(target, model, [f"same_{name}" for name in feeds], feeds).outputs
        for expected, got in zip(feeds.values(), outputs, strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
            np.testing.assert_array_equal(got, expected)

    @pytest.mark.slow
    def test_two_at_once(self, ready, subjects):
        names = [name for name in NAMES if not ready[name]]
        if not names:
            pytest.skip(ready["node"])
        found = {}
        subject = subjects("DPQ and GRU")

        def on(name, number):
            found[name, number] = compare(make_target(name), subject)

        threads = [threading.Thread(target=on, args=(name, number)) for name in names for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 2 * len(names)
        assert {result.status for result in found.values()} == {"passed"}


class TestFailures:
    def test_what_the_runtime_refuses_is_told_in_its_words(self, target, subjects, tmp_path):
        model = onnx.load(subjects("DPQ and GRU").model)
        del model.functions[:]
        onnx.save(model, tmp_path / "bodiless.onnx")
        result = compare(target, Subject(tmp_path / "bodiless.onnx", subjects("DPQ and GRU").program))
        assert result.status == "failed"
        assert "edge_embed:DPQEmbedding" in result.detail
        assert "is not a registered function/op" in result.detail

    def test_an_id_that_no_row_has_is_refused(self, target, subjects):
        subject = subjects("DPQ and GRU")
        with pytest.raises(RunFailedError, match="indices element out of data bounds"):
            run(target, subject.model, subject.program.output_names, {"ids": np.array([[1, 600]])})

    def test_external_data_that_is_missing_is_told(self, target, subjects):
        subject = subjects("DPQ and GRU, external data")
        result = compare(target, Subject(subject.model, subject.program))
        assert result.status == "failed"
        assert "external data" in result.detail.lower()

    def test_an_endless_model_ends_by_the_time_limit(self, target, endless, temporary):
        start = time.monotonic()
        with pytest.raises(NotRunError, match=r"took more than 10 s, the time limit"):
            run(target, endless, ["y"], ONE, RunOptions(time_limit=10))
        assert time.monotonic() - start < 20
        assert processes(temporary) == []
        assert list(temporary.iterdir()) == []

    @pytest.mark.slow
    def test_a_tab_that_crashes_is_told(self, browser, endless, temporary):
        def busy_renderers():
            return [found for found in processes(temporary, "--type=renderer") if seconds_used(found) > 2]

        def kill_renderers():
            for process in wait_for(busy_renderers):
                os.kill(process, signal.SIGKILL)

        killer = threading.Thread(target=kill_renderers)
        killer.start()
        try:
            with pytest.raises(RunFailedError, match="tab crashed"):
                run(browser, endless, ["y"], ONE, RunOptions(time_limit=60))
        finally:
            killer.join()
        assert processes(temporary) == []

    @pytest.mark.slow
    def test_the_browser_ends_with_the_process_that_started_it(self, browser, endless, temporary):
        code = f"""
import numpy as np, pathlib, types
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import RunOptions, Subject
subject = Subject(pathlib.Path({str(endless)!r}), types.SimpleNamespace(output_names=["y"]))
with make_target("browser").prepare(subject, RunOptions()) as prepared:
    prepared.run([{{"x": np.ones(1, np.float32)}}], RunOptions())
"""
        environment = {**os.environ, "TMPDIR": str(temporary)}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        try:
            assert wait_for(lambda: processes(temporary, "--type=renderer"))
        finally:
            process.kill()
            process.wait()
        assert wait_for(lambda: not processes(temporary))

    def test_a_long_path_for_temporary_files_is_no_problem(self, browser, subjects, monkeypatch, tmp_path):
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
        assert len(str(tmp_path)) > 60
        assert compare(browser, subjects("DPQ and GRU")).status == "passed"

    def test_a_browser_that_does_not_start_is_not_run(self, browser, endless, monkeypatch, tmp_path):
        (tmp_path / "chromium").write_text("#!/bin/sh\necho 'no usable sandbox' >&2\nexit 3\n")
        (tmp_path / "chromium").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(NotRunError, match=r"opened no page: .*status 3: no usable sandbox"):
            run(browser, endless, ["y"], ONE)


class TestWhatIsMissing:
    def test_absent_programs_are_named_with_their_commands(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        commands = {name: [problem.remedy for problem in make_target(name).lacks()] for name in NAMES}
        assert commands == {
            "node": ["apt-get install nodejs", "apt-get install npm"],
            "browser": ["apt-get install chromium", "apt-get install npm"],
        }

    def test_without_a_connection_nothing_is_installed(self, monkeypatch, tmp_path, endless):
        if not shutil.which("npm"):
            pytest.skip("npm is not found")
        cache = tmp_path / "cache"
        monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
        monkeypatch.setenv("npm_config_cache", str(tmp_path / "npm"))
        monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9")
        with pytest.raises(NotRunError, match=r"onnxruntime-web-[\d.]+ cannot be downloaded, is there a connection\?"):
            run(make_target("node"), endless, ["y"], ONE)
        assert list(cache.rglob("*")) == [cache / "edge-embed"]


class TestScripts:
    """The JavaScript side of the tensors."""

    @pytest.fixture
    def reread(self, tmp_path):
        """Reads files by JavaScript, and writes them anew or tells why not."""
        if not shutil.which("node"):
            pytest.skip("node is not found")
        (tmp_path / "reread.mjs").write_text(
            f"""
import {{ readFileSync, writeFileSync }} from "node:fs";
import {{ readTensors, writeTensors }} from {json.dumps((SCRIPTS / "tensors.mjs").as_uri())};
for (const path of process.argv.slice(2)) {{
  try {{
    writeFileSync(`${{path}}.out`, writeTensors(readTensors(new Uint8Array(readFileSync(path)))));
    console.log("read");
  }} catch (error) {{
    console.log(error.message);
  }}
}}
"""
        )

        def reread(paths):
            command = ["node", tmp_path / "reread.mjs", *paths]
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
            return done.stdout.splitlines()

        return reread

    @pytest.fixture
    def sound(self, tmp_path):
        path = tmp_path / "sound"
        write_tensors(path, {"a": np.arange(6).reshape(2, 3), "b": np.array(["x", "yz"]), "c": np.float16([1, 2])})
        return path

    def test_both_sides_write_the_same_bytes(self, reread, sound):
        assert reread([sound]) == ["read"]
        assert sound.with_name("sound.out").read_bytes() == sound.read_bytes()
        assert read_tensors(sound)["a"].tolist() == [[0, 1, 2], [3, 4, 5]]

    def test_a_file_cut_anywhere_is_an_error(self, reread, sound, tmp_path):
        whole, paths = sound.read_bytes(), []
        for size in range(len(whole)):
            paths.append(tmp_path / f"cut{size}")
            paths[-1].write_bytes(whole[:size])
        said = reread(paths)
        assert len(said) == len(whole)
        assert all("expected" in line or "no file of tensors" in line for line in said)
        for path in paths:
            with pytest.raises((ValueError, OSError)):
                read_tensors(path)

    def test_sizes_out_of_all_proportion_are_errors(self, reread, sound, tmp_path):
        whole, paths = sound.read_bytes(), []
        for at in range(8, len(whole) - 8):
            paths.append(tmp_path / f"wrong{at}")
            paths[-1].write_bytes(whole[:at] + b"\xff" * 8 + whole[at + 8 :])
        said = reread(paths)
        assert len(said) == len(paths)
        assert "read" not in said[:40]  # the counts and sizes of the first tensor


class TestServer:
    @pytest.fixture
    def server(self, tmp_path):
        (tmp_path / "model.onnx").write_text("the model")
        (tmp_path / "secret").write_text("secret")
        with JobServer({"model.onnx": tmp_path / "model.onnx"}, {"result.json": tmp_path / "result.json"}) as server:
            yield server

    @pytest.mark.parametrize("path", ["model.onnx", "{wrong}model.onnx", "{base}secret", "{base}../secret", ""])
    def test_only_its_page_gets_only_its_files(self, server, path):
        origin = f"http://127.0.0.1:{server.server_port}"
        with urllib.request.urlopen(f"{origin}{server.base}model.onnx") as answer:
            assert answer.read() == b"the model"
        asked = "/" + path.format(base=server.base[1:], wrong="x" * 22 + "/")
        for method in ("GET", "PUT"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(urllib.request.Request(origin + asked, b"x", method=method))
            assert refused.value.code == 404
        assert not server.ended

    def test_a_result_that_cannot_be_stored_ends_the_job(self, server, tmp_path):
        (tmp_path / "result.json").mkdir()
        with pytest.raises(OSError, match=r"closed|reset|refused"):
            url = server.url.replace("page.html", "result.json")
            urllib.request.urlopen(urllib.request.Request(url, b"{}", method="PUT"))
        assert "cannot be stored" in server.failure
