"""What the user of a sample asked for."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Options:
    """Options of the command line.

    Attributes:
        data: folder with the archives; nothing is written there.
        quick: less training: shows the way, learns less.
        seed: of everything random.
        output: folder for the saved and exported models.
    """

    data: Path
    quick: bool
    seed: int
    output: Path
