"""The TFLite delegate in both runtimes: bags, logits and top-k."""

from itertools import pairwise

import numpy as np
import pytest
from ort_nodes import AntTable, DpqTable, TtTable, assert_close, assert_same_bits
from tflite_models import Model, add_rows, add_table, line, manifest

RANDOM = np.random.default_rng(11)


def bag_model(path, table, mode, *, offsets=None, weighted=False):
    """Write bags with given offsets. An operator that computes something else stands for the body and never runs."""
    model = Model()
    inputs = [model.tensor("ids", np.int32, [-1])]
    inputs += [model.tensor("offsets", offsets, [-1])] if offsets else []
    inputs += [model.tensor("sample_weights", np.float32, [-1])] if weighted else []
    add_table(model, table)
    out = model.tensor("bags", np.float32, [-1, table.dim])
    model.operator("CONCATENATION", inputs, [out], "ConcatenationOptions", axis=0)
    others = {"sample_weights": "sample_weights"} if weighted else {}
    text = manifest(line("bag", table, ids="ids", offsets="offsets", output="bags", mode=mode, **others))
    return model.write(path, inputs, [out], text)


def fixed_bag_model(path, table):
    """Write sums of ids [B, L], one bag a row, with a body that computes them."""
    model = Model()
    ids = model.tensor("ids", np.int32, [-1, -1])
    add_table(model, table)
    rows = add_rows(model, table, ids, "rows", 2)
    axis, out = model.constant("axis", np.array([1], np.int32)), model.tensor("bags", np.float32, [-1, table.dim])
    model.operator("SUM", [rows, axis], [out], "ReducerOptions", keepDims=False)
    return model.write(path, [ids], [out], manifest(line("bag", table, ids="ids", output="bags", mode=0)))


def output_layer_model(path, table, k=None, ids_dtype=np.int32, **tensors):
    """Write logits [*, n], or top-k, with a body that computes them."""
    model = Model()
    hidden = model.tensor("hidden", np.float32, [-1, table.dim])
    add_table(model, table, **tensors)
    dense = model.constant("dense", table.rows64.astype(np.float32))
    logits = model.tensor("logits", np.float32, [-1, table.num_embeddings])
    model.operator("BATCH_MATMUL", [hidden, dense], [logits], "BatchMatMulOptions", adjY=True)
    if k is None:
        text = manifest(line("logits", table, hidden="hidden", output="logits"))
        return model.write(path, [hidden], [logits], text)
    count = model.constant("k", np.array(k, np.int32))
    best, rows = model.tensor("best", np.float32, [-1, k]), model.tensor("best_ids", ids_dtype, [-1, k])
    model.operator("TOPK_V2", [logits, count], [best, rows], "TopKV2Options")
    fields = {"hidden": "hidden", "output": "best", "output_ids": "best_ids", "k": k}
    return model.write(path, [hidden], [best, rows], manifest(line("topk", table, **fields)))


def reduced(rows, mode):
    if len(rows) == 0:
        return np.zeros(rows.shape[1])
    return (rows.sum, rows.mean, rows.max)[mode](axis=0)


class TestBags:
    @pytest.mark.parametrize("offsets_type", [np.int32, np.int64])
    @pytest.mark.parametrize("mode", [0, 1, 2])
    def test_bags_of_every_method_match_definition(self, tflite, tmp_path, make_any, mode, offsets_type):
        table = make_any(padding_idx=3)
        model = bag_model(tmp_path / "model.tflite", table, mode, offsets=offsets_type)
        ids = RANDOM.integers(0, 50, 40).astype(np.int32)
        ids[5] = 3
        offsets = np.array([0, 0, 7, 8, 40], offsets_type)
        results = tflite.run(model, [ids, offsets], [ids[:2], np.array([0, 2], offsets_type)])
        assert results.replaced == 1
        bags = [ids[a:b][ids[a:b] != 3] for a, b in pairwise(offsets)]
        exact = np.stack([reduced(table.rows64[bag], mode) for bag in bags])
        magnitude = np.stack([reduced(table.magnitudes[bag], mode) for bag in bags])
        assert_close(results.outputs[0][0], np.float32, exact, 2 * np.abs(magnitude))
        assert results.outputs[1][0].shape == (1, table.dim)

    def test_sample_weights_scale_rows(self, tflite, tmp_path):
        table = DpqTable()
        model = bag_model(tmp_path / "model.tflite", table, 0, offsets=np.int64, weighted=True)
        weights = np.array([0.5, -2.0, 4.0], np.float32)
        ids, offsets = np.array([4, 9, 4], np.int32), np.array([0, 1, 3])
        results = tflite.run(model, [ids, offsets, weights])
        rows = table.rows64[ids] * weights[:, None]
        exact = np.stack([rows[0], rows[1] + rows[2]])
        assert_close(results.outputs[0][0], np.float32, exact, np.abs(exact) + 4)
        tflite.refuses(
            model, "shapes of ids, offsets and sample_weights that do not match", [ids, offsets, weights[:2]]
        )

    def test_bags_of_one_per_row_match_definition(self, tflite, tmp_path, make_any):
        table = make_any()
        model = fixed_bag_model(tmp_path / "model.tflite", table)
        ids = RANDOM.integers(0, 50, (6, 5)).astype(np.int32)
        with_delegate, without = tflite.run(model, [ids]), tflite.run(model, [ids], delegate=False)
        assert (with_delegate.replaced, without.replaced) == (1, 0)
        exact, magnitude = table.rows64[ids].sum(axis=1), table.magnitudes[ids].sum(axis=1)
        assert_close(with_delegate.outputs[0][0], np.float32, exact, magnitude)
        np.testing.assert_allclose(without.outputs[0][0], exact, rtol=1e-5, atol=1e-5)

    @pytest.mark.parametrize(
        ("offsets", "message"),
        [
            ([1, 3], "at position 0 of the offsets: correct the offsets"),
            ([0, 2, 1, 3], "at position 2 of the offsets"),
            ([0, 4], "at position 1 of the offsets"),
            ([0, -1, 3], "at position 1 of the offsets"),
            ([], "shapes of ids, offsets and sample_weights that do not match"),
        ],
    )
    def test_offsets_that_do_not_fit_ids_are_refused(self, tflite, tmp_path, offsets, message):
        model = bag_model(tmp_path / "model.tflite", AntTable(), 1, offsets=np.int32)
        tflite.refuses(model, message, [np.array([4, 5, 6], np.int32), np.array(offsets, np.int32)])

    def test_id_out_of_range_is_refused(self, tflite, tmp_path):
        model = bag_model(tmp_path / "model.tflite", TtTable(), 0, offsets=np.int32)
        ids, offsets = np.array([4, 5, 50], np.int32), np.array([0, 1, 3], np.int32)
        tflite.refuses(model, "got id 50 at position 2 of the flattened ids", [ids, offsets])

    @pytest.mark.parametrize(("mode", "weighted"), [(3, False), (-1, False), (1, True)])
    def test_unknown_bag_mode_is_refused(self, tflite, tmp_path, mode, weighted):
        model = bag_model(tmp_path / "model.tflite", DpqTable(), mode, offsets=np.int32, weighted=weighted)
        tflite.refuses(model, "mode: got an unknown mode, or sample_weights with it", [])


