"""Values on their way from SQL into columns of every type, read by pylance; and copies of whole tables by SQL."""

import datetime
import decimal
import re
import shutil

import adbc_driver_flightsql.dbapi as dbapi
import lance
import numpy as np
import pyarrow as pa
import pytest
from referee import oracle, tables
from referee.client import Client
from referee.compare import difference
from referee.server import Server

D = decimal.Decimal
DAY = datetime.timedelta(days=1)
UTC = datetime.UTC

# type, expression, what pylance reads
TAKEN = [
    (pa.int8(), "-128", -128),
    (pa.int8(), "'12'", 12),
    (pa.uint64(), "18446744073709551615", 2**64 - 1),
    (pa.float16(), "0.1", float(np.float16(0.1))),
    (pa.float16(), "65519", 65504.0),
    (pa.float16(), "1e-7", float(np.float16(1e-7))),
    (pa.float16(), "'-infinity'", float("-inf")),
    (pa.float32(), "0.1", float(np.float32(0.1))),
    (pa.time32("s"), "TIME '12:00:01'", datetime.time(12, 0, 1)),
    (pa.time32("ms"), "'12:00:02.123'", datetime.time(12, 0, 2, 123000)),
    (pa.time64("us"), "'12:00:02.123456'", datetime.time(12, 0, 2, 123456)),
    (pa.time64("ns"), "'12:00:02.123456789'::TIME_NS", 43202123456789),
    (pa.date32(), "DATE '0001-01-01'", datetime.date(1, 1, 1)),
    (pa.date64(), "DATE '2020-01-02'", datetime.date(2020, 1, 2)),
    (pa.duration("s"), "INTERVAL 3 DAY", 3 * 86400),
    (pa.duration("s"), "INTERVAL 3000000 HOUR", 3000000 * 3600),
    (pa.duration("ms"), "INTERVAL 2 SECOND - INTERVAL 1 DAY", 2000 - 86400000),
    (pa.duration("us"), "INTERVAL 106751990 DAY", 106751990 * 86400000000),
    (pa.duration("us"), "INTERVAL (-3000000) HOUR", -3000000 * 3600 * 1000000),
    (pa.duration("ns"), "5", 5),
    (pa.duration("ns"), "INTERVAL 5 SECOND", 5 * 10**9),
    (pa.decimal128(10, 2), "1.25", D("1.25")),
    (pa.decimal128(10, 2), "'1e3'", D("1000.00")),
    (pa.decimal256(60, 3), "'12345678901234567890123456789012345678901234567890.123'",
     D("12345678901234567890123456789012345678901234567890.123")),
    (pa.decimal256(60, 3), "1.5", D("1.500")),
    (pa.decimal256(60, 3), "1e5", D("100000.000")),
    (pa.decimal256(20, 3), "'12345678901234567.123'", D("12345678901234567.123")),
    (pa.timestamp("s"), "'2020-01-01'", 1577836800),
    (pa.timestamp("ns"), "'2020-01-01 00:00:00.123456789'", 1577836800123456789),
    (pa.timestamp("s", "UTC"), "TIMESTAMPTZ '2020-01-01 00:00:00+01'", 1577833200),
    (pa.timestamp("us", "Europe/Berlin"), "TIMESTAMPTZ '2020-01-01 00:00:00.5+01'", 1577833200500000),
    (pa.timestamp("ns", "UTC"), "'2020-01-01 00:00:00.123456789'", 1577836800123456789),
    (pa.binary(3), "'abc'::BLOB", b"abc"),
    (pa.binary(), r"'\xFF'", b"\xff"),
    (pa.large_string(), "'x'", "x"),
    (pa.dictionary(pa.int32(), pa.string()), "'v'", "v"),
    (pa.json_(), """'{"a": 1}'""", '{"a":1}'),
    (pa.null(), "NULL", None),
    (pa.bool_(), "'t'", True),
    (pa.list_(pa.int16(), 2), "[1, 2]", [1, 2]),
    (pa.list_(pa.float16()), "[1.5, NULL]", [1.5, None]),
    (pa.list_(pa.decimal256(60, 3)), "[1.5, NULL]", [D("1.500"), None]),
    (pa.struct([("a", pa.uint8()), ("t", pa.time32("s"))]), "{'t': TIME '01:02:03', 'a': 1}",
     {"a": 1, "t": datetime.time(1, 2, 3)}),
    (pa.struct([("a", pa.uint8()), ("t", pa.time32("s"))]), "{'a': 1}", {"a": 1, "t": None}),
]  # fmt: skip

