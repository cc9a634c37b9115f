"""A sound file passes on every path, and the report lists every check."""

import errno
import json

import pytest

from edge_embed.errors import BadInputError, EdgeEmbedError, OutputError
from edge_embed.validation import paths, validate
from edge_embed.validation.options import Tolerance
from edge_embed.validation.validate import ValidationOptions, validate_export

PATHS = ["training form", "packed oracle", "ONNX reference evaluator", "portable body", "custom op"]


def test_sound_file_passes_on_every_path(exported):
    report = exported.validate()
    assert report.failures() == []
    assert report.passed
    assert report.complete
    assert report.exit_code == 0
    assert [table.name for table in report.tables] == ["word", "topic"]
    for table in report.tables:
        assert [path.name for path in table.paths] == PATHS
        assert [check.name for check in table.checks] == ["node", "portable body", "stored rows", "manifest"]
    assert [path.name for path in report.model.paths] == PATHS
    assert report.model.kernel.status == "passed"


def test_model_runs_on_several_sizes_and_reports_its_error(inline):
    model = inline.validate().model
    assert model.left_out == ()
    assert any("batch=2, sequence=5" in case for case in model.cases)
    assert any("batch=1, sequence=1" in case for case in model.cases)
    assert any("batch=3, sequence=7" in case for case in model.cases)
    for path in model.paths[1:]:
        logits, padded = path.outputs
        assert 0 <= logits.mean_abs_error <= logits.max_abs_error < 1e-5
        assert "equal" in padded.detail  # truth values have no tolerance


def test_json_report_is_plain_stable_and_versioned(inline):
    content = json.loads(json.dumps(inline.validate().to_json(), allow_nan=False))
    assert content["schema_version"] == 1
    assert set(content) == {
        "kind", "schema_version", "passed", "complete", "exit_code", "failures", "file", "seed", "structure", "tables",
        "original", "model", "sizes", "latency", "targets", "cause",
    }  # fmt: skip
    assert content["tables"][0]["paths"][4] == {
        "name": "custom op",
        "status": "passed",
        "detail": content["tables"][0]["paths"][4]["detail"],
    }


def test_seed_gives_same_comparison_again(inline):
    first, second = inline.validate(seed=3), inline.validate(seed=3)
    assert first.model.paths == second.model.paths
    assert first.model.paths != inline.validate(seed=4).model.paths


def test_progress_counts_to_the_end_of_every_step(inline):
    seen: dict[str, list[tuple[int, int]]] = {}
    validate_export(
        inline.program,
        inline.lowered,
        inline.path,
        ValidationOptions(iterations=0),
        lambda step, done, total: seen.setdefault(step, []).append((done, total)),
    )
    assert {"structure", "rows of word", "paths of topic", "whole model", "sizes"} <= set(seen)
    for counts in seen.values():
        assert counts == sorted(counts)
        assert counts[-1][0] == counts[-1][1]


def test_custom_op_without_library_is_not_run(inline, monkeypatch):
    def missing():
        raise EdgeEmbedError("expected the operator library, found none")

    monkeypatch.setattr(paths, "get_library_path", missing)
    report = inline.validate(iterations=2)
    assert report.passed
    assert not report.complete
    for found in (*(table.paths[4] for table in report.tables), report.model.paths[4], report.model.kernel):
        assert found.status == "not run"
        assert "found none" in found.detail
    assert all(path.status == "passed" for table in report.tables for path in table.paths[:4])
    assert report.sizes.resident is None
    assert all(result.ratio is None and "found none" in result.reason for result in report.latency.results)


def test_invalid_library_is_refused(inline, monkeypatch, tmp_path):
    monkeypatch.setenv("EDGE_EMBED_LIBRARY", str(tmp_path / "none.so"))
    with pytest.raises(BadInputError, match=r"none\.so"):
        inline.validate()


def test_full_temporary_folder_is_named(inline, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(validate, "cut_out", full)
    with pytest.raises(OutputError, match=r"No space left on device.*TMPDIR"):
        inline.validate()


def test_tolerance_by_output_decides_result(inline):
    zero = Tolerance(0.0)
    report = inline.validate(atol=zero, rtol=zero)
    assert report.exit_code == 3
    assert any("logits" in failure for failure in report.failures())
    generous = Tolerance(0.0, {"logits": 1e-3})
    assert inline.validate(atol=generous, rtol=zero).passed


def test_tolerance_of_unknown_output_is_refused(inline):
    with pytest.raises(BadInputError, match=r"'logit'.*logits, padded"):
        inline.validate(atol=Tolerance(1e-5, {"logit": 1.0}))
