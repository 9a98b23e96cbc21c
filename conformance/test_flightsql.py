"""What Flight SQL promises to any client, asked by ADBC and by raw commands over pyarrow."""

import contextlib
import datetime
import itertools

import adbc_driver_flightsql as adbc
import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import flightsql.flightsql_pb2 as messages
import lance
import numpy as np
import polars
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from google.protobuf import any_pb2
from google.protobuf.unknown_fields import UnknownFieldSet
from referee import golden, rpc
from referee.client import reason
from referee.pictures import ENDLESS, LARGE, SIZES, value
from referee.server import Server

HEADER = adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value
FACES = ["bytes", "descriptor", "logical"]


def packed(message):
    holder = any_pb2.Any()
    holder.Pack(message)
    return holder.SerializeToString()


def unpacked(data, kind):
    holder = any_pb2.Any.FromString(data)
    message = kind()
    assert holder.Unpack(message), holder.type_url
    return message


def descriptor(message):
    return fl.FlightDescriptor.for_command(packed(message))


def headers(**given):
    return fl.FlightCallOptions(headers=[(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()])


def prepare(client, text, options=None):
    """CreatePreparedStatement, as the protocol has it."""
    action = fl.Action("CreatePreparedStatement", packed(messages.ActionCreatePreparedStatementRequest(query=text)))
    (result,) = client.do_action(action, options)
    return unpacked(result.body.to_pybytes(), messages.ActionCreatePreparedStatementResult)


def is_update(made):
    """The field of that name, which flightsql-dbapi's messages do not know; None when it is not said."""
    return {f.field_number: f.data for f in UnknownFieldSet(made)}.get(4)


def read(client, info, options=None):
    """All endpoints in order, each with the schema that was announced."""
    tables = [client.do_get(e.ticket, options).read_all() for e in info.endpoints]
    for table in tables:
        assert table.schema.equals(info.schema)
    return pa.concat_tables(tables)


def connected(uri, **options):
    return contextlib.closing(dbapi.connect(uri, db_kwargs=options, autocommit=True))


def answer(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetch_arrow_table()


@pytest.mark.parametrize("profile", ["", "bi"])
@pytest.mark.parametrize("face", FACES)
def test_one_schema(fixtures_server, face, profile):
    """GetFlightInfo, GetSchema, prepare, GetTables and the stream show one schema, of every golden table."""
    options = headers(flightblob_blobs=face, **({"flightblob_profile": profile} if profile else {}))
    with fl.connect(fixtures_server.uri) as client:
        listed = {}
        tables = client.get_flight_info(descriptor(messages.CommandGetTables(include_schema=True)), options)
        for row in read(client, tables, options).to_pylist():
            schema = pa.ipc.read_schema(pa.py_buffer(row["table_schema"]))
            if b"error" not in (schema.metadata or {}):
                listed[row["catalog_name"], row["db_schema_name"], row["table_name"]] = schema
        assert len(listed) > 40
        # Plain scans take another way than what the engine computes.
        for name, how in itertools.product(listed, ["", " LIMIT 0"]):
            schema = listed[name]
            text = "FROM " + ".".join(f'"{part}"' for part in name) + how
            command = descriptor(messages.CommandStatementQuery(query=text))
            info = client.get_flight_info(command, options)
            made = prepare(client, text, options)
            assert is_update(made) == 0
            stream = client.do_get(info.endpoints[0].ticket, options)
            for what, other in {
                "GetSchema": client.get_schema(command, options).schema,
                "prepare": pa.ipc.read_schema(pa.py_buffer(made.dataset_schema)),
                "stream": stream.schema,
            }.items():
                assert info.schema.equals(other, check_metadata=True), f"{name}: {what}: {other}, not {info.schema}"
            stream.cancel()
            # GetTables says more of each column, in its metadata.
            assert info.schema.equals(schema), f"{name}: GetTables: {schema}, not {info.schema}"
            for field in schema:
                about = {k: v for k, v in field.metadata.items() if k.startswith(b"ARROW:FLIGHT:SQL:")}
                assert about[b"ARROW:FLIGHT:SQL:TABLE_NAME"] == name[2].encode()
                assert about[b"ARROW:FLIGHT:SQL:TYPE_NAME"]


def test_prepared_by_hand(pictures_server):
    """Prepare, bind, execute, close, as flight-sql.md section 5 tells it."""
    with fl.connect(pictures_server.uri) as client:
        made = prepare(client, "SELECT id FROM pictures WHERE id >= ? ORDER BY id")
        assert pa.ipc.read_schema(pa.py_buffer(made.parameter_schema)).types == [pa.int64()]
        command = descriptor(
            messages.CommandPreparedStatementQuery(prepared_statement_handle=made.prepared_statement_handle)
        )
        with pytest.raises(pa.ArrowInvalid, match=r"1 parameters?, and none is bound"):
            client.get_flight_info(command)

        def bind(table):
            writer, reader = client.do_put(command, table.schema)
            writer.write_table(table)
            writer.done_writing()
            result = reader.read().to_pybytes()  # DoPutPreparedStatementResult
            writer.close()
            assert result == rpc.field(1, made.prepared_statement_handle)

        # By position, whatever the name; of any type that can be cast.
        for column in (pa.array([4, 5]), pa.array([4.0, 5.0]), pa.array(["4", "5"]), pa.array([4, 5], pa.uint8())):
            bind(pa.table({"anything": column}))
            assert read(client, client.get_flight_info(command))["id"].to_pylist() == [4, 5, 5]
        bind(pa.table({"x": pa.nulls(2)}))
        assert read(client, client.get_flight_info(command)).num_rows == 0
        bind(pa.table({"x": pa.array([], pa.int64())}))
        assert read(client, client.get_flight_info(command)).num_rows == 0
        # Its tickets are read as often as one likes, also when the statement is closed.
        bind(pa.table({"x": pa.array([5])}))
        info = client.get_flight_info(command)
        close = messages.ActionClosePreparedStatementRequest(prepared_statement_handle=made.prepared_statement_handle)
        list(client.do_action(fl.Action("ClosePreparedStatement", packed(close))))
        assert read(client, info)["id"].to_pylist() == read(client, info)["id"].to_pylist() == [5]
        with pytest.raises(pa.ArrowKeyError, match="Prepare it again"):
            client.get_flight_info(command)


def test_update_path(pictures_server):
    """Statements that write are known as such, before and after they are refused."""
    with fl.connect(pictures_server.uri) as client:
        made = prepare(client, "DELETE FROM pictures WHERE id = ?")
        assert is_update(made) == 1
        assert made.dataset_schema == b""
        command = messages.CommandPreparedStatementQuery(prepared_statement_handle=made.prepared_statement_handle)
        with pytest.raises(pa.ArrowInvalid, match="DELETE"):
            client.get_flight_info(descriptor(command))


def test_server_information(pictures_server):
    with fl.connect(pictures_server.uri) as client:

        def ask(*ids):
            return read(client, client.get_flight_info(descriptor(messages.CommandGetSqlInfo(info=ids)))).to_pylist()

        everything = ask()
        ids = [row["info_name"] for row in everything]
        assert ids == sorted(set(ids))
        assert set(ids) >= {*range(9), *range(500, 577)}
        # Unknown ids are left out, repeated ones answered once.
        assert [row["info_name"] for row in ask(504, 4711, 0, 504)] == [0, 504]
        found = {row["info_name"]: row["value"] for row in everything}
        assert (found[0], found[504], found[513]) == ("flightblob", '"', "\\")
        assert found[8] == 0


def test_types_in_the_driver_s_codes(pictures_server):
    with fl.connect(pictures_server.uri) as client:

        def ask(**which):
            command = descriptor(messages.CommandGetXdbcTypeInfo(**which))
            return read(client, client.get_flight_info(command)).to_pylist()

        everything = ask()
        assert {"BIGINT", "VARCHAR", "LANCE_BLOB", "TIMESTAMP WITH TIME ZONE"} <= {
            row["type_name"] for row in everything
        }
        codes = [row["data_type"] for row in everything]
        assert codes == sorted(codes)
        assert ask(data_type=-5) == [row for row in everything if row["data_type"] == -5] != []
        assert ask(data_type=4711) == []


class TestSizes:
    def test_parameters_of_megabytes(self, pictures_server):
        """More than gRPC's 4 MiB arrive in one message; what no server should take is refused by name."""
        with connected(pictures_server.uri) as connection:
            got = answer(connection, "SELECT octet_length(?::BLOB) AS n", (bytes(6 << 20),))
            assert got.to_pylist() == [{"n": 6 << 20}]
            with pytest.raises(adbc_driver_manager.Error, match=r"(?i)larger than max|exceed|more than"):
                answer(connection, "SELECT octet_length(?::BLOB) AS n", (bytes(70 << 20),))
            assert answer(connection, "SELECT 1 AS one").num_rows == 1

    def test_messages_by_session_option(self, pictures_server):
        """A connection can say once what its client takes."""
        wide = {adbc.DatabaseOptions.WITH_MAX_MSG_SIZE.value: str(64 << 20)}
        sql = f"SELECT img FROM pictures WHERE id = {LARGE}"
        with connected(pictures_server.uri, **wide) as connection:
            with pytest.raises(adbc_driver_manager.InternalError, match="session option max_message_bytes"):
                answer(connection, sql)
            option = adbc.ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "max_message_bytes"
            connection.adbc_connection.set_options(**{option: str(64 << 20)})
            assert answer(connection, sql)["img"].to_pylist() == [value(LARGE)]


class TestCompression:
    SQL = "SELECT repeat('flightblob ', 200) AS t, range AS n FROM range(20000)"

    @pytest.mark.parametrize("kind", ["lz4", "zstd"])
    def test_clients_undo_it(self, pictures_server, kind):
        before = pictures_server.metric("flightblob_sent_bytes_total")
        with connected(pictures_server.uri) as connection:
            plain = answer(connection, self.SQL)
        between = pictures_server.metric("flightblob_sent_bytes_total")
        with connected(pictures_server.uri, **{HEADER + "flightblob-compression": kind}) as connection:
            assert answer(connection, self.SQL).equals(plain)
            after = pictures_server.metric("flightblob_sent_bytes_total")
            assert polars.read_database(self.SQL, connection)["n"].sum() == sum(range(20000))
        assert after - between < (between - before) / 5
        with fl.connect(pictures_server.uri) as client:
            options = headers(flightblob_compression=kind)
            whole = client.do_get(fl.Ticket(b'{"table":"pictures"}'), options).read_all()
            assert whole["img"].to_pylist() == [value(i) for i in range(len(SIZES))]

    def test_unknown(self, pictures_server):
        with fl.connect(pictures_server.uri) as client:
            with pytest.raises(pa.ArrowInvalid, match=r"header flightblob-compression.*none, lz4 or zstd"):
                client.do_get(fl.Ticket(b'{"table":"pictures"}'), headers(flightblob_compression="gzip")).read_all()


@pytest.fixture(scope="module")
def types_server(binary, tmp_path_factory):
    """A server over a table of types that some clients stumble on."""
    root = tmp_path_factory.mktemp("types")
    columns = {
        "u8": pa.array([255, None], pa.uint8()),
        "u16": pa.array([65535, None], pa.uint16()),
        "u32": pa.array([4294967295, None], pa.uint32()),
        "u64": pa.array([(1 << 63) - 1, None], pa.uint64()),
        "half": pa.array([np.float16(1.5), None], pa.float16()),
        "word": pa.array(["a", None]).dictionary_encode(),
        "nested": pa.array([[{"u": 255}], None], pa.list_(pa.struct([("u", pa.uint8())]))),
    }
    lance.write_dataset(pa.table(columns), str(root / "types.lance"), data_storage_version="2.2")
    with Server(binary, root) as server:
        yield server


SIGNED = {
    "u8": pa.int16(),
    "u16": pa.int32(),
    "u32": pa.int64(),
    "u64": pa.int64(),
    "half": pa.float32(),
    "word": pa.utf8(),
    "nested": pa.list_(pa.struct([("u", pa.int16())])),
}


class TestProfile:
    """SQL shows no dictionary; profile bi no unsigned and no half-float type either, at any depth."""

    def test_without(self, types_server):
        with connected(types_server.uri) as connection:
            got = answer(connection, "FROM types")
        assert got.schema.field("word").type == pa.utf8()
        assert got.schema.field("u64").type == pa.uint64()
        assert got.schema.field("half").type == pa.float16()
        with fl.connect(types_server.uri) as client:
            raw = client.do_get(fl.Ticket(b'{"table":"types"}')).read_all()
            assert pa.types.is_dictionary(raw.schema.field("word").type)

    def test_bi(self, types_server):
        def check(got):
            assert {f.name: f.type for f in got.schema} == SIGNED
            first, second = got.to_pylist()
            assert first == {
                "u8": 255,
                "u16": 65535,
                "u32": 4294967295,
                "u64": (1 << 63) - 1,
                "half": 1.5,
                "word": "a",
                "nested": [{"u": 255}],
            }
            assert set(second.values()) == {None}

        with connected(types_server.uri, **{HEADER + "flightblob-profile": "bi"}) as connection:
            check(answer(connection, "FROM types"))
            assert connection.adbc_get_table_schema("types").types == list(SIGNED.values())
            # Parameters are described in the profile's types, and bound in these or any other.
            with connection.cursor() as cursor:
                sql = "SELECT count(*) AS n FROM types WHERE u8 = ? AND u64 >= ? AND TIMESTAMP '2030-01-01' > ?"
                described = cursor.adbc_prepare(sql)
            assert described.types == [pa.int64(), pa.int64(), pa.timestamp("ms")]
            when = datetime.datetime(2026, 1, 2)
            for given in ((255, 0, when), ("255", 0.0, "2026-01-02")):
                assert answer(connection, sql, given).to_pylist() == [{"n": 1}]
            shown = [pa.array([v], t) for v, t in zip((255, 0, when), described.types)]
            assert answer(connection, sql, pa.table(shown, names=described.names)).to_pylist() == [{"n": 1}]
        with connected(types_server.uri) as connection:
            option = adbc.ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "profile"
            connection.adbc_connection.set_options(**{option: "bi"})
            check(answer(connection, "FROM types"))


@pytest.fixture(scope="module")
def catalogs_server(binary):
    golden.make_link()
    roots = {"a": golden.TABLES / "kinds_basic_v22", "b": golden.TABLES / "fragments_and_deletions"}
    with Server(binary, roots, external=[golden.LINK / "tables"]) as server:
        yield server


class TestSessions:
    """A session is the cookie's, else the header's, else the token's, else the connection's."""

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {adbc.DatabaseOptions.WITH_COOKIE_MIDDLEWARE.value: "true"},
            {HEADER + "flightblob-session": "mine"},
            {adbc.DatabaseOptions.AUTHORIZATION_HEADER.value: "Bearer secret"},
            {"username": "someone", "password": "secret"},
        ],
        ids=["connection", "cookies", "header", "token", "Basic"],
    )
    def test_kept(self, catalogs_server, options):
        with connected(catalogs_server.uri, **options) as connection:
            assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("a", "main")
            connection.adbc_current_catalog = "b"
            assert (connection.adbc_current_catalog, connection.adbc_current_db_schema) == ("b", "main")
            assert answer(connection, 'SELECT count(*) AS n FROM "table"').to_pylist() == [{"n": 35}]
            with pytest.raises(adbc_driver_manager.Error, match="catalog"):
                connection.adbc_current_catalog = "absent"
            assert connection.adbc_current_catalog == "b"
            with connected(catalogs_server.uri, **options) as other:
                shared = HEADER + "flightblob-session" in options or "authorization" in "".join(options)
                assert other.adbc_current_catalog == ("b" if shared else "a")
        # ADBC closes its session with the connection.
        with connected(catalogs_server.uri, **options) as connection:
            assert connection.adbc_current_catalog == "a"

    def test_headers(self, catalogs_server):
        """Headers say it without a session, and before one."""
        with connected(catalogs_server.uri, **{HEADER + "flightblob-catalog": "b"}) as connection:
            assert connection.adbc_current_catalog == "b"
            assert answer(connection, 'SELECT count(*) AS n FROM "table"').to_pylist() == [{"n": 35}]
        with connected(catalogs_server.uri, **{HEADER + "flightblob-schema": "absent"}) as connection:
            with pytest.raises(adbc_driver_manager.ProgrammingError, match="there are main"):
                answer(connection, "SELECT 1")


