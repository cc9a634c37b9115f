"""A baseline is a report of a check; any other content is refused with the remedy."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from edge_embed.errors import BadInputError
from edge_embed.gate.baseline import read_baseline
from edge_embed.report.results.byte_parts import SizePart

REPORT: dict[str, Any] = {
    "kind": "edge-embed check",
    "schema_version": 1,
    "environment": {"zlib": "1.3"},
    "metric": {"function": "m:f", "exported": 0.5},
    "validation": {
        "sizes": {
            "on_disk": 30,
            "zipped": 20,
            "parts": [{"table": "words", "name": "codes", "bytes": 10}, {"table": None, "name": "graph", "bytes": 20}],
        },
        "targets": [
            {"name": "local", "status": "passed", "counters": {}},
            {"name": "arm64", "status": "failed", "counters": {"instructions": 7}},
            {"name": "node", "status": "not run", "counters": {}},
        ],
    },
}


def write(folder: Path, content: Any) -> Path:
    path = folder / "baseline.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def changed(*place: Any, to: Any) -> dict[str, Any]:
    report = copy.deepcopy(REPORT)
    target: Any = report
    for key in place[:-1]:
        target = target[key]
    target[place[-1]] = to
    return report


def test_report_is_read_as_baseline(tmp_path: Path) -> None:
    found = read_baseline(write(tmp_path, REPORT))
    assert (found.on_disk, found.zipped, found.zlib, found.metrics) == (30, 20, "1.3", {"m:f": 0.5})
    assert (found.targets, found.instructions) == (("local", "arm64"), {"arm64": 7})
    assert found.parts == (SizePart("words", "codes", 10), SizePart(None, "graph", 20))


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_report_with_byte_order_mark_is_read_equally(tmp_path: Path, mark: str) -> None:
    assert read_baseline(write(tmp_path, mark + json.dumps(REPORT, indent=1))).on_disk == 30


def test_report_without_targets_tables_and_metrics_is_read(tmp_path: Path) -> None:
    older = copy.deepcopy(REPORT)
    del older["metric"], older["validation"]["targets"]
    found = read_baseline(write(tmp_path, older))
    assert (found.on_disk, found.metrics, found.targets, found.instructions, found.tables) == (30, {}, (), {}, {})


def test_report_tables_without_settings_are_read_with_their_sizes(tmp_path: Path) -> None:
    sizes = {"num_embeddings": 7, "embedding_dim": 4}
    older = {"name": "words", "method": "dpq", **sizes}
    newer = {"name": "tags", "method": "tt", **sizes, "settings": {"ranks": [1, 2, 1]}, "later": "key"}
    found = read_baseline(write(tmp_path, changed("validation", "tables", to=[older, newer])))
    assert found.tables == {
        "words": {"method": "dpq", **sizes},
        "tags": {"method": "tt", **sizes, "ranks": [1, 2, 1]},
    }


SIZES = ("validation", "sizes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ("9" * 5000, "is not valid JSON"),
        ('{"a": NaN}', "NaN is not a JSON number"),
        (
            f"<<<<<<< HEAD\n{json.dumps(REPORT)}\n=======\n{{}}\n>>>>>>> b\n",
            "line 1: got <<<<<<<, a merge conflict marker",
        ),
        ('{\n "kind": 1,\n<<<<<<< ours\n', "line 3: got <<<<<<<, a merge conflict marker"),
        ("[]", "report: got []"),
        ({}, "expected a report of `edge-embed check`"),
        ({**REPORT, "kind": "edge-embed validate"}, "expected a report"),
        ({**REPORT, "schema_version": 2}, "schema_version: got 2, expected 1"),
        ({**REPORT, "schema_version": True}, "schema_version: got True"),
        ({**REPORT, "validation": None}, "validation: got None"),
        ({**REPORT, "environment": []}, "environment: got []"),
        ({**REPORT, "metric": {"function": "f"}}, "metric: exported: got None, expected a finite number"),
        (changed(*SIZES, to=[]), "sizes: got []"),
        (changed(*SIZES, "on_disk", to="1"), "on_disk: got '1'"),
        (changed(*SIZES, "on_disk", to=1.5), "on_disk: got 1.5"),
        (changed(*SIZES, "zipped", to=-1), "zipped: got -1"),
        (changed(*SIZES, "zipped", to=10**30), "zipped: got 1000"),
        (changed(*SIZES, "parts", to={}), "parts: got {}"),
        (changed(*SIZES, "parts", to=[1]), "parts: got 1"),
        (changed(*SIZES, "parts", to=[{"table": 1, "name": "a", "bytes": 1}]), "table: got 1, expected text"),
        (changed(*SIZES, "parts", to=[{"table": None, "name": "a"}]), "bytes: got None"),
    ],
)
def test_invalid_baseline_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    with pytest.raises(BadInputError) as caught:
        read_baseline(write(tmp_path, content))
    assert message in str(caught.value)
    assert "baseline.json" in str(caught.value)


def test_missing_baseline_names_accept_command(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match=r"no such file: .*edge-embed check --accept"):
        read_baseline(tmp_path / "absent.json")
