"""A proxy with TLS and a prefix before another server of this machine, as a hub of notebooks has one."""
import http.client
import http.server
import pathlib
import shutil
import ssl
import threading
from typing import Any


class Proxy:
    """Passes https://NAME:port/prefix/… on to 127.0.0.1. keeps_prefix, keeps_host: are they sent on as they came?"""

    def __init__(self, to: int, prefix: str, certificate: pathlib.Path, keeps_prefix: bool = True, keeps_host: bool = True, tells: bool = True) -> None:
        class Passing(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *arguments: Any) -> None:
                pass

            def do_GET(self) -> None:
                if not self.path.startswith(prefix + "/"):
                    self.send_error(404)
                    return
                connection = http.client.HTTPConnection("127.0.0.1", to)
                connection.putrequest(self.command, self.path if keeps_prefix else self.path.removeprefix(prefix), skip_host=True, skip_accept_encoding=True)
                for name, value in self.headers.items():
                    if name.lower() not in ("connection", "host"):
                        connection.putheader(name, value)
                connection.putheader("Host", self.headers["Host"] if keeps_host else f"127.0.0.1:{to}")
                if tells:
                    connection.putheader("X-Forwarded-Proto", "https,http")
                length = int(self.headers.get("Content-Length", 0))
                connection.endheaders(self.rfile.read(length) if length else None)
                answer = connection.getresponse()
                self.send_response_only(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() != "connection":
                        self.send_header(name, value)
                self.send_header("Connection", "close")
                self.close_connection = True
                self.end_headers()
                try:
                    shutil.copyfileobj(answer, self.wfile, 1)
                except OSError:  # the browser has left
                    answer.close()
                connection.close()

            do_POST = do_GET

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Passing)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
