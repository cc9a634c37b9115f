"""Messages of commands: they name options as they are typed, and suggest the value nearest to a mistyped one."""

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import edge_embed
from edge_embed.cli import main
from edge_embed.cli.spelling import spelled


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("spelling") / "model.pt"
    return edge_embed.save(nn.Embedding(90, 8), path, torch.zeros(2, dtype=torch.int64))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--method dpq --bits 8", "dpq: got --bits, expected options among --num-codes, --num-groups, --value-type"),
        ("--method ant --num-anchors 8", "ant: got no --nonzeros; give it, or only --ratio, --budget or --min-cosine"),
        ("--num-codes 8", "--num-codes: sizes and types require a method: give --method too"),
        ("--method rows --bits 4 --ratio 4", "got --ratio and --bits: give one of them"),
        ("", "give --ratio, --budget or --min-cosine, or a --method with its sizes"),
        ("--ratio 1", "--ratio: got 1.0, expected a number above 1"),
        ("--method row --bits 8", "--method: got 'row', did you mean 'rows'? expected dpq, opq, ant, tt, tr, low_rank"),
    ],
)
def test_refusal_of_compress_names_options_as_typed(model, tmp_path, options, message):
    result = CliRunner().invoke(main, ["compress", str(model), "-o", str(tmp_path / "small.pt"), *options.split()])
    assert result.exit_code == 2
    assert message in result.stderr


def test_refusal_in_python_names_keywords(model):
    with pytest.raises(edge_embed.BadInputError, match="dpq: got `bits`, expected options among `num_codes`"):
        edge_embed.compress(model, "dpq", bits=8)


@pytest.mark.parametrize(
    "message",
    [
        "min_cosine/model.pt: is a directory",
        "/data/num_codes.pt: exists; choose another path, or replace it with --force / force=True",
        "got 'num_codes', expected the name of a table",
        "output: cannot be compressed: it is empty",
        "table bits: its numbers are int8, expected floats",
    ],
)
def test_message_without_option_is_unchanged(message):
    assert spelled(message, main.commands["compress"]) == message


def test_option_with_other_python_name_is_named_as_typed():
    command = main.commands["export"]
    assert spelled("tflite_sizes: got dimension b", command) == "--tflite-size: got dimension b"
    assert spelled("table words: tflite_table: got 'x'", command) == "table words: --tflite-table: got 'x'"


@pytest.mark.parametrize(("target", "meant"), [("onxn", "onnx"), ("tflit", "tflite")])
def test_mistyped_target_suggests_right_one(model, tmp_path, target, meant):
    with pytest.raises(edge_embed.BadInputError, match=f"did you mean '{meant}'"):
        edge_embed.export(model, target, tmp_path / "model")


@pytest.mark.parametrize(
    ("line", "suggestion"),
    [
        ("compress m.pt -o n.pt --ratios 8", "Did you mean '--ratio'?"),
        ("compress m.pt -o n.pt --outputs 8", "Did you mean '--output'?"),
        ("check m.pt m.onnx --baselines b", "Did you mean '--baseline'?"),
        ("compress m.pt --zzz", "No such option '--zzz'.\n"),
    ],
)
def test_unknown_option_suggests_only_options_alike(line, suggestion):
    result = CliRunner().invoke(main, line.split())
    assert result.exit_code == 2
    assert suggestion in result.stderr
