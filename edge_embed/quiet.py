"""Keeps native libraries from writing to stderr, past Python; what is wrong they tell by exceptions too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Nothing that is written to the descriptor of stderr in here is shown."""
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
