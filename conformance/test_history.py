"""Tags, branches and restores, made and used by us and by pylance in turn."""

import datetime
import json
import os
import subprocess
import time

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from adbc_driver_flightsql import ConnectionOptions, DatabaseOptions
from referee.house import Statements
from referee.rpc import field
from referee.server import Server

BLOB = lance.blob_field("img")
SCHEMA = pa.schema([("id", pa.int64()), BLOB])
HEADER = DatabaseOptions.RPC_CALL_HEADER_PREFIX.value
OPTION = ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value


def picture(n):
    """Small ones lie in the data file, middling ones in packed sidecars, large ones in objects of their own."""
    return bytes([n % 251]) * (n % 50, 90_000, 5_000_000 if n % 9 == 2 else 70_000)[n % 3]


def pictures(numbers):
    return pa.table([pa.array(numbers, pa.int64()), lance.blob_array([picture(n) for n in numbers])], schema=SCHEMA)


def by_pylance(ds):
    """The ids that pylance sees, once all values are the right ones."""
    table = ds.scanner(columns=["id", "img"], blob_handling="all_binary").to_table()
    for n, value in zip(table["id"].to_pylist(), table["img"].to_pylist(), strict=True):
        assert value == picture(n), n
    return sorted(table["id"].to_pylist())


class House(Statements):
    def __init__(self, root, server, connection):
        super().__init__(connection)
        self.root, self.server = root, server

    def path(self, name="t"):
        return self.root / f"{name}.lance"

    def lance(self, branch=None, version=None, name="t"):
        ds = lance.dataset(self.path(name))
        return ds.checkout_version((branch, version)) if branch or version else ds

    def call(self, sql):
        """The row that a CALL answers."""
        (row,) = self.table(f"CALL {sql}").to_pylist()
        return row

    def ours(self, where="t"):
        """The ids that we see, once all values are the right ones."""
        table = self.table(f"SELECT id, img FROM {where}")
        for n, value in zip(table["id"].to_pylist(), table["img"].to_pylist(), strict=True):
            assert value == picture(n), n
        return sorted(table["id"].to_pylist())

    def on(self, branch):
        """A connection whose statements work on a branch."""
        connection = dbapi.connect(self.server.uri, autocommit=True, db_kwargs={HEADER + "flightblob-branch": branch})
        return House(self.root, self.server, connection)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


@pytest.fixture
def house(binary, tmp_path):
    root = tmp_path / "root"
    root.mkdir()
    with Server(binary, root, external=[tmp_path]) as server, dbapi.connect(server.uri, autocommit=True) as connection:
        yield House(root, server, connection)
        server.check_alive()
        server.check_panics()


def written(house, managed=False, **options):
    """Ten rows in version 1, ten more in version 2."""
    metadata = {"lance.blob.managed": "true"} if managed else None
    for start in (0, 10):
        rows = pictures(range(start, start + 10)).replace_schema_metadata(metadata)
        lance.write_dataset(
            rows, house.path(), mode="append" if start else "create", data_storage_version="2.2", **options
        )


