"""Statements that write, sent by ADBC to the built program, with pylance as judge of what they left."""

import re

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


@pytest.fixture
def outside(house):
    """The URI of a file of ten bytes below --external, with a blank in its name."""
    file = house.path / "ext" / "a b.bin"
    file.write_bytes(b"0123456789")
    return file.as_uri()


def test_references(house, outside):
    """blob_ref: whole objects and ranges, NULL, nested, by parameters and in queries; pylance reads them.

    IN-4 IN-9 EXT-1 EXT-6 EXT-8"""
    house.run("CREATE TABLE t (id INT, img LANCE_BLOB, pages STRUCT(no INT, scan LANCE_BLOB)[])")
    rows = f"(1, blob_ref('{outside}')), (2, blob_ref('{outside}', 2, 3)), (3, NULL), (4, 'bytes'::BLOB)"
    assert house.run(f"INSERT INTO t (id, img) VALUES {rows}, (5, blob_ref(NULL))") == 5
    house.run("INSERT INTO t (id, img) VALUES (?, blob_ref(?))", (6, outside))
    house.run("INSERT INTO t (id, img) VALUES (?, blob_ref(?, ?, ?))", (7, outside, 1, 4))
    house.run(
        "INSERT INTO t (id, img) SELECT i, "
        f"CASE WHEN i % 2 = 0 THEN blob_ref('{outside}', i - 8, 2) END FROM range(8, 11) r(i)"
    )
    house.run(
        f"INSERT INTO t VALUES (11, NULL, [{{'no': 1, 'scan': blob_ref('{outside}', 9, 1)}}, "
        "{'no': 2, 'scan': NULL}]), "
        "(12, NULL, [{'no': 3, 'scan': 'x'::BLOB}])"
    )
    gone = outside.replace("a%20b", "gone")
    house.run(f"INSERT INTO t (id, img) VALUES (13, blob_ref('{gone}'))")  # it need not exist
    house.lance("t").validate()
    got = house.lance("t").scanner(filter="id < 13", blob_handling="all_binary").to_table().sort_by("id")
    assert got["img"].to_pylist() == [
        b"0123456789", b"234", None, b"bytes", None, b"0123456789", b"1234", b"01", None, b"23", None, None
    ]  # fmt: skip
    assert got["pages"].to_pylist()[10:] == [
        [{"no": 1, "scan": b"9"}, {"no": 2, "scan": None}],
        [{"no": 3, "scan": b"x"}],
    ]
    with pytest.raises(Exception, match="gone"):
        house.lance("t").scanner(filter="id = 13", blob_handling="all_binary").to_table()
    assert house.rows("SELECT id, blob_uri(img) u, blob_size(img) s FROM t WHERE id IN (1, 2) ORDER BY id") == [
        {"id": 1, "u": outside, "s": 10},
        {"id": 2, "u": outside, "s": 3},
    ]


def test_references_below_bases(house, outside):
    """The longest registered base that is no dataset root takes a reference, by whole components and decoded.

    EXT-2 EXT-3 EXT-4 EXT-5 EXT-7 RES-8"""
    house.run("CREATE TABLE t (id INT, img LANCE_BLOB)")
    root = house.path / "ext"
    for folder, flag in [("b", "false"), ("b/deep", "false"), ("b/deep/er", "true")]:
        (root / folder).mkdir()
        (root / folder / "é x.bin").write_bytes(folder.encode())
        house.rows(f"CALL add_base('t', '{root / folder}', name := '{folder}', dataset_root := {flag})")
    (root / "b2").mkdir()
    (root / "b2" / "é x.bin").write_bytes(b"b2")
    files = [root / f / "é x.bin" for f in ("b", "b/deep", "b/deep/er", "b2")]
    for i, file in enumerate(files):
        house.run("INSERT INTO t VALUES (?, blob_ref(?))", (i, file.as_uri()))
    house.run("INSERT INTO t VALUES (4, blob_ref(?))", (str(files[1]),))  # a plain path below a base
    d = house.rows("SELECT blob_descriptor(img) d FROM t ORDER BY id")
    assert [(r["d"]["blob_id"] > 0, r["d"]["blob_uri"]) for r in d] == [
        (True, "é x.bin"),
        (True, "é x.bin"),
        (True, "er/é x.bin"),
        (False, files[3].as_uri()),
        (True, "é x.bin"),
    ]
    assert d[1]["d"]["blob_id"] == d[2]["d"]["blob_id"] != d[0]["d"]["blob_id"]
    assert house.blobs("t", "img") == [b"b", b"b/deep", b"b/deep/er", b"b2", b"b/deep"]
    house.lance("t").optimize.compact_files()
    assert house.blobs("t", "img") == [b"b", b"b/deep", b"b/deep/er", b"b2", b"b/deep"]
    assert [r["b"] for r in house.rows("SELECT blob_bytes(img) b FROM t ORDER BY id")] == house.blobs("t", "img")


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("INSERT INTO t VALUES (1, blob_ref('{u}')), (2, blob_ref(''))", r"column img, row 2 of VALUES: uri is \"\""),
        ("INSERT INTO t VALUES (1, blob_ref('{u}', 1, 0))", r"row 1 of VALUES: range \[position 1, size 0\].*IN-7"),
        ("INSERT INTO t VALUES (1, blob_ref('{u}', 1, NULL))", r"position is 1 and size is null.*IN-5"),
        ("INSERT INTO t VALUES (1, blob_ref('{u}', 18446744073709551615, 2))", r"beyond 2\^64-1.*IN-8"),
        ("INSERT INTO t VALUES (1, blob_ref('{u}', -1, 2))", r"the position of .* is -1; it is a whole number from 0"),
        ("INSERT INTO t VALUES (1, blob_ref('file:///etc/passwd'))", r"row 1 of VALUES: .*--external /etc"),
        ("INSERT INTO t SELECT 1, blob_ref('/etc/passwd')", r"column img, row 0 of the query: path .*EXT-7"),
        ("INSERT INTO t VALUES (1, blob_ref('a/b'))", r"relative.*EXT-7"),
        ("INSERT INTO t VALUES (1, blob_ref('ftp://a/b'))", "unknown scheme"),
        ("INSERT INTO t (img) VALUES (blob_bytes(blob_ref('{u}')))", "is no stored value and no bytes yet"),
        ("INSERT INTO t (id) VALUES (blob_ref('{u}'))", "column id of type INTEGER takes no blob values"),
        ("INSERT INTO t SELECT 1, CASE WHEN true THEN 'x'::BLOB ELSE blob_ref('{u}') END", "do not mix"),
        ("CREATE TABLE u AS SELECT blob_ref('{u}') AS b", "stands in INSERT, UPDATE and MERGE only"),
        ("SELECT blob_ref('{u}')", "stands in INSERT, UPDATE and MERGE only"),
        ("SELECT blob_size(blob_ref('{u}')) FROM t", "stands in INSERT, UPDATE and MERGE only"),
    ],
)
def test_refused_references(house, outside, sql, told):
    """References that cannot be, with column, row and value; nothing is written (ERR-1, ERR-2, ERR-3, ERR-7)."""
    house.run("CREATE TABLE t (id INT, img LANCE_BLOB)")
    with pytest.raises(Exception, match=re.compile(told, re.DOTALL)):
        house.run(sql.format(u=outside))
    assert house.lance("t").version == 1
    assert not list((house.path / "root" / "t.lance").glob("data/*"))
