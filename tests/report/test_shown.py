"""Reports in Python: they print as on the command line, and a notebook shows them in colours."""

import inspect
import io
import pydoc
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.report.interactive import interactive


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("shown")
    model = nn.Sequential(edge_embed.DPQEmbedding(50, 8, 4, 4), nn.Linear(8, 2))
    example = torch.tensor([[1, 2, 3]])
    export = edge_embed.export(model, "onnx", folder / "m.onnx", example)
    _, compressed = edge_embed.compress(nn.Sequential(nn.Embedding(50, 8)), "rows", bits=4)
    return {"export": export, "compress": compressed, "inspect": edge_embed.inspect(folder / "m.onnx")}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("export", ["Embeddings", "wrote", "dpq"]),
        ("compress", ["Tables", "bits=4"]),
        ("inspect", ["DPQEmbedding: nodes"]),
    ],
)
def test_text_and_page_of_report_match_command_line(reports, name, words):
    report = reports[name]
    page = report._repr_html_()
    for word in words:
        assert word in str(report)
        assert word in page
    assert repr(report) == str(report)
    assert "\x1b" not in str(report)
    assert page.startswith("<pre")
    assert not any(f"{kind}(" in str(report) for kind in ("Report", "Trial", "TableInfo"))  # no dataclass


def test_notebook_shows_page_once(reports, monkeypatch):
    shown = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *page: shown.append(page))
    for report in reports.values():
        assert report._repr_html_().startswith("<pre")
        assert str(report)
    assert not shown  # the notebook shows the returned page


def test_page_escapes_markup_in_file_names(tmp_path):
    model = nn.Sequential(edge_embed.DPQEmbedding(50, 8, 4, 4))
    report = edge_embed.export(model, "onnx", tmp_path / "<b>&.onnx", torch.tensor([1]))
    assert "<b>" not in report._repr_html_()


def test_signatures_list_keywords_of_functions():
    for name in ("compress", "export", "lower", "validate", "check"):
        signature = inspect.signature(getattr(edge_embed, name))
        assert "function" not in str(signature)
        assert not [p for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD and name == "compress"]
    assert "num_codes" in inspect.signature(edge_embed.compress).parameters


@pytest.mark.parametrize(
    ("wrong", "meant"), [("num_code", "num_codes"), ("ratios", "ratio"), ("min_cosin", "min_cosine")]
)
def test_mistyped_keyword_of_compress_suggests_right_one(wrong, meant):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{wrong}': did you mean '{meant}'\?"):
        edge_embed.compress(nn.Embedding(4, 2), "dpq", **{wrong: 4})


@pytest.mark.parametrize(
    ("name", "wrong", "meant"),
    [
        ("DPQEmbedding", "num_code", "num_codes"),
        ("TREmbedding", "ranks", "rank"),
        ("ANTEmbeddingBag", "num_anchor", "num_anchors"),
        ("DPQEmbeddingBag", "modes", "mode"),
        ("TiedOutput", "biass", "bias"),
        ("ProximalOptimizer", "penalti", "penalty"),
        ("ValidationOptions", "iteration", "iterations"),
        ("PackedDPQ", "code", "codes"),
    ],
)
def test_mistyped_keyword_of_constructor_suggests_right_one(name, wrong, meant):
    with pytest.raises(TypeError, match=rf"unexpected keyword argument '{wrong}': did you mean '{meant}'\?"):
        getattr(edge_embed, name)(**{wrong: 4})


def test_constructor_of_subclass_accepts_its_own_keywords():
    class Words(edge_embed.DPQEmbeddingBag):
        def __init__(self, size):
            super().__init__(size, 8, num_codes=4, num_groups=2, mode="sum")

    assert Words(size=20).mode == "sum"
    with pytest.raises(TypeError, match="'sizes'"):
        Words(sizes=20)


@pytest.mark.parametrize("name", [name for name in edge_embed.__all__ if name != "__version__"])
def test_help_of_public_name_shows_no_address(name):
    assert " at 0x" not in pydoc.render_doc(getattr(edge_embed, name))


