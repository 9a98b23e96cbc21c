"""No ticket reads a file outside: not by names, not by links in the root, not by descriptors."""

import json
import os
import shutil

import lance
import pytest
from referee import crafted, stock
from referee.client import Client
from referee.rpc import SECRET, Raw, check_text
from referee.server import Server


@pytest.fixture
def house(tmp_path):
    """A root with an honest table, and a secret beside it."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    root.mkdir()
    outside.mkdir()
    (outside / "secret.bin").write_bytes(SECRET * 10)
    stock.write(root, "t", 10, lambda i: 100)
    stock.write(outside, "t", 3, lambda i: 100)
    return root, outside


REFUSALS = ("NOT_FOUND", "PERMISSION_DENIED", "INVALID_ARGUMENT", "DATA_LOSS", "RESOURCE_EXHAUSTED")


def refused(answer, hidden=()):
    assert answer.code in REFUSALS, repr(answer)
    assert SECRET not in answer.data
    check_text(answer, *hidden)


@pytest.mark.parametrize(
    "ticket",
    [
        {"table": "../outside/t"},
        {"table": "..%2Foutside%2Ft"},
        {"table": "/etc/passwd"},
        {"table": "t/../../outside/t"},
        {"table": "t.lance/../../outside/t"},
        {"table": ".."},
        {"table": "t\x00"},
        {"table": ""},
        {"table": "t", "schema": "../outside"},
        {"table": "t", "schema": ".."},
        {"table": "t", "catalog": "../outside"},
        {"table": "t", "branch": "../../../outside/t.lance"},
        {"table": "t", "branch": ".."},
        {"table": "t", "tag": "../../../outside/t"},
        {"table": "t", "tag": "x/../../.."},
        {"table": "t", "columns": ["../id"]},
    ],
    ids=lambda t: json.dumps(t)[:60],
)
def test_names_do_not_lead_outside(binary, house, ticket):
    root, outside = house
    with Server(binary, root) as server, Raw(server.uri) as raw:
        refused(raw.get(ticket), hidden=[str(outside)])
        server.check_alive()


def link_table(root, outside):
    os.symlink(outside / "t.lance", root / "x.lance")
    return "x"


def link_versions(root, outside):
    shutil.copytree(root / "t.lance", root / "x.lance")
    shutil.rmtree(root / "x.lance" / "_versions")
    os.symlink(outside / "t.lance" / "_versions", root / "x.lance" / "_versions")
    return "x"


def link_data(root, outside):
    shutil.copytree(root / "t.lance", root / "x.lance")
    shutil.move(root / "x.lance" / "data", outside / "data")
    os.symlink(outside / "data", root / "x.lance" / "data")
    return "x"


def link_data_file(root, outside):
    shutil.copytree(root / "t.lance", root / "x.lance")
    file = next((root / "x.lance" / "data").glob("*.lance"))
    shutil.move(file, outside / "file.lance")
    os.symlink(outside / "file.lance", file)
    return "x"


def link_sidecar(root, outside):
    stock.write(root, "x", 3, lambda i: 70_000)
    sidecar = next((root / "x.lance" / "data").rglob("*.blob"))
    shutil.move(sidecar, outside / "sidecar.blob")
    os.symlink(outside / "sidecar.blob", sidecar)
    return "x"


@pytest.mark.parametrize("make", [link_table, link_versions, link_data, link_data_file, link_sidecar])
def test_links_do_not_lead_outside(binary, house, make):
    root, outside = house
    name = make(root, outside)
    with Server(binary, root) as server, Raw(server.uri) as raw:
        refused(raw.get({"table": name}), hidden=[str(outside)])
        server.check_alive()


def test_root_may_be_a_link(binary, house, tmp_path):
    """Links on the way to the root itself are the operator's own."""
    root, _ = house
    os.symlink(root, tmp_path / "alias")
    with Server(binary, tmp_path / "alias") as server:
        client = Client(server.uri)
        assert client.get(table="t")["id"].to_pylist() == list(range(10))
        client.close()


