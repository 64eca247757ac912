"""The service's own HTTP door: `/-/healthy`, `/-/ready`, `/metrics`. It only reads, and nobody waits for it."""

import socketserver
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import AF_INET, AF_INET6

from anomaly.errors import ConfigError

Answer = tuple[int, str, bytes]
"""Status, content type, body."""

NotReady = Callable[[], str | None]
"""Why the service is not ready; None when it is."""

Exposition = Callable[[str], tuple[bytes, str]]
"""(body, content type) of the metrics for an `Accept` header."""

_TEXT = "text/plain; charset=utf-8"


class StatusServer:
    """Serves in a thread of its own from `start` until `close`. Raises ConfigError where it cannot listen."""

    def __init__(self, host: str, port: int, not_ready: NotReady, exposition: Exposition) -> None:
        def answer(path: str, accept: str) -> Answer:
            if path == "/-/healthy":
                return 200, _TEXT, b"healthy\n"
            if path == "/-/ready":
                reason = not_ready()
                return (200, _TEXT, b"ready\n") if reason is None else (503, _TEXT, f"not ready: {reason}\n".encode())
            if path == "/metrics":
                body, kind = exposition(accept)
                return 200, kind, body
            return 404, _TEXT, b"there are /metrics, /-/healthy and /-/ready\n"

        try:
            self._server = _Server(host, port, answer)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise ConfigError(
                f"web.listen: cannot listen on {host}:{port}: {why}",
                "stop whoever uses that port, or give web.listen another one (port 0: any free one)",
            ) from error
        self._thread = threading.Thread(target=self._serve, name="status", daemon=True)

    @property
    def address(self) -> str:
        """Host and port as they are, for a log line."""
        host, port = self._server.server_address[:2]
        return f"[{host!s}]:{port}" if ":" in str(host) else f"{host!s}:{port}"

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop listening; requests under way are left to end."""
        if self._thread.ident is not None:
            self._server.shutdown()
            self._thread.join(timeout=2)
        self._server.server_close()

    def _serve(self) -> None:
        self._server.serve_forever(poll_interval=0.1)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, answer: Callable[[str, str], Answer]) -> None:
        self.answer = answer
        self.address_family = AF_INET6 if ":" in host else AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # http.server asks the name service who we are, which may take its time and which nobody needs.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = 10
    """A client that says nothing for so long is left."""

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        self._say(*self.server.answer(path, self.headers.get("Accept", "")))

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.close_connection = True  # a body may follow that nobody reads
        self._say(405, _TEXT, b"only GET and HEAD\n")

    def _say(self, status: int, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if status == 405:
            self.send_header("Allow", "GET, HEAD")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def version_string(self) -> str:
        return "anomaly"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class calls it so
        pass
