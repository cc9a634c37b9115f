"""Command ``edge-embed bench``: printed results, JSON, plots and mistakes."""

import json
import re
import sys
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from edge_embed.bench import run as bench_run
from edge_embed.bench.grid import PRESETS
from edge_embed.bench.peers.listed import PEERS
from edge_embed.bench.uses import USES
from edge_embed.cli import main
from edge_embed.packed.packed_form import METHODS

from ..error_line import error_line

TINY = "--rows 200 --dim 32 --anchors 10 --nonzeros 2 --rank 2 --batch 8 --ids uniform --rounds 2".split()


def run(*arguments):
    return CliRunner().invoke(main, ["bench", *map(str, arguments)])


def test_bench_prints_table_of_peers_and_figures():
    result = run(*TINY, "--method", "dpq", "--use", "rows,logits")
    assert result.exit_code == 0, result.output
    for text in (
        "custom op",
        "ORT Gather",
        "faiss PQ decode",
        "MatMulNBits",
        "200 x 32",
        "GFLOP/s",
        "random order",
        "gather of codes by numpy.take",
    ):
        assert text in result.stdout


def test_help_names_methods_uses_peers_and_presets():
    shown = run("--help").stdout
    for word in (*METHODS, *USES, "compress", "low_rank", *PEERS, *PRESETS, "uniform", "zipf", "warm", "cold"):
        assert re.search(rf"\b{word}\b", shown), word


def test_peer_without_its_package_is_named_with_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    result = run(*TINY, "--method", "dpq", "--use", "rows")
    assert "not measured: faiss PQ decode" in result.stdout
    assert "pip install faiss-cpu" in result.stdout.replace("\n", " ")


def test_bench_json_is_alone_on_stdout_and_quiet_prints_nothing():
    arguments = [*TINY, "--method", "tt", "--use", "topk", "--k", "3", "--threads", "1"]
    (one,) = json.loads(run(*arguments, "--json").stdout)["measurements"]
    assert (one["use"], one["k"], one["threads"]) == ("topk", 3, 1)
    assert run(*arguments, "--quiet").output == ""


def test_plots_name_peers_and_measured_uses(tmp_path):
    arguments = [*TINY, "--method", "dpq,ant", "--use", "rows", "--rows", "100,300", "--plot", tmp_path]
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ratios.svg", "roofline.svg"]
    texts = {
        path.stem: [text.text for text in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}text")]
        for path in tmp_path.iterdir()
    }
    for name in ("portable body", "ORT Gather", "faiss PQ decode", "scipy CSR", "rows of the table"):
        assert name in texts["ratios"]
    assert {"dpq rows", "ant rows", "least operations per byte"} <= set(texts["roofline"])


def test_existing_plots_are_refused_before_measurement(tmp_path, monkeypatch):
    (tmp_path / "roofline.svg").write_text("mine")
    with monkeypatch.context() as patch:
        patch.setattr(bench_run, "_measure", lambda *_: pytest.fail("measured"))
        result = run(*TINY, "--plot", tmp_path)
    assert result.exit_code == 2
    assert "--force" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["roofline.svg"]
    assert (tmp_path / "roofline.svg").read_text() == "mine"
    result = run(*TINY, "--method", "tt", "--use", "rows", "--plot", tmp_path, "--force")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "roofline.svg").read_text().startswith("<?xml")


def test_plots_without_matplotlib_are_refused(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = run(*TINY, "--plot", tmp_path)
    assert result.exit_code == 2
    assert "pip install 'edge-embed[report]'" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "pq"], "expected some of dpq, ant, tt"),
        (["--groups", "7"], "groups"),
        (["--rounds", "1"], "--rounds"),
        (["--preset", "fast"], "--preset"),
        (["missing.onnx"], "missing.onnx"),
        (["missing.safetensors"], "missing.safetensors"),
        (["missing.onnx", "--rows", "5"], "leave one of them out"),
        (["--method", "ant", "--memory-megabytes", "4"], "--memory-megabytes: got 4, expected none"),
        (["missing.onnx", "--memory-megabytes", "4"], "leave one of them out"),
        (["--plot", "missing/folder"], "not an existing directory"),
        (["--method", "dpq", "--use", "rows", "--rows", str(1 << 50)], "use fewer rows"),
        (["--method", "dpq", "--use", "rows", "--rows", "9", "--batch", str(1 << 50)], "smaller batch"),
        (["--method", "dpq", "--dim", str(1 << 45)], "memory: too small"),
    ],
)
def test_mistakes_exit_with_2_in_one_line_without_result(arguments, message):
    result = run(*arguments)
    assert result.exit_code == 2
    assert message in error_line(result)
    assert result.stdout == ""
