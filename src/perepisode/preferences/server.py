"""The labelling page's server: on this machine only, and only for who has the token.

GET  /TOKEN/              the page; its script and style sheets lie beside it
GET  /TOKEN/state?rater=  what the rater's page shows: progress and a pair
GET  /TOKEN/film/ROW      the film of an episode; status 202 while it is being made
POST /TOKEN/answer        {"rater", "pair", "answer"}: the answer is on disk before the next state is returned
POST /TOKEN/undo          {"rater", "label"}: takes back the rater's last label

Other pages of the same browser can send requests here, too.  They do not know the token; a request through a name that
was rebound to this address has the wrong Host, a POST from another page the wrong Origin; and without CORS headers no
other page can read an answer.
"""

import asyncio
import contextlib
import json
import re
import secrets
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route

from perepisode import replay, safe_io
from perepisode.config import ConfigError
from perepisode.preferences import labels
from perepisode.preferences.session import Session, UnknownPair

HOST = "127.0.0.1"
OWN_ADDRESS = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")  # localhost: a forwarded port
MAX_BODY = 4096  # bytes
FILM_SECONDS = 0.5  # a request waits for a film; a browser has six connections, which must not all wait
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
_HERE, _PLAYER = Path(__file__).parent, Path(replay.__file__).parent
STATIC = {  # read once at the start: no request names a file
    "player.js": (_PLAYER / "player.js", "text/javascript"),
    "player.css": (_PLAYER / "player.css", "text/css"),
    "label.js": (_HERE / "label.js", "text/javascript"),
    "label.css": (_HERE / "label.css", "text/css"),
}


def app(session: Session, token: str, page: str) -> Starlette:
    """The application for one session; every address begins with the token."""

    async def state(request: Request) -> Response:
        rater = request.query_params.get("rater", "")
        _check_rater(rater)
        return await _answered(lambda: session.state(rater))

    async def film(request: Request) -> Response:
        row = request.path_params["row"]
        if not 0 <= row < len(session.table):
            raise HTTPException(404, "there is no such episode")
        made, until = session.films.request(row), time.monotonic() + FILM_SECONDS
        while not made.done() and time.monotonic() < until:
            await asyncio.sleep(0.02)
        return JSONResponse(made.result()) if made.done() and not made.cancelled() else JSONResponse(None, 202)

    async def answer(request: Request) -> Response:
        rater, pair, given = await _fields(request, "rater", "pair", "answer")
        _check_rater(rater)
        if given not in labels.ANSWERS:
            raise HTTPException(400, f"the answer is none of {', '.join(labels.ANSWERS)}")
        return await _answered(lambda: session.answer(rater, pair, given))

    async def undo(request: Request) -> Response:
        rater, label = await _fields(request, "rater", "label")
        _check_rater(rater)
        return await _answered(lambda: session.undo(rater, label))

    def fixed(content: str, kind: str) -> Callable[[Request], Any]:
        async def send(_: Request) -> Response:
            return Response(content, media_type=kind)

        return send

    routes = [
        Route("/", fixed(page, "text/html")),
        *(Route(f"/{name}", fixed(path.read_text(encoding="utf-8"), kind)) for name, (path, kind) in STATIC.items()),
        Route("/state", state),
        Route("/film/{row:int}", film),
        Route("/answer", answer, methods=["POST"]),
        Route("/undo", undo, methods=["POST"]),
    ]

    async def guard(request: Request, call_next: Callable[[Request], Any]) -> Response:
        refusal = refused(request, token)
        response = PlainTextResponse(refusal[1], refusal[0]) if refusal else await call_next(request)
        response.headers.update(HEADERS)
        return response

    return Starlette(
        routes=[Mount(f"/{token}", routes=routes)],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        exception_handlers={HTTPException: _refusal},
    )


def refused(request: Request, token: str) -> tuple[int, str] | None:
    """Status and reason if this request may not be answered."""
    host = request.headers.get("host", "")
    if not OWN_ADDRESS.fullmatch(host):
        return 403, "this server answers only to its own address"
    given = request.scope["path"].lstrip("/").partition("/")[0]  # request.url would contain what the host header says
    if not secrets.compare_digest(given.encode(), token.encode()):
        return 403, "the address has no valid token; use the one that `perepisode label` printed"
    if request.method == "POST":
        if request.headers.get("origin") != f"http://{host}":
            return 403, "the request comes from another page"
        if request.headers.get("sec-fetch-site", "same-origin") != "same-origin":
            return 403, "the request comes from another page"
        if request.headers.get("content-type", "").partition(";")[0].strip() != "application/json":
            return 415, "the request is not JSON"
    return None


async def _refusal(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code)


async def _fields(request: Request, *names: str) -> list[str]:
    """These texts of the request's JSON object, which may have no others."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MAX_BODY:
            raise HTTPException(413, f"the request is larger than {MAX_BODY} bytes")
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        raise HTTPException(400, "the request is not JSON") from None
    if not isinstance(plain, dict) or set(plain) != set(names):
        raise HTTPException(400, f"the request must be an object of {', '.join(names)}")
    if not all(isinstance(value, str) for value in plain.values()):
        raise HTTPException(400, f"{', '.join(names)} must be texts")
    return [plain[name] for name in names]


def _check_rater(name: str) -> None:
    try:
        labels.check_rater(name)
    except ConfigError as error:
        raise HTTPException(400, str(error)) from None


async def _answered(call: Callable[[], dict[str, Any]]) -> Response:
    """The state that the call returns, or why it returned none; what the disk refuses is reported, not lost."""
    try:
        return JSONResponse(await run_in_threadpool(call))
    except UnknownPair:
        raise HTTPException(409, "this pair was taken back or answered elsewhere") from None
    except (ConfigError, OSError) as error:
        raise HTTPException(500, safe_io.one_line(getattr(error, "strerror", None) or error)) from None


def bind(port: int) -> socket.socket:
    """A listening socket that only this machine reaches; port 0 is any free one."""
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HOST, port))
        listening.listen()  # a browser that is faster than the server waits
    except OSError as error:
        listening.close()
        raise ConfigError(f"port {port} cannot be used ({error.strerror}); give another --port, or none") from None
    return listening


def http_server(application: Starlette) -> uvicorn.Server:
    """Answers requests on the sockets that its `run` is given."""
    return uvicorn.Server(
        uvicorn.Config(
            application, loop="asyncio", http="h11", ws="none", lifespan="off", log_level="warning", access_log=False,
            server_header=False, proxy_headers=False, timeout_graceful_shutdown=1,
        )
    )  # fmt: skip


def serve(application: Starlette, listening: socket.socket) -> None:
    """Answer requests until Ctrl-C."""
    with listening, contextlib.suppress(KeyboardInterrupt):  # which uvicorn raises again after a clean end
        http_server(application).run(sockets=[listening])
