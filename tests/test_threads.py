"""Tests compute on one thread: two threads that wait for each other were twenty times slower on small tensors."""

import os

import torch


def test_torch_threads_equal_setting_of_conftest() -> None:
    assert torch.get_num_threads() == int(os.environ["OMP_NUM_THREADS"])
