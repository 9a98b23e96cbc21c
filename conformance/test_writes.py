"""What clients put, judged by pylance: it opens, validates, reads, extends, deletes from and compacts it."""

import concurrent.futures
import datetime
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

import lance
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from referee import oracle, tables
from referee.client import Client
from referee.compare import difference
from referee.server import Server

RULES = "DESC-1 IN-2 IN-11 SCH-10 NUL-1 NUL-11 WRT-1 WRT-5"
MINIMAL = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
COMPLETE = pa.struct([*MINIMAL, pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
MARK = {"ARROW:extension:name": "lance.blob.v2"}


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        chosen = tables.covering(3 if metafunc.config.getoption("--full") else 2)
        metafunc.parametrize(
            "case",
            [
                pytest.param(c, id=f"{c} {RULES if c.group == 'blobs' else ''}".strip())
                for c in chosen
                if c.version >= "2.2"
            ],
        )


@pytest.fixture(scope="module")
def maker(tmp_path_factory, seed):
    return tables.Maker(tmp_path_factory.mktemp("writes") / "root", seed)


@pytest.fixture(scope="module")
def server(binary, maker):
    with Server(binary, maker.root, external=["*"]) as running:
        yield running


@pytest.fixture(scope="module")
def client(server):
    connection = Client(server.uri)
    yield connection
    connection.close()


def folder(maker, name):
    return maker.root / f"{name}.lance"


@pytest.fixture
def name(maker, request):
    """A table name of the test's own, whose folder goes afterwards."""
    made = "w_" + "".join(c if c.isalnum() else "_" for c in request.node.name)[:60]
    yield made
    shutil.rmtree(folder(maker, made), ignore_errors=True)


def whole(dataset):
    return dataset.to_table(blob_handling="all_binary")


def read_by_pylance(dataset):
    """Scans in the three ways of handling blobs, single rows, a filter, blobs by themselves: all tell the same."""
    table = whole(dataset)
    for handling in ("blobs_descriptions", "all_descriptions"):
        assert dataset.to_table(blob_handling=handling).num_rows == len(table)
    if len(table) == 0:
        return
    rows = sorted({0, len(table) // 2, len(table) - 1})
    assert dataset.take(rows, columns=["id"])["id"].to_pylist() == table["id"].take(rows).to_pylist()
    some = table["id"][0].as_py()
    assert dataset.count_rows(f"id = {some}") == table["id"].to_pylist().count(some)
    for field in dataset.schema:
        if str(field.type).startswith("extension<lance.blob"):
            values = [data for _, data in dataset.read_blobs(field.name, indices=rows, preserve_order=True)]
            assert values == table[field.name].take(rows).to_pylist()


def test_matrix(server, client, maker, name, case):
    """A table that pylance made is read in its logical face, put, and read by pylance: nothing has changed.

    Then pylance reads in all its ways, deletes, updates, appends, compacts and cleans up, and we read what it left."""
    source = maker.make(case)
    try:
        original = lance.dataset(str(folder(maker, source)))
        rows = client.get(table=source, blobs="logical")
        cut = random.Random(str(case)).choice([7, 100, 1000, None])
        options = {"blobs": {"allow_outside_bases": True}, "file_version": case.version}
        answer = client.put(rows, chunk=cut, table=name, mode="create", **options)
        assert answer == {"version": 1, "rows": rows.num_rows}
        ours = lance.dataset(str(folder(maker, name)))
        ours.validate()
        told = difference(oracle.Oracle(original).answer(), oracle.Oracle(ours).answer())
        assert told is None, f"pylance reads what we wrote: {told}"
        told = difference(oracle.Oracle(original).answer(), client.get(table=name))
        assert told is None, f"we read what we wrote: {told}"

        client.put(rows, table=name, mode="append", **options)
        ours = lance.dataset(str(folder(maker, name)))
        ours.validate()
        assert ours.count_rows() == 2 * rows.num_rows
        read_by_pylance(ours)
        if rows.num_rows > 10:
            ours.delete("id % 3 = 1")
        ours.update({"id": "id + 1000000"}, where="id % 5 = 2")
        if case.group != "blobs":
            ours = lance.write_dataset(original.to_table(), ours, mode="append")
        told = difference(oracle.Oracle(ours).answer(), client.get(table=name))
        assert told is None, f"after pylance deleted, updated and appended: {told}"
        ours = lance.dataset(str(folder(maker, name)))
        ours.optimize.compact_files()
        ours.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
        ours.validate()
        read_by_pylance(ours)
        told = difference(oracle.Oracle(ours).answer(), client.get(table=name))
        assert told is None, f"after pylance compacted and cleaned up: {told}"
    finally:
        server.check_alive()
        server.check_panics()
        shutil.rmtree(folder(maker, source), ignore_errors=True)


def blob_rows(values, first=0, kind=MINIMAL, metadata=None):
    """A table of id and blob; a value is bytes, None, or the fields of the struct."""
    rows = [None if v is None else {"data": v} if isinstance(v, bytes) else v for v in values]
    field = pa.field("b", kind, metadata={**MARK, **(metadata or {})})
    return pa.table(
        [pa.array(range(first, first + len(rows)), pa.int64()), pa.array(rows, kind)],
        schema=pa.schema([pa.field("id", pa.int64()), field]),
    )


@pytest.mark.parametrize("managed", [False, True], ids=["sidecars WRT-5", "managed WRT-6 CAP-2 PCK-6"])
def test_placement(client, maker, name, managed):
    """The same input has the same kinds, ids, positions and sizes as with pylance."""
    rng = random.Random(5)
    keys = {
        "lance-encoding:blob-inline-size-threshold": "100",
        "lance-encoding:blob-dedicated-size-threshold": "2000",
        "lance-encoding:blob-pack-file-size-threshold": "5000",
    }
    values = [None, b"", *(rng.randbytes(rng.choice([1, 99, 100, 101, 1999, 2000, 2001, 4000])) for _ in range(60))]
    rows = blob_rows(values, metadata=keys)
    if managed:
        rows = rows.replace_schema_metadata({"lance.blob.managed": "true"})
    client.put(rows, table=name, mode="create")
    other = maker.root / f"{name}_reference.lance"
    try:
        theirs = lance.write_dataset(rows, str(other), data_storage_version="2.2")
        ours = lance.dataset(str(folder(maker, name)))

        def shown(dataset):
            described = dataset.to_table(blob_handling="all_descriptions")["b"].to_pylist()
            for d in described:
                if d and d["kind"] == 0:
                    d["position"] = None  # where in the file is the writer's choice
                if d and d["kind"] == 4:
                    d["blob_uri"] = len(d["blob_uri"])  # a random name of fixed length
            return described

        assert shown(ours) == shown(theirs)
        assert whole(ours)["b"].to_pylist() == values
        assert ours.optimize.compact_files() is not None
        assert whole(lance.dataset(str(folder(maker, name))))["b"].to_pylist() == values
    finally:
        shutil.rmtree(other, ignore_errors=True)


def test_uris(client, maker, name, tmp_path):
    """References are recorded as pylance does, ranges included, ingested ones are copies (EXT-1 EXT-6 EXT-9)."""
    target = tmp_path / "sub dir"
    target.mkdir()
    (target / "é#.bin").write_bytes(bytes(range(200)))
    uri = (target / "é#.bin").as_uri()
    values = [{"uri": uri}, {"uri": uri, "position": 10, "size": 5}, b"own", None]
    rows = blob_rows(values, kind=COMPLETE)
    client.put(rows, table=name, mode="create", blobs={"allow_outside_bases": True})
    want = [bytes(range(200)), bytes(range(10, 15)), b"own", None]
    ours = lance.dataset(str(folder(maker, name)))
    described = ours.to_table(blob_handling="all_descriptions")["b"].to_pylist()
    assert [d and d["kind"] for d in described] == [3, 3, 0, None]
    assert (described[1]["position"], described[1]["size"], described[1]["blob_uri"]) == (10, 5, uri)
    assert whole(ours)["b"].to_pylist() == want
    client.put(rows, table=name, mode="append", blobs={"external": "ingest"})
    shutil.rmtree(target)
    copied = client.get(table=name, rows=[4, 5, 6, 7])
    assert copied["b"].to_pylist() == want


def state(path):
    """Every file of a table with what it holds."""
    return {str(f.relative_to(path)): f.read_bytes() for f in sorted(pathlib.Path(path).rglob("*")) if f.is_file()}


REFUSED = {
    "IN-1 both": (COMPLETE, {"data": b"x", "uri": "file:///x"}, r"row 2.*IN-1"),
    "IN-1 neither": (MINIMAL, {}, r"row 2.*IN-1"),
    "IN-3 empty uri": (MINIMAL, {"uri": ""}, r"row 2"),
    "IN-5 half a range": (COMPLETE, {"uri": "file:///x", "position": 1}, r"row 2.*IN-5"),
    "IN-6 range beside data": (COMPLETE, {"data": b"x", "position": 1, "size": 1}, r"row 2.*IN-6"),
    "IN-7 empty range": (COMPLETE, {"uri": "file:///x", "position": 1, "size": 0}, r"row 2.*IN-7"),
    "IN-8 overflow": (COMPLETE, {"uri": "file:///x", "position": 2**64 - 1, "size": 2}, r"row 2.*IN-8"),
    "EXT-6 outside": (MINIMAL, {"uri": "file:///nowhere/x"}, r"row 2"),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_values_change_nothing(client, maker, name, rule):
    kind, bad, says = REFUSED[rule]
    client.put(blob_rows([b"first"]), table=name, mode="create")
    before = state(folder(maker, name))
    rows = blob_rows([b"good" * 50_000, None, bad], kind=kind)
    with pytest.raises(pa.ArrowInvalid, match=r"(?s)column b.*" + says):
        client.put(rows, table=name, mode="append")
    assert state(folder(maker, name)) == before


def test_refused_columns_change_nothing(client, maker, name):
    client.put(pa.table({"id": [1]}), table=name, mode="create")
    before = state(folder(maker, name))
    for rows, says in (
        (pa.table({"id": ["text"]}), "id"),
        (pa.table({"id": [1], "extra": [2]}), "extra"),
    ):
        with pytest.raises(pa.ArrowInvalid, match=says):
            client.put(rows, table=name, mode="append")
    for command, error in (
        ({"mode": "create"}, pa.ArrowException),
        ({"mode": "nonsense"}, pa.ArrowInvalid),
        ({"mode": "append", "unknown": 1}, pa.ArrowInvalid),
        ({"mode": "append", "target_base": "none"}, pa.ArrowException),
    ):
        with pytest.raises(error):
            client.put(pa.table({"id": [1]}), table=name, **command)
    assert state(folder(maker, name)) == before


def test_modes(client, maker, name):
    rows = pa.table({"id": [1, 2]})
    with pytest.raises(pa.ArrowException, match="does not exist"):
        client.put(rows, table=name, mode="append")
    assert client.put(rows, table=name, mode="create_append") == {"version": 1, "rows": 2}
    assert client.put(rows, table=name, mode="create_append") == {"version": 2, "rows": 2}
    assert client.put(rows.slice(0, 0), table=name, mode="append") == {"version": 2, "rows": 0}
    assert client.put(pa.table({"x": ["new"]}), table=name, mode="overwrite") == {"version": 3, "rows": 1}
    dataset = lance.dataset(str(folder(maker, name)))
    assert dataset.schema.names == ["x"]
    assert lance.dataset(str(folder(maker, name)), version=2).count_rows() == 4


def test_settings_and_bases(client, maker, name, tmp_path):
    """WRT-8 CAP-2 CAP-3 CAP-6 CAP-8 EXT-4: changed settings hold for later writes, and pylance sees them."""
    path = str(folder(maker, name))
    client.put(blob_rows([bytes(5000)]), table=name, mode="create")
    assert client.action("set", table=name, **{"b.inline": 1000}) == [{"table": name, "version": 2}]
    client.put(blob_rows([bytes(5000)], first=1), table=name)
    lance.write_dataset(blob_rows([bytes(5000)], first=2), path, mode="append")
    kinds = lance.dataset(path).to_table(blob_handling="all_descriptions")["b"].to_pylist()
    assert [d["kind"] for d in kinds] == [0, 1, 1]
    client.action("set", table=name, managed=True)
    client.put(blob_rows([bytes(5000)], first=3), table=name)
    dataset = lance.dataset(path)
    assert dataset.to_table(blob_handling="all_descriptions")["b"].to_pylist()[3]["kind"] == 4
    client.action("add_base", table=name, name="cam", path=str(tmp_path))
    (tmp_path / "x.bin").write_bytes(b"outside")
    client.put(blob_rows([{"uri": (tmp_path / "x.bin").as_uri()}], first=4), table=name)
    client.put(blob_rows([bytes(7000)], first=5), table=name, target_base="cam")
    dataset = lance.dataset(path)
    dataset.validate()
    assert whole(dataset)["b"].to_pylist() == [bytes(5000)] * 4 + [b"outside", bytes(7000)]
    described = dataset.to_table(blob_handling="all_descriptions")["b"].to_pylist()
    assert (described[4]["kind"], described[4]["blob_uri"]) == (3, "x.bin")
    assert (described[5]["kind"], list(tmp_path.glob("_blobs/*.blob")) != []) == (5, True)
    assert client.get(table=name)["b"].to_pylist() == whole(dataset)["b"].to_pylist()
    for action, body in (
        ("add_base", {"name": "cam", "path": str(tmp_path / "other")}),
        ("set", {"b.inline": "much"}),
        ("set", {"nothing.inline": 5}),
        ("set", {"b.dedicated": 0}),
        ("set", {"managed": "TRUE!"}),
        ("set", {}),
    ):
        with pytest.raises(pa.ArrowException):
            client.action(action, table=name, **body)
    dataset.optimize.compact_files()
    assert client.get(table=name)["b"].to_pylist() == [bytes(5000)] * 4 + [b"outside", bytes(7000)]


def test_value_in_pieces(client, maker, name):
    """Pieces that do not add up leave the table as it was; good ones are one row."""
    client.put(blob_rows([b"first"]), table=name, mode="create")
    before = state(folder(maker, name))
    schema = pa.schema([("chunk_no", pa.uint64()), ("bytes", pa.large_binary())])

    def put(numbers, size):
        pieces = [
            pa.record_batch(
                [pa.array([n], pa.uint64()), pa.array([bytes([n]) * 100_000], pa.large_binary())], schema=schema
            )
            for n in numbers
        ]
        return client.put(pieces, table=name, mode="value", column="b", row={"id": 7}, size=size)

    for numbers, size in (([0, 2], 200_000), ([0, 1], 300_000), ([0, 1], 150_000), ([1], 100_000)):
        with pytest.raises(pa.ArrowInvalid):
            put(numbers, size)
    assert state(folder(maker, name)) == before
    assert put([0, 1, 2], 300_000) == {"version": 2, "rows": 1}
    rows = whole(lance.dataset(str(folder(maker, name))))
    assert rows["b"][1].as_py() == b"".join(bytes([n]) * 100_000 for n in range(3))


HALF = """
import sys, time
import pyarrow as pa, pyarrow.flight as fl
kind = pa.struct([("data", pa.large_binary()), ("uri", pa.string())])
rows = pa.table({"id": pa.array(range(50), pa.int64()), "b": pa.array([{"data": bytes(100_000)}] * 50, kind)})
writer, _ = fl.connect(sys.argv[1]).do_put(fl.FlightDescriptor.for_path(sys.argv[2]), rows.schema)
writer.write_table(rows)
print("written", flush=True)
time.sleep(60)
"""


def test_broken_streams_leave_nothing(client, maker, name):
    """A client that is killed, and one whose time is up, in the middle of a put."""
    client.put(blob_rows([b"first"]), table=name, mode="create")
    before = state(folder(maker, name))
    half = subprocess.Popen([sys.executable, "-c", HALF, client.uri, name], stdout=subprocess.PIPE, text=True)
    with half:
        assert half.stdout.readline() == "written\n"
        half.kill()
    rows = blob_rows([bytes(100_000)] * 50)
    writer, _ = fl.connect(client.uri).do_put(
        fl.FlightDescriptor.for_path(name), rows.schema, fl.FlightCallOptions(timeout=1)
    )
    writer.write_table(rows)
    time.sleep(1.5)
    with pytest.raises(pa.ArrowException):
        writer.close()
    deadline = time.monotonic() + 20
    while state(folder(maker, name)) != before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert state(folder(maker, name)) == before


def test_many_writers(server, maker, name):
    """Parallel appends by us and by pylance: nothing lost, nothing twice, none failed."""
    writers, each = 6, 8

    def ours(w):
        connection = Client(server.uri)
        for i in range(each):
            connection.put(pa.table({"id": [w * 1000 + i]}), table=name, mode="create_append")
        connection.close()

    def theirs(w):
        path = str(folder(maker, name))
        for i in range(each):
            lance.write_dataset(pa.table({"id": [w * 1000 + i]}), path, mode="append")

    ours(99)
    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        for f in [pool.submit(ours if w % 3 else theirs, w) for w in range(writers)]:
            f.result()
    got = sorted(lance.dataset(str(folder(maker, name))).to_table()["id"].to_pylist())
    assert got == sorted(w * 1000 + i for w in [*range(writers), 99] for i in range(each))


def test_kill(binary, tmp_path):
    """kill -9 during writes: every version opens, what was acknowledged is there, the rest is absent or whole."""
    rounds, rows_each = 6, 20
    acknowledged, tried = [], []
    for round_ in range(rounds):
        server = Server(binary, tmp_path)
        client = Client(server.uri)
        killer = threading.Timer(0.2 + 0.1 * round_, lambda s=server: os.kill(s.process.pid, signal.SIGKILL))
        killer.start()
        try:
            for i in range(1000):
                number = round_ * 1000 + i
                tried.append(number)
                values = [bytes([number % 251]) * 3_000] * rows_each
                rows = blob_rows(
                    values, first=number * rows_each, metadata={"lance-encoding:blob-inline-size-threshold": "1000"}
                )
                client.put(rows, table="t", mode="create_append")
                acknowledged.append(number)
        except (pa.ArrowException, OSError):
            assert killer.finished.is_set(), "a put failed before the server was killed"
        killer.join()
        server.process.wait()
        client.close()
    dataset = lance.dataset(str(tmp_path / "t.lance"))
    for version in dataset.versions():
        lance.dataset(str(tmp_path / "t.lance"), version=version["version"]).validate()
    table = whole(dataset)
    count = {}
    for id_, value in zip(table["id"].to_pylist(), table["b"].to_pylist(), strict=True):
        number = id_ // rows_each
        assert value == bytes([number % 251]) * 3_000
        count[number] = count.get(number, 0) + 1
    assert set(count.values()) == {rows_each}, "half a write"
    assert set(acknowledged) <= set(count) <= set(tried)
    dataset.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    assert whole(lance.dataset(str(tmp_path / "t.lance"))).num_rows == table.num_rows
