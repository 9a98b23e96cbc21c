"""LanceDB and the server over one root: each sees, reads, extends and drops what the other made."""

import adbc_driver_flightsql.dbapi as dbapi
import lancedb
import pyarrow as pa
import pytest
from referee.house import Statements
from referee.server import Server


@pytest.fixture
def root(tmp_path):
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


@pytest.fixture
def ours(binary, root):
    with Server(binary, root) as server, dbapi.connect(server.uri, autocommit=True) as connection:
        yield Statements(connection)
        server.check_alive()
        server.check_panics()


def rows(statements, sql):
    return statements.table(sql).to_pylist()


def tables(statements):
    return sorted(row["name"] for row in rows(statements, "SHOW TABLES"))


def names(db):
    return sorted(db.list_tables().tables)


def test_tables_of_lancedb(ours, root):
    """A table of vectors that LanceDB made: read, extended, changed; LanceDB searches what we left."""
    db = lancedb.connect(root)
    made = db.create_table("items", pa.table({"id": [1, 2, 3], "text": ["a", "b", "c"], "vector": vectors([1, 2, 3])}))
    assert tables(ours) == ["items"]
    assert rows(ours, "SELECT id, text FROM items ORDER BY id") == made.to_arrow().select(["id", "text"]).to_pylist()
    ours.run("INSERT INTO items SELECT 4, 'd', [4, 4]::FLOAT[2]")
    ours.run("UPDATE items SET text = upper(text) WHERE id = 2")
    ours.run("DELETE FROM items WHERE id = 1")
    made.checkout_latest()
    assert sorted(made.to_arrow().select(["id", "text"]).to_pydict()["text"]) == ["B", "c", "d"]
    assert made.search([4.1, 4.0]).limit(1).to_list()[0]["id"] == 4
    made.add(pa.table({"id": [5], "text": ["e"], "vector": vectors([5])}))
    made.delete("id = 3")
    made.update(where="id = 4", values={"text": "D"})
    assert rows(ours, "SELECT id, text, vector[1] AS v FROM items ORDER BY id") == [
        {"id": 2, "text": "B", "v": 2.0},
        {"id": 4, "text": "D", "v": 4.0},
        {"id": 5, "text": "e", "v": 5.0},
    ]
    made.optimize()
    assert rows(ours, "SELECT count(*) AS n FROM items") == [{"n": 3}]
    db.drop_table("items")
    assert tables(ours) == []


def vectors(numbers):
    return pa.FixedSizeListArray.from_arrays(pa.array([float(n) for n in numbers for _ in range(2)], pa.float32()), 2)


def test_tables_of_ours(ours, root):
    """A table with a blob column that we made: LanceDB lists, opens, extends and drops it."""
    ours.run("CREATE TABLE pictures (id BIGINT, name VARCHAR, img LANCE_BLOB)")
    ours.many("INSERT INTO pictures VALUES (?, ?, ?)", [(1, "a", b"one"), (2, "b", None), (3, "c", b"x" * 100_000)])
    db = lancedb.connect(root)
    assert names(db) == ["pictures"]
    theirs = db.open_table("pictures")
    assert theirs.count_rows() == 3
    assert theirs.search().where("id > 1").select(["id", "name"]).to_list() == [
        {"id": 2, "name": "b"},
        {"id": 3, "name": "c"},
    ]
    theirs.delete("id = 2")
    db.create_table("others", pa.table({"x": [1]}))
    assert tables(ours) == ["others", "pictures"]
    assert rows(ours, "SELECT id, blob_size(img) AS n FROM pictures ORDER BY id") == [
        {"id": 1, "n": 3},
        {"id": 3, "n": 100_000},
    ]
    ours.run("DROP TABLE others")
    assert names(db) == ["pictures"]
    db.drop_table("pictures")
    assert tables(ours) == []
