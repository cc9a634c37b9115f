"""The emulated arm64 processor: the real ONNX Runtime, cross-built kernels, instruction counts in place of time."""

import resource
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from edge_embed.report.views.targets import target_table
from edge_embed.runtime.library import installed_path
from edge_embed.targets import arm64, arm64_files, build, ssh
from edge_embed.targets.arm64 import COUNTERS, EMULATOR, Arm64, Emulated, make_root
from edge_embed.targets.arm64_files import C_LIBRARY
from edge_embed.targets.catalog import make_target
from edge_embed.targets.process import run_program
from edge_embed.targets.runner import RunnerModel
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject

OPTIONS = RunOptions(time_limit=300)
IDS = [{"ids": np.array([[3, 1, 699], [5, 0, 6]])}]
# Loads and stores of A64, each with the number of instructions that load and store.
ACCESSES = [
    ("ldr x3, [x0]", 1, 0),
    ("ldrsw x3, [x0, #4]", 1, 0),
    ("ldrb w3, [x0, x9]", 1, 0),
    ("ldur q0, [x0, #1]", 1, 0),
    ("ldr q0, [x0], #0", 1, 0),
    ("ldp q0, q1, [x0]", 1, 0),
    ("ldpsw x3, x4, [x0]", 1, 0),
    ("ld1 {v0.16b, v1.16b}, [x0]", 1, 0),
    ("ld1r {v0.4s}, [x0]", 1, 0),
    ("ld1 {v0.s}[1], [x0]", 1, 0),
    ("ldr x3, 1b", 1, 0),
    ("ldar x3, [x0]", 1, 0),
    ("ldaxr x3, [x0]", 1, 0),
    ("ldapr x3, [x0]", 1, 0),
    ("str x3, [x0]", 0, 1),
    ("strh w3, [x0, #2]", 0, 1),
    ("str q0, [x0, #16]", 0, 1),
    ("stur s0, [x0, #3]", 0, 1),
    ("stp q0, q1, [x0]", 0, 1),
    ("st1 {v0.4s}, [x0]", 0, 1),
    ("st1 {v0.s}[2], [x0]", 0, 1),
    ("stlr x3, [x0]", 0, 1),
    ("stlxr w4, x3, [x0]", 0, 1),
    ("ldadd x9, x4, [x0]", 1, 1),
    ("swp x3, x4, [x0]", 1, 1),
    ("cas x3, x4, [x0]", 1, 1),
    ("casp x4, x5, x6, x7, [x0]", 1, 1),
    ("prfm pldl1keep, [x0]", 0, 0),
    ("prfum pstl1keep, [x0, #1]", 0, 0),
    ("add x3, x3, #1", 0, 0),
    ("fmla v0.4s, v1.4s, v2.4s", 0, 0),
    ("movi v0.4s, #0", 0, 0),
]


@pytest.fixture(autouse=True)
def _needs_tools(request):
    if "slow" in request.keywords and (lacks := Arm64().lacks()):
        pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))


@pytest.fixture
def no_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "edge-embed"


class TestWhatIsMissing:
    def test_missing_tools_are_named_with_their_commands(self, monkeypatch, tmp_path):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(build.sys, "executable", str(tmp_path / "python"))
        lacks = {problem.what: problem.remedy for problem in Arm64().lacks()}
        assert lacks["qemu-aarch64 is missing"] == "apt-get install qemu-user"
        assert lacks["aarch64-linux-gnu-g++ is missing"] == "apt-get install g++-aarch64-linux-gnu"
        assert "apt-get install cmake" in lacks["cmake is missing"]
        assert lacks["make is missing"] == "apt-get install make"

    def test_missing_connection_is_named(self, monkeypatch, no_cache, tmp_path):
        monkeypatch.setattr(arm64_files, "build_runner", lambda *_: tmp_path)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_FIND_LINKS", "")
        monkeypatch.setenv("PIP_NO_INDEX", "1")
        with pytest.raises(
            NotRunError, match=r"onnxruntime==\S+ for manylinux\S+ cannot be downloaded; check the conn"
        ):
            arm64_files.arm64_files(60)
        assert list(no_cache.iterdir()) == []

    def test_failed_build_gives_reason_and_leaves_nothing(self, monkeypatch, no_cache):
        with pytest.raises(NotRunError, match=r"the runner cannot be built: cmake: .*no-such-compiler"):
            build.build_runner("x", ["-DCMAKE_CXX_COMPILER=no-such-compiler"], 60)
        assert list(no_cache.iterdir()) == []

    def test_build_beyond_time_limit_is_ended(self, no_cache):
        with pytest.raises(
            NotRunError, match=r"the runner cannot be built: cmake: took more than 0.01 s, the time lim"
        ):
            build.build_runner("x", [], 0.01)
        assert list(no_cache.iterdir()) == []

    def test_unknown_cpu_is_refused(self):
        with pytest.raises(ValueError, match="got 'arm64:cortex-a9', expected one of cortex-a53, cortex-a76, max"):
            make_target("arm64:cortex-a9")

    def test_builds_are_separate_for_each_version_of_sources(self, monkeypatch, tmp_path):
        def key(*settings):
            build.source_key.cache_clear()
            return build.source_key(settings)

        shutil.copytree(build.source_folder(), tmp_path / "runtime_ops")
        before = key("a")
        monkeypatch.setattr(build, "source_folder", lambda: tmp_path / "runtime_ops")
        assert key("a") == before
        assert key("b") != before
        kernel = tmp_path / "runtime_ops" / "kernels" / "topk.cc"
        kernel.write_text(kernel.read_text() + "\n")
        assert key("a") != before
        build.source_key.cache_clear()