@pytest.mark.parametrize(("wrong", "meant"), [("DPQEmbeding", "DPQEmbedding"), ("exprt", "export"), ("lowr", "lower")])
def test_mistyped_public_name_suggests_right_one(wrong, meant):
    with pytest.raises(AttributeError, match=rf"no attribute '{wrong}': did you mean '{meant}'\? public names are"):
        getattr(edge_embed, wrong)


def test_mistyped_table_suggests_right_one():
    model = nn.ModuleDict({"words": nn.Embedding(40, 8), "0": nn.Embedding(40, 8)})
    with pytest.raises(
        BadInputError, match=r"got 'word', expected the name of a table: did you mean 'words'\? choose from"
    ):
        edge_embed.compress(model, "rows", bits=4, modules=["word"])
    with pytest.raises(BadInputError, match="got 'embed', expected the name of a table: choose from 'words', '0'"):
        edge_embed.compress(model, "rows", bits=4, modules=["embed"])


def test_progress_shows_bars_only_on_terminal(monkeypatch):
    seen = []

    @interactive
    def work(progress=None):
        progress("table", 1, 2)
        seen.append(progress)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    from edge_embed.report.interactive import BARS

    for stream, shows in ((io.StringIO(), False), (Terminal(), True)):
        monkeypatch.setattr("sys.stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        work(progress=BARS)
        assert ("table" in stream.getvalue()) == shows
    mine = lambda *step: seen.append(step)  # noqa: E731
    work(progress=mine)
    assert seen[-2:] == [("table", 1, 2), mine]


def test_results_with_model_print_their_report(tmp_path):
    model = nn.Sequential(nn.Embedding(400, 8), nn.Linear(8, 2))
    path = edge_embed.save(model, tmp_path / "m.pt", torch.tensor([1, 2]))
    for result in (edge_embed.compress(model, "rows", bits=4), edge_embed.compress(path, "rows", bits=4)):
        assert repr(result) == str(result.report)
        assert result._repr_html_() == result.report._repr_html_()
        assert result == (result.model, result.report)  # still a tuple


@pytest.mark.parametrize("layer", [edge_embed.DPQEmbedding(400, 8, 4, 4), edge_embed.ANTEmbedding(400, 8, 5)])
def test_packed_tables_print_their_sizes(layer):
    packed = layer.to_packed()
    assert repr(packed).startswith(f"{type(packed).__name__}(400 x 8, {packed.nbytes:,} bytes, ")
    assert "array" not in repr(packed)
    lowered = edge_embed.lower(nn.Sequential(layer), torch.tensor([1]))
    assert repr(lowered).splitlines() == ["LoweredProgram", f"0: {packed}"]


def test_calls_in_several_threads_give_equal_files(tmp_path):
    model = nn.Sequential(edge_embed.DPQEmbedding(50, 8, 4, 4), nn.Linear(8, 2))
    streams, filters = (sys.stdout, sys.stderr), list(warnings.filters)

    def write(number: int) -> bytes:
        path = edge_embed.save(model, tmp_path / f"{number}.pt", torch.tensor([1]))
        edge_embed.export(path, "onnx", tmp_path / f"{number}.onnx", open=False)
        return (tmp_path / f"{number}.onnx").read_bytes()

    with ThreadPoolExecutor(3) as pool:
        assert len(set(pool.map(write, range(3)))) == 1
    assert (sys.stdout, sys.stderr) == streams
    assert warnings.filters == filters


@pytest.mark.parametrize(
    "name", "bench bench_compress bench_folders check compare compressed exported validation".split()
)
def test_result_names_existing_view(name):
    module = import_module(f"edge_embed.report.results.{name}")
    kinds = [kind for kind in vars(module).values() if getattr(kind, "__module__", "") == module.__name__]
    (found,) = (kind.view for kind in kinds if "view" in vars(kind))
    view, _, function = found.partition(":")
    assert callable(getattr(import_module(view), function))
