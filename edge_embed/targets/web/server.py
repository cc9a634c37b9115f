"""Server from which a page gets its job, and to which it sends its results."""

import secrets
import select
import shutil
import sys
import threading
from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote

_TYPES = {".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm"}
_LONGEST_MESSAGE = 10_000
_GONE = "the browser's tab crashed or was closed while the model ran"


class JobServer(ThreadingHTTPServer):
    """Server of named files on this machine, below a path that only its page knows; it runs while the context is open.

    Attributes:
        opened: whether the page was requested.
        ended: whether the job ended: with a result, an error, or because the page is gone.
        failure: why there is no result, empty if there is one.
    """

    def __init__(self, files: Mapping[str, Path], results: Mapping[str, Path]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files, self.results = files, results
        self.base = f"/{secrets.token_urlsafe(16)}/"
        self.opened = self.ended = False
        self.failure = ""
        self._ending = threading.Lock()

    @property
    def url(self) -> str:
        """Return the address of the page."""
        return f"http://127.0.0.1:{self.server_port}{self.base}page.html"

    def end(self, failure: str = "") -> None:
        """Mark the job as ended; the first call decides the outcome."""
        with self._ending:
            if not self.ended:
                self.failure, self.ended = failure, True

    def __enter__(self) -> "JobServer":
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end(_GONE)
        self.shutdown()
        self.server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Record a failure where the base class would print: the page is gone, or a result cannot be stored."""
        error = sys.exception()
        self.end(_GONE if isinstance(error, ConnectionError) else f"data of the page cannot be stored: {error}")


class _Handler(BaseHTTPRequestHandler):
    """Handler of one request."""

    @property
    def _job(self) -> JobServer:
        return cast(JobServer, self.server)

    def do_GET(self) -> None:
        name = self._name()
        if name == "alive":
            self._wait_for_the_end()
        elif name in self._job.files:
            self._job.opened = True
            self._send(self._job.files[name])
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def do_PUT(self) -> None:
        name, size = self._name(), int(self.headers["Content-Length"])
        if name == "error":
            self._job.end(self.rfile.read(min(size, _LONGEST_MESSAGE)).decode("utf-8", "replace"))
        elif name in self._job.results:
            self._store(self._job.results[name], size)
            if name == "result.json":
                self._job.end()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.NO_CONTENT)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _name(self) -> str:
        """Return the requested name, or an empty text if the request does not know the path of this job."""
        base, _, name = self.path.partition(self._job.base)
        return "" if base else unquote(name)

    def _send(self, path: Path) -> None:
        with path.open("rb") as file:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", _TYPES.get(path.suffix, "application/octet-stream"))
            self.send_header("Content-Length", str(path.stat().st_size))
            # Browsers give threads and microsecond clocks only to pages with these headers (one origin).
            self.send_header("Cross-Origin-Opener-Policy", "same-origin")
            self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
            self.end_headers()
            shutil.copyfileobj(file, self.wfile)

    def _store(self, path: Path, size: int) -> None:
        with path.open("wb") as file:
            while size:
                block = self.rfile.read(min(size, 1 << 20))
                if not block:
                    raise ConnectionError("the page closed the connection")
                file.write(block)
                size -= len(block)

    def _wait_for_the_end(self) -> None:
        """Keep the answer open until the job ends: a closed connection reveals a crash during computation."""
        self.send_response(HTTPStatus.OK)
        self.end_headers()
        while not self._job.ended:
            if select.select([self.connection], [], [], 0.2)[0]:
                self._job.end(_GONE)
