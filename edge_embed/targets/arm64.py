"""Target ``arm64``: the real ONNX Runtime for 64-bit ARM in an emulator, with the operator library.

Times under emulation have no meaning and are not reported. If QEMU supports plugins of API version 1, the instructions
of our operators are counted instead. Counts are the same in every run. They are no latency, because the plugin sees no
caches.
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
    """Processor, as Linux describes it.

    Attributes:
        part: part number in the list of Arm.
        features: extensions of the instruction set.
    """

    part: int
    features: str

    def description(self) -> str:
        """Return the text of ``/proc/cpuinfo``."""
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
        files: files for arm64.
        model: the exported file.
        cpu: name of the processor in QEMU.
        root: folder in which the program finds its C library and ``/proc/cpuinfo``.
        counts: whether QEMU loads our plugin.
    """

    files: RunnerFiles
    model: Path
    cpu: str
    root: Path
    counts: bool
    times_mean_something: bool = False

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Run the runner with one warm call, which is counted."""
        command = runner_command(self.files, self.model, folder, replace(options, iterations=1))
        counts = folder / "counts"
        plugin = _plugin(counts) if self.counts else ()
        run_program([*self._emulator(plugin), *command], options.time_limit, what="the emulated runner")
        qemu = (
            _emulator_version()
            if self.counts
            else f"{_emulator_version()}, without support for plugins, so nothing is counted"
        )
        return Ran({"cpu": self.cpu, "qemu": qemu}, _counters(counts) if self.counts else {})

    def _emulator(self, plugin: Sequence[str]) -> list[str | Path]:
        # A crash must leave no core file, and the preloaded libraries of this machine are for another processor.
        shell = ["sh", "-c", 'ulimit -S -c 0; exec "$0" "$@"', EMULATOR, "-U", "LD_PRELOAD", "-U", "LD_LIBRARY_PATH"]
        return [*shell, "-L", self.root, "-cpu", self.cpu, *plugin]

    def with_counts(self) -> "Emulated":
        """Return a copy that counts if QEMU loads the plugin; the runner, started without arguments, tests that."""
        mark = self.root / "plugin"
        command = [*self._emulator(_plugin(mark)), self.files.runner]
        finish_program(command, _PLUGIN_LIMIT, what=EMULATOR)
        return replace(self, counts=mark.exists())


@dataclass(frozen=True)
class Arm64:
    """An emulated 64-bit ARM processor.

    Attributes:
        argument: name of the processor; empty for one with every extension that QEMU supports.

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
        """Return the name of the processor in QEMU."""
        return self.argument or "max"

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return f"arm64:{self.argument}" if self.argument else "arm64"

    def lacks(self) -> list[Problem]:
        """List what is missing of emulator, compiler and CMake."""
        emulator = Problem(f"{EMULATOR} is missing", "apt-get install qemu-user")
        return ([] if shutil.which(EMULATOR) else [emulator]) + arm64_lacks()

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[RunnerModel]:
        """Build and download the files that are missing."""
        files = arm64_files(options.time_limit)
        with tempfile.TemporaryDirectory() as name:
            place = Emulated(files, subject.model, self.cpu, make_root(Path(name), self.cpu), counts=False)
            yield RunnerModel(subject.program.output_names, place.with_counts())


def make_root(folder: Path, cpu: str) -> Path:
    """Fill the folder in which QEMU looks first when the program opens a file.

    ONNX Runtime reads ``/proc/cpuinfo``, and crashes on that of another kind of processor.
    """
    (folder / "lib").symlink_to(C_LIBRARY)
    (folder / "proc").mkdir()
    (folder / "proc" / "cpuinfo").write_text(CPUS[cpu].description())
    return folder


def _plugin(out: Path) -> list[str]:
    """Return options of QEMU that load the plugin; QEMU needs each comma in a path doubled."""
    try:
        library = installed_path("edge_embed_count")
    except EdgeEmbedError as error:
        raise NotRunError(str(error)) from error
    return ["-plugin", ",".join([_escaped(library), f"out={_escaped(out)}"])]


def _escaped(path: Path) -> str:
    return str(path).replace(",", ",,")


def _counters(path: Path) -> Mapping[str, int]:
    """Return the counts between the plugin's two records: before and after the warm call."""
    try:
        before, after = ([int(number) for number in line.split()] for line in path.read_text().splitlines())
        return {name: b - a for name, a, b in zip(COUNTERS, before, after, strict=True)}
    except (OSError, ValueError) as error:
        raise RunFailedError(f"the emulated runner succeeded, but its counts cannot be read: {error}") from error


@functools.cache
def _emulator_version() -> str:
    printed = run_tool([EMULATOR, "--version"], _PLUGIN_LIMIT, what=EMULATOR).printed
    found = re.search(r"version (\S+)", printed)
    return found[1] if found else "of unknown version"
