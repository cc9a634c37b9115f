"""Every use of every method, and whole models, on WebGPU in Chromium: parity, and where the nodes ran."""

import itertools
import re
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.targets.catalog import make_target
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions
from edge_embed.targets.web.package import WEBGPU, fetch_runtime
from edge_embed.targets.web.webgpu import CLAIMED, Node, check_placement

from ...exporters.onnx import bodies
from .conftest import MODELS, compare, processes, run, small_model

GPU, CPU = "WebGpuExecutionProvider", "CPUExecutionProvider"
IDS = np.random.default_rng(0).integers(0, 20, 600)  # bodies have other branches for 512 ids
BAG_IDS, OFFSETS = np.array([1, 5, 0, 19, 0, 7]), np.array([0, 2, 2, 6])
WEIGHTS = np.array([0.5, -1, 2, 1, 3, 1])
MODES = ("sum", "mean", "max")
# Without a GPU, each of the others takes half a minute.
_NAMES = [name for name in MODELS if "16" not in name and name != "DPQ and GRU"]
SOME_LONG = [name if name.startswith("TT") else pytest.param(name, marks=pytest.mark.long) for name in _NAMES]


@pytest.fixture(scope="module")
def webgpu():
    target = make_target("browser-webgpu")
    if lacks := target.lacks():
        pytest.skip("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))
    try:
        fetch_runtime(300, WEBGPU)
    except NotRunError as error:
        pytest.skip(str(error))
    return target


def tables(kind: str) -> dict:
    made = {name: make(dtype=kind, padding_idx=0) for name, make in bodies.TABLES.items()}
    if kind == "float16":
        del made["scaled dpq"], made["tiered"]  # their rows are float32
    return made | {"ant": bodies.ant(anchors=90, dtype=kind, density=0.9, padding_idx=0)}  # rows of over 64 anchors


def all_uses(made: dict, kind: str) -> tuple[onnx.ModelProto, dict, dict]:
    """Return a model of a node for each use of each table, its feeds, and what it returns in float64."""
    feeds = {"ids": IDS, "bag_ids": BAG_IDS, "offsets": OFFSETS, "weights": WEIGHTS.astype(kind)}
    feeds |= {"none": np.zeros(0, kind), "bias": np.linspace(-1, 1, 20).astype(kind)}
    nodes, outputs, expected = [], {}, {}
    for name, packed in made.items():
        rows = packed.rows_float64(np.arange(20))
        state = np.random.default_rng(1).standard_normal((3, rows.shape[1])).astype(kind)
        feeds[f"{name} state"] = state
        scores = state.astype(np.float64) @ rows.T

        def add(use, inputs, outcome, name=name, packed=packed, **options):
            label = f"{name} {options.get('mode', use)}"
            names = [label, f"{label} ids"][: len(outcome)]
            nodes.append(bodies.node_of(packed, use, inputs, *names, prefix=f"{name} ", **options))
            for output, values in zip(names, outcome, strict=True):
                outputs[output] = (values.dtype if values.dtype == np.int64 else kind, values.ndim)
                expected[output] = values

        add("rows", ["ids"], [rows[IDS]])
        for mode in MODES:
            weights = "weights" if mode == "sum" else None
            found = bags(rows, mode)
            add("bag", ["bag_ids", "offsets", weights or "none"], [found], mode=mode, weights=weights)
        add("logits", [f"{name} state"], [scores])
        with_bias = scores + feeds["bias"].astype(np.float64)
        best = np.argsort(-with_bias, 1, "stable")[:, :4]
        add("topk", [f"{name} state", "bias"], [np.take_along_axis(with_bias, best, 1), best], bias="bias", k=4)
    return bodies.model_of(nodes, feeds, outputs), feeds, expected


def bags(rows, mode):
    """Return the bags of `BAG_IDS`, of which ids of padding are no part."""
    found = []
    for begin, end in itertools.pairwise(OFFSETS):
        kept = [at for at in range(begin, end) if BAG_IDS[at] != 0]
        terms = rows[BAG_IDS[kept]] * (WEIGHTS[kept, None] if mode == "sum" else 1)
        found.append(getattr(np, mode)(terms, 0) if kept else np.zeros(rows.shape[1]))
    return np.array(found)


@pytest.mark.slow
class TestParity:
    @pytest.mark.parametrize("kind", ["float32", "float16"])
    def test_uses_of_every_method_match_definition(self, webgpu, kind, tmp_path):
        model, feeds, expected = all_uses(tables(kind), kind)
        if kind == "float32":
            assert {node.op_type for node in model.graph.node} == set(OPERATORS)
        onnx.save(model, tmp_path / "all.onnx")
        try:
            ran = run(webgpu, tmp_path / "all.onnx", list(expected), feeds, RunOptions(iterations=0, time_limit=300))
        except NotRunError as error:
            assert (kind, str(error).split(",")[0]) == ("float16", "the adapter has no shader-f16")  # noqa: PT017
            return
        for (name, values), got in zip(expected.items(), ran.outputs[0], strict=True):
            if values.dtype == np.int64:
                np.testing.assert_array_equal(got, values, name)
            else:
                assert got.dtype == kind
                bound = 200 * np.finfo(kind).eps
                np.testing.assert_allclose(got, values, bound, bound, err_msg=name)
        assert ran.counters["webgpu_nodes"] > 0
        assert ran.counters["cpu_nodes"] > 0  # ids are integers of 64 bits
        assert (ran.evidence == "executed-emulated") == ("swiftshader" in ran.versions["adapter"])
        assert (ran.times is None) == (ran.evidence == "executed-emulated")

    @pytest.mark.parametrize("name", SOME_LONG)
    def test_outputs_of_model_match_training_form(self, webgpu, subjects, name, request):
        subject = subjects(name)
        temporary = request.getfixturevalue("temporary")  # late: torch's files do not count
        result = compare(webgpu, subject, RunOptions(iterations=0, time_limit=300))
        assert result.status == "passed", result.detail
        assert result.evidence in ("executed-emulated", "executed-native")
        assert result.counters["webgpu_nodes"] > 0
        assert "Chrome/" in result.versions["browser"]
        assert (processes(temporary), list(temporary.iterdir())) == ([], [])

    def test_model_without_float_node_is_refused(self, webgpu, tmp_path):
        ends = [helper.make_tensor_value_info(name, TensorProto.INT64, [1]) for name in "xy"]
        model = small_model(tmp_path / "whole.onnx", [helper.make_node("Neg", ["x"], ["y"])], ends[:1], ends[1:])
        with pytest.raises(RunFailedError, match="got no float32 node that WebGPU has to run"):
            run(webgpu, model, ["y"], {"x": np.ones(1, np.int64)})


def test_claimed_operators_are_those_of_page():
    page = (Path(__file__).parents[3] / "docs/verification/targets.md").read_text(encoding="utf-8")
    section = page.partition("## Nodes on WebGPU")[2].partition("The result is also")[0]
    listed = [line for line in section.splitlines() if line.startswith("- ")]
    assert sorted(re.findall("`([A-Za-z0-9]+)`", " ".join(listed))) == sorted(CLAIMED)


class TestPlacement:
    FOUND = (
        Node("MatMul", ["float", "float"], ["float"], GPU),
        Node("Add", ["int64", "int64"], ["int64"], CPU),
        Node("Cast", ["int64"], ["float"], CPU),
        Node("MemcpyToHost", ["float"], ["float"], GPU),
    )

    def test_nodes_are_counted_by_provider(self):
        assert check_placement(self.FOUND) == {"webgpu_nodes": 1, "cpu_nodes": 2, "copies": 1}

    @pytest.mark.parametrize("op_type", ["MatMul", "Gather"])
    def test_claimed_node_on_processor_fails(self, op_type):
        fallen = Node(op_type, ["float", "int64"], ["float"], CPU)
        with pytest.raises(RunFailedError, match=f"the processor ran float32 nodes .*: {op_type}$"):
            check_placement([*self.FOUND, fallen])

    def test_file_on_processor_alone_fails(self):
        with pytest.raises(RunFailedError, match="got no float32 node"):
            check_placement(self.FOUND[1:3])
