"""The server: one page and one question, for this machine alone, and a sentence for everything else."""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fourierscale.cli import main
from fourierscale.cli.explore import find_nets
from fourierscale.lab.explore import ExploreServer
from fourierscale.lab.explore.server import MAX_BODY, WORKERS
from fourierscale.models import WeightsError, create_model
from fourierscale.models.saved import save_model
from tests.lab.explore.conftest import DIGITS

QUESTION = {"pixels": base64.b64encode(bytes(range(196)) * 4).decode(), "side": 28, "resolution": 12}


def ask(
    server: ExploreServer, body: Any = None, path: str = "/api/look", method: str = "POST", **headers: str
) -> tuple[int, Any, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=20)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    sent = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, sent, {"Content-Type": "application/json", **given})
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    kind = answer.headers.get_content_type()
    return answer.status, json.loads(content) if kind == "application/json" else content.decode(), answer.headers


def test_the_page_needs_nothing_from_outside(server: ExploreServer) -> None:
    status, page, headers = ask(server, path="/", method="GET")
    assert status == 200
    assert not re.search(r"(?:src|href)\s*=\s*[\"'](?!data:|#)|url\(|@import|https?://", page)
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"
    for style in ("light-dark(", "max-width: 560px", "focus-visible"):
        assert style in page
    assert server.server_address[0] == "127.0.0.1"


def test_a_question_gets_numbers(server: ExploreServer) -> None:
    status, answer, _ = ask(server, QUESTION)
    assert (status, answer["resolution"], answer["size"]) == (200, 12, 28)
    assert set(answer["nets"]) == {"ours", "cnn"}
    assert ask(server, QUESTION, Host=f"localhost:{server.server_port}")[0] == 200
    assert ask(server, QUESTION, Origin=server.url.rstrip("/"))[0] == 200


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.example"}, {"Host": "127.0.0.1:1"}, {"Origin": "http://evil.example"}]
)
def test_other_sites_are_refused(server: ExploreServer, headers: dict[str, str]) -> None:
    status, answer, _ = ask(server, QUESTION, **headers)
    assert (status, "alone" in answer["error"]) == (403, True)
    assert "alone" in ask(server, path="/", method="GET", **headers)[1]["error"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"{", "expected JSON"),
        (b"[" * 100_000, "expected JSON"),
        ([], "expected an object"),
        ({**QUESTION, "pixels": 3}, "pixels in base64"),
        ({**QUESTION, "pixels": "*"}, "pixels in base64"),
        ({**QUESTION, "side": "28"}, "side to be a whole number, got 28"),
        ({**QUESTION, "resolution": True}, "resolution to be a whole number"),
        ({**QUESTION, "resolution": 29}, "resolution from 8 to 28"),
        ({**QUESTION, "side": -5}, "got -5"),
        ({**QUESTION, "pixels": base64.b64encode(bytes(28 * 28)).decode()}, "the image is blank"),
    ],
)
def test_bad_questions_get_a_sentence(server: ExploreServer, body: Any, sentence: str) -> None:
    status, answer, _ = ask(server, body)
    assert status == 400
    assert sentence in answer["error"]


