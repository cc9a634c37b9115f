"""Grid of the benchmark: options become combinations, and invalid ones are refused before a measurement."""

from pathlib import Path

import pytest

from edge_embed.bench.grid import PRESETS, Grid
from edge_embed.bench.uses import TopK
from edge_embed.errors import BadInputError

FILE = Path("model.onnx")


def words(grid):
    return [subject.name for subject in grid.subjects()]


def test_grid_makes_table_of_each_combination():
    grid = Grid(method=("dpq", "tt"), use=("rows",), dim=(32, 64), codes=(16, 256), rank=(2,))
    assert words(grid) == [
        "dpq codes=16 groups=8",
        "dpq codes=256 groups=8",
        "dpq codes=16 groups=16",
        "dpq codes=256 groups=16",
        "tt rank=2",
        "tt rank=2",
    ]


def test_session_memory_applies_to_uses_that_need_it():
    grid = Grid.parse(None, None, method="ant,dpq,tt", use="kernel", rank="2,3", memory_megabytes="0,8")
    assert [(subject.name, subject.memory_bytes) for subject in grid.subjects()] == [
        ("ant anchors=100 nonzeros=8", None),
        ("dpq codes=16 groups=64", None),
        ("tt rank=2 memory-megabytes=0", 0),
        ("tt rank=2 memory-megabytes=8", 8 << 20),
        ("tt rank=3 memory-megabytes=0", 0),
        ("tt rank=3 memory-megabytes=8", 8 << 20),
    ]
    assert [subject.memory_bytes for subject in Grid(method=("tt",), use=("rows",)).subjects()] == [None]
    both = Grid(method=("dpq", "tt"), use=("bag", "topk"), memory_megabytes=(8,)).subjects()
    assert [(subject.method, subject.uses[0].name) for subject in both if subject.memory_bytes] == [
        ("dpq", "topk"),
        ("tt", "bag"),
    ]


@pytest.mark.parametrize(
    "options",
    [{"method": ("ant",)}, {"method": ("dpq",), "use": ("rows", "bag")}, {"method": ("tt",), "use": ("topk",)}],
)
def test_session_memory_without_such_use_is_refused(options):
    assert Grid(**options).subjects()
    with pytest.raises(BadInputError, match=r"memory_megabytes: got 0, 4, expected none, .*, or leave it out"):
        Grid(**options, memory_megabytes=(0, 4)).subjects()


def test_uses_of_equal_size_share_table():
    tables, output_layers = Grid(method=("ant",)).subjects()
    assert [use.name for use in tables.uses] == ["rows", "bag", "kernel"]
    assert [use.name for use in output_layers.uses] == ["logits", "topk"]
    (together,) = Grid(method=("ant",), rows=(50,)).subjects()
    assert len(together.uses) == 5
    assert together.make().num_embeddings == 50


def test_topk_values_are_uses_limited_by_rows():
    (subject,) = Grid(method=("dpq",), use=("topk",), k=(1, 50), rows=(50,)).subjects()
    assert subject.uses == (TopK(1), TopK(50))
    with pytest.raises(BadInputError, match="k: got 50, expected a constant integer from 1 to 49, the rows"):
        Grid(use=("topk",), k=(1, 50), rows=(1000, 49)).subjects()


def test_calls_are_all_combinations_and_output_layers_have_no_ids():
    grid = Grid(ids=("zipf", "uniform"), cache=("warm", "cold"))
    (subject,) = Grid(method=("tt",), rows=(50,)).subjects()
    uses = {use.name: use for use in subject.uses}
    assert list(grid.calls(uses["bag"])) == [
        (4096, "zipf", "warm"),
        (4096, "zipf", "cold"),
        (4096, "uniform", "warm"),
        (4096, "uniform", "cold"),
    ]
    assert list(Grid(ids=("zipf",), batch=(2,)).calls(uses["logits"])) == [(2, "uniform", "warm")]


def test_options_override_default_grid_and_presets():
    assert Grid.parse(None, None) == Grid()
    assert Grid.parse(None, None, rows=" 5, 7", ids="zipf", rounds=9, use=None) == Grid(
        rows=(5, 7), ids=("zipf",), rounds=9
    )
    output_layers = Grid.parse("output-layer", None, batch="3", k="1,100")
    assert output_layers.use == ("logits", "topk")
    assert (output_layers.batch, output_layers.k) == ((3,), (1, 100))


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_make_tables_of_each_method(preset):
    for method in ("dpq", "ant", "tt"):
        assert {subject.method for subject in Grid.parse(preset, None, method=method).subjects()} == {method}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "pq"}, "method: got 'pq', did you mean 'dpq'\\? expected some of dpq, ant, tt"),
        ({"use": "rows,top"}, "use: got 'top'"),
        ({"cache": "hot"}, "cache: got 'hot'"),
        ({"peers": "cuda"}, "peers: got 'cuda'"),
        ({"rows": "many"}, "rows: got 'many', expected whole numbers"),
        ({"rows": "0"}, "rows: got 0, expected a positive integer"),
        ({"batch": ""}, "batch: got '', expected whole numbers"),
        ({"batch": "20"}, "batch: got 20, expected a multiple of 8"),
        ({"threads": "1,100000"}, "threads: got 100000, expected at most"),
        ({"threads": "0"}, "threads: got 0"),
        ({"k": "0"}, "k: got 0, expected a constant integer from 1 to 1000"),
        ({"k": "10,1001"}, "k: got 1001"),
        ({"memory_megabytes": "-1"}, "memory_megabytes: got -1, expected zero or a positive integer"),
        ({"memory_megabytes": str(1 << 43)}, "memory_megabytes: got .*, expected at most"),
    ],
)
def test_invalid_values_of_options_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        Grid.parse(None, None, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": (7,)}, "groups"),
        ({"codes": (1,)}, "codes"),
        ({"nonzeros": (101,)}, "nonzeros: got 101, expected 1 to 100"),
        ({"dim": (7,), "groups": (2,)}, "2"),
    ],
)
def test_sizes_of_impossible_tables_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        Grid(**options).subjects()


def test_sizes_beside_file_are_refused():
    with pytest.raises(BadInputError, match="rows: got a value and a file"):
        Grid.parse(None, FILE, rows="5")
    with pytest.raises(BadInputError, match="memory_megabytes: got a value and a file"):
        Grid.parse(None, FILE, memory_megabytes="5")
    assert Grid.parse(None, FILE, batch="8").batch == (8,)


def test_tflite_file_is_measured_in_litert_by_default():
    assert Grid.parse(None, Path("model.tflite"), use=None).use == ("litert", "litert-bag")
    assert Grid.parse(None, Path("model.tflite"), use="kernel").use == ("kernel",)
    assert Grid.parse(None, FILE).use == Grid().use
