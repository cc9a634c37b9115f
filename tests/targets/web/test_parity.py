"""onnxruntime-web under Node.js and in Chromium gives the numbers of the training form."""

import json
import threading

import numpy as np
import pytest
from onnx import TensorProto, helper

from edge_embed.targets.catalog import make_target
from edge_embed.targets.web.package import SCRIPTS

from .conftest import MODELS, NAMES, compare, processes, run, small_model


class TestParity:
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.slow
    def test_outputs_of_model_match_training_form(self, target, subjects, name, request):
        subject = subjects(name)
        temporary = request.getfixturevalue("temporary")  # late: torch's files do not count
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

    def test_values_of_every_type_are_returned(self, target, tmp_path):
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
    def test_targets_at_once_give_same_results(self, ready, subjects):
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