# type, expression, what the error says behind column and row
REFUSED = [
    (pa.int8(), "128", '"128" is no value of TINYINT; it takes whole numbers from -128 to 127'),
    (pa.uint8(), "-1", '"-1" is no value of UTINYINT; it takes whole numbers from 0 to 255'),
    (pa.uint64(), "18446744073709551616", "it takes whole numbers from 0 to 18446744073709551615"),
    (pa.int32(), "'x'", '"x" is no value of INTEGER'),
    (pa.float16(), "65520", "65520 is beyond the numbers of 16 bits, which end at 65504"),
    (pa.float32(), "1e39", '"1e+39" is no value of FLOAT'),
    (pa.time32("s"), "'12:00:01.5'", "12:00:01.5 has a fraction that the column, of whole seconds, does not hold"),
    (pa.time32("ms"), "'25:00'", '"25:00" is no value of TIME'),
    (pa.duration("s"), "INTERVAL 1 MONTH", "an interval of 1 months has no fixed length"),
    (pa.duration("s"), "INTERVAL '1.5' SECOND", "has a fraction that the column, of whole seconds, does not hold"),
    (pa.duration("us"), "INTERVAL 2147483647 DAY", "longer than a duration in microseconds can be"),
    (pa.decimal128(10, 2), "123456789.0", '"123456789.0" is no value of DECIMAL(10,2)'),
    (pa.decimal256(60, 3), "'1.23456'", '"1.23456" has more digits than decimal256(60, 3) holds'),
    (pa.decimal256(60, 3), "1e60", "has more than the 60 digits"),
    (pa.decimal256(60, 3), "'x'", '"x" is no number of type decimal256(60, 3)'),
    (pa.timestamp("ns"), "'3000-01-01'", '"3000-01-01" is no value of TIMESTAMP_NS'),
    (pa.timestamp("s", "UTC"), "TIMESTAMPTZ '2020-01-01 00:00:00.5+01'", "of whole seconds, does not hold"),
    (pa.binary(3), "'ab'::BLOB", "a value of 2 bytes, and the column takes exactly 3"),
    (pa.json_(), "'{'", '"{" is not JSON'),
    (pa.null(), "1", '"1", and the column takes nothing but NULL'),
    (pa.list_(pa.int16(), 2), "[1, 2, 3]", '"[1, 2, 3]" is no value of SMALLINT[2]'),
    (pa.list_(pa.int16(), 2), "[1, 70000]", '"[1, 70000]" is no value of SMALLINT[2]'),
    (pa.list_(pa.float16()), "[1, 1e6]", "1e+06 is beyond the numbers of 16 bits"),
    (pa.list_(pa.decimal256(60, 3)), "[1, 2.0001]", '"2.0001" has more digits'),
    (pa.struct([("a", pa.uint8())]), "{'a': 300}", "is no value of STRUCT"),
]  # fmt: skip


@pytest.fixture(scope="module")
def maker(tmp_path_factory, seed):
    return tables.Maker(tmp_path_factory.mktemp("types") / "root", seed)


@pytest.fixture(scope="module")
def server(binary, maker):
    with Server(binary, maker.root, external=["*"]) as running:
        yield running
        running.check_panics()


@pytest.fixture(scope="module")
def client(server):
    connection = Client(server.uri)
    yield connection
    connection.close()


@pytest.fixture
def cursor(server):
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as made:
        yield made


