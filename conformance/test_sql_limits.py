"""Statements that want more than the SQL engine may have fail or are stopped; the server stays small and goes on."""

import threading
import time

import adbc_driver_flightsql.dbapi as dbapi
import pyarrow as pa
import pytest
from referee.server import Server, memory, settle

MIB = 1 << 20
SQL = 128 * MIB
# The engine's ceiling is half as much again and 160 MiB, for all statements together. Beside it stand what a process of
# this kind needs, and memory that one of its two allocators has back while the other one still grows.
ALLOWED = 1024 * MIB

GROWING = [
    "SELECT len(range(i * 100000000)) FROM range(1, 3) t(i)",
    "SELECT len(system.main.range(i * 100000000)) FROM range(1, 3) t(i)",
    "SELECT unnest(range(i * 100000000)) FROM range(1, 3) t(i)",
    "SELECT repeat(chr(64 + i::INT), 1000000000 + i) FROM range(1, 3) t(i)",
    "SELECT length(lpad(i::VARCHAR, 1000000000 + i::INT, 'ab')) FROM range(1, 3) t(i)",
    "SELECT len(list_resize([i], i * 200000000)) FROM range(1, 3) t(i)",
    "SELECT length(printf('%' || (1000000000 + i) || 'd', i)) FROM range(1, 3) t(i)",
    "SELECT length(replace(repeat('a', 30000 + i::INT), 'a', repeat('b', 30000))) FROM range(1, 3) t(i)",
    "SELECT len(flatten([range(30000) FOR x IN range(i * 30000)])) FROM range(1, 3) t(i)",
    "SELECT len(list_reduce([[x] FOR x IN range(i, i + 30)], (a, b) -> a || a)) FROM range(1, 3) t(i)",
    "SELECT sum(length(repeat('x', i * 1000))) FROM range(1, 5000) t(i) WHERE length(repeat('y', i * 2000)) > 5",
    "SELECT cardinality(histogram(i)) FROM range(100000000) t(i)",
    "SELECT mode(i) FROM range(100000000) t(i)",
    "WITH RECURSIVE r(n, s) AS (SELECT 1, 'ab' UNION ALL SELECT n + 1, s || s FROM r WHERE n < 40) SELECT s FROM r",
    "SELECT list(i ORDER BY -i) FROM range(100000000) t(i)",
]


@pytest.fixture
def server(binary, tmp_path):
    (tmp_path / "root").mkdir()
    with Server(binary, tmp_path / "root", arguments=["--sql-memory", "128MiB"]) as running:
        yield running
        running.check_alive()


def ask(connection, sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetch_arrow_table()


def refused(server, statements, wrong):
    with dbapi.connect(server.uri, autocommit=True) as connection:
        for sql in statements:
            try:
                ask(connection, sql)
                wrong.append(f"answered: {sql}")
            except Exception as error:
                if "RESOURCE_EXHAUSTED" not in str(error).upper().replace("RESOURCEEXHAUSTED", "RESOURCE_EXHAUSTED"):
                    wrong.append(f"{sql}: {error}")
                elif "--sql-memory" not in str(error):
                    wrong.append(f"{sql}: no advice: {error}")


def test_values_that_no_server_has_room_for(server):
    """Values that are made larger than the engine's limit are refused with advice, one by one and two at a time."""
    wrong = []
    refused(server, GROWING, wrong)
    both = [threading.Thread(target=refused, args=(server, part, wrong)) for part in (GROWING[::2], GROWING[1::2])]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert not wrong, "\n".join(wrong)
    high = memory(server.pid)["VmHWM"]
    print(f"peak {high / MIB:.0f} MiB of {ALLOWED / MIB:.0f}")
    assert high < ALLOWED, f"VmHWM {high / MIB:.0f} MiB"
    with dbapi.connect(server.uri, autocommit=True) as connection:
        assert ask(connection, "SELECT len(range(i)) AS n FROM range(5, 6) t(i)").to_pylist() == [{"n": 5}]
    assert settle(lambda: server.metric("flightblob_sql_working"), 0) == 0
    assert settle(lambda: server.metric("flightblob_sql_memory_bytes"), 64 * MIB) <= 64 * MIB


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT i, repeat(i::VARCHAR, 50) AS text FROM range(10000000000) t(i)",
        "SELECT a.i, [b.i, a.i] AS pair, {'x': a.i::VARCHAR} AS s FROM range(100000) a(i), range(1000000) b(i)",
        "SELECT upper(repeat('x', 2000)) || i AS text FROM range(1000000000) t(i)",
    ],
    ids=["rows", "join", "long"],
)
def test_results_without_end(server, sql):
    """Hundreds of GB of result: the first batches come, the server stays small however long one reads, and stops."""
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(sql)
        reader = cursor.fetch_record_batch()
        seen = 0
        while seen < 400 * MIB:
            seen += reader.read_next_batch().nbytes
        time.sleep(0.5)  # a reader that does nothing for a while
        high = memory(server.pid)["VmHWM"]
        reader.close()
    print(f"peak {high / MIB:.0f} MiB of {ALLOWED / MIB:.0f}")
    assert high < ALLOWED, f"VmHWM {high / MIB:.0f} MiB"
    assert settle(lambda: server.metric("flightblob_sql_working"), 0) == 0
    assert settle(lambda: server.metric("flightblob_calls_running"), 0) == 0


