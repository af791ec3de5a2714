"""A real server in a process of its own, and what its tests share."""

import contextlib
import http.client
import json
import re
import signal
import struct
import subprocess
import sys
import threading


class Server:
    """`memory-maze serve` on a free port."""

    def __init__(self, out, *options, environment=None):
        self.process = subprocess.Popen(
            [sys.executable, "-u", "-m", "memory_maze", "serve", "--out", out, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        self.log = []
        for line in self.process.stdout:
            self.log.append(line)
            if found := re.match(r"open (http://[^:]+:(\d+)/(?:\?token=(\S+))?)", line):
                self.url, self.port, self.token = found[1], int(found[2]), found[3]
                break
        else:
            self.process.wait(30)
            self.process.stdout.close()
            raise RuntimeError("".join(self.log))
        self._reader = threading.Thread(target=lambda: self.log.extend(self.process.stdout), daemon=True)
        self._reader.start()

    @property
    def origin(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self, kill=False):
        self.process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
        self.process.wait(30)
        self._reader.join(10)
        self.process.stdout.close()

    def ask(self, path, body=None, cookie=None, method=None, headers=None):
        """(status, parsed JSON or text, cookie of the player)."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"Cookie": cookie} if cookie else {}
        if body is not None:
            sent |= {"Content-Type": "application/json", "Origin": self.origin}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, data, sent | (headers or {}))
        answer = connection.getresponse()
        text = answer.read().decode(errors="replace")
        got = (answer.getheader("Set-Cookie") or "").partition(";")[0]
        connection.close()
        with contextlib.suppress(ValueError):
            text = json.loads(text)
        return answer.status, text, got

    def new_player(self, name="Anna"):
        """The cookie of a new player."""
        status, _, cookie = self.ask("/api/me", {"name": name})
        assert status == 200, status
        return cookie

    def begin(self, cookie, task="7x7", practice=False):
        status, told, _ = self.ask("/api/episodes", {"task": task, "practice": practice}, cookie)
        assert status == 201, told
        return told

    def socket(self, cookie, **settings):
        """A connection to the player's game."""
        from websockets.sync.client import connect

        return connect(
            f"ws://127.0.0.1:{self.port}/api/play",
            origin=self.origin,
            additional_headers={"Cookie": cookie},
            max_size=None,
            **settings,
        )


def unpack(message):
    """Header and picture of a message."""
    (length,) = struct.unpack(">I", message[:4])
    return json.loads(message[4 : 4 + length]), message[4 + length :]


@contextlib.contextmanager
def serving(out, *options, **settings):
    server = Server(out, *options, **settings)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()


def open_page(browser, **settings):
    """A new page of a new visitor; what it complains about is in `page.complaints`."""
    page = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | settings).new_page()
    page.complaints = []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda line: page.complaints.append(line.text) if line.type == "error" else None)
    return page
