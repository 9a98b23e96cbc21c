"""ALTER TABLE ADD COLUMN with values, beside pylance's add_columns."""

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee.house import opened


@pytest.fixture
def house(binary, tmp_path):
    with opened(binary, tmp_path, external=[tmp_path]) as house:
        yield house


def numbers(first, n, managed=False):
    metadata = {"lance.blob.managed": "true"} if managed else None
    return pa.table(
        [pa.array(range(first, first + n)), pa.array([f"n{i}" for i in range(first, first + n)])],
        schema=pa.schema([("id", pa.int64()), ("name", pa.string())], metadata=metadata),
    )


@pytest.mark.parametrize("stable", [False, True], ids=["RWR-8 addresses", "RWR-8 stable ids"])
def test_columns_with_values(house, stable):
    """RWR-8: a file for each fragment, beside deleted rows; the same values, lineage and indexes as after pylance's
    add_columns; then both go on with it."""
    for name in ("t", "twin"):
        ds = lance.write_dataset(
            numbers(0, 40),
            house.path(name),
            max_rows_per_file=16,
            enable_stable_row_ids=stable,
            data_storage_version="2.2",
        )
        ds.create_scalar_index("id", "BTREE")
        ds.delete("id % 8 = 5 OR id > 37")
    house.run("ALTER TABLE t ADD COLUMN double BIGINT DEFAULT id * 2")
    house.run("ALTER TABLE t ADD COLUMN label VARCHAR NOT NULL DEFAULT 'x' || name")
    house.lance("twin").add_columns({"double": "id * 2"})
    house.lance("twin").add_columns({"label": "'x' || name"})
    ds, twin = house.lance("t"), house.lance("twin")
    ds.validate()
    columns = ["id", "name", "double", "label"]
    if stable:
        columns += ["_row_created_at_version", "_row_last_updated_at_version"]
    both = [d.scanner(columns=columns, with_row_id=True).to_table() for d in (ds, twin)]
    assert both[0].cast(both[1].schema) == both[1]
    assert not ds.schema.field("label").nullable
    assert isinstance(ds.get_transactions()[0].operation, lance.LanceOperation.Merge)
    files = [f.data_files() for f in ds.get_fragments()]
    assert [len(f) for f in files] == [3, 3, 3]
    assert len({d.path for f in files for d in f}) == 9
    assert ds.to_table(filter="id = 17").to_pylist() == twin.to_table(filter="id = 17").to_pylist(), "through the index"
    assert ds.stats.index_stats("id_idx")["num_unindexed_rows"] == 0

    house.run("INSERT INTO t (id, name, label) VALUES (100, 'late', 'given')")
    assert house.lance("t").to_table(filter="id = 100").to_pylist() == [
        {"id": 100, "name": "late", "double": None, "label": "given"}
    ]
    ds = house.lance("t")
    ds.update({"double": "double + 1"}, where="id < 3")
    ds.optimize.compact_files()
    house.run("UPDATE t SET double = 7 WHERE id = 2")
    assert house.lance("t").to_table(columns=["double"], filter="id < 5").column(0).to_pylist() in (
        [6, 8, 1, 3, 7],
        [1, 3, 6, 8, 7],
    )


