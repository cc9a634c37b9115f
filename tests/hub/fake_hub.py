"""A server with the endpoints of the Hub that huggingface_hub calls for uploads and downloads, on this machine.

Files of the kinds in `LARGE` are stored apart, as on the Hub: they are uploaded by the protocol of Git LFS, and
`resolve` redirects to them.
"""

import base64
import hashlib
import json
import re
import threading
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import yaml  # type: ignore[import-untyped]

OWNER, TOKEN = "your-name", "hf_writer"
LARGE = (".onnx", ".data", ".pt", ".tflite")


@dataclass
class Repo:
    """Repository: files by commit, and the commit of each branch and tag."""

    private: bool
    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    tags: dict[str, str] = field(default_factory=dict)
    messages: list[str] = field(default_factory=list)

    def commit(self, files: dict[str, bytes], branch: str = "main", message: str = "") -> str:
        """Add or replace files; return the new commit."""
        now = self.commits[self.branches[branch]] | files
        name = hashlib.sha1(repr((len(self.commits), sorted(now), message)).encode()).hexdigest()
        self.commits[name], self.branches[branch] = now, name
        self.messages.append(message)
        return name

    def at(self, revision: str) -> str | None:
        """Return the commit of a branch or a commit; None if there is none."""
        found = self.branches.get(revision, revision)
        return found if found in self.commits else None


