"""What README.md tells its readers to type works.

A code block is run when an HTML comment stands right above it:

    <!-- test: serve -->   a command that starts a server; it runs beside the blocks that follow, until the next one
    <!-- test: run -->     commands, or a Python program, that must end with status 0
    <!-- test: output -->  what the block before it must have printed, line by line; … stands for anything

Blocks run from the top in one scratch folder, with bin/ first in PATH and the address of the running server in place of
the default one.
"""

import fnmatch
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading

import pytest
from referee.server import READY

README = pathlib.Path(__file__).resolve().parent.parent / "README.md"
BLOCK = re.compile(r"<!-- test: (serve|run|output) -->\n+```(\w*)\n(.*?)\n```", re.DOTALL)
DEFAULT = "127.0.0.1:31337"


class Shell:
    """The reader's terminal."""

    def __init__(self, folder, binary):
        path = f"{binary.parent}{os.pathsep}{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.folder = folder
        self.environment = {**os.environ, "PATH": path, "FLIGHTBLOB_LISTEN": "127.0.0.1:0"}
        self.address, self.server, self.printed = DEFAULT, None, ""

    def serve(self, text):
        self.stop()
        self.server = subprocess.Popen(
            ["bash", "-c", f"exec {text.strip()}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        timer = threading.Timer(60, self.server.kill)
        timer.start()
        lines = []
        for line in self.server.stdout:
            lines.append(line)
            if found := READY.match(line):
                self.address = found.group(1).split("://")[1]
                break
        timer.cancel()
        self.printed = "".join(lines)
        assert self.address != DEFAULT, f"no ready line from {text!r}: {self.printed}"
        threading.Thread(target=self.server.stdout.read, daemon=True).start()

    def run(self, language, text):
        text = text.replace(DEFAULT, self.address).replace("localhost:31337", self.address)
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, f"status {done.returncode} from\n{text}\n{done.stdout}\n{done.stderr}"
        self.printed = done.stdout

    def output(self, text):
        want = [line.rstrip() for line in text.replace("…", "*").splitlines()]
        got = [line.rstrip() for line in self.printed.replace(self.address, DEFAULT).splitlines()]
        assert len(want) == len(got), f"printed {got}, README says {want}"
        for pattern, line in zip(want, got):
            literal = re.sub(r"[\[\]?]", lambda m: f"[{m.group()}]", pattern)
            assert fnmatch.fnmatchcase(line, literal), f"printed {line!r}, README says {pattern!r}"

    def stop(self):
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            assert self.server.wait(30) == 0
            self.server = None


@pytest.mark.timeout(600)
def test_readme(binary, tmp_path):
    blocks = BLOCK.findall(README.read_text())
    assert any(kind == "run" for kind, _, _ in blocks), "README.md marks no block to run"
    shell = Shell(tmp_path, binary)
    try:
        for kind, language, text in blocks:
            if kind == "run":
                shell.run(language, text)
            else:
                getattr(shell, kind)(text)
    finally:
        shell.stop()
