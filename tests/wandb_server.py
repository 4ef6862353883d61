"""As much of a W&B server as its client asks for to record runs, artifacts and alerts; it keeps what it is told.

It answers GraphQL, the file stream and uploads, on the loopback alone. What it does not know is in `unknown`.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEAM, KEY = "team", "0123456789" * 4
CREATED = "2026-01-01T00:00:00Z"
Given = dict[str, Any]


class Trouble(Enum):
    """How a server fails."""

    ERROR = "answers 500"
    SILENCE = "takes requests and never answers"


@dataclass
class StoredRun:
    """A run, as its client tells of it."""

    about: Given = field(default_factory=dict)  # groupName, jobType, displayName, tags, sweep, ...
    config: Given = field(default_factory=dict)
    lines: dict[int, Given] = field(default_factory=dict)  # of the history, by their number
    summary: Given = field(default_factory=dict)
    exit_code: int | None = None
    preempting: bool = False

    @property
    def rows(self) -> list[Given]:
        """The history in the order in which it came."""
        return [self.lines[number] for number in sorted(self.lines)]


@dataclass
class StoredArtifact:
    """A version of an artifact."""

    id: str
    kind: str
    project: str
    name: str
    version: int
    made_by: str  # run
    aliases: list[str]
    metadata: Given
    digest: str
    committed: bool = False
    used_by: list[str] = field(default_factory=list)  # runs


class WandbServer(ThreadingHTTPServer):
    """In `trouble` from the first of a run's history on."""

    daemon_threads = True

    def __init__(self, trouble: Trouble | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.runs: dict[str, StoredRun] = {}
        self.artifacts: dict[str, StoredArtifact] = {}
        self.alerts: list[Given] = []
        self.keys: set[str] = set()  # that clients showed
        self.unknown: list[str] = []
        self.over = threading.Event()
        self._trouble, self._in_trouble = trouble, threading.Event()
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    @property
    def environment(self) -> dict[str, str]:
        """What a client needs to come here."""
        return {"WANDB_BASE_URL": self.url, "WANDB_API_KEY": KEY}

    @property
    def trouble(self) -> Trouble | None:
        """How it fails now."""
        return self._trouble if self._in_trouble.is_set() else None

    def handle_error(self, *_: object) -> None:
        """A client that gives up is no error."""

    def answer(self, operation: str, given: Given) -> Given:
        """What GraphQL's operation gives."""
        with self._lock:
            found = self._of_runs(operation, given) or self._of_artifacts(operation, given.get("input", given))
            if not found:
                self.unknown.append(operation)
            return found

    def stream(self, name: str, sent: Given) -> None:
        """Lines of the history from an offset on, the whole summary, and how the run ends."""
        with self._lock:
            self._in_trouble.set()
            run = self.runs[name]
            files = sent.get("files", {})
            if history := files.get("wandb-history.jsonl"):
                run.lines |= dict(enumerate(map(json.loads, history["content"]), start=history["offset"]))
            if summary := files.get("wandb-summary.json"):
                run.summary = json.loads(summary["content"][-1])
            run.preempting |= bool(sent.get("preempting"))
            if sent.get("complete"):
                run.exit_code = sent["exitcode"]

    def _of_runs(self, operation: str, given: Given) -> Given:
        match operation:
            case "Viewer":
                return {"viewer": {"id": "ann", "entity": TEAM, "username": "ann", "teams": {"edges": []}}}
            case "ServerFeaturesQuery":
                return {"serverInfo": {"features": []}}
            case "RunResumeStatus":
                known = self._bucket(given) if given["name"] in self.runs else None
                return {"model": _project(given["project"]) | {"bucket": known}}
            case "UpsertBucket":
                is_new = given["name"] not in self.runs
                run = self.runs.setdefault(given["name"], StoredRun())
                run.about |= {key: value for key, value in given.items() if value is not None}
                run.config |= json.loads(given.get("config") or "{}")
                return {"upsertBucket": {"bucket": self._bucket(given), "inserted": is_new}}
            case "CreateRunFiles":
                files = [{"name": name, "uploadUrl": f"{self.url}/uploads/{name}"} for name in given["files"]]
                return {"createRunFiles": {"runID": given["run"], "uploadHeaders": [], "files": files}}
            case "NotifyScriptableRunAlert":
                self.alerts.append(given)
                return {"notifyScriptableRunAlert": {"success": True}}
        return {}

    def _of_artifacts(self, operation: str, given: Given) -> Given:
        upload = {"uploadUrl": f"{self.url}/uploads/file", "uploadHeaders": []}
        match operation:
            case "ArtifactType":  # of one with this name, if there is one
                return {"project": {"artifact": None}}
            case "CreateArtifact":
                made = self._create(given)
                sequence = {"latestArtifact": None}
                return {
                    "createArtifact": {"artifact": {"id": made.id, "state": "PENDING", "artifactSequence": sequence}}
                }
            case "CreateArtifactManifest":
                return {"createArtifactManifest": {"artifactManifest": {"id": "m", "file": {"id": "f"} | upload}}}
            case "CreateArtifactFiles":
                nodes = [
                    {"storagePath": file["name"], "artifact": {"id": file["artifactID"]}} | upload
                    for file in given["artifactFiles"]
                ]
                return {"createArtifactFiles": {"files": {"edges": [{"node": node} for node in nodes]}}}
            case "CommitArtifact":
                made = self.artifacts[given["artifactID"]]
                made.committed = True
                return {"commitArtifact": {"artifact": {"id": made.id, "digest": made.digest}}}
            case "ArtifactByID":
                return {"artifact": _artifact(self.artifacts[given["id"]])}
            case "ArtifactMembershipByName":
                return {"project": {"artifactCollectionMembership": self._version(given["name"])}}
            case "UseArtifact":
                made = self.artifacts[given["artifactID"]]
                made.used_by.append(given["runName"])
                return {"useArtifact": {"artifact": {"id": made.id}}}
        return {}

    def _bucket(self, given: Given) -> Given:
        run = self.runs[given["name"]]
        return {
            "id": given["name"],
            "name": given["name"],
            "displayName": run.about.get("displayName"),
            "project": _project(given["project"]),
            "config": json.dumps(run.config),
            "summaryMetrics": json.dumps(run.summary),
            "sweepName": run.about.get("sweep"),
            "tags": run.about.get("tags"),
            "historyLineCount": len(run.lines),
            "historyTail": json.dumps([json.dumps(row) for row in run.rows[-1:]]),
            "eventsLineCount": 0,
            "eventsTail": "[]",
            "logLineCount": 0,
            "wandbConfig": json.dumps({"t": run.config["_wandb"]["value"]["t"]}),  # of a run that was begun
        }

    def _create(self, given: Given) -> StoredArtifact:
        name = given["artifactCollectionName"]
        made = StoredArtifact(
            id=f"artifact-{len(self.artifacts)}",
            kind=given["artifactTypeName"],
            project=given["projectName"],
            name=name,
            version=sum(one.name == name for one in self.artifacts.values()),
            made_by=given["runName"],
            aliases=[one["alias"] for one in given["aliases"] or ()],
            metadata=json.loads(given["metadata"] or "{}"),
            digest=given["digest"],
        )
        self.artifacts[made.id] = made
        return made

    def _version(self, wanted: str) -> Given | None:
        for made in self.artifacts.values():
            if made.committed and wanted == f"{made.name}:v{made.version}":
                about = {"id": f"member-{made.id}", "versionIndex": made.version, "createdAt": CREATED, "aliases": []}
                return about | {"artifactCollection": _sequence(made), "artifact": _artifact(made)}
        return None


class _Handler(BaseHTTPRequestHandler):
    server: WandbServer

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/graphql":
            asked = json.loads(body)
            operation = asked.get("operationName") or asked["query"].partition("(")[0].partition("{")[0].split()[-1]
            self._reply({"data": self.server.answer(operation, asked.get("variables") or {})})
        else:  # /files/TEAM/PROJECT/RUN/file_stream
            self.server.stream(self.path.split("/")[-2], json.loads(body))
            self._reply({})

    def do_PUT(self) -> None:
        self._body()
        self._reply({})

    def _body(self) -> bytes:
        if "Authorization" in self.headers:
            self.server.keys.add(self.headers["Authorization"])
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _reply(self, content: Given) -> None:
        if self.server.trouble is Trouble.SILENCE:
            self.server.over.wait()
        fails = self.server.trouble is Trouble.ERROR
        body = b"{}" if fails else json.dumps(content).encode()
        self.send_response(500 if fails else 200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing is printed."""


def _project(name: str) -> Given:
    return {"id": "p", "internalId": "p", "name": name, "entity": {"id": TEAM, "name": TEAM}}


def _sequence(made: StoredArtifact) -> Given:
    return {"__typename": "ArtifactSequence", "name": made.name, "project": _project(made.project)}


def _artifact(made: StoredArtifact) -> Given:
    return {
        "__typename": "Artifact",
        "id": made.id,
        "artifactSequence": _sequence(made),
        "versionIndex": made.version,
        "artifactType": {"name": made.kind},
        "description": None,
        "metadata": json.dumps(made.metadata),
        "ttlDurationSeconds": -2,
        "ttlIsInherited": True,
        "tags": [],
        "historyStep": None,
        "state": "COMMITTED" if made.committed else "PENDING",
        "size": 1,
        "digest": made.digest,
        "commitHash": None,
        "fileCount": 1,
        "createdAt": CREATED,
        "updatedAt": None,
        "aliases": [],
    }


@contextmanager
def wandb_server(*, trouble: Trouble | None = None) -> Iterator[WandbServer]:
    """One that answers until the end, or until it is in trouble."""
    server = WandbServer(trouble)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.over.set()
    server.shutdown()
    server.server_close()
