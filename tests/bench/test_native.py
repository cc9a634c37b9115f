"""Native library of the benchmark: copies of rows, calls of kernels, and errors from their statuses."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.bench import ant, dpq, native, tt
from edge_embed.errors import EdgeEmbedError
from edge_embed.runtime import library


def assert_as_precise_as_promised(packed, ids, rows, units=4):
    """Assert an error of at most ``units`` ULPs of the sum of the terms' magnitudes before rounding; of 0 for DPQ."""
    if packed.method == "dpq":
        assert rows.tobytes() == packed.rows(ids).tobytes()
        return
    if packed.method == "ant":
        magnitudes = replace(packed, weights=np.abs(packed.weights), anchors=np.abs(packed.anchors))
    else:
        magnitudes = replace(packed, cores=tuple(np.abs(core) for core in packed.cores))
    assert (np.abs(rows - packed.rows(ids)) <= (2 * units + 1) * 2.0**-24 * magnitudes.rows(ids)).all()


@settings(max_examples=30)
@given(n=st.integers(1, 60), dim=st.integers(1, 70), calls=st.integers(1, 4), batch=st.integers(1, 40))
def test_copied_rows_equal_rows_of_last_call(n, dim, calls, batch):
    random = np.random.default_rng(n)
    table = random.standard_normal((n, dim), np.float32)
    ids, rows = random.integers(0, n, (calls, batch)), np.full((batch, dim), np.nan, np.float32)
    native.copy_rows(table, ids, rows)
    assert np.array_equal(rows, table[ids[-1]])


@pytest.mark.parametrize(
    "packed",
    [
        dpq.random_table(np.random.default_rng(0), 50, 12, 5, 4),
        ant.random_table(np.random.default_rng(0), 50, 12, 300, 4),
        tt.random_table(np.random.default_rng(0), 50, 12, 3),
    ],
    ids=lambda packed: packed.method,
)
def test_kernel_status_raises_error(packed):
    ids, rows = np.array([[3, 1], [4, 1]]), np.empty((2, 12), np.float32)
    gather = native.Gather(packed)
    gather(ids, rows)
    assert_as_precise_as_promised(packed, ids[-1], rows)
    with pytest.raises(RuntimeError, match=r"status \d+: "):
        gather(np.array([[50, 1], [4, 1]]), rows)  # in the first of two calls


@pytest.mark.parametrize("memory_bytes", [0, 100, 1 << 20])
def test_gather_is_precise_for_each_limit_of_memory(memory_bytes):
    packed = tt.random_table(np.random.default_rng(0), 50, 12, 3)
    ids, rows = np.arange(50).reshape(2, 25), np.empty((25, 12), np.float32)
    native.Gather(packed, memory_bytes)(ids, rows)
    assert_as_precise_as_promised(packed, ids[-1], rows, units=8)  # 4 more for the prepacked cores


def test_read_and_multiply_count_their_work():
    ones = np.zeros(2048 + 64, np.uint8)
    start = -ones.ctypes.data % 64
    ones[start : start + 2048].view(np.float32)[:] = 1
    found = native.library().eb_read(ones.ctypes.data + start, 2048, 3)
    lanes = 3 * 512 / found  # the result is one lane of the vector sum
    assert lanes in {4, 8, 16}
    assert native.library().eb_multiply_add(10) == 10 * 10 * 2 * lanes


def test_memory_is_written_before_it_is_read():
    memory = native.Memory(1025)  # pages that were never written would all be one page of zeros
    assert memory.nbytes == 2048
    assert memory.read(1) > 0


def test_missing_native_library_raises_with_remedy(monkeypatch, tmp_path):
    monkeypatch.setattr(library, "installed_path", lambda name: tmp_path / name)
    native.library.cache_clear()
    with pytest.raises(EdgeEmbedError, match="install the package again"):
        native.library()


def test_instruction_set_is_known():
    assert native.kernel_isa() in {"portable", "avx2", "avx512", "neon"}
