"""A stranger's walk: each name that users were promised, called once in each form, by the code and text it answers."""

import json

import adbc_driver_flightsql as adbc
import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import lance
import pyarrow as pa
import pyarrow.flight as fl
import pytest
from referee import blobs
from referee.client import Client
from referee.commands import prepare, query, update
from referee.rpc import Raw, check_text, command, field
from referee.server import Server

HEADER = adbc.DatabaseOptions.RPC_CALL_HEADER_PREFIX.value
BYTES = [b"first", None, b"", b"x" * 5000]  # NULL, no bytes, bytes in a packed file
SIZES = [5, None, 0, 5000]


def values(payloads):
    nothing = pa.nulls(len(payloads), pa.uint64())
    data = [pa.array(payloads, pa.large_binary()), pa.nulls(len(payloads), pa.utf8()), nothing, nothing]
    return pa.StructArray.from_arrays(data, fields=list(blobs.COMPLETE), mask=pa.array([p is None for p in payloads]))


def table(payloads=BYTES):
    ids = pa.array(range(len(payloads)), pa.int64())
    img = values(payloads)
    held = pa.StructArray.from_arrays([ids, img], fields=[pa.field("no", pa.int64()), blobs.blob("img")])
    offsets = pa.array(range(len(payloads) + 1), pa.int32())
    many = pa.ListArray.from_arrays(offsets, img, type=pa.list_(blobs.blob("item")))
    schema = pa.schema(
        [pa.field("id", pa.int64()), blobs.blob("img"), pa.field("s", held.type), pa.field("l", many.type)]
    )
    return pa.table([ids, img, held, many], schema=schema)


def write(root, name, rows, **options):
    return lance.write_dataset(rows, str(root / f"{name}.lance"), data_storage_version="2.2", **options)


NAMES = ["a.b", "with blank", 'q"uote', "sélection", "SELECT", "it's", "Twin", "twin"]


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    """Catalogs one and two. In one: table t of three versions, a tag, a branch; tables of odd names; a schema."""
    folder = tmp_path_factory.mktemp("interface")
    one, two = folder / "one", folder / "two"
    one.mkdir()
    two.mkdir()
    write(one, "t", table())
    first = write(one, "t", table([b"more"]), mode="append")
    first.tags.create("x", 1)
    first.create_branch("b", 1)
    write(one, "t", table([b"last"]), mode="append")
    for name in NAMES:
        write(one, name, pa.table({"name": [name]}))
    write(two, "t", pa.table({"id": [42]}))
    with Server(binary, {"one": one, "two": two}) as server:
        with Raw(server.uri) as raw:
            assert update(raw, "CREATE SCHEMA one.more").code == "OK"
            assert update(raw, "CREATE TABLE one.more.t AS SELECT 7 AS id").code == "OK"
        yield server
        server.check_alive()
        server.check_panics()


@pytest.fixture(scope="module")
def connection(server):
    with dbapi.connect(server.uri, autocommit=True) as connection:
        yield connection


@pytest.fixture
def raw(server):
    with Raw(server.uri) as raw:
        yield raw


@pytest.fixture(scope="module")
def client(server):
    client = Client(server.uri)
    yield client
    client.close()


def rows(connection, sql, parameters=None):
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def column(connection, sql, parameters=None):
    return [row[0] for row in rows(connection, sql, parameters)]


