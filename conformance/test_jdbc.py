"""The JDBC driver, by the checks of java/Clients.java."""

import pathlib
import re
import subprocess

import pytest
from referee import java
from referee.pictures import ENDLESS
from referee.server import settle

PROGRAM = pathlib.Path(__file__).resolve().parent / "java" / "Clients.java"
CHECKS = re.findall(r'^    check\("([^"]+)"', PROGRAM.read_text(), re.MULTILINE)


@pytest.fixture(scope="module")
def printed(pictures_server):
    """What the program printed, by check."""
    if not java.driver():
        pytest.skip(java.MISSING)
    command = java.command(PROGRAM, pictures_server.uri.split("//")[1], ENDLESS)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout.endswith("done\n"), done.stdout + done.stderr[-3000:]
    assert settle(lambda: pictures_server.metric("flightblob_calls_running"), 0, 5) == 0
    return done.stdout.splitlines()


@pytest.mark.timeout(180)
@pytest.mark.parametrize("check", CHECKS)
def test_jdbc(printed, check):
    (line,) = [line for line in printed if re.match(f"(ok|failed) {check}(:|$)", line)]
    assert line.startswith("ok"), line
