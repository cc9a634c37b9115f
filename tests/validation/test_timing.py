"""Timed rounds are fair: all contenders get new inputs first, then run in random order."""

from itertools import count

import numpy as np

from edge_embed.validation.timing import time_rounds

ROUNDS, WARMUP, CALLS = 30, 2, 4


class Recorder:
    """A contender that takes two ticks of its own clock for a call."""

    calls = CALLS

    def __init__(self, name, log):
        self._name, self._log = name, log

    def set_inputs(self, feeds):
        self._log.append(("inputs", self._name, feeds[0]["round"]))

    def run(self):
        self._log.append(("run", self._name, None))


def test_rounds_set_all_inputs_then_run_all_in_random_order():
    log, ticks, drawn = [], count(0, 2 * CALLS * 10**9), count()
    contenders = {name: Recorder(name, log) for name in ("a", "b", "c")}
    times = time_rounds(
        contenders,
        lambda: [{"round": next(drawn)}] * CALLS,
        ROUNDS,
        WARMUP,
        np.random.default_rng(0),
        cpu_clock=lambda: next(ticks),
        before=lambda: log.append(("before", None, None)),
    )
    each = 3 * len(contenders)
    rounds = [log[at : at + each] for at in range(0, len(log), each)]
    assert len(rounds) == ROUNDS + WARMUP
    for number, events in enumerate(rounds):
        assert events[:3] == [("inputs", name, number) for name in contenders]
        assert [event for event, *_ in events[3:]] == ["before", "run"] * 3
        assert {name for event, name, _ in events if event == "run"} == set(contenders)
    assert {tuple(name for event, name, _ in events if event == "run") for events in rounds} > {("a", "b", "c")}
    for found in times.values():
        assert np.allclose(found.cpu, 2)  # seconds a call, without the warm-up rounds
        assert len(found.wall) == ROUNDS
        assert (found.wall >= 0).all()