PLACES = {"column": "img", "struct": "s.img", "index": "l[1]", "unnest": "u"}
SOURCES = {"unnest": "(SELECT id, unnest(l) AS u FROM t AT (VERSION => 1))"}
FUNCTIONS = {
    "{}": BYTES,
    "blob_bytes({})": BYTES,
    "{}::BLOB": BYTES,
    "CAST({} AS BLOB)": BYTES,
    "md5({})": ["8b04d5e3775d298e78455efc5ca404d5", None, "d41d8cd98f00b204e9800998ecf8427e", None],
    "hex({})": ["6669727374", None, "", "78" * 5000],
    "blob_size({})": SIZES,
    "octet_length({})": SIZES,
    "blob_kind({})": ["inline", None, "inline", None],
    "blob_uri({})": [None] * 4,
    "blob_range({}, 0, 0)": [b"", None, b"", b""],
    "{} IS NULL": [False, True, False, False],
    "{} = {}": [True, None, True, True],
    "blob_descriptor({}).size": SIZES,
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_functions(connection, place, function):
    """Each function on a blob column, a struct's field, an item of a list, and what unnest gives."""
    source = SOURCES.get(place, "t AT (VERSION => 1)")
    call = function.replace("{}", PLACES[place])
    got = column(connection, f"SELECT {call} FROM {source} ORDER BY id")
    want = FUNCTIONS[function]
    if function.startswith(("md5", "blob_kind")):  # of the large value it is enough that there is one
        assert got[3] is not None
        got[3] = None
    assert got == want


def test_functions_take_parameters(connection):
    sql = "SELECT blob_range(img, ?, ?) FROM t AT (VERSION => 1) WHERE blob_size(img) > ?"
    assert column(connection, sql, (1, 3, 10)) == [b"xxx"]
    for bad, text in [((3, 10), "5 bytes"), ((6, 0), "5 bytes"), ((-1, 1), "-1"), ((0, -1), "-1")]:
        with pytest.raises(adbc_driver_manager.Error, match=text) as error:
            rows(connection, "SELECT blob_range(img, ?, ?) FROM t WHERE id = 0 LIMIT 1", bad)
        assert "row 0" in str(error.value)
    assert column(connection, "SELECT blob_range(img, 99, 1) FROM t WHERE img IS NULL") == [None]


def test_identity(connection):
    """Equality, DISTINCT and GROUP BY compare which object and range, never bytes."""
    assert column(connection, "SELECT count(*) FROM t x JOIN t y ON x.img = y.img") == [5]
    assert column(connection, "SELECT count(DISTINCT img) FROM t") == [5]
    assert column(connection, "SELECT count(img) FROM t") == [5]
    assert len(rows(connection, "SELECT img FROM (FROM t UNION ALL FROM t) GROUP BY img")) == 6


VERSIONS = {
    "t": 6,
    "t AT (VERSION => 1)": 4,
    "t AT (VERSION => 2)": 5,
    "one.main.t AS x AT (VERSION => 1)": 4,
    "t AT (TIMESTAMP => '2100-01-01')": 6,
    "t AT (TIMESTAMP => TIMESTAMP '2100-01-01 00:00:00')": 6,
    "lance_scan('t')": 6,
    "lance_scan('main.t')": 6,
    "lance_scan('one.main.t')": 6,
    "lance_scan('\"t\"')": 6,
    "lance_scan('T')": 6,
    "lance_scan('t', version := 1)": 4,
    "lance_scan('t', version = 1)": 4,
    "lance_scan('t', version => 1)": 4,
    "lance_scan('t', tag := 'x')": 4,
    "lance_scan('t', branch := 'b')": 4,
    "lance_scan('t', branch := 'b', version := 1)": 4,
    "lance_scan('t', timestamp := '2100-01-01T00:00:00Z')": 6,
    "lance_scan('t', timestamp := '2100-01-01')": 6,
    "lance_scan('t', row_ids := true)": 6,
    "lance_scan('t', row_ids := true, tag := 'x')": 4,
    "lance_versions('t')": 3,
    "lance_tags('t')": 1,
    "lance_branches('t')": 1,
    "lance_fragments('t')": 3,
    "lance_files('t')": 3,
    "two.main.t": 1,
    "two.t": 1,
    "lance_scan('two.main.t')": 1,
    "lance_scan('more.t')": 1,
    "one.more.t": 1,
    "more.t": 1,
}


@pytest.mark.parametrize("source", VERSIONS)
def test_sources(connection, source):
    """Every table function in every form of its arguments, AT, catalogs and schemas."""
    assert column(connection, f"SELECT count(*) FROM {source}") == [VERSIONS[source]]


COLUMNS = {
    "lance_scan('t', row_ids := true)": {"id", "img", "_rowid", "_rowaddr"},
    "lance_versions('t')": {"version", "timestamp", "operation", "rows"},
    "lance_tags('t')": {"name", "version", "branch"},
    "lance_branches('t')": {"name", "parent_branch", "parent_version"},
    "lance_fragments('t')": {"fragment_id", "rows", "deleted_rows", "data_files"},
    "lance_files('t')": {"fragment_id", "path", "base_id", "bytes", "file_version", "columns"},
    "lance_blobs('t', 'img')": {"kind", "object", "count", "bytes"},
    "lance_blobs('t', 's.img')": {"kind", "object", "count", "bytes"},
}


@pytest.mark.parametrize("source", COLUMNS)
def test_columns_of_functions(connection, source):
    with connection.cursor() as cursor:
        assert set(cursor.adbc_execute_schema(f"FROM {source}").names) >= COLUMNS[source]


def test_functions_of_tables_take_parameters(connection):
    sql = "SELECT count(*) FROM lance_scan(?, version := ?)"
    assert column(connection, sql, ("t", 1)) == [4]
    assert column(connection, sql, ("two.main.t", 1)) == [1]
    assert column(connection, "SELECT sum(count)::BIGINT FROM lance_blobs(?, ?)", ("t", "img")) == [5]


@pytest.mark.parametrize("name", NAMES)
def test_odd_names(connection, client, name):
    """Names with dots, blanks, quotes, capitals, as identifiers, in functions, in tickets and paths."""
    quoted = '"' + name.replace('"', '""') + '"'
    inside = quoted.replace("'", "''")
    for source in (f"one.main.{quoted}", quoted, f"lance_scan('{inside}')", f"lance_scan('one.main.{inside}')"):
        if name.lower() == "twin" and not source.startswith("lance_scan"):
            with pytest.raises(adbc_driver_manager.Error, match=r"Twin.*twin|twin.*Twin"):
                rows(connection, f"FROM {source}")
        else:
            assert column(connection, f"SELECT name FROM {source}") == [name]
    exact = name.replace("'", "''")
    if "." not in name and name.isascii() and '"' not in name:  # which would part it
        assert column(connection, f"SELECT name FROM lance_scan('{exact}')") == [name]
    assert client.get(catalog="one", table=name)["name"].to_pylist() == [name]
    assert client.from_info(client.path_info("one", "main", name))["name"].to_pylist() == [name]


# Statements that are refused: code, and what their text says.
REFUSED = {
    "BEGIN": ("INVALID_ARGUMENT", "each statement commits by itself"),
    "COMMIT": ("INVALID_ARGUMENT", "each statement commits by itself"),
    "CREATE VIEW v AS SELECT 1": ("INVALID_ARGUMENT", "CREATE VIEW"),
    "CREATE MACRO m() AS 1": ("INVALID_ARGUMENT", "CREATE MACRO"),
    "CREATE TYPE y AS INT": ("INVALID_ARGUMENT", "CREATE TYPE"),
    "CREATE INDEX i ON t (id)": ("INVALID_ARGUMENT", "CREATE INDEX"),
    "COPY t TO 'x'": ("INVALID_ARGUMENT", "flightblob import and export"),
    "ATTACH 'x'": ("INVALID_ARGUMENT", "--root"),
    "SET threads = 1": ("INVALID_ARGUMENT", "session options"),
    "SELECT 1; SELECT 2": ("INVALID_ARGUMENT", "2 statements"),
    "": ("INVALID_ARGUMENT", "text"),
    "PIVOT t ON id USING count(*)": ("INVALID_ARGUMENT", "IN list"),
    "SELECT nope FROM t": ("INVALID_ARGUMENT", "nope"),
    "SELECT * FROM absent": ("NOT_FOUND", "absent"),
    "SELECT * FROM absent.main.t": ("NOT_FOUND", "absent"),
    "SELECT * FROM one.main.t.x": ("INVALID_ARGUMENT", "at most three parts"),
    "SELECT * FROM one.absent.t": ("NOT_FOUND", "absent"),
    "FROM lance_scan('absent')": ("NOT_FOUND", "absent"),
    "FROM t AT (VERSION => 99)": ("NOT_FOUND", "oldest is 1"),
    "FROM t AT (VERSION => 0)": ("INVALID_ARGUMENT", "0"),
    "FROM t AT (TIMESTAMP => '2001-01-01')": ("NOT_FOUND", "2001"),
    "FROM lance_scan('t', tag := 'nope')": ("NOT_FOUND", "nope"),
    "FROM lance_scan('t', branch := 'nope')": ("NOT_FOUND", "nope"),
    "FROM lance_scan('t', version := 1, tag := 'x')": ("INVALID_ARGUMENT", "tag"),
    "FROM lance_scan('t', colour := 1)": ("INVALID_ARGUMENT", "colour"),
    "FROM lance_scan('t', timestamp := 'noon')": ("INVALID_ARGUMENT", "noon"),
    "FROM lance_scan()": ("INVALID_ARGUMENT", "lance_scan"),
    "FROM lance_blobs('t', 'id')": ("INVALID_ARGUMENT", "id"),
    "FROM lance_blobs('t', 'nope')": ("NOT_FOUND", "nope"),
    "SELECT blob_size(id) FROM t": ("INVALID_ARGUMENT", "blob_size"),
    "SELECT img FROM t ORDER BY img": ("INVALID_ARGUMENT", "blob_bytes(b)"),
    "SELECT img = 'x'::BLOB FROM t": ("INVALID_ARGUMENT", "blob_bytes(b)"),
    "SELECT to_json(s) FROM t": ("INVALID_ARGUMENT", "blob_bytes(b)"),
    "SELECT max(l) FROM t": ("INVALID_ARGUMENT", "blob_bytes(b)"),
    "SELECT blob_ref('s3://b/x')": ("INVALID_ARGUMENT", "blob_ref"),
    "DESCRIBE absent": ("NOT_FOUND", "absent"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(raw, text):
    code, says = REFUSED[text]
    for answer in (query(raw, text), prepare(raw, text)):
        assert (answer.code, says in answer.text) == (code, True), repr(answer)
        check_text(answer)


# Tickets that are refused: what is in them beside the table, code, and what the text names.
TICKETS = [
    ({"colour": 1}, "INVALID_ARGUMENT", "colour"),
    ({"version": 1, "tag": "x"}, "INVALID_ARGUMENT", "tag"),
    ({"version": 1, "timestamp": "2100-01-01T00:00:00Z"}, "INVALID_ARGUMENT", "timestamp"),
    ({"branch": "b", "tag": "x"}, "INVALID_ARGUMENT", "tag"),
    ({"rows": [0], "limit": 1}, "INVALID_ARGUMENT", "limit"),
    ({"rows": [0], "offset": 1}, "INVALID_ARGUMENT", "offset"),
    ({"rows": [0], "filter": "id = 1"}, "INVALID_ARGUMENT", "filter"),
    ({"rows": [6]}, "INVALID_ARGUMENT", "6"),
    ({"rows": [-1]}, "INVALID_ARGUMENT", "rows"),
    ({"version": 99}, "NOT_FOUND", "99"),
    ({"version": 0}, "INVALID_ARGUMENT", "version"),
    ({"version": "one"}, "INVALID_ARGUMENT", "version"),
    ({"tag": "nope"}, "NOT_FOUND", "nope"),
    ({"branch": "nope"}, "NOT_FOUND", "nope"),
    ({"timestamp": "2001-01-01T00:00:00Z"}, "NOT_FOUND", "2001"),
    ({"timestamp": "noon"}, "INVALID_ARGUMENT", "timestamp"),
    ({"columns": ["nope"]}, "NOT_FOUND", "nope"),
    ({"columns": ["s.nope"]}, "NOT_FOUND", "s.nope"),
    ({"blobs": "everything"}, "INVALID_ARGUMENT", "everything"),
    ({"filter": "nope = 1"}, "INVALID_ARGUMENT", "nope"),
    ({"filter": "id = 1; DROP TABLE t"}, "INVALID_ARGUMENT", "filter"),
    ({"filter": "id = 1 ORDER BY id"}, "INVALID_ARGUMENT", "filter"),
    ({"filter": "id IN (SELECT 1)"}, "INVALID_ARGUMENT", "subquery"),
    ({"filter": "1) OR (1"}, "INVALID_ARGUMENT", "filter"),
    ({"limit": -1}, "INVALID_ARGUMENT", "limit"),
    ({"limit": "many"}, "INVALID_ARGUMENT", "limit"),
    ({"batch_bytes": "big"}, "INVALID_ARGUMENT", "batch_bytes"),
    ({"column": "img", "ranges": [[0, 0, 9]]}, "INVALID_ARGUMENT", "9"),
    ({"column": "img", "ranges": [[9, 0, 0]]}, "INVALID_ARGUMENT", "9"),
    ({"column": "id", "ranges": [[0, 0, 0]]}, "INVALID_ARGUMENT", "id"),
    ({"column": "nope", "ranges": [[0, 0, 0]]}, "NOT_FOUND", "nope"),
    ({"schema": "absent"}, "NOT_FOUND", "absent"),
    ({"catalog": "absent"}, "NOT_FOUND", "absent"),
    ({"table": "absent"}, "NOT_FOUND", "absent"),
]


@pytest.mark.parametrize("number", range(len(TICKETS)), ids=lambda n: json.dumps(TICKETS[n][0]))
def test_tickets_refused(raw, number):
    given, code, says = TICKETS[number]
    answer = raw.get({"catalog": "one", "table": "t", **given})
    assert (answer.code, says in answer.text) == (code, True), repr(answer)
    check_text(answer)


def test_tickets(client):
    """Keys that choose, one by one and together; each as a ticket and as a descriptor."""
    for given, ids in [
        ({}, [0, 1, 2, 3, 0, 0]),
        ({"version": 1}, [0, 1, 2, 3]),
        ({"tag": "x"}, [0, 1, 2, 3]),
        ({"branch": "b"}, [0, 1, 2, 3]),
        ({"branch": "b", "version": 1}, [0, 1, 2, 3]),
        ({"timestamp": "2100-01-01T00:00:00Z"}, [0, 1, 2, 3, 0, 0]),
        ({"limit": 2, "offset": 1}, [1, 2]),
        ({"rows": [5, 3, 3]}, [0, 3, 3]),
        ({"rows": []}, []),
        ({"filter": "blob_size(img) > 4 AND id < 2"}, [0]),
        ({"filter": "blob_kind(s.img) = 'inline' AND id = 2", "limit": 1}, [2]),
        ({"limit": 0}, []),
        ({"schema": "main", "limit": 1}, [0]),
    ]:
        want = {"catalog": "one", "table": "t", "columns": ["id"], **given}
        assert client.get(**want)["id"].to_pylist() == ids, given
        assert client.from_info(client.info(**want))["id"].to_pylist() == ids, given
        assert client.schema(**want).names == ["id"]
    flat = client.get(catalog="one", table="t", columns=["s.img", "_rowaddr"], version=1)
    assert flat.column_names == ["s.img", "_rowaddr"]
    assert flat["s.img"].to_pylist() == BYTES
    parts = client.get(catalog="one", table="t", column="s.img", ranges=[[3, 1, 2], [1, 0, 0], [0, 4, 1]])
    assert parts.to_pylist() == [
        {"request": 0, "bytes": b"xx"},
        {"request": 1, "bytes": None},
        {"request": 2, "bytes": b"t"},
    ]


def shape(kind):
    return [f.name for f in kind] if pa.types.is_struct(kind) else str(kind)


FACES = {
    "bytes": "large_binary",
    "descriptor": ["kind", "position", "size", "blob_id", "blob_uri"],
    "logical": ["data", "uri", "position", "size"],
}


@pytest.mark.parametrize("face", FACES)
def test_faces(server, face):
    """Three ways to choose: the ticket, else the header, else the session option, else bytes. SQL takes the same."""
    want = {"catalog": "one", "table": "t", "version": 1}
    client = Client(server.uri, {"flightblob-blobs": face})
    plain = Client(server.uri)
    for got in (client.get(**want), plain.get(**want, blobs=face)):
        assert shape(got.schema.field("img").type) == FACES[face]
        assert shape(got.schema.field("s").type.field("img").type) == FACES[face]
        assert shape(got.schema.field("l").type.value_type) == FACES[face]
    assert shape(client.get(**want, blobs="bytes").schema.field("img").type) == FACES["bytes"]
    client.close()
    plain.close()
    with dbapi.connect(server.uri, db_kwargs={HEADER + "flightblob-blobs": face}, autocommit=True) as connection:
        with connection.cursor() as cursor:
            assert shape(cursor.adbc_execute_schema("FROM t").field("img").type) == FACES[face]
    with dbapi.connect(server.uri, autocommit=True) as connection:
        option = adbc.ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "blobs"
        connection.adbc_connection.set_options(**{option: face})
        with connection.cursor() as cursor:
            cursor.execute("SELECT img, s, [img] AS made FROM t AT (VERSION => 1) WHERE id >= 0")
            got = cursor.fetch_arrow_table()
        assert shape(got.schema.field("img").type) == FACES[face]
        assert shape(got.schema.field("made").type.value_type) == FACES[face]


def test_limits_by_header_and_option(server):
    """max_message_bytes by ticket, header and session option; the error names the ways out."""
    want = {"catalog": "one", "table": "t", "columns": ["img"], "rows": [3]}
    with Raw(server.uri) as raw:
        for answer in (
            raw.get({**want, "max_message_bytes": 3000}),
            raw.get(want, metadata=[("flightblob-max-message-bytes", "3000")]),
        ):
            assert answer.code == "RESOURCE_EXHAUSTED", repr(answer)
            for part in ("img", "3000", "position 3", "max_message_bytes", "blob_range"):
                assert part in answer.text, answer.text
    with dbapi.connect(server.uri, autocommit=True) as connection:
        option = adbc.ConnectionOptions.OPTION_SESSION_OPTION_PREFIX.value + "max_message_bytes"
        connection.adbc_connection.set_options(**{option: "3000"})
        with pytest.raises(adbc_driver_manager.Error, match="blob_range"):
            rows(connection, "SELECT img FROM t AT (VERSION => 1) WHERE id = 3")


def test_paths_and_listing(server, client, raw):
    """One to three parts of a path; ListFlights lists every table."""
    assert client.from_info(client.path_info("t")).num_rows == 6
    assert client.from_info(client.path_info("main", "t")).num_rows == 6
    assert client.from_info(client.path_info("two", "main", "t"))["id"].to_pylist() == [42]
    assert client.from_info(client.path_info("more", "t"))["id"].to_pylist() == [7]
    with fl.connect(server.uri) as flights:
        listed = {tuple(p.decode() for p in info.descriptor.path) for info in flights.list_flights()}
    assert {path[-1] for path in listed} == {*NAMES, "t"}
    assert len(listed) == len(NAMES) + 3
    for path in ([], ["a", "b", "c", "d"], [""]):
        answer = raw.call("GetFlightInfo", b"\x08\x01" + b"".join(field(3, p.encode()) for p in path))
        assert answer.code == "INVALID_ARGUMENT", repr(answer)


@pytest.mark.parametrize(
    ("action", "body", "code"),
    [
        ("describe", {"table": "t"}, "OK"),
        ("describe", {"table": "absent"}, "NOT_FOUND"),
        ("describe", {}, "INVALID_ARGUMENT"),
        ("describe", {"table": "t", "colour": 1}, "INVALID_ARGUMENT"),
        ("nonsense", {"table": "t"}, "INVALID_ARGUMENT"),
        ("add_base", {"table": "t"}, "INVALID_ARGUMENT"),
        ("set", {"table": "t"}, "INVALID_ARGUMENT"),
        ("set", {"table": "t", "colour": 1}, "INVALID_ARGUMENT"),
    ],
)
def test_actions(raw, action, body, code):
    answer = raw.call("DoAction", field(1, action.encode()) + field(2, json.dumps(body).encode()))
    assert answer.code == code, repr(answer)
    check_text(answer)
    if code == "OK":
        told = json.loads(answer.data[answer.data.index(b"{") :])
        assert (told["table"], told["version"], told["rows"]) == ("t", 3, 6)


def test_command_that_is_no_json(raw):
    for data in (b"{", b'{"table":1}', b'{"table":"t"}x', b"[]", b"\x00nonsense", b""):
        for answer in (raw.get(data), raw.call("GetFlightInfo", command(data))):
            assert answer.code == "INVALID_ARGUMENT", f"{data}: {answer!r}"
            check_text(answer)
