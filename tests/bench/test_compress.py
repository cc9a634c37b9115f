"""Benchmark of compression beside other libraries, on tables small enough for a fast test."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from safetensors.numpy import save_file
from torch import nn

import edge_embed
from edge_embed.bench import compress as measuring
from edge_embed.bench.compress import bench_compress
from edge_embed.bench.compress_grid import CompressGrid
from edge_embed.bench.compress_tables import random_subject
from edge_embed.bench.compressors import METHODS, Case
from edge_embed.cli import main
from edge_embed.fitting.setting import Setting
from edge_embed.validation.timing import Times

from ..error_line import error_line

for module in ("faiss", "scipy", "sklearn", "tensorly", "threadpoolctl"):
    pytest.importorskip(module, reason=f"{module} is not installed (extra edge-embed[bench])")

# With this rank the cores of TT have ranks 10 and 12.
TINY = CompressGrid(
    tuple(METHODS), rows=(300,), dim=(16,), codes=(16,), anchors=(10,), nonzeros=(2,), rank=(12,), rounds=2
)
SIZES = "--rows 300 --dim 16 --codes 16 --rank 3 --rounds 2".split()


def run(*arguments):
    return CliRunner().invoke(main, ["bench", "--use", "compress", *map(str, arguments)])


@pytest.fixture(scope="module")
def report():
    return bench_compress(TINY)


def everyone(report):
    return [one for found in report.measurements for one in (found.ours, *found.peers)]


@pytest.mark.slow
def test_compress_report_measures_methods_with_all_libraries(report):
    assert [(found.method, found.task) for found in report.measurements] == [
        ("dpq", "table"), ("dpq", "codes"), ("ant", "table"), ("tt", "table"), ("low_rank", "table"),
    ]  # fmt: skip
    assert not any(one.reason for one in everyone(report))


def test_compress_figures_are_positive_and_ordered(report):
    for found in report.measurements:
        assert found.dense_bytes == 4 * 300 * 16
        assert found.ours.our_cpu_ratio is None
        for one in (found.ours, *found.peers):
            assert one.cpu_seconds > 0
            assert one.wall_seconds > 0
        for peer in found.peers:
            for ratio in (peer.our_cpu_ratio, peer.our_wall_ratio):
                assert 0 < ratio.low <= ratio.median <= ratio.high


def test_compressed_tables_have_equal_bytes_in_each_library(report):
    for found in report.measurements:
        for peer in found.peers:
            if found.method == "ant":  # our rows share a total of weights, of which some may stay unused
                assert found.ours.packed_bytes <= peer.packed_bytes
            else:
                assert found.ours.packed_bytes == peer.packed_bytes


def test_reported_errors_equal_errors_of_fitted_layer(report):
    weight = random_subject(0, 300, 16).make()
    settings = {found.method: found for found in report.measurements if found.task == "table"}
    for setting in TINY.settings(300, 16):
        rows = setting.fit(weight).layer.eval()(torch.arange(300)).detach().numpy()
        cosine = (rows * weight).sum(1) / (np.linalg.norm(rows, axis=1) * np.linalg.norm(weight, axis=1)).clip(1e-30)
        ours = settings[setting.method].ours
        assert ours.mean_cosine == pytest.approx(cosine.mean(), abs=1e-5)
        assert ours.relative_error == pytest.approx(np.linalg.norm(rows - weight) / np.linalg.norm(weight), abs=1e-5)


def test_libraries_of_one_method_have_equal_errors(report):
    """Equal errors show that each library solves the same task and that its rows are rebuilt correctly."""
    for found in report.measurements:
        for peer in found.peers if found.method != "ant" else ():
            loose = (found.method, found.task) == ("dpq", "table")  # ours keeps inner products too
            assert peer.relative_error == pytest.approx(found.ours.relative_error, rel=0.1 if loose else 1e-4)
            assert peer.mean_cosine == pytest.approx(found.ours.mean_cosine, rel=0.1 if loose else 1e-4)


def test_seed_repeated_gives_same_tables(report):
    again = bench_compress(replace(TINY, method=("dpq", "tt")))
    errors = {one.name: one.relative_error for one in everyone(report)}
    assert all(one.relative_error == errors[one.name] for one in everyone(again))


def test_contenders_use_given_number_of_threads(monkeypatch):
    seen = []
    timed = measuring.time_rounds

    def looked_at(*arguments, **named):
        import threadpoolctl

        seen.append((torch.get_num_threads(), {pool["num_threads"] for pool in threadpoolctl.threadpool_info()}))
        return timed(*arguments, **named)

    monkeypatch.setattr(measuring, "time_rounds", looked_at)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    before = torch.get_num_threads()
    report = bench_compress(replace(TINY, method=("low_rank",), threads=(1, 3)))
    assert seen == [(1, {1}), (3, {3})]
    assert [found.threads for found in report.measurements] == [1, 3]
    assert torch.get_num_threads() == before


def test_compress_ratios_are_our_time_over_peer_time(monkeypatch):
    """The second of two contenders takes 4 times the CPU time and twice the wall time."""

    def timed(contenders, draw, rounds, *_, **__):
        return {name: Times(np.full(rounds, 4.0**at), np.full(rounds, 2.0**at)) for at, name in enumerate(contenders)}

    monkeypatch.setattr(measuring, "time_rounds", timed)
    (one,) = bench_compress(replace(TINY, method=("tt",))).measurements
    (peer,) = one.peers
    assert (one.ours.cpu_seconds, peer.cpu_seconds, peer.wall_seconds) == (1, 4, 2)
    assert (peer.our_cpu_ratio.median, peer.our_wall_ratio.median) == (0.25, 0.5)
    assert (peer.ratio(1), peer.ratio(2)) == (peer.our_cpu_ratio, peer.our_wall_ratio)


@pytest.mark.parametrize(
    ("module", "package", "name"),
    [
        ("tensorly", "tensorly", "tensorly TT-SVD"),
        ("scipy", "scipy", "scipy svds"),
        ("threadpoolctl", "threadpoolctl", "numpy SVD"),
    ],
)
def test_absent_compressor_is_named_with_remedy(module, package, name, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    report = bench_compress(replace(TINY, method=("tt", "low_rank")))
    reasons = {one.name: one.reason for one in everyone(report)}
    assert f"python -m pip install {package}" in reasons[name]
    assert not any(found.ours.reason for found in report.measurements)


def test_compressor_that_cannot_make_table_is_skipped_with_reason():
    weight = random_subject(0, 300, 16).make()
    few = bench_compress(replace(TINY, method=("dpq", "low_rank"), codes=(12,), rank=(16,)))
    reasons = {one.name: one.reason for one in everyone(few)}
    assert "power of two" in reasons["faiss PQ"]
    assert "power of two" in reasons["faiss compute_codes"]
    assert "singular values" in reasons["scipy svds"]
    assert not reasons["numpy SVD"]
    assert Case(weight, Setting("low_rank", {"rank": 16}), 0, 1)["rank"] == 16


def test_result_names_table_seed_rounds_and_machine():
    result = run(*SIZES, "--method", "dpq,tt", "--seed", "7")
    assert result.exit_code == 0, result.output
    words = " ".join(result.stdout.split())
    for text in ("clustered (300 x 16)", "faiss compute_codes", "tensorly TT-SVD", "ours / peer", "1 used", "Seed 7",
                 "2 rounds", "one centre per 100 rows", "random order"):  # fmt: skip
        assert text in words


def test_compress_json_is_alone_on_stdout_and_quiet_prints_nothing():
    found = json.loads(run(*SIZES, "--method", "low_rank", "--json").stdout)
    assert list(found) == "schema_version file seed rounds machine method measurements".split()
    (one,) = found["measurements"]
    assert list(one) == (
        "table num_embeddings embedding_dim dense_bytes method setting task threads ours peers".split()
    )
    assert list(one["peers"][0]) == (
        "name what cpu_seconds wall_seconds packed_bytes mean_cosine relative_error our_cpu_ratio our_wall_ratio "
        "reason".split()
    )
    assert run(*SIZES, "--method", "low_rank", "--quiet").output == ""


OF_FILE = ("--method", "low_rank", "--rank", "3", "--rounds", "2", "--json")


def test_dense_tables_of_files_are_measured(tmp_path):
    weight = np.random.default_rng(0).standard_normal((200, 12)).astype(np.float16)
    save_file({"words.weight": weight, "other": weight[:50]}, tmp_path / "weights.safetensors")
    model = nn.Sequential(nn.Embedding(200, 12), nn.Linear(12, 2))
    edge_embed.save(model, tmp_path / "model.pt", torch.tensor([[1, 2]]))
    lines = [f"word{i} {' '.join(f'{number:.4f}' for number in row)}" for i, row in enumerate(weight)]
    (tmp_path / "glove.txt").write_text("\n".join(lines))
    for name, table, given in (("weights.safetensors", "words", ["--module", "words"]), ("model.pt", "0", []),
                               ("glove.txt", "vectors", [])):  # fmt: skip
        result = run(tmp_path / name, *given, *OF_FILE)
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["file"] == str(tmp_path / name)
        assert "a centre" not in found["method"]
        (one,) = found["measurements"]
        assert (one["table"], one["num_embeddings"], one["embedding_dim"]) == (table, 200, 12)
        ours, (numpy, _) = one["ours"], one["peers"]
        assert ours["relative_error"] == pytest.approx(numpy["relative_error"], rel=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "opq"], "expected some of dpq, ant, tt, low_rank"),
        (["--rows", "200", "--codes", "256"], "codes: got 256, expected at most 200, the rows of the table"),
        (["--method", "ant", "--rows", "50"], "anchors: got 100, expected at most 50"),
        (["--method", "ant", "--anchors", "4"], "nonzeros: got 8, expected at most 4"),
        (["--groups", "7"], "groups"),
        (["--rank", "0"], "rank"),
        (["--rounds", "1"], "--rounds"),
        (["--batch", "4"], "batch: got a value, expected none with --use compress"),
        (["--plot", "."], "plot: got a value, expected none with --use compress"),
        (["--preset", "lookup"], "preset: got a value, expected none with --use compress"),
        (["--use", "rows,compress"], "expected compress alone"),
        (
            ["--use", "rows", "--module", "words"],
            "--module: requires FILE and --use compress",
        ),
        (["--module", "words"], "--module: requires FILE"),
        (["missing.pt"], "missing.pt: there is no such file"),
        (["missing.pt", "--rows", "5"], "leave one of them out"),
        (["--dim", str(1 << 40), "--groups", "1"], "memory: too small"),
    ],
)
def test_mistakes_exit_with_2_in_one_line_before_measurement(arguments, message, monkeypatch):
    monkeypatch.setattr(measuring, "time_rounds", lambda *_, **__: pytest.fail("measured"))
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in error_line(result)
    assert result.stdout == ""


def test_model_without_dense_table_is_refused(tmp_path):
    edge_embed.save(nn.Linear(4, 2), tmp_path / "model.pt", torch.randn(1, 4))
    result = run(tmp_path / "model.pt")
    assert result.exit_code == 2
    assert "no table to compress: no dense table has lookups" in " ".join(result.stderr.split())


def test_library_that_fails_is_skipped_with_reason():
    """The SVD of scipy fails on a matrix of zeros."""
    subject = replace(random_subject(0, 300, 16), make=lambda: np.zeros((300, 16), np.float32))
    (found,) = bench_compress(replace(TINY, method=("low_rank",)), Path("zeros"), [subject]).measurements
    reasons = {one.name: one.reason for one in found.peers}
    assert "failed: " in reasons["scipy svds"]
    assert not reasons["numpy SVD"]


@pytest.mark.slow
def test_seed_over_32_bits_is_accepted():
    (found,) = bench_compress(replace(TINY, method=("ant",), seed=2**32 + 5)).measurements
    assert not found.peers[0].reason


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--method", "low_rank", "--rank", "17"], "rank: got 17, expected at most 16"),
        (["--method", "tt", "--force"], "force: got it with --use compress"),
    ],
)
def test_options_without_effect_are_refused(given, message):
    result = run("--rows", "300", "--dim", "16", *given)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.parametrize(("dim", "groups"), [(1, 1), (16, 4), (17, 1), (18, 3)])
def test_default_groups_divide_columns(dim, groups):
    assert {setting.options["num_groups"] for setting in CompressGrid(("dpq",)).settings(300, dim)} == {groups}


def test_method_given_twice_is_measured_once():
    assert len(bench_compress(replace(TINY, method=("tt", "tt"))).measurements) == 1
