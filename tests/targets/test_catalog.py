"""Targets by name."""

import re

import pytest

from edge_embed.errors import BadInputError
from edge_embed.targets.catalog import KINDS, list_targets, make_target, make_targets


@pytest.mark.parametrize(
    "text", ["", "Local", "nowhere", "local:x", "local:", "torch-cpu:1", "arm", ":x", "onnxruntime-cuda:x"]
)
def test_unknown_target_is_refused(text):
    with pytest.raises(BadInputError, match="target: got"):
        make_target(text)


def test_target_name_is_the_requested_one():
    assert [target.name for target in make_targets(["portable", "local", "portable"])] == ["portable", "local"]


def test_targets_of_every_kind_are_listed_with_lacks():
    listed = list_targets()
    assert [re.split(r"\W*:", info.name)[0] for info in listed] == list(KINDS)
    for info in listed:
        assert all(lack.what and lack.remedy for lack in info.lacks)
    assert not next(info for info in listed if info.name == "local").lacks


def test_target_runs_files_of_its_kind():
    assert [target.name for target in make_targets(["litert", "torch-cpu"], "tflite")] == ["litert", "torch-cpu"]
    with pytest.raises(BadInputError, match="got 'litert' for tflite files, expected one for onnx: local, "):
        make_targets(["litert"])
