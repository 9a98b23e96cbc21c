"""What a document tells its readers to type, run as a reader would.

A code block is run when an HTML comment stands right above it:

    <!-- test: serve -->   a command that starts a server; it runs beside the blocks that follow, until the next one
    <!-- test: run -->     commands, a program or statements, that must end with status 0
    <!-- test: refused --> statements each of which must fail
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

from . import java
from .server import start

BLOCK = re.compile(r"<!-- test: (serve|run|refused|output) -->\n+```(\w*)\n(.*?)\n```", re.DOTALL)
DEFAULT = "127.0.0.1:31337"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]


class Block:
    """A marked block: its kind, its language and its text. What an output block follows is `after`."""

    def __init__(self, kind, language, text, after):
        self.kind, self.language, self.text, self.after = kind, language, text, after

    @property
    def program(self):
        """The language of the program that a block is or belongs to."""
        return self.after.language if self.kind == "output" else self.language


def blocks(path):
    found = []
    for kind, language, text in BLOCK.findall(path.read_text()):
        found.append(
            Block(kind, language, text, next((b for b in reversed(found) if b.kind in ("run", "refused")), None))
        )
    return found


def play(blocks, binary, folder):
    """Runs blocks from the top; the first that fails ends it."""
    shell = Shell(folder, binary)
    try:
        for block in blocks:
            if block.kind == "run":
                shell.run(block.language, block.text)
            else:
                getattr(shell, block.kind)(block.text)
    finally:
        shell.stop()


class Shell:
    """The reader's terminal."""

    def __init__(self, folder, binary):
        path = f"{binary.parent}{os.pathsep}{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.folder = folder
        self.environment = {**os.environ, "PATH": path, "FLIGHTBLOB_LISTEN": "127.0.0.1:0"}
        self.address, self.server, self.printed = DEFAULT, None, ""

    def serve(self, text):
        self.stop()
        command = ["bash", "-c", f"exec {text.strip()}"]
        self.server, uri, self.printed = start(command, cwd=self.folder, env=self.environment)
        self.address = uri.split("://")[1]

    def run(self, language, text):
        default, port = DEFAULT.rpartition(":")[2], self.address.rpartition(":")[2]
        text = text.replace(f"localhost:{default}", self.address).replace(default, port)
        folder, given = self.folder, None
        if language == "sql":
            command, given = self.query, text
        elif language == "python":
            command = [sys.executable, "-c", text]
        elif language == "java":
            command = java.command(self.file("Read.java", text))
        elif language == "go":
            # A reader's module requires arrow-go; here it is this repository's.
            command, folder = ["go", "run", self.file("main.go", text)], REPOSITORY
        else:
            command = ["bash", "-euo", "pipefail", "-c", text]
        done = subprocess.run(
            command, cwd=folder, env=self.environment, input=given, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"status {done.returncode} from\n{text}\n{done.stdout}\n{done.stderr}"
        self.printed = done.stdout

    @property
    def query(self):
        return ["flightblob", "query", "--connect", f"grpc://{self.address}"]

    def refused(self, text):
        self.printed = ""
        for statement in text.rstrip(";").split(";\n"):
            done = subprocess.run(
                [*self.query, statement],
                cwd=self.folder,
                env=self.environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 1, f"status {done.returncode} from\n{statement}\n{done.stdout}\n{done.stderr}"
            self.printed += done.stderr

    def file(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def output(self, text):
        want = [line.rstrip() for line in text.replace("…", "*").splitlines()]
        got = [line.rstrip() for line in self.printed.replace(self.address, DEFAULT).splitlines()]
        assert len(want) == len(got), f"printed {got}, the document says {want}"
        for pattern, line in zip(want, got):
            literal = re.sub(r"[\[\]?]", lambda m: f"[{m.group()}]", pattern)
            assert fnmatch.fnmatchcase(line, literal), f"printed {line!r}, the document says {pattern!r}"

    def stop(self):
        if self.server is not None:
            self.server.send_signal(signal.SIGTERM)
            assert self.server.wait(30) == 0
            self.server = None
