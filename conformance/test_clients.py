"""The clients of docs/clients.md, called as their users call them."""

import base64
import contextlib
import datetime
import json
import os
import pathlib
import shutil
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
from referee import blobs, stock
from referee.client import reason
from referee.server import Server
from test_readme import BLOCK, Shell

SIZES = [10, 3000, 0, None, 700_000, 17 << 20]  # inline, packed, empty, null, dedicated, more than ADBC takes
LARGE = len(SIZES) - 1
WHEN = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc)
UNSIGNED = (1 << 63) + 1
FACES = {
    "bytes": pa.large_binary(),
    "descriptor": pa.struct(
        [
            pa.field("kind", pa.uint8(), False),
            pa.field("position", pa.uint64(), False),
            pa.field("size", pa.uint64(), False),
            pa.field("blob_id", pa.uint32(), False),
            pa.field("blob_uri", pa.utf8(), False),
        ]
    ),
    "logical": blobs.COMPLETE,
}
JDBC = "org/apache/arrow/flight-sql-jdbc-driver/18.3.0/flight-sql-jdbc-driver-18.3.0.jar"
# Minutes of work for any engine, so that what ends early was ended.
ENDLESS = "SELECT count(*) FROM range(100000000) a, range(1000000) b WHERE (a.range * b.range) % 7 = 3"


def value(row):
    return None if SIZES[row] is None else stock.payload(row, SIZES[row])


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    """A server over one table of pictures that pylance wrote."""
    root = tmp_path_factory.mktemp("clients")
    metadata = {
        "lance-encoding:blob-inline-size-threshold": "64",
        "lance-encoding:blob-dedicated-size-threshold": "65536",
    }
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), False),
            pa.field("name", pa.utf8()),
            pa.field("serial", pa.uint64()),
            pa.field("taken", pa.timestamp("us", "UTC")),
            blobs.blob("img", complete=False, metadata=metadata),
        ]
    )
    rows = [
        {
            "id": i,
            "name": f"picture {i}",
            "serial": UNSIGNED,
            "taken": WHEN,
            "img": None if value(i) is None else {"data": value(i)},
        }
        for i in range(len(SIZES))
    ]
    lance.write_dataset(pa.Table.from_pylist(rows, schema), str(root / "pictures.lance"), data_storage_version="2.2")
    with Server(binary, root) as server:
        yield server


@pytest.fixture
def connection(server):
    with connected(server.uri) as connection:
        yield connection


@contextlib.contextmanager
def connected(uri, **options):
    # Autocommit, since the server has no transactions: otherwise connect() warns.
    with dbapi.connect(uri, db_kwargs=options, autocommit=True) as connection:
        yield connection


