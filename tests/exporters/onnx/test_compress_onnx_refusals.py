"""Messages of `compress` for ONNX files and tables that cannot be compressed, and for damaged files."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from click.testing import CliRunner, Result
from onnx import TensorProto
from onnx.helper import make_node

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError, EdgeEmbedError, SizeError

from .foreign_models import COLUMNS, ROWS, look_up, model, saved, table

DPQ = {"num_codes": 32, "num_groups": 4}
OUTPUTS = {"rows": ["batch", "sequence", COLUMNS]}
Tensors = dict[str, np.ndarray]


def compress(source: Path, **wanted: Any) -> Any:
    return edge_embed.compress(source, "dpq", **{"output": source.with_name("small.onnx"), **DPQ, **wanted})


def test_output_name_of_another_kind_is_refused(tmp_path: Path) -> None:
    source = saved(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path)
    with pytest.raises(BadInputError, match=r"small\.pt: has the suffix of a saved model, but the output is an ONNX"):
        compress(source, output=tmp_path / "small.pt")
    assert [path.name for path in tmp_path.iterdir()] == [source.name]


def refused(made: onnx.ModelProto, folder: Path, reason: str, **wanted: Any) -> None:
    """Assert that the table is refused with a reason and that nothing is written."""
    source = saved(made, folder)
    with pytest.raises(BadInputError, match=reason):
        compress(source, **wanted)
    assert [path.name for path in folder.iterdir()] == [source.name]


def _beside(node: onnx.NodeProto, output: str, shape: list[Any], **tensors: np.ndarray) -> onnx.ModelProto:
    """Return a model that looks rows up and uses the table in another way too."""
    return model([look_up(), node], {"words.weight": table(), **tensors}, {**OUTPUTS, output: shape})


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (_beside(make_node("ReduceSum", ["words.weight"], ["all"], "add_up"), "all", [1, 1]), "ReduceSum 'add_up'"),
        (_beside(make_node("GatherElements", ["words.weight", "ids"], ["some"], "pick"), "some", ["b", "s"]),
         "GatherElements 'pick' also uses it"),
        (_beside(make_node("MatMul", ["words.weight", "m"], ["p"], "mix"), "p", [ROWS, 2],
                 m=np.zeros((COLUMNS, 2), np.float32)), "MatMul 'mix'"),
        (_beside(make_node("Identity", ["words.weight"], ["copy"]), "copy", [ROWS, COLUMNS]), "is an output"),
        (_beside(make_node("Gemm", ["state", "words.weight"], ["p"], "turned", transA=1, transB=1), "p", [2, ROWS],
                 state=np.zeros((COLUMNS, 2), np.float32)), "Gemm 'turned'"),
        (model([look_up(ids="first", rows="row")], {"words.weight": table(), "first": np.arange(3)},
               {"row": [3, COLUMNS]}), "the ids of Gather 'look_up_row' are constant, "),
        (model([make_node("Shape", ["x"], ["size"]), look_up(ids="size", rows="row")], {"words.weight": table()},
               {"row": [2, COLUMNS]}, inputs={"x": [2, 3]}), "the ids of Gather 'look_up_row' are constant, "),
        (model([look_up()], {"words.weight": table(dtype=np.float64)}, {"rows": (TensorProto.DOUBLE, OUTPUTS["rows"])}),
         "its numbers are float64, expected float32 or float16"),
        (model([look_up()], {"words.weight": table().astype(np.int8)}, {"rows": (TensorProto.INT8, OUTPUTS["rows"])}),
         "its numbers are int8"),
    ],
)  # fmt: skip
def test_table_that_must_stay_is_named_with_reason(made: onnx.ModelProto, reason: str, tmp_path: Path) -> None:
    refused(made, tmp_path, f"no table to compress: words: .*{reason}")
    (tmp_path / "model.onnx").unlink()
    refused(made, tmp_path, f"^[^:]*: words: cannot be compressed: .*{reason}", modules=["words.weight"])


def test_table_that_is_graph_input_stays(tmp_path: Path) -> None:
    made = model([look_up()], {"words.weight": table()}, OUTPUTS,
                 inputs={"ids": ["batch", "sequence"], "words.weight": [ROWS, COLUMNS]})  # fmt: skip
    refused(made, tmp_path, r"words: words.weight is also a model input.*remove it from the inputs")


def test_graph_that_is_not_sorted_is_sorted(tmp_path: Path) -> None:
    nodes = [
        make_node("Gather", ["same", "ids"], ["rows"], "look_up"),
        make_node("Identity", ["words.weight"], ["same"], "rename"),
        look_up(rows="others"),
    ]
    made = model(nodes, {"words.weight": table()}, {**OUTPUTS, "others": ["batch", "sequence", COLUMNS]})
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())  # the checker refuses it, ONNX Runtime accepts it
    onnx.checker.check_model(compress(tmp_path / "model.onnx").model, full_check=True)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([make_node("MatMul", ["hidden", "words.weight"], ["rows"], "project")],
         r"'words.weight' float32 \[300, 16\] of 19,200 bytes, used by MatMul 'project'"),
        ([make_node("Relu", ["hidden"], ["rows"])], "used by nothing"),
    ],
)  # fmt: skip
def test_file_without_lookups_names_its_largest_constants(
    nodes: list[onnx.NodeProto], message: str, tmp_path: Path
) -> None:
    made = model(nodes, {"words.weight": table()}, {"rows": [None, None]}, inputs={"hidden": [None, None]})
    refused(made, tmp_path, f"no constant is looked up by Gather.*the largest of its 1 constants.*{message}")


def test_tables_below_minimum_share_stay_unless_named(tmp_path: Path) -> None:
    nodes = [look_up(), look_up("few", rows="more")]
    tensors = {"words.weight": table(), "few": table(10)}
    made = model(nodes, tensors, {**OUTPUTS, "more": ["batch", "sequence", COLUMNS]})
    report = compress(saved(made, tmp_path)).report
    assert [found.reason for found in report.tables][1].endswith(
        "of the model: give its name to compress it (--module few)"
    )
    with pytest.raises(SizeError, match=r"table few: dpq .* expected fewer than"):
        compress(tmp_path / "model.onnx", modules=["few"], force=True)


def test_counts_are_given_by_name_of_table(tmp_path: Path) -> None:
    import torch

    source = saved(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path)
    counts = torch.zeros(ROWS)
    counts[:40] = 1  # only these rows get codes
    report = compress(source, counts={"words.weight": counts}).report
    assert report.tables[0].fidelity.mean_cosine > compress(source, force=True).report.tables[0].fidelity.mean_cosine
    with pytest.raises(BadInputError, match=r"counts: got the names elsewhere, expected names among words"):
        compress(source, counts={"elsewhere": counts}, force=True)


class TestFiles:
    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        return saved(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path)

    @pytest.mark.parametrize("name", ["model.onnx", "./model.onnx", "link.onnx"])
    def test_compress_onto_its_own_input_is_refused(self, source: Path, name: str) -> None:
        (source.parent / "link.onnx").symlink_to(source)
        before = source.read_bytes()
        with pytest.raises(BadInputError, match="is read by this command"):
            edge_embed.compress(source, "dpq", output=source.parent / name, force=True, **DPQ)
        assert source.read_bytes() == before

    def test_compress_onto_external_data_is_refused(self, source: Path) -> None:
        onnx.save(onnx.load(source), source, save_as_external_data=True, location="w.onnx", size_threshold=0)
        before = (source.parent / "w.onnx").read_bytes()
        with pytest.raises(BadInputError, match="is read by this command"):
            edge_embed.compress(source, "dpq", output=source.parent / "w.onnx", force=True, **DPQ)
        assert (source.parent / "w.onnx").read_bytes() == before

    def test_existing_file_is_refused_before_any_work(self, source: Path) -> None:
        output = source.with_name("small.onnx")
        output.write_text("mine")
        with pytest.raises(BadInputError, match="exists"):
            compress(source, progress=lambda *at: pytest.fail("began to work"))
        assert output.read_text() == "mine"
        compress(source, force=True)

    @pytest.mark.parametrize("location", ["../secret.bin", "/etc/hostname", "link.bin", "none.bin"])
    def test_external_data_outside_model_folder_is_refused(self, source: Path, location: str, tmp_path: Path) -> None:
        folder = tmp_path / "inner"
        folder.mkdir()
        (tmp_path / "secret.bin").write_bytes(bytes(ROWS * COLUMNS * 4))
        (folder / "link.bin").symlink_to(tmp_path / "secret.bin")
        made = onnx.load(source)
        made.graph.initializer[0].ClearField("raw_data")
        made.graph.initializer[0].data_location = TensorProto.EXTERNAL
        made.graph.initializer[0].external_data.add(key="location", value=location)
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        with pytest.raises(BadInputError, match=r"is outside the model's folder|No such file"):
            compress(folder / "model.onnx")
        assert {path.name for path in folder.iterdir()} == {"link.bin", "model.onnx"}

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (lambda made: made.graph.initializer[0].dims.__setitem__(0, 2**40), "got 19200 bytes, expected"),
            (lambda made: made.graph.initializer[0].dims.__setitem__(0, -1), "expected those of a valid tensor"),
            (lambda made: made.graph.initializer[0].ClearField("raw_data"), "got no data"),
            (lambda made: made.opset_import.__delitem__(slice(None)), "no version, operator set or node"),
            (lambda made: setattr(made.opset_import[0], "version", 99), "got 99, expected at most"),
            (lambda made: setattr(made.opset_import[0], "domain", "other"), "but imports no version of them"),
            (lambda made: made.graph.ClearField("node"), "no version, operator set or node"),
        ],
    )
    def test_damaged_model_is_refused_with_place(
        self, change: Callable[[Any], Any], message: str, source: Path
    ) -> None:
        made = onnx.load(source)
        change(made)
        source.write_bytes(made.SerializeToString())
        with pytest.raises(BadInputError, match=f"{source}: .*{message}"):
            compress(source)
        assert [path.name for path in source.parent.iterdir()] == ["model.onnx"]

    @pytest.mark.slow
    def test_random_damage_is_compressed_or_refused(self, tmp_path: Path) -> None:
        nodes = [look_up(), make_node("Transpose", ["words.weight"], ["t"]), make_node("MatMul", ["rows", "t"], ["l"])]
        tensors = {"words.weight": table(40, 4)}
        sound = model(nodes, tensors, {"l": ["b", "s", 40]}).SerializeToString()
        random_, source, kept = random.Random(0), tmp_path / "model.onnx", 0
        for _ in range(300):
            content = bytearray(sound)
            for _ in range(random_.randint(1, 3)):
                place = random_.randrange(len(content)) if random_.random() < 0.3 else random_.choice(
                    [*range(200), *range(len(content) - 200, len(content))])  # fmt: skip
                content[place % len(content)] = random_.randrange(256)
            source.write_bytes(content[: random_.randrange(1, len(content))] if random_.random() < 0.1 else content)
            try:
                edge_embed.compress(source, "low_rank", rank=1, output=tmp_path / "small.onnx", force=True)
                kept += 1
            except EdgeEmbedError:
                pass
            assert {path.name for path in tmp_path.iterdir()} <= {"model.onnx", "small.onnx"}
        assert 0 < kept < 300


def test_opset_that_cannot_be_raised_is_refused(tmp_path: Path) -> None:
    nodes = [look_up(rows="found"), make_node("Unheard", ["found"], ["rows"])]
    made = model(nodes, {"words.weight": table()}, OUTPUTS, opset=9)
    (tmp_path / "model.onnx").write_bytes(made.SerializeToString())  # the checker refuses it, a tool may write it
    with pytest.raises(BadInputError, match=r"opset: got 9, expected 18 or later, and onnx cannot .*Unheard"):
        compress(tmp_path / "model.onnx")


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"trainable": True}, "trainable: a saved model cannot be trained"),
        ({"output": None}, "output: got none for .*onnx: give the path"),
        ({"modules": ["verbs"]}, "got 'verbs', expected the name of a table: choose from 'words'"),
    ],
)
def test_options_that_do_not_fit_are_refused(wanted: dict[str, Any], message: str, tmp_path: Path) -> None:
    refused(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path, message, **wanted)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


class TestCommand:
    def test_compress_command_reports_files(self, tmp_path: Path) -> None:
        source = saved(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path)
        np.save(tmp_path / "counts.npy", np.arange(1.0, ROWS + 1))
        small, plot = tmp_path / "small.onnx", tmp_path / "tried.svg"
        given = ("--ratio", 4, "--module", "words.weight", "--counts", f"words.weight={tmp_path / 'counts.npy'}")
        result = run("compress", source, "-o", small, *given, "--plot", plot, "--json")
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert found["tables"][0]["name"] == "words"
        sizes = found["dense_bytes"], found["compressed_bytes"]
        assert sizes == (source.stat().st_size, small.stat().st_size)
        assert plot.exists()

    def test_options_of_other_file_kinds_are_refused(self, tmp_path: Path) -> None:
        source = saved(model([look_up()], {"words.weight": table()}, OUTPUTS), tmp_path)
        for options, message in (
            (("--allow-pickle",), "--allow-pickle: requires a PyTorch file: leave it out for model.onnx"),
            (("--no-cache",), "--no-cache: requires the folder of a transformers model: leave it out for model.onnx"),
            (
                ("--drop-duplicates", "--no-tokens", "--weights", "ema"),
                "--weights: requires a PyTorch file; --no-tokens, --drop-duplicates: requires a file of word vectors: "
                "leave it out",
            ),
        ):
            result = run("compress", source, "-o", tmp_path / "small.onnx", "--ratio", 4, *options)
            assert (result.exit_code, message in result.stderr) == (2, True), result.stderr
