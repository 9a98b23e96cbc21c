"""Statements that write, sent by ADBC to the built program, with pylance as judge of what they left."""

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee.server import Server


@pytest.fixture
def house(binary, tmp_path):
    """A server over an empty root and a connection to it."""
    (tmp_path / "root").mkdir()
    (tmp_path / "ext").mkdir()
    with (
        Server(binary, tmp_path / "root", external=[tmp_path / "ext"]) as server,
        dbapi.connect(server.uri, autocommit=True) as connection,
    ):
        yield House(tmp_path, connection)
        server.check_alive()
        server.check_panics()


class House:
    def __init__(self, path, connection):
        self.path, self.connection = path, connection

    def run(self, sql, parameters=None):
        with self.connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.rowcount

    def many(self, sql, rows):
        with self.connection.cursor() as cursor:
            cursor.executemany(sql, rows)
            return cursor.rowcount

    def rows(self, sql):
        with self.connection.cursor() as cursor:
            cursor.execute(sql)
            return cursor.fetch_arrow_table().to_pylist()

    def lance(self, name):
        return lance.dataset(self.path / "root" / f"{name}.lance")

    def blobs(self, name, column):
        """The bytes of a column by pylance, in order of the rows."""
        ds = self.lance(name)
        table = ds.scanner(columns=[column], blob_handling="all_binary").to_table()
        return table.column(0).to_pylist()


def test_a_table_of_its_own(house):
    """CREATE TABLE and INSERT with bytes, NULL and nested blobs; pylance reads, appends, compacts."""
    house.run(
        "CREATE TABLE t (id BIGINT NOT NULL, name VARCHAR, img LANCE_BLOB, pages STRUCT(no INT, scan LANCE_BLOB)[]) "
        """WITH (file_version = '2.2', "img.inline" = 16, "pages.scan.dedicated" = 1000)"""
    )
    assert (
        house.run("INSERT INTO t VALUES (1, 'a', 'abc'::BLOB, [{'no': 1, 'scan': 'p'::BLOB}, {'no': 2, 'scan': NULL}])")
        == 1
    )
    assert house.run("INSERT INTO t (id, img) VALUES (?, ?)", (2, b"x" * 100)) == 1
    assert (
        house.many(
            "INSERT INTO t (id, name, img) VALUES (?, ?, ?)", [(3, "c", b"3" * 20), (4, None, None), (5, "e", b"")]
        )
        == 3
    )
    ds = house.lance("t")
    ds.validate()
    assert ds.count_rows() == 5
    assert house.blobs("t", "img") == [b"abc", b"x" * 100, b"3" * 20, None, b""]
    assert not ds.schema.field("id").nullable
    assert house.rows("SELECT id, blob_kind(img) k FROM t ORDER BY id") == [
        {"id": 1, "k": "inline"},
        {"id": 2, "k": "packed"},
        {"id": 3, "k": "packed"},
        {"id": 4, "k": None},
        {"id": 5, "k": "inline"},
    ]
    assert house.rows("SELECT blob_bytes(pages[1].scan) b, pages[2].scan IS NULL n FROM t WHERE id = 1") == [
        {"b": b"p", "n": True}
    ]


def test_tables_from_tables(house):
    """CREATE TABLE AS and INSERT SELECT within and between tables."""
    house.run(
        "CREATE TABLE t AS SELECT i AS id, ('v' || i) AS name, repeat('b', i::INT)::BLOB AS plain FROM range(5) r(i)"
    )
    assert house.lance("t").to_table().to_pylist()[2] == {"id": 2, "name": "v2", "plain": b"bb"}
    house.run("CREATE TABLE b (id BIGINT, img LANCE_BLOB)")
    assert house.run("INSERT INTO b SELECT id, plain FROM t WHERE id > 0") == 4
    assert house.run("INSERT INTO b SELECT id + 10, img FROM b") == 4
    assert house.blobs("b", "img") == [b"b" * n for n in (1, 2, 3, 4, 1, 2, 3, 4)]
    house.run("CREATE TABLE c AS SELECT * FROM b WHERE id > 10 ORDER BY id DESC")
    assert house.blobs("c", "img") == [b"b" * n for n in (4, 3, 2, 1)]
    house.run("CREATE OR REPLACE TABLE c (one INT)")
    assert house.lance("c").version == 2
    assert house.lance("c").schema == pa.schema([pa.field("one", pa.int32())])
    house.run("CREATE TABLE IF NOT EXISTS c (other INT)")
    assert house.lance("c").version == 2
    house.run("DROP TABLE c")
    house.run("DROP TABLE IF EXISTS c")
    with pytest.raises(Exception, match=r"(?i)not.found|does not exist"):
        house.run("SELECT * FROM c")
