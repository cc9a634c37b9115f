"""Simulated machine with small caches, whose roofs are measured once; each test would write hundreds of megabytes."""

import functools
from collections.abc import Iterator

import pytest

from edge_embed.bench import caches, roofs, run


@pytest.fixture(scope="session", autouse=True)
def _small_machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.mktemp("caches")
    described = (("Data", 1, "48K"), ("Instruction", 1, "32K"), ("Unified", 2, "1024K"), ("Unified", 3, "2M"))
    for index, (kind, level, size) in enumerate(described):
        cache = folder / f"index{index}"
        cache.mkdir()
        for name, value in {"type": kind, "level": level, "size": size}.items():
            (cache / name).write_text(f"{value}\n", encoding="ascii")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(caches, "_CACHES", folder)
        patch.setattr(run, "measure_roofs", functools.cache(roofs.measure_roofs))
        yield
