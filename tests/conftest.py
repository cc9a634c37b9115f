"""What every test relies on: property tests that find the same examples on every machine."""

from hypothesis import settings

# No deadline: shared machines stall, and a stall is no failure. Derandomised: a red run can be repeated.
settings.register_profile("repeatable", deadline=None, derandomize=True)
settings.load_profile("repeatable")
