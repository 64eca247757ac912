"""A small HTTP server on loopback that plays a backend on a bad day, and counts what it is asked."""

import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs

OK = (
    b'{"status":"success","data":{"resultType":"matrix","result":'
    b'[{"metric":{"gpu":"0"},"values":[[1700000000,"1"],[1700000015,"2"]]}]}}'
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer; with `cut` the connection closes after that many bytes although more are to come."""

    status: int = 200
    body: bytes = OK
    headers: dict[str, str] = field(default_factory=dict)
    cut: int | None = None
    chunked: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    form: dict[str, list[str]]


@dataclass(slots=True)
class Backend:
    """Where the server is, and what it was asked so far."""

    url: str
    asked: list[Asked] = field(default_factory=list)


@contextmanager
def backend(
    *replies: Reply, by: Callable[[Asked], Reply] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Backend]:
    """Gives `replies` in turn, the last one for ever; or what `by` says to each request."""
    turn = iter(replies)
    last = replies[-1] if replies else Reply()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # or every answer waits 40 ms for an acknowledgement

        def do_POST(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            form = parse_qs(self.rfile.read(length).decode(), keep_blank_values=True)
            asked = Asked(self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, form)
            state.asked.append(asked)
            reply = by(asked) if by else next(turn, last)
            self.send_response(reply.status)
            for name, value in {"Content-Type": "application/json", **reply.headers}.items():
                self.send_header(name, value)
            if reply.chunked:
                self.send_header("Transfer-Encoding", "chunked")
                sent = b"%x\r\n%s\r\n0\r\n\r\n" % (len(reply.body), reply.body)
            else:
                self.send_header("Content-Length", str(len(reply.body)))
                sent = reply.body
            self.end_headers()
            self.wfile.write(sent[: reply.cut])
            self.close_connection = reply.cut is not None

        def do_GET(self) -> None:
            self.do_POST()

        def log_message(self, *args: Any) -> None:
            return None

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: Any) -> None:
            return None  # a client that refuses our certificate hangs up: expected

    server = Server(("127.0.0.1", 0), Handler)
    if tls:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    state = Backend(f"http{'s' if tls else ''}://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
