"""Serves one page to browsers of this machine.

What listens on a machine may be reached by any page that a browser on it shows, and by any user of
it. So the address has a part that nobody can guess; a request must name this machine as its host,
which one does not that came by a name whose address was changed; nothing is served but four fixed
paths; and nothing that is sent changes anything.
"""

from __future__ import annotations

import contextlib
import hmac
import http.server
import json
import os
import pathlib
import secrets
import socket
import threading
import weakref
from collections.abc import Callable, Mapping

from .. import InputError

_FOLDER = pathlib.Path(__file__).parent
_ADDRESS = "127.0.0.1"
#: By path behind the secret part.
_FILES = {"": ("live.html", "text/html"), "live.css": ("live.css", "text/css"),
          "live.js": ("live.js", "text/javascript")}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
                               "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                               "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin", "Cache-Control": "no-store",
}
#: Seconds between two looks at whether the server is to end, and that a client may take.
_TICK, _CLIENT_SECONDS = 0.1, 10.0


class Server:
    """Listens from now on, until ``end()`` or the end of the process. ``state``: gives what the
    page shows, as a document for JSON; it is called in other threads."""

    def __init__(self, port: int, state: Callable[[], Mapping]):
        """``port``: 0 for a free one. Raises InputError for a port that is taken."""
        self._secret = secrets.token_urlsafe(16)
        try:
            self._http = _Http((_ADDRESS, port), _handler(self._secret, state))
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise InputError(f"nothing can listen on port {port} of {_ADDRESS}: {why}. Give "
                             f"another port, or 0 for a free one") from None
        self._http.timeout = _TICK
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="lowtide live", daemon=True)
        _LISTENING.add(self._http.socket)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://{_ADDRESS}:{self._http.server_port}/{self._secret}/"

    def end(self) -> None:
        """Nothing listens soon after. May be called anywhere, a second time too."""
        self._is_over.set()

    def join(self) -> None:
        """Returns when nothing listens, after ``end()``."""
        self._thread.join()

    def _serve(self) -> None:
        while not self._is_over.is_set():
            self._http.handle_request()
        self._http.server_close()


class _Http(http.server.ThreadingHTTPServer):
    daemon_threads = True
    #: A page on a port of an earlier one, whose connections the system still remembers. A port on
    #: which something listens is refused in any case.
    allow_reuse_address = True

    def handle_error(self, request, client_address):
        """A client that goes away is no news for the user of a training."""


#: Sockets of this process that listen.
_LISTENING: weakref.WeakSet[socket.socket] = weakref.WeakSet()


def _close_in_child() -> None:
    """A process that is forked, such as one of a data loader, would keep the port open."""
    for listening in list(_LISTENING):
        with contextlib.suppress(OSError):
            listening.close()


os.register_at_fork(after_in_child=_close_in_child)


def _handler(secret: str, state: Callable[[], Mapping]) -> type:
    class Handler(http.server.BaseHTTPRequestHandler):
        timeout = _CLIENT_SECONDS
        server_version, sys_version = "lowtide", ""

        def do_GET(self):
            if not self._names_this_machine():
                self._send(403, "text/plain", b"This page is for the machine that it runs on.\n")
                return
            path = self._path()
            if path == "state":
                content = json.dumps(state(), allow_nan=False).encode()
                self._send(200, "application/json", content)
            elif path in _FILES:
                name, kind = _FILES[path]
                self._send(200, f"{kind}; charset=utf-8", (_FOLDER / name).read_bytes())
            else:
                self._send(404, "text/plain", b"There is nothing here.\n")

        def _names_this_machine(self) -> bool:
            _, port = self.connection.getsockname()
            return self.headers.get_all("Host") in ([f"{_ADDRESS}:{port}"], [f"localhost:{port}"])

        def _path(self) -> str | None:
            """Behind the secret part; None without it."""
            given, slash, path = self.path.removeprefix("/").partition("/")
            known = hmac.compare_digest(given.encode(), secret.encode())
            return path if known and slash else None

        def _send(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            for name, value in (*_HEADERS.items(), ("Content-Type", kind),
                                ("Content-Length", str(len(content)))):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format, *values):
            """What is asked for is no news for the user of a training."""

    return Handler
