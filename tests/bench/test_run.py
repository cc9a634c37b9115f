"""Benchmark from end to end, on tables small enough for a fast test."""

import io
import json
import re
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console
from torch import nn

import edge_embed
from edge_embed.bench import rounds, run
from edge_embed.bench.caches import Evictor, cache_sizes
from edge_embed.bench.grid import Grid
from edge_embed.bench.peers import listed
from edge_embed.bench.peers.runtime import CUSTOM
from edge_embed.errors import BadInputError, ParityError
from edge_embed.packed.file import save_tables
from edge_embed.packed.packed_form import METHODS
from edge_embed.validation.timing import Times

TINY = Grid(rows=(200,), dim=(32,), anchors=(10,), nonzeros=(2,), rank=(2,), batch=(8,), ids=("uniform",), rounds=3)


@pytest.fixture(scope="module")
def report():
    return run.bench(TINY)


def test_report_measures_all_methods_uses_and_peers(report):
    assert {(one.method, one.use) for one in report.measurements} == {
        (method, use) for method in METHODS for use in ("rows", "bag (mean)", "logits", "topk", "kernel")
    }
    names = {peer.name for one in report.measurements for peer in one.peers}
    usual = {
        library: peers for library, peers in listed.PEERS.items() if library != "tflite"
    }  # tflite is an extra and measured on request
    assert names == {peer.name for peers in usual.values() for peer in peers}


def test_bench_figures_are_consistent(report):
    for one in report.measurements:
        assert one.ours.cpu_ratio is None
        assert one.ours.cpu_microseconds == pytest.approx(one.ours.nanoseconds_per_item * one.batch / 1000)
        assert one.gigaflops == pytest.approx(one.operations / one.ours.cpu_microseconds / 1000)
        assert one.ours.empty_call_share > 0
        for peer in one.peers:
            assert not peer.reason
            assert 0 < peer.cpu_ratio.low <= peer.cpu_ratio.median <= peer.cpu_ratio.high
            assert 0 < peer.wall_ratio.low <= peer.wall_ratio.median <= peer.wall_ratio.high
            ours = peer.name in {"portable body", "dense copy"} or "ORT" in peer.name
            assert (peer.empty_call_share is not None) == ours


def test_report_describes_machine_and_roofs(report):
    words = ", ".join(report.machine.values())
    for word in ("onnxruntime", "torch", "scipy", "faiss", "load", "1 used", "kernels"):
        assert word in words
    assert report.roofs.multiply_add > 0
    assert report.roofs.read.keys() == {f"L{level}" for level in cache_sizes()} | {"memory"}


def test_bench_json_has_documented_keys(report):
    found = json.loads(json.dumps(report.to_json()))
    assert list(found) == ("schema_version file seed rounds machine method roofs measurements".split())
    assert found["schema_version"] == 1
    assert list(found["measurements"][0]) == (
        "table method num_embeddings embedding_dim packed_bytes session_bytes dense_bytes use k batch items ids cache "
        "threads operations bytes gigaflops gigabytes_per_second ours peers".split()
    )
    assert list(found["measurements"][0]["peers"][0]) == (
        "name what cpu_microseconds wall_microseconds nanoseconds_per_item empty_call_microseconds empty_call_share "
        "cpu_ratio wall_ratio error reason".split()
    )


def test_seed_repeated_gives_same_errors(report):
    again = run.bench(TINY)
    assert [one.ours.error for one in again.measurements] == [one.ours.error for one in report.measurements]