def test_tags(house):
    written(house)
    row = house.call("create_tag('t', 'ours', version := 1)")
    assert (row["table"], row["version"], row["tag"], row["branch"]) == ("lance.main.t", 1, "ours", "main")
    tags = house.lance().tags.list()
    assert tags["ours"]["version"] == 1
    assert tags["ours"]["manifest_size"] > 0
    assert by_pylance(house.lance().checkout_version("ours")) == list(range(10))
    with pytest.raises(adbc_driver_manager.Error, match="ours") as told:
        house.call("create_tag('t', 'ours')")
    assert "replace" in str(told.value)
    assert house.call("create_tag('t', 'ours', replace := true)")["version"] == 2
    assert house.lance().tags.get_version("ours") == 2
    house.lance().tags.update("ours", 1)
    house.lance().tags.create("theirs", 2)
    assert house.ours("lance_scan('t', tag := 'ours')") == list(range(10))
    assert [r["name"] for r in house.table("FROM lance_tags('t')").to_pylist()] == ["ours", "theirs"]
    # A cleanup of pylance keeps what our tag names.
    lance.write_dataset(pictures([50]), house.path(), mode="overwrite")
    house.lance().tags.delete("theirs")
    house.lance().cleanup_old_versions(
        older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=False
    )
    assert [v["version"] for v in house.lance().versions()] == [1, 3]
    assert house.ours("lance_scan('t', tag := 'ours')") == list(range(10))
    assert house.call("delete_tag('t', 'ours')")["version"] == 1
    assert house.lance().tags.list() == {}
    with pytest.raises(adbc_driver_manager.Error, match="it has none"):
        house.call("delete_tag('t', 'ours')")
    for name in ("a/b", "../x", ".x", "x.lock", "a b", ""):
        with pytest.raises(adbc_driver_manager.Error):
            house.call(f"create_tag('t', '{name}')")
        with pytest.raises(Exception):  # noqa: B017 - pylance has no class for it
            house.lance().tags.create(name, 1)


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_branches(house, managed, stable):
    """CLN-6: each writes to the other's branches, in every way; main stays as it was."""
    written(house, managed, enable_stable_row_ids=stable)
    row = house.call("create_branch('t', 'ours', version := 1)")
    assert (row["version"], row["branch"], row["parent_branch"], row["parent_version"]) == (1, "ours", "main", 1)
    house.lance().create_branch("theirs", 2)
    for branch, first in (("ours", 10), ("theirs", 20)):
        with house.on(branch) as b:
            assert b.ours() == list(range(first))
            assert b.run("INSERT INTO t VALUES (30, ?), (31, NULL)", [picture(30)]) == 2
            assert b.run("DELETE FROM t WHERE img IS NULL") == 1
            assert b.run("UPDATE t SET id = id + 0 WHERE id < 3") == 3
            lance.write_dataset(pictures([40, 41]), f"{house.path()}/tree/{branch}", mode="append")
            assert b.ours() == [*range(first), 30, 40, 41]
            house.lance(branch).delete("id = 40")
            b.run("MERGE INTO t USING (SELECT 41 AS id) AS s ON t.id = s.id WHEN MATCHED THEN DELETE")
            assert b.ours() == [*range(first), 30] == by_pylance(house.lance(branch))
            house.lance(branch).optimize.compact_files()
            assert b.ours() == [*range(first), 30]
            assert b.run("INSERT INTO t SELECT 42, img FROM t WHERE id = 0") == 1
            b.run("DELETE FROM t WHERE id = 42")
    # Branches of branches.
    house.call("create_branch('t', 'ours/below', \"from\" := 'theirs')")
    house.lance().create_branch("theirs-below", ("ours", None))
    for branch, rows in (("ours/below", [*range(20), 30]), ("theirs-below", [*range(10), 30])):
        with house.on(branch) as b:
            assert b.ours() == rows == by_pylance(house.lance(branch))
            assert b.run("INSERT INTO t VALUES (60, ?)", [picture(60)]) == 1
            assert by_pylance(house.lance(branch)) == [*rows, 60] == b.ours()
    parents = {r["name"]: r["parent_branch"] for r in house.table("FROM lance_branches('t')").to_pylist()}
    assert parents == {"ours": "main", "theirs": "main", "ours/below": "theirs", "theirs-below": "ours"}
    assert house.ours() == list(range(20)) == by_pylance(house.lance())
    assert house.lance().version == 2
    # Neither deletes what is needed.
    for branch in ("ours", "theirs"):
        with pytest.raises(adbc_driver_manager.Error, match="below"):
            house.call(f"delete_branch('t', '{branch}')")
        with pytest.raises(Exception):  # noqa: B017
            house.lance().branches.delete(branch)
    house.lance().branches.delete("ours/below")
    assert house.call("delete_branch('t', 'theirs-below')")["version"] == 2
    house.lance().branches.delete("ours")
    house.call("delete_branch('t', 'theirs')")
    assert house.lance().branches.list() == {}
    assert not [f for _, _, files in os.walk(house.path() / "tree") for f in files]
    assert by_pylance(house.lance()) == list(range(20))


