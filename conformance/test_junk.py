"""No request ends the process or hangs it, and each junk one gets an error that says so."""

import random
import socket

import pytest
from referee import crafted, stock
from referee.client import Client
from referee.rpc import Raw, check_text, command, field
from referee.server import Server

JUNK = [
    b"",
    b"{",
    b"{}",
    b"null",
    b"[]",
    b"\x00",
    b"\x00" * 100,
    b"\x00\x01\x02\xff\xfe",
    b"\xff\xfe\xfd",
    b"{" * 100_000,
    b'{"table":' + b"[" * 50_000,
    b'{"table":"t"}trailing',
    b'{"table":"t","table":"t","limit":1}',
    b'{"table":"t","unknown":1}',
    b'{"table":5}',
    b'{"table":"t","limit":-1}',
    b'{"table":"t","limit":1e999}',
    b'{"table":"t","limit":18446744073709551616}',
    b'{"table":"t","offset":9223372036854775807,"limit":9223372036854775807}',
    b'{"table":"t","offset":-5}',
    b'{"table":"t","rows":[9223372036854775807]}',
    b'{"table":"t","rows":"x"}',
    b'{"table":"t","rows":[0],"limit":1}',
    b'{"table":"t","version":0}',
    b'{"table":"t","version":-1}',
    b'{"table":"t","version":18446744073709551615}',
    b'{"table":"t","version":1,"tag":"x"}',
    b'{"table":"t","blobs":"all"}',
    b'{"table":"t","columns":["nope"]}',
    b'{"table":"t","columns":["id.x"]}',
    b'{"table":"t","columns":["blob.data"]}',
    b'{"table":"t","columns":[""]}',
    b'{"table":"t","columns":["' + b"." * 10_000 + b'"]}',
    b'{"table":"t","column":"blob","ranges":[[0,18446744073709551615,2]]}',
    b'{"table":"t","column":"blob","ranges":[[0,0,1000000]]}',
    b'{"table":"t","column":"blob","ranges":[[99,0,1]]}',
    b'{"table":"t","column":"blob","ranges":[[0,0]]}',
    b'{"table":"t","column":"id","ranges":[[0,0,1]]}',
    b'{"table":"\xff\xfe"}',
    b'{"table":"' + b"x" * 1_000_000 + b'"}',
    b'{"table":"t","timestamp":"yesterday"}',
    b'{"table":"t","batch_bytes":-1}',
]
FINE = {b'{"table":"t","offset":9223372036854775807,"limit":9223372036854775807}', b'{"table":"t","batch_bytes":-1}'}


HEADS = [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01"]


@pytest.fixture(scope="module")
def plain_house(tmp_path_factory):
    root = tmp_path_factory.mktemp("junk") / "root"
    root.mkdir()
    stock.write(root, "t", 10, lambda i: 100)
    return root


def still_right(server):
    server.check_alive()
    client = Client(server.uri)
    assert client.get(table="t")["id"].to_pylist() == list(range(10))
    client.close()


def test_junk_tickets(binary, plain_house):
    with Server(binary, plain_house) as server, Raw(server.uri) as raw:
        for data in JUNK:
            answer = raw.get(data)
            check_text(answer)
            if data not in FINE:
                assert answer.code in ("INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"), f"{data[:80]}: {answer!r}"
            for method in ("GetFlightInfo", "GetSchema"):
                told = raw.call(method, command(data))
                check_text(told)
                assert told.code not in ("UNKNOWN", "INTERNAL", "UNAVAILABLE"), f"{method} {data[:80]}: {told!r}"
        still_right(server)


def test_junk_messages(binary, plain_house, seed, full):
    """Random bytes as protobuf of every method, alone and in streams; then random bytes as gRPC, HTTP and TLS."""
    rng = random.Random(seed)
    methods = ["DoGet", "DoPut", "DoExchange", "DoAction", "GetFlightInfo", "GetSchema", "PollFlightInfo"]
    methods += ["ListFlights", "ListActions", "Handshake", "NoSuchMethod"]
    with Server(binary, plain_house) as server, Raw(server.uri) as raw:
        for _ in range(600 if full else 120):
            data = crafted.random_bytes(rng, rng.choice([0, 3, 60, 3000]))
            body = rng.choice([data, field(1, data), command(data), field(2, data), field(1, field(2, data))])
            parts = [body] * rng.choice([1, 1, 2])
            answer = raw.call(rng.choice(methods), *parts, timeout=30)
            check_text(answer)
            assert answer.code not in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN"), f"{body[:80]}: {answer!r}"
        # Messages that nobody sends: a put without a descriptor, an empty stream, a descriptor of no kind.
        for method, parts in [
            ("DoPut", [b""]),
            ("DoPut", [field(2, b"\x00" * 20)]),
            ("DoPut", []),
            ("DoPut", [field(1, command(b'{"table":"t"}'))]),
            ("DoPut", [field(1, b"\x08\x01" + field(3, b"t")), field(1000, b"payload")]),
            ("DoExchange", [b""]),
            ("DoExchange", []),
            ("GetFlightInfo", [b""]),
            ("GetFlightInfo", [b"\x08\x01"]),
            ("GetFlightInfo", [b"\x08\x63"]),
            ("DoAction", [b""]),
            ("DoAction", [field(1, b"no such action")]),
        ]:
            answer = raw.call(method, *parts, timeout=30)
            check_text(answer)
            assert answer.code not in ("OK", "UNAVAILABLE", "DEADLINE_EXCEEDED", "UNKNOWN"), f"{method}: {answer!r}"
        host, port = server.uri.removeprefix("grpc://").rsplit(":", 1)
        for _ in range(40):
            with socket.create_connection((host, int(port)), timeout=10) as connection:
                head = rng.choice(
                    [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01"]
                )
                connection.sendall(head + crafted.random_bytes(rng, 300))
        still_right(server)