class TestOutputLayers:
    def test_logits_of_every_method_match_definition(self, tflite, tmp_path, make_any):
        table = make_any()
        model = output_layer_model(tmp_path / "model.tflite", table)
        states = [RANDOM.standard_normal((batch, table.dim)).astype(np.float32) for batch in (1, 70)]
        results = tflite.run(model, *([hidden] for hidden in states))
        assert results.replaced == 1
        for hidden, (logits,) in zip(states, results.outputs, strict=True):
            exact = hidden.astype(np.float64) @ table.rows64.T
            assert_close(logits, np.float32, exact, np.abs(hidden).astype(np.float64) @ table.magnitudes.T)
        without = tflite.run(model, [states[0]], delegate=False)
        np.testing.assert_allclose(without.outputs[0][0], results.outputs[0][0], rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("ids_dtype", [np.int32, np.int64])
    def test_topk_of_every_method_matches_logits(self, tflite, tmp_path, make_any, ids_dtype):
        table = make_any()
        hidden = RANDOM.standard_normal((20, table.dim)).astype(np.float32)
        (logits,) = tflite.run(output_layer_model(tmp_path / "logits.tflite", table), [hidden]).outputs[0]
        results = tflite.run(output_layer_model(tmp_path / "topk.tflite", table, 7, ids_dtype), [hidden])
        values, ids = results.outputs[0]
        order = np.argsort(-logits, axis=1, kind="stable")[:, :7]
        assert results.replaced == 1
        assert_same_bits(ids, order.astype(ids_dtype))
        np.testing.assert_allclose(values, np.take_along_axis(logits, order, axis=1), rtol=1e-5, atol=1e-5)

    def test_bias_changes_topk_order(self, tflite, tmp_path):
        table = DpqTable()
        bias = np.zeros(50, np.float32)
        bias[31] = 1000
        model = Model()
        hidden, given = model.tensor("hidden", np.float32, [-1, table.dim]), model.tensor("bias", np.float32, [50])
        add_table(model, table)
        best, ids = model.tensor("best", np.float32, [-1, 2]), model.tensor("best_ids", np.int32, [-1, 2])
        model.operator("CONCATENATION", [hidden, given], [best, ids], "ConcatenationOptions")
        fields = {"hidden": "hidden", "bias": "bias", "output": "best", "output_ids": "best_ids", "k": 2}
        path = model.write(tmp_path / "m.tflite", [hidden, given], [best, ids], manifest(line("topk", table, **fields)))
        results = tflite.run(path, [np.ones((1, table.dim), np.float32), bias])
        assert results.outputs[0][1][0, 0] == 31
        assert results.outputs[0][0][0, 0] == pytest.approx(1000 + table.rows64[31].sum(), rel=1e-6)
        tflite.refuses(
            path,
            "got a bias of 49 numbers, expected one for each of 50",
            [np.ones((1, table.dim), np.float32), bias[:49]],
        )

    @pytest.mark.parametrize("k", [0, 51, 1001])
    def test_impossible_k_is_refused(self, tflite, tmp_path, k):
        tflite.refuses(
            output_layer_model(tmp_path / "model.tflite", DpqTable(), k), "k must lie between 1 and 1000", []
        )

    def test_states_of_another_width_are_refused(self, tflite, tmp_path):
        model = output_layer_model(tmp_path / "model.tflite", DpqTable())
        tflite.refuses(
            model, r"got hidden of 2 dimensions, the last of 23, expected .*24", [np.ones((1, 23), np.float32)]
        )

    def test_damaged_row_is_named_with_its_position(self, tflite, tmp_path):
        table = AntTable()
        anchor_ids = np.full_like(table.tensors()["anchor_ids"], 200)
        model = output_layer_model(tmp_path / "model.tflite", table, anchor_ids=anchor_ids)
        tflite.refuses(
            model, "anchor id .* at position 0 of the rows: the file is damaged", [np.ones((1, 24), np.float32)]
        )
