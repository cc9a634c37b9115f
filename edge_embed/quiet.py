"""Silence for libraries that also raise exceptions: native ones print on stderr, others use logging and bars."""

import io
import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout


@contextmanager
def quiet_stderr() -> Iterator[None]:
    """Discard everything that is written to the descriptor of stderr within the context."""
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
    """Discard prints, logs and warnings within the context, except output of native code to stdout."""
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
