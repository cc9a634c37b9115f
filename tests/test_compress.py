"""`edge-embed compress` from a trained model to a validated file, and its messages for wrong input."""

import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor, nn

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.workflow import load

from .error_line import error_line
from .full_disk import full_disk


class Tagger(nn.Module):
    """A model of the user, trained with a dense table."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(400, 16, padding_idx=0)
        self.encoder = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, 400)
        self.head.weight = self.words.weight

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.encoder(self.words(ids))
        return self.head(states)  # type: ignore[no-any-return]


IDS = torch.tensor([[17, 4, 0]])


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    return edge_embed.save(Tagger(), tmp_path_factory.mktemp("saved") / "model.pt", IDS)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def test_dense_model_is_compressed_exported_and_validated(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.arange(400.0))
    small, exported = tmp_path / "small.pt", tmp_path / "small.onnx"
    goal = ("--ratio", 8, "--method", "dpq", "--counts", f"words={tmp_path / 'counts.npy'}")
    result = run("compress", saved, "-o", small, *goal, "--json")
    assert result.exit_code == 0, result.output
    (table,) = json.loads(result.stdout)["tables"]
    assert (table["name"], table["uses"], table["method"]) == ("words", 2, "dpq")
    assert table["fidelity"]["ratio"] >= 8
    assert run("export", small, "--target", "onnx").exit_code == 0
    assert run("validate", small, exported, "--iterations", 2).exit_code == 0
    (packed,) = edge_embed.lower(small).tables.values()
    assert packed.nbytes == table["fidelity"]["packed_bytes"]
    dense = load(saved).module.weight("words.weight")[1:]
    cosine = nn.functional.cosine_similarity(dense, torch.from_numpy(packed.rows(np.arange(1, 400))).float())
    weighted = (cosine.double() @ torch.arange(1.0, 400).double()) / torch.arange(1.0, 400).sum()
    assert float(weighted) == pytest.approx(table["fidelity"]["mean_cosine"], rel=1e-5)


@pytest.mark.parametrize("method", ["tt", "tr", "low_rank"])
def test_counts_reduce_weighted_error_of_decompositions(method: str, saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", 1e6 / np.arange(1.0, 401))
    counts = torch.from_numpy(np.load(tmp_path / "counts.npy"))[1:]  # without the padding row
    dense, errors = load(saved).module.weight("words.weight")[1:].double(), []
    for name, given in (("alike.pt", ()), ("counted.pt", ("--counts", f"words={tmp_path / 'counts.npy'}"))):
        result = run("compress", saved, "-o", tmp_path / name, "--method", method, "--rank", 5, *given, "--json")
        assert result.exit_code == 0, result.output
        rows = torch.from_numpy(edge_embed.lower(tmp_path / name).tables["words"].rows(np.arange(1, 400))).double()
        errors.append(float(((rows - dense).square().sum(1) @ counts / (dense.square().sum(1) @ counts)).sqrt()))
    assert errors[1] < 0.9 * errors[0]
    (table,) = json.loads(result.stdout)["tables"]
    assert table["fidelity"]["relative_error"] == pytest.approx(errors[1], rel=1e-5)


@pytest.mark.parametrize("counts", [["the", "of"], [1 + 2j, 1j]])
def test_counts_that_are_not_numbers_are_refused(counts: list[object], saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.array(counts))
    given = ("--method", "rows", "--bits", 4, "--counts", f"words={tmp_path / 'counts.npy'}")
    result = run("compress", saved, "-o", tmp_path / "small.pt", *given)
    assert result.exit_code == 2
    assert "[2], expected numbers >= 0 [n], the count of each row" in " ".join(result.stderr.split())


def test_counts_given_twice_for_table_are_refused(saved: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "counts.npy", np.ones(400))
    twice = ("--counts", f"words={tmp_path / 'counts.npy'}") * 2
    result = run("compress", saved, "-o", tmp_path / "small.pt", "--ratio", 4, *twice)
    assert result.exit_code == 2
    assert "got words twice, expected one file for each table" in " ".join(result.stderr.split())
    assert not (tmp_path / "small.pt").exists()


@pytest.mark.slow
def test_compress_repeated_gives_same_table(saved: Path, tmp_path: Path) -> None:
    for name in ("one.pt", "other.pt"):
        assert run("compress", saved, "-o", tmp_path / name, "--budget", "3 kB").exit_code == 0
    tables = [edge_embed.lower(tmp_path / name).tables["words"] for name in ("one.pt", "other.pt")]
    assert tables[0].nbytes <= 3000
    arrays = [table.tensors() for table in tables]
    assert all(np.array_equal(array, arrays[1][name]) for name, array in arrays[0].items())


def test_trainable_module_gets_gradients_after_compression() -> None:
    model = Tagger()
    small, report = edge_embed.compress(model, "dpq", num_codes=16, num_groups=8, trainable=True)
    assert isinstance(small.words, edge_embed.DPQEmbedding)
    small(IDS).logsumexp(-1).sum().backward()
    assert small.words.query.grad is not None
    assert report.tables[0].fidelity is not None
    assert isinstance(model.words, nn.Embedding)


def test_report_names_table_sizes_and_chosen_setting(saved: Path, tmp_path: Path) -> None:
    result = run("compress", saved, "-o", tmp_path / "small.pt", "--min-cosine", 0.8)
    assert result.exit_code == 0
    for part in ("words", "400 x 16", "25,600", "Pareto front", "(chosen)", "worst rows", "nearest rows"):
        assert part in result.stdout


def test_report_compares_with_dense_model_and_integer_rows(saved: Path, tmp_path: Path) -> None:
    plot = tmp_path / "tried.svg"
    goal = ("--ratio", 6, "--plot", plot)
    report = json.loads(run("compress", saved, "-o", tmp_path / "small.pt", *goal, "--json").stdout)
    weights = Tagger().state_dict()
    assert report["dense_bytes"] == sum(weight.nbytes for weight in weights.values()) - weights["head.weight"].nbytes
    saves = report["dense_bytes"] - report["compressed_bytes"]
    (table,) = report["tables"]
    assert saves == 400 * 16 * 4 - table["fidelity"]["packed_bytes"]
    compared = [(one["setting"], one["nbytes"]) for one in table["baselines"]]
    compared += [(one["setting"], one["nbytes"]) for one in table["trials"] if one["method"] == "rows"]
    scale_bytes = 400 + 256 * 4
    assert ("bits=8", 400 * 16 + 256 * 4 + scale_bytes) in compared
    assert ("bits=4", 400 * 8 + 16 * 4 + scale_bytes) in compared
    assert len(set(compared)) == len(compared)
    drawn = plot.read_text(encoding="utf-8")
    assert all(f"<!-- {text} -->" in drawn or f">{text}<" in drawn for text in ("dpq", "rows", "chosen", "bytes"))


class Topics(nn.Module):
    """A classifier of means of rows, of which its last layer reads two directions."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.classes = nn.EmbeddingBag(400, 16, padding_idx=0), nn.Linear(16, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.classes(self.words(ids))  # type: ignore[no-any-return]


