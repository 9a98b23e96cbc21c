"""Many writers at once, by two servers and by pylance, on a disk and on S3: nothing is lost, nothing comes twice."""

import concurrent.futures
import threading

import lance
import pyarrow as pa
import pytest
from referee import blobs, stock
from referee.client import Client
from referee.s3 import S3
from referee.server import Server

SIZES = (10, 5_000, 70_000)  # of values: two kinds in each write
METADATA = {"lance-encoding:blob-inline-size-threshold": "1000"}
ROWS = 3  # of each write
PATIENCE = 900  # seconds for one write: the emulator answers one request at a time, and a writer may lose many races


def size(identifier):
    return SIZES[identifier % len(SIZES)]


def rows_of(number):
    """The rows of one write; ids tell which."""
    ids = range(number * ROWS, (number + 1) * ROWS)
    schema = pa.schema([pa.field("id", pa.int64()), blobs.blob("blob", metadata=METADATA)])
    return pa.table([pa.array(ids, pa.int64()), stock.blob_values(ids, size)], schema=schema)


def appended(writers, each, write):
    """Every writer appends `each` times, all begin together. Answers the numbers of the writes."""
    together = threading.Barrier(writers)

    def run(writer):
        together.wait(60)
        for i in range(each):
            write(writer, writer * each + i)

    with concurrent.futures.ThreadPoolExecutor(writers) as pool:
        for done in [pool.submit(run, w) for w in range(writers)]:
            done.result()
    return range(writers * each)


def check(dataset, client, numbers):
    """Each write is there once and whole, for pylance and for us, and every version holds whole writes."""
    expected = sorted(i for n in numbers for i in range(n * ROWS, (n + 1) * ROWS))
    for answer in (dataset.to_table(blob_handling="all_binary"), client.get(table="t")):
        assert sorted(answer["id"].to_pylist()) == expected
        assert stock.wrong_values(answer, size) is None
    dataset.validate()
    assert dataset.version == len(numbers)
    counts = [dataset.checkout_version(v).count_rows() for v in range(1, dataset.version + 1)]
    assert counts == [ROWS * v for v in range(1, dataset.version + 1)]


def test_on_a_disk(binary, tmp_path, full):
    """Two servers over one folder and pylance in turns."""
    writers, each = (16, 20) if full else (6, 5)
    path = str(tmp_path / "t.lance")
    with Server(binary, tmp_path) as one, Server(binary, tmp_path) as two:
        clients = [Client((one, two)[w % 2].uri, timeout=PATIENCE) for w in range(writers)]

        def write(writer, number):
            if writer % 3 == 2:
                lance.write_dataset(rows_of(number), path, mode="append")
            else:
                assert clients[writer].put(rows_of(number), table="t", mode="append")["rows"] == ROWS

        clients[0].put(rows_of(writers * each), table="t", mode="create")
        numbers = appended(writers, each, write)
        check(lance.dataset(path), clients[1], [*numbers, writers * each])
        for client in clients:
            client.close()


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("others", [False, True], ids=["ours", "with-pylance"])
def test_on_s3(binary, tmp_path, full, others):
    """Two servers over one bucket, alone and with pylance, whose commits are conditional puts as well."""
    writers, each = (16, 20) if full else (4, 3)
    with S3() as s3:
        (tmp_path / "storage.toml").write_text(s3.storage())
        root, arguments = f"s3://{s3.bucket}/root", ["--storage", str(tmp_path / "storage.toml")]
        path, options = f"{root}/t.lance", s3.options()
        with Server(binary, root, arguments=arguments) as one, Server(binary, root, arguments=arguments) as two:
            clients = [Client((one, two)[w % 2].uri, timeout=PATIENCE) for w in range(writers)]

            def write(writer, number):
                if others and writer % 3 == 2:
                    lance.write_dataset(rows_of(number), path, mode="append", storage_options=options)
                else:
                    assert clients[writer].put(rows_of(number), table="t", mode="append")["rows"] == ROWS

            clients[0].put(rows_of(writers * each), table="t", mode="create")
            numbers = appended(writers, each, write)
            check(lance.dataset(path, storage_options=options), clients[1], [*numbers, writers * each])
            for client in clients:
                client.close()


def test_creations_at_once(binary, tmp_path):
    """All writers find no table: one creates it, the others append."""
    with Server(binary, tmp_path) as one, Server(binary, tmp_path) as two:
        clients = [Client((one, two)[w % 2].uri) for w in range(6)]

        def write(writer, number):
            clients[writer].put(rows_of(number), table="t", mode="create_append")

        check(lance.dataset(str(tmp_path / "t.lance")) if appended(6, 2, write) else None, clients[0], range(12))
        for client in clients:
            client.close()
