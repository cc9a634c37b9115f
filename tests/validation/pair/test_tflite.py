"""A compressed TFLite file beside the file it was made from."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edge_embed.compression.tflite.subgraph_calls import operator_name
from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.report.results.targets import Problem
from edge_embed.targets.target import RunFailedError, RunOptions, Subject
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.targets.tflite.runtimes import LITERT, OpenedModel
from edge_embed.validation.pair import validate_tflite as of_pair
from edge_embed.validation.pair.open import open_pair
from edge_embed.validation.tflite import validate as of_file
from tests.exporters.tflite.foreign_files import DIM, ROWS, attach, change, mean_of_rows, write_foreign
from tests.validation.pair.models import compressed, validate

pytest.importorskip("ai_edge_litert")
Change = Callable[[Any], object]
SEVERAL = ("short", "long")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    original = attach(write_foreign(tmp_path_factory.mktemp("pair") / "original.tflite"), labels="one two")
    return original, compressed(original)


def test_pair_passes_and_reports_rows_changes_and_sizes(files: tuple[Path, Path]) -> None:
    report = validate(*files)
    assert (report.exit_code, report.failures(), report.original) == (0, [], str(files[0]))
    assert report.tables[0].fidelity is not None
    assert [check.status for check in report.structure] == ["passed"]
    (answers,) = report.model.changes
    assert answers.relative_error is not None
    assert 0 < answers.relative_error < 1
    assert report.sizes.original is not None
    assert report.sizes.original.on_disk == files[0].stat().st_size
    ran = {path.name: path.status for path in report.model.paths}
    assert ran["original with the stored rows"] == ran["litert"] == "passed"


@pytest.mark.parametrize(
    "wanted",
    [{"method": "opq", "num_codes": 16, "num_groups": 4}, {"method": "ant", "num_anchors": 8, "nonzeros": 2},
     {"method": "tt", "rank": 4}, {"method": "rows", "bits": 8}],
    ids=["opq", "ant", "tt", "rows"],
)  # fmt: skip
def test_pairs_of_every_method_pass(wanted: dict[str, Any], tmp_path: Path) -> None:
    original = write_foreign(tmp_path / "original.tflite", ids_type="int64", shape=(-1, -1))
    assert validate(original, compressed(original, **wanted)).failures() == []


def test_pair_with_several_signatures_passes(tmp_path: Path) -> None:
    original = write_foreign(tmp_path / "original.tflite", signatures=SEVERAL)
    assert validate(original, compressed(original)).failures() == []


@pytest.mark.parametrize("rows", [1, 2])
def test_signature_with_other_output_names_is_named_in_error(tmp_path: Path, rows: int) -> None:
    def renamed(model: Any) -> None:
        for signature, name in zip(model.signatureDefs, (b"a1", b"b1"), strict=True):
            signature.outputs[0].name = name
        model.subgraphs[1].tensors[model.subgraphs[1].inputs[0]].shape = [rows, 4]

    model = LiteRtModel(change(write_foreign(tmp_path / "original.tflite", signatures=SEVERAL), renamed))
    assert len(model.call({"ids": np.zeros((1, 4), np.int32)})) == 1  # the signature with the first one's names
    if rows > 1:
        with pytest.raises(ValueError, match="expected the sizes of a signature with outputs a1; long has b1"):
            model.call({"ids": np.zeros((2, 4), np.int32)})


def _constant(model: Any, name: bytes) -> Any:
    tensor = next(each for graph in model.subgraphs for each in graph.tensors if each.name.endswith(name))
    return model.buffers[tensor.buffer]


def _other_weight(model: Any) -> None:
    content = np.array(_constant(model, b"head/weights").data, np.uint8)
    content[0] ^= 1
    _constant(model, b"head/weights").data = content


def _other_code(model: Any) -> None:
    content = np.array(_constant(model, b".codes").data, np.uint8)
    content[3] ^= 1
    _constant(model, b".codes").data = content


def _other_options(model: Any) -> None:
    operator = next(each for each in model.subgraphs[0].operators if operator_name(model, each) == "SUM")
    operator.builtinOptions.keepDims = not operator.builtinOptions.keepDims


def _other_output(model: Any) -> None:
    model.signatureDefs[0].outputs[0].name = b"replies"


@pytest.mark.parametrize(
    ("planted", "words"),
    [
        (_other_weight, "head/weights"),
        (_other_code, "edge_embed.tables"),
        (_other_options, "SUM"),
        (_other_output, "signatureDefs"),
    ],
)
def test_change_that_compress_does_not_make_fails_by_name(
    files: tuple[Path, Path], planted: Change, words: str, tmp_path: Path
) -> None:
    small = tmp_path / "small.tflite"
    small.write_bytes(files[1].read_bytes())
    report = validate(files[0], change(small, planted))
    assert report.exit_code == 3
    (structure,) = report.structure
    assert structure.status == "failed"
    assert words in structure.detail


class _Refusing:
    """A runtime that accepts some files only."""

    name, evidence, tokenizer = "old runtime", "executed-native", "cannot run"

    def __init__(self, *taken: Path) -> None:
        self._taken = taken

    def lacks(self) -> list[Problem]:
        return []

    def reason_against(self) -> str:
        return ""

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[OpenedModel]:
        if subject.model not in self._taken:
            raise RunFailedError("unknown operator")
        with LITERT.prepare(subject, options) as prepared:
            yield prepared


@pytest.mark.parametrize(("takes_original", "status"), [(False, "not run"), (True, "failed")])
def test_runtime_that_refuses_original_is_not_run(
    files: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, takes_original: bool, status: str
) -> None:
    runtime = _Refusing(*([files[0]] if takes_original else []))
    for module in (of_file, of_pair):
        monkeypatch.setattr(module, "WAYS", [runtime])
    monkeypatch.setattr(of_file, "compare_uses", lambda *_: [])
    report = validate(*files)
    (path,) = (path for path in report.model.paths if path.name == runtime.name)
    assert (path.status, report.exit_code) == (status, 3 if takes_original else 0)
    assert "unknown operator" in path.detail


@pytest.mark.parametrize("name", [None, b"", b"same"])
def test_inputs_and_outputs_without_unique_names_are_told_apart(name: bytes | None, tmp_path: Path) -> None:
    def changed(model: Any) -> None:
        (graph,), model.signatureDefs = model.subgraphs, []
        (factor,) = (at for at, tensor in enumerate(graph.tensors) if tensor.name == b"factor")
        graph.inputs = [*graph.inputs, factor]
        for tensor in graph.tensors:
            tensor.name = name

    original = change(write_foreign(tmp_path / "original.tflite", make=_with_a_factor), changed)
    with open_pair(original, compressed(original)) as (program, _):
        assert all(check.status == "passed" for check in program.pair.structure)
        first, second = (declared.name for declared in program.inputs)
        assert first != second
        assert [output.shape for output in program.run(*program.example_inputs)] == [(1, 3)]


def _with_a_factor(graph: Graph, table: Tensor, ids: Tensor) -> Tensor:
    return graph.binary("MUL", mean_of_rows(graph, table, ids), graph.input("factor", "float32", [1, 3]))


class TestWrongPairs:
    def test_pair_in_reverse_order_is_refused(self, files: tuple[Path, Path]) -> None:
        with pytest.raises(BadInputError, match="contains no other compressed tables than"):
            validate(files[1], files[0])

    def test_pair_without_compressed_table_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        with pytest.raises(BadInputError, match="contains no other compressed tables than"):
            validate(files[0], write_foreign(tmp_path / "other.tflite"))

    def test_pair_of_another_model_is_refused(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        other = write_foreign(tmp_path / "other.tflite", np.ones((ROWS + 1, DIM), np.float32))
        with pytest.raises(BadInputError, match="has no dense table in"):
            validate(other, files[1])

    def test_table_with_other_rows_differs_from_compress_report(self, files: tuple[Path, Path], tmp_path: Path) -> None:
        random = np.random.default_rng(5)
        other = attach(
            write_foreign(tmp_path / "other.tflite", random.normal(size=(ROWS, DIM)).astype(np.float32)),
            labels="one two",
        )
        report = validate(other, files[1])
        assert any("rows as compress reported them" in failure for failure in report.failures())

    def test_pair_of_one_file_twice_is_refused(self, files: tuple[Path, Path]) -> None:
        with pytest.raises(BadInputError, match="is the same file"):
            validate(files[1], files[1])