def answer(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


class TestADBC:
    def test_query(self, connection):
        got = answer(connection, "SELECT id, name, serial, taken FROM pictures ORDER BY id LIMIT 1")
        assert got.to_pylist() == [{"id": 0, "name": "picture 0", "serial": UNSIGNED, "taken": WHEN}]
        with connection.cursor() as cursor:
            cursor.execute("SELECT id FROM pictures ORDER BY id")
            assert cursor.fetchone() == (0,)
            assert cursor.fetchmany(2) == [(1,), (2,)]

    def test_parameters(self, connection):
        sql = "SELECT id FROM pictures WHERE id > ? AND name <> ? ORDER BY id"
        assert answer(connection, sql, (2, "picture 4"))["id"].to_pylist() == [3, 5]
        assert answer(connection, sql, (2, None))["id"].to_pylist() == []
        with connection.cursor() as cursor:
            cursor.adbc_prepare(sql)
            assert cursor.description is None

    def test_metadata(self, connection):
        found = connection.adbc_get_objects(depth="columns", table_name_filter="pict%").read_all().to_pylist()
        (catalog,) = found
        (schema,) = catalog["catalog_db_schemas"]
        (table,) = schema["db_schema_tables"]
        assert (catalog["catalog_name"], schema["db_schema_name"], table["table_name"]) == ("lance", "main", "pictures")
        assert [c["column_name"] for c in table["table_columns"]] == ["id", "name", "serial", "taken", "img"]
        assert connection.adbc_get_table_schema("pictures").equals(answer(connection, "FROM pictures LIMIT 0").schema)
        assert connection.adbc_get_table_types() == ["TABLE"]
        assert connection.adbc_get_info()["vendor_name"] == "flightblob"
        with pytest.raises(adbc_driver_manager.ProgrammingError):
            connection.adbc_get_table_schema("absent")

    @pytest.mark.parametrize("face", FACES)
    def test_blobs(self, server, face):
        header = adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "flightblob-blobs"
        with connected(server.uri, **{header: face}) as connection:
            got = answer(connection, f"SELECT img FROM pictures WHERE id <> {LARGE} ORDER BY id")
        assert got.schema.field("img").type == FACES[face]
        for row, found in enumerate(got["img"].to_pylist()):
            if value(row) is None:
                assert found is None
            elif face == "bytes":
                assert found == value(row)
            elif face == "descriptor":
                assert found["size"] == SIZES[row]
            else:
                assert found == {"data": value(row), "uri": None, "position": None, "size": None}

    def test_functions(self, connection):
        functions = "blob_kind(img) AS kind, blob_size(img) AS size, blob_range(img, 2, 5) AS part"
        got = answer(connection, f"SELECT {functions} FROM pictures WHERE id = 4")
        assert got.to_pylist() == [{"kind": "dedicated", "size": 700_000, "part": value(4)[2:7]}]

    def test_large_values(self, server, connection):
        """What exceeds the client's 16 MiB is refused with advice that works."""
        sql = f"SELECT img FROM pictures WHERE id = {LARGE}"
        with pytest.raises(adbc_driver_manager.Error, match="with_max_msg_size") as caught:
            answer(connection, sql)
        assert "blob_range" in str(caught.value)
        options = {
            adbc.DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 << 20),
            adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "flightblob-max-message-bytes": str(64 << 20),
        }
        with connected(server.uri, **options) as wide:
            assert answer(wide, sql)["img"].to_pylist() == [value(LARGE)]
        half = f"SELECT blob_range(img, {16 << 20}, {1 << 20}) AS img FROM pictures WHERE id = {LARGE}"
        assert answer(connection, half)["img"].to_pylist() == [value(LARGE)[16 << 20 :]]

    def test_errors(self, connection):
        for sql, status in [
            ("SELEC 1", "INVALID_ARGUMENT"),
            ("SELECT absent FROM pictures", "INVALID_ARGUMENT"),
            ("SELECT * FROM absent", "NOT_FOUND"),
            ("SELECT * FROM pictures ORDER BY img", "INVALID_ARGUMENT"),
        ]:
            with pytest.raises(adbc_driver_manager.ProgrammingError, match=status):
                answer(connection, sql)
        assert answer(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]

    def test_cancel(self, connection):
        with connection.cursor() as cursor:
            timer = threading.Timer(0.5, cursor.adbc_cancel)
            began = time.monotonic()
            timer.start()
            with pytest.raises(adbc_driver_manager.OperationalError, match="CANCELLED"):
                cursor.execute(ENDLESS)
                cursor.fetchall()
            timer.join()
        assert time.monotonic() - began < 5
        assert answer(connection, "SELECT 1 AS one").num_rows == 1

    def test_partitions(self, connection):
        with connection.cursor() as cursor:
            parts, schema = cursor.adbc_execute_partitions("SELECT id FROM pictures")
            rows = []
            for part in parts:
                cursor.adbc_read_partition(part)
                rows += cursor.fetchall()
        assert schema.names == ["id"]
        assert sorted(rows) == [(i,) for i in range(len(SIZES))]


def test_pyarrow(server):
    """Plain Flight, without SQL: paths, tickets, actions."""
    with fl.connect(server.uri) as client:
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
        reader = client.do_get(fl.Ticket(b'{"table":"pictures","batch_bytes":1024}'))
        reader.read_chunk()
        reader.cancel()
        assert client.do_get(fl.Ticket(b'{"table":"pictures","columns":["id"]}')).read_all().num_rows == len(SIZES)


