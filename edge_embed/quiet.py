"""Keeps libraries from saying what they tell by exceptions too: native ones on stderr, others by logging and bars."""

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


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


@contextmanager
def silence() -> Iterator[None]:
    """Nothing that is printed, logged or warned in here is shown, but what native code writes to stdout."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    with (
        quiet_stderr(),
        warnings.catch_warnings(),
        redirect_stdout(io.StringIO()),
        redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.disable(level)
