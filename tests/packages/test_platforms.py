"""Platforms of the command line and presets of CMake are the same."""

import json

import pytest

from edge_embed.errors import BadInputError
from edge_embed.packages.platforms import PLATFORMS, find_platform
from edge_embed.targets.build import source_folder


def test_presets_are_builds_of_platforms():
    presets = json.loads((source_folder() / "CMakePresets.json").read_text())
    names = {preset["name"] for preset in presets["configurePresets"] if not preset.get("hidden")}
    assert names == {build.preset for platform in PLATFORMS.values() for build in platform.builds}
    assert names >= PLATFORMS.keys()
    assert [preset["configurePreset"] for preset in presets["buildPresets"]] == [
        preset["name"] for preset in presets["buildPresets"]
    ]


@pytest.mark.parametrize(("name", "hint"), [("linux", "expected one of android, ios"), ("andriod", "mean 'android'")])
def test_unknown_platform_is_refused_with_the_known_ones(name, hint):
    with pytest.raises(BadInputError, match=f"platform: got '{name}', .*{hint}"):
        find_platform(name)