def test_bad_requests_get_a_sentence_too(server: ExploreServer) -> None:
    too_long = {"Content_Length": str(MAX_BODY + 1)}
    assert ask(server, b"{}", **too_long)[0] == 413
    assert ask(server, b"{}", Content_Length="-1")[0] == 411
    assert ask(server, b"{}", Content_Type="text/plain")[0] == 415
    assert ask(server, QUESTION, path="/api/other")[0] == 404
    assert ask(server, path="/etc/passwd", method="GET")[0] == 404
    assert ask(server, QUESTION)[0] == 200  # and it still answers


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--model", "nothing-here"], "nothing-here is no file or folder"),
        (["--beside", "nothing-here"], "nothing-here is no file or folder"),
        (["--port", "70000"], "65535"),
    ],
)
def test_mistakes_on_the_command_line_give_one_line(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", "--no-browser", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert sentence in line


def test_a_net_is_shown_with_the_small_cnn_where_that_takes_the_same_images(tmp_path: Path) -> None:
    for folder, names in (("digits", "0123456789"), ("letters", "abcdefghij")):
        info = {"model": "scalenet-tiny", "overrides": {"widths": [4, 4], "hidden": 8}}
        info["preprocessing"] = replace(DIGITS, classes=tuple(names)).to_dict()
        save_model(create_model("scalenet-tiny", **info["overrides"]), tmp_path / folder, info)

    def shown(model: str, beside: str | None) -> list[tuple[str, str]]:
        return [(net.key, net.name) for net in find_nets(str(tmp_path / model), beside)]

    assert shown("digits", None) == [("ours", "ours"), ("cnn", "small CNN")]
    assert shown("digits", "none") == shown("letters", None) == [("ours", "ours")]
    assert [net.key for net in find_nets("cnn-small", str(tmp_path / "digits"))] == ["cnn", "tiny"]
    with pytest.raises(WeightsError, match="leave --beside out"):
        shown("letters", "cnn-small")


def test_a_taken_port_gives_one_line(server: ExploreServer, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--no-browser", "--port", str(server.server_port)]) == 2
    assert "choose another with --port" in capsys.readouterr().err


def test_two_hundred_questions_at_once_are_all_answered(server: ExploreServer) -> None:
    count = 200
    start, seen = threading.Barrier(count), []

    def look() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=100)
        start.wait(60)
        connection.request("POST", "/api/look", json.dumps(QUESTION), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        seen.append((answer.status, json.loads(answer.read())["resolution"]))
        if len(seen) % 2:  # the others keep theirs open
            connection.close()
        else:
            kept.append(connection)

    kept: list[http.client.HTTPConnection] = []
    before = threading.active_count()
    threads = [threading.Thread(target=look) for _ in range(count)]
    for thread in threads:
        thread.start()
    assert threading.active_count() <= before + count + WORKERS
    for thread in threads:
        thread.join(100)
    for connection in kept:
        connection.close()
    assert seen == [(200, QUESTION["resolution"])] * count


def test_a_client_that_leaves_is_no_error(server: ExploreServer, capfd: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset, not closed
            connection.sendall(b"POST /api/look HTTP/1.1\r\nContent-Length: 1000\r\n")
    assert ask(server, QUESTION)[0] == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(("digits", "status"), [(5000, 400), (21, 400), (20, 413)])
def test_a_content_length_of_many_digits_is_refused(server, digits, status, capfd) -> None:
    with socket.create_connection(("127.0.0.1", server.server_port), timeout=20) as connection:
        head = f"POST /api/look HTTP/1.1\r\nHost: 127.0.0.1:{server.server_port}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {'9' * digits}\r\n\r\n".encode())
        assert connection.recv(100).startswith(f"HTTP/1.1 {status} ".encode())
    assert capfd.readouterr().err == ""


class SlowViewer:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.asked, self.go_on = threading.Event(), threading.Event()

    def look(self, **question: object) -> dict[str, object]:
        self.asked.set()
        assert self.go_on.wait(60)
        return {"side": question["side"]}


def test_closing_waits_for_the_answer_under_way_and_for_no_silent_connection() -> None:
    viewer = SlowViewer()
    server = ExploreServer(viewer, "page")  # type: ignore[arg-type]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    silent, busy = (http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=60) for _ in range(2))
    silent.request("GET", "/")
    assert silent.getresponse().read() == b"page"  # and its thread waits for more
    busy.request("POST", "/api/look", json.dumps(QUESTION), {"Content-Type": "application/json"})
    assert viewer.asked.wait(60)
    server.shutdown()
    closing = threading.Thread(target=server.server_close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    viewer.go_on.set()
    assert json.loads(busy.getresponse().read()) == {"side": QUESTION["side"]}
    closing.join(20)  # a silent connection is otherwise kept for 10 seconds
    assert not closing.is_alive()
    silent.close()
    busy.close()


START = """
import signal, sys
from fourierscale.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a process in the background ignores it
sys.exit(main(["explore", "--no-browser"]))
"""


def test_the_command_prints_its_address_and_ends_with_ctrl_c() -> None:
    environment = os.environ | {"COLUMNS": "120", "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", START],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", line)
        assert found is not None, line
        connection = http.client.HTTPConnection("127.0.0.1", int(found[1]), timeout=60)
        connection.request("POST", "/api/look", json.dumps(QUESTION), {"Content-Type": "application/json"})
        answer = json.loads(connection.getresponse().read())
        connection.close()
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert set(answer["nets"]) == {"ours", "cnn"}
    assert answer["nets"]["ours"]["error"] < 1e-10
    assert (process.returncode, rest.strip(), errors) == (0, "ended", "")