@pytest.fixture
def core_files():
    """Enable core files, as on machines where crashes write them."""
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, limits)


@pytest.mark.slow
class TestRun:
    @pytest.mark.parametrize("cpu", ["", ":cortex-a53", ":cortex-a76"])
    def test_outputs_of_every_model_match_training_form(self, model, cpu):
        result = model.on(f"arm64{cpu}", time_limit=300)
        assert (result.status, result.name, result.evidence) == ("passed", f"arm64{cpu}", "executed-emulated")
        assert all(output.values for output in result.outputs)
        assert result.versions["cpu"] == (cpu[1:] or "max")
        assert result.times is None
        assert set(result.counters) == set(COUNTERS)
        assert result.counters["instructions"] > result.counters["loads"] + result.counters["stores"] > 0
        _shown(result)

    def test_instruction_counts_are_equal_in_every_run(self, tagger):
        with Arm64().prepare(_subject(tagger), OPTIONS) as prepared:
            counted = [prepared.run(IDS, OPTIONS).counters for _ in range(5)]
            more = prepared.run([{"ids": np.tile(IDS[0]["ids"], 10)}], OPTIONS).counters
        assert counted == [counted[0]] * 5
        # Rows have 24 numbers, and an instruction stores 16 bytes.
        assert counted[0]["stores"] >= 6 * 24 / 4
        for name in COUNTERS:
            assert 3 * counted[0][name] < more[name] < 11 * counted[0][name], name

    def test_kernel_variant_can_be_chosen(self, tagger, monkeypatch):
        with Arm64().prepare(_subject(tagger), OPTIONS) as prepared:
            chosen = prepared.run(IDS, OPTIONS)
            monkeypatch.setenv("EDGE_EMBED_FORCE_ISA", "reference")
            reference = prepared.run(IDS, OPTIONS)
        assert reference.counters["instructions"] > 1.2 * chosen.counters["instructions"]
        np.testing.assert_array_equal(reference.outputs[0][0], chosen.outputs[0][0])

    def test_bad_id_is_an_error_of_the_model(self, tagger):
        with (
            Arm64().prepare(_subject(tagger), OPTIONS) as prepared,
            pytest.raises(RunFailedError, match=r"the emulated runner ended with status 1: .*id 700"),
        ):
            prepared.run([{"ids": np.array([[3, 700]])}], OPTIONS)

    def test_instruction_missing_from_cpu_is_named_as_signal(self, tagger, tmp_path, monkeypatch, core_files):
        """The first instruction of the library belongs to the dot product extension."""
        monkeypatch.chdir(tmp_path)
        library = tmp_path / "libdot.so"
        _compile(
            tmp_path / "dot.s",
            ".arch armv8.2-a+dotprod\n.global RegisterCustomOps\n.type RegisterCustomOps, %function\n"
            "RegisterCustomOps: sdot v0.4s, v1.16b, v2.16b\nmov x0, #0\nret\n",
            library,
            "-shared",
        )
        with Arm64("cortex-a53").prepare(_subject(tagger), OPTIONS) as prepared:
            place = prepared.place
            files = replace(place.files, libraries=[library])
            dot = Emulated(files, place.model, "cortex-a53", place.root, counts=True)
            with pytest.raises(RunFailedError, match="the emulated runner was ended by signal SIGILL"):
                RunnerModel(["output"], dot).run(IDS, OPTIONS)
            has_it = Emulated(dot.files, dot.model, "cortex-a76", place.root, counts=True)
            assert RunnerModel(["output"], has_it).run(IDS, OPTIONS).outputs  # by the portable body
        assert list(tmp_path.glob("*.core")) == []

    def test_run_without_plugins_has_all_but_counts(self, tagger, monkeypatch, tmp_path):
        monkeypatch.setattr(arm64, "installed_path", lambda _: tmp_path / "no-plugin.so")
        result = tagger.on("arm64", time_limit=300)
        assert result.status == "passed"
        assert result.counters == {}
        assert result.versions["qemu"].endswith("without support for plugins, so nothing is counted")
        assert "instructions" not in _shown(result)

    def test_arm64_machine_behind_ssh_gets_same_files(self):
        files = ssh._files_for("Linux aarch64", OPTIONS)
        for path in (files.runner, files.runtime, *files.libraries):
            assert Path(path).read_bytes()[18] == 0xB7, path  # the processor in the header of an ELF file

    def test_run_beyond_time_limit_is_ended(self, tagger):
        with (
            Arm64().prepare(_subject(tagger), OPTIONS) as prepared,
            pytest.raises(
                NotRunError, match=r"the emulated runner took more than 0.1 s, the time limit, and was ended"
            ),
        ):
            prepared.run(IDS, replace(OPTIONS, time_limit=0.1))

    def test_folders_may_have_any_name(self, tagger, monkeypatch, tmp_path):
        odd = tmp_path / "a, b=c 'd'"
        odd.mkdir()
        monkeypatch.setattr(arm64.tempfile, "tempdir", str(odd))
        shutil.copy(tagger.path, odd / "it's, x=1.onnx")
        subject = Subject(odd / "it's, x=1.onnx", tagger.program)
        with Arm64().prepare(subject, OPTIONS) as prepared:
            assert prepared.run(IDS, OPTIONS).counters["loads"] > 0
        assert [path.name for path in odd.iterdir()] == ["it's, x=1.onnx"]