@pytest.fixture
def one(client, maker):
    """Makes the empty table `one` with a column x of a type."""
    folder = maker.root / "one.lance"

    def make(kind):
        client.put(pa.table({"x": pa.array([], kind)}), table="one", mode="create")
        return lambda: lance.dataset(str(folder))

    yield make
    shutil.rmtree(folder)


def told(dataset, kind):
    """The values of x; counts instead of times that Python cannot hold."""
    column = dataset.to_table()["x"].combine_chunks()
    if pa.types.is_duration(kind) or pa.types.is_timestamp(kind) or kind == pa.time64("ns"):
        column = column.cast(pa.int64())
    return column.to_pylist()


def name_of(case):
    return f"{case[0]} {case[1]}"


@pytest.mark.parametrize(("kind", "expression", "want"), TAKEN, ids=map(name_of, TAKEN))
def test_taken(cursor, one, kind, expression, want):
    """VALUES and SELECT with NULL beside the value; the schema stays."""
    dataset = one(kind)
    schema = dataset().schema
    cursor.execute(f"INSERT INTO one VALUES (NULL), ({expression})")
    cursor.execute(f"INSERT INTO one SELECT {expression} FROM range(2)")
    cursor.execute("INSERT INTO one SELECT * FROM one")
    dataset().validate()
    assert told(dataset(), kind) == [None, want, want, want] * 2
    assert dataset().schema == schema


@pytest.mark.parametrize(("kind", "expression", "want"), REFUSED, ids=map(name_of, REFUSED))
def test_refused(cursor, one, kind, expression, want):
    """What a column cannot hold is refused with its place, in VALUES and in queries, and nothing is written."""
    dataset = one(kind)
    for sql, place in [
        (f"INSERT INTO one VALUES (NULL), (NULL), ({expression})", "row 3 of VALUES"),
        (f"INSERT INTO one SELECT CASE WHEN i = 4 THEN {expression} END FROM range(6) r(i)", "row 4 of the query"),
    ]:
        with pytest.raises(Exception, match=re.escape(f"column x, {place}: ") + ".*" + re.escape(want)):
            cursor.execute(sql)
    assert dataset().version == 1


@pytest.mark.parametrize(
    ("kind", "value", "want"),
    [
        (pa.int8(), 5, 5),
        (pa.int8(), "5", 5),
        (pa.int8(), 300, "column x, row 1 of the parameters: \"300\" is no value of TINYINT"),
        (pa.uint64(), -1, "column x, row 1 of the parameters: \"-1\" is no value of UBIGINT"),
        (pa.float16(), 1.5, 1.5),
        (pa.float16(), 1e6, "row 1 of the parameters: 1e+06 is beyond"),
        (pa.time32("s"), datetime.time(1, 2, 3), datetime.time(1, 2, 3)),
        (pa.time32("s"), datetime.time(1, 2, 3, 5), "row 1 of the parameters: 01:02:03.000005 has a fraction"),
        (pa.date64(), datetime.date(2020, 1, 1), datetime.date(2020, 1, 1)),
        (pa.duration("s"), DAY, 86400),
        (pa.duration("ns"), DAY, 86400 * 10**9),
        (pa.duration("s"), DAY / 1000000, "of whole seconds, does not hold"),
        (pa.decimal128(10, 2), D("1.25"), D("1.25")),
        (pa.decimal256(60, 3), D("123.5"), D("123.500")),
        (pa.decimal256(60, 3), D("1.2345"), "has more digits"),
        (pa.timestamp("us"), datetime.datetime(2020, 1, 1, 0, 0, 0, 5), 1577836800000005),
        (pa.timestamp("us", "Europe/Berlin"), datetime.datetime(2020, 1, 1, tzinfo=UTC), 1577836800000000),
        (pa.binary(3), b"abc", b"abc"),
        (pa.binary(3), b"ab", "row 1 of the parameters: a value of 2 bytes"),
        (pa.dictionary(pa.int32(), pa.string()), "v", "v"),
        (pa.json_(), '{"b":2}', '{"b":2}'),
        (pa.json_(), "{", "row 1 of the parameters: \"{\" is not JSON"),
        (pa.list_(pa.int16(), 2), [1, 2], [1, 2]),
        (pa.struct([("a", pa.uint8())]), {"a": 1}, {"a": 1}),
        (pa.null(), None, None),
    ],
    ids=str,
)  # fmt: skip
def test_parameters(cursor, one, kind, value, want):
    """Bound rows, NULL in the first, in one INSERT: exact values, or errors that name the row."""
    dataset = one(kind)
    refused = isinstance(want, str) and want != value
    if refused:
        with pytest.raises(Exception, match=re.escape(want)):
            cursor.executemany("INSERT INTO one VALUES (?)", [(None,), (value,)])
        assert dataset().version == 1
        return
    cursor.executemany("INSERT INTO one VALUES (?)", [(None,), (value,)])
    assert told(dataset(), kind) == [None, want]
    assert dataset().version == 2


