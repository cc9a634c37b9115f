"""Processes that share the work give the result of one process; an error in one reaches all."""

import os
import pickle
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper
from torch import distributed, nn

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.fitting import ant, centroids, dense_table, dictionary, fidelity
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.processes import ALONE, Processes

from ..forked import run_processes

WEIGHT = torch.randn(201, 6, generator=torch.Generator().manual_seed(0))
COUNTS = torch.arange(201.0).flip(0)
EXACT: dict[str, dict[str, Any]] = {
    "dpq": {"ratio": 3},
    "ant": {"num_anchors": 10, "nonzeros": 2},
    "rows": {"bits": 3},
    "low_rank": {"rank": 3},
    "opq": {"num_codes": 16, "num_groups": 2},
}
ROUNDED: dict[str, dict[str, Any]] = {
    "tt": {"rank": 5},
    "tr": {"rank": 3},
}
SIZES: dict[str, Any] = {"num_codes": 16, "num_groups": 3}

needs_gloo = pytest.mark.skipif(not distributed.is_gloo_available(), reason="torch is built without gloo")
Group = Any  # torch.distributed.ProcessGroup | None
Work = Callable[[Group, Path], Any]


def make_blocks_small() -> None:
    """Set small blocks, so that a small table has several of rows and of ANT's encoding, and use few rounds of ANT."""
    dense_table._BLOCK_NUMBERS = fidelity._BLOCK_NUMBERS = 6 * 45
    dictionary._BLOCK_NUMBERS = 40 * 15
    ant.fit.__kwdefaults__["turns"] = 4


def one_of_two(rank: int, folder: Path, work: Work) -> None:
    torch.set_num_threads(1)
    make_blocks_small()
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    found = work(distributed.group.WORLD, folder)
    (folder / f"found{rank}").write_bytes(pickle.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


def in_two(work: Work, folder: Path) -> list[Any]:
    """Return the results of both processes."""
    run_processes(one_of_two, (folder, work))
    return [pickle.loads((folder / f"found{rank}").read_bytes()) for rank in range(2)]


@pytest.fixture(scope="module", autouse=True)
def small_blocks() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (dense_table, dictionary, fidelity):
            patch.setattr(module, "_BLOCK_NUMBERS", module._BLOCK_NUMBERS)
        patch.setitem(ant.fit.__kwdefaults__, "turns", ant.fit.__kwdefaults__["turns"])
        make_blocks_small()
        yield


def model(weight: torch.Tensor = WEIGHT) -> nn.Module:
    return nn.Sequential(nn.Embedding.from_pretrained(weight, padding_idx=2))


def with_models(folder: Path) -> Path:
    """Write a saved model and an ONNX file into a folder."""
    edge_embed.save(model(), folder / "model.pt", torch.tensor([1]))
    table = numpy_helper.from_array(WEIGHT.numpy(), "words")
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    rows = helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["n", 6])
    graph = helper.make_graph([helper.make_node("Gather", ["words", "ids"], ["rows"])], "g", [ids], [rows], [table])
    program = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
    onnx.save(program, folder / "model.onnx")
    return folder


def packed_codes(path: Path) -> Any:
    """Return the codes of the one table of a file."""
    if path.suffix == ".onnx":
        return next(numpy_helper.to_array(each) for each in onnx.load(path).graph.initializer if "codes" in each.name)
    (packed,) = edge_embed.lower(path).tables.values()
    return packed.tensors()["codes"]


