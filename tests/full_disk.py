"""Stand-in for a full disk: with a limit on file size, writing fails in the same place, with another errno."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def full_disk(most: int) -> Iterator[None]:
    """Limit the files that this process writes to ``most`` bytes; Python ignores the signal of the limit."""
    import resource  # POSIX only

    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
