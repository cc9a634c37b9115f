"""`compress --calibrate`: outputs come closer to those of the dense model, and wrong examples are refused."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor, nn

import edge_embed
from edge_embed.calibration import calibrate
from edge_embed.calibration.calibrate import STEPS as STEPS_BY_DEFAULT
from edge_embed.calibration.distance import distance
from edge_embed.calibration.stored_values import with_values
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.program.program import Program
from edge_embed.report.results.calibration import Calibration
from edge_embed.workflow import load
from tests.calibration.tagger import SETTINGS, Tagger, inputs, weights
from tests.error_line import error_line

STEPS = 25


class Words(nn.Module):
    """A small language model."""

    def __init__(self, rows: int = 300) -> None:
        super().__init__()
        self.words = nn.Embedding(rows, 16)
        self.encoder = nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, rows)

    def forward(self, ids: Tensor) -> Tensor:
        states, _ = self.encoder(2 * self.words(ids))
        logits: Tensor = self.head(4 * states)
        return logits


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write models, and examples of each form."""
    place = tmp_path_factory.mktemp("calibration")
    torch.manual_seed(0)
    edge_embed.save(Words().eval(), place / "model.pt", (torch.zeros(2, 5, dtype=torch.int64),))
    edge_embed.save(Tagger().eval(), place / "tagger.pt", inputs())
    given = {name: array for at in range(40) for name, array in _case(at).items()}
    np.savez(place / "tagger.npz", **given)
    words = {f"w{at}": at for at in range(300)}
    _write_tokenizer(place / "tokenizer.json", words)
    _write_tokenizer(place / "larger.json", words | {f"v{at}": 300 + at for at in range(9)})
    ids = np.random.default_rng(1).zipf(1.3, 6000) % 300
    (place / "text.txt").write_text(" ".join(f"w{at}" for at in ids))
    (place / "short.txt").write_text("w1 w2 w3")
    (place / "other.txt").write_text("Größe " * 3000)
    (place / "repeated.txt").write_text(" ".join(f"w{at % 256}" for at in range(256 * 50)))
    np.save(place / "array.npy", ids)
    (place / "larger.txt").write_text(" ".join(f"v{at % 9} w{at % 300}" for at in range(3000)))
    return place


def _case(at: int) -> dict[str, Any]:
    return {f"{at}/{name}": value.numpy() for name, value in zip(("ids", "tags"), inputs(at), strict=True)}


def _write_tokenizer(path: Path, words: dict[str, int]) -> None:
    model = {"type": "WordLevel", "vocab": words, "unk_token": "w0"}
    path.write_text(json.dumps({"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"}, "model": model}))


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def of_tagger(place: Path, setting: str, **given: Any) -> tuple[Program, Calibration]:
    counts = {"words": torch.arange(300, 0, -1), "bag": torch.arange(200.0)} if setting == "tiered" else {}
    given = {"modules": ["words", "bag"], "calibration_steps": STEPS, **SETTINGS[setting], **given}
    method, examples = setting.partition(",")[0], place / "tagger.npz"
    small, report = edge_embed.compress(load(place / "tagger.pt"), method, counts=counts, calibrate=examples, **given)
    assert isinstance(small, Program)
    assert report.calibration is not None
    return small, report.calibration


