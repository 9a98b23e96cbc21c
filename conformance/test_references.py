"""References to what is stored: which a write may make, and what becomes of them when rows are changed."""

import shutil

import lance
import pyarrow as pa
import pytest
from referee.client import Client
from referee.house import House, opened


@pytest.fixture
def house(binary, tmp_path):
    with opened(binary, tmp_path, Stored) as house:
        yield house


class Stored(House):
    def objects(self, name):
        return sorted(str(p.relative_to(self.path(name))) for p in self.path(name).rglob("*.blob"))

    def kinds(self, name):
        return (
            self.table(f"SELECT DISTINCT blob_kind(img) AS k FROM {name} WHERE img IS NOT NULL ORDER BY k")
            .column(0)
            .to_pylist()
        )


VALUES = [b"small", bytes([1]) * 100_000, bytes([2]) * 5_000_000, None, b""]


def make(house, name, managed, rows=VALUES):
    table = pa.table(
        [pa.array(range(len(rows))), pa.array(["n"] * len(rows)), lance.blob_array(rows)],
        schema=pa.schema(
            [("id", pa.int64()), ("name", pa.string()), lance.blob_field("img")],
            metadata={"lance.blob.managed": "true"} if managed else None,
        ),
    )
    return lance.write_dataset(table, house.path(name), data_storage_version="2.2")


def values(house, name):
    ds = house.lance(name)
    ds.validate()
    table = ds.scanner(columns=["id", "img"], blob_handling="all_binary").to_table().sort_by("id")
    return table.column("img").to_pylist()


@pytest.mark.parametrize("managed", [False, True], ids=["CAP-7 into a plain table", "CAP-7 into a managed table"])
def test_values_of_a_managed_table(house, managed):
    """What refers to objects of a managed table is stored elsewhere as a copy: without the opt-in there are no managed
    values, and with it none in a base that the table has not registered. Both read when the source is gone."""
    make(house, "source", True)
    make(house, "target", managed, [])
    house.run("INSERT INTO target SELECT * FROM source")
    assert house.kinds("target") == (["inline", "managed"] if managed else ["dedicated", "inline", "packed"])
    shutil.rmtree(house.path("source"))
    assert values(house, "target") == VALUES
    house.lance("target").optimize.compact_files()
    assert values(house, "target") == VALUES


PREPARED = pa.struct(
    [
        ("kind", pa.uint8()),
        ("data", pa.large_binary()),
        ("uri", pa.string()),
        ("blob_id", pa.uint32()),
        ("blob_size", pa.uint64()),
        ("position", pa.uint64()),
    ]
)
DESCRIPTOR = pa.struct(
    [
        ("kind", pa.uint8()),
        ("position", pa.uint64()),
        ("size", pa.uint64()),
        ("blob_id", pa.uint32()),
        ("blob_uri", pa.string()),
    ]
)


@pytest.mark.parametrize("managed", [False, True], ids=["CAP-7 ERR-10 plain", "CAP-7 ERR-10 managed"])
@pytest.mark.parametrize("shape", [PREPARED, DESCRIPTOR], ids=["prepared", "descriptor"])
def test_references_from_outside(house, managed, shape):
    """Nobody can name a managed object, or one of a base: such rows are refused with the column and what it takes,
    before anything is stored, whether or not the table is opted in."""
    make(house, "t", managed)
    before = sorted(p for p in house.path("t").rglob("*") if p.is_file())
    row = {f.name: 4 if f.name == "kind" else "_blobs/x.blob" if "uri" in f.name else 0 for f in shape}
    if shape is PREPARED:
        row["data"] = None
    field = pa.field("img", shape, metadata={"ARROW:extension:name": "lance.blob.v2"})
    rows = pa.table([pa.array([7]), pa.array([row], shape)], schema=pa.schema([("id", pa.int64()), field]))
    client = Client(house.server.uri)
    for mode in ({"mode": "append"}, {"mode": "merge", "on": ["id"]}):
        with pytest.raises(pa.ArrowInvalid) as e:
            client.put(rows, table="t", **mode)
        assert "img" in str(e.value)
        assert "data" in str(e.value)
        assert "uri" in str(e.value)
    client.close()
    assert sorted(p for p in house.path("t").rglob("*") if p.is_file()) == before


@pytest.mark.parametrize("managed", [False, True], ids=["RWR-9 plain", "RWR-9 managed"])
def test_blobs_are_updated(house, managed):
    """pylance takes no expression for a blob column; statements do, and it reads what they leave."""
    make(house, "t", managed)
    with pytest.raises((OSError, ValueError, NotImplementedError)):
        house.lance("t").update({"img": "X'00'"}, where="id = 0")
    house.run("UPDATE t SET img = blob_bytes(img) || 'x'::BLOB WHERE id < 2")
    house.run("UPDATE t SET img = NULL WHERE id = 2")
    house.run("UPDATE t SET img = s.img FROM (SELECT img FROM t WHERE id = 1) s WHERE t.id = 4")
    assert values(house, "t") == [VALUES[0] + b"x", VALUES[1] + b"x", None, None, VALUES[1] + b"x"]
    house.lance("t").optimize.compact_files()
    assert values(house, "t") == [VALUES[0] + b"x", VALUES[1] + b"x", None, None, VALUES[1] + b"x"]


@pytest.mark.parametrize("managed", [False, True], ids=["RWR-7 plain", "RWR-7 managed"])
def test_other_columns_are_updated(house, managed):
    """Rows that move keep their blobs: no managed object is copied or lost, of plain tables each value is there."""
    make(house, "t", managed)
    before = house.objects("t")
    house.run("UPDATE t SET name = 'm' WHERE id <> 3")
    house.run(
        "MERGE INTO t USING (VALUES (1, 'p'), (2, 'q')) s(id, name) ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET name = s.name"
    )
    if managed:
        assert house.objects("t") == before
    assert values(house, "t") == VALUES
    ds = house.lance("t")
    assert sorted(ds.to_table(columns=["name"]).column(0).to_pylist()) == ["m", "m", "n", "p", "q"]
    ds.optimize.compact_files()
    assert values(house, "t") == VALUES
