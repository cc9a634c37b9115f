"""Packages for Linux: executed here and under QEMU, used by a project of CMake, loaded by ONNX Runtime."""

import json
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from ort_nodes import TABLES, assert_close, open_session, run
from sparse_activations import export_activations
from tflite_models import rows_model

from edge_embed.cli import main
from edge_embed.targets.arm64 import Arm64, Emulated, make_root
from edge_embed.targets.arm64_files import arm64_files
from edge_embed.targets.build import cmake_program
from edge_embed.targets.runner import RunnerModel
from edge_embed.targets.target import RunOptions

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        sys.platform != "linux" or sysconfig.get_platform() != "linux-x86_64", reason="the host must be x86-64 Linux"
    ),
]
PROJECT = """cmake_minimum_required(VERSION 3.24)
project(consumer LANGUAGES C)
find_package(edge_embed_ops REQUIRED)
add_executable(shared check.c)
target_link_libraries(shared PRIVATE edge_embed::ops)
add_executable(static check.c)
target_link_libraries(static PRIVATE edge_embed::ops_static)
"""

LITERT = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter, load_delegate

model, delegate = sys.argv[1:]
interpreter = Interpreter(model, experimental_delegates=[load_delegate(delegate)])
ids = np.load("ids.npy")
(given,) = interpreter.get_input_details()
interpreter.resize_tensor_input(given["index"], ids.shape)
interpreter.allocate_tensors()
interpreter.set_tensor(given["index"], ids)
interpreter.invoke()
np.save("rows.npy", interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
interpreter.set_tensor(given["index"], np.full_like(ids, 50))
try:
    interpreter.invoke()
except RuntimeError as error:
    open("error.txt", "w").write(str(error))
"""


def test_linux_x64_library_ran_with_each_instruction_set(packaged):
    package = packaged("linux-x64")
    assert package.proof("lib/libedge_embed_ops.so") == ("executed", "executed-native")
    assert package.report.not_executed == ()
    (library,) = (file for file in package.report.files if file.path == "lib/libedge_embed_ops.so")
    isas = library.detail.partition("; ran ")[2].split(", ")
    print("instruction sets:", *isas)
    assert isas[-2:] == ["portable", "reference"]


def test_linux_libraries_load_with_the_stated_glibc(packaged):
    for name in ("lib/libedge_embed_ops.so", "lib/libedge_embed_tflite.so"):
        assert packaged("linux-x64").binary(name).minimum == "2.14"
        assert packaged("linux-arm64").binary(name).minimum == "2.17"


def test_linux_arm64_library_ran_under_qemu(packaged):
    if shutil.which("qemu-aarch64") is None or not Path("/usr/aarch64-linux-gnu").is_dir():
        pytest.skip("qemu-aarch64 or libc for arm64 is missing: apt-get install qemu-user libc6-arm64-cross")
    assert packaged("linux-arm64").proof("lib/libedge_embed_ops.so") == ("executed", "executed-emulated")


@pytest.mark.parametrize("method", TABLES)
def test_linux_library_runs_in_onnx_runtime(packaged, method):
    table = TABLES[method](padding_idx=0)
    library = packaged("linux-x64").folder / "lib" / "libedge_embed_ops.so"
    session = open_session(table.model(), library=library)
    ids = np.arange(50).reshape(10, 5)
    assert_close(run(session, ids), np.float32, table.rows64[ids], table.magnitudes[ids])
    with pytest.raises(Exception, match=r"got id 50 at position 0 .*expected 0 <= id < 50"):
        run(session, np.array([[50]]))


def test_linux_libraries_run_sparse_activations_in_onnx_runtime(packaged, tmp_path):
    """The library of this machine, and the NEON kernels of that for arm64 under QEMU."""
    inputs, expected = export_activations(tmp_path / "model.onnx")
    session = open_session(tmp_path / "model.onnx", library=packaged("linux-x64").folder / "lib/libedge_embed_ops.so")
    np.testing.assert_allclose(run(session, *inputs.values()), expected, rtol=0, atol=1e-6)
    if lacks := Arm64().lacks():
        pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))
    library = packaged("linux-arm64").folder / "lib" / "libedge_embed_ops.so"
    files, options = replace(arm64_files(300), libraries=[library]), RunOptions(time_limit=300)
    root = tmp_path / "root"
    root.mkdir()
    place = Emulated(files, tmp_path / "model.onnx", "max", make_root(root, "max"), counts=False)
    ((found,),) = RunnerModel(["out0"], place).run([inputs], options).outputs
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6)


def test_linux_delegate_runs_in_litert(packaged, tmp_path):
    table = TABLES["dpq"]()
    model = rows_model(tmp_path / "model.tflite", table)
    delegate = packaged("linux-x64").folder / "lib" / "libedge_embed_tflite.so"
    ids = np.array([[49, 0, 7]], np.int32)
    np.save(tmp_path / "ids.npy", ids)
    command = [sys.executable, "-c", LITERT, model, delegate]  # another process: this one has the installed library
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert np.load(tmp_path / "rows.npy").tobytes() == table.rows64[ids].astype(np.float32).tobytes()
    assert "got id 50" in (tmp_path / "error.txt").read_text()


def test_linux_package_command_prints_json_and_keeps_an_earlier_folder(packaged, tmp_path):
    packaged("linux-x64")
    line = ["package", "--platform", "linux-x64", "-o", str(tmp_path / "out"), "--json"]
    runs = [CliRunner().invoke(main, arguments) for arguments in (line, line, [*line, "--force"])]
    assert [run.exit_code for run in runs] == [0, 2, 0]
    report = json.loads(runs[0].stdout)
    assert {file["path"]: file["proof"] for file in report["files"]}["lib/libedge_embed_ops.so"] == "executed"
    assert (tmp_path / "out" / "edge_embed_package.txt").read_text().count("\n") == len(report["files"]) + 2
    assert "exists" in json.loads(runs[1].stdout)["error"]


def test_linux_package_is_found_by_cmake_and_pkg_config(packaged, tmp_path):
    package = packaged("linux-x64").folder
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    shutil.copy2(Path(__file__).parents[2] / "runtime_ops" / "package" / "check.c", tmp_path)
    cmake = cmake_program()
    assert cmake is not None
    for step in (
        ["-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={package}"],
        ["--build", tmp_path / "build"],
    ):
        done = subprocess.run([cmake, *step], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    for program in ("shared", "static"):
        done = subprocess.run([tmp_path / "build" / program], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
    config = shutil.which("pkg-config")
    if config is not None:
        flags = [config, f"--with-path={package / 'lib' / 'pkgconfig'}", "--cflags", "--libs", "edge_embed_tflite"]
        shown = subprocess.run(flags, capture_output=True, text=True, check=True).stdout.split()
        assert "-ledge_embed_ops" in shown
        (folder,) = (word[2:] for word in shown if word.startswith("-I"))
        assert (Path(folder) / "edge_embed" / "tflite.h").is_file()
