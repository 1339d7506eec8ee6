"""Serve: C(python -m azure_server --certificate cert.pem), in the folder tests; the port is printed first."""

from __future__ import annotations

import argparse
import contextlib
import http.server
import json
import os
import socket
import socketserver
import ssl
import struct
import threading
import time
import typing as t

from .service import Answer, Item, State


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    state: t.ClassVar[State]
    wbufsize = -1

    def log_message(self, format: str, *args: t.Any) -> None:  # noqa: A002
        """Say nothing."""

    def do_GET(self) -> None:
        self._serve("GET", b"")

    def do_POST(self) -> None:
        self._serve("POST", self._content())

    def _content(self) -> bytes:
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def _serve(self, method: str, body: bytes) -> None:
        if self.path.startswith("/_"):
            self._send((200, {}, json.dumps(_controlled(self.path, body)).encode()), {})
            return
        state = Handler.state
        fault = state.play(f"{method} {self.path}")
        time.sleep(fault.get("silence", 0))  # fault: hangs
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        if fault.get("expire"):
            state.tokens.clear()
        if fault.get("reset"):
            # Closing with data unread and no time to linger sends a reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()
            self.close_connection = True
            return
        if "status" in fault:
            content = json.dumps(fault.get("body", {})).encode()
            self._send((fault["status"], fault.get("headers", {}), content), fault)
            return
        here = f"https://{self.headers['Host']}"
        self._send(state.answer(method, self.path, here, token, fault.get("shift", 0)), fault)

    def _send(self, answer: Answer, fault: Item) -> None:
        status, headers, content = answer
        if "text" in fault:
            content = fault["text"].replace("{here}", f"https://{self.headers['Host']}").encode()
        if fault.get("echo"):
            content = json.dumps({"error": {"code": "Proxy", "message": str(self.headers)}}).encode()
        length = len(content)
        if fault.get("cut"):
            content = content[: len(content) // 2]
            self.close_connection = True
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "x-ms-request-id": "req-1", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()
        for start in range(0, len(content), 1) if fault.get("trickle") else ():
            self.wfile.write(content[start : start + 1])
            self.wfile.flush()
            time.sleep(fault["trickle"])  # fault: is slow
        if not fault.get("trickle"):
            self.wfile.write(content)
        self.wfile.flush()


def _controlled(path: str, body: bytes) -> t.Any:
    """Do what a test asks of the server itself."""
    state = Handler.state
    if path == "/_control":
        Handler.state = State(json.loads(body))
    elif path == "/_setting":
        state.change(**json.loads(body))
    return state.log if path == "/_log" else {}


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """One thread per connection."""

    daemon_threads = True
    request_queue_size = 64


class _TlsHandler(Handler):
    """The handshake happens in the connection's own thread."""

    context: t.ClassVar[ssl.SSLContext]

    def setup(self) -> None:
        self.request = self.context.wrap_socket(self.request, server_side=True)
        super().setup()


def main() -> None:
    """Serve until the standard input ends, which it does when the parent is gone."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--certificate", required=True)
    arguments = parser.parse_args()
    _TlsHandler.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _TlsHandler.context.load_cert_chain(arguments.certificate)
    Handler.state = State({})
    server = Server(("127.0.0.1", 0), _TlsHandler)
    server.handle_error = lambda *_args: None  # type: ignore[method-assign]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    with contextlib.suppress(EOFError):
        input()
    os._exit(0)  # taking ten thousand machines apart takes longer than anybody waits


if __name__ == "__main__":
    main()
