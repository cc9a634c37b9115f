"""The targets of every installation: a process of its own, the reference evaluator, torch."""

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_embed import workflow
from edge_embed.runtime.library import ENVIRONMENT_NAME, get_library_path
from edge_embed.targets.catalog import make_target
from edge_embed.targets.runner import RunnerModel, ThisMachine, own_files, runner_command
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject
from edge_embed.targets.tensors import write_tensors
from edge_embed.validation.options import ValidationOptions

from ..endless import endless_loop, loop_tensors

OPTIONS = RunOptions(iterations=3, time_limit=60)


TARGETS = ("local", "portable", "reference", "torch-cpu")


@pytest.fixture(scope="module")
def results(model):
    """Return the results of one validation of a model on all targets."""
    options = ValidationOptions(iterations=2, targets=TARGETS)
    return dict(zip(TARGETS, workflow.validate(model.program, model.path, options=options).targets, strict=True))


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_of_every_model_match_training_form(model, results, target):
    result = results[target]
    assert (result.status, result.name, result.evidence) == ("passed", target, "executed-native")
    assert [output.name for output in result.outputs] == list(model.program.output_names)
    assert all(output.values for output in result.outputs)
    assert result.versions
    if target in ("local", "portable"):
        assert min(result.times.create, result.times.first, *result.times.calls) > 0
        assert len(result.times.calls) == 2
        assert 0 < result.counters["resident_bytes"] < result.counters["peak_bytes"]


def test_local_target_runs_kernel_and_portable_does_not(tagger, monkeypatch, tmp_path):
    """Only the kernel can run a node without a body."""
    bare = onnx.load(tagger.path)
    del bare.functions[:]
    path = tmp_path / "bare.onnx"
    onnx.save(bare, path)
    case = [{"ids": np.array([[3, 1]])}]
    assert RunnerModel(["output"], ThisMachine(path, [get_library_path()])).run(case, OPTIONS).outputs[0][0].shape == (
        1,
        2,
        8,
    )
    with pytest.raises(RunFailedError, match=r"the runner ended with status 1: edge_embed_runner: .*DPQEmbedding"):
        RunnerModel(["output"], ThisMachine(path, [])).run(case, OPTIONS)


def test_wrong_numbers_fail_with_exit_code_3(tagger, tmp_path):
    wrong = onnx.load(tagger.path)
    (weight,) = (tensor for tensor in wrong.graph.initializer if list(tensor.dims) == [1, 24, 8])  # of the GRU
    values = onnx.numpy_helper.to_array(weight) * 1.01
    weight.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float32), weight.name))
    onnx.save(wrong, tmp_path / "wrong.onnx")
    options = ValidationOptions(iterations=0, targets=("local",))
    report = workflow.validate(tagger.program, tmp_path / "wrong.onnx", options=options)
    assert report.targets[0].status == "failed"
    assert report.exit_code == 3


def test_target_that_cannot_run_is_no_pass(tagger, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    options = ValidationOptions(iterations=0, targets=("torch-cuda", "local"))
    report = workflow.validate(tagger.program, tagger.path, options=options)
    assert [target.status for target in report.targets] == ["not run", "passed"]
    assert "found no GPU: use a machine with a GPU" in report.targets[0].detail
    assert (report.passed, report.complete, report.exit_code) == (True, False, 1)
    content = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert [target["evidence"] for target in content["targets"]] == ["executed-native", "executed-native"]


def endless(path):
    graph = helper.make_graph(
        [endless_loop("start", "output")],
        "endless",
        [helper.make_tensor_value_info("start", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1])],
        loop_tensors(),
    )
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]), path)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process is not told that another was killed")
def test_runner_ends_with_killed_process(tmp_path):
    """The process that started the runner is killed; any other end of it ends the runner too."""
    write_tensors(tmp_path / "0.in", {"start": np.ones(1, np.float32)})
    command = runner_command(own_files([]), endless(tmp_path / "endless.onnx"), tmp_path, OPTIONS)
    parent = f"import subprocess; child = subprocess.Popen({command!r}); print(child.pid, flush=True); child.wait()"
    with subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True) as process:
        child = Path("/proc", process.stdout.readline().strip())
        time.sleep(1)  # until the runner has asked for a signal at its parent's end
        assert child.exists()
        process.kill()
        process.wait()
    end = time.monotonic() + 30
    while child.exists() and "\nState:\tZ" not in (child / "status").read_text():
        assert time.monotonic() < end, "the runner goes on"
        time.sleep(0.05)