@pytest.mark.parametrize("setting", SETTINGS)
def test_outputs_come_closer_in_the_same_bytes(setting: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    dense = load(place / "tagger.pt")
    fitted = list[Program]()
    monkeypatch.setattr(
        "edge_embed.calibration.compress.with_values", lambda *each: fitted.append(each[0]) or with_values(*each)
    )
    small, found = of_tagger(place, setting)
    (before_fit,) = fitted
    assert (found.count, found.unit, found.held_out) == (40, "cases", 0.1)
    assert found.after < found.before
    held_out = [inputs(at) for at in range(36, 40)]
    distances = [
        np.mean([float(distance(dense.run(*x), each.run(*x), [0])) for x in held_out]) for each in (before_fit, small)
    ]
    np.testing.assert_allclose([found.before, found.after], distances, rtol=0.02)  # bags round to float16
    before, after = weights(before_fit), weights(small)
    assert {name: (a.dtype, a.shape) for name, a in before.items()} == {n: (a.dtype, a.shape) for n, a in after.items()}
    changed = {name for name, array in before.items() if not np.array_equal(array, after[name])}
    assert changed
    assert all(name.startswith(("words.", "bag.")) for name in changed)
    integers = {name for name in changed if before[name].dtype.kind != "f"}
    has_codes = setting.partition(",")[0] in {"dpq", "opq", "rows", "tiered"}
    assert all("codes" in name for name in integers)
    assert {name.partition(".")[0] for name in integers} == ({"words", "bag"} if has_codes else set())


def test_values_depend_on_the_seed_alone(place: Path) -> None:
    first, again, other = (weights(of_tagger(place, "dpq", seed=seed)[0]) for seed in (1, 1, 2))
    assert all(np.array_equal(array, again[name]) for name, array in first.items())
    assert not all(np.array_equal(array, other[name]) for name, array in first.items())


def test_values_stay_if_outputs_do_not_come_closer(
    place: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("edge_embed.calibration.calibrate._RATE_BY_ERROR", 1e4)
    monkeypatch.setattr("edge_embed.calibration.calibrate._RATE", 50.0)
    small, found = of_tagger(place, "dpq")
    assert not found.is_kept
    assert "give more examples" in caplog.text
    monkeypatch.setattr("edge_embed.calibration.calibrate._RATE", 0.0)
    fitted, _ = of_tagger(place, "dpq")
    codes = [name for name in weights(small) if "codes" in name]
    assert not any(np.array_equal(weights(small)[name], weights(fitted)[name]) for name in codes)


def test_dense_model_stays_as_it_is(place: Path) -> None:
    dense = load(place / "tagger.pt")
    before = weights(dense)
    edge_embed.compress(dense, "dpq", calibrate=place / "tagger.npz", calibration_steps=2, **SETTINGS["dpq"])
    assert all(np.array_equal(array, before[name]) for name, array in weights(dense).items())


def test_text_calibrates_a_decoder_from_the_command_line_to_a_validated_file(place: Path, tmp_path: Path) -> None:
    small = tmp_path / "small.pt"
    sizes = "--method", "dpq", "--num-codes", 16, "--num-groups", 4, "--module", "words", "--module", "head"
    given = "--calibrate", place / "text.txt", "--calibration-steps", STEPS, "--texts", place / "text.txt"
    files = "--tokenizer", place / "tokenizer.json", "--card", tmp_path / "card.md"
    result = run("compress", place / "model.pt", "-o", small, *sizes, *given, *files, "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    found = report["calibration"]
    assert (found["count"], found["unit"], found["measure"]) == (6000, "tokens", "KL divergence")
    assert found["after"] < 0.9 * found["before"]
    plain = run("compress", place / "model.pt", "-o", tmp_path / "plain.pt", *sizes, *given[4:], *files[:2], "--json")
    assert report["texts"]["divergence"] < 0.9 * json.loads(plain.stdout)["texts"]["divergence"]
    assert "Calibration on" in (tmp_path / "card.md").read_text()
    edge_embed.export(small, "onnx", tmp_path / "small.onnx")
    assert run("validate", small, tmp_path / "small.onnx", "--iterations", 2).exit_code == 0


def test_terminal_shows_distances_and_that_figures_of_tables_are_older(place: Path, tmp_path: Path) -> None:
    sizes = "--method", "dpq", "--num-codes", 16, "--num-groups", 4
    given = "--calibrate", place / "text.txt", "--tokenizer", place / "tokenizer.json", "--calibration-steps", 3
    result = run("compress", place / "model.pt", "-o", tmp_path / "small.pt", *sizes, *given)
    assert result.exit_code == 0, result.output
    assert "Calibration on" in result.output
    assert "KL divergence" in result.output
    assert "before the calibration" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("examples", "options", "message"),
    [
        ("missing.txt", (), "missing.txt: no such file"),
        ("missing.npz", (), "missing.npz: no such file"),
        ("short.txt", (), "short.txt: got 3 token(s), expected at least 256: give a longer text"),
        ("other.txt", (), "other.txt: got 1 different token(s) of tokenizer.json, expected at least 8"),
        ("larger.txt", ("--tokenizer", "larger.json"), "larger.txt: got id 308 of larger.json, expected ids below 300"),
        ("tagger.npz", (), "tagger.npz: array 0/tags"),
        ("repeated.txt", (), "repeated.txt: got 5 example(s) that are held out, from pieces from token"),
        ("array.npy", (), "array.npy: got an array without names, expected an .npz file with arrays such as 0/ids"),
        ("text.txt", ("--calibration-steps", 0), "--calibration-steps"),
    ],
)
def test_wrong_examples_are_refused_before_the_work(
    examples: str, options: Sequence[object], message: str, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    output = tmp_path / "small.pt"
    sizes = "--method", "dpq", "--num-codes", 16, "--num-groups", 4
    tokenizer = () if "--tokenizer" in options else ("--tokenizer", "tokenizer.json")
    result = run("compress", "model.pt", "-o", output, *sizes, "--calibrate", examples, *tokenizer, *options)
    assert result.exit_code == 2, result.output
    assert message in error_line(result)
    assert not output.exists()


def _wrong(**changed: Any) -> dict[str, Any]:
    """Return twelve cases, of which the last, which is held out, has other arrays."""
    cases = {name: array for at in range(12) for name, array in _case(at).items()}
    return cases | {f"11/{name}": array for name, array in changed.items()}


IDS, TAGS = (value.numpy() for value in inputs())


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (_case(0), "cases.npz: got 1 case, expected at least 2"),
        (
            _case(0) | {f"1/{name[2:]}": value for name, value in _case(0).items()},
            "from case 1 on, all equal to earlier",
        ),
        (_wrong(ids=IDS + 300), "cases.npz: case 11: input ids: got id 599, expected ids below 300"),
        (_wrong(ids=IDS[0]), "cases.npz: case 11: input ids: got int64[9], expected int64[batch,sequence]"),
        (_wrong(ids=IDS[:0], tags=TAGS[:0]), "case 11: input ids: got shape [0, 9], expected at least one number"),
        (_wrong(ids=IDS.astype(np.float32)), "case 11: input ids: got float32, expected int64"),
        (_wrong(ids=-1 - IDS), "cases.npz: case 11: the model fails"),
        (_wrong(other=IDS), "cases.npz: array 11/other is not an input"),
        ({f"{at}/ids": at for at in range(1001)}, "cases.npz: got 1,001 cases, at most 1,000 are read"),
    ],
)
def test_wrong_cases_are_named(arrays: dict[str, Any], message: str, place: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "cases.npz", **arrays)
    given = "--method", "dpq", "--num-codes", 16, "--num-groups", 4, "--calibrate", tmp_path / "cases.npz"
    result = run("compress", place / "tagger.pt", "-o", tmp_path / "small.pt", *given, "--calibration-steps", 2)
    assert result.exit_code == 2, result.output
    assert message in error_line(result)
    assert not (tmp_path / "small.pt").exists()


def test_narrow_integers_are_ids(place: Path, tmp_path: Path) -> None:
    narrow: dict[str, Any] = {name: array.astype(np.int32) for at in range(3) for name, array in _case(at).items()}
    np.savez(tmp_path / "cases.npz", **narrow)
    given = {"num_codes": 16, "num_groups": 4, "calibration_steps": 2}
    _, report = edge_embed.compress(load(place / "tagger.pt"), "dpq", calibrate=tmp_path / "cases.npz", **given)
    assert report.calibration is not None
    assert report.calibration.count == 3


def test_table_without_influence_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Unused(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.other = nn.Embedding(300, 16), nn.Embedding(300, 16)

        def forward(self, ids: Tensor) -> Tensor:
            found: Tensor = self.words(ids) + 0 * self.other(ids)
            return found

    program = load(Unused().eval(), (torch.zeros(2, 5).long(),))
    cases: dict[str, Any] = {f"{at}/ids": np.random.default_rng(at).integers(300, size=(4, 5)) for at in range(6)}
    np.savez(tmp_path / "cases.npz", **cases)
    edge_embed.compress(program, "tiered", ratio=4, calibrate=tmp_path / "cases.npz", calibration_steps=2)
    assert "table other: no output depends on it in the examples" in caplog.text
    assert "table words" not in caplog.text


@pytest.mark.parametrize("method", ["dpq", "rows", "tiered"])
def test_half_precision_model_with_a_layer_behind_its_rows_is_calibrated(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(300, 16), nn.Linear(16, 5)).half().eval()
    cases: dict[str, Any] = {f"{at}/input": np.random.default_rng(at).integers(300, size=(4, 5)) for at in range(6)}
    np.savez(tmp_path / "cases.npz", **cases)
    given = {"ratio": 3, "modules": ["0"], "calibrate": tmp_path / "cases.npz", "calibration_steps": 5}
    _, report = edge_embed.compress(load(model, (torch.zeros(2, 5).long(),)), method, **given)
    assert report.calibration is not None
    assert report.calibration.after < report.calibration.before


class Scores(nn.Module):
    """Scores of any shape from the mean row of ids and further numbers."""

    def __init__(self, numbers: int) -> None:
        super().__init__()
        self.words = nn.Embedding(300, 16)
        self.kinds = nn.Embedding(7, 16)
        self.head = nn.Linear(16, numbers)

    def forward(self, ids: Tensor, kinds: Tensor, dense: Tensor) -> Tensor:
        found: Tensor = self.head(self.words(ids).mean(1) + self.kinds(kinds) + dense).squeeze(-1)
        return found


def _cases_of_few_ids(path: Path) -> Path:
    """Write cases in which 60 of 300 ids occur."""
    random = np.random.default_rng(0)
    np.savez(path, **{f"{at}/input": random.integers(60, size=(16, 5)) for at in range(40)})
    return path


@pytest.mark.parametrize("method", ["tiered", "auto"])
def test_rows_on_which_outputs_depend_get_more_bytes_without_counts(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(300, 16), nn.Flatten(), nn.Linear(80, 3)).eval()
    given = {"modules": ["0"], "ratio": 8, "calibration_steps": 1}
    examples, program = _cases_of_few_ids(tmp_path / "few.npz"), load(model, (torch.zeros(2, 5).long(),))
    plain, _ = edge_embed.compress(program, method, **given)
    small, report = edge_embed.compress(program, method, calibrate=examples, **given)
    dense, rows, other = (each.run(torch.arange(60).view(-1, 5))[0] for each in (program, plain, small))
    assert (other - dense).square().sum() < 0.2 * (rows - dense).square().sum()
    plan = report.tables[0].plan
    assert plan is not None
    assert (plan.counts, plan.tiers[-1].share < 0.5) == ("calibration", True)
    assert "measured on the examples, stands for its count" in " ".join(str(report).split())


@pytest.mark.parametrize(
    ("given", "origin"),
    [({"counts": {"0": torch.arange(300, 0, -1)}, "ratio": 8}, "given"), ({"min_cosine": 0.9}, "equal")],
)
def test_own_counts_and_minimum_cosines_are_not_weighed_again(
    given: dict[str, Any], origin: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(300, 16), nn.Flatten(), nn.Linear(80, 3)).eval()
    examples, program = _cases_of_few_ids(tmp_path / "few.npz"), load(model, (torch.zeros(2, 5).long(),))
    _, plain = edge_embed.compress(program, "tiered", modules=["0"], **given)
    _, found = edge_embed.compress(program, "tiered", modules=["0"], calibrate=examples, calibration_steps=1, **given)
    plan = found.tables[0].plan
    assert plan is not None
    assert plan.counts == origin
    assert found.tables == plain.tables


@pytest.mark.parametrize("numbers", [1, 7])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_outputs_that_are_no_logits_are_compared_by_squares(numbers: int, dtype: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, wide = (
        Scores(numbers).to(getattr(torch, dtype)).eval(),
        torch.float16 if dtype == "float16" else torch.float32,
    )
    random = torch.Generator().manual_seed(1)
    cases = {}
    for at in range(6):  # seven rows, as many as there are kinds
        ids, kinds = torch.randint(300, (7, 5), generator=random), torch.randint(7, (7,), generator=random)
        dense = 100 * torch.randn(7, 16, generator=random)  # squares of which float16 cannot add up
        cases |= {f"{at}/ids": ids.numpy(), f"{at}/kinds": kinds.numpy(), f"{at}/dense": dense.to(wide).numpy()}
    np.savez(tmp_path / "cases.npz", **cases)
    example = ids[:2], kinds[:2], dense[:2].to(getattr(torch, dtype))
    sizes = {"modules": ["words"], "num_codes": 16, "num_groups": 4, "calibration_steps": 3}
    _, report = edge_embed.compress(load(model, example), "dpq", calibrate=tmp_path / "cases.npz", **sizes)
    assert report.calibration is not None
    assert report.calibration.measure == "relative squared error"
    assert 0 < report.calibration.before < 1


@pytest.mark.parametrize(("at", "got"), [(1, "outputs with NaN"), (5, "outputs at a distance of nan")])
def test_example_with_infinite_outputs_is_named(at: int, got: str, tmp_path: Path) -> None:
    cases: dict[str, Any] = {}
    for case in range(6):
        dense = np.full((2, 16), np.nan if case == at else 1.0, np.float32)
        cases |= {f"{case}/ids": np.full((2, 5), case), f"{case}/kinds": np.zeros(2, np.int64), f"{case}/dense": dense}
    np.savez(tmp_path / "cases.npz", **cases)
    program = load(Scores(1).eval(), (torch.zeros(2, 5).long(), torch.zeros(2).long(), torch.zeros(2, 16)))
    given = {"modules": ["words"], "num_codes": 16, "num_groups": 4, "calibration_steps": 9}
    with pytest.raises(BadInputError, match=f"case {at}: got {got}, expected finite ones"):
        edge_embed.compress(program, "dpq", calibrate=tmp_path / "cases.npz", **given)


class ShortContext(Words):
    """A language model with at most 40 tokens of context."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(40, 16))

    def forward(self, ids: Tensor) -> Tensor:
        places = self.places.index_select(0, torch.arange(ids.shape[1]))
        states, _ = self.encoder(self.words(ids) + places)
        logits: Tensor = self.head(states)
        return logits


def test_pieces_fit_into_a_short_context(place: Path, tmp_path: Path) -> None:
    path = edge_embed.save(ShortContext().eval(), tmp_path / "short.pt", (torch.zeros(2, 5, dtype=torch.int64),))
    given = {"num_codes": 16, "num_groups": 4, "calibration_steps": 3, "tokenizer": place / "tokenizer.json"}
    _, report = edge_embed.compress(path, "dpq", calibrate=place / "text.txt", modules=["words"], **given)
    assert report.calibration is not None
    assert report.calibration.measure == "KL divergence"


class WithStates(Words):
    """The same language model, which returns its states too."""

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        states, _ = self.encoder(2 * self.words(ids))
        return self.head(4 * states), states


def test_states_beside_logits_do_not_count(place: Path) -> None:
    found = []
    for kind in (Words, WithStates):
        torch.manual_seed(0)
        program = load(kind().eval(), (torch.zeros(2, 5, dtype=torch.int64),))
        given = {"num_codes": 16, "num_groups": 4, "calibration_steps": 3, "tokenizer": place / "tokenizer.json"}
        _, report = edge_embed.compress(program, "dpq", calibrate=place / "text.txt", modules=["words"], **given)
        assert report.calibration is not None
        found.append((report.calibration.before, report.calibration.after))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-6)


def test_help_states_the_number_of_steps() -> None:
    assert f"[{STEPS_BY_DEFAULT}]" in run("compress", "--help").output


def test_text_for_another_model_names_the_option_and_the_remedy(place: Path, tmp_path: Path) -> None:
    given = "--ratio", 4, "--calibrate", place / "text.txt", "--tokenizer", place / "tokenizer.json"
    result = run("compress", place / "tagger.pt", "-o", tmp_path / "small.pt", *given)
    assert result.exit_code == 2
    assert "calibrate: got a model with the inputs of ids" in error_line(result)
    assert "give their inputs in an .npz file" in error_line(result)


def test_steps_and_tokenizers_without_examples_are_refused(place: Path, tmp_path: Path) -> None:
    for option in (("--calibration-steps", 5), ("--tokenizer", place / "tokenizer.json")):
        result = run("compress", place / "model.pt", "-o", tmp_path / "small.pt", "--ratio", 4, *option)
        assert result.exit_code == 2
        assert "without" in error_line(result)


def test_modules_and_exported_files_are_refused(place: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="for a module, expected a transformers folder or a saved model"):
        edge_embed.compress(Words(), ratio=4, calibrate=place / "tagger.npz")
    exported = tmp_path / "model.onnx"
    edge_embed.export(of_tagger(place, "dpq", calibration_steps=1)[0], "onnx", exported)
    with pytest.raises(BadInputError, match="compress the model that this one was exported from"):
        edge_embed.compress(exported, ratio=4, calibrate=place / "tagger.npz", output=tmp_path / "small.onnx")


class Constant(nn.Module):
    """A model whose outputs are ids."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(300, 16)

    def forward(self, ids: Tensor) -> Tensor:
        ids_out: Tensor = self.words(ids).argmax(-1)
        return ids_out


def test_outputs_without_a_gradient_are_refused(tmp_path: Path) -> None:
    path = edge_embed.save(Constant(), tmp_path / "ids.pt", (torch.zeros(2, 5, dtype=torch.int64),))
    given: dict[str, Any] = {f"{at}/ids": np.full((2, 5), at) for at in range(3)}
    np.savez(tmp_path / "ids.npz", **given)
    with pytest.raises(BadInputError, match="got a model without outputs of type float"):
        edge_embed.compress(path, "dpq", num_codes=16, num_groups=4, calibrate=tmp_path / "ids.npz")


def test_distance_is_that_of_its_formulas() -> None:
    random = torch.Generator().manual_seed(0)
    x, y = (torch.randn(2, 3, 5, generator=random) for _ in range(2))
    p, q = (logits.double().softmax(-1) for logits in (x, y))
    divergence = (p * (p / q).log()).sum(-1).mean()
    relative = (y.double() - x.double()).square().sum() / x.double().square().sum()
    ids = torch.zeros(2, dtype=torch.int64)
    assert float(distance([x, ids, x], [y, ids, y], [2])) == pytest.approx(float(divergence), rel=1e-5)
    assert float(distance([x, ids, x], [y, ids, y], [])) == pytest.approx(float(2 * relative), rel=1e-5)
    masked = x.clone()
    masked[..., 0] = -torch.inf
    assert float(distance([masked], [masked], [0])) == 0


@pytest.mark.parametrize(("before", "remedy"), [(0.0, "the tables matter"), (1e-8, "leave it out"), (0.1, "more")])
def test_remedy_depends_on_the_distance(before: float, remedy: str) -> None:
    assert remedy in calibrate._remedy(before)