def make_all(group: Group, folder: Path) -> dict[str, Any]:
    """Return by method the layer's tensors, its rows and the report, and the results of other uses of `compress`."""
    found: dict[str, Any] = {}
    for name, wanted in {**EXACT, **ROUNDED}.items():
        small, report = edge_embed.compress(model(), name, counts={"0": COUNTS}, group=group, **wanted)
        packed = (small[0].embedding if name == "opq" else small[0]).to_packed()
        found[name] = packed.tensors(), packed.rows(np.arange(201)), report.to_json()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            dictionary, "_BLOCK_NUMBERS", 40 * 150
        )  # the search tries many anchors and would encode a few rows at a time
        found["auto"] = edge_embed.compress(model(), min_cosine=0.8, group=group)[1].to_json()["tables"][0]
    found["learning"] = edge_embed.compress(model(), "dpq", trainable=True, group=group, **SIZES)[0].state_dict()
    for source, output in ((folder / "model.onnx", folder / "small.onnx"), (folder / "model.pt", folder / "small.pt")):
        compressed = edge_embed.compress(source, "dpq", output=output, group=group, **SIZES)
        found[output.name] = compressed.report.to_json()
    found["work"] = share_work(group)
    if group is not None:
        found |= {"errors": meet_errors(group, folder), "refusals": refusals()}
    return found


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make_all(None, with_models(tmp_path_factory.mktemp("alone")))


@pytest.fixture(scope="module")
def folder_of_two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_models(tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def of_two(folder_of_two: Path) -> list[Any]:
    return in_two(make_all, folder_of_two)


@needs_gloo
class TestTheyMakeWhatOneMakes:
    @pytest.mark.parametrize("method", EXACT)
    @pytest.mark.slow
    def test_processes_give_bits_of_one_process(self, method: str, of_two: list[Any], alone: Any) -> None:
        tensors, _, report = alone[method]
        for found, _, told in (each[method] for each in of_two):
            assert found.keys() == tensors.keys()
            assert all(np.array_equal(found[name], array) for name, array in tensors.items())
            assert told == report

    @pytest.mark.parametrize("method", ROUNDED)
    @pytest.mark.slow
    def test_decompositions_by_processes_match_to_rounding(self, method: str, of_two: list[Any], alone: Any) -> None:
        first, second = (each[method] for each in of_two)
        # Sums differ in float64; float32 cores differ by a last digit, 2^-22 of numbers up to 4, in a few places.
        np.testing.assert_allclose(first[1], alone[method][1], rtol=0, atol=1e-6)
        assert all(np.array_equal(second[0][name], array) for name, array in first[0].items())
        assert first[2] == second[2]

    def test_search_by_processes_tries_same_settings(self, of_two: list[Any], alone: Any) -> None:
        trials = [trial["setting"] for trial in alone["auto"]["trials"]]
        for table in (each["auto"] for each in of_two):
            assert table["setting"] == alone["auto"]["setting"]
            assert [trial["setting"] for trial in table["trials"]] == trials

    def test_trainable_layer_by_processes_is_equal(self, of_two: list[Any], alone: Any) -> None:
        for state in (each["learning"] for each in of_two):
            assert all(torch.equal(state[name], tensor) for name, tensor in alone["learning"].items())

    @pytest.mark.parametrize("output", ["small.onnx", "small.pt"])
    def test_file_by_processes_is_equal(self, output: str, of_two: list[Any], alone: Any, folder_of_two: Path) -> None:
        assert all(each[output] == alone[output] for each in of_two)
        packed = packed_codes(folder_of_two / output)
        assert np.array_equal(packed, packed_codes(folder_of_two.parent / "alone0" / output))


def share_work(group: Group) -> dict[str, list[int]]:
    """Return by method the rows that this process reads in blocks or encodes, and a zero for each k-means."""
    done = list[int]()

    def counted(function: Callable[..., Any], amount: Callable[..., int]) -> Callable[..., Any]:
        def count(*given: Any) -> Any:
            done.append(amount(*given))
            return function(*given)

        return count

    found = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DenseTable, "block", counted(DenseTable.block, lambda table, place: place.stop - place.start))
        patch.setattr(dictionary, "encode", counted(dictionary.encode, lambda rows, *_: len(rows)))
        patch.setattr(centroids, "_by_k_means", counted(centroids._by_k_means, lambda *_: 0))
        for method, sizes in {**EXACT, **ROUNDED, "dpq": SIZES}.items():
            edge_embed.compress(model(), method, group=group, **sizes)
            found[method] = list(done)
            done.clear()
    return found


class CannotBeSent(Exception):
    def __reduce__(self) -> str:
        raise TypeError