def test_outputs_stay_where_next_layer_reads_few_directions(tmp_path: Path) -> None:
    torch.manual_seed(0)
    ids = torch.randint(1, 400, (50, 6))
    dense = load(edge_embed.save(Topics(), tmp_path / "topics.pt", ids[:2])).run(ids)[0]
    small, plot, card = (tmp_path / name for name in ("small.pt", "tried.svg", "README.md"))
    goal = ("--ratio", 12, "--method", "low_rank", "--plot", plot, "--card", card)
    result = run("compress", tmp_path / "topics.pt", "-o", small, *goal)
    assert result.exit_code == 0, result.output
    torch.testing.assert_close(load(small).run(ids)[0], dense, rtol=0, atol=2e-3)
    assert re.search(r"relative error 0\.000\d behind the next layer", " ".join(result.stdout.split()))
    assert "error behind the next layer" in plot.read_text(encoding="utf-8")
    assert re.search(r"`words`: relative error 0\.000\d behind the next layer\.", card.read_text(encoding="utf-8"))
    of_rows = run("compress", tmp_path / "topics.pt", "-o", small, *goal, "--min-cosine", 0.1, "--force")
    assert of_rows.exit_code == 0, of_rows.output
    assert "next layer" not in plot.read_text(encoding="utf-8")
    assert re.search(r"relative error 0\.\d+ behind the next layer", " ".join(of_rows.stdout.split()))
    assert (load(small).run(ids)[0] - dense).abs().max() > 0.1


