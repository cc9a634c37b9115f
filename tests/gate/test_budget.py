"""A budget is read as it is written, and unknown keys are refused by name."""

from fractions import Fraction
from pathlib import Path

import pytest

from edge_embed.errors import BadInputError
from edge_embed.gate import budget as budget_module
from edge_embed.gate.budget import Budget, LatencyBudget, read_budget
from edge_embed.gate.quantities import Growth

EXAMPLE = "\n".join(
    line[4:].split("  ")[0] for line in (budget_module.__doc__ or "").splitlines() if line.startswith("    ")
)


def read(folder: Path, text: str) -> Budget:
    path = folder / "edge-embed.toml"
    path.write_text(text, encoding="utf-8")
    return read_budget(path)


def test_documented_budget_is_valid_and_names_every_key(tmp_path: Path) -> None:
    found = read(tmp_path, EXAMPLE)
    assert found.model == tmp_path / "model.pt"
    assert found.exported == tmp_path / "model.onnx"
    assert found.baseline == tmp_path / "baseline.json"
    assert (found.tokenizer, found.allow_not_run) == (tmp_path / "tokenizer.json", False)
    assert (found.size.on_disk, found.size.zipped, found.size.resident) == (460 << 10, 400 << 10, 20 << 20)
    assert found.size.growth == Growth(bytes=0)
    assert found.size.tables == {"words": 330 << 10}
    assert found.size.parts == {"graph": 20 << 10}
    assert (found.parity.atol, found.parity.rtol) == (1e-5, 1e-4)
    assert found.parity.outputs["logits"].atol == 1e-6
    assert found.latency == LatencyBudget(50, Fraction(1, 10), {"portable body": 1.0})
    assert found.metric is not None
    assert (found.metric.function, found.metric.drop) == ("mytask.metrics:accuracy", 0.01)


def test_empty_budget_has_defaults(tmp_path: Path) -> None:
    assert read(tmp_path, "") == Budget(path=tmp_path / "edge-embed.toml")


def test_bounds_of_an_output_precede_common_bounds(tmp_path: Path) -> None:
    parity = read(tmp_path, "[parity]\nmax = 1e-3\nmean = 1e-4\n[parity.outputs.logits]\nmax = 2.0").parity
    assert (parity.bound("logits", "max"), parity.bound("logits", "mean")) == (2.0, 1e-4)
    assert (parity.bound("tags", "max"), parity.bound("tags", "quantile")) == (1e-3, None)


def test_byte_order_mark_and_windows_lines_are_read(tmp_path: Path) -> None:
    assert read(tmp_path, "\ufeff[size]\r\non_disk = 7\r\n").size.on_disk == 7


def test_targets_named_twice_run_once(tmp_path: Path) -> None:
    found = read(tmp_path, '[targets]\nrequire = ["portable", "local", "portable"]')
    assert found.targets.require == ("portable", "local")


def test_row_limits_at_their_ends_are_accepted(tmp_path: Path) -> None:
    rows = read(tmp_path, "[rows]\nmin_cosine = 1\nmin_worst_cosine = 0\nmax_relative_error = 2.5").rows
    assert (rows.min_cosine, rows.min_worst_cosine, rows.max_relative_error) == (1.0, 0.0, 2.5)


@pytest.mark.parametrize(
    ("written", "size"),
    [("7", 7), ('"7 B"', 7), ('"1.5 kB"', 1500), ('"1.5MB"', 1_500_000), ('"0.5 KiB"', 512), ('"2 GiB"', 2 << 30)],
)
def test_sizes_accept_numbers_and_units(tmp_path: Path, written: str, size: int) -> None:
    assert read(tmp_path, f"[size]\non_disk = {written}").size.on_disk == size


