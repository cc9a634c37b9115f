"""Packages for macOS and iOS: xcframeworks of static libraries with module maps, and a manifest for Swift packages.

A package for macOS also has shared libraries for both processors, for programs that load them by path.
"""

import plistlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from edge_embed.packages.platforms import Build
from edge_embed.packages.universal import join_slices
from edge_embed.packages.work import Details, Work, copy_tree

_FRAMEWORKS = {"EdgeEmbedOps": "ops", "EdgeEmbedTflite": "tflite"}
_ARCHITECTURES = {"arm64": "arm64", "x86-64": "x86_64"}
_TOOLS = "// swift-tools-version:5.7"


@dataclass(frozen=True)
class Variant:
    """Part of an xcframework: the libraries for a device or for the simulator.

    Attributes:
        system: ``ios`` or ``macos``.
        simulator: whether it is for the simulator.
        builds: one for each processor.
    """

    system: str
    simulator: bool
    builds: tuple[Build, ...]

    @property
    def name(self) -> str:
        """Return the name of its folder, as Xcode writes it."""
        architectures = "_".join(_ARCHITECTURES[build.processor] for build in self.builds)
        return f"{self.system}-{architectures}{'-simulator' if self.simulator else ''}"


def lay_out_apple(work: Work, folder: Path) -> Details:
    """Fill the folder of a package, and inspect its libraries."""
    system = work.platform.name
    builds = {simulator: tuple(b for b in work.trees if ("simulator" in b.preset) == simulator) for simulator in (0, 1)}
    variants = [Variant(system, bool(simulator), found) for simulator, found in builds.items() if found]
    include = work.trees[variants[0].builds[0]] / "include"
    details: Details = {}
    for framework, part in _FRAMEWORKS.items():
        root = folder / f"{framework}.xcframework"
        for variant in variants:
            place = root / variant.name
            _write_headers(include / "edge_embed", place / "Headers" / framework, framework, part)
            library = f"libedge_embed_{part}.a"
            _join(work, variant, f"lib/{library}", place / library)
            details |= work.check(place, variant.builds, include)
        (root / "Info.plist").write_bytes(_info(variants, f"libedge_embed_{part}.a"))
    (folder / "Package.swift").write_text(_manifest(work), encoding="utf-8")
    if not work.platform.is_static:
        details |= _add_shared(work, variants[0], folder, include)
    return details


def _join(work: Work, variant: Variant, name: str, path: Path) -> None:
    slices = {build.processor: (work.trees[build] / name).read_bytes() for build in variant.builds}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(join_slices(slices) if len(slices) > 1 else next(iter(slices.values())))


def _write_headers(source: Path, target: Path, framework: str, part: str) -> None:
    """Copy headers into a folder of the module's name: two modules of one app must not share a path."""
    shutil.copytree(source / "kernels", target / "kernels")
    if part == "ops":
        shutil.copytree(source / "c_api", target / "c_api")
    shutil.copy2(source / f"{part}.h", target)
    module = f'module {framework} {{\n  header "{part}.h"\n  export *\n}}\n'
    (target / "module.modulemap").write_text(module, encoding="utf-8")


def _info(variants: list[Variant], library: str) -> bytes:
    """Return the property list of an xcframework."""
    parts = []
    for variant in variants:
        part = {
            "HeadersPath": "Headers",
            "LibraryIdentifier": variant.name,
            "LibraryPath": library,
            "BinaryPath": library,
            "SupportedArchitectures": [_ARCHITECTURES[build.processor] for build in variant.builds],
            "SupportedPlatform": variant.system,
        }
        parts.append(part | ({"SupportedPlatformVariant": "simulator"} if variant.simulator else {}))
    content = {"AvailableLibraries": parts, "CFBundlePackageType": "XFWK", "XCFrameworkFormatVersion": "1.0"}
    return plistlib.dumps(content)


def _manifest(work: Work) -> str:
    """Return the manifest of a Swift package with both libraries."""
    build = next(iter(work.trees))
    system = f'.{"iOS" if work.platform.name == "ios" else "macOS"}("{build.minimum}")'
    products = ", ".join(f'.library(name: "{name}", targets: ["{name}"])' for name in _FRAMEWORKS)
    targets = ", ".join(f'.binaryTarget(name: "{name}", path: "{name}.xcframework")' for name in _FRAMEWORKS)
    return (
        f'{_TOOLS}\nimport PackageDescription\n\nlet package = Package(\n  name: "EdgeEmbed",\n'
        f"  platforms: [{system}],\n  products: [{products}],\n  targets: [{targets}]\n)\n"
    )


def _add_shared(work: Work, variant: Variant, folder: Path, include: Path) -> Details:
    """Add the shared libraries of both processors in one file, with headers, CMake and pkg-config files."""
    tree = work.trees[variant.builds[0]]
    copy_tree(tree, folder)
    for path in sorted((folder / "lib").glob("*.*")):
        if path.is_file():
            _join(work, variant, f"lib/{path.name}", path)
    return work.check(folder / "lib", variant.builds, include)