@pytest.mark.parametrize("managed", [False, True], ids=["RWR-8 plain", "RWR-8 managed"])
def test_blobs_as_values(house, tmp_path, managed):
    """RWR-8: a blob column of computed bytes and one of references, each file with its own ids; pylance reads,
    compacts and reads again."""
    outside = tmp_path / "outside.bin"
    outside.write_bytes(bytes(range(200)))
    ds = lance.write_dataset(numbers(0, 30, managed), house.path("t"), max_rows_per_file=11, data_storage_version="2.2")
    ds.delete("id IN (0, 12, 29)")
    live = [n for n in range(30) if n not in (0, 12, 29)]
    house.run("ALTER TABLE t ADD COLUMN big LANCE_BLOB DEFAULT repeat(chr(65 + (id % 26)::INT), 70000)::BLOB")
    house.run("ALTER TABLE t ADD COLUMN small LANCE_BLOB DEFAULT CASE WHEN id % 3 = 0 THEN NULL ELSE name::BLOB END")
    reference = f"ALTER TABLE t ADD COLUMN away LANCE_BLOB DEFAULT blob_ref('{outside.as_uri()}', id, 10)"
    house.run(reference)
    house.run("ALTER TABLE t ADD COLUMN again LANCE_BLOB NOT NULL DEFAULT big")
    want = {
        "id": live,
        "big": [bytes([65 + n % 26]) * 70000 for n in live],
        "small": [None if n % 3 == 0 else f"n{n}".encode() for n in live],
        "away": [bytes(range(n, n + 10)) for n in live],
    }
    want["again"] = want["big"]

    def read():
        ds = house.lance("t")
        ds.validate()
        return ds.scanner(columns=list(want), blob_handling="all_binary").to_table().to_pydict()

    assert read() == want
    kinds = house.table("SELECT DISTINCT blob_kind(big) AS k FROM t").column(0).to_pylist()
    assert kinds == ["managed" if managed else "packed"]
    house.lance("t").optimize.compact_files()
    assert read() == want
    assert house.table("SELECT blob_bytes(away) AS a FROM t WHERE id = 3").column(0).to_pylist() == [
        bytes(range(3, 13))
    ]


@pytest.mark.parametrize(
    ("sql", "text"),
    [
        ("ADD COLUMN c BIGINT NOT NULL", "give it a DEFAULT"),
        ("ADD COLUMN c BIGINT NOT NULL DEFAULT NULL", "null in every row"),
        ("ADD COLUMN c BIGINT NOT NULL DEFAULT nullif(id, 3)", "column c, row 3 of the table: null"),
        ("ADD COLUMN c TINYINT DEFAULT id + 100", "out of range"),
        ("ADD COLUMN c BIGINT DEFAULT unnest([1, 2])", "one for each row"),
        ("ADD COLUMN c BIGINT DEFAULT max(id)", "GROUP BY"),
        ("ADD COLUMN c BIGINT DEFAULT nothing", "nothing"),
        ("ADD COLUMN name VARCHAR DEFAULT 'x'", "has a column name already"),
        ("ADD COLUMN c BIGINT DEFAULT", "an expression"),
        ("ADD COLUMN c.d BIGINT DEFAULT 1", "whole columns only"),
        ("ADD COLUMN c LANCE_BLOB DEFAULT 5", "takes BLOB values"),
    ],
)
def test_refused_values(house, sql, text):
    lance.write_dataset(numbers(0, 40), house.path("t"), data_storage_version="2.2")
    before = sorted(p for p in house.path("t").rglob("*") if p.is_file())
    with pytest.raises(dbapi.Error, match=text):
        house.run(f"ALTER TABLE t {sql}")
    assert sorted(p for p in house.path("t").rglob("*") if p.is_file()) == before


def test_values_of_the_whole_table(house):
    """Subqueries and windows see the version that the rows are of; a parameter is a value; what is there already is
    left as it is."""
    lance.write_dataset(numbers(0, 3000), house.path("t"), max_rows_per_file=1000, data_storage_version="2.2")
    house.run("ALTER TABLE t ADD COLUMN rank BIGINT DEFAULT row_number() OVER (ORDER BY id DESC)")
    house.run("ALTER TABLE t ADD COLUMN most BIGINT DEFAULT (SELECT max(u.id) FROM t AS u WHERE u.id <= t.id)")
    house.run("ALTER TABLE t ADD COLUMN given VARCHAR NOT NULL DEFAULT ?", ("v",))
    assert house.table(
        "SELECT count(*) AS n FROM t WHERE rank = 3000 - id AND most = id AND given = 'v'"
    ).to_pylist() == [{"n": 3000}]
    version = house.lance("t").version
    house.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS rank BIGINT DEFAULT 5")
    assert house.lance("t").version == version
