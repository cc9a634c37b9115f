"""``arm64``: the real ONNX Runtime for 64-bit ARM in an emulator of that processor, with the operator library.

Time means nothing there and is not reported. What our operators execute is counted instead, where QEMU takes plugins
of API version 1: the same in every run, and no latency, because it sees no caches.
"""

import functools
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.runtime.library import installed_path
from edge_embed.targets.arm64_files import C_LIBRARY, arm64_files, arm64_lacks
from edge_embed.targets.process import finish_program, run_program, run_tool
from edge_embed.targets.runner import Ran, RunnerFiles, RunnerModel, runner_command
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject, Tokenizer

EMULATOR = "qemu-aarch64"
COUNTERS = ("instructions", "loads", "stores")
_PLUGIN_LIMIT = 60


@dataclass(frozen=True)
class Cpu:
    """A processor, as Linux describes it.

    Attributes:
        part: its number among those of Arm.
        features: its extensions.
    """

    part: int
    features: str

    def description(self) -> str:
        """The text of ``/proc/cpuinfo``."""
        return (
            f"processor\t: 0\nBogoMIPS\t: 100.00\nFeatures\t: {self.features}\nCPU implementer\t: 0x41\n"
            f"CPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0x{self.part:x}\nCPU revision\t: 0\n\n"
        )


_ARMV8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32 cpuid"
_ARMV82 = f"{_ARMV8} atomics fphp asimdhp asimdrdm lrcpc dcpop asimddp ssbs"
CPUS = {
    "cortex-a53": Cpu(0xD03, _ARMV8),
    "cortex-a76": Cpu(0xD0B, _ARMV82),
    "max": Cpu(0xD49, f"{_ARMV82} sve sve2 i8mm bf16"),
}


@dataclass(frozen=True)
class Emulated:
    """The runner in the emulator.

    Attributes:
        files: for arm64.
        model: the exported file.
        cpu: as QEMU names it.
        root: a folder in which the program finds its C library and ``/proc/cpuinfo``.
        counts: whether QEMU takes our plugin.
    """

    files: RunnerFiles
    model: Path
    cpu: str
    root: Path
    counts: bool
    times_mean_something: bool = False

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run it, with one warm call, which is counted."""
        command = runner_command(self.files, self.model, folder, replace(options, iterations=1))
        counts = folder / "counts"
        plugin = _plugin(counts) if self.counts else ()
        run_program([*self._emulator(plugin), *command], options.time_limit, what="the emulated runner")
        qemu = (
            _emulator_version() if self.counts else f"{_emulator_version()}, which takes no plugin and counts nothing"
        )
        return Ran({"cpu": self.cpu, "qemu": qemu}, _counters(counts) if self.counts else {})

    def _emulator(self, plugin: Sequence[str]) -> list[str | Path]:
        # A crash is to leave no file, and what this machine preloads is not for the other processor.
        shell = ["sh", "-c", 'ulimit -S -c 0; exec "$0" "$@"', EMULATOR, "-U", "LD_PRELOAD", "-U", "LD_LIBRARY_PATH"]
        return [*shell, "-L", self.root, "-cpu", self.cpu, *plugin]

    def with_counts(self) -> "Emulated":
        """The same, counting if QEMU takes the plugin: tried on the runner, which says how it is called."""
        mark = self.root / "plugin"
        command = [*self._emulator(_plugin(mark)), self.files.runner]
        finish_program(command, _PLUGIN_LIMIT, what=EMULATOR)
        return replace(self, counts=mark.exists())


@dataclass(frozen=True)
class Arm64:
    """An emulated 64-bit ARM processor.

    Attributes:
        argument: which one, empty for all that QEMU can.

    Raises:
        BadInputError: if there is none of that name.
    """

    argument: str = ""
    evidence: Evidence = "executed-emulated"
    tokenizer: Tokenizer = "cannot run"

    def __post_init__(self) -> None:
        if self.cpu not in CPUS:
            raise BadInputError(
                f"target: got 'arm64:{self.argument}', expected one of {', '.join(CPUS)} after the colon"
            )

    @property
    def cpu(self) -> str:
        """As QEMU names it."""
        return self.argument or "max"

    @property
    def name(self) -> str:
        """As on the command line."""
        return f"arm64:{self.argument}" if self.argument else "arm64"

    def lacks(self) -> list[Problem]:
        """Emulator, compiler and CMake."""
        emulator = Problem(f"{EMULATOR} is missing", "apt-get install qemu-user")
        return ([] if shutil.which(EMULATOR) else [emulator]) + arm64_lacks()

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[RunnerModel]:
        """Build and download what is not there yet."""
        files = arm64_files(options.time_limit)
        with tempfile.TemporaryDirectory() as name:
            place = Emulated(files, subject.model, self.cpu, make_root(Path(name), self.cpu), counts=False)
            yield RunnerModel(subject.program.output_names, place.with_counts())


def make_root(folder: Path, cpu: str) -> Path:
    """Fill a folder that QEMU looks into first when the program opens a file.

    ONNX Runtime reads ``/proc/cpuinfo``, and does not survive that of another kind of processor.
    """
    (folder / "lib").symlink_to(C_LIBRARY)
    (folder / "proc").mkdir()
    (folder / "proc" / "cpuinfo").write_text(CPUS[cpu].description())
    return folder


def _plugin(out: Path) -> list[str]:
    """Options of QEMU; a comma in a path is doubled there."""
    try:
        library = installed_path("edge_embed_count")
    except EdgeEmbedError as error:
        raise NotRunError(str(error)) from error
    return ["-plugin", ",".join([_escaped(library), f"out={_escaped(out)}"])]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _counters(path: Path) -> Mapping[str, int]:
    """What lies between the plugin's two notes: before the warm call and after it."""
    try:
        before, after = ([int(number) for number in line.split()] for line in path.read_text().splitlines())
        return {name: b - a for name, a, b in zip(COUNTERS, before, after, strict=True)}
    except (OSError, ValueError) as error:
        raise RunFailedError(f"the emulated runner ended well, but what was counted cannot be read: {error}") from error


@functools.cache
def _emulator_version() -> str:
    printed = run_tool([EMULATOR, "--version"], _PLUGIN_LIMIT, what=EMULATOR).printed
    found = re.search(r"version (\S+)", printed)
    return found[1] if found else "of unknown version"
