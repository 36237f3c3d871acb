"""The page behind ``fourierscale explore``: a small web server for this machine alone."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

from fourierscale.lab.explore.viewer import LookError, Viewer

__all__ = ["ExploreServer", "serve"]

ADDRESS = "127.0.0.1"
WORKERS = 32  # connections that are answered at once; a browser opens six
WAITING = 1024  # connections that wait for their turn
MAX_BODY = 1_500_000  # bytes: the largest image in colour as base64 takes 1.05 million
MAX_DIGITS = 20  # of a Content-Length
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src blob: data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class ExploreServer(HTTPServer):
    """Serves one page and answers its questions; binds to the machine's own address, nothing else can reach it.

    So many connections are answered at once, so many more wait, and what comes then is closed at once.

    Args:
        viewer: Gives the answers.
        page: The page's HTML.
        port: 0 picks a free one.
    """

    request_queue_size = WAITING

    def __init__(self, viewer: Viewer, page: str, port: int = 0) -> None:
        self.viewer, self.page = viewer, page.encode()
        self._connections: set[socket.socket] = set()
        self._workers = ThreadPoolExecutor(WORKERS)
        super().__init__((ADDRESS, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Leave a connection to the next worker that is free."""
        if len(self._connections) >= WORKERS + WAITING:
            self.shutdown_request(request)
            return
        self._connections.add(request)
        self._workers.submit(self._answer, request, client_address)

    def _answer(self, request: Any, client_address: Any) -> None:
        try:
            self.finish_request(request, client_address)
        except Exception:
            self.handle_error(request, client_address)
        finally:
            self.shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Tell what went wrong, unless the other side has merely left."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)

    @property
    def busy(self) -> bool:
        """Whether connections wait for a worker, so that none should be kept open for what may come."""
        return len(self._connections) > WORKERS

    def shutdown_request(self, request: Any) -> None:
        """Close a connection."""
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        """Take no more questions, answer those that were asked, and close."""
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # closed by the other side
                connection.shutdown(socket.SHUT_RD)
        super().server_close()
        # A process that ends while another of its threads computes is aborted: wait for the answers under way.
        self._workers.shutdown()

    @property
    def url(self) -> str:
        """Where to find the page."""
        return f"http://{ADDRESS}:{self.server_port}/"


def serve(server: ExploreServer) -> None:
    """Answer until interrupted (Ctrl-C), then close; for the main thread, which alone is told of interrupts."""
    interrupts: list[int] = []
    # Noted and not raised: an exception could fall between any two lines of the server's.
    before = signal.signal(signal.SIGINT, lambda number, frame: interrupts.append(number))
    answering = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.2})
    answering.start()
    while answering.is_alive() and not interrupts:
        time.sleep(0.1)
    server.shutdown()
    server.server_close()
    signal.signal(signal.SIGINT, before)


class _RefusedError(Exception):
    """A request that gets no answer: a status and one sentence."""

    def __init__(self, status: HTTPStatus, text: str) -> None:
        super().__init__(text)
        self.status = status


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    server_version = "fourierscale"
    sys_version = ""
    protocol_version = "HTTP/1.1"
    timeout = 10  # seconds a silent connection is kept
    disable_nagle_algorithm = True  # or the second packet of each answer waits 40 ms for news of the first

    def do_GET(self) -> None:
        """The page itself."""
        try:
            self._check_host()
            if self.path.split("?")[0] != "/":
                raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such page")
        except _RefusedError as refused:
            self._fail(refused)
        else:
            self._send(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)

    def do_POST(self) -> None:
        """One look: JSON in, JSON out."""
        try:
            self._check_host()
            if self.path != "/api/look":
                raise _RefusedError(HTTPStatus.NOT_FOUND, "there is no such question")
            answer = self.server.viewer.look(**_question(self._body()))
        except _RefusedError as refused:
            self._fail(refused)
        except LookError as error:
            self._fail(_RefusedError(HTTPStatus.BAD_REQUEST, str(error)))
        else:
            self._send(HTTPStatus.OK, "application/json", json.dumps(answer).encode())

    def _check_host(self) -> None:
        """Refuse what another site asks: a foreign name that resolves to this machine, or a script of its page."""
        port = self.server.server_port
        own = {f"{name}:{port}" for name in (ADDRESS, "localhost")}
        if self.headers.get("Host") not in own:
            raise _RefusedError(HTTPStatus.FORBIDDEN, f"this page answers at http://{ADDRESS}:{port}/ alone")
        origin = self.headers.get("Origin")
        if origin is not None and origin not in {f"http://{host}" for host in own}:
            raise _RefusedError(HTTPStatus.FORBIDDEN, "this page answers its own scripts alone")

    def _body(self) -> bytes:
        if self.headers.get_content_type() != "application/json":
            raise _RefusedError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "expected application/json")
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit():
            raise _RefusedError(HTTPStatus.LENGTH_REQUIRED, "expected a Content-Length")
        if len(length) > MAX_DIGITS:
            raise _RefusedError(HTTPStatus.BAD_REQUEST, f"expected a Content-Length of at most {MAX_DIGITS} digits")
        if int(length) > MAX_BODY:
            raise _RefusedError(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"expected at most {MAX_BODY} bytes, got {length}")
        return self.rfile.read(int(length))

    def _fail(self, refused: _RefusedError) -> None:
        self.close_connection = True  # its body may not have been read
        self._send(refused.status, "application/json", json.dumps({"error": str(refused)}).encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.close_connection |= self.server.busy
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the terminal stays readable."""


def _question(body: bytes) -> dict[str, Any]:
    """What a look needs, checked."""
    try:
        question = json.loads(body)
    except (ValueError, RecursionError):
        raise LookError("expected JSON") from None
    if not isinstance(question, dict) or not isinstance(question.get("pixels"), str):
        raise LookError("expected an object with pixels in base64, side and resolution")
    numbers = {name: question.get(name, 0) for name in ("side", "resolution", "rank")}
    for name, value in numbers.items():
        if type(value) is not int:
            raise LookError(f"expected {name} to be a whole number, got {str(value)[:40]}")
    try:
        pixels = base64.b64decode(question["pixels"], validate=True)
    except (binascii.Error, ValueError):
        raise LookError("expected pixels in base64") from None
    return {"pixels": pixels, **numbers}
