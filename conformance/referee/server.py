"""Starting the built binary, watching it and stopping it, the way an operator would."""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request

READY = re.compile(r"^flightblob listening on (grpc(?:\+tls)?://[^\s]+:(\d+))\s*$")
START_SECONDS = 60


class Died(RuntimeError):
    """The server ended although nobody stopped it."""


def start(command, **options):
    """Starts a program that serves. Answers the process, its URI, and what it printed up to its ready line.

    Whatever else it says on stdout is read, so that the pipe never fills.
    """
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options)
    timer = threading.Timer(START_SECONDS, process.kill)
    timer.start()
    printed = ""
    try:
        for line in process.stdout:
            printed += line
            if found := READY.match(line):
                threading.Thread(target=process.stdout.read, daemon=True).start()
                return process, found.group(1), printed
    finally:
        timer.cancel()
    process.kill()
    process.wait()
    raise Died(f"no ready line from {' '.join(map(str, command))[:500]}: {printed[-2000:]!r}")


class Server:
    """A running `flightblob serve` on a free loopback port.

    `roots` is a path, or a mapping of catalog names to paths. Stopping is part of every test that starts one: it must
    end with status 0 on SIGTERM.
    """

    def __init__(self, binary, roots, external=(), arguments=(), environment=None):
        self.metrics = f"127.0.0.1:{free_port()}"
        command = [str(binary), "serve", "--listen", "127.0.0.1:0", "--metrics", self.metrics]
        if isinstance(roots, dict):
            for name, path in roots.items():
                command += ["--root", f"{name}={path}"]
        else:
            command += ["--root", str(roots)]
        for prefix in external:
            command += ["--external", str(prefix)]
        command += [str(a) for a in arguments]
        handle, name = tempfile.mkstemp(prefix="flightblob-", suffix=".log")
        self.log = pathlib.Path(name)
        try:
            self.process, self.uri, _ = start(
                command, stderr=handle, env={**os.environ, **(environment or {})}, cwd=tempfile.gettempdir()
            )
        except Died as died:
            raise Died(f"{died}; stderr: {self.stderr()[-2000:]}") from None
        finally:
            os.close(handle)

    @property
    def pid(self):
        return self.process.pid

    def stderr(self):
        return self.log.read_text(errors="replace")

    def check_alive(self):
        if self.process.poll() is not None:
            raise Died(f"the server ended with status {self.process.returncode}; stderr: {self.stderr()[-4000:]}")

    def metric(self, name):
        """One number from the server's metrics, summed over its labels."""
        with urllib.request.urlopen(f"http://{self.metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        lines = [line for line in text.splitlines() if line.startswith((name + " ", name + "{"))]
        if not lines:
            raise KeyError(f"no metric {name}")
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def check_panics(self):
        """A panic that was caught is a fault all the same."""
        if self.metric("flightblob_panics_total"):
            raise Died(f"panics were caught; stderr: {self.stderr()[:6000]}")

    def stop(self):
        """SIGTERM, and the exit status. The log goes when all went well."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
                raise Died("the server did not end within 30 s of SIGTERM") from None
        if self.process.returncode == 0:
            self.log.unlink()
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                self.check_panics()
        finally:
            status = self.stop()
        if kind is None and status != 0:
            raise Died(f"exit status {status} after SIGTERM; stderr: {self.stderr()[-4000:]}")


def free_port():
    """A port that was free a moment ago."""
    import socket

    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


def memory(pid):
    """Bytes: resident now, resident without mapped files, and the highest resident so far."""
    found = {"VmRSS": 0, "RssAnon": 0, "VmHWM": 0}
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in found:
            found[name] = int(value.split()[0]) * 1024
    return found


def settle(read, limit, seconds=15):
    """Reads a figure until it is at most `limit`, or time is up; answers the last reading."""
    end = time.monotonic() + seconds
    value = read()
    while value > limit and time.monotonic() < end:
        time.sleep(0.25)
        value = read()
    return value
