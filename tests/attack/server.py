"""The explorer's server under many questions at once, slow clients, and requests that are none."""

from __future__ import annotations

import base64
import json
import random
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fourierscale.lab.explore import ExploreServer, Net, Viewer
from fourierscale.models import Preprocessing, create_model
from tests.attack import damage
from tests.attack.frame import BrokenError, Case, Part

PAGE = "page"
LONGEST = 60.0  # seconds that a client waits
MOST = 200  # clients at once
STATUSES = ("200", "400", "403", "404", "405", "408", "411", "413", "414", "415", "429", "431", "501", "503", "505")


class Server(Part):
    """Requests of every kind over sockets of our own; each gets an answer, and good questions get theirs meanwhile."""

    name = "server"
    what = "the explorer's server: up to 200 clients at once, slow ones, bad requests and questions"
    cases = 300

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        prepare = Preprocessing(mean=(0.1,), std=(0.3,), classes=tuple("0123456789"))
        model = create_model("scalenet-tiny", widths=(4, 4), hidden=8).eval()
        self.server = WatchedServer(Viewer([Net("ours", "ours", model, prepare)]), PAGE)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self.thread.start()

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()

    def attack(self, case: Case) -> str:
        """A burst of questions, or requests that are damaged; then a good question."""
        kind = case.choose("kind", ["burst", "request", "request", "question", "question", "slow"])
        self.server.errors.clear()
        if kind == "burst":
            clients = case.choose("clients", [2, 10, 50, MOST])
            told = together([self.good_question] * clients)
            lost = [answer for answer in told if not answer.startswith("HTTP/1.1 200 ")]
            if lost:
                raise BrokenError(
                    f"{len(lost)} of {clients} questions at once got no answer, the first {lost[0][:60]!r}"
                )
        elif kind == "slow":
            slow = case.whole("slow clients", 1, 20)
            part = self.request(question(3), "POST", "/api/look")[: case.whole("bytes", 1, 200)]
            self.slowly([part] * slow)
        else:
            content = self.bad_request(case) if kind == "request" else self.bad_question(case)
            answer = self.send(content)
            status = answer.split(" ")[1] if answer.startswith("HTTP/1.") else ""
            if status not in STATUSES and not (
                kind == "request" and not status
            ):  # what is no request may be hung up on
                raise BrokenError(f"a bad {kind} gets {answer[:80]!r}")
        if not self.good_question().startswith("HTTP/1.1 200 "):
            raise BrokenError("a good question got no answer afterwards")
        if self.server.errors:
            raise BrokenError(f"a traceback in the terminal: {self.server.errors[0]}")
        return kind

    def request(self, body: bytes, method: str, path: str, **headers: str) -> bytes:
        """A request as bytes."""
        given = {
            "Host": f"127.0.0.1:{self.server.server_port}",
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            "Connection": "close",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in given.items())
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode("latin-1", "replace") + body

    def send(self, content: bytes) -> str:
        """All bytes of an answer; empty where the server hangs up."""
        with socket.create_connection(("127.0.0.1", self.server.server_port), timeout=LONGEST) as connection:
            told = b""
            try:
                connection.sendall(content)
                connection.shutdown(socket.SHUT_WR)
                while block := connection.recv(65536):
                    told += block
            except TimeoutError:
                raise BrokenError(f"no answer within {LONGEST:.0f} s") from None
            except OSError:  # it hung up before it had read everything
                return told.decode("latin-1")
            return told.decode("latin-1")

    def good_question(self) -> str:
        """A question that has an answer."""
        return self.send(self.request(question(random.randrange(100)), "POST", "/api/look"))

    def slowly(self, parts: list[bytes]) -> None:
        """Clients that say a part of a request and then nothing; a good question is answered at once."""
        address = ("127.0.0.1", self.server.server_port)
        silent = [socket.create_connection(address, timeout=LONGEST) for _ in parts]
        try:
            for connection, part in zip(silent, parts, strict=True):
                connection.sendall(part)
            started = time.monotonic()
            if not self.good_question().startswith("HTTP/1.1 200 "):
                raise BrokenError("a good question got no answer beside slow clients")
            if time.monotonic() - started > 10:
                raise BrokenError("slow clients hold up a good question")
        finally:
            for connection in silent:
                connection.close()

    def bad_request(self, case: Case) -> bytes:
        """Another method, path or header, or bytes that are no request."""
        kind = case.choose("damage", ["bytes", "method", "path", "header", "length", "many headers"])
        good = self.request(question(1), "POST", "/api/look")
        if kind == "bytes":
            return damage.bytes_of(case, good)
        if kind == "method":
            return self.request(b"", case.choose("method", ["PUT", "DELETE", "X" * 70_000, "", "GET /", "\0"]), "/")
        if kind == "path":
            paths = [
                "/../../etc/passwd",
                "/" + "a" * 70_000,
                "//",
                "*",
                "/%00",
                "http://evil.example/",
                "/api/look?x",
                "",
            ]
            return self.request(question(1), case.choose("method", ["GET", "POST"]), case.choose("path", paths))
        if kind == "many headers":
            return self.request(b"{}", "POST", "/api/look", **{f"X{number}": "x" for number in range(300)})
        if kind == "length":
            lengths = ["9" * 5_000, "-1", "1e3", "0x10", "", "\u0661", " 3", "99999", "0", "1, 2"]
            return self.request(question(1), "POST", "/api/look", Content_Length=case.choose("length", lengths))
        names = ["Host", "Origin", "Content_Type", "Transfer_Encoding", "Expect", "Connection"]
        values = ["", "evil.example", "x" * 70_000, "\xff", "chunked", "100-continue", "null"]
        return self.request(b"{}", "POST", "/api/look", **{case.choose("header", names): case.choose("value", values)})

    def bad_question(self, case: Case) -> bytes:
        """JSON that is no question."""
        return self.request(damage.json_of(case, question(2)), "POST", "/api/look")


class WatchedServer(ExploreServer):
    """Keeps what would have been printed as a traceback."""

    def __init__(self, *arguments: Any) -> None:
        self.errors: list[str] = []
        super().__init__(*arguments)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Note the error of a connection; that a client has gone is none of the server's."""
        error = sys.exc_info()[1]
        if not isinstance(error, ConnectionError):
            self.errors.append(f"{type(error).__name__}: {str(error)[:100]}")


def question(seed: int) -> bytes:
    """A picture of noise at a resolution."""
    rng = random.Random(seed)
    pixels = base64.b64encode(rng.randbytes(28 * 28)).decode()
    return json.dumps({"pixels": pixels, "side": 28, "resolution": rng.randint(8, 28), "rank": 0}).encode()


def together(calls: list[Callable[[], str]]) -> list[str]:
    """What calls give that begin at the same moment, each in a thread."""
    gate, told = threading.Barrier(len(calls)), [""] * len(calls)

    def run(place: int) -> None:
        gate.wait()
        try:
            told[place] = calls[place]()
        except (OSError, BrokenError) as error:
            told[place] = f"{type(error).__name__}: {error}"

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return told