def test_unknown_members(cursor, one):
    """A struct with a field that the column has not is refused, not cut."""
    dataset = one(pa.struct([("a", pa.list_(pa.struct([("b", pa.int8())])))]))
    for value, field in [("{'a': NULL, 'z': 1}", "z"), ("{'a': [{'b': 1, 'y': 2}]}", "a.y")]:
        with pytest.raises(Exception, match=f'column x has no field "{field}"'):
            cursor.execute(f"INSERT INTO one VALUES ({value})")
    assert dataset().version == 1


def test_numbers_of_16_bits(cursor, client, maker):
    """All of them come through SQL as they are, those below 2^-14 too."""
    bits = np.arange(0x10000, dtype=np.uint16)
    values = bits.view(np.float16)
    values = values[np.isfinite(values)]
    folder = maker.root / "halves.lance"
    lance.write_dataset(pa.table({"x": values}), str(folder), data_storage_version="2.2")
    try:
        cursor.execute("SELECT x + 0.0::FLOAT AS x FROM halves")
        assert np.array_equal(cursor.fetch_arrow_table()["x"].to_numpy(), values.astype(np.float32))
        cursor.execute("INSERT INTO halves SELECT x + 0.0::FLOAT FROM halves")
        assert np.array_equal(lance.dataset(str(folder)).to_table()["x"].to_numpy(), np.concatenate([values, values]))
    finally:
        shutil.rmtree(folder)


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        chosen = tables.covering(3 if metafunc.config.getoption("--full") else 2)
        metafunc.parametrize(
            "case",
            [
                pytest.param(c, id=f"{c} {'RWR-2 MAT-5 NUL-11' if c.group == 'blobs' else ''}".strip())
                for c in chosen
                if c.version >= "2.2"
            ],
        )


def test_copies(server, client, cursor, maker, case):
    """INSERT INTO copy SELECT * FROM t: pylance reads the same from both, values and schema."""
    source = maker.make(case)
    folder = maker.root / "copied.lance"
    try:
        original = lance.dataset(str(maker.root / f"{source}.lance"))
        rows = client.get(table=source, blobs="logical", limit=0)
        client.put(rows, table="copied", mode="create", file_version=case.version)
        refused = None
        try:
            cursor.execute(f'INSERT INTO copied SELECT * FROM "{source}"')
        except dbapi.NotSupportedError as error:
            refused = str(error)
        if refused:  # durations at random may be longer than an INTERVAL of SQL can be
            assert (case.group, case.pattern) == ("nested", "random")
            assert re.search("holds a duration of .* longer than the 2147483647", refused)
            return
        ours = lance.dataset(str(folder))
        ours.validate()
        assert difference(oracle.Oracle(original).answer(), oracle.Oracle(ours).answer()) is None
    finally:
        server.check_alive()
        shutil.rmtree(maker.root / f"{source}.lance")
        shutil.rmtree(folder, ignore_errors=True)
