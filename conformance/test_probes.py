"""Nobody gets out by SQL: the attempts of probes.txt, by every way that text has into the server.

Each is refused with a code that says so, no answer and no error shows what lies in the canaries, and when all is over
no file has changed, none was made, and the table is what it was.
"""

import json
import os
import pathlib
import re

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from referee import stock
from referee.client import Client
from referee.commands import prepare, query, update
from referee.rpc import SECRET, Raw, check_text, command, field
from referee.server import Server

PROBES = [
    line.split(None, 1)
    for line in (pathlib.Path(__file__).parent / "probes.txt").read_text().splitlines()
    if line.strip() and not line.startswith("#")
]
REFUSALS = {"INVALID_ARGUMENT", "NOT_FOUND", "PERMISSION_DENIED", "UNIMPLEMENTED", "FAILED_PRECONDITION"}


def probes(kind):
    return [pytest.param(text, id=text[:60]) for k, text in PROBES if k == kind]


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    """A root, and canaries of every format in it, beside it, and behind links."""
    folder = tmp_path_factory.mktemp("house")
    root, out = folder / "root", folder / "out"
    root.mkdir()
    out.mkdir()
    secret = SECRET.decode()
    stock.write(root, "t", 5, lambda i: 40)
    stock.write(out, "t", 3, lambda i: 40)
    (out / "canary.csv").write_text(f"a,b\n1,{secret}\n")
    (out / "canary.json").write_text(json.dumps({"a": secret}) + "\n")
    (out / "canary.txt").write_text(secret)
    pq.write_table(pa.table({"a": [secret]}), out / "canary.parquet")
    (out / "canary.db").write_bytes(b"\0" * 8 + b"DUCK" + SECRET * 100)
    (root / "inside.csv").write_text(f"a,b\n1,{secret}\n")
    os.symlink(out / "canary.csv", root / "link.csv")
    os.symlink(out / "t.lance", root / "link.lance")
    os.symlink(out, root / "linked")
    return root, out


def files(*folders):
    """All files below, with what is in them."""
    found = {}
    for folder in folders:
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            found[str(path)] = path.read_bytes()
    return found


@pytest.fixture(scope="module")
def server(binary, house):
    root, out = house
    before = files(root, out)
    with Server(binary, root) as server:
        yield server
        assert files(root, out) == before, "files changed"
        client = Client(server.uri)
        assert client.get(table="t")["blob"].to_pylist() == [stock.payload(i, 40) for i in range(5)]
        client.close()
        server.check_alive()
        server.check_panics()


@pytest.fixture
def raw(server):
    with Raw(server.uri) as raw:
        yield raw


def filled(text, house):
    """A probe with its places; \\x00 and \\n stand for themselves."""
    root, out = house
    text = text.replace("{root}", str(root)).replace("{out}", str(out)).replace("{{", "{").replace("}}", "}")
    return re.sub(r"\\(x00|n)", lambda m: {"x00": "\0", "n": "\n"}[m.group(1)], text)


def refused(answer, way, text):
    assert answer.code in REFUSALS, f"{way} {text}: {answer!r}"
    hides(answer, way, text)


def hides(answer, way, text):
    assert SECRET not in answer.data, f"{way} {text}: the canary is in the answer"
    check_text(answer)
    assert answer.code not in ("UNKNOWN", "INTERNAL", "UNAVAILABLE"), f"{way} {text}: {answer!r}"


