"""Bundles as a whole: export writes them complete or not at all, and validate and open_bundle prove them."""

import ctypes
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor, nn

import edge_embed
from edge_embed.bundle import golden_case
from edge_embed.bundle.check import validate_bundle
from edge_embed.bundle.manifest import BundleFile, BundleManifest
from edge_embed.bundle.opened import open_bundle
from edge_embed.bundle.write import INSTRUCTION_SETS
from edge_embed.cli import main
from edge_embed.errors import BadInputError, ParityError
from edge_embed.runtime.library import get_library_path
from tests.bundle.conftest import TARGETS

FILES = ["NOTICE", "README.md", "bundle.json", "golden.json", "vocabulary.json"]


def export(model: Any, folder: Path, target: str = "onnx", **options: Any) -> Any:
    return edge_embed.export(model, target, folder, bundle=True, progress=lambda *_: None, **options)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


def rewritten(folder: Path, **changed: Any) -> Path:
    """Change keys of the manifest."""
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_bundle_has_everything_that_an_app_requires(bundles: dict[str, Path], target: str) -> None:
    folder = bundles[target]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, f"model.{target}"])
    manifest = BundleManifest.read(folder)
    assert manifest.metadata == {"task": "tags of words", "licence": "mit"}
    assert json.loads((folder / "vocabulary.json").read_text())[:2] == ["w0", "w1"]
    assert "mit" in (folder / "NOTICE").read_text()
    card = (folder / "README.md").read_text()
    assert card.startswith(f"---\nlibrary_name: edge-embed\nlicense: mit\ntags:\n- edge-embed\n- {target}\n---\n")
    assert "| words | dpq | 60 x 16 | 3,840 |" in card
    assert [*folder.parent.iterdir()] == [*bundles.values()]  # nothing else is left


def test_requirements_of_onnx_name_operators_and_versions(bundles: dict[str, Path]) -> None:
    manifest = BundleManifest.read(bundles["onnx"])
    assert manifest.requires == {"onnxruntime": "1.18", "edge_embed_ops": "0.1.0"}
    assert manifest.operators["edge_embed"] == ["DPQEmbedding"]
    assert {"Gather", "MatMul"} <= set(manifest.operators["ai.onnx"])  # of a body, and of the model


def test_instruction_sets_are_those_of_the_library(bundles: dict[str, Path]) -> None:
    library = ctypes.CDLL(str(get_library_path()))
    library.ee_isa_name.restype = ctypes.c_char_p
    names = []
    while (name := library.ee_isa_name(len(names))) is not None:
        names.append(name.decode())
    assert BundleManifest.read(bundles["onnx"]).instruction_sets == INSTRUCTION_SETS
    assert [name for name in names if name != "reference"] == INSTRUCTION_SETS["x86_64"]


@pytest.mark.parametrize("target", TARGETS)
def test_opened_bundle_computes_what_the_model_computes(bundles: dict[str, Path], saved: Path, target: str) -> None:
    ids = torch.tensor([[59, 0, 31]])
    (expected,) = edge_embed.workflow.load(saved).run(ids)
    for portable in (False, True):
        got = open_bundle(bundles[target], portable).run({"ids": ids.numpy() if portable else ids.tolist()})
        assert got.keys() == {"output"}
        np.testing.assert_allclose(got["output"], expected.numpy(), atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_wrong_inputs_are_refused_by_name(bundles: dict[str, Path], target: str) -> None:
    opened = open_bundle(bundles[target], check=False)
    for inputs in (None, [1], {}, {"words": np.zeros((1, 3), np.int64)}, {"ids": np.zeros((1, 3, 2, 2), np.int64)}):
        with pytest.raises(BadInputError, match="inputs: "):
            opened.run(inputs)


@pytest.mark.parametrize("target", TARGETS)
def test_outputs_other_than_the_golden_ones_are_found(bundles: dict[str, Path], tmp_path: Path, target: str) -> None:
    folder = Path(shutil.copytree(bundles[target], tmp_path / "bundle"))
    golden = json.loads((folder / "golden.json").read_text())
    golden["outputs"][0]["values"][7] += 0.01
    (folder / "golden.json").write_text(json.dumps(golden))
    manifest = BundleManifest.read(folder)
    sizes = {name: BundleFile.of(folder / name) for name in manifest.files}
    replace(manifest, files=sizes).write(folder)
    with pytest.raises(ParityError, match=r"output output: 1 of 15 values differ, at position 7"):
        open_bundle(folder)
    report = validate_bundle(folder)
    assert report.exit_code == 3
    assert {one.status for one in report.ran} == {"failed"}
    open_bundle(folder, check=False)  # an app may skip the check after its first start


@pytest.mark.parametrize("target", TARGETS)
def test_command_validates_a_bundle(bundles: dict[str, Path], target: str) -> None:
    done = run("validate", "--bundle", str(bundles[target]), "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert {one["status"] for one in report["ran"]} == {"passed"}
    assert len(report["ran"]) == {"onnx": 2, "tflite": 1}[target]
    assert all(one["error"] < 1e-5 for one in report["ran"])


def test_command_names_the_changed_file(bundles: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundles["onnx"], tmp_path / "bundle"))
    with (folder / "model.onnx").open("r+b") as file:
        file.seek(100)
        file.write(b"\xff\xfe")
    done = run("validate", "--bundle", str(folder))
    assert done.exit_code == 2
    assert "model.onnx: got SHA-256" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "others", [["model.pt"], ["model.pt", "model.onnx"], ["--atol", "1"], ["--seed", "0"], ["--verbose"]]
)
def test_arguments_without_meaning_for_a_bundle_are_refused(bundles: dict[str, Path], others: list[str]) -> None:
    done = run("validate", "--bundle", str(bundles["onnx"]), *others)
    assert done.exit_code == 2
    assert "leave out " in done.stderr


