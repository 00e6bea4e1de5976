"""A small server that stands in for the Hugging Face hub: repositories of models, as the hub's own client uses them.

It keeps commits in memory, takes large files by Git LFS into a storage of its own, wants a token for writing, and
answers with the hub's status codes and headers. It does not cover Xet storage (`HF_HUB_DISABLE_XET=1` makes the client
use LFS), uploads in several parts, private or gated repositories, pull requests, TLS, and limits of any kind.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

TOKEN = "hf_writer"
LARGE = ".safetensors"  # what the hub's .gitattributes keep in LFS
FIRST_COMMIT = {".gitattributes": f"*{LARGE} filter=lfs diff=lfs merge=lfs -text\n".encode()}

Files = dict[str, bytes]


@dataclass
class HubServer:
    """What the server holds, and where it is."""

    endpoint: str = ""
    storage: str = ""  # another server, as for the hub: the client must not send its token there
    repos: dict[str, list[Files]] = field(default_factory=dict)  # commits, the newest last
    large: dict[str, bytes] = field(default_factory=dict)  # by SHA-256

    def environment(self, home: str, token: str = TOKEN) -> dict[str, str]:
        """Variables with which the hub's client talks to this server alone."""
        return {
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": home,
            "HF_HUB_CACHE": f"{home}/cache",
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_OFFLINE": "0",
            "HF_TOKEN": token,
            "NO_PROXY": "127.0.0.1",
        }


class Refused(Exception):
    """An answer that is an error, as the hub words it."""

    def __init__(self, status: int, code: str, message: str, **details: str) -> None:
        super().__init__(message)
        self.status, self.code, self.details = status, code, details


@contextmanager
def hub_server() -> Iterator[HubServer]:
    """Serve an empty hub on this machine for the duration of the block."""
    hub = HubServer()
    with _serving(hub) as hub.endpoint, _serving(hub) as hub.storage:
        yield hub


