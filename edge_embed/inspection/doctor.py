"""Command ``doctor``: installed packages, whether the operator library is found and runs, and remedies.

The proof is a run of a model with one node and no portable body, so that only our kernel can compute the result. The
result is compared bit by bit with that of the numpy form.
"""

import ctypes
import os
import platform
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from edge_embed.errors import EdgeEmbedError
from edge_embed.exporters.onnx.names import IR_VERSION, OPSET
from edge_embed.extras import ExtraInfo, distribution_of, find_extra, is_installed, list_extras
from edge_embed.methods import Parts, most_library_bytes
from edge_embed.report.results.shown import Shown
from edge_embed.report.results.targets import Problem, TargetInfo
from edge_embed.runtime.library import get_library_path, installed_library, installed_path

SCHEMA_VERSION = 1
T = TypeVar("T")

_DISTRIBUTIONS = "edge-embed torch numpy onnx onnxscript onnx-ir onnxruntime safetensors click rich".split()
_KERNELS = ("ee_gather", "ee_bag", "ee_logits", "ee_topk")
_PROBED = "dpq"  # method of the probe
_FORCED = "EDGE_EMBED_FORCE_ISA"
# Features that our kernels, or the matrix products of ONNX Runtime around them, can use.
_CPU_FEATURES = (
    "sse4_2 avx avx2 f16c fma avx512f avx512bw avx512vbmi avx512_vnni avx_vnni amx_int8 "
    "asimd asimdhp asimddp i8mm bf16 sve sve2"
).split()


@dataclass(frozen=True)
class LibraryInfo:
    """The operator library.

    Attributes:
        path: Path where it was found.
        version: Version that it reports.
        bytes: Size of the file.
        most_bytes: Size limit of a library with these methods.
        kernels: Functions of its C interface that can be called.
        methods: Methods that were built into it; these functions accept tables of them.
        isa: Instruction set of the kernels that run here, selected by the processor or by EDGE_EMBED_FORCE_ISA.
        isas: All instruction sets that it has kernels for, best first, and whether the processor supports each.
        runs: Whether ONNX Runtime registered it and its kernel computed the right rows.
    """

    path: str
    version: str
    bytes: int
    most_bytes: int
    kernels: list[str]
    methods: list[str]
    isa: str
    isas: dict[str, bool]
    runs: bool


@dataclass(frozen=True)
class TrainingInfo:
    """The library for the computations of training and compression.

    Attributes:
        path: Path where it was found; None if it is missing, or this system cannot load it.
        isa: Instruction set of the kernels that run here.
        lack: Reason why it is missing, and the remedy; training also works without it, but slower.
    """

    path: str | None = None
    isa: str | None = None
    lack: Problem | None = None


