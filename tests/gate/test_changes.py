"""Changes since a baseline: in the model's order, and limited to facts of the earlier report."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from edge_embed.gate.baseline import Baseline
from edge_embed.gate.changed_settings import changes_since
from edge_embed.report.results.validation import Check, ModelResult, TableResult, ValidationReport

_CHECK = Check("stored rows", "passed", "all of them")
_SIZES = {"method": "dpq", "num_embeddings": 50, "embedding_dim": 12}


def _table(name: str, **settings: Any) -> TableResult:
    return TableResult(name, "dpq", 50, 12, 2400, 400, 6.0, (_CHECK,), (_CHECK,), settings=settings)


def _changes(baseline: dict[str, Any], *tables: TableResult, before: str = "1", now: str = "1") -> list[str]:
    earlier = Baseline(Path("b.json"), 1, 1, "1", (), {}, (), {}, baseline, {"torch": before})
    report = ValidationReport("m", 0, (), tables, ModelResult((), (), (), _CHECK), None, None)  # type: ignore[arg-type]
    return list(map(str, changes_since(earlier, report, {"torch": now, "onnx": "7"})))


def test_new_tables_are_listed_in_order_of_model() -> None:
    names = [f"table_{letter}" for letter in "hgfedcba"]
    assert _changes({}, *map(_table, names)) == [f"table {name} none -> dpq, 50 x 12" for name in names]


def test_removed_tables_and_changed_settings_are_listed() -> None:
    before = {"gone": _SIZES, "words": {**_SIZES, "num_codes": 16, "ranks": [1, 2]}}
    table = _table("words", num_codes=64, ranks=(1, 2))
    assert _changes(before, table) == ["table gone dpq, 50 x 12 -> none", "table words: num_codes 16 -> 64"]


def test_settings_unknown_to_older_report_are_no_change() -> None:
    assert _changes({"words": _SIZES}, _table("words", num_codes=64)) == []
    fewer = replace(_table("words"), num_embeddings=40)
    assert _changes({"words": _SIZES}, fewer) == ["table words: num_embeddings 50 -> 40"]


def test_versions_unknown_to_baseline_are_no_change() -> None:
    assert _changes({}, before="1", now="2") == ["torch 1 -> 2"]
    assert _changes({}) == []
