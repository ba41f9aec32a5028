"""The labelling server over real sockets: who may label, and what is stored."""

import http.client
import json
import os
import socket
from contextlib import contextmanager
from threading import Event, Thread

import pytest

from perepisode import lazy
from perepisode.preferences import films, labels, server
from tests.boundary.command_line import answer as command
from tests.boundary.command_line import refused
from tests.preferences import labelling

TOKEN = "a-token-of-this-test"
POSTS = ("answer", "undo")


class Client:
    """Sends requests as a browser does from the page itself, unless told otherwise."""

    def __init__(self, port: int, session):
        self.port, self.session = port, session
        self.own = f"http://127.0.0.1:{port}"

    def send(self, method: str, path: str, body=None, token: str | None = TOKEN, **headers):
        """Status, headers and body of the answer; a header that is None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        sent = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): value for name, value in headers.items()}}
        if method == "POST":
            usual = {"Origin": self.own, "Content-Type": "application/json", "Sec-Fetch-Site": "same-origin"}
            sent = {"Content-Length": str(len(content or b"")), **usual, **sent}
        connection.putrequest(method, path if token is None else f"/{token}/{path}", skip_host=True)
        for name, value in sent.items():
            if value is not None:
                connection.putheader(name, value)
        connection.endheaders(content)
        with connection.getresponse() as response:
            return response.status, response.headers, response.read().decode()

    def post(self, path: str, body=None, **headers) -> tuple[int, dict]:
        status, _, text = self.send("POST", path, body, **headers)
        return status, json.loads(text) if text.startswith("{") else {"error": text}

    def pair(self, rater: str = "Ada") -> str:
        return json.loads(self.send("GET", f"state?rater={rater}")[2])["pair"]["id"]

    def stored(self) -> list[labels.Label]:
        return labels.read(self.session.path) if self.session.path.exists() else []


@contextmanager
def serving(session):
    listening = server.bind(0)
    running = server.http_server(server.app(session, TOKEN, "<!doctype html><p>the page"))
    thread = Thread(target=running.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield Client(listening.getsockname()[1], session)
    finally:
        running.should_exit = True
        thread.join(60)
        listening.close()
        session.close()


@pytest.fixture(scope="module")
def table():
    return labelling.table()


@pytest.fixture
def client(table, tmp_path):
    with serving(labelling.session_over(table, tmp_path / "labels.jsonl")) as client:
        yield client


def labelled(client, **headers) -> int:
    return client.post("answer", {"rater": "Ada", "pair": client.pair(), "answer": "left"}, **headers)[0]


def test_only_this_machine_reaches_it(client):
    with socket.socket() as other:  # another address of this machine: a server on every address would accept it
        other.settimeout(5)
        with pytest.raises(OSError, match=r"refused|timed out|[Uu]nreachable"):
            other.connect(("127.0.0.2", client.port))
    assert client.send("GET", "")[0] == 200


def test_a_port_in_use_is_refused_in_one_line(client):
    line = refused("label", labelling.TABLE, "--out", client.session.path, "--port", client.port, "--no-browser")
    assert f"port {client.port} cannot be used" in line


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), "%C3%A9", "..", "%2e%2e"])
@pytest.mark.parametrize("path", ["", "state?rater=Ada", "film/0", "label.js", "answer", "undo"])
def test_a_request_without_the_token_is_refused(client, token, path):
    method = "POST" if path in POSTS else "GET"
    body = {"rater": "Ada", "pair": "0", "answer": "left"} if method == "POST" else None
    assert client.send(method, path, body, token=token)[0] == 403
    assert client.send(method, f"/{path}?token={TOKEN}", body, token=None, Referer=f"{client.own}/{TOKEN}/")[0] == 403


def test_the_token_is_compared_in_constant_time(client, monkeypatch):
    compared = []

    def spy(given, expected):
        compared.append((given, expected))
        return False

    monkeypatch.setattr(server.secrets, "compare_digest", spy)
    assert client.send("GET", "")[0] == 403  # nothing else lets a request through
    assert compared == [(TOKEN.encode(), TOKEN.encode())]


@pytest.mark.parametrize(
    "host",
    [
        None, "", "evil.example", "evil.example:80", "127.0.0.1.evil.example", "127.0.0.2", "127.0.0.1:80/a",
        "127.0.0.1:x", "127.0.0.1:80@evil.example", "user@localhost",
    ],
)  # fmt: skip
def test_a_name_that_was_rebound_to_this_address_is_refused(client, host):
    """DNS rebinding: the page of evil.example, whose name now means 127.0.0.1, has the same origin as the server."""
    assert client.send("GET", "", Host=host)[0] in (400, 403)
    if host is not None:  # else the server ends the connection before it has read the body
        assert labelled(client, Host=host, Origin=f"http://{host}") in (400, 403)
    assert client.stored() == []


def test_the_token_is_looked_for_in_the_path_and_nowhere_else(client):
    for host in (f"127.0.0.1:80/{TOKEN}/", f"127.0.0.1:{client.port}/{TOKEN}"):
        assert client.send("GET", "/wrong/", token=None, Host=host)[0] == 403
    for path in ("*", "/", "//", f"//evil.example/{TOKEN}/state?rater=Ada", f"http://127.0.0.1:{client.port}/{TOKEN}/"):
        assert client.send("GET", path, token=None)[0] == 403


def test_a_forwarded_port_works(client):
    assert labelled(client, Host="localhost:8888", Origin="http://localhost:8888") == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": None},
        {"Origin": "null"},
        {"Origin": "http://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "http://127.0.0.1"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
    ],
)
def test_another_page_cannot_label_even_with_the_token(client, headers):
    assert labelled(client, **headers) == 403
    assert client.stored() == []
    assert labelled(client) == 200  # the same request from the page itself


def test_no_answer_lets_another_page_read_it(client):
    """Cross-origin reads need Access-Control-Allow-Origin; a preflight needs it, too."""
    foreign = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answers = [client.send(method, "answer", **foreign) for method in ("OPTIONS", "GET", "PUT")]
    answers += [client.send("GET", path, **foreign) for path in ("", "state?rater=Ada", "none")]
    answers += [
        client.send("GET", "", token="wrong"),
        client.send("POST", "answer", b"{", Origin="http://evil.example"),
    ]
    for status, headers, _ in answers:
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        assert "unsafe" not in headers["Content-Security-Policy"]
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["Cache-Control"] == "no-store"
        assert status != 500
    assert [status for status, *_ in answers[:3]] == [405, 405, 405]


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
def test_only_json_is_accepted(client, kind):
    """A form of another page can send the other kinds without asking first."""
    assert labelled(client, Content_Type=kind) == 415
    assert client.stored() == []


@pytest.mark.parametrize("path", POSTS)
def test_the_size_of_a_request_is_limited(client, path):
    assert client.post(path, b" " * (server.MAX_BODY + 1))[0] == 413
    half = b" " * (server.MAX_BODY // 2 + 1)  # whose length no header states
    chunked = b"".join(b"%x\r\n%s\r\n" % (len(half), half) for _ in range(2)) + b"0\r\n\r\n"
    assert client.post(path, chunked, Content_Length=None, Transfer_Encoding="chunked")[0] == 413


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b"\xff", b"[" * 4000, b'{"rater": "Ada"}',
        b'{"rater": "Ada", "pair": 1, "answer": "left"}',
        b'{"rater": null, "pair": "x", "answer": "left"}', b'{"rater": "Ada", "pair": "x", "answer": "best"}',
        b'{"rater": "", "pair": "x", "answer": "left"}', b'{"rater": "a\\nb", "pair": "x", "answer": "left"}',
        b'{"rater": "\\u001b[2J", "pair": "x", "answer": "left"}',
        b'{"rater": "\\ud800", "pair": "x", "answer": "left"}',
        json.dumps({"rater": "x" * 61, "pair": "x", "answer": "left"}).encode(),
        b'{"rater": "Ada", "pair": "x", "answer": "left", "out": "/tmp/other.jsonl"}',
    ],
)  # fmt: skip
def test_a_malformed_answer_is_refused_in_one_line(client, body):
    status, answer = client.post("answer", body)
    assert status == 400
    assert "\n" not in answer["error"]
    assert client.stored() == []


@pytest.mark.parametrize(
    "path",
    [
        "film/-1", "film/60", "film/99999999999999999999", "film/0x1", "film/../../../etc/passwd", "film/..%2f..%2fetc",
        "../server.py", "%2e%2e/labels.jsonl", "labels.jsonl", "page.html", "film/labels.jsonl",
        "player.js/../page.html",
    ],
)  # fmt: skip
def test_no_request_names_a_file(client, path):
    labelled(client)
    status, _, text = client.send("GET", path)
    assert status in (403, 404)
    assert "Ada" not in text


def test_an_answer_is_in_the_file_before_the_next_pair_is_returned(client, monkeypatch):
    seen = []
    append = labels.append

    def slow(path, record, size):
        written = append(path, record, size)
        seen.append([label.id for label in labels.read(path)])
        return written

    monkeypatch.setattr(labels, "append", slow)
    pair = client.pair()
    status, state = client.post("answer", {"rater": "Ada", "pair": pair, "answer": "left"})
    assert (status, seen, state["answered"]) == (200, [[pair]], 1)
    assert state["pair"]["id"] != pair


def test_an_answer_that_is_not_stored_is_not_confirmed(client, monkeypatch):
    def full(path, record, size):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(labels, "append", full)
    status, answer = client.post("answer", {"rater": "Ada", "pair": client.pair(), "answer": "left"})
    assert status == 500
    assert answer["error"] == "No space left on device"


def test_the_same_answer_from_many_tabs_at_once_is_stored_once(client):
    pair, statuses = client.pair(), []

    def send(answer):
        statuses.append(client.post("answer", {"rater": "Ada", "pair": pair, "answer": answer})[0])

    threads = [Thread(target=send, args=[("left", "right")[i % 2]]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sorted(statuses) == [200] * 4 + [409] * 4  # the four others have given another answer than the stored one
    assert len(client.stored()) == 1


def test_a_film_that_takes_long_holds_no_connection(client, monkeypatch):
    """A browser has six connections to a server: if all waited for films, no answer could be sent."""
    finish = Event()
    monkeypatch.setattr(films, "film", lambda row, dilemma: {"made": finish.wait(60)})
    begun = [client.send("GET", f"film/{row}")[0] for row in range(3)]
    finish.set()
    assert begun == [202, 202, 202]
    for row in range(3):
        while (found := client.send("GET", f"film/{row}"))[0] == 202:
            pass
        assert (found[0], json.loads(found[2])) == (200, {"made": True})


def test_a_pair_that_is_not_shown_is_a_conflict(client):
    assert client.post("answer", {"rater": "Ada", "pair": "0" * 32, "answer": "left"})[0] == 409


# ---- the command


def hostile_lines() -> dict[str, bytes]:
    return {
        "not JSON": b"left\n",
        "a list": b"[1]\n",
        "another kind": b'{"kind": "vote", "version": 1}\n',
        "a label without episodes": b'{"kind": "label", "version": 1, "id": "a", "rater": "Ada"}\n',
        "control characters": b'{"kind": "label", "version": 1, "rater": "\\u001b[2J"}\n',
        "html in a kind": json.dumps({"kind": labelling.HOSTILE, "version": 1}).encode() + b"\n",
        "too many lines": b"\n" * 100_001,
        "a long line": b'{"kind": "' + b"x" * 30_000 + b'"}\n',
    }


@pytest.mark.parametrize("case", hostile_lines())
def test_a_hostile_labels_file_is_refused_in_one_line(tmp_path, case):
    path = tmp_path / "labels.jsonl"
    path.write_bytes(hostile_lines()[case])
    line = refused("label", labelling.TABLE, "--out", path, "--no-browser")
    assert "labels.jsonl" in line
    assert "img" not in line
    assert path.read_bytes() == hostile_lines()[case]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["none.parquet"], "does not exist"),
        ([labelling.TABLE, "--out", "none/labels.jsonl"], "none does not exist; create it"),
        ([labelling.TABLE, "--out", "."], "is a folder"),
        ([labelling.TABLE, "--rater", "a\nb"], "printable characters"),
        ([labelling.TABLE, "--dilemma", "no_killing"], "has no column violations_no_killing"),
        ([labelling.TABLE, "--pairs", "0"], "pairs=0"),
    ],
)
def test_wrong_options_are_refused_in_one_line(tmp_path, monkeypatch, words, reason):
    monkeypatch.chdir(tmp_path)
    assert reason in refused("label", *words, "--no-browser")
    assert not list(tmp_path.iterdir())


def test_a_file_that_cannot_be_written_is_refused_before_anybody_labels(tmp_path, monkeypatch):
    path = tmp_path / "labels.jsonl"
    asked = []
    monkeypatch.setattr("os.access", lambda *given: asked.append(given))
    assert "cannot be written; give another --out" in refused("label", labelling.TABLE, "--out", path, "--no-browser")
    path.touch()
    assert "cannot be written" in refused("label", labelling.TABLE, "--out", path, "--no-browser")
    assert asked == [(tmp_path, os.W_OK), (path, os.W_OK)]
    monkeypatch.undo()
    path.unlink()
    path.symlink_to(tmp_path / "none" / "labels.jsonl")
    assert "none does not exist; create it" in refused("label", labelling.TABLE, "--out", path, "--no-browser")


def test_a_missing_server_library_is_named_with_its_extra(monkeypatch):
    installed = lazy._installed
    monkeypatch.setattr(lazy, "_installed", lambda name: name != "starlette" and installed(name))
    code, out, err = command("label", labelling.TABLE)
    assert (code, out) == (2, "")
    assert err == "perepisode: perepisode label needs starlette; run: pip install 'perepisode[label]'\n"