# Descriptors that lead outside or nowhere: rules, what they are, the row. {secret} and {root} are filled in.
DESCRIPTORS = [
    ("RES-7", "absolute URI of another folder", (3, 0, 0, 0, "file://{secret}")),
    ("RES-7", "range of it", (3, 0, 23, 0, "file://{secret}")),
    ("RES-7", "with a host", (3, 0, 0, 0, "file://localhost{secret}")),
    ("RES-7", "no URI", (3, 0, 0, 0, "{secret}")),
    ("RES-7", "the kernel's files", (3, 0, 0, 0, "file:///proc/self/environ")),
    ("RES-7", "dots in a URI", (3, 0, 0, 0, "file://{root}/../outside/secret.bin")),
    ("RES-7", "escaped dots", (3, 0, 0, 0, "file://{root}/t.lance/%2e%2e/%2e%2e/outside/secret.bin")),
    ("RES-7", "relative", (3, 0, 0, 0, "../../outside/secret.bin")),
    ("RES-10", "empty URI", (3, 0, 0, 0, "")),
    ("REJ-3", "external of an unknown base", (3, 0, 0, 9, "secret.bin")),
    ("RES-9", "dots below a base", (3, 0, 23, 4, "../secret.bin")),
    ("RES-9", "dots inside", (3, 0, 23, 4, "x/../../secret.bin")),
    ("RES-11 REJ-4", "managed with dots", (4, 0, 23, 0, "../../outside/secret.bin")),
    ("RES-11 REJ-4", "managed absolute", (4, 0, 23, 0, "{secret}")),
    ("RES-11 REJ-4", "managed URI", (4, 0, 23, 0, "file://{secret}")),
    ("RES-11 REJ-4", "managed, dots inside", (4, 0, 23, 0, "data/../../../outside/secret.bin")),
    ("RES-11 REJ-4", "managed, empty path and value", (4, 0, 0, 0, "")),
    ("RES-11 REJ-4", "managed in a base, dots", (5, 0, 23, 4, "../secret.bin")),
    ("REJ-3", "managed of an unknown base", (5, 0, 23, 7, "secret.bin")),
    ("REJ-3", "the same, empty", (5, 0, 0, 7, "secret.bin")),
    ("REJ-7", "sidecar zero", (1, 0, 23, 0, "../secret.bin")),
    ("REJ-6", "sidecar that is absent", (2, 0, 23, 99, "")),
    ("REJ-6", "inline past the file", (0, 1 << 40, 23, 0, "")),
    ("REJ-6", "inline, longer than the file", (0, 0, 1 << 30, 0, "")),
    ("", "inline, longer than any message", (0, 0, 1 << 62, 0, "")),
    ("REJ-5", "inline overflow", (0, 2**64 - 1, 23, 0, "")),
    ("REJ-5", "packed overflow", (1, 2**64 - 1, 2, 1, "")),
    ("REJ-5", "external overflow", (3, 2**64 - 1, 2, 4, "here.bin")),
    ("REJ-5", "managed overflow", (4, 2**64 - 1, 2, 0, "_blobs/x.blob")),
    ("REJ-2 DESC-6", "unknown kind", (200, 0, 23, 0, "")),
    ("REJ-2 DESC-6", "unknown kind, empty", (6, 0, 0, 0, "")),
]


@pytest.fixture(scope="module")
def crafted_house(tmp_path_factory):
    """Rows whose descriptors point outside in every way that a descriptor has. Base 4 is registered."""
    folder = tmp_path_factory.mktemp("crafted")
    root, outside, base = folder / "root", folder / "outside", folder / "outside" / "base"
    root.mkdir()
    base.mkdir(parents=True)
    (outside / "secret.bin").write_bytes(SECRET * 10)
    (base / "here.bin").write_bytes(b"here")
    stock.write(root, "t", 10, lambda i: 100, initial_bases=[lance.DatasetBasePath(str(base), "b", False, 4)])
    rows = [(*row[:4], row[4].format(secret=outside / "secret.bin", root=root)) for _, _, row in DESCRIPTORS]
    rows.append((3, 0, 0, 4, "here.bin"))
    return root, outside, crafted.append_descriptors(root / "t.lance", rows)


@pytest.fixture(scope="module")
def crafted_server(binary, crafted_house):
    with Server(binary, crafted_house[0]) as server:
        yield server


@pytest.mark.parametrize("number", [pytest.param(n, id=f"{d[0]} {d[1]}") for n, d in enumerate(DESCRIPTORS)])
def test_descriptors_do_not_lead_outside(crafted_server, crafted_house, number):
    _, _, start = crafted_house
    with Raw(crafted_server.uri) as raw:
        answer = raw.get({"table": "t", "columns": ["blob"], "rows": [start + number]})
        refused(answer)
        assert "blob" in answer.text, "the error does not name the column"
        part = raw.get({"table": "t", "column": "blob", "ranges": [[start + number, 0, 5]]})
        if "longer" not in DESCRIPTORS[number][1]:  # five bytes of a value that is cut short later are there
            refused(part)
        assert SECRET not in part.data
    crafted_server.check_alive()


def test_rest_of_the_fragment_stays_readable(crafted_server, crafted_house):
    """Other rows (RES-15), all descriptors (MAT-4), and a refusal that says what to do."""
    _, _, start = crafted_house
    client = Client(crafted_server.uri)
    good = start + len(DESCRIPTORS)
    assert client.get(table="t", rows=[0, good])["blob"].to_pylist() == [stock.payload(0, 100), b"here"]
    assert client.get(table="t", blobs="descriptor").num_rows == good + 1
    client.close()
    with Raw(crafted_server.uri) as raw:
        answer = raw.get({"table": "t", "columns": ["blob"], "rows": [start]})
        assert answer.code == "PERMISSION_DENIED", repr(answer)
        assert "--external" in answer.text, answer.text


def test_external_prefix_is_by_whole_components(binary, crafted_house):
    root, outside, start = crafted_house
    ask = {"table": "t", "columns": ["blob"], "rows": [start]}
    for prefix, allowed in [(outside, True), (str(outside)[:-1], False), (outside / "secret.bi", False), ("*", True)]:
        with Server(binary, root, external=[prefix]) as server, Raw(server.uri) as raw:
            answer = raw.get(ask)
            assert (answer.code == "OK") == allowed, f"--external {prefix}: {answer!r}"
            assert (SECRET in answer.data) == allowed
