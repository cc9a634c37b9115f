"""Target ``adb:SERIAL``: an Android device on a cable or an Android emulator, through the Android debug bridge."""

import os
import shlex
import shutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.targets.build import LIBRARY, RUNNER, build_lacks, build_runner
from edge_embed.targets.process import finish_program, run_tool
from edge_embed.targets.remote import remote_model, run_there
from edge_embed.targets.runner import RunnerFiles, RunnerModel
from edge_embed.targets.target import NotRunError, RunOptions, Subject, Tokenizer

RUNTIME_VARIABLE = "EDGE_EMBED_ANDROID_ONNXRUNTIME"
NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT")
_TOOLCHAIN = Path("build", "cmake", "android.toolchain.cmake")
_PLATFORM = "android-24"  # the oldest that ONNX Runtime's own packages support
_ABIS = {"Linux aarch64": "arm64-v8a", "Linux x86_64": "x86_64"}
_ANSWER_SECONDS = 20


@dataclass(frozen=True)
class AdbTransport:
    """Connection to a device through adb.

    Attributes:
        serial: serial number of the device, as ``adb devices`` lists it.
    """

    serial: str
    parent: str = "/data/local/tmp"

    @property
    def place(self) -> str:
        """Return a description for messages."""
        return f"device {self.serial}"

    def shell(self, text: str) -> list[str]:
        """Return the command without a terminal, so that the input ends there when it ends here."""
        return self._adb("shell", "-T", f"exec sh -c {shlex.quote(text)}")

    def push(self, folder: Path, to: PurePosixPath, time_limit: float) -> None:
        """Copy one file after the other."""
        files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        places = [to / path.relative_to(folder).as_posix() for path in files]
        parents = shlex.join(sorted({str(place.parent) for place in places}))
        done = run_there(self, f"mkdir -p {parents}", time_limit, what="the connection ended")
        if done.status != 0:
            raise NotRunError(f"{self.place}: a folder cannot be created there: mkdir {done.ending}")
        for path, place in zip(files, places, strict=True):
            self._copy("push", str(path.resolve()), str(place), time_limit)

    def pull(self, names: Sequence[str], folder: PurePosixPath, to: Path, time_limit: float) -> None:
        """Copy one file after the other."""
        for name in names:
            self._copy("pull", str(folder / name), str(to / name), time_limit)

    def _copy(self, verb: str, source: str, target: str, time_limit: float) -> None:
        run_tool(self._adb(verb, source, target), time_limit, what=f"{self.place}: adb {verb}")

    def state(self) -> str:
        """Return ``device`` if it is ready, else the message of adb."""
        try:
            done = finish_program(self._adb("get-state"), _ANSWER_SECONDS, what="adb")
        except NotRunError as error:
            return str(error)
        return done.printed.strip() if done.status == 0 else f"adb {done.ending}"

    def _adb(self, *arguments: str) -> list[str]:
        return ["adb", "-s", self.serial, *arguments]


@dataclass(frozen=True)
class Adb:
    """An Android device.

    Attributes:
        serial: serial number as ``adb devices`` lists it.
    """

    serial: str
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    @property
    def name(self) -> str:
        """Return the name on the command line."""
        return f"adb:{self.serial}"

    def lacks(self) -> list[Problem]:
        """List what is missing of adb, the device, the NDK and ONNX Runtime for Android."""
        found = build_lacks()
        if shutil.which("adb") is None:
            found.append(Problem("adb is missing", "apt-get install adb"))
        elif (state := AdbTransport(self.serial).state()) != "device":
            found.append(Problem(f"no device {self.serial} is ready ({state})", "connect it; `adb devices` lists them"))
        if _ndk() is None:
            found.append(Problem("the Android NDK is missing", f"set {NDK_VARIABLES[0]} to its folder"))
        if _runtime() is None:
            remedy = f"set {RUNTIME_VARIABLE} to the libonnxruntime.so in the archive onnxruntime-android (.aar)"
            found.append(Problem("ONNX Runtime for Android is missing", remedy))
        return found

    def prepare(self, subject: Subject, options: RunOptions) -> AbstractContextManager[RunnerModel]:
        """Copy runner and model to the device."""
        return remote_model(
            AdbTransport(self.serial), lambda system: android_files(system, options.time_limit), subject, options
        )


def android_files(system: str, time_limit: float) -> RunnerFiles:
    """Build the runner and the operator library with the NDK; the ONNX Runtime is the one that the variable names.

    Raises:
        NotRunError: if there is none for that system, or it cannot be built.
    """
    ndk, runtime, abi = _ndk(), _runtime(), _ABIS.get(system)
    if ndk is None or runtime is None:
        raise NotRunError(f"{NDK_VARIABLES[0]} or {RUNTIME_VARIABLE} names a path that does not exist any more")
    if abi is None:
        raise NotRunError(f"got {system}, expected one of {', '.join(_ABIS)}")
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={ndk / _TOOLCHAIN}"
    settings = (toolchain, f"-DANDROID_ABI={abi}", f"-DANDROID_PLATFORM={_PLATFORM}", "-DANDROID_STL=c++_static")
    built = build_runner(f"android-{abi}", settings, time_limit)
    return RunnerFiles(built / RUNNER, runtime, [built / LIBRARY])


def _ndk() -> Path | None:
    folders = (Path(os.environ[name]) for name in NDK_VARIABLES if os.environ.get(name))
    return next((folder for folder in folders if (folder / _TOOLCHAIN).is_file()), None)


def _runtime() -> Path | None:
    path = Path(os.environ.get(RUNTIME_VARIABLE) or "")
    return path.resolve() if path.is_file() else None