@pytest.mark.parametrize(("module", "package", "method"), [("faiss", "faiss-cpu", "dpq"), ("scipy", "scipy", "ant")])
def test_absent_peer_is_named_with_remedy(module, package, method, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    (one,) = run.bench(replace(TINY, method=(method,), use=("rows",))).measurements
    (reason,) = [peer.reason for peer in one.peers if peer.reason]
    assert f"python -m pip install {package}" in reason


def test_dense_peers_of_too_large_table_are_skipped(monkeypatch):
    monkeypatch.setattr(run, "dense_limit", lambda: 125)
    (one,) = run.bench(replace(TINY, method=("dpq",), use=("rows",))).measurements
    reasons = {peer.name: peer.reason for peer in one.peers}
    assert "got 25,600 bytes, expected at most 125" in reasons["ORT Gather"]
    assert reasons["torch embedding"]
    assert not reasons["portable body"]
    assert not reasons["faiss PQ decode"]


def test_prepacked_cores_are_measured_beside_plain_cores():
    uses = ("rows", "bag", "logits", "kernel")
    found = run.bench(replace(TINY, method=("tt",), use=uses, memory_megabytes=(0, 1), peers=("torch",))).measurements
    of_rows = [(one.table, one.session_bytes > 0) for one in found if one.use != "logits"]
    assert of_rows == [("tt rank=2 memory-megabytes=0", False)] * 3 + [("tt rank=2 memory-megabytes=1", True)] * 3
    assert [one.session_bytes for one in found if one.use == "logits"] == [0, 0]
    plain, merged = ([one.ours.error for one in found if one.session_bytes > 0 == wanted] for wanted in (False, True))
    assert plain != merged  # the rounding differs


def test_session_memory_of_file_is_used(tmp_path):
    table = edge_embed.TTEmbedding(200, 32, rank=2)
    file = tmp_path / "m.onnx"
    edge_embed.export(table, "onnx", file, torch.tensor([[1]]), memory_megabytes=1)
    found = run.bench(Grid.parse(None, file, batch="8", ids="uniform", peers="torch", rounds=3), file)
    assert {(one.use, one.session_bytes > 0) for one in found.measurements} == {("rows", True), ("kernel", True)}


def test_peers_option_selects_libraries():
    (one,) = run.bench(replace(TINY, method=("dpq",), use=("rows",), peers=("torch",))).measurements
    assert [peer.name for peer in one.peers] == ["torch embedding"]


def wrong(peer):
    """Return a copy of a peer with wrong results."""

    def opened(*arguments):
        bind = peer.open(*arguments)

        def wrong_bind(feeds, calls):
            bound = bind(feeds, calls)
            right = bound.results
            bound.results = lambda: tuple(result + 1 for result in right())
            return bound

        return wrong_bind

    return replace(peer, open=opened)


def test_peer_with_wrong_results_is_not_timed(monkeypatch):
    monkeypatch.setitem(rounds.PEERS, "torch", tuple(map(wrong, rounds.PEERS["torch"])))
    (one,) = run.bench(replace(TINY, method=("dpq",), use=("rows",))).measurements
    (peer,) = [peer for peer in one.peers if peer.reason]
    assert peer.name == "torch embedding"
    assert "got error" in peer.reason
    assert peer.cpu_microseconds is None


def test_wrong_results_of_operator_library_raise(monkeypatch):
    monkeypatch.setattr(rounds, "OURS", (wrong(CUSTOM),))
    with pytest.raises(ParityError, match="custom op: got error"):
        run.bench(replace(TINY, method=("dpq",), use=("rows",)))


class TestCaches:
    def test_caches_are_emptied_before_each_call_of_cold_round(self, monkeypatch):
        emptied = []
        monkeypatch.setattr(Evictor, "__call__", lambda self: emptied.append(self.nbytes))
        (one,) = run.bench(replace(TINY, method=("dpq",), use=("rows",), cache=("cold",))).measurements
        contenders = 2 + len(one.peers)  # with the operator library and the empty call
        assert len(emptied) == contenders * (TINY.rounds + 2)
        assert one.cache == "cold"

    def test_caches_are_kept_in_warm_rounds(self, monkeypatch):
        monkeypatch.setattr(Evictor, "__call__", lambda self: pytest.fail("emptied"))
        run.bench(replace(TINY, method=("dpq",), use=("rows",)))

    def test_cache_buffer_is_larger_than_caches_and_fully_written(self):
        evict = Evictor()
        assert cache_sizes() == {
            1: 48 << 10,
            2: 1 << 20,
            3: 2 << 20,
        }  # as in `conftest.py`, without the instruction cache
        assert evict.nbytes == 4 << 20
        evict()
        evict()
        assert set(np.unique(evict._buffer)) == {2}


def test_bench_ratios_are_peer_time_over_our_time(monkeypatch):
    seconds = {"custom op": 2e-6, "empty call": 1e-6, "ORT Gather": 6e-6, "torch embedding": 1e-6}

    def timed(contenders, *_, **__):
        return {name: Times(np.full(4, seconds[name]), np.full(4, 5e-6)) for name in contenders}

    monkeypatch.setattr(rounds, "time_rounds", timed)
    monkeypatch.setitem(rounds.PEERS, "onnxruntime", rounds.PEERS["onnxruntime"][1:2])  # only Gather
    libraries = ("onnxruntime", "torch")
    (one,) = run.bench(replace(TINY, method=("dpq",), use=("rows",), peers=libraries)).measurements
    gather, torch_embedding = one.peers
    assert gather.cpu_ratio.median == pytest.approx(3)
    assert gather.wall_ratio.median == pytest.approx(1)
    assert torch_embedding.cpu_ratio.median == pytest.approx(0.5)
    shares = [figure.empty_call_share for figure in (one.ours, gather, torch_embedding)]
    assert shares == [pytest.approx(1 / 2), pytest.approx(1 / 6), None]
    assert one.ours.empty_call_microseconds == pytest.approx(1)
    assert one.ours.nanoseconds_per_item == pytest.approx(2000 / 8)


def test_threads_are_timed_with_process_clock(monkeypatch):
    clocks = []
    real = rounds.time_rounds
    monkeypatch.setattr(rounds, "time_rounds", lambda *a, **k: clocks.append(k["cpu_clock"]) or real(*a, **k))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    before = torch.get_num_threads()
    report = run.bench(replace(TINY, method=("dpq",), use=("rows",), threads=(1, 2)))
    assert clocks == [time.thread_time_ns, time.process_time_ns]
    assert [one.threads for one in report.measurements] == [1, 2]
    assert torch.get_num_threads() == before


def test_report_lists_each_k_and_thread_count_in_one_table(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    report = run.bench(
        Grid.parse(
            None, None, method="dpq", rows="200", dim="32", batch="8", rounds=2, use="topk", k="1,200", threads="1,2"
        )
    )
    console = Console(width=200, file=io.StringIO())
    console.print(report.render())
    shown = console.file.getvalue()
    assert shown.count("time / ours, CPU or wall") == 1
    calls = ["k = 1, warm", "k = 1, warm, 2 threads", "k = 200, warm", "k = 200, warm, 2 threads"]
    assert re.findall(r"│ B = 8, (.*?) +│ custom op ", shown) == calls


class Model(nn.Module):
    """A model with all uses of two tables."""

    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(60, 16, num_codes=5, num_groups=4, padding_idx=0)
        self.tags = edge_embed.ANTEmbeddingBag(40, 16, num_anchors=6, mode="max")
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids, tags):
        states = self.words(ids) + self.tags(tags).unsqueeze(1)
        return self.output(states), *self.output.topk(states, 3)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    torch.manual_seed(0)
    folder = tmp_path_factory.mktemp("model")
    ids = torch.tensor([[3, 1], [4, 1]])
    edge_embed.save(Model(), folder / "model.pt", (ids, ids))
    edge_embed.export(folder / "model.pt", "onnx", folder / "model.onnx")
    return folder / "model.onnx"


class TestFiles:
    def test_model_file_is_measured_with_its_uses(self, model):
        report = run.bench(Grid(batch=(8,), rounds=2), model)
        assert {(one.table, one.use, one.k, one.num_embeddings) for one in report.measurements} == {
            ("words", "rows", None, 60),
            ("words", "logits", None, 60),
            ("words", "topk", 3, 60),
            ("words", "kernel", None, 60),
            ("tags", "bag (max)", None, 40),
            ("tags", "kernel", None, 40),
        }
        assert report.file == str(model)

    def test_methods_and_uses_select_tables_of_file(self, model):
        (one,) = run.bench(Grid(method=("ant",), use=("bag",), batch=(8,), ids=("zipf",), rounds=2), model).measurements
        assert (one.table, one.use) == ("tags", "bag (max)")
        with pytest.raises(BadInputError, match="expected a table of tt"):
            run.bench(Grid(method=("tt",)), model)

    def test_packed_file_is_measured_in_each_use(self, model, tmp_path):
        tables = edge_embed.lower(model.with_suffix(".pt")).tables
        save_tables(tmp_path / "tables.safetensors", {"words": tables["words"]})
        report = run.bench(Grid(k=(2, 5), batch=(8,), ids=("zipf",), rounds=2), tmp_path / "tables.safetensors")
        assert [one.use for one in report.measurements] == ["rows", "bag (mean)", "logits", "topk", "topk", "kernel"]
        assert [one.k for one in report.measurements if one.k] == [2, 5]
        with pytest.raises(BadInputError, match="table 'words': k: got 61"):
            run.bench(Grid(use=("topk",), k=(61,)), tmp_path / "tables.safetensors")

    @pytest.mark.parametrize("kind", ["float16", "int8"])
    def test_tables_of_float16_and_int8_are_measured(self, kind, tmp_path):
        layers = [edge_embed.DPQEmbedding(60, 32, 16, 8)]
        layers += [edge_embed.TTEmbedding(60, 32, rank=2)] if kind == "float16" else []
        lowered = [edge_embed.lower(layer.freeze(value_type=kind), torch.tensor([1])) for layer in layers]
        path = tmp_path / "tables.safetensors"
        save_tables(path, {table.method: table for one in lowered for table in one.tables.values()})
        report = run.bench(Grid(batch=(8,), ids=("zipf",), rounds=2), path)
        assert not [peer.reason for one in report.measurements for peer in one.peers if peer.reason]
