"""Two builds of the same sources have the same bytes, in each format of libraries."""

import pytest

from edge_embed.packages.builds import install_tree, make_tree
from edge_embed.packages.platforms import PLATFORMS
from edge_embed.packages.toolchain import Toolchain, find_toolchain

TIME_LIMIT = 1800


@pytest.mark.slow
@pytest.mark.long  # it compiles three packages again
@pytest.mark.parametrize(("name", "libraries"), [("linux-arm64", 4), ("macos", 4), ("windows", 4)])
def test_platform_built_twice_has_same_bytes(packaged, tmp_path, name, libraries):
    """The second build is in another folder; the first may come from an earlier day."""
    platform = PLATFORMS[name]
    build = platform.builds[0]
    toolchain = find_toolchain(platform, build)
    assert isinstance(toolchain, Toolchain)
    packaged(name)
    first, second = install_tree(build, toolchain, TIME_LIMIT), tmp_path / "tree"
    make_tree(build, toolchain, tmp_path / "another" / "work", second, TIME_LIMIT)
    files = sorted(path.relative_to(second) for path in second.rglob("*") if path.is_file())
    for file in files:
        assert (second / file).read_bytes() == (first / file).read_bytes(), file
    assert sum(file.suffix in (".so", ".a", ".dylib", ".dll", ".lib") for file in files) == libraries