def test_columns_of_a_branch(house):
    """What changes columns and settings, and what creates, on a branch."""
    written(house)
    house.call("create_branch('t', 'b')")
    with house.on("b") as b:
        b.run("ALTER TABLE t ADD COLUMN note VARCHAR")
        b.run("UPDATE t SET note = 'n' || id")
        b.run("ALTER TABLE t RENAME COLUMN note TO remark")
        b.run('ALTER TABLE t SET ("img.inline" = 10)')
        assert b.table("SELECT remark FROM t WHERE id = 3").to_pylist() == [{"remark": "n3"}]
        assert b.table("DESCRIBE t").num_rows == 3
        assert [r["version"] for r in b.table("FROM lance_versions('t')").to_pylist()] == [2, 3, 4, 5, 6]
        assert b.table("SELECT count(*) AS n FROM t AT (VERSION => 3)").to_pylist() == [{"n": 20}]
        assert len(b.table("SELECT * FROM lance_scan('t', branch := 'main')").schema) == 2
        assert house.lance("b").schema.names == ["id", "img", "remark"]
        assert house.lance().schema.names == ["id", "img"]
        assert b.run("TRUNCATE t") == 20
        b.run("CREATE OR REPLACE TABLE t AS SELECT 1 AS x")
        assert house.lance("b").to_table().to_pylist() == [{"x": 1}]
        with pytest.raises(adbc_driver_manager.Error, match="main"):
            b.run("CREATE TABLE fresh (id BIGINT)")
        with pytest.raises(adbc_driver_manager.Error, match="delete_branch"):
            b.run("DROP TABLE t")
    house.run("CREATE TABLE other (id BIGINT)")
    with house.on("b") as b, pytest.raises(adbc_driver_manager.Error, match='no branch "b"; it has none'):
        b.table("SELECT * FROM other")
    with house.on("c") as c, pytest.raises(adbc_driver_manager.Error, match='no branch "c"; it has b'):
        c.run("INSERT INTO t (id) VALUES (1)")
    assert house.ours() == list(range(20))


def test_versions_and_nulls_of_calls(house):
    """NULL is as if it was not given, bound too; there is no version 0, which is not the newest one."""
    written(house)
    for sql in ("create_tag('t', 'zero', version := 0)", "create_branch('t', 'zero', version := 0)",
                "restore('t', version := 0)", "clone('t', 'zero', version := 0)"):  # fmt: skip
        with pytest.raises(adbc_driver_manager.Error, match="whole number from 1 on"):
            house.call(sql)
    with house.connection.cursor() as cursor:
        cursor.execute("CALL create_tag(?, ?, version := ?)", ("t", "x", None))
        assert cursor.fetch_arrow_table()["version"].to_pylist() == [2]
        cursor.execute("CALL restore('t', version := ?, tag := ?)", (1, None))
        assert cursor.fetch_arrow_table()["restored"].to_pylist() == [1]
        with pytest.raises(adbc_driver_manager.Error, match="tag is missing"):
            cursor.execute("CALL create_tag('t', ?)", (None,))
            cursor.fetch_arrow_table()
    with pytest.raises(adbc_driver_manager.Error, match=r"table lance\.main\.t exists already"):
        house.call("clone('t', 'T')")


def test_branch_of_the_sessions_branch(house):
    """A branch begins where the session works, unless it is said from where."""
    written(house)
    house.call("create_branch('t', 'b', version := 1)")
    with house.on("b") as b:
        b.run("DELETE FROM t WHERE id < 5")
        assert b.call("create_branch('t', 'c')")["parent_branch"] == "b"
        assert b.call("create_branch('t', 'd', \"from\" := 'main')")["parent_branch"] == "main"
    assert house.ours("lance_scan('t', branch := 'c')") == list(range(5, 10))
    assert house.ours("lance_scan('t', branch := 'd')") == list(range(20))


