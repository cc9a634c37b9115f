"""Benchmark of sparse activations beside softmax, on rows short enough for a fast test."""

import json

import pytest
from click.testing import CliRunner

from edge_embed.bench import activations
from edge_embed.bench.activation_grid import USES, ActivationGrid
from edge_embed.bench.activations import bench_activations
from edge_embed.cli import main
from edge_embed.errors import BadInputError, ParityError

from ..error_line import error_line

TINY = ActivationGrid(dim=(24,), batch=(3,), k=(2,), rounds=2)


@pytest.fixture(scope="module")
def report():
    return bench_activations(TINY)


def test_activation_report_measures_every_use_beside_softmax(report):
    assert [(one.use, one.activation) for one in report.measurements] == [
        ("sparsemax", "sparsemax"),
        ("entmax15", "entmax15"),
        ("entmax", "entmax, alpha = 1.3"),
        ("topk_sparsemax", "topk_sparsemax, k = 2"),
        ("attention", "sparsemax"),
        ("attention", "entmax15"),
        ("attention", "entmax, alpha = 1.3"),
    ]
    for one in report.measurements:
        names = [peer.name for peer in one.peers]
        softmax = "torch SDPA" if one.use == "attention" else "ORT Softmax"
        assert {softmax, "torch softmax"} < set(names)
        assert (one.ours.cpu_ratio, [peer for peer in one.peers if peer.cpu_ratio is None]) == (None, [])


def test_errors_are_those_of_float32_and_softmax_has_none(report):
    for one in report.measurements:
        same = [one.ours, *(peer for peer in one.peers if peer.error is not None)]
        assert max(figure.error for figure in same) < 5e-6
        assert [peer.name for peer in one.peers if "oft" in peer.name and peer.error is not None] == []


def test_zeros_of_attention_are_nine_in_ten_and_those_of_topk_the_rest(report):
    zeros = {one.use: one.zeros for one in report.measurements if one.activation != "entmax, alpha = 1.3"}
    assert zeros["attention"] == pytest.approx(0.9, abs=0.02)
    assert 1 - 2 / 24 <= zeros["topk_sparsemax"] < 1


def test_wrong_numbers_of_ours_are_no_measurement(monkeypatch):
    monkeypatch.setattr(activations, "entmax", lambda scores, alpha: scores.softmax(-1))
    with pytest.raises(ParityError, match=r"entmax, alpha = 1\.3: custom op: got error"):
        bench_activations(ActivationGrid(("entmax",), (24,), (3,), rounds=2))


def test_command_prints_measurements_as_json():
    done = CliRunner().invoke(main, "bench --use sparsemax --dim 24 --batch 3 --rounds 2 --json".split())
    assert done.exit_code == 0, done.output
    (found,) = json.loads(done.stdout)["measurements"]
    assert (found["use"], found["scores"], found["batch"], found["threads"]) == ("sparsemax", 24, 3, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--use sparsemax,rows", "--use: got 'rows' and sparse activations: run once for each"),
        ("--use attention --rows 5", "--rows: got a value and sparse activations, which have none: leave it out"),
        ("model.onnx --use sparsemax", "FILE: got a value and sparse activations, which have none: leave it out"),
        ("--use topk_sparsemax --dim 8", "--k: got 10, expected at most 8, the scores of a row"),
        ("--use sparsemax --dim 0", "--dim: got 0, expected a positive integer"),
        ("--use sparsemax --threads 999", "--threads: got 999, expected at most"),
    ],
)
def test_command_refuses_options_of_tables(arguments, message):
    done = CliRunner().invoke(main, ["bench", *arguments.split()])
    assert done.exit_code == 2
    assert message in error_line(done)


def test_grid_has_every_use_by_default():
    assert ActivationGrid().use == USES
    with pytest.raises(BadInputError, match="batch: got 0"):
        ActivationGrid(batch=(0,))
