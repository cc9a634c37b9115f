"""Instruction counts a row, as arm64 code and as x86-64 code with AVX2, measured in an emulator of both.

Counts are equal in every run and on every machine. They do not include caches and predict no latencies.
"""

import os
import platform
import shutil
import subprocess
import sys

import pytest
from cmake_builds import AS_INSTALLED

from edge_embed.runtime.library import installed_path

# Instructions a row of the table, bag or output layer: AVX2, arm64. Compiled by GCC 12; 20 % more is a regression.
RECORDED = {
    "DPQ K=16 s=4 rows": (624, 546),
    "DPQ K=16 s=4 bag": (778, 817),
    "DPQ K=16 s=4 logits, batch 1": (79, 113),
    "DPQ K=16 s=4 logits, batch 8": (594, 806),
    "DPQ K=16 s=8 rows": (607, 459),
    "DPQ K=16 s=8 bag": (456, 663),
    "DPQ K=16 s=8 logits, batch 1": (59, 61),
    "DPQ K=16 s=8 logits, batch 8": (362, 427),
    "DPQ K=256 s=8 rows": (613, 467),
    "DPQ K=256 s=8 bag": (462, 671),
    "DPQ K=256 s=8 logits, batch 1": (360, 303),
    "DPQ K=256 s=8 logits, batch 8": (325, 427),
    "ANT m=8 rows": (1023, 2142),
    "ANT m=8 bag": (591, 846),
    "ANT m=8 logits, batch 1": (199, 228),
    "ANT m=8 logits, batch 8": (241, 330),
    "TT R=16 rows": (3251, 4099),
    "TT R=16 bag": (6532, 8670),
    "TT R=16 logits, batch 1": (470, 680),
    "TT R=16 logits, batch 8": (1904, 2578),
    "TT R=32 rows": (6610, 8970),
    "TT R=32 bag": (15903, 22631),
    "TT R=32 logits, batch 1": (1164, 1769),
    "TT R=32 logits, batch 8": (3828, 5432),
}
SLACK = 1.2

# Largest ratio of arm64 to AVX2, whose registers are twice as wide.
RATIO = 1.5
# Kernels that only sum a few terms, for which x86-64 reads a factor from memory at no cost.
RATIO_OF = {"ANT m=8 rows": 2.3, "TT R=32 logits, batch 1": 1.6}


def count(emulator, build, plugin, out, **variables):
    """Return the variant that runs, and for each kernel its instructions a row and a byte of output."""
    done = subprocess.run(
        [*emulator, "-plugin", f"{plugin},out={out}", build / "tests" / "count_kernels"],
        text=True,
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    variant, *kernels = done.stdout.splitlines()
    marks = [int(mark.split()[0]) for mark in out.read_text().splitlines()]
    assert len(marks) == 2 * len(kernels)
    counts = {}
    for kernel, begin, end in zip(kernels, marks[::2], marks[1::2], strict=True):
        name, rows, output_bytes = kernel.split("\t")
        counts[name] = ((end - begin) / int(rows), (end - begin) / int(output_bytes))
    return variant, counts


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="compares with x86-64 Linux")
def test_instructions_of_arm64_and_avx2_stay_below_recorded(cmake_build, arm64_build, tmp_path):
    if shutil.which("qemu-x86_64") is None:
        pytest.skip("qemu-x86_64 is missing (Debian: apt-get install qemu-user)")
    build = cmake_build(*AS_INSTALLED, targets=("count_kernels",))
    plugin, out = installed_path("edge_embed_count"), tmp_path / "counts"
    loads = subprocess.run(
        ["qemu-x86_64", "-plugin", f"{plugin},out={out}", "/bin/true"], text=True, capture_output=True, check=False
    )
    if loads.returncode != 0:
        pytest.skip(f"this QEMU takes no plugins of API version 1, that of Debian 12 to 13 does: {loads.stderr}")

    variant, avx2 = count(["qemu-x86_64", "-cpu", "max"], build, plugin, out, EDGE_EMBED_FORCE_ISA="avx2")
    assert variant == "avx2"
    variant, arm64 = count(["qemu-aarch64", "-cpu", "max", "-L", "/usr/aarch64-linux-gnu"], arm64_build, plugin, out)
    assert variant == "portable"

    print("instructions: AVX2 a row, a byte of output; arm64 a row, a byte of output; arm64 / AVX2")
    for name, (row, byte) in avx2.items():
        print(f"{name:28}{row:8.0f}{byte:9.2f}{arm64[name][0]:8.0f}{arm64[name][1]:9.2f}{arm64[name][0] / row:6.2f}")

    assert avx2.keys() == arm64.keys() == RECORDED.keys()
    for name, recorded in RECORDED.items():
        on_avx2, on_arm64 = avx2[name][0], arm64[name][0]
        assert on_avx2 <= SLACK * recorded[0], name
        assert on_arm64 <= SLACK * recorded[1], name
        assert on_arm64 <= RATIO_OF.get(name, RATIO) * on_avx2, name
