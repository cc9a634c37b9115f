"""Memory that a session of ONNX Runtime adds to a process."""

from dataclasses import dataclass


@dataclass(frozen=True)
class SessionGrowth:
    """Growth of the memory of a fresh process by a session, in bytes; None if it was not measured.

    Attributes:
        path: ``custom op``, with the operator library, or ``portable body``.
        opened_private: growth of private memory, which is in no file, when the session is created.
        opened_resident: growth of resident memory, with the pages of mapped files, when the session is created.
        private: growth of private memory from before the session to after its first run, with the outputs.
        resident: growth of resident memory in that time.
        reason: why it was not measured.
    """

    path: str
    opened_private: int | None
    opened_resident: int | None
    private: int | None
    resident: int | None
    reason: str

    def figures(self) -> tuple[str, ...]:
        """Return the four numbers as texts; empty if they were not measured."""
        numbers = (self.opened_private, self.private, self.opened_resident, self.resident)
        return tuple("" if number is None else f"{number:,}" for number in numbers)