def test_branches_by_flight(house):
    """Paths, JSON, tickets, ingest, the session option and the command, on a branch."""
    written(house)
    house.call("create_branch('t', 'b', version := 1)")
    client = flight.connect(house.server.uri)
    on_b = flight.FlightCallOptions(headers=[(b"flightblob-branch", b"b")])

    def put(descriptor, numbers, options=None):
        schema = pa.schema([("id", pa.int64()), pa.field("img", pa.large_binary())])
        rows = pa.table(
            [pa.array(numbers, pa.int64()), pa.array([picture(n) for n in numbers], pa.large_binary())], schema=schema
        )
        writer, metadata = client.do_put(descriptor, schema, options)
        writer.write_table(rows)
        writer.done_writing()
        answer = metadata.read()
        writer.close()  # raises what went wrong
        return json.loads(answer.to_pybytes())["version"]

    command = flight.FlightDescriptor.for_command
    assert put(command(json.dumps({"table": "t", "branch": "b"})), [100]) == 2
    assert put(flight.FlightDescriptor.for_path("t"), [101], on_b) == 3
    assert put(command(json.dumps({"table": "t", "mode": "merge", "on": ["id"]})), [101, 102], on_b) == 4
    assert put(command(json.dumps({"table": "t", "branch": "main"})), [103], on_b) == 3
    with pytest.raises(pa.ArrowKeyError, match='no branch "c"; it has b'):
        put(command(json.dumps({"table": "t", "branch": "c"})), [1])
    with pytest.raises(pa.ArrowKeyError, match="create it on main"):
        put(flight.FlightDescriptor.for_path("fresh"), [1], on_b)
    assert by_pylance(house.lance("b")) == [*range(10), 100, 101, 102]
    info = client.get_flight_info(flight.FlightDescriptor.for_path("t"), on_b)
    (endpoint,) = info.endpoints
    # A ticket that was given out stays on its branch, whatever the reader's session says.
    for options in (on_b, flight.FlightCallOptions(headers=[(b"flightblob-branch", b"other")]), None):
        assert client.do_get(endpoint.ticket, options).read_all().num_rows == 13 == info.total_records
    assert client.do_get(flight.Ticket(b'{"table":"t","version":2}'), on_b).read_all().num_rows == 11
    main = client.get_flight_info(flight.FlightDescriptor.for_path("t")).endpoints[0].ticket
    assert client.do_get(main, on_b).read_all().num_rows == 21
    for body in ({"table": "t", "tag": "x"}, {"table": "t", "version": 4}, {"table": "t", "branch": "main"}):
        action = "create_tag" if "tag" in body else "restore" if "version" in body else "describe"
        (result,) = client.do_action(flight.Action(action, json.dumps(body).encode()), on_b)
        answer = json.loads(result.body.to_pybytes())
        assert answer.get("branch", "main") == ("main" if action == "describe" else "b"), answer
    assert house.lance().tags.list()["x"]["branch"] == "b"
    # The session option, and ingest in that session.
    options = {OPTION + "branch": "b"}
    with dbapi.connect(house.server.uri, autocommit=True, conn_kwargs=options) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("t", pa.table({"id": pa.array([104], pa.int64())}), mode="append")
            cursor.execute("SELECT count(*) FROM t")
            assert cursor.fetchone() == (14,)
    assert house.table("SELECT count(*) AS n FROM t").to_pylist() == [{"n": 21}]
    client.close()