class TestErrors:
    """The codes of flight-sql.md section 13, as pyarrow tells them."""

    @pytest.mark.parametrize(
        ("text", "exception"),
        [
            ("SELEC 1", pa.ArrowInvalid),
            ("SELECT * FROM absent", pa.ArrowKeyError),
            ("DELETE FROM pictures WHERE false", pa.ArrowInvalid),
        ],
    )
    def test_at_planning(self, pictures_server, text, exception):
        with fl.connect(pictures_server.uri) as client:
            with pytest.raises(exception) as caught:
                client.get_flight_info(descriptor(messages.CommandStatementQuery(query=text)))
            assert len(reason(caught.value)) > 10

    def test_while_reading(self, pictures_server):
        with fl.connect(pictures_server.uri) as client:

            def run(text, options=None):
                info = client.get_flight_info(descriptor(messages.CommandStatementQuery(query=text)))
                return client.do_get(info.endpoints[0].ticket, options).read_all()

            with pytest.raises(pa.ArrowInvalid, match="Could not convert string 'x'"):
                run("SELECT CAST(CASE WHEN range = 0 THEN 'x' END AS INT) FROM range(1)")
            # The server knows the deadline, too: where its end of the stream comes first, gRPC calls that cancelled.
            with pytest.raises((fl.FlightTimedOutError, fl.FlightCancelledError)):
                run(ENDLESS, fl.FlightCallOptions(timeout=0.3))
            limited = headers(flightblob_max_message_bytes=str(1 << 20))
            with pytest.raises(Exception, match="flightblob-max-message-bytes"):
                run(f"SELECT img FROM pictures WHERE id = {LARGE}", limited)

    def test_time_limit_of_the_server(self, binary, tmp_path):
        with Server(binary, tmp_path, arguments=["--statement-timeout", "300ms"]) as server:
            with connected(server.uri) as connection:
                with pytest.raises(adbc_driver_manager.OperationalError, match=r"TIMEOUT.*300ms"):
                    answer(connection, ENDLESS)
                assert answer(connection, "SELECT 1 AS one").num_rows == 1

    def test_transactions(self, pictures_server):
        """Without autocommit, ADBC asks for transactions, hears that there are none, and goes on."""
        with pytest.warns(Warning, match="Cannot disable autocommit"):
            connection = dbapi.connect(pictures_server.uri)
        with contextlib.closing(connection):
            assert answer(connection, "SELECT 1 AS one").num_rows == 1
            connection.commit()
