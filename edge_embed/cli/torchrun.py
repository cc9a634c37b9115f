"""``torchrun ... edge-embed compress``: processes that share the work, with the output of one.

The first process shows progress, prints and writes. Other processes usually report the same error as the first; their
output is shown only if the first reports none.
"""

import io
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import timedelta
from typing import TYPE_CHECKING, NoReturn

from edge_embed.errors import BadInputError, one_line

if TYPE_CHECKING:
    from torch._C._distributed_c10d import Store  # torch.distributed exports it without declaring it
    from torch.distributed import ProcessGroup

_MEETING = timedelta(minutes=5)  # time limit until all processes have begun
_LONGEST = timedelta(days=7)  # time limit of one process for the share of another, which can be hours of k-means
_TELLING = timedelta(seconds=10)
_TOLD = "edge-embed: told"


def is_one_of_many() -> bool:
    """Return whether other processes were started with this one, as torchrun does."""
    size = os.environ.get("WORLD_SIZE", "")
    return size.isdecimal() and int(size) > 1


def shared_group() -> "ProcessGroup | None":
    """Return the processes that `run_together` has connected, if it has."""
    from torch import distributed

    return distributed.group.WORLD if distributed.is_available() else None


def run_together(command: Callable[[], None]) -> NoReturn:
    """Run a command in each process, and end this one with its exit code.

    Raises:
        BadInputError: the other processes cannot be found.
    """
    from torch import distributed

    store = _meet()
    exit_code = _speak(command, store) if distributed.get_rank() == 0 else _be_silent(command, store)
    distributed.destroy_process_group()
    sys.stdout.flush()
    os._exit(exit_code)  # gloo's threads can abort the normal exit of the interpreter, after the work is done


def _meet() -> "Store":
    from torch import distributed
    from torch.distributed.rendezvous import rendezvous

    try:
        meeting: tuple[Store, int, int] = next(rendezvous("env://", timeout=_MEETING))
        store, rank, size = meeting
        store.set(f"edge-embed: {rank}", "")
        store.wait([f"edge-embed: {other}" for other in range(size)], _MEETING)
        distributed.init_process_group("gloo", store=store, rank=rank, world_size=size, timeout=_LONGEST)
    except (RuntimeError, ValueError) as error:
        got = f"got WORLD_SIZE={os.environ['WORLD_SIZE']} in the environment, but not all processes connected"
        raise BadInputError(f"{got} ({one_line(error)}): start them with torchrun, or unset WORLD_SIZE") from error
    return store


def _speak(command: Callable[[], None], store: "Store") -> int:
    exit_code = _exit_code(command)
    sys.stdout.flush()
    store.set(_TOLD, "")
    return exit_code


def _be_silent(command: Callable[[], None], store: "Store") -> int:
    errors = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(errors):
        exit_code = _exit_code(command)
    if exit_code and errors.getvalue() and not _is_told(store):
        sys.stderr.write(errors.getvalue())
    return exit_code


def _is_told(store: "Store") -> bool:
    """Return whether the first has reported too: torchrun kills it when another ends, even before its report."""
    try:
        store.wait([_TOLD], _TELLING)
    except RuntimeError:
        return False
    return True


def _exit_code(command: Callable[[], None]) -> int:
    try:
        command()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        traceback.print_exc()
        return 1
    return 0