@pytest.mark.slow
def test_loads_and_stores_are_counted_separately(tmp_path):
    """Each instruction between two marks in the counted code is counted, and no instruction outside it."""
    tell = "mov x8, #57\nmov w0, #{0}\nmovk w0, #{1}, lsl 16\nsvc 0\n"
    mark = tell.format(0x726B, 0x6D61)
    blocks = "".join(f"bl counted{n}\n{mark}" for n in range(len(ACCESSES)))
    # Each is alone in a block: casp requires even registers, and the exclusive store may fail.
    counted = "".join(
        f"1: counted{n}:\nadrp x0, data\nadd x0, x0, :lo12:data\nmov x9, #0\n{text}\nret\n.balign 8\n"
        for n, (text, _, _) in enumerate(ACCESSES)
    )
    _compile(
        tmp_path / "accesses.s",
        ".arch armv8.5-a\n.global _start\n_start:\nadr x1, begin\nadr x2, end\n"
        + tell.format(0x6E67, 0x7261)
        + mark
        + blocks
        + "mov x8, #93\nmov x0, #0\nsvc 0\n.balign 8\nbegin:\n"
        + counted
        + "end:\n.data\n.balign 64\ndata: .skip 256\n",
        tmp_path / "accesses",
        "-static",
        "-nostdlib",
    )
    plugin, out = installed_path("edge_embed_count"), tmp_path / "counts"
    run_program([EMULATOR, "-plugin", f"{plugin},out={out}", tmp_path / "accesses"], 60, what="it")
    lines = [[int(number) for number in line.split()] for line in out.read_text().splitlines()]
    assert lines[0] == [0, 0, 0]
    found = [[b - a for a, b in zip(before, after, strict=True)] for before, after in pairwise(lines)]
    assert found == [[5, loads, stores] for _, loads, stores in ACCESSES]


def test_root_describes_machine_of_that_processor(tmp_path):
    root = make_root(tmp_path, "cortex-a53")
    description = (root / "proc" / "cpuinfo").read_text()
    assert "CPU part\t: 0xd03" in description
    assert "asimddp" not in description
    assert (root / "lib").readlink() == C_LIBRARY


def _subject(model):
    return Subject(model.path, model.program)


def _compile(path: Path, text: str, out: Path, *options: str) -> None:
    path.write_text(text)
    done = subprocess.run(
        ["aarch64-linux-gnu-gcc", *options, "-o", out, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def _shown(result) -> str:
    from rich.console import Console

    console = Console(width=200)
    with console.capture() as capture:
        console.print(target_table([result]))
    return capture.get()
