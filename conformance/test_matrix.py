"""Random tables that pylance writes now, read by both: types × nulls × nesting × rows × versions × layouts.

The short run has every pair of values of the dimensions once, the full one every three. Tables and requests follow from
the seed: `--seed=N` replays them.
"""

import contextlib
import random
import shutil

import adbc_driver_flightsql as adbc
import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee import oracle, statements, tables
from referee.client import Client
from referee.compare import difference
from referee.requests import MESSAGE, read, requests
from referee.rpc import Raw
from referee.server import Server

RULES = "DESC-1 DESC-3 MAT-1 MAT-2 MAT-3 MAT-5 SCH-7 NUL-11 RES-8"
FACES = ("bytes", "descriptor", "logical")


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        chosen = tables.covering(3 if metafunc.config.getoption("--full") else 2)
        metafunc.parametrize("case", [pytest.param(c, id=label(c)) for c in chosen])


def label(case):
    rules = RULES if case.group == "blobs" and case.version >= "2.2" else ""
    return f"{case} {rules}".strip()


@pytest.fixture(scope="module")
def maker(tmp_path_factory, seed):
    return tables.Maker(tmp_path_factory.mktemp("matrix") / "root", seed)


@pytest.fixture(scope="module")
def server(binary, maker):
    with Server(binary, maker.root) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    connection = Client(server.uri)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def connections(server):
    """A connection for each face, without transactions, of which the server has none."""
    with contextlib.ExitStack() as opened:
        header = adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "flightblob-blobs"
        yield {
            face: opened.enter_context(dbapi.connect(server.uri, db_kwargs={header: face}, autocommit=True))
            for face in FACES
        }


def test_matrix(server, client, connections, maker, seed, case):
    name = maker.make(case)
    try:
        dataset = lance.dataset(str(maker.root / f"{name}.lance"))
        expected = oracle.Oracle(dataset, {tables.BASE: str(maker.external)})
        faces = FACES if case.group == "blobs" else FACES[:1]
        rng = random.Random(f"{seed} {case}")
        for want in requests(dataset.schema, dataset.count_rows(), faces, rng):
            got = read(client, {"table": name, **want})
            told = difference(expected.answer(**want), got)
            assert told is None, f"{want}: {told}"
        with Raw(server.uri) as raw:
            whole = raw.get({"table": name})
        assert whole.code == "OK"
        assert whole.largest <= MESSAGE, f"a message of {whole.largest} bytes"
        info = client.info(table=name)
        told = difference(expected.answer(), client.from_info(info))
        assert told is None, f"by FlightInfo: {told}"
        for face in faces:
            told = statements.wrong(connections[face], name, expected.answer(blobs=face), rng)
            assert told is None, f"SQL, {face}: {told}"
    finally:
        server.check_alive()
        server.check_panics()
        shutil.rmtree(maker.root / f"{name}.lance", ignore_errors=True)


@pytest.mark.parametrize("version", ["2.1", "2.2", "2.3"])
def test_child_of_a_packed_struct(client, maker, version):
    """pylance answers a child alone, so a client may ask for it. (Its 2.0 reader answers other rows' bytes.)"""
    name = maker.make(tables.Case("encoded", version, 1000, "random", "some", "single"))
    expected = oracle.Oracle(lance.dataset(str(maker.root / f"{name}.lance")))
    got = read(client, {"table": name, "columns": ["packed.b", "id"]})
    assert difference(expected.answer(columns=["packed.b", "id"]), got) is None


def test_rows_out_of_range(client, maker):
    """A position past the end is an error that names it, never a short answer."""
    case = tables.Case("plain", "2.2", 5, "sequential", "none", "single")
    name = maker.make(case)
    for rows in ([5], [0, 1, 99], [2**40]):
        with pytest.raises(pa.ArrowException, match=str(rows[-1])):
            client.get(table=name, rows=rows)
    with pytest.raises(pa.ArrowException):
        client.get(table=name, rows=[-1])