@pytest.mark.parametrize("probe", probes("statement"))
def test_statements(raw, house, probe):
    text = filled(probe, house)
    refused(query(raw, text), "query", text)
    refused(update(raw, text), "update", text)
    made = prepare(raw, text)  # what writes may be planned, and refused where it looks at places
    hides(made, "prepare", text)
    if made.code != "OK":
        refused(made, "prepare", text)
    if re.match(r"(SELECT|FROM|TABLE)\b(?!.*;)", text):
        for around in (
            "EXPLAIN {}",
            "EXPLAIN ANALYZE {}",
            "DESCRIBE {}",
            "WITH x AS ({}) FROM x",
            "SELECT (SELECT count(*) FROM ({}))",
            "FROM t ORDER BY (SELECT count(*) FROM ({}))",
        ):
            refused(query(raw, around.format(text)), "query", around.format(text))
        for around in (
            "CREATE TABLE stolen AS {}",
            "INSERT INTO t (id) SELECT 1 FROM ({})",
            "DELETE FROM t WHERE id IN (SELECT 1 FROM ({}))",
            "UPDATE t SET id = (SELECT 1 FROM ({}))",
            "MERGE INTO t USING ({}) AS s ON true WHEN MATCHED THEN DELETE",
        ):
            refused(update(raw, around.format(text)), "update", around.format(text))


@pytest.mark.parametrize("probe", probes("value"))
def test_values(raw, house, probe):
    text = filled(probe, house)
    for around in (
        "SELECT {}",
        "SELECT {} FROM t",
        "FROM t WHERE ({})::VARCHAR = 'x'",
        "FROM t LIMIT length(({})::VARCHAR)",
        "FROM lance_scan(({})::VARCHAR)",
        "FROM lance_scan('t', tag := ({})::VARCHAR)",
        "FROM t GROUP BY ALL HAVING ({}) IS NOT NULL",
        "SELECT sum(id) OVER (ORDER BY ({})::VARCHAR) FROM t",
        "VALUES (({}))",
    ):
        refused(query(raw, around.format(text)), "query", around.format(text))
        hides(prepare(raw, around.format(text)), "prepare", around.format(text))
    for around in (
        "INSERT INTO t (id) VALUES (length(({})::VARCHAR))",
        "INSERT INTO t (id) SELECT length(({})::VARCHAR)",
        "CREATE TABLE stolen AS SELECT ({}) AS a",
        "CREATE TABLE stolen (a VARCHAR DEFAULT ({}))",
        "DELETE FROM t WHERE ({})::VARCHAR = 'x'",
        "UPDATE t SET id = length(({})::VARCHAR)",
    ):
        refused(update(raw, around.format(text)), "update", around.format(text))
    for condition in (f"({text})::VARCHAR = 'x'", f"({text}) IS NOT NULL", f"id = 1 OR ({text}) IS NULL"):
        refused(raw.get({"table": "t", "filter": condition}), "filter", condition)


@pytest.mark.parametrize("probe", probes("harmless"))
def test_harmless_values(raw, house, probe):
    text = filled(probe, house)
    for answer in (query(raw, f"SELECT {text}"), raw.get({"table": "t", "filter": f"({text}) IS NOT NULL"})):
        assert answer.code == "OK", f"{text}: {answer!r}"
        hides(answer, "query", text)


@pytest.mark.parametrize("probe", probes("table"))
def test_names(raw, server, house, probe):
    name = filled(probe, house)
    quoted = name.replace("'", "''")
    for call in ("lance_scan('{}')", "lance_versions('{}')", "lance_files('{}')", "lance_blobs('{}', 'blob')"):
        refused(query(raw, "FROM " + call.format(quoted)), "query", call.format(quoted))
    inner = name.replace('"', '""')
    for text in (f'FROM "{inner}"', f'FROM lance.main."{inner}"', f'FROM lance."{inner}".t', f'FROM "{inner}".main.t'):
        refused(query(raw, text), "query", text)
    refused(query(raw, f"CALL add_base('{quoted}', 's3://bucket/x', name := 'x')"), "query", name)
    if not re.fullmatch(r"\w[\w.]*", name):  # which a new table may be called
        refused(update(raw, f'CREATE TABLE "{inner}" (a INT)'), "update", name)
    for key in ("table", "schema", "catalog"):
        want = {"table": "t"} | {key: name}
        refused(raw.get(want), "ticket", str(want))
        refused(raw.call("GetFlightInfo", command(json.dumps(want).encode())), "descriptor", str(want))
    for path in (
        [name],
        ["main", name],
        [name, "t"],
        ["lance", "main", name],
        ["lance", name, "t"],
        [name, "main", "t"],
    ):
        descriptor = b"\x08\x01" + b"".join(field(3, part.encode()) for part in path)
        for method in ("GetFlightInfo", "GetSchema"):
            refused(raw.call(method, descriptor), method, str(path))
        refused(raw.call("DoPut", field(1, descriptor) + field(2, b"")), "DoPut", str(path))
    for action in ("describe", "add_base", "set"):
        body = json.dumps({"table": name, "path": "s3://bucket/x", "name": "x", "managed": True}).encode()
        refused(raw.call("DoAction", field(1, action.encode()) + field(2, body)), action, name)


