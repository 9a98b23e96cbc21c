"""RETURNING: what statements that write answer, and that they are carried out once."""

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from google.protobuf import any_pb2
from referee.house import opened


@pytest.fixture
def house(binary, tmp_path):
    with opened(binary, tmp_path, external=[tmp_path]) as house:
        yield house


SIZES = {0: 3, 1: 100_000, 2: 0, 3: None}


def picture(n):
    size = SIZES[n % 4]
    return None if size is None else bytes([n % 251]) * size


def make(house, n, stable=False, managed=False):
    table = pa.table(
        [pa.array(range(n)), pa.array([f"n{i}" for i in range(n)]), lance.blob_array([picture(i) for i in range(n)])],
        schema=pa.schema(
            [("id", pa.int64()), ("name", pa.string()), lance.blob_field("img")],
            metadata={"lance.blob.managed": "true"} if managed else None,
        ),
    )
    return lance.write_dataset(
        table, house.path("t"), max_rows_per_file=16, enable_stable_row_ids=stable, data_storage_version="2.2"
    )


def contents(house):
    house.lance("t").validate()
    table = house.lance("t").scanner(columns=["id", "name", "img"], blob_handling="all_binary").to_table()
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_rows_of_changes(house, stable, managed):
    """Rows as the new version has them, or as the old one had those that are gone, in every kind of statement."""
    ds = make(house, 40, stable, managed)
    ds.create_scalar_index("id", "BTREE")
    ds.delete("id % 8 = 5")
    want = {n: (f"n{n}", picture(n)) for n in range(40) if n % 8 != 5}

    rows = house.rows("INSERT INTO t VALUES (100, 'a', 'first'::BLOB), (101, 'b', NULL) RETURNING *")
    assert rows == [(100, "a", b"first"), (101, "b", None)]
    want |= {100: ("a", b"first"), 101: ("b", None)}

    rows = house.rows(
        "INSERT INTO t AS k (id, img) SELECT id + 200, img FROM t WHERE id < 4 RETURNING k.id, blob_size(img), img"
    )
    assert sorted(rows) == [(200 + n, SIZES[n], picture(n)) for n in range(4)]
    want |= {200 + n: (None, picture(n)) for n in range(4)}

    rows = house.rows(
        "UPDATE t SET name = upper(name) || '!' WHERE id BETWEEN 2 AND 17 RETURNING id, t.name, img IS NULL"
    )
    changed = [n for n in range(2, 18) if n in want]
    assert sorted(rows) == [(n, f"N{n}!", picture(n) is None) for n in changed]
    want |= {n: (f"N{n}!", picture(n)) for n in changed}

    rows = house.rows(
        "UPDATE t SET img = s.b::BLOB FROM (VALUES (1, 'x'), (3, 'y')) s(i, b) WHERE t.id = s.i RETURNING id, img"
    )
    assert sorted(rows) == [(1, b"x"), (3, b"y")]
    want |= {1: (want[1][0], b"x"), 3: (want[3][0], b"y")}

    rows = house.rows(
        "DELETE FROM t USING (VALUES (1), (1), (3), (999)) s(i) WHERE t.id >= 30 AND id < 36 OR id = s.i "
        "RETURNING id, name, img"
    )
    gone = [1, 3, *(n for n in range(30, 36) if n in want)]
    assert sorted(rows) == [(n, *want.pop(n)) for n in gone]

    rows = house.rows(
        "MERGE INTO t USING (VALUES (2, 'two'), (300, 'new'), (100, NULL)) s(id, v) ON t.id = s.id "
        "WHEN MATCHED AND s.v IS NULL THEN DELETE WHEN MATCHED THEN UPDATE SET img = s.v::BLOB "
        "WHEN NOT MATCHED THEN INSERT (id, img) VALUES (s.id, s.v::BLOB) "
        "RETURNING merge_action, lower(merge_action) AS low, *"
    )
    assert rows == [
        ("UPDATE", "update", 2, "N2!", b"two"),
        ("INSERT", "insert", 300, None, b"new"),
        ("DELETE", "delete", 100, "a", b"first"),
    ]
    want |= {2: ("N2!", b"two"), 300: (None, b"new")}
    del want[100]
    assert house.rows("UPDATE t SET name = 'x' WHERE id = -1 RETURNING id") == []
    assert contents(house) == sorted((n, *v) for n, v in want.items())
    assert not list(house.path("t").glob("_refs/tags/*")), "what was kept for a while is let go"
    assert sorted(house.rows("DELETE FROM t RETURNING id")) == [(n,) for n in sorted(want)]
    assert contents(house) == []