class FakeHub(AbstractContextManager["FakeHub"]):
    """The server.

    Attributes:
        repos: repositories by id.
        stored: large files by SHA-256.
        requests: methods and paths of all requests.
        failing: status by a pattern of ``METHOD PATH``: such a request fails.
        url: address.
        storage: address of large files, another host for the client, which sends no token there.
    """

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.stored: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self.requests: list[str] = []
        self.failing: dict[str, int] = {}
        kind = type("Handler", (_Handler,), {"hub": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.storage = self.url.replace("127.0.0.1", "localhost")
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, name: str, files: dict[str, bytes], private: bool = False) -> Repo:
        """Make a repository with one commit."""
        self.repos[name] = Repo(private)
        self.repos[name].commit(files)
        return self.repos[name]

    def downloads(self) -> list[str]:
        """Return the names of the downloaded files."""
        found = (path.rpartition("/")[2] for path in self.requests if re.match("GET /(.*/resolve|cdn)/", path))
        return [self._names.get(name, name) for name in found]

    def store(self, content: bytes, name: str) -> str:
        """Keep a large file apart; return its SHA-256."""
        oid = hashlib.sha256(content).hexdigest()
        self.stored[oid], self._names[oid] = content, name
        return oid


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        self._handle()

    def do_HEAD(self) -> None:
        self._handle()

    def do_POST(self) -> None:
        self._handle()

    def do_PUT(self) -> None:
        self._handle()

    def _handle(self) -> None:
        path = unquote(self.path.partition("?")[0])
        body = self._body()
        self.hub.requests.append(f"{self.command} {path}")
        for pattern, status in self.hub.failing.items():
            if re.search(pattern, f"{self.command} {path}"):
                self._answer(status, {"error": "made to fail"})
                return
        token = (self.headers.get("authorization") or "").removeprefix("Bearer ")
        if token not in ("", TOKEN, "hf_reader"):
            self._answer(401, {}, {"X-Error-Message": "Invalid credentials in Authorization header"})
            return
        for pattern, method in _ROUTES:
            if found := re.fullmatch(pattern, f"{self.command} {path}"):
                method(self, body, token, **found.groupdict())
                return
        self._answer(404, {"error": f"no route {path}"})

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _refuse(self, status: int, code: str) -> None:
        self._answer(status, {"error": code}, {"X-Error-Code": code})

    def _repo(self, name: str, token: str, writes: bool = False) -> Repo | None:
        """Return a repository, or answer with the error of the Hub."""
        repo = self.hub.repos.get(name)
        if repo is None or (repo.private and not token):
            self._refuse(404 if token else 401, "RepoNotFound")
            return None
        if writes and (token != TOKEN or not name.startswith(f"{OWNER}/")):
            self._answer(403, {"error": "You don't have the required permissions"})
            return None
        return repo

    def _create(self, body: bytes, token: str) -> None:
        asked = json.loads(body)
        name = f"{asked['organization']}/{asked['name']}"
        if token != TOKEN or asked["organization"] != OWNER:
            self._answer(403, {"error": f"You don't have the rights to create a model under {asked['organization']}"})
        elif name in self.hub.repos:
            self._answer(409, {"error": "You already created this model repo", "url": f"{self.hub.url}/{name}"})
        else:
            self.hub.repos[name] = Repo(asked.get("visibility") == "private")
            self._answer(200, {"url": f"{self.hub.url}/{name}"})

    def _info(self, body: bytes, token: str, repo: str, revision: str | None) -> None:
        if found := self._repo(repo, token):
            commit = found.at(revision or "main")
            if commit is None:
                self._refuse(404, "RevisionNotFound")
                return
            self._answer(200, {"id": repo, "private": found.private, "sha": commit, "siblings": []})

    def _refs(self, body: bytes, token: str, repo: str) -> None:
        if found := self._repo(repo, token):
            kinds = {"branches": found.branches, "tags": found.tags, "converts": {}}
            refs = {
                kind: [{"name": name, "ref": name, "targetCommit": commit} for name, commit in commits.items()]
                for kind, commits in kinds.items()
            }
            self._answer(200, refs)

    def _branch(self, body: bytes, token: str, repo: str, branch: str) -> None:
        if found := self._repo(repo, token, writes=True):
            exists = branch in found.branches
            found.branches.setdefault(branch, found.branches["main"])
            self._answer(409 if exists else 200, {})

    def _yaml(self, body: bytes, token: str) -> None:
        content = json.loads(body)["content"]
        try:
            header = yaml.safe_load(content.split("---\n")[1])
            wrong = [key for key in ("license", "library_name") if not isinstance(header.get(key, ""), str)]
        except (yaml.YAMLError, IndexError) as error:
            wrong = [str(error)]
        errors = [{"message": f"{each} is wrong"} for each in wrong]
        self._answer(400 if wrong else 200, {"errors": errors, "warnings": []})

    def _preupload(self, body: bytes, token: str, repo: str, revision: str) -> None:
        found = self._repo(repo, token, writes=True)
        if found is None:
            return
        old = found.commits[found.at(revision) or "0" * 40]
        self._answer(200, {"files": [_mode(file["path"], old) for file in json.loads(body)["files"]]})

    def _batch(self, body: bytes, token: str, repo: str) -> None:
        if self._repo(repo, token, writes=True):
            upload = "{}/lfs/{}".format
            objects = [
                {**each, "actions": {"upload": {"href": upload(self.hub.url, each["oid"])}}}
                if each["oid"] not in self.hub.stored
                else each
                for each in json.loads(body)["objects"]
            ]
            self._answer(200, {"objects": objects, "transfer": "basic"})

    def _store(self, body: bytes, token: str, oid: str) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.stored[oid] = body
        self._answer(200, {})

    def _commit(self, body: bytes, token: str, repo: str, revision: str) -> None:
        found = self._repo(repo, token, writes=True)
        if found is None:
            return
        if revision not in found.branches:
            self._refuse(404, "RevisionNotFound")
            return
        lines = [json.loads(line) for line in body.splitlines()]
        message = next(line["value"]["summary"] for line in lines if line["key"] == "header")
        files = {}
        for key, value in ((line["key"], line["value"]) for line in lines if line["key"] != "header"):
            large = key == "lfsFile"
            files[value["path"]] = self.hub.stored[value["oid"]] if large else base64.b64decode(value["content"])
        name = found.commit(files, revision, message)
        self._answer(200, {"commitUrl": f"{self.hub.url}/{repo}/commit/{name}", "commitOid": name})

    def _resolve(self, body: bytes, token: str, repo: str, revision: str, name: str) -> None:
        found = self._repo(repo, token)
        if found is None:
            return
        commit = found.at(revision)
        if commit is None:
            self._refuse(404, "RevisionNotFound")
            return
        if name not in found.commits[commit]:
            self._answer(404, {}, {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": commit})
            return
        content = found.commits[commit][name]
        headers = {"X-Repo-Commit": commit}
        if not name.endswith(LARGE):
            self._answer(200, content, {**headers, "ETag": f'"{_git_hash(content)}"'})
            return
        oid = self.hub.store(content, name)
        linked = {"X-Linked-Etag": f'"{oid}"', "X-Linked-Size": str(len(content))}
        self._answer(302, b"", {**headers, **linked, "Location": f"{self.hub.storage}/cdn/{oid}"})

    def _cdn(self, body: bytes, token: str, oid: str) -> None:
        assert not token
        self._answer(200, self.hub.stored[oid])


def _mode(name: str, old: dict[str, bytes]) -> dict[str, Any]:
    large = name.endswith(LARGE)
    found: dict[str, Any] = {"path": name, "uploadMode": "lfs" if large else "regular", "shouldIgnore": False}
    if name in old:
        found["oid"] = hashlib.sha256(old[name]).hexdigest() if large else _git_hash(old[name])
    return found


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


_REPO = r"(?P<repo>[^/]+/[^/]+)"
_ROUTES: list[tuple[str, Any]] = [
    (r"POST /api/repos/create", _Handler._create),
    (r"POST /api/validate-yaml", _Handler._yaml),
    (rf"GET /api/models/{_REPO}(/revision/(?P<revision>.+))?", _Handler._info),
    (rf"GET /api/models/{_REPO}/refs", _Handler._refs),
    (rf"POST /api/models/{_REPO}/branch/(?P<branch>.+)", _Handler._branch),
    (rf"POST /api/models/{_REPO}/preupload/(?P<revision>.+)", _Handler._preupload),
    (rf"POST /api/models/{_REPO}/commit/(?P<revision>.+)", _Handler._commit),
    (rf"POST /{_REPO}\.git/info/lfs/objects/batch", _Handler._batch),
    (r"PUT /lfs/(?P<oid>\w+)", _Handler._store),
    (rf"(GET|HEAD) /{_REPO}/resolve/(?P<revision>[^/]+)/(?P<name>.+)", _Handler._resolve),
    (r"(GET|HEAD) /cdn/(?P<oid>\w+)", _Handler._cdn),
]