def test_restore(house):
    """CAP-3: what is restored by one is read by the other; ids never come back, marks stay."""
    written(house)
    house.run("ALTER TABLE t SET (managed = true)")
    house.run("DELETE FROM t WHERE id < 15")
    row = house.call("restore('t', version := 1)")
    assert (row["version"], row["restored"], row["branch"]) == (5, 1, "main")
    assert by_pylance(house.lance()) == list(range(10)) == house.ours()
    house.run("INSERT INTO t VALUES (70, ?)", [picture(70)])
    assert [f.fragment_id for f in house.lance().get_fragments()] == [0, 2]
    house.lance(version=2).restore()
    assert house.ours() == list(range(20))
    house.call("create_tag('t', 'x', version := 6)")
    assert house.call("restore('t', tag := 'x')")["restored"] == 6
    assert by_pylance(house.lance()) == [*range(10), 70]
    # On branches.
    house.call("create_branch('t', 'b', version := 2)")
    house.lance("b").delete("id > 3")
    assert house.call("restore('t', version := 2, branch := 'b')")["version"] == 4
    assert by_pylance(house.lance("b")) == list(range(20))
    house.lance("b", 3).restore()
    with house.on("b") as b:
        assert b.ours() == list(range(4))
        assert b.call("restore('t', version := 4)")["branch"] == "b"
        assert b.ours() == list(range(20)) == by_pylance(house.lance("b"))
    with pytest.raises(adbc_driver_manager.Error, match="of main"):
        house.call("restore('t', tag := 'x', branch := 'b')")
    with pytest.raises(adbc_driver_manager.Error, match="only one"):
        house.call("restore('t')")
    assert house.lance().tags.list().keys() == {"x"}


def test_commands(binary, house):
    written(house)

    def run(*arguments):
        command = [str(binary), *arguments[:-1], "--root", str(house.root), "--json", *arguments[-1]]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        return json.loads(done.stdout)

    assert run("tag", "create", ["t", "x", "--version", "1"])["version"] == 1
    assert run("branch", "create", ["t", "b", "--tag", "x"])["parent_version"] == 1

    def query(where, sql):
        command = [str(binary), "query", *where, "--branch", "b", "--format", "json", sql]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    query(["--root", str(house.root)], "DELETE FROM t WHERE id > 4")
    assert by_pylance(house.lance("b")) == list(range(5))
    assert json.loads(query(["--connect", house.server.uri], "SELECT count(*) AS n FROM t")) == {"n": 5}
    assert run("restore", ["t", "--version", "1", "--branch", "b"])["version"] == 3
    assert by_pylance(house.lance("b")) == list(range(10))
    assert [t["name"] for t in run("tag", "list", ["t"])] == ["x"]
    assert [b["name"] for b in run("branch", "list", ["t"])] == ["b"]
    run("branch", "delete", ["t", "b"])
    run("tag", "delete", ["t", "x"])
    assert house.lance().branches.list() == {} == house.lance().tags.list()


class Reader:
    """A client that asks for leases."""

    def __init__(self, uri, seconds):
        self.flight = flight.connect(uri)
        self.options = flight.FlightCallOptions(headers=[(b"flightblob-lease", str(seconds).encode())])

    def info(self, descriptor):
        return self.flight.get_flight_info(descriptor, self.options)

    def action(self, name, message):
        """The answer to an action of the protocol about an info or an endpoint."""
        (result,) = self.flight.do_action(flight.Action(name, field(1, message.serialize())))
        return result.body.to_pybytes()

    def cancel(self, info):
        return self.action("CancelFlightInfo", info)

    def renew(self, endpoint):
        return flight.FlightEndpoint.deserialize(self.action("RenewFlightEndpoint", endpoint))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.flight.close()


def leases(house):
    """The leases that pylance sees, by version."""
    found = {n: t for n, t in house.lance().tags.list().items() if n.startswith("flightblob-lease-")}
    for tag in found.values():
        assert tag["metadata"]["flightblob.lease.until"].endswith("Z")
    return sorted(t["version"] for t in found.values())


def comes(what, seconds=10):
    """Waits until something is so."""
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(0.05)


def cleaned(house, tagged=False):
    """What pylance's most thorough cleanup leaves of the versions."""
    house.lance().cleanup_old_versions(
        older_than=datetime.timedelta(0), delete_unverified=True, error_if_tagged_old_versions=tagged
    )
    return [v["version"] for v in house.lance().versions()]


