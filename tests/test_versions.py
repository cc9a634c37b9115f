"""Version ranges of packages: the documentation states the declared ranges, and both ends are tested."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
TESTED = "torch onnx onnx-ir onnxscript onnxruntime numpy".split()


def declared(name: str) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    named = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    (found,) = {text for text in named if Requirement(text).name == name}  # the same range in every list
    return found


def chosen(end: str) -> dict[str, Version]:
    lines = (ROOT / ".ci" / f"{end}.txt").read_text("utf-8").splitlines()
    pairs = (line.split("==") for line in lines if not line.startswith("#"))
    return {name: Version(version) for name, version in pairs}


@pytest.mark.parametrize("name", TESTED)
def test_version_range_is_documented_and_tested_at_both_ends(name: str) -> None:
    text = declared(name)
    requirement = Requirement(text)
    lowest, newest = chosen("lowest")[name], chosen("newest")[name]
    assert f"| {name} | `{text.removeprefix(name)}` |" in (ROOT / "docs" / "install.md").read_text("utf-8")
    assert lowest < newest
    assert requirement.specifier.contains(lowest)
    assert requirement.specifier.contains(newest)
    bound = next(Version(clause.version) for clause in requirement.specifier if clause.operator == ">=")
    assert lowest.release[: len(bound.release)] == bound.release  # the lowest allowed minor version
    results = (ROOT / "tests" / "VERSIONS.md").read_text("utf-8")
    assert f"| {name} | {lowest} | {newest} |" in results