@pytest.mark.parametrize(
    ("options", "exit_code", "message"),
    [
        ((), 2, "give --ratio, --budget or --min-cosine, or a --method with its sizes"),
        (("--ratio", 9999), 4, "table words: no tested setting fits into 2 bytes; the smallest requires"),
        (("--min-cosine", 1), 3, "no tested setting reaches a mean cosine of 1.0; the best reaches"),
        (("--budget", "3 parsecs"), 2, "budget: got '3 parsecs', expected bytes"),
        (
            ("--ratio", 4, "--module", "wrds"),
            2,
            "got 'wrds', expected the name of a table: did you mean 'words'?",
        ),
        (("--ratio", 4, "--counts", "words=absent.npy"), 2, "absent.npy: cannot be read"),
        (("--ratio", 4, "--counts", f"words={os.devnull}"), 2, "cannot be read as an array"),
        (("--ratio", 4, "--plot", "tried.png"), 2, "--plot: got tried.png, expected a name that ends in .svg"),
        (("--ratio", 4, "--plot", "small.pt"), 2, "small.pt: is given for two outputs; give --plot a separate file"),
        (("--ratio", 4, "--counts", "absent.npy"), 2, "expected NAME=FILE"),
        (("--ratio", 4, "--tokenizer", "tokenizer.json"), 2, "got tokenizer.json without texts"),
        (("--ratio", 4, "--counts", "words=order", "--tokenizer", "tokenizer.json"), 2, "without texts"),
        (("--method", "tt", "--rank", 400), 4, "use smaller sizes"),
        (("--method", "svd", "--ratio", 4), 2, "method: got 'svd', expected dpq, opq, ant, tt, tr, low_rank"),
        (("--method", "dpq", "--num-codes", 16, "--num-groups", 5), 2, "--num-groups must divide"),
    ],
)
def test_mistakes_are_named_without_traceback_or_files(
    saved: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[object, ...],
    exit_code: int,
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("compress", saved, "-o", "small.pt", *options)
    assert result.exit_code == exit_code, result.output
    assert message in error_line(result)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["safetensors", "npy", "npz", "txt", "onnx"])
def test_name_of_another_kind_of_file_is_refused(saved: Path, tmp_path: Path, suffix: str) -> None:
    result = run("compress", saved, "-o", tmp_path / f"small.{suffix}", "--ratio", 4)
    assert result.exit_code == 2
    assert f"small.{suffix}: has the suffix of a" in error_line(result)
    assert "but the output is a saved model; use the suffix .pt" in error_line(result)
    assert list(tmp_path.iterdir()) == []


def test_table_with_nan_is_refused_with_its_row(tmp_path: Path) -> None:
    model = Tagger()
    with torch.no_grad():
        model.words.weight[7, 3] = torch.nan
    with pytest.raises(BadInputError, match="table words: weight: row 7 contains NaN, infinity or"):
        edge_embed.compress(model, ratio=4)


def test_model_is_never_replaced_by_compress_with_force(saved: Path) -> None:
    before = saved.read_bytes()
    result = run("compress", saved, "-o", saved, "--ratio", 4, "--force")
    assert result.exit_code == 2
    assert "is read by this command" in result.stderr
    result = run("compress", saved, "-o", saved.with_name("small.pt"), "--ratio", 4, "--plot", saved, "--force")
    assert result.exit_code == 2
    assert "is read by this command" in result.stderr
    assert saved.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"trainable": True}, "a saved model cannot be trained; give the module"),
        ({"modules": ["head"]}, "choose from 'words'"),
    ],
)
def test_saved_model_refuses_training_and_unknown_modules(
    saved: Path, options: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInputError, match=message):
        edge_embed.compress(saved, ratio=4, **options)


def test_module_with_output_path_is_refused() -> None:
    with pytest.raises(BadInputError, match="output: got one for a module"):
        edge_embed.compress(Tagger(), ratio=4, output="small.pt")


def test_model_without_tables_is_refused() -> None:
    with pytest.raises(BadInputError, match=r"the model has no table to compress: it has no nn\.Embedding"):
        edge_embed.compress(nn.Linear(3, 4), ratio=4)