def test_model_that_never_ends_is_ended(tmp_path):
    place = ThisMachine(endless(tmp_path / "endless.onnx"), [])
    with pytest.raises(NotRunError, match="took more than 1 s, the time limit, and was ended"):
        RunnerModel(["output"], place).run([{"start": np.ones(1, np.float32)}], RunOptions(time_limit=1))


def test_bad_id_is_an_error_of_the_model_and_no_crash(tagger):
    with make_target("local").prepare(_subject(tagger), OPTIONS) as prepared:
        with pytest.raises(RunFailedError, match=r"edge_embed_runner: .*id 700"):
            prepared.run([{"ids": np.array([[3, 700]])}], OPTIONS)
        outputs = prepared.run([{"ids": np.zeros((1, 1), np.int64)}], OPTIONS).outputs
    assert outputs[0][0].shape == (1, 1, 8)


def test_tensors_of_all_types_pass_through_runner(tmp_path):
    types = [np.bool_, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
    arrays = {dtype.__name__: np.array([[0, 1, 1]], dtype) for dtype in (*types, np.float16, np.float32, np.float64)}
    arrays["text"] = np.array([["", "é中", "a b"]], object)
    arrays["nothing"] = np.empty((0, 3), np.float32)
    arrays["number"] = np.array(7, np.int64)
    kinds = {
        name: TensorProto.STRING if array.dtype == object else helper.np_dtype_to_tensor_dtype(array.dtype)
        for name, array in arrays.items()
    }
    graph = helper.make_graph(
        [helper.make_node("Identity", [name], [f"{name}/out"]) for name in arrays],
        "types",
        [helper.make_tensor_value_info(name, kind, None) for name, kind in kinds.items()],
        [helper.make_tensor_value_info(f"{name}/out", kind, None) for name, kind in kinds.items()],
    )
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    place = ThisMachine(tmp_path / "m.onnx", [])
    run = RunnerModel([f"{name}/out" for name in arrays], place).run([arrays], OPTIONS)
    for array, got in zip(arrays.values(), run.outputs[0], strict=True):
        assert (got.dtype, got.shape, got.tolist()) == (array.dtype, array.shape, array.tolist())


def test_damaged_case_is_refused_by_runner(tagger, tmp_path):
    """Each byte of the file is changed or cut off: the runner ends with an error or a result, never with a signal."""
    write_tensors(tmp_path / "0.in", {"ids": np.array([[3, 1]])})
    whole = (tmp_path / "0.in").read_bytes()
    place = ThisMachine(tagger.path, [get_library_path()])
    for at in range(0, len(whole), 5):
        for damaged in (whole[:at], whole[:at] + b"\xff" + whole[at + 1 :]):
            (tmp_path / "0.in").write_bytes(damaged)
            with pytest.raises(RunFailedError, match="ended with status 1: edge_embed_runner: "):
                place.execute(tmp_path, OPTIONS)


def test_library_of_environment_variable_is_used(tagger, monkeypatch, tmp_path):
    (tmp_path / "x.so").write_bytes(b"no library")
    monkeypatch.setenv(ENVIRONMENT_NAME, str(tmp_path / "x.so"))
    assert "x.so" in make_target("local").lacks()[0].what


def _subject(model):
    return Subject(model.path, model.program)