@pytest.mark.parametrize("probe", probes("table"))
def test_names_by_parameter(server, house, probe):
    """A name that is bound is looked at like one that is written."""
    name = filled(probe, house)
    if "\0" in name:
        return  # the driver's own text ends there; by protobuf it goes as above
    with dbapi.connect(server.uri, autocommit=True) as connection:
        for text in (
            "FROM lance_scan(?)",
            "FROM lance_scan('t', tag := ?)",
            "FROM lance_versions(?)",
            "FROM lance_files(?)",
        ):
            with connection.cursor() as cursor, pytest.raises(adbc_driver_manager.Error) as error:
                cursor.execute(text, (name,))
                cursor.fetchall()
            assert SECRET.decode() not in str(error.value)
            assert error.value.status_code.name in ("INVALID_ARGUMENT", "NOT_FOUND", "UNAUTHORIZED"), str(error.value)


BASES = ["{out}", "file://{out}", "{root}/linked", "{root}/../out", "/", "/etc", "s3://bucket/x", "gs://bucket/x"]


@pytest.mark.parametrize("base", BASES)
def test_bases(server, raw, house, base):
    """A base outside of the roots is registered by no way: what lies in it could be read from then on."""
    path = filled(base, house)
    client = Client(server.uri)
    rows = pa.table({"id": [1]})
    for how in ({"mode": "create"}, {"mode": "create", "target_base": "x"}, {"mode": "create_append", "managed": True}):
        with pytest.raises(pa.ArrowException) as error:
            client.put(rows, table="fresh", bases=[{"name": "x", "path": path}], **how)
        assert "--external" in str(error.value), error.value
    client.close()
    body = json.dumps({"table": "t", "path": path, "name": "x"}).encode()
    for answer in (
        query(raw, f"CALL add_base('t', '{path}', name := 'x')"),
        raw.call("DoAction", field(1, b"add_base") + field(2, body)),
    ):
        assert answer.code == "PERMISSION_DENIED", answer
        assert "--external" in answer.text


def test_bases_that_are_allowed(binary, house, tmp_path):
    """--external opens what it names, by whole components, and its own folders go without."""
    stock.write(tmp_path, "t", 2, lambda i: 40)
    (tmp_path / "more").mkdir()
    (tmp_path / "more2").mkdir()
    inside = tmp_path / "root"
    stock.write(inside, "t", 2, lambda i: 40)
    with Server(binary, inside, external=[tmp_path / "more"]) as server, Raw(server.uri) as raw:
        for number, (path, code) in enumerate(
            [
                (tmp_path / "more", "OK"),
                (tmp_path / "more" / "below", "OK"),
                (inside / "own", "OK"),
                (tmp_path / "more2", "PERMISSION_DENIED"),
                (tmp_path, "PERMISSION_DENIED"),
            ]
        ):
            assert query(raw, f"CALL add_base('t', '{path}', name := 'n{number}')").code == code, path


def test_errors_name_no_outer_place(raw, house):
    """A path of the machine is in an error only where the client wrote it."""
    root, _ = house
    for text in ("FROM lance_scan('link')", "FROM link", "FROM lance_scan('linked/t')", "FROM 'inside.csv'"):
        answer = query(raw, text)
        refused(answer, "query", text)
        assert str(root.parent) not in answer.text, answer.text