@pytest.mark.parametrize(
    ("written", "before", "limit"),
    [("0", 100, 100), ('"3 B"', 100, 103), ('"1 %"', 100, 101), ('"1 %"', 199, 200), ('"0.5%"', 200, 201)],
)
def test_growth_limit_is_exact(tmp_path: Path, written: str, before: int, limit: int) -> None:
    assert read(tmp_path, f"[size]\ngrowth = {written}").size.growth.limit(before) == limit


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[size]\non_disc = 1", "size: unknown key 'on_disc': did you mean 'on_disk'? expected one of on_disk, zipped"),
        ("sizes = 1", "unknown key 'sizes': did you mean 'size'? expected one of model, exported"),
        ("[size]\non_disk = -1", "size: on_disk: got -1, expected bytes"),
        ('[size]\non_disk = "-1 KiB"', "on_disk: got '-1 KiB'"),
        ('[size]\non_disk = "1 KB"', "on_disk: got '1 KB'"),
        ("[size]\non_disk = 1.5", "on_disk: got 1.5"),
        ("[size]\non_disk = true", "on_disk: got True"),
        ("[size]\non_disk = 1979-05-27", "on_disk: got"),
        ("[size.tables]\nwords = []", "tables: words: got"),
        ("size = 3", "size: got 3, expected a table"),
        ("[size]\nparts = 3", "parts: got 3, expected a table"),
        ('[size]\ngrowth = "-1 %"', "growth: got '-1 %'"),
        ("[parity]\natol = inf", "parity: atol: got inf"),
        ("[parity]\natol = nan", "parity: atol: got nan"),
        ('[parity]\natol = "1e-5"', "parity: atol: got '1e-5', expected a finite number"),
        ("[parity.outputs.logits]\nmin = 1.0", "outputs: logits: unknown key 'min'"),
        ("[latency]\niterations = 1", "iterations: got 1, expected an integer of at least 2"),
        ("[latency]\nthreshold = 0.1", "threshold: got 0.1, expected a percentage"),
        ('[latency.at_most]\n"portable body" = -1', "at_most: portable body: got -1"),
        ("[metric]\ndrop = 0.1", "metric: got no function"),
        ('[size]\non_disk = "1 kb"', "(units: B, kB, MB, GB, KiB, MiB, GiB)"),
        ('[size]\ngrowth = "460"', "(units: B, kB"),
        ("[rows]\nmin_cosine = 1.5", "rows: min_cosine: got 1.5, expected a cosine, a number from 0 to 1"),
        ("[rows]\nmin_worst_cosine = 95", "min_worst_cosine: got 95, expected a cosine"),
        ("[rows]\nmin_cosine = nan", "min_cosine: got nan"),
        ("[texts]\nmin_top1 = 0.9", "texts: got no file, expected one such as 'texts.txt'"),
        ("[texts]\nfile = 'a'\nmin_acceptance = 95", "texts: min_acceptance: got 95, expected a share"),
        ("[texts]\nfile = 'a'\nmax_divergence = -1", "texts: max_divergence: got -1"),
        ("[targets]\ntime_limit = 0", "time_limit: got 0, expected seconds, a finite number above 0"),
        ("[targets]\ntime_limit = inf", "time_limit: got inf"),
        ("<<<<<<< HEAD\n[size]\n=======\n>>>>>>> other\n", "line 1: got <<<<<<<, a merge conflict marker"),
        ("[size]\r\non_disk = 1\r\n>>>>>>>\r\n", "line 3: got >>>>>>>, a merge conflict marker"),
        ("model = 3", "model: got 3, expected text"),
        ("[size", "is not valid TOML"),
        ("a = " + "[" * 5000, "is not valid TOML"),
        ("#" * (2 << 20), "has more than"),
    ],
)
def test_mistakes_in_budget_are_named(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read(tmp_path, text)
    assert message in str(caught.value)
    assert "edge-embed.toml" in str(caught.value)


def test_missing_or_unreadable_budget_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"absent\.toml: no such file"):
        read_budget(tmp_path / "absent.toml")
    with pytest.raises(BadInputError, match="is not a regular file"):
        read_budget(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInputError, match="is not UTF-8 text"):
        read_budget(tmp_path / "bytes.toml")
