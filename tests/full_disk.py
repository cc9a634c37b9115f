"""A disk that is full: the limit on file size stands for it, as writing fails in the same place, with another errno."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Let this process write no file of more bytes. Python ignores the signal of that."""
    import resource  # of POSIX alone

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
