"""Faces, message sizes and limits as a client chooses them: ticket before header before default."""

import pyarrow as pa
import pytest
from referee import stock
from referee.client import Client
from referee.rpc import Raw
from referee.server import Server

MIB = 1 << 20
LARGE = {0: 5 * MIB, 1: 20 * MIB, 2: 0}


def size(identifier):
    return LARGE.get(identifier, 1000)


@pytest.fixture(scope="module")
def server(binary, tmp_path_factory):
    root = tmp_path_factory.mktemp("limits") / "root"
    root.mkdir()
    stock.write(root, "t", 5000, size)
    with Server(binary, root) as running:
        yield running


def kinds(table):
    return table.schema.field("blob").type


def test_face_by_header(server):
    """A ticket's own face wins over the header, and the header over bytes."""
    client = Client(server.uri, {"flightblob-blobs": "descriptor"})
    assert pa.types.is_struct(kinds(client.get(table="t", limit=1)))
    assert pa.types.is_large_binary(kinds(client.get(table="t", limit=1, blobs="bytes")))
    assert kinds(client.get(table="t", limit=1, blobs="logical")).num_fields == 4
    client.close()
    wrong = Client(server.uri, {"flightblob-blobs": "everything"})
    with pytest.raises(pa.ArrowInvalid, match="everything"):
        wrong.get(table="t", limit=1)
    wrong.close()


@pytest.mark.parametrize("target", [1024, 50_000, 1 * MIB])
def test_size_of_messages(server, target):
    """batch_bytes moves the target by ticket and by header: messages stay at or below it, and not far below."""
    header = [("flightblob-batch-bytes", str(target))]
    want = {"table": "t", "offset": 3}
    with Raw(server.uri) as raw:
        for answer in (raw.get({**want, "batch_bytes": target}), raw.get(want, metadata=header)):
            assert answer.code == "OK"
            assert answer.largest <= max(target * 1.1, 4096), f"a message of {answer.largest} bytes"
        count = len(Client(server.uri).batches(**want, batch_bytes=target))
        assert count < 5000 * 1000 / target * 3 + 10, f"{count} messages"


def test_large_values(server):
    """A value larger than a message goes alone; one larger than the client takes is refused with all that is needed."""
    client = Client(server.uri)
    got = client.get(table="t")
    assert stock.wrong_values(got, size) is None
    assert got.num_rows == 5000
    with pytest.raises(pa.ArrowException, match="blob") as told:
        client.get(table="t", rows=[1], max_message_bytes=16 * MIB)
    for word in ("row 0", "a message of 2097", "16777216", "max_message_bytes", "blob_range"):
        assert word in str(told.value), f"{word!r} is missing in {told.value}"
    assert client.get(table="t", rows=[0, 2, 3], max_message_bytes=16 * MIB).num_rows == 3
    # The refused value in pieces.
    pieces = [[1, at, 4 * MIB] for at in range(0, 20 * MIB, 4 * MIB)]
    parts = client.get(table="t", column="blob", ranges=pieces, max_message_bytes=16 * MIB)
    assert b"".join(parts["bytes"].to_pylist()) == stock.payload(1, 20 * MIB)
    client.close()


def test_ranges_of_nothing(server):
    """Empty ranges are empty values, ranges past the end are errors that name row and size (REJ-11)."""
    client = Client(server.uri)
    got = client.get(table="t", column="blob", ranges=[[3, 0, 0], [3, 1000, 0], [2, 0, 0], [3, 999, 1]])
    assert got.schema.names == ["request", "bytes"]
    assert got["request"].to_pylist() == [0, 1, 2, 3]
    assert got["bytes"].to_pylist() == [b"", b"", b"", stock.payload(3, 1000)[-1:]]
    for wrong in ([3, 1000, 1], [3, 1001, 0], [2, 0, 1]):
        with pytest.raises(pa.ArrowInvalid, match=str(wrong[0])):
            client.get(table="t", column="blob", ranges=[wrong])
    client.close()