def test_pandas(connection):
    got = pandas.read_sql(f"SELECT id, serial, img FROM pictures WHERE id < {LARGE} ORDER BY id", connection)
    assert got["id"].tolist() == list(range(LARGE))
    assert got["serial"].dtype == "uint64"
    assert got["serial"][0] == UNSIGNED
    assert got["img"].tolist() == [value(i) for i in range(LARGE)]
    # Its ADBC reader takes no parameters; ADBC's own cursor does.
    with pytest.raises(NotImplementedError):
        pandas.read_sql("SELECT id FROM pictures WHERE id > ?", connection, params=(3,))
    assert answer(connection, "SELECT id FROM pictures WHERE id > ?", (3,)).to_pandas()["id"].tolist() == [4, 5]
    with pytest.raises(Exception, match="absent"):
        pandas.read_sql("SELECT absent FROM pictures", connection)


def test_polars(server, connection):
    got = polars.read_database(f"SELECT id, serial, img FROM pictures WHERE id < {LARGE} ORDER BY id", connection)
    assert got.schema["serial"] == polars.UInt64
    assert got["serial"][0] == UNSIGNED
    assert got["img"].to_list() == [value(i) for i in range(LARGE)]
    sql = "SELECT id FROM pictures WHERE id > ? ORDER BY id"
    got = polars.read_database(sql, connection, execute_options={"parameters": [3]})
    assert got["id"].to_list() == [4, 5]
    uri = f"flightsql://{urllib.parse.urlparse(server.uri).netloc}?transport=tcp"
    assert polars.read_database_uri("SELECT 1 AS one", uri, engine="adbc")["one"].to_list() == [1]
    with pytest.raises(Exception, match="absent"):
        polars.read_database("SELECT absent FROM pictures", connection)