def test_dense_weight_of_compressed_layer_raises_with_remedy() -> None:
    small, _ = edge_embed.compress(Tagger(), "dpq", num_codes=16, num_groups=8)
    with pytest.raises(AttributeError, match=r"DPQEmbedding has no dense weight: .*TiedOutput.*compress the file"):
        small.words.weight  # noqa: B018
    assert not hasattr(small.words, "weight")


def test_ratio_counts_table_in_type_of_model() -> None:
    model = Tagger().half()
    small, report = edge_embed.compress(model, "dpq", ratio=3)
    found = report.tables[0].fidelity
    assert found is not None
    assert found.dense_bytes == model.words.weight.nbytes == 400 * 16 * 2
    assert found.ratio >= 3
    assert small.words(IDS).dtype == torch.float16


def test_counts_are_mapping_by_table_of_any_magnitude() -> None:
    with pytest.raises(BadInputError, match="counts: got a Tensor, expected a mapping"):
        edge_embed.compress(Tagger(), "dpq", ratio=4, counts=torch.ones(400))
    _, report = edge_embed.compress(
        Tagger(), "dpq", ratio=4, counts={"words": torch.full((400,), 1e308, dtype=torch.float64)}
    )
    assert report.tables[0].fidelity is not None


@pytest.mark.skipif(sys.platform == "win32", reason="limits of file sizes are those of POSIX")
@pytest.mark.parametrize("most", [4096, 20_000])
def test_full_disk_is_named_and_leaves_no_files(saved: Path, tmp_path: Path, most: int) -> None:
    sizes = "--method", "dpq", "--num-codes", 16, "--num-groups", 4
    with full_disk(most):
        done = run("compress", saved, "-o", tmp_path / "small.pt", *sizes)
    assert done.exit_code == 1
    assert "small.pt: cannot be written: File too large; choose an output path" in error_line(done)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("options", [("--ratio", 4), ("--method", "ant", "--num-anchors", 8, "--nonzeros", 2)])
def test_rows_of_zeros_are_saved(options: tuple[object, ...], tmp_path: Path) -> None:
    """Sparse codes of zero rows hold no number at all."""
    model = nn.Sequential(nn.Embedding.from_pretrained(torch.zeros(500, 32)), nn.Linear(32, 2))
    saved = edge_embed.save(model, tmp_path / "zeros.pt", torch.tensor([[1, 2]]))
    result = run("compress", saved, "-o", tmp_path / "small.pt", *options)
    assert result.exit_code == 0, result.output
    (table,) = edge_embed.lower(tmp_path / "small.pt").tables.values()
    assert not table.rows(np.arange(500)).any()


def test_budget_accepts_number_of_bytes(saved: Path, tmp_path: Path) -> None:
    assert run("compress", saved, "-o", tmp_path / "small.pt", "--method", "rows", "--budget", 9000).exit_code == 0
    (table,) = edge_embed.lower(tmp_path / "small.pt").tables.values()
    assert table.nbytes <= 9000


@pytest.mark.parametrize("name", ["small.onnx", "small.TFLITE"])
def test_output_name_of_another_format_is_refused(name: str, saved: Path, tmp_path: Path) -> None:
    result = run("compress", saved, "-o", tmp_path / name, "--ratio", 4)
    assert result.exit_code == 2
    assert "the output is a saved model; use the suffix .pt" in " ".join(result.stderr.split())
    assert not list(tmp_path.iterdir())


def test_output_equal_to_checkpoint_is_refused(saved: Path, tmp_path: Path) -> None:
    result = run("compress", saved, "-o", tmp_path / "x", "--ratio", 4, "--checkpoint", tmp_path / "x")
    assert result.exit_code == 2
    assert "is given for two outputs" in result.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": {"words.weight": torch.ones(3, 2)}}, "model: got a dict, expected a module, the path of a file"),
        ({"model": torch.ones(3, 2)}, "model: got a Tensor"),
        ({"model": None}, "model: got a NoneType"),
        ({"counts": {0: torch.ones(400)}}, r"counts: got \{0: .*, expected names of tables"),
        ({"modules": 5}, "modules: got 5, expected names of tables"),
        ({"checkpoint": 3}, "checkpoint: got 3, expected the path of a folder"),
    ],
)
def test_python_arguments_of_wrong_type_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        edge_embed.compress(**{"model": Tagger(), "method": "dpq", "ratio": 4, **arguments})  # type: ignore[call-overload]
