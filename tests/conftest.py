"""What every test relies on: property tests that find the same examples, small tensors on one thread."""

import os

# Threads cost more than they give on tensors this small, and wait for each other on a busy machine. Subprocesses
# inherit it. Before torch is imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from hypothesis import settings

# No deadline: shared machines stall, and a stall is no failure. Derandomised: a red run can be repeated.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