@contextmanager
def _serving(hub: HubServer) -> Iterator[str]:
    """Answer at an address of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.body = self._read_body()
        try:
            for method, pattern, handle in ROUTES:
                if self.command in method and (match := re.fullmatch(pattern, path)):
                    handle(self, *match.groups())
                    return
            raise Refused(404, "NotFound", f"{self.command} {path} is not part of this server")
        except Refused as error:
            headers = {"X-Error-Code": error.code, "X-Error-Message": str(error)}
            self.send(error.status, {"error": str(error), **error.details}, headers)

    do_GET = do_HEAD = do_POST = do_PUT = answer

    def _read_body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def send(self, status: int, content: Any, headers: dict[str, str] | None = None) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def commits(self, repo: str, *, writing: bool = False) -> list[Files]:
        """The commits of a repository, for someone who may do this to it."""
        if writing:
            self.check_token()
        if repo not in self.hub.repos:
            raise Refused(404, "RepoNotFound", "Repository not found")
        return self.hub.repos[repo]

    def check_token(self) -> None:
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            raise Refused(401, "", "Invalid username or password.")

    def check_no_token(self) -> None:
        if "Authorization" in self.headers:
            raise Refused(400, "", "The storage must not see the token.")

    def files(self, repo: str, revision: str) -> tuple[str, Files]:
        """A commit's name and files, by its name or as the newest one."""
        commits = self.commits(repo)
        names = [_commit_name(number) for number in range(len(commits))]
        if revision not in ("main", *names):
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        number = len(commits) - 1 if revision == "main" else names.index(revision)
        return names[number], commits[number]

    def create(self) -> None:
        self.check_token()
        asked = json.loads(self.body)
        repo = f"{asked['organization']}/{asked['name']}"
        url = f"{self.hub.endpoint}/{repo}"
        if repo in self.hub.repos:
            raise Refused(409, "", "You already created this model repo", url=url)
        self.hub.repos[repo] = [FIRST_COMMIT]
        self.send(200, {"url": url, "name": repo})

    def validate_card(self) -> None:
        import yaml  # the hub's client brings it

        header = re.match(r"---\n(.*?)\n---\n", json.loads(self.body)["content"], re.DOTALL)
        valid = header is not None and isinstance(yaml.safe_load(header[1]), dict)
        errors = [] if valid else [{"message": "the card has no valid header"}]
        self.send(200 if valid else 400, {"errors": errors, "warnings": []})

    def preupload(self, repo: str) -> None:
        present = self.commits(repo, writing=True)[-1]
        names = [file["path"] for file in json.loads(self.body)["files"]]
        files = [
            {
                "path": name,
                "uploadMode": "lfs" if name.endswith(LARGE) else "regular",
                "shouldIgnore": False,
                **({"oid": _oid(name, present[name])} if name in present else {}),
            }
            for name in names
        ]
        self.send(200, {"files": files})

    def lfs_batch(self, repo: str) -> None:
        self.commits(repo, writing=True)
        objects = [
            {**wanted, "actions": {"upload": {"href": f"{self.hub.storage}/lfs/{wanted['oid']}"}}}
            for wanted in json.loads(self.body)["objects"]
        ]
        self.send(200, {"transfer": "basic", "objects": objects})

    def put_large(self, oid: str) -> None:
        self.check_no_token()
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise Refused(400, "", "the content is not what was announced")
        self.hub.large[oid] = self.body
        self.send(200, {})

    def get_large(self, oid: str) -> None:
        self.check_no_token()
        self.send(200, self.hub.large[oid])

    def commit(self, repo: str) -> None:
        commits = self.commits(repo, writing=True)
        files = dict(commits[-1])
        for operation in map(json.loads, self.body.splitlines()):
            value = operation["value"]
            match operation["key"]:
                case "file":
                    files[value["path"]] = base64.b64decode(value["content"])
                case "lfsFile":
                    files[value["path"]] = self.hub.large[value["oid"]]
                case "deletedFile":
                    if files.pop(value["path"], None) is None:
                        raise Refused(404, "EntryNotFound", "A file with this name doesn't exist")
        commits.append(files)
        name = _commit_name(len(commits) - 1)
        self.send(200, {"commitOid": name, "commitUrl": f"{self.hub.endpoint}/{repo}/commit/{name}"})

    def info(self, repo: str, revision: str | None) -> None:
        name, files = self.files(repo, revision or "main")
        self.send(200, {"id": repo, "sha": name, "siblings": [{"rfilename": name} for name in files]})

    def tree(self, repo: str, revision: str) -> None:
        _, files = self.files(repo, revision)
        entries = [
            {
                "type": "file",
                "path": name,
                "size": len(data),
                "oid": _git_oid(data),
                **(
                    {"lfs": {"oid": _oid(name, data), "size": len(data), "pointerSize": 130}} if _is_large(name) else {}
                ),
            }
            for name, data in files.items()
        ]
        self.send(200, entries)

    def resolve(self, repo: str, revision: str, name: str) -> None:
        commit, files = self.files(repo, revision)
        if name not in files:
            raise Refused(404, "EntryNotFound", "Entry not found")
        data = files[name]
        if not _is_large(name):
            self.send(200, data, {"X-Repo-Commit": commit, "ETag": f'"{_oid(name, data)}"'})
            return
        where = {"Location": f"{self.hub.storage}/lfs/{_oid(name, data)}", "X-Repo-Commit": commit}
        self.send(302, b"", {**where, "X-Linked-Etag": f'"{_oid(name, data)}"', "X-Linked-Size": str(len(data))})


ROUTES: tuple[tuple[str, str, Callable[..., None]], ...] = (
    ("POST", r"/api/repos/create", _Handler.create),
    ("POST", r"/api/validate-yaml", _Handler.validate_card),
    ("POST", r"/api/models/([^/]+/[^/]+)/preupload/main", _Handler.preupload),
    ("POST", r"/([^/]+/[^/]+)\.git/info/lfs/objects/batch", _Handler.lfs_batch),
    ("PUT", r"/lfs/(\w+)", _Handler.put_large),
    ("GET", r"/lfs/(\w+)", _Handler.get_large),
    ("POST", r"/api/models/([^/]+/[^/]+)/commit/main", _Handler.commit),
    ("GET", r"/api/models/([^/]+/[^/]+)(?:/revision/([^/]+))?", _Handler.info),
    ("GET", r"/api/models/([^/]+/[^/]+)/tree/([^/]+)", _Handler.tree),
    ("GET HEAD", r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", _Handler.resolve),
)


def _commit_name(number: int) -> str:
    return f"{number:040x}"


def _is_large(name: str) -> bool:
    return name.endswith(LARGE)


def _oid(name: str, data: bytes) -> str:
    """What Git LFS, or Git, calls this content."""
    return hashlib.sha256(data).hexdigest() if _is_large(name) else _git_oid(data)


def _git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()