def test_a_table_larger_than_memory(binary, tmp_path):
    """SELECT of 300 MB, passed through and computed, is right and needs a fraction of that."""
    import lance

    rows, length = 300_000, 1000
    root = tmp_path / "root"
    root.mkdir()

    def batches():
        for start in range(0, rows, 10_000):
            ids = range(start, start + 10_000)
            yield pa.record_batch({"id": pa.array(ids, pa.int64()), "text": [f"{i:07d}" * (length // 7) for i in ids]})

    schema = pa.schema([pa.field("id", pa.int64()), pa.field("text", pa.utf8())])
    lance.write_dataset(pa.RecordBatchReader.from_batches(schema, batches()), str(root / "big.lance"), schema=schema)
    with (
        Server(binary, root, arguments=["--sql-memory", "128MiB", "--memory", "64MiB"]) as server,
        dbapi.connect(server.uri, autocommit=True) as connection,
    ):
        for sql in ("SELECT * FROM big", "SELECT id, reverse(text) AS text FROM big WHERE id >= 0"):
            with connection.cursor() as cursor:
                cursor.execute(sql)
                total = count = 0
                for batch in cursor.fetch_record_batch():
                    total += pa.compute.sum(batch.column("id")).as_py()
                    count += batch.num_rows
                    first = batch.slice(0, 1).to_pylist()[0]
                    assert first["text"][:: 1 if "*" in sql else -1] == f"{first['id']:07d}" * (length // 7)
            assert (count, total) == (rows, rows * (rows - 1) // 2)
            high = memory(server.pid)["VmHWM"]
            print(f"{sql}: peak {high / MIB:.0f} MiB")
            assert high < ALLOWED, f"VmHWM {high / MIB:.0f} MiB"


ENDLESS = {
    "join": "SELECT count(*) AS n FROM range(1000000) a(i), range(1000000) b(j) WHERE i + j = -1",
    "sort": "SELECT i FROM range(10000000000) t(i) ORDER BY hash(i) LIMIT 5",
    "lambda": "SELECT max(list_sum(list_transform(range(i, i + 4000), x -> list_sum(list_transform(range(4000), "
    "y -> x * y % 7))))) FROM range(10000000) t(i)",
}


def at_work(server):
    """Waits until the engine works on something."""
    end = time.monotonic() + 30
    while server.metric("flightblob_sql_working") == 0:
        assert time.monotonic() < end, "the engine does not begin"
        time.sleep(0.02)


def idle(server):
    """Checks that the engine stops."""
    assert settle(lambda: server.metric("flightblob_sql_working"), 0) == 0
    assert settle(lambda: server.metric("flightblob_calls_running"), 0) == 0


@pytest.mark.parametrize("sql", ENDLESS.values(), ids=ENDLESS)
def test_cancelled_calls_stop_the_engine(server, sql):
    """The engine stops when a client cancels and when its deadline passes."""
    with dbapi.connect(server.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cancel = threading.Thread(target=lambda: (at_work(server), cursor.adbc_cancel()))
        cancel.start()
        with pytest.raises(Exception, match=r"(?i)cancel"):
            cursor.execute(sql)
            cursor.fetch_arrow_table()
        cancel.join()
        idle(server)
    hasty = {"adbc.flight.sql.rpc.timeout_seconds.fetch": "1.0", "adbc.flight.sql.rpc.timeout_seconds.query": "1.0"}
    with (
        dbapi.connect(server.uri, conn_kwargs=hasty, autocommit=True) as connection,
        pytest.raises(Exception, match=r"(?i)deadline|timeout"),
    ):
        ask(connection, sql)
    idle(server)


def test_statement_timeout(binary, tmp_path):
    """--statement-timeout ends statements, and says so."""
    (tmp_path / "root").mkdir()
    with (
        Server(binary, tmp_path / "root", arguments=["--statement-timeout", "500ms"]) as server,
        dbapi.connect(server.uri, autocommit=True) as connection,
    ):
        for sql in ENDLESS.values():
            with pytest.raises(Exception, match="it ran for 500ms, the longest"):
                ask(connection, sql)
        idle(server)
        assert ask(connection, "SELECT 1 AS one").to_pylist() == [{"one": 1}]
