"""Tests compute on one thread: two that wait for each other took twenty times as long on small tensors."""

import os

import torch


def test_tensors_of_tests_are_computed_by_as_many_threads_as_conftest_says() -> None:
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