def statement(sql):
    """The descriptor of a Flight SQL query."""
    kind = b"type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery"
    return flight.FlightDescriptor.for_command(field(1, kind) + field(2, field(1, sql.encode())))


DESCRIPTORS = {
    "path": flight.FlightDescriptor.for_path("t"),
    "json": flight.FlightDescriptor.for_command(b'{"table":"t"}'),
    "scan": statement("SELECT * FROM t"),
    "query": statement("SELECT id, img FROM t WHERE id >= 0"),
    "version": statement("SELECT id, img FROM lance_scan('t', version := 2) WHERE id >= 0"),
}


@pytest.mark.parametrize("kind", DESCRIPTORS, ids=lambda kind: f"GC-4 {kind}")
def test_leases_of_tickets(house, kind):
    """What a client was given tickets to stays, until it says so, whoever cleans up."""
    written(house)
    with Reader(house.server.uri, 600) as reader:
        info = reader.info(DESCRIPTORS[kind])
        assert leases(house) == [2]
        assert [r["version"] for r in house.table("FROM lance_tags('t')").to_pylist()] == [2]
        (endpoint,) = info.endpoints
        ends = endpoint.expiration_time
        now = datetime.datetime.now(datetime.UTC)
        assert datetime.timedelta(seconds=580) < ends.as_py() - now <= datetime.timedelta(seconds=600)
        lance.write_dataset(pictures([50]), house.path(), mode="overwrite")
        with pytest.raises(OSError, match="flightblob-lease"):
            cleaned(house, tagged=True)
        assert cleaned(house) == [2, 3]
        for _ in range(2):
            rows = reader.flight.do_get(endpoint.ticket).read_all()
            assert rows["id"].to_pylist() == list(range(20))
            assert rows["img"].to_pylist() == [picture(n) for n in range(20)]
        time.sleep(0.01)
        renewed = reader.renew(endpoint)
        assert renewed.ticket == endpoint.ticket
        assert renewed.expiration_time.as_py() > ends.as_py()
        assert leases(house) == [2]
        assert reader.cancel(info) == b"\x08\x01"  # cancelled
        comes(lambda: leases(house) == [])
        assert cleaned(house) == [3]
        with pytest.raises(Exception, match=r"version 2|no such statement|cancelled"):
            reader.flight.do_get(endpoint.ticket).read_all()
        with pytest.raises(Exception, match=r"has ended|expired|does not exist|cancelled"):
            reader.renew(endpoint)


def test_lease_of_a_slow_download(house):
    """A stream that runs keeps its version beyond the end of the lease, while pylance cleans up beside it."""
    for start in range(0, 40, 10):
        rows = pictures(range(start, start + 10))
        lance.write_dataset(rows, house.path(), mode="append" if start else "create", data_storage_version="2.2")
    blobs = lance.blob_array([bytes([n]) * 5_000_000 for n in range(12)])
    big = pa.table([pa.array(range(100, 112), pa.int64()), blobs], schema=SCHEMA)
    big = lance.write_dataset(big, house.path(), mode="append", max_rows_per_file=2)
    assert big.version == 5
    with Reader(house.server.uri, 1) as reader:
        (endpoint,) = reader.info(flight.FlightDescriptor.for_path("t")).endpoints
        stream = reader.flight.do_get(endpoint.ticket)
        ids = stream.read_chunk().data["id"].to_pylist()
        lance.write_dataset(pictures([50]), house.path(), mode="overwrite")
        for _ in range(8):  # well beyond one second
            time.sleep(0.4)
            assert cleaned(house) == [5, 6]
        for chunk in stream:
            for n, value in zip(chunk.data["id"].to_pylist(), chunk.data["img"].to_pylist(), strict=True):
                assert value == (bytes([n - 100]) * 5_000_000 if n >= 100 else picture(n))
                ids.append(n)
        assert ids == [*range(40), *range(100, 112)]
        comes(lambda: leases(house) == [])
    assert cleaned(house) == [6]


