"""Options, the server under test, and the list of known failures, which fails the run when it goes stale."""

import os
import pathlib
import random
import subprocess

import pytest
import referee  # noqa: F401  (takes Lance's extension types out of the registry before anything reads a schema)
from referee import golden, pictures
from referee.client import Client
from referee.server import Server

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parent
KNOWN = HERE / "known-failing.txt"


def pytest_addoption(parser):
    parser.addoption("--binary", default=str(REPOSITORY / "bin" / "flightblob"), help="the program under test")
    parser.addoption("--seed", type=int, help="random tables and requests; the short run's own is always the same")
    parser.addoption("--full", action="store_true", help="the whole matrix and the long runs")


def pytest_configure(config):
    if config.getoption("--seed") is None:
        config.option.seed = random.SystemRandom().randrange(1 << 32) if config.getoption("--full") else 1


def pytest_report_header(config):
    return f"flightblob: {config.getoption('--binary')}; seed {config.getoption('--seed')}"


def pytest_terminal_summary(terminalreporter, config):
    if terminalreporter.stats.get("failed"):
        terminalreporter.write_line(f"replay with --seed={config.getoption('--seed')}")


def known_failing():
    """Test names and reasons: one a line, `name<blanks>reason`; # begins a comment."""
    found = {}
    for line in KNOWN.read_text().splitlines():
        line = line.strip()
        if line and not line.startswith("#"):
            name, _, reason = line.partition("  ")
            if not reason.strip():
                raise pytest.UsageError(f"{KNOWN.name}: {name} has no reason (two blanks, then why)")
            found[name] = reason.strip()
    return found


def short_name(item):
    return f"{item.path.name}::{item.name}"


def pytest_collection_modifyitems(config, items):
    """Known failures must fail: one that passes, or that no test bears any more, fails the run."""
    known = known_failing()
    names = {short_name(i) for i in items}
    for item in items:
        if reason := known.get(short_name(item)):
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
    files = {i.path.name for i in items}
    narrowed = config.option.keyword or config.option.markexpr or any("::" in a for a in config.args)
    if not narrowed:
        gone = [n for n in known if n.split("::")[0] in files and n not in names]
        if gone and config.getoption("--full"):
            raise pytest.UsageError(f"{KNOWN.name} names tests that do not exist: {gone}")


@pytest.fixture(scope="session")
def full(pytestconfig):
    return pytestconfig.getoption("--full")


@pytest.fixture(scope="session")
def seed(pytestconfig):
    return pytestconfig.getoption("--seed")


@pytest.fixture(scope="session")
def binary(pytestconfig):
    path = pathlib.Path(pytestconfig.getoption("--binary"))
    if not os.access(path, os.X_OK):
        pytest.fail(f"{path} is not there: run `make build` first", pytrace=False)
    subprocess.run([path, "--help"], check=True, capture_output=True)
    return path


@pytest.fixture(scope="session")
def fixtures_server(binary):
    """One server over all golden fixtures: catalog = fixture."""
    golden.make_link()
    roots = {name: golden.TABLES / name for name in golden.names()}
    with Server(binary, roots, external=[golden.LINK / "tables"]) as server:
        yield server


@pytest.fixture(scope="session")
def fixtures_client(fixtures_server):
    client = Client(fixtures_server.uri)
    yield client
    client.close()


@pytest.fixture(scope="session")
def pictures_server(binary, tmp_path_factory):
    """A server over the table that the tests of clients read. A plain scan of it comes in three endpoints."""
    root = tmp_path_factory.mktemp("pictures")
    pictures.write(root)
    with Server(binary, root, arguments=["--endpoint-rows", "2"]) as server:
        yield server


@pytest.fixture(autouse=True)
def server_survives(request):
    """No request may end the process: whoever used a shared server finds it alive."""
    yield
    for name in {"fixtures_server", "pictures_server"} & set(request.fixturenames):
        server = request.getfixturevalue(name)
        server.check_alive()
        server.check_panics()
