"""The clients in Python and the command line, called as their users call them: the matrix of docs/clients.md.

The JDBC driver is in test_jdbc.py, the clients in Go are in cmd/flightblob.
"""

import base64
import concurrent.futures
import contextlib
import datetime
import decimal
import json
import signal
import subprocess
import threading
import time
import urllib.parse

import adbc_driver_flightsql as adbc
import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import flightsql.dbapi
import flightsql.sqlalchemy
import lance
import pandas
import polars
import pyarrow as pa
import pyarrow.flight as fl
import pytest
import sqlalchemy
from referee import golden
from referee.client import reason
from referee.pictures import COLUMNS, ENDLESS, FACES, LARGE, SIZES, UNSIGNED, WHEN, shown, value
from referee.server import Server, settle

HEADER = adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value


@contextlib.contextmanager
def connected(uri, **options):
    # Autocommit, since the server has no transactions: otherwise connect() warns.
    with dbapi.connect(uri, db_kwargs=options, autocommit=True) as connection:
        yield connection


@pytest.fixture
def connection(pictures_server):
    with connected(pictures_server.uri) as connection:
        yield connection


def answer(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


def check_calm(server):
    """Whatever ran for the client that gave up has ended."""
    assert settle(lambda: server.metric("flightblob_calls_running"), 0, 5) == 0


class TestADBC:
    def test_query(self, connection):
        got = answer(connection, "SELECT id, name, serial, taken FROM pictures ORDER BY id LIMIT 1")
        assert got.to_pylist() == [{"id": 0, "name": "picture 0", "serial": UNSIGNED, "taken": WHEN}]
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM pictures ORDER BY id")
            assert cursor.fetchone() == (0,)
            assert cursor.fetchmany(2) == [(1,), (2,)]
            assert cursor.adbc_execute_schema("SELECT id, img FROM pictures").names == ["id", "img"]

    def test_cursors_side_by_side(self, connection):
        cursors = [connection.cursor() for _ in range(4)]
        for i, cursor in enumerate(cursors):
            cursor.execute("SELECT range + ?::BIGINT AS n FROM range(100000)", (i,))
        for _ in range(3):
            rows = [cursor.fetchone()[0] for cursor in cursors]
            assert rows == list(range(rows[0], rows[0] + 4))
        for cursor in cursors:
            cursor.close()

    def test_parameters(self, connection):
        sql = "SELECT id FROM pictures WHERE id > ? AND name <> ? ORDER BY id"
        assert answer(connection, sql, (2, "picture 4"))["id"].to_pylist() == [3, 5]
        assert answer(connection, sql, (2, None))["id"].to_pylist() == []
        with connection.cursor() as cursor:
            assert cursor.adbc_prepare(sql).types == [pa.int64(), pa.utf8()]
            assert cursor.description is None
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="2 parameters, 1 is bound"):
            answer(connection, sql, (2,))
        # The driver knows positions only.
        with pytest.raises(adbc_driver_manager.NotSupportedError, match="bind_by_name"):
            answer(connection, "SELECT $a::INT", {"a": 1})

    @pytest.mark.parametrize(
        "given",
        [
            True,
            -(1 << 63),
            2.5,
            "öé",
            b"\x00\xff",
            datetime.date(2020, 2, 29),
            datetime.time(1, 2, 3, 4),
            datetime.datetime(2020, 2, 29, 1, 2, 3, 4),
            WHEN,
            decimal.Decimal("-123456789012345678.25"),
            None,
        ],
        ids=lambda v: type(v).__name__,
    )
    def test_types_of_parameters(self, connection, given):
        """The type that arrives is the type that comes back, whatever was described."""
        assert answer(connection, "SELECT ? AS p", (given,)).to_pylist() == [{"p": given}]

    @pytest.mark.parametrize(
        ("sql", "given", "want"),
        [
            ("SELECT 1 + ? AS v", 2, 3),
            ("SELECT 1 + ? AS v", 2.5, 3.5),
            ("SELECT 1 + ? AS v", decimal.Decimal("2.25"), decimal.Decimal("3.25")),
            ("SELECT 1 + ? AS v", None, None),
            ("SELECT octet_length(?) AS v", b"abc", 3),
            ("SELECT date_trunc('day', ?) AS v", WHEN, WHEN.replace(hour=0, minute=0, second=0)),
            ("SELECT ? || 'x' AS v", None, None),
            ("SELECT count(*) AS v FROM pictures WHERE id = ?", 1.5, 0),
            ("SELECT count(*) AS v FROM pictures WHERE id = ?", decimal.Decimal("1.25"), 0),
            ("SELECT count(*) AS v FROM pictures WHERE serial > ?", -1, 6),
            ("SELECT count(*) AS v FROM pictures WHERE taken = ?", WHEN, 6),
            ("SELECT count(*) AS v FROM pictures AT (VERSION => ?)", 1, 6),
            ("SELECT count(*) AS v FROM pictures AT (TIMESTAMP => now() + INTERVAL 1 HOUR) WHERE id < ?", 3, 3),
            ("SELECT count(*) AS v FROM pictures AT (TIMESTAMP => ?)", datetime.datetime(2100, 1, 1), 6),
            ("SELECT count(*) AS v FROM lance_scan(?)", "pictures", 6),
            ("SELECT count(*) AS v FROM lance_scan('pictures', version := ?)", 1, 6),
            ("SELECT sum(unnest)::BIGINT AS v FROM unnest(?)", [1, None, 2], 3),
            ("SELECT list_contains(?, 2) AS v", [1, 2], True),
        ],
    )
    def test_open_parameters(self, connection, sql, given, want):
        """What is bound decides about types that the statement leaves open, and about what it reads."""
        assert answer(connection, sql, (given,)).to_pylist() == [{"v": want}]

    def test_several_rows_of_parameters(self, connection):
        """A query runs once for each row; the results follow one another."""
        sql = "SELECT id, ? AS given FROM pictures WHERE id < ? ORDER BY id"
        rows = pa.record_batch([pa.array(["a", "b"]), pa.array([1, 2])], names=["x", "y"])
        want = [{"id": 0, "given": "a"}, {"id": 0, "given": "b"}, {"id": 1, "given": "b"}]
        assert answer(connection, sql, rows).to_pylist() == want
        assert answer(connection, sql, pa.Table.from_batches([rows, rows])).to_pylist() == want * 2
        for form in (pa.array(["a", "b"]).dictionary_encode(), pa.array(["a", "b"], pa.string_view())):
            again = pa.record_batch([form, pa.array([1, 2], pa.uint16())], names=["x", "y"])
            assert answer(connection, sql, again).to_pylist() == want
        got = answer(connection, sql, pa.table(rows.slice(0, 0)))
        assert (got.num_rows, got.schema.names) == (0, ["id", "given"])
        # An empty RecordBatch is not sent by the driver, a Table is.
        with pytest.raises(adbc_driver_manager.ProgrammingError, match="none is bound"):
            answer(connection, sql, rows.slice(0, 0))
        wrong = pa.record_batch([pa.array(["a", "b"]), pa.array(["1", "two"])], names=["x", "y"])
        with pytest.raises(adbc_driver_manager.ProgrammingError, match=r"row 1 of the parameters.*'two'"):
            answer(connection, sql, wrong)

    def test_executemany_is_no_query(self, connection):
        with connection.cursor() as cursor:
            with pytest.raises(adbc_driver_manager.ProgrammingError, match="in ADBC execute, not executemany"):
                cursor.executemany("SELECT id FROM pictures WHERE id = ?", [(1,), (2,)])

    def test_metadata(self, connection):
        found = connection.adbc_get_objects(depth="columns", table_name_filter="pict%").read_all().to_pylist()
        (catalog,) = found
        (schema,) = catalog["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert (catalog["catalog_name"], schema["db_schema_name"], table["table_name"]) == ("lance", "main", "pictures")
        assert [c["column_name"] for c in table["table_columns"]] == COLUMNS
        assert [c["xdbc_type_name"] for c in table["table_columns"]] == [
            "BIGINT",
            "VARCHAR",
            "UBIGINT",
            "TIMESTAMP WITH TIME ZONE",
            "LANCE_BLOB",
        ]
        assert [c["ordinal_position"] for c in table["table_columns"]] == [1, 2, 3, 4, 5]
        assert connection.adbc_get_table_schema("pictures").equals(answer(connection, "FROM pictures LIMIT 0").schema)
        assert connection.adbc_get_table_types() == ["TABLE"]
        info = connection.adbc_get_info()
        assert info["vendor_name"] == "flightblob"
        assert info["vendor_version"]
        assert info["vendor_arrow_version"]
        with pytest.raises(adbc_driver_manager.ProgrammingError):
            connection.adbc_get_table_schema("absent")
        # The driver asks no server for statistics.
        with pytest.raises(adbc_driver_manager.NotSupportedError):
            connection.adbc_get_statistic_names()

    def test_depths_of_objects(self, connection):
        def objects(depth, **filters):
            return connection.adbc_get_objects(depth=depth, **filters).read_all().to_pylist()

        assert objects("catalogs") == [{"catalog_name": "lance", "catalog_db_schemas": None}]
        (catalog,) = objects("db_schemas")
        assert catalog["catalog_db_schemas"] == [{"db_schema_name": "main", "db_schema_tables": None}]
        (catalog,) = objects("tables")
        (table,) = catalog["catalog_db_schemas"][0]["db_schema_tables"]
        assert (table["table_name"], table["table_type"], table["table_columns"]) == ("pictures", "TABLE", None)
        (catalog,) = objects("all", column_name_filter="i%")
        (table,) = catalog["catalog_db_schemas"][0]["db_schema_tables"]
        assert [c["column_name"] for c in table["table_columns"]] == ["id", "img"]
        for filters in (
            {"table_name_filter": "pict_re"},
            {"table_name_filter": "PICTURES"},
            {"table_name_filter": r"pict\ures_"},
            {"table_types_filter": ["VIEW"]},
        ):
            (catalog,) = objects("tables", **filters)
            assert catalog["catalog_db_schemas"][0]["db_schema_tables"] == [], filters
        for filters in ({"table_name_filter": "p%_s"}, {"table_types_filter": ["VIEW", "TABLE"]}):
            (catalog,) = objects("tables", **filters)
            assert len(catalog["catalog_db_schemas"][0]["db_schema_tables"]) == 1, filters
        assert objects("tables", catalog_filter="absent") == []
        (catalog,) = objects("tables", db_schema_filter="absent%")
        assert catalog["catalog_db_schemas"] == []

    @pytest.mark.parametrize("face", FACES)
    def test_blobs(self, pictures_server, face):
        with connected(pictures_server.uri, **{HEADER + "flightblob-blobs": face}) as connection:
            got = answer(connection, f"SELECT img FROM pictures WHERE id <> {LARGE} ORDER BY id")
            described = connection.adbc_get_table_schema("pictures")
        assert got.schema.field("img").type == described.field("img").type == FACES[face]
        found = got["img"].to_pylist()
        if face == "descriptor":
            found = [None if v is None else v["size"] for v in found]
        assert found == [shown(row, face) for row in range(LARGE)]

    def test_functions(self, connection):
        functions = "blob_kind(img) AS kind, blob_size(img) AS size, blob_range(img, 2, 5) AS part"
        got = answer(connection, f"SELECT {functions} FROM pictures WHERE id = 4")
        assert got.to_pylist() == [{"kind": "dedicated", "size": 700_000, "part": value(4)[2:7]}]

    def test_large_values(self, pictures_server, connection):
        """What exceeds the client's 16 MiB is refused with advice that works."""
        sql = f"SELECT img FROM pictures WHERE id = {LARGE}"
        with pytest.raises(adbc_driver_manager.InternalError, match="with_max_msg_size") as caught:
            answer(connection, sql)
        assert "blob_range" in str(caught.value)
        options = {
            adbc.DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 << 20),
            HEADER + "flightblob-max-message-bytes": str(64 << 20),
        }
        with connected(pictures_server.uri, **options) as wide:
            assert answer(wide, sql)["img"].to_pylist() == [value(LARGE)]
        half = f"SELECT blob_range(img, {16 << 20}, {1 << 20}) AS img FROM pictures WHERE id = {LARGE}"
        assert answer(connection, half)["img"].to_pylist() == [value(LARGE)[16 << 20 :]]

    @pytest.mark.parametrize(
        ("sql", "exception", "status"),
        [
            ("SELEC 1", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("SELECT absent FROM pictures", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("SELECT * FROM absent", adbc_driver_manager.ProgrammingError, "NOT_FOUND"),
            ("SELECT * FROM pictures ORDER BY img", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("SELECT blob_range(img, 9, 9) FROM pictures", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("SELECT 1; SELECT 2", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("CREATE VIEW v AS SELECT 1", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
            ("BEGIN", adbc_driver_manager.ProgrammingError, "INVALID_ARGUMENT"),
        ],
    )
    def test_errors(self, connection, sql, exception, status):
        with pytest.raises(exception, match=status):
            answer(connection, sql)
        assert answer(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]

    def test_cancel(self, pictures_server, connection):
        with connection.cursor() as cursor:
            timer = threading.Timer(0.5, cursor.adbc_cancel)
            began = time.monotonic()
            timer.start()
            with pytest.raises(adbc_driver_manager.OperationalError, match="CANCELLED"):
                cursor.execute(ENDLESS)
                cursor.fetchall()
            timer.join()
        assert time.monotonic() - began < 5
        check_calm(pictures_server)
        assert answer(connection, "SELECT 1 AS one").num_rows == 1

    def test_timeout_of_the_client(self, pictures_server):
        with connected(pictures_server.uri, **{adbc.DatabaseOptions.TIMEOUT_FETCH.value: "0.5"}) as connection:
            with pytest.raises(adbc_driver_manager.OperationalError, match="TIMEOUT"):
                answer(connection, ENDLESS)
        check_calm(pictures_server)

    def test_early_close(self, pictures_server, connection):
        with connection.cursor() as cursor:
            cursor.execute("SELECT range FROM range(1000000000)")
            assert cursor.fetchone() == (0,)
        check_calm(pictures_server)

    def test_partitions(self, connection):
        with connection.cursor() as cursor:
            parts, schema = cursor.adbc_execute_partitions("SELECT id FROM pictures")
            rows = []
            for part in parts:
                cursor.adbc_read_partition(part)
                rows += cursor.fetchall()
        assert schema.names == ["id"]
        assert sorted(rows) == [(i,) for i in range(len(SIZES))]


@pytest.fixture(scope="module")
def parts_server(binary):
    """A server that gives out even a small scan in several endpoints."""
    golden.make_link()
    root = golden.TABLES / "fragments_and_deletions"
    with Server(binary, root, external=[golden.LINK / "tables"], arguments=["--endpoint-rows", "8"]) as server:
        yield server


class TestEndpoints:
    SQL = 'SELECT * FROM "table"'

    def test_in_order(self, parts_server):
        """ADBC reads endpoints at the same time and gives them in their order."""
        with connected(parts_server.uri) as connection:
            with connection.cursor() as cursor:
                parts, _ = cursor.adbc_execute_partitions(self.SQL)
            assert len(parts) > 2
            whole = answer(connection, self.SQL)
        with fl.connect(parts_server.uri) as client:
            assert whole.equals(client.do_get(fl.Ticket(b'{"table":"table"}')).read_all().cast(whole.schema))

    def test_readers_of_their_own(self, parts_server):
        """Partitions are read by connections that know nothing of the first one, together or again."""
        with connected(parts_server.uri) as connection:
            whole = answer(connection, self.SQL)
            with connection.cursor() as cursor:
                parts, schema = cursor.adbc_execute_partitions(self.SQL)

        def read(part):
            with connected(parts_server.uri) as other, other.cursor() as cursor:
                cursor.adbc_read_partition(part)
                return cursor.fetch_arrow_table()

        for _ in range(2):
            with concurrent.futures.ThreadPoolExecutor(len(parts)) as pool:
                tables = list(pool.map(read, parts))
            assert all(t.num_rows >= 8 and t.schema.equals(schema) for t in tables)
            assert pa.concat_tables(tables).equals(whole)

    def test_all_by_one_ticket(self, parts_server):
        """A client that reads the first endpoint only is given no second one."""
        where = urllib.parse.urlparse(parts_server.uri)
        client = flightsql.FlightSQLClient(host=where.hostname, port=where.port, insecure=True)
        info = client.execute(self.SQL)
        assert len(info.endpoints) == 1
        with connected(parts_server.uri) as connection:
            assert client.do_get(info.endpoints[0].ticket).read_all().num_rows == answer(connection, self.SQL).num_rows
        client.close()


class TestIncremental:
    """PollFlightInfo, as ADBC uses it: partitions are handed out while the statement runs."""

    def test_partitions_before_the_end(self, connection):
        statement = adbc_driver_manager.AdbcStatement(connection.adbc_connection)
        with contextlib.closing(statement):
            statement.set_sql_query("SELECT range AS n FROM range(300000)")
            statement.set_options(**{adbc_driver_manager.StatementOptions.INCREMENTAL.value: "true"})
            rows, partitions = [], []
            while True:
                found, _, _ = statement.execute_partitions()
                if not found:
                    break
                partitions += found
        with connection.cursor() as cursor:
            for part in partitions:
                cursor.adbc_read_partition(part)
                rows += cursor.fetch_arrow_table()["n"].to_pylist()
        assert sorted(rows) == list(range(300000))

    def test_failures(self, connection):
        statement = adbc_driver_manager.AdbcStatement(connection.adbc_connection)
        with contextlib.closing(statement):
            statement.set_sql_query("SELECT CAST('x' || range AS INT) FROM range(10)")
            statement.set_options(**{adbc_driver_manager.StatementOptions.INCREMENTAL.value: "true"})
            with pytest.raises(adbc_driver_manager.ProgrammingError, match=r"INVALID_ARGUMENT.*x0"):
                while statement.execute_partitions()[0]:
                    pass


def test_pyarrow(pictures_server):
    """Plain Flight, without SQL: paths, tickets, actions."""
    with fl.connect(pictures_server.uri) as client:
        info = client.get_flight_info(fl.FlightDescriptor.for_path("pictures"))
        assert info.total_records == len(SIZES)
        got = client.do_get(fl.Ticket(b'{"table":"pictures","columns":["id","img"],"rows":[4,0]}')).read_all()
        assert got.to_pylist() == [{"id": 4, "img": value(4)}, {"id": 0, "img": value(0)}]
        assert next(f.descriptor.path for f in client.list_flights())[-1] == b"pictures"
        with pytest.raises(pa.ArrowKeyError) as caught:
            client.do_get(fl.Ticket(b'{"table":"absent"}')).read_all()
        assert "absent" in reason(caught.value)
        whole = client.do_get(fl.Ticket(b'{"table":"pictures"}')).read_all()
        assert whole["img"].to_pylist() == [value(i) for i in range(len(SIZES))]
        for face in FACES:
            options = fl.FlightCallOptions(headers=[(b"flightblob-blobs", face.encode())])
            got = client.do_get(fl.Ticket(b'{"table":"pictures","limit":4}'), options).read_all()["img"].to_pylist()
            if face == "descriptor":
                got = [None if v is None else v["size"] for v in got]
            assert got == [shown(row, face) for row in range(4)]
        reader = client.do_get(fl.Ticket(b'{"table":"pictures","batch_bytes":1024}'))
        reader.read_chunk()
        reader.cancel()
        check_calm(pictures_server)
        assert client.do_get(fl.Ticket(b'{"table":"pictures","columns":["id"]}')).read_all().num_rows == len(SIZES)
        # Its shake of hands is answered, though nobody is asked for a name.
        assert client.authenticate_basic_token("user", "password")[0] == b"authorization"


def test_pandas(pictures_server, connection):
    got = pandas.read_sql(f"SELECT id, serial, img FROM pictures WHERE id < {LARGE} ORDER BY id", connection)
    assert got["id"].tolist() == list(range(LARGE))
    assert got["serial"].dtype == "uint64"
    assert got["serial"][0] == UNSIGNED
    assert got["img"].tolist() == [value(i) for i in range(LARGE)]
    # NULL makes floats of integers.
    assert pandas.read_sql("SELECT CASE WHEN id < 3 THEN id END AS n FROM pictures", connection)["n"].dtype == "float64"
    # Its ADBC reader takes no parameters; ADBC's own cursor does.
    with pytest.raises(NotImplementedError):
        pandas.read_sql("SELECT id FROM pictures WHERE id > ?", connection, params=(3,))
    assert answer(connection, "SELECT id FROM pictures WHERE id > ?", (3,)).to_pandas()["id"].tolist() == [4, 5]
    with pytest.raises(Exception, match="absent"):
        pandas.read_sql("SELECT absent FROM pictures", connection)
    with pytest.raises(Exception, match="with_max_msg_size"):
        pandas.read_sql("SELECT img FROM pictures", connection)
    for face in ("descriptor", "logical"):
        with connected(pictures_server.uri, **{HEADER + "flightblob-blobs": face}) as other:
            found = pandas.read_sql("SELECT img FROM pictures WHERE id = 1", other)["img"][0]
            assert (found["size"] if face == "descriptor" else found) == shown(1, face)
            # A table by its name: all columns.
            if face == "descriptor":
                assert list(pandas.read_sql("pictures", other).columns) == COLUMNS
                assert len(pandas.read_sql_table("pictures", other)) == len(SIZES)


def test_polars(pictures_server, connection):
    got = polars.read_database(f"SELECT id, serial, img FROM pictures WHERE id < {LARGE} ORDER BY id", connection)
    assert got.schema["serial"] == polars.UInt64
    assert got["serial"][0] == UNSIGNED
    assert got["img"].to_list() == [value(i) for i in range(LARGE)]
    sql = "SELECT id FROM pictures WHERE id > ? ORDER BY id"
    got = polars.read_database(sql, connection, execute_options={"parameters": [3]})
    assert got["id"].to_list() == [4, 5]
    several = pa.record_batch([pa.array([3, 4])], names=["0"])
    got = polars.read_database(sql, connection, execute_options={"parameters": several})
    assert got["id"].to_list() == [4, 5, 5]
    batches = polars.read_database("SELECT range AS n FROM range(5000)", connection, iter_batches=True, batch_size=2048)
    assert sum(len(b) for b in batches) == 5000
    uri = f"flightsql://{urllib.parse.urlparse(pictures_server.uri).netloc}?transport=tcp"
    assert polars.read_database_uri("SELECT 1 AS one", uri, engine="adbc")["one"].to_list() == [1]
    with pytest.raises(Exception, match="absent"):
        polars.read_database("SELECT absent FROM pictures", connection)
    with pytest.raises(Exception, match="with_max_msg_size"):
        polars.read_database("SELECT img FROM pictures", connection)
    for face in ("descriptor", "logical"):
        with connected(pictures_server.uri, **{HEADER + "flightblob-blobs": face}) as other:
            got = polars.read_database("SELECT img FROM pictures WHERE id = 1", other)
            (found,) = got.to_arrow()["img"].to_pylist()
            assert (found["size"] if face == "descriptor" else found) == shown(1, face)


def alchemy(server, **more):
    query = urllib.parse.urlencode({"insecure": "true", "feature-sqlalchemy-prepared-statements": "on", **more})
    return sqlalchemy.create_engine(f"datafusion+flightsql://{urllib.parse.urlparse(server.uri).netloc}?{query}")


class TestSQLAlchemy:
    @pytest.fixture
    def engine(self, pictures_server):
        engine = alchemy(pictures_server)
        yield engine
        engine.dispose()

    @pytest.fixture
    def table(self, engine):
        return sqlalchemy.Table("pictures", sqlalchemy.MetaData(), autoload_with=engine)

    def test_metadata(self, engine):
        inspected = sqlalchemy.inspect(engine)
        assert inspected.get_schema_names() == ["main"]
        assert inspected.get_table_names() == ["pictures"]
        assert inspected.has_table("pictures")
        assert not inspected.has_table("absent")
        columns = {c["name"]: c for c in inspected.get_columns("pictures")}
        assert list(columns) == COLUMNS
        assert [c["nullable"] for c in columns.values()] == [False, True, True, True, True]
        assert isinstance(columns["id"]["type"], sqlalchemy.BIGINT)
        assert isinstance(columns["img"]["type"], sqlalchemy.BLOB)

    def test_query(self, engine, table):
        with engine.connect() as connection:
            wanted = sqlalchemy.select(table.c.id, table.c.img).where(table.c.id.in_([1, 4])).order_by(table.c.id)
            assert connection.execute(wanted).fetchall() == [(1, value(1)), (4, value(4))]
            count = sqlalchemy.select(sqlalchemy.func.count()).select_from(table)
            assert connection.execute(count).scalar() == len(SIZES)
            with pytest.raises(Exception, match="absent"):
                connection.execute(sqlalchemy.text("SELECT absent FROM pictures"))

    def test_parameters(self, engine, table, pictures_server):
        text = sqlalchemy.text("SELECT id FROM pictures WHERE id > :least ORDER BY id")
        with engine.connect() as connection:
            assert connection.execute(text, {"least": 3}).fetchall() == [(4,), (5,)]
            # flightsql-dbapi makes no parameter of a time; a text is compared as the column's type.
            later = sqlalchemy.text("SELECT count(*) FROM pictures WHERE taken > :when")
            assert connection.execute(later, {"when": "2026-01-01"}).scalar() == len(SIZES)
        # Without the feature, the dialect writes values into the text, and NULL for those that come with execute.
        plain = alchemy(pictures_server, **{"feature-sqlalchemy-prepared-statements": "off"})
        with plain.connect() as connection:
            assert connection.execute(text, {"least": 3}).fetchall() == []
            assert connection.execute(text.bindparams(least=3)).fetchall() == [(4,), (5,)]
        plain.dispose()

    def test_large_values(self, engine, table):
        with engine.connect() as connection:
            wanted = sqlalchemy.select(table.c.img).where(table.c.id == LARGE)
            assert connection.execute(wanted).fetchall() == [(value(LARGE),)]

    @pytest.mark.parametrize("face", ["descriptor", "logical"])
    def test_faces(self, pictures_server, face):
        """Reflection takes structs for BLOB; without a type they come as dictionaries."""
        engine = alchemy(pictures_server, **{"flightblob-blobs": face})
        img = sqlalchemy.Column("img", sqlalchemy.types.NullType)
        table = sqlalchemy.Table("pictures", sqlalchemy.MetaData(), img, autoload_with=engine)
        with engine.connect() as connection:
            found = connection.execute(sqlalchemy.select(table.c.img).where(table.c.id == 1)).scalar()
            assert (found["size"] if face == "descriptor" else found) == shown(1, face)
        engine.dispose()


def test_names_are_patterns(binary, tmp_path):
    """flightsql-dbapi asks for a table by a pattern and takes the first that comes; ADBC looks for the name."""
    for name in ("aXb", "a_b"):
        lance.write_dataset(pa.table({name: [1]}), str(tmp_path / f"{name}.lance"), data_storage_version="2.2")
    with Server(binary, tmp_path) as server:
        engine = alchemy(server)
        assert [c["name"] for c in sqlalchemy.inspect(engine).get_columns("a_b")] == ["aXb"]
        engine.dispose()
        with connected(server.uri) as connection:
            assert connection.adbc_get_table_schema("a_b").names == ["a_b"]


def test_flightsql_dbapi(pictures_server):
    where = urllib.parse.urlparse(pictures_server.uri)
    client = flightsql.FlightSQLClient(host=where.hostname, port=where.port, insecure=True)
    with contextlib.closing(flightsql.dbapi.connect(client)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, img FROM pictures WHERE id = 1")
        assert [tuple(row) for row in cursor.fetchall()] == [(1, value(1))]
        assert [column[0] for column in cursor.description] == ["id", "img"]
        cursor.execute("SELECT id FROM pictures WHERE id > ? AND id < ? ORDER BY id", [3, 6.0])
        assert [row[0] for row in cursor.fetchall()] == [4, 5]
        cursor.execute("SELECT img FROM pictures WHERE id = ?", [LARGE])
        assert [row[0] for row in cursor.fetchall()] == [value(LARGE)]
        assert connection.flightsql_get_table_names() == ["pictures"]
        assert connection.flightsql_get_schema_names() == ["main"]
        assert connection.flightsql_get_primary_keys("pictures") == []
        assert [c["name"] for c in connection.flightsql_get_columns("pictures")] == COLUMNS
        with pytest.raises(Exception, match="absent"):
            cursor.execute("SELECT * FROM absent")
    for face in ("descriptor", "logical"):
        client = flightsql.FlightSQLClient(
            host=where.hostname, port=where.port, insecure=True, metadata={"flightblob-blobs": face}
        )
        with contextlib.closing(flightsql.dbapi.connect(client)) as connection:
            cursor = connection.execute("SELECT img FROM pictures WHERE id = 1")
            ((found,),) = cursor.fetchall()
            assert (found["size"] if face == "descriptor" else found) == shown(1, face)


def test_command_line(binary, pictures_server):
    """`flightblob query`, which is arrow-go's own client."""

    def command(sql, *arguments):
        return [binary, "query", "--connect", pictures_server.uri, *arguments, sql]

    sql = f"SELECT id, img FROM pictures WHERE id IN (1, {LARGE}) ORDER BY id"
    done = subprocess.run(command(sql, "--format", "arrow"), capture_output=True, timeout=60, check=True)
    got = pa.ipc.open_stream(done.stdout).read_all()
    assert got.to_pylist() == [{"id": i, "img": value(i)} for i in (1, LARGE)]
    done = subprocess.run(command(sql, "--format", "json"), capture_output=True, text=True, timeout=60, check=True)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [base64.b64decode(row["img"]) for row in rows] == [value(1), value(LARGE)]
    done = subprocess.run(command("SELECT absent FROM pictures"), capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "absent" in done.stderr

    endless = subprocess.Popen(command(ENDLESS), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(0.5)
    endless.send_signal(signal.SIGINT)
    out, err = endless.communicate(timeout=5)
    assert (endless.returncode, out, err) == (1, "", "flightblob: query: interrupted\n")
    check_calm(pictures_server)


def test_reads_what_is_asked(pictures_server):
    """The sheet's promise, by what the server counts: sizes and kinds read no payload, a range reads the range."""
    with fl.connect(pictures_server.uri) as client, connected(pictures_server.uri) as connection:

        def payload():
            (answered,) = client.do_action(fl.Action("describe", b'{"table":"pictures"}'))
            objects = json.loads(answered.body.to_pybytes())["store"]["objects"]
            return sum(o["bytes"] for o in objects if o["object"].endswith(".blob"))

        before = payload()
        answer(connection, "SELECT blob_size(img), blob_kind(img) FROM pictures ORDER BY blob_size(img) DESC")
        assert payload() == before
        answer(connection, "SELECT id, blob_range(img, 5, 100) FROM pictures WHERE id = 4")
        assert payload() == before + 100