def test_deleted_rows_are_kept_while_they_are_read(house):
    """The version that deleted rows are read from is tagged until their reader is done, also where a cleanup follows
    each commit."""
    make(house, 1600)
    ds = house.lance("t")
    ds.update_config({"lance.auto_cleanup.interval": "1", "lance.auto_cleanup.older_than": "0s"})
    version = ds.version
    with fl.connect(house.server.uri) as client:
        info = client.get_flight_info(command("DELETE FROM t WHERE id < 1500 RETURNING id, img"))
        reader = client.do_get(info.endpoints[0].ticket)
        batches = [reader.read_chunk().data]
        house.run("INSERT INTO t (id) VALUES (2000)")
        house.run("INSERT INTO t (id) VALUES (2001)")
        assert [t["version"] for t in house.lance("t").tags.list().values()] == [version]
        batches += [chunk.data for chunk in reader]
    rows = pa.Table.from_batches(batches).to_pydict()
    assert dict(zip(rows["id"], rows["img"], strict=True)) == {n: picture(n) for n in range(1500)}
    assert house.lance("t").tags.list() == {}
    house.run("INSERT INTO t (id) VALUES (2002)")
    assert version not in [v["version"] for v in house.lance("t").versions()]


def test_faces(house):
    """Blobs come in the face that is asked for, as those of queries do."""
    make(house, 3)
    options = {"adbc.flight.sql.rpc.call_header.flightblob-blobs": "descriptor"}
    with house.connection.cursor(adbc_stmt_kwargs=options) as cursor:
        cursor.execute("UPDATE t SET name = 'x' RETURNING id, img")
        table = cursor.fetch_arrow_table()
    assert table.schema.field("img").type.names == ["kind", "position", "size", "blob_id", "blob_uri"]
    assert [v["size"] for v in table.column("img").to_pylist()] == [3, 100_000, 0]


def test_parameters(house):
    """Rows of parameters are one statement and one version; executemany counts."""
    make(house, 10)
    version = house.lance("t").version
    assert house.rows("INSERT INTO t (id, img) VALUES (?, ?) RETURNING id, blob_size(img)", (50, b"abc")) == [(50, 3)]
    with house.connection.cursor() as cursor:
        batch = pa.table({"id": [60, 61, 62], "img": pa.array([b"a", None, b"ccc"], pa.large_binary())})
        cursor.adbc_statement.set_sql_query("INSERT INTO t (id, img) VALUES (?, ?) RETURNING id, img")
        cursor.adbc_statement.prepare()
        cursor.adbc_statement.bind_stream(batch.to_reader())
        handle, _ = cursor.adbc_statement.execute_query()
        read = pa.RecordBatchReader._import_from_c(handle.address).read_all()
    assert read.to_pydict() == {"id": [60, 61, 62], "img": [b"a", None, b"ccc"]}
    assert house.many("DELETE FROM t WHERE id = ? RETURNING id", [(60,), (61,), (999,)]) == 2
    assert house.lance("t").version == version + 3


def command(sql):
    """The command of a statement, as drivers send it."""
    text = sql.encode()
    body = b"\x0a" + _varint(len(text)) + text
    packed = any_pb2.Any(type_url="type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery", value=body)
    return fl.FlightDescriptor.for_command(packed.SerializeToString())


def _varint(n):
    out = b""
    while n > 0x7F:
        out, n = out + bytes([n & 0x7F | 0x80]), n >> 7
    return out + bytes([n])


def test_once(house):
    """A ticket carries its statement out when it is first read, and never again; unread it changes nothing."""
    make(house, 4)
    with fl.connect(house.server.uri) as client:
        info = client.get_flight_info(command("INSERT INTO t (id) VALUES (70) RETURNING id"))
        assert info.schema.names == ["id"]
        assert house.lance("t").count_rows() == 4
        ticket = info.endpoints[0].ticket
        assert client.do_get(ticket).read_all().to_pydict() == {"id": [70]}
        with pytest.raises((pa.ArrowException, fl.FlightError), match="carried out"):
            client.do_get(ticket).read_all()
    assert house.rows("SELECT count(*) FROM t WHERE id = 70") == [(1,)]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("INSERT INTO t (id) VALUES (1) RETURNING count(*)", "aggregates"),
        ("INSERT INTO t (id) VALUES (1) RETURNING row_number() OVER ()", "windows"),
        ("INSERT INTO t (id) VALUES (1) RETURNING (SELECT max(id) FROM t)", "queries"),
        ("INSERT INTO t (id) VALUES (1) RETURNING unnest([1, 2])", "expressions over one row"),
        ("INSERT INTO t (id) VALUES (1) RETURNING nothing", "nothing"),
        ("INSERT INTO t (id) VALUES (1) RETURNING", "the list behind RETURNING"),
        ("UPDATE t SET id = 1 FROM (SELECT 1 AS x) s RETURNING s.x", '"s"'),
        ("DELETE FROM t RETURNING img || 'x'", "blob_bytes"),
        ("DELETE FROM t WHERE id = ? RETURNING ?", "parameters have no place in RETURNING"),
    ],
)
def test_refused_lists(house, sql, text):
    make(house, 4)
    with pytest.raises(dbapi.Error, match=text):
        house.rows(sql, (1, 1) if "?" in sql else None)
    assert house.lance("t").version == 1