def test_sqlalchemy(server):
    engine = sqlalchemy.create_engine(
        f"datafusion+flightsql://{urllib.parse.urlparse(server.uri).netloc}?insecure=true"
    )
    inspected = sqlalchemy.inspect(engine)
    assert inspected.get_table_names() == ["pictures"]
    columns = {c["name"]: c["type"] for c in inspected.get_columns("pictures")}
    assert list(columns) == ["id", "name", "serial", "taken", "img"]
    assert isinstance(columns["img"], sqlalchemy.BLOB)
    pictures = sqlalchemy.Table("pictures", sqlalchemy.MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        wanted = sqlalchemy.select(pictures.c.id, pictures.c.img).where(pictures.c.id.in_([1, 4]))
        assert connection.execute(wanted.order_by(pictures.c.id)).fetchall() == [(1, value(1)), (4, value(4))]
        # The dialect writes a text's parameters into it before it knows those that come with execute: NULL.
        text = sqlalchemy.text("SELECT id FROM pictures WHERE id > :least")
        assert connection.execute(text, {"least": 3}).fetchall() == []
        text = sqlalchemy.text("SELECT id FROM pictures WHERE id > :least ORDER BY id").bindparams(least=3)
        assert connection.execute(text).fetchall() == [(4,), (5,)]
        with pytest.raises(Exception, match="absent"):
            connection.execute(sqlalchemy.text("SELECT absent FROM pictures"))
    engine.dispose()


def test_flightsql_dbapi(server):
    where = urllib.parse.urlparse(server.uri)
    client = flightsql.FlightSQLClient(host=where.hostname, port=where.port, insecure=True)
    with contextlib.closing(flightsql.dbapi.connect(client)) as connection:
        cursor = connection.cursor()
        cursor.execute("SELECT id, img FROM pictures WHERE id = 1")
        assert [tuple(row) for row in cursor.fetchall()] == [(1, value(1))]
        assert [column[0] for column in cursor.description] == ["id", "img"]
        cursor.execute("SELECT id FROM pictures WHERE id > ? AND id < ? ORDER BY id", [3, 6.0])
        assert [row[0] for row in cursor.fetchall()] == [4, 5]
        with pytest.raises(Exception, match="absent"):
            cursor.execute("SELECT * FROM absent")


def test_command_line(binary, server):
    """`flightblob query`, which is arrow-go's own client."""

    def command(sql, *arguments):
        return [binary, "query", "--connect", server.uri, *arguments, sql]

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


def test_reads_what_is_asked(server):
    """The sheet's promise, by what the server counts: sizes and kinds read no payload, a range reads the range."""
    with fl.connect(server.uri) as client, connected(server.uri) as connection:

        def payload():
            (answered,) = client.do_action(fl.Action("describe", b'{"table":"pictures"}'))
            objects = json.loads(answered.body.to_pybytes())["store"]["objects"]
            return sum(o["bytes"] for o in objects if o["object"].endswith(".blob"))

        before = payload()
        answer(connection, "SELECT blob_size(img), blob_kind(img) FROM pictures ORDER BY blob_size(img) DESC")
        assert payload() == before
        answer(connection, "SELECT id, blob_range(img, 5, 100) FROM pictures WHERE id = 4")
        assert payload() == before + 100


def test_documentation(binary, tmp_path):
    """The programs of docs/clients.md, as test_readme.py runs those of README.md."""
    blocks = BLOCK.findall((pathlib.Path(__file__).resolve().parent.parent / "docs" / "clients.md").read_text())
    assert [kind for kind, _, _ in blocks].count("run") >= 7
    shell = Shell(tmp_path, binary)
    try:
        for kind, language, text in blocks:
            if kind == "run":
                shell.run(language, text)
            else:
                getattr(shell, kind)(text)
    finally:
        shell.stop()


PROGRAM = """
import java.sql.*;
import java.util.*;

public class Clients {
  static void check(boolean ok, String what) { if (!ok) throw new AssertionError(what); }

  public static void main(String[] args) throws Exception {
    String url = "jdbc:arrow-flight-sql://" + args[0] + "?useEncryption=false";
    try (Connection c = DriverManager.getConnection(url)) {
      String sql = "SELECT id, name, img FROM pictures WHERE id > ? ORDER BY id LIMIT 1";
      try (PreparedStatement s = c.prepareStatement(sql)) {
        s.setLong(1, 0);
        ResultSet r = s.executeQuery();
        check(r.next() && r.getLong(1) == 1 && r.getString(2).equals("picture 1"), "row");
        check(r.getBytes(3).length == 3000 && !r.next(), "bytes");
      }
      try (ResultSet r = c.getMetaData().getColumns(null, null, "pictures", "%")) {
        List<String> names = new ArrayList<>();
        while (r.next()) names.add(r.getString("COLUMN_NAME"));
        check(names.equals(List.of("id", "name", "serial", "taken", "img")), "columns " + names);
      }
      try (Statement s = c.createStatement()) {
        ResultSet r = s.executeQuery("SELECT 255::UTINYINT, serial, serial::DECIMAL(20, 0) FROM pictures LIMIT 1");
        check(r.next() && r.getLong(1) == -1 && r.getLong(2) < 0, "unsigned values wrap in the driver");
        check(r.getBigDecimal(3).toPlainString().equals("9223372036854775809"), "as decimal");
        try { s.executeQuery("SELECT absent FROM pictures"); check(false, "no error"); }
        catch (SQLException e) { check(e.getMessage().contains("absent"), e.getMessage()); }
      }
    }
    url += "&flightblob-profile=bi";
    try (Connection c = DriverManager.getConnection(url); Statement s = c.createStatement()) {
      ResultSet r = s.executeQuery("SELECT 255::UTINYINT, blob_size(img) FROM pictures WHERE id = 1");
      check(r.next() && r.getLong(1) == 255 && r.getLong(2) == 3000, "signed in profile bi");
      try { s.executeQuery("SELECT serial FROM pictures").next(); check(false, "no error"); }
      catch (SQLException e) { check(e.toString().contains("bi profile"), e.toString()); }
    }
    System.out.println("done");
  }
}
"""


def test_jdbc(server, tmp_path):
    """The driver is no package of ours: the test runs where Java and the jar are, and says so where they are not."""
    jar = pathlib.Path(os.environ.get("FLIGHT_SQL_JDBC_JAR", pathlib.Path.home() / ".m2/repository" / JDBC))
    if not shutil.which("java") or not jar.is_file():
        pytest.skip("needs java and FLIGHT_SQL_JDBC_JAR, the path of flight-sql-jdbc-driver-18.3.0.jar")
    (tmp_path / "Clients.java").write_text(PROGRAM)
    done = subprocess.run(
        [
            "java",
            "--add-opens=java.base/java.nio=ALL-UNNAMED",
            "-cp",
            str(jar),
            "Clients.java",
            server.uri.split("//")[1],
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert done.stdout.strip().endswith("done")
