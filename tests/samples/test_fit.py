"""Tables fitted to dense ones: exact where they have room for everything, close where they have not."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn, which has the k-means, is missing: pip install 'edge-embed[dev]'")

from pretrained import fit

ROWS = np.random.default_rng(0).normal(size=(24, 12)).astype(np.float32)
IDS = np.arange(len(ROWS))


def error(packed: fit.Packed) -> float:
    return float(np.linalg.norm(packed.rows(IDS) - ROWS) / np.linalg.norm(ROWS))


class TestExact:
    def test_dpq_with_a_code_for_every_row(self) -> None:
        assert error(fit.dpq(ROWS, num_codes=24, num_groups=3)) < 1e-6

    def test_ant_with_all_coordinates(self) -> None:
        packed = fit.ant(ROWS, num_nonzeros=12)
        assert error(packed) < 1e-2  # int8 weights
        assert packed.weights.dtype == np.int8

    @pytest.mark.parametrize(
        ("row_shape", "col_shape"), [((24, 1), (1, 12)), ((4, 6), (3, 4)), ((2, 3, 4), (3, 2, 2)), ((5, 5), (4, 3))]
    )
    def test_tt_of_full_rank(self, row_shape: tuple[int, ...], col_shape: tuple[int, ...]) -> None:
        packed = fit.tt(ROWS, row_shape, col_shape, rank=100)
        assert packed.shape.row_shape == row_shape
        assert error(packed) < 1e-5


class TestClose:
    def test_less_room_is_a_larger_error(self) -> None:
        for larger, smaller in (
            (fit.dpq(ROWS, 16, 6), fit.dpq(ROWS, 4, 3)),
            (fit.ant(ROWS, 8), fit.ant(ROWS, 3)),
            (fit.tt(ROWS, (24, 1), (1, 12), 8), fit.tt(ROWS, (24, 1), (1, 12), 3)),
        ):
            assert smaller.nbytes < larger.nbytes
            assert error(larger) < error(smaller) < 1

    def test_ant_keeps_as_many_as_told(self) -> None:
        assert np.diff(fit.ant(ROWS, num_nonzeros=3).row_offsets).tolist() == [3] * len(ROWS)

    def test_tt_of_low_rank_is_the_best_there_is(self) -> None:
        left, sizes, right = np.linalg.svd(ROWS, full_matrices=False)
        best = (left[:, :4] * sizes[:4]) @ right[:4]
        np.testing.assert_allclose(fit.tt(ROWS, (24, 1), (1, 12), 4).rows(IDS), best, atol=1e-5)


def test_the_padding_row_is_zero() -> None:
    for packed in (
        fit.dpq(ROWS, 4, 3, padding_idx=0),
        fit.ant(ROWS, 3, padding_idx=0),
        fit.tt(ROWS, (24, 1), (1, 12), 3, padding_idx=0),
    ):
        assert not packed.rows([0]).any()
        assert packed.rows([1]).any()