@dataclass(frozen=True, repr=False)
class DoctorReport(Shown):
    """The state of an installation.

    Attributes:
        versions: Version of Python and of each package; None if missing, which is no problem for packages of an extra.
        system: Operating system and processor.
        cpu_features: Vector extensions found; None if the system does not report them.
        library: The operator library, None if none fits.
        training: The library that training uses; it is no problem if it is missing.
        opset: Version of the standard operators in exported files.
        ir_version: Version of the file format of exported files.
        providers: Execution providers of ONNX Runtime.
        extras: Optional parts of the package; it is no problem if they are missing.
        targets: Targets that run models, and the parts that each of them lacks here; it is no problem if they lack
            some.
        problems: Problems, each with a remedy; empty if all is well.
    """

    versions: dict[str, str | None]
    system: str
    cpu_features: list[str] | None
    library: LibraryInfo | None
    training: TrainingInfo
    opset: int | None
    ir_version: int | None
    providers: list[str]
    targets: tuple[TargetInfo, ...] = ()
    extras: tuple[ExtraInfo, ...] = ()
    problems: list[Problem] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Return whether there are no problems."""
        return not self.problems

    @property
    def exit_code(self) -> int:
        """Return 0 without problems, else 1."""
        return 0 if self.ok else 1

    def show(self, console: Console) -> None:
        """Print on a console. As with `Shown.view`, a result does not import its view."""
        import_module("edge_embed.inspection.render").render_doctor(self, console)

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain values, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, "ok": self.ok, **asdict(self)}


def diagnose() -> DoctorReport:
    """Check everything that can be missing; missing parts do not raise."""
    versions: dict[str, str | None] = {"python": platform.python_version()}
    versions |= {name: _version(name) for name in _DISTRIBUTIONS}
    problems = [_missing(name) for name, version in versions.items() if version is None and not find_extra(name)]
    library = _attempt(lambda: _library(problems), problems)
    return DoctorReport(
        versions=versions,
        system=f"{platform.system()} {platform.machine()}",
        cpu_features=_cpu_features(),
        library=library,
        training=_training(),
        opset=OPSET,
        ir_version=IR_VERSION,
        providers=_attempt(_providers, problems) or [],
        targets=_attempt(_targets, problems) or (),
        extras=list_extras(),
        problems=problems,
    )


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _missing(name: str) -> Problem:
    if name == "edge-embed":
        return Problem("edge-embed is not installed", "`make install` in a checkout, or install the wheel")
    return Problem(f"{name} is not installed", f'python -m pip install "{_requirement(name)}"')


def _requirement(name: str) -> str:
    """Return the range that this package requires, such as ``onnx<1.24,>=1.23``."""
    try:
        wanted = metadata.requires("edge-embed") or []
    except metadata.PackageNotFoundError:
        wanted = []
    return next((item for item in wanted if re.split(r"[^\w.-]", item, maxsplit=1)[0] == name), name)


def _attempt(step: Callable[[], T], problems: list[Problem]) -> T | None:
    """Run a step; its exception becomes a problem, unless a package of an extra is missing."""
    try:
        return step()
    except EdgeEmbedError as error:
        problems.append(Problem(*_what_and_remedy(str(error))))
    except ImportError as error:
        if find_extra(distribution_of(error)) and not is_installed(distribution_of(error)):
            return None
        if not any((error.name or "?") in problem.what for problem in problems):
            problems.append(Problem(f"cannot import {error.name}: {error}", "`make install`, or install it again"))
    return None


def _what_and_remedy(message: str) -> tuple[str, str]:
    """Split an error message of this package into fault and remedy; the remedy follows the last colon."""
    what, _, remedy = message.rpartition(": ")
    return what or message, remedy if what else "see the message"


def _providers() -> list[str]:
    import onnxruntime  # noqa: PLC0415

    return list(onnxruntime.get_available_providers())


def _targets() -> tuple[TargetInfo, ...]:
    from edge_embed.targets.catalog import list_targets  # noqa: PLC0415

    return list_targets()


def _library(problems: list[Problem]) -> LibraryInfo:
    path = get_library_path()
    loaded = ctypes.CDLL(str(path))
    kernels = [name for name in _KERNELS if hasattr(loaded, name)]
    methods = _methods(loaded)
    for function in (loaded.ee_version, loaded.ee_isa, loaded.ee_isa_name):
        function.restype = ctypes.c_char_p
    isas, forced = _isas(loaded), os.environ.get(_FORCED)
    if lacking := [name for name in Parts("kernels") if name not in methods]:
        what = f"the operator library {path} was built without {', '.join(lacking)}"
        problems.append(Problem(what, "build it with EDGE_EMBED_METHODS=all, or install the package again"))
    failure = _attempt(lambda: _probe(path), problems) if _PROBED in methods else None
    if failure:
        again = "install edge-embed and onnxruntime again (`make install` in a checkout)"
        refused = forced and not isas.get(forced)
        problems.append(Problem(failure, f"set it to one of them, or unset {_FORCED}" if refused else again))
    version, isa = (bytes(text).decode("utf-8", "replace") for text in (loaded.ee_version(), loaded.ee_isa()))
    sizes = path.stat().st_size, most_library_bytes(methods)
    return LibraryInfo(str(path), version, *sizes, kernels, methods, isa, isas, failure == "")


def _training() -> TrainingInfo:
    try:
        loaded = installed_library("edge_embed_training")
    except EdgeEmbedError as error:
        return TrainingInfo(lack=Problem(*_what_and_remedy(str(error))))
    loaded.ee_training_isa.restype = ctypes.c_char_p
    return TrainingInfo(str(installed_path("edge_embed_training")), loaded.ee_training_isa().decode())


def _methods(library: ctypes.CDLL) -> list[str]:
    if not hasattr(library, "ee_method_name"):
        return []
    library.ee_method_name.restype = ctypes.c_char_p
    found: list[str] = []
    while name := library.ee_method_name(len(found)):
        found.append(name.decode())
    return found


def _isas(library: ctypes.CDLL) -> dict[str, bool]:
    found: dict[str, bool] = {}
    while name := library.ee_isa_name(len(found)):
        found[name.decode()] = bool(library.ee_isa_runs(len(found)))
    return found


def _probe(library: Path) -> str:
    """Run the kernel in ONNX Runtime; return an empty text if its rows are right, else what went wrong."""
    import numpy as np  # noqa: PLC0415
    import onnxruntime  # noqa: PLC0415

    from edge_embed.inspection.probe import probe_model, probe_table  # noqa: PLC0415

    table, ids = probe_table(), np.array([[0, 6, 2], [5, 1, 2]])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # errors come back as exceptions; they would be printed too
    try:
        options.register_custom_ops_library(str(library))
        model = probe_model(table)
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        rows = session.run(None, {"ids": ids})[0]
    except Exception as error:  # the runtime's exceptions share no base class
        return f"ONNX Runtime {onnxruntime.__version__} cannot run the kernel of {library}: {error}"
    if rows.tobytes() != table.rows(ids).tobytes():
        return f"the kernel of {library} returns other rows than the packed form"
    return ""


def _cpu_features() -> list[str] | None:
    """Return the vector extensions of the processor on Linux; other systems have no such file."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    found = set(line[1].split()) if line else set()
    return [name for name in _CPU_FEATURES if name in found]
