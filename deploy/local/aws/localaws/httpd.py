"""A small threaded HTTP server with keep-alive: one thread a connection, loopback only, no access
log. (The development server that moto uses closes every connection after one answer.)"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

LOOPBACK = ("127.0.0.1", "::1", "localhost")


@dataclass
class Request:
    method: str
    target: str  # path and query as sent
    headers: dict[str, str]  # names in lower case
    body: bytes

    @property
    def path(self) -> str:
        return self.target.split("?", 1)[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]


@dataclass
class Response:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


App = Callable[[Request], Response]


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512
    allow_reuse_address = True

    def __init__(self, host: str, port: int, app: App):
        if host not in LOOPBACK:
            raise SystemExit(f"refusing to listen on {host}: this server has no authentication, use 127.0.0.1")
        self.app = app
        super().__init__((host, port), Handler)

    def get_request(self):  # type: ignore[no-untyped-def]
        connection, address = super().get_request()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection, address

    def handle_error(self, request, client_address) -> None:  # type: ignore[no-untyped-def]
        """A client that hangs up is no news; what an app raises is answered in `Handler`."""

    def start(self) -> "Server":
        threading.Thread(target=self.serve_forever, name="http", daemon=True).start()
        return self


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def handle_any(self) -> None:
        headers = {k.lower(): v for k, v in self.headers.items()}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunked()
        else:
            body = self.rfile.read(int(headers.get("content-length") or 0))
        response = self.server.app(Request(self.command, self.path, headers, body))
        lines = [f"HTTP/1.1 {response.status} {self.responses.get(response.status, ('',))[0]}"]
        skipped = ("content-length", "connection", "transfer-encoding")
        lines += [f"{k}: {v}" for k, v in response.headers if k.lower() not in skipped]
        lines.append(f"Content-Length: {len(response.body)}")
        data = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
        if self.command != "HEAD":
            data += response.body
        self.wfile.write(data)
        if headers.get("connection", "").lower() == "close":
            self.close_connection = True

    def _chunked(self) -> bytes:
        parts = []
        while size := int(self.rfile.readline().split(b";")[0].strip() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_PATCH = do_OPTIONS = handle_any

    def log_message(self, format: str, *args) -> None:  # noqa: A002
        pass
