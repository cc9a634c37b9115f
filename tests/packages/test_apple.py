"""Packages for macos and ios: inspected, linked into programs, and not executed."""

import plistlib
import subprocess

import pytest

from edge_embed.packages.binaries import read_binaries

pytestmark = [pytest.mark.slow, pytest.mark.long]  # five builds take minutes without a cache
PROGRAM = """#include <EdgeEmbedOps/ops.h>
#include <EdgeEmbedTflite/tflite.h>
int main(void) {
  return ee_version() == 0 || RegisterEdgeEmbedOps == 0 || tflite_plugin_create_delegate == 0;
}
"""


@pytest.mark.parametrize(
    ("platform", "variants"),
    [
        ("macos", {"macos-arm64_x86_64": ({"arm64", "x86-64"}, "11.0", "MACOS")}),
        (
            "ios",
            {
                "ios-arm64": ({"arm64"}, "15.1", "IOS"),
                "ios-arm64_x86_64-simulator": ({"arm64", "x86-64"}, "15.1", "IOS_SIMULATOR"),
            },
        ),
    ],
)
def test_xcframework_lists_its_libraries_and_modules(packaged, platform, variants):
    package = packaged(platform)
    manifest = (package.folder / "Package.swift").read_text()
    for framework, part in (("EdgeEmbedOps", "ops"), ("EdgeEmbedTflite", "tflite")):
        root = package.folder / f"{framework}.xcframework"
        listed = plistlib.loads((root / "Info.plist").read_bytes())["AvailableLibraries"]
        assert {entry["LibraryIdentifier"] for entry in listed} == variants.keys()
        for entry in listed:
            processors, minimum, system = variants[entry["LibraryIdentifier"]]
            place = root / entry["LibraryIdentifier"]
            found = read_binaries(place / entry["LibraryPath"])
            assert {library.processor for library in found} == processors
            assert {(library.minimum, library.system) for library in found} == {(minimum, system)}
            assert entry.get("SupportedPlatformVariant", "") == ("simulator" if "SIMULATOR" in system else "")
            module = place / entry["HeadersPath"] / framework / "module.modulemap"
            assert f'header "{part}.h"' in module.read_text()
            assert (module.parent / f"{part}.h").is_file()
        assert f'path: "{root.name}"' in manifest
    executed = {file.path for file in package.report.files if file.proof == "executed"}
    assert platform == "macos" or not executed


def test_macos_libraries_are_universal_and_signed(packaged):
    folder = packaged("macos").folder / "lib"
    for name, needed in (("ops", set()), ("tflite", {"@rpath/libedge_embed_ops.dylib"})):
        found = {library.processor: library for library in read_binaries(folder / f"libedge_embed_{name}.dylib")}
        assert found.keys() == {"arm64", "x86-64"}
        assert found["arm64"].is_signed
        for library in found.values():
            assert set(library.needed) == needed | {"/usr/lib/libSystem.B.dylib"}


@pytest.mark.parametrize("target", ["aarch64-macos.11.0", "x86_64-macos.11.0"])
def test_program_for_macos_links_with_xcframeworks(packaged, zig, tmp_path, target):
    places = [
        packaged("macos").folder / f"{name}.xcframework" / "macos-arm64_x86_64"
        for name in ("EdgeEmbedOps", "EdgeEmbedTflite")
    ]
    (tmp_path / "app.c").write_text(PROGRAM)
    libraries = [next(place.glob("*.a")) for place in reversed(places)]
    includes = [f"-I{place / 'Headers'}" for place in places]
    command = [zig, "cc", "-target", target, "app.c", *includes, *libraries, "-o", "app"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