def test_leases_end(binary, tmp_path):
    """By time, with the stream that asked for one, with the server; and where they cannot be had."""
    root = tmp_path / "root"
    root.mkdir()
    with Server(binary, root) as server, dbapi.connect(server.uri, autocommit=True) as connection:
        house = House(root, server, connection)
        written(house)
        with Reader(server.uri, 1) as reader:
            (endpoint,) = reader.info(DESCRIPTORS["path"]).endpoints
            assert leases(house) == [2]
            comes(lambda: leases(house) == [])
            with pytest.raises(Exception, match="has ended"):
                reader.renew(endpoint)
            # The version is there, so that the ticket is still good.
            assert reader.flight.do_get(endpoint.ticket).read_all().num_rows == 20
        with Reader(server.uri, 600) as reader:
            # A ticket written by hand is leased as long as its stream runs.
            stream = reader.flight.do_get(flight.Ticket(b'{"table":"t","version":1,"lease":60}'))
            assert stream.read_all().num_rows == 10
            comes(lambda: leases(house) == [])
            assert len(list(reader.flight.list_flights(options=reader.options))) == 1
            assert leases(house) == []
            for seconds in (b"soon", b"-1", b"1.5"):
                options = flight.FlightCallOptions(headers=[(b"flightblob-lease", seconds)])
                with pytest.raises(pa.ArrowInvalid, match="flightblob-lease"):
                    reader.flight.get_flight_info(DESCRIPTORS["path"], options)
            for _ in range(100):
                info = reader.info(DESCRIPTORS["json"])
            with pytest.raises(pa.ArrowInvalid, match="100 and 1000 are allowed"):
                reader.info(DESCRIPTORS["json"])
            reader.cancel(info)
            comes(lambda: len(leases(house)) == 99)
        options = {OPTION + "lease": "60"}
        with dbapi.connect(server.uri, autocommit=True, conn_kwargs=options) as other, other.cursor() as cursor:
            cursor.execute("SELECT * FROM lance_scan('t', version := 1)")
            assert cursor.fetch_arrow_table().num_rows == 10
            assert leases(house)[0] == 1
    assert leases(house) == []
    with Server(binary, root, arguments=["--read-only"]) as server, Reader(server.uri, 60) as reader:
        with pytest.raises(Exception, match="writes nothing"):
            reader.info(DESCRIPTORS["path"])


def test_external_values_of_a_branch(house, tmp_path):
    """Objects outside, and in a registered base, that rows of main and of a branch refer to."""
    outside, base = tmp_path / "outside.bin", tmp_path / "base"
    outside.write_bytes(picture(1) + picture(2))
    base.mkdir()
    (base / "one.bin").write_bytes(picture(4))
    house.run("CREATE TABLE t (id BIGINT, img LANCE_BLOB)")
    house.run(f"INSERT INTO t SELECT 1, blob_ref('{outside.as_uri()}', 0, {len(picture(1))})")
    house.call(f"add_base('t', '{base}')")
    house.call("create_branch('t', 'b')")
    with house.on("b") as b:
        assert (
            b.run(f"INSERT INTO t SELECT 2, blob_ref('{outside.as_uri()}', {len(picture(1))}, {len(picture(2))})") == 1
        )
        assert b.run(f"INSERT INTO t SELECT 4, blob_ref('{(base / 'one.bin').as_uri()}')") == 1
        assert b.call(f"add_base('t', '{tmp_path}', name := 'all')")["version"] == 6
        assert b.ours() == [1, 2, 4] == by_pylance(house.lance("b"))
        kinds = b.table("SELECT blob_kind(img) AS kind FROM t").to_pylist()
        assert {k["kind"] for k in kinds} == {"external"}
    assert house.ours() == [1] == by_pylance(house.lance())
    house.call("create_branch('t', 'c', \"from\" := 'b')")
    house.lance("c").delete("id = 1")
    with house.on("c") as c:
        assert c.ours() == [2, 4] == by_pylance(house.lance("c"))
