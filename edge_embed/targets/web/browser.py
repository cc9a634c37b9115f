"""Target ``browser``: onnxruntime-web in a page of headless Chromium."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.targets.process import run_program
from edge_embed.targets.runner import Ran, RunnerModel
from edge_embed.targets.target import NotRunError, RunFailedError, RunOptions, Subject, Tokenizer
from edge_embed.targets.web.job import WebPlace, write_job
from edge_embed.targets.web.package import SCRIPTS, WASM, Build, fetch_runtime, runtime_lacks
from edge_embed.targets.web.server import JobServer

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = [
    "--headless=new",
    "--disable-dev-shm-usage",  # /dev/shm is small in containers
    # Only our page is loaded: no first run, no updates, and no host name is resolved but that of this machine.
    *"--no-first-run --no-default-browser-check --disable-background-networking --disable-component-update".split(),
    *"--disable-default-apps --disable-extensions --disable-sync --no-pings --no-proxy-server".split(),
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--password-store=basic",
    "--disable-breakpad",
    # The browser ends when the other end of this pipe is closed, and thus with this process, even if that is killed.
    "--remote-debugging-pipe",
]
_WITHOUT_GPU = ("--disable-gpu",)
_WITH_PIPE = ["sh", "-c", 'exec "$@" 3<&0 4>/dev/null', "sh"]  # requests come from 3, answers go to 4


@dataclass(frozen=True)
class Tab(WebPlace):
    """A page of a browser that is started for it.

    Attributes:
        build: build of onnxruntime-web.
        provider: execution provider.
        flags: flags of the browser, besides those of every page.
    """

    build: Build = WASM
    provider: str = "wasm"
    flags: Sequence[str] = _WITHOUT_GPU

    def execute(self, folder: Path, options: RunOptions) -> Ran:
        """Start the browser, wait until the job ends, and end the browser."""
        names = write_job(folder, self.subject, options, self.provider)
        files = {name: SCRIPTS / name for name in ("page.html", "page.mjs", "job.mjs", "gpu.mjs", "tensors.mjs")}
        files |= {"ort.mjs": self.runtime / self.build.browser_entry}
        files |= {self.build.engine: self.runtime / self.build.engine}
        files |= {name: folder / name for name in names}
        results = {f"{name[:-3]}.out" for name in names if name.endswith(".in")} | {"result.json"}
        open_page(files, {name: folder / name for name in results}, options.time_limit, self.flags)
        return Ran()


def open_page(
    files: Mapping[str, Path], results: Mapping[str, Path], time_limit: float, flags: Sequence[str] = _WITHOUT_GPU
) -> None:
    """Start the browser with ``page.html``, wait until the job ends, and end the browser.

    Args:
        files: files that the page may read, by name.
        results: files that it may write; ``result.json`` ends the job.
        time_limit: seconds.
        flags: flags of the browser, besides those of every page.

    Raises:
        NotRunError: if the browser opened no page.
        RunFailedError: if the job ends with an error.
    """
    with (
        JobServer(files, results) as server,
        tempfile.TemporaryDirectory(prefix="edge-embed-browser-", dir=_place()) as profile,
    ):
        _browse(server, profile, time_limit, flags)
    if server.failure:
        raise RunFailedError(server.failure)


def _browse(server: JobServer, profile: str, time_limit: float, flags: Sequence[str]) -> None:
    try:
        run_program(
            [*_WITH_PIPE, *_command(profile, flags), server.url],
            time_limit,
            what="the browser",
            # Files outside of its profile (sockets, certificates) go there too.
            environment=dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"), profile),
            until=lambda: server.ended,
        )
    except RunFailedError as error:
        if not server.opened:
            raise NotRunError(f"the browser opened no page: {error}") from error
        raise
    if not server.opened:
        raise NotRunError("the browser ended before it opened a page")


def _place() -> str:
    """Return a short folder for profiles: the system limits the paths of their sockets to about 100 bytes."""
    place = tempfile.gettempdir()
    return place if len(place) < 30 else "/tmp"


def _command(profile: str, flags: Sequence[str]) -> list[str]:
    root = ["--no-sandbox"] if os.geteuid() == 0 else []  # root has no sandbox
    return [_program() or _PROGRAMS[0], *_FLAGS, *flags, *root, f"--user-data-dir={profile}"]


def _program() -> str | None:
    return next(filter(None, map(shutil.which, _PROGRAMS)), None)


def browser_lacks() -> list[Problem]:
    """List Chromium if it is missing."""
    return [] if _program() else [Problem("chromium is not found", "apt-get install chromium")]


@dataclass(frozen=True)
class Browser:
    """The WebAssembly engine of ONNX Runtime in a browser, where it is meant to run."""

    name: str = "browser"
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    def lacks(self) -> list[Problem]:
        """List Chromium if it is missing, and npm if the runtime is not in the cache."""
        return [*browser_lacks(), *runtime_lacks()]

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[RunnerModel]:
        """Download the runtime, once."""
        yield RunnerModel(subject.program.output_names, Tab(subject, fetch_runtime(options.time_limit)))