def test_command_still_requires_model_and_exported_file() -> None:
    for arguments, missing in ([], "MODEL"), (["model.pt"], "EXPORTED"):
        done = run("validate", *arguments)
        assert (done.exit_code, f"Missing argument '{missing}'" in done.stderr) == (2, True)


def test_command_exports_a_bundle(saved: Path, tmp_path: Path) -> None:
    done = run("export", str(saved), "--target", "onnx", "--bundle", str(tmp_path / "app"), "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert {Path(file["path"]).name for file in report["files"]} == {*FILES, "model.onnx"}
    assert {one["status"] for one in report["golden"]} == {"passed"}
    again = run("export", str(saved), "--target", "onnx", "--bundle", str(tmp_path / "app"))
    assert again.exit_code == 2
    assert "exists" in again.stderr
    forced = run("export", str(saved), "--target", "onnx", "--bundle", str(tmp_path / "app"), "--force", "--quiet")
    assert forced.exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["app"]


def test_output_beside_bundle_is_refused(saved: Path, tmp_path: Path) -> None:
    done = run("export", str(saved), "--target", "onnx", "--bundle", str(tmp_path / "a"), "-o", str(tmp_path / "b"))
    assert done.exit_code == 2
    assert [*tmp_path.iterdir()] == []


def test_folder_of_something_else_is_kept(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(BadInputError, match="exists"):
        export(saved, tmp_path)
    with pytest.raises(BadInputError, match=r"folder without bundle\.json"):
        export(saved, tmp_path, force=True)
    assert (tmp_path / "notes").read_text() == "mine"


def test_bundle_that_holds_its_model_is_kept(bundles: dict[str, Path], saved: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundles["onnx"], tmp_path / "bundle"))
    shutil.copyfile(saved, folder / "model.pt")
    done = run("export", str(folder / "model.pt"), "--target", "onnx", "--bundle", str(folder), "--force")
    assert (done.exit_code, "holds model.pt" in done.stderr) == (2, True)
    with pytest.raises(BadInputError, match=r"holds model\.pt, which is no part of the bundle"):
        export(saved, folder, force=True)
    assert (folder / "model.pt").is_file()


def test_folder_with_another_file_of_that_name_is_kept(saved: Path, tmp_path: Path) -> None:
    for text, problem in {'{"my": "settings"}': "format_version is missing", "mine": "is damaged"}.items():
        (tmp_path / "bundle.json").write_text(text)
        with pytest.raises(BadInputError, match=rf"{problem}.*: delete the folder yourself, or choose another path"):
            export(saved, tmp_path, force=True)
        assert (tmp_path / "bundle.json").read_text() == text


def test_bundle_is_written_only_if_the_file_computes_the_golden_outputs(
    saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_pair = golden_case.golden_pair

    def other_pair(*arguments: Any) -> Any:
        pair = true_pair(*arguments)
        pair.outputs[0].values[0] += 1
        return pair

    monkeypatch.setattr("edge_embed.bundle.write.golden_pair", other_pair)
    with pytest.raises(ParityError, match=r"operator library: .*1 of 15 values differ"):
        export(saved, tmp_path / "app")
    assert [*tmp_path.iterdir()] == []
    export(saved, tmp_path / "app", open=False)  # was not run, and says so
    assert "The exported file was not run." in (tmp_path / "app" / "README.md").read_text()


def test_external_weights_are_part_of_the_bundle(tmp_path: Path) -> None:
    model = edge_embed.DPQEmbedding(2000, 16, num_codes=8, num_groups=4)
    export(model, tmp_path / "app", example_inputs=torch.zeros(3, dtype=torch.int64), external_data="always")
    manifest = BundleManifest.read(tmp_path / "app")
    assert {"model.onnx", "model.onnx.data"} <= manifest.files.keys()
    open_bundle(tmp_path / "app")
    shutil.move(tmp_path / "app", tmp_path / "moved")
    open_bundle(tmp_path / "moved")


class Best(nn.Module):
    """The three best ids for a state."""

    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(60, 16, num_codes=8, num_groups=4)

    def forward(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        values, ids = self.words.topk(hidden, 3)
        return values, ids


def test_ids_of_equal_scores_are_left_out(tmp_path: Path) -> None:
    model = Best()
    with torch.no_grad():  # all rows are equal, so any ids are right
        model.words.value.copy_(model.words.value[:, :1].expand_as(model.words.value))
    export(model, tmp_path / "app", example_inputs=torch.randn(2, 16))
    golden = json.loads((tmp_path / "app" / "golden.json").read_text())
    ids = golden["outputs"][1]
    assert (ids["dtype"], ids["shape"], ids["values"]) == ("int64", [2, 3], [])
    open_bundle(tmp_path / "app")


def test_old_library_is_named_and_left_out(
    bundles: dict[str, Path], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = Path(shutil.copytree(bundles["onnx"], tmp_path / "bundle"))
    opened = open_bundle(rewritten(folder, requires={"onnxruntime": "1.18", "edge_embed_ops": "9.0"}))
    assert opened.portable
    assert "expected 9.0 or newer" in caplog.text
    ran = {one.way.partition(", ")[2]: one.status for one in validate_bundle(folder).ran}
    assert ran == {"operator library": "not run", "portable body": "passed"}


def test_old_runtime_is_refused(bundles: dict[str, Path], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(bundles["onnx"], tmp_path / "bundle"))
    rewritten(folder, requires={"onnxruntime": "99.0"})
    with pytest.raises(BadInputError, match=r"expected 99\.0 or newer"):
        open_bundle(folder)
    assert validate_bundle(folder).exit_code == 1


def test_model_that_refuses_random_ids_has_its_example_as_golden_pair(tmp_path: Path) -> None:
    class Shifted(nn.Module):
        """Model whose ids begin with 1,000."""

        def __init__(self) -> None:
            super().__init__()
            self.words = edge_embed.DPQEmbedding(60, 16, num_codes=8, num_groups=4)

        def forward(self, ids: Tensor) -> Tensor:
            rows: Tensor = self.words(ids - 1000)
            return rows

    export(Shifted(), tmp_path / "app", example_inputs=torch.tensor([[1003, 1059]]))
    golden = json.loads((tmp_path / "app" / "golden.json").read_text())
    assert set(golden["inputs"][0]["values"]) <= {1003, 1059}


def test_bundles_are_validated_and_opened_without_torch(bundles: dict[str, Path]) -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['onnx'] = None\n"
        "import edge_embed\n"
        f"edge_embed.open_bundle({str(bundles['onnx'])!r})\n"
        f"sys.exit(edge_embed.validate_bundle({str(bundles['onnx'])!r}).exit_code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("target", TARGETS)
def test_bundles_of_one_model_have_the_same_bytes(
    bundles: dict[str, Path], saved: Path, tmp_path: Path, target: str
) -> None:
    export(saved, tmp_path / target, target)  # the name of the folder is part of the bundle
    for path in bundles[target].iterdir():
        assert path.read_bytes() == (tmp_path / target / path.name).read_bytes(), path.name


def test_float16_tables_have_the_tolerance_of_float16(tmp_path: Path) -> None:
    model = edge_embed.DPQEmbedding(60, 16, num_codes=8, num_groups=4).half()
    export(model, tmp_path / "app", example_inputs=torch.tensor([1, 2]))
    (output,) = json.loads((tmp_path / "app" / "golden.json").read_text())["outputs"]
    assert output["dtype"] == "float16"
    assert output["atol"] > 1e-4


@pytest.mark.parametrize("target", TARGETS)
def test_golden_pair_that_does_not_fit_the_model_is_named(
    bundles: dict[str, Path], tmp_path: Path, target: str
) -> None:
    folder = Path(shutil.copytree(bundles[target], tmp_path / "bundle"))
    golden = json.loads((folder / "golden.json").read_text())
    golden["inputs"][0]["name"] = "words"
    (folder / "golden.json").write_text(json.dumps(golden))
    manifest = BundleManifest.read(folder)
    replace(manifest, files={name: BundleFile.of(folder / name) for name in manifest.files}).write(folder)
    done = run("validate", "--bundle", str(folder))
    assert done.exit_code == 2
    assert "golden.json: inputs: " in done.stderr