def meet_errors(group: Group, folder: Path) -> list[str]:
    """Return the message with which each attempt ends."""
    processes = Processes(group)
    bad = WEIGHT.clone()
    bad[199, 1] = torch.nan  # in a block of the second process

    def fail_in_second(_: Any) -> torch.Tensor:
        if processes.rank == 1:
            raise CannotBeSent("as it is")
        return torch.zeros(1)

    attempts: list[Callable[[], object]] = [
        lambda: edge_embed.compress(model(bad), "dpq", ratio=3, group=group),
        *(
            lambda name=name: edge_embed.compress(  # type: ignore[misc]
                folder / name, "dpq", output=folder / name, force=True, group=group, **SIZES
            )
            for name in ("model.pt", "model.onnx")
        ),
        lambda: processes.gathered([0, 1], fail_in_second),
        lambda: processes.summed([0, 1], fail_in_second),
    ]
    told = []
    for attempt in attempts:
        try:
            attempt()
        except Exception as error:
            told.append(str(error))
    return told


def refusals() -> list[str]:
    """Return the refusals of groups that cannot be used."""
    told = []
    for group in (distributed.new_group([0]), distributed.new_group(backend="cuda:gloo")):
        try:
            Processes(group)
        except BadInputError as error:
            told.append(str(error))
    return told


@needs_gloo
class TestTogether:
    @pytest.mark.parametrize("method", [*EXACT, *ROUNDED])
    def test_rows_are_shared_about_evenly(self, method: str, of_two: list[Any], alone: Any) -> None:
        rows = sum(alone["work"][method])
        shares = [sum(each["work"][method]) for each in of_two]
        assert sum(shares) == rows
        assert all(abs(share - rows / 2) <= rows / 8 for share in shares)

    def test_centroids_of_groups_are_shared(self, of_two: list[Any], alone: Any) -> None:
        assert alone["work"]["dpq"].count(0) == 3
        assert sorted(each["work"]["dpq"].count(0) for each in of_two) == [1, 2]

    @pytest.mark.parametrize(
        ("at", "expected"),
        [(0, "row 199 contains"), (1, "is read by"), (2, "is read by"), (3, "as it is"), (4, "as it is")],
    )
    def test_error_of_one_process_reaches_all(self, at: int, expected: str, of_two: list[Any]) -> None:
        assert all(expected in each["errors"][at] for each in of_two)

    def test_group_that_cannot_be_used_is_refused(self, of_two: list[Any]) -> None:
        first, second = (each["refusals"] for each in of_two)
        no_cpu = "group: got one of cuda:gloo, which sends no data from the CPU, expected gloo"
        assert [told.startswith(no_cpu) for told in first] == [True]
        assert [told.startswith(no_cpu) for told in second] == [False, True]
        assert "group: got one without this process" in second[0]


def end_early(group: Group, folder: Path) -> None:
    distributed.barrier()  # both have met
    if distributed.get_rank() == 1:
        time.sleep(0.5)  # its messages have arrived
        os._exit(0)
    with pytest.raises(EdgeEmbedError, match="another process of the group has ended"):
        edge_embed.compress(model(), "dpq", ratio=3, group=group)
    (folder / "told").touch()
    os._exit(0)


@needs_gloo
def test_end_of_one_process_is_reported_to_other(tmp_path: Path) -> None:
    run_processes(one_of_two, (tmp_path, end_early))
    assert (tmp_path / "told").exists()


@given(st.integers(0, 50), st.integers(1, 20))
def test_shares_have_each_item_once(count: int, size: int) -> None:
    shares = []
    for rank in range(size):
        processes = Processes()
        processes.rank, processes.size = rank, size
        shares.append(processes.share(range(count)))
    assert [item for share in shares for item in share] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_single_process_does_all_work() -> None:
    assert ALONE.gathered([1, 2], sum) == [3]
    assert ALONE.gathered([], sum) == []
    assert list(ALONE.each([1, 2], str)) == ["1", "2"]
    assert (ALONE.same(lambda: 1), ALONE.first(lambda: 2)) == (1, 2)
