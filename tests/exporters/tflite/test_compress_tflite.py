"""`edge-embed compress` of other tools' TFLite files: in place, or with the reasons why that is impossible."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import distributed, nn

pytest.importorskip("ai_edge_litert", reason="the extra edge-embed[tflite] is not installed")
sys.path.append(str(Path(__file__).parent))

from ai_edge_litert.interpreter import Interpreter
from foreign_files import DIM, WORDS, attach, mean_of_rows, write_foreign
from tool_files import write_form

import edge_embed
from edge_embed.cli import main
from edge_embed.compression.tflite.foreign_file import read_foreign
from edge_embed.errors import BadInputError
from edge_embed.inspection.tflite_file import inspect_tflite

from ...forked import run_processes

ROWS = np.random.default_rng(5).normal(size=(600, DIM)).astype(np.float32)
SIZES = {"num_codes": 32, "num_groups": 6}


@pytest.fixture
def dense(tmp_path: Path) -> Path:
    return attach(write_foreign(tmp_path / "dense.tflite", ROWS), vocabulary="a\nb\n")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def answers(path: Path, ids: np.ndarray) -> np.ndarray:
    interpreter = Interpreter(str(path))
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], ids)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize(
    ("method", "sizes"),
    [
        ("dpq", SIZES),
        ("opq", {**SIZES, "value_type": "float16"}),
        ("ant", {"num_anchors": 20, "nonzeros": 3, "weight_type": "int8"}),
        ("tt", {"rank": 6}),
        ("tr", {"rank": 3}),
        ("low_rank", {"rank": 5}),
    ],
)
def test_compressed_file_answers_with_packed_rows(method, sizes, dense, tmp_path):
    small = tmp_path / "small.tflite"
    path, report = edge_embed.compress(dense, method, output=small, **sizes)
    assert path == small
    (table,) = report.tables
    assert (table.name, table.uses) == (WORDS, 1)
    assert (report.dense_bytes, report.compressed_bytes) == (dense.stat().st_size, small.stat().st_size)
    # The expected answers are those of a file with the same rows as a dense table.
    layer, _ = edge_embed.compress(nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS))), method, **sizes)
    same = write_foreign(tmp_path / "same.tflite", layer(torch.arange(600)).numpy())
    ids = np.array([[0, 599, 17, 17]], np.int32)
    np.testing.assert_allclose(answers(small, ids), answers(same, ids), rtol=1e-5, atol=1e-5)
    assert read_foreign(small).attached[0][0][1] == b"a\nb\n"


# Every rank occurs, and each type with few and with many of them.
@pytest.mark.parametrize(
    ("shape", "value_type"), [((), "float16"), ((4,), "float32"), ((2, 4), "float32"), ((2, 1, 3), "float16")]
)
def test_rotated_rows_of_saved_model_stay_dynamic(value_type, shape, tmp_path):
    model = nn.Sequential(nn.Embedding.from_pretrained(torch.from_numpy(ROWS)))
    edge_embed.save(model, tmp_path / "dense.pt", torch.zeros(shape, dtype=torch.int64))
    edge_embed.compress(tmp_path / "dense.pt", "opq", output=tmp_path / "small.pt", **SIZES, value_type=value_type)
    report = edge_embed.export(tmp_path / "small.pt", "tflite", tmp_path / "small.tflite")
    assert len(report.dynamic["input"]) == len(shape)
    assert edge_embed.validate(tmp_path / "small.pt", tmp_path / "small.tflite").passed


@pytest.mark.slow
def test_compress_command_finds_setting_and_reports_it(tmp_path):
    rows = np.random.default_rng(6).normal(size=(3000, DIM)).astype(np.float32)
    np.save(tmp_path / "counts.npy", np.arange(3000.0))
    dense, small = write_foreign(tmp_path / "dense.tflite", rows), tmp_path / "small.tflite"
    result = run(
        "compress", dense, "-o", small, "--ratio", 4, "--counts", f"{WORDS}={tmp_path / 'counts.npy'}", "--json"
    )
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert told["tables"][0]["fidelity"]["ratio"] >= 4
    assert told["compressed_bytes"] == small.stat().st_size < told["dense_bytes"]
    assert {band["name"] for band in told["tables"][0]["fidelity"]["bands"]} > {"most frequent 1%"}
    (found,) = inspect_tflite(small, verify=True).tables
    assert found.num_embeddings == 3000


def test_table_needed_as_a_whole_is_refused(tmp_path):
    def needed(graph, table, ids):
        rows = mean_of_rows(graph, table, ids)
        graph.sum(table, [0])
        return rows

    file = write_foreign(tmp_path / "dense.tflite", ROWS, make=needed)
    result = run("compress", file, "-o", tmp_path / "small.tflite", "--ratio", 4)
    assert result.exit_code == 2
    assert "also used as a whole by SUM" in result.stderr
    assert not (tmp_path / "small.tflite").exists()


def test_compress_accepts_float16_rows_without_dequantize(tmp_path):
    def halves(graph, table, ids):
        return graph.cast(graph.gather(table, ids), "float32")

    file = write_foreign(tmp_path / "dense.tflite", ROWS.astype(np.float16), make=halves)
    _, report = edge_embed.compress(file, "dpq", output=tmp_path / "small.tflite", **SIZES)
    assert report.tables[0].fidelity.dense_bytes == 600 * DIM * 2


def test_compress_names_size_operators_and_remedy_of_table_that_stays(tmp_path):
    def integers(graph, table, ids):
        return graph.cast(graph.gather(table, ids), "float32")

    file = write_foreign(tmp_path / "dense.tflite", ROWS.astype(np.int8), make=integers)
    result = run("compress", file, "-o", tmp_path / "small.tflite", "--ratio", 4)
    assert result.exit_code == 2
    told = f"{WORDS}: int8 [600, {DIM}], 7,200 bytes, looked up by GATHER: "
    assert told in result.stderr
    assert "convert it to float32" in result.stderr


def test_compress_names_largest_constants_of_file_without_lookups(tmp_path):
    def product(graph, table, ids):
        return graph.products(graph.cast(ids, "float32"), table)

    file = write_foreign(tmp_path / "dense.tflite", ROWS, make=product, shape=(1, DIM))
    result = run("compress", file, "-o", tmp_path / "small.tflite", "--ratio", 4)
    assert result.exit_code == 2
    assert f"{WORDS} (float32 [600, {DIM}], 28,800 bytes), used by BATCH_MATMUL" in result.stderr
    assert "no constant is looked up by" in result.stderr


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({"trainable": True, "ratio": 4}, "trainable: "),
        ({"ratio": 4, "modules": ["absent"]}, "expected the name of a table: choose from"),
        ({"ratio": 4, "counts": {"absent": np.ones(600)}}, "counts: got the names absent"),
    ],
)
def test_compress_of_unfit_file_or_option_is_refused(wanted, message, dense, tmp_path):
    with pytest.raises(BadInputError, match=message):
        edge_embed.compress(dense, "dpq", output=tmp_path / "small.tflite", **wanted)
    assert not (tmp_path / "small.tflite").exists()


def test_compress_onto_its_own_input_is_refused(dense, tmp_path):
    before = dense.read_bytes()
    assert "choose another path" in run("compress", dense, "-o", dense, "--ratio", 4, "--force").stderr
    with pytest.raises(BadInputError, match="output: got none"):
        edge_embed.compress(dense, "dpq", **SIZES)
    once = tmp_path / "once.tflite"
    assert run("compress", dense, "-o", once, "--ratio", 4).exit_code == 0
    again = run("compress", once, "-o", tmp_path / "twice.tflite", "--ratio", 4)
    assert "already contains compressed tables" in again.stderr
    assert dense.read_bytes() == before


def _one_of_two(rank: int, dense: Path) -> None:
    meeting = f"file://{dense.with_name('meeting')}"
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=2)
    small = dense.with_name("small.tflite")
    _, report = edge_embed.compress(dense, "dpq", output=small, group=distributed.group.WORLD, **SIZES)
    assert report.compressed_bytes == small.stat().st_size
    distributed.barrier()
    distributed.destroy_process_group()


@pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch is built without gloo")
@pytest.mark.slow
def test_processes_write_same_file_as_one_process(dense, tmp_path):
    run_processes(_one_of_two, (dense,))
    edge_embed.compress(dense, "dpq", output=tmp_path / "one.tflite", **SIZES)
    assert (tmp_path / "small.tflite").read_bytes() == (tmp_path / "one.tflite").read_bytes()


@pytest.mark.parametrize("form", ["quantizer int8", "quantizer explicit int4", "tensorflow dynamic range"])
def test_compress_of_quantised_table_counts_bytes_of_file(form, tmp_path):
    file = write_form(tmp_path / "dense.tflite", form)
    held = read_foreign(file).found["table"].held_bytes
    (dense,) = inspect_tflite(file, verify=False).dense
    assert (dense.name, dense.num_embeddings, dense.embedding_dim) == ("table", 60, DIM)
    assert (dense.dtype, dense.stored_bytes) == ("int4" if "int4" in form else "int8", held)
    _, report = edge_embed.compress(file, "low_rank", output=tmp_path / "small.tflite", rank=1, value_type="float16")
    assert report.tables[0].fidelity.dense_bytes == held < 60 * DIM * 4
    (packed,) = inspect_tflite(tmp_path / "small.tflite", verify=True).tables
    assert packed.method == "tt"


@pytest.mark.slow
def test_compressed_file_of_litert_torch_answers_with_packed_rows(tmp_path):
    litert_torch = pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")

    class Indexed(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.tags = nn.Embedding(600, DIM), nn.Embedding(300, DIM)

        def forward(self, ids):
            return self.words(ids) + self.tags.weight[ids // 2]

    torch.manual_seed(0)
    model = Indexed().eval()
    litert_torch.convert(model, (torch.tensor([[1, 2, 3, 4]]),)).export(str(tmp_path / "dense.tflite"))
    path, report = edge_embed.compress(tmp_path / "dense.tflite", "dpq", output=tmp_path / "small.tflite", **SIZES)
    assert sorted(table.num_embeddings for table in report.tables) == [300, 600]
    layers, _ = edge_embed.compress(model, "dpq", **SIZES)
    ids = np.array([[0, 599, 17, 18]], np.int32)
    with torch.no_grad():
        expected = layers.words(torch.from_numpy(ids)) + layers.tags(torch.from_numpy(ids) // 2)
    np.testing.assert_allclose(answers(path, ids), expected.numpy(), rtol=1e-5, atol=1e-5)
