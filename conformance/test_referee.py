"""The referee judged: it accepts right answers, and finds every fault that is built into a server."""

import random

import lance
import pyarrow as pa
import pytest
from referee import golden, oracle, tables
from referee.client import Client
from referee.compare import array_difference, difference
from referee.faulty import FAULTS, Faulty
from referee.requests import read, requests


@pytest.fixture(scope="module")
def oracles(tmp_path_factory):
    """A few small tables of every group, with what they must answer."""
    maker = tables.Maker(tmp_path_factory.mktemp("referee") / "root", 11)
    found = {}
    for group in tables.DIMENSIONS["group"]:
        case = tables.Case(group, "2.2", 1000, "random", "some", "deletions")
        name = maker.make(case)
        dataset = lance.dataset(str(maker.root / f"{name}.lance"))
        found[name] = oracle.Oracle(dataset, {tables.BASE: str(maker.external)})
    return found


def differences(oracles, fault):
    """Everything the referee's ordinary questions find in a server with a fault."""
    found = []
    with Faulty(oracles, fault) as server:
        client = Client(f"grpc://127.0.0.1:{server.port}")
        for name, expected in oracles.items():
            faces = ("bytes", "descriptor", "logical") if expected.has_blobs() else ("bytes",)
            count = expected.whole("bytes").num_rows
            for want in requests(expected.schema, count, faces, random.Random(name)):
                told = difference(expected.answer(**want), read(client, {"table": name, **want}))
                if told:
                    found.append(f"{name} {want}: {told}")
        client.close()
    return found


def test_right_answers_pass(oracles):
    assert differences(oracles, None) == []


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_found(oracles, name):
    assert differences(oracles, FAULTS[name]) != []


@pytest.mark.parametrize(
    ("kind", "want", "got"),
    [
        (pa.float64(), [0.0], [-0.0]),
        (pa.float32(), [float("nan")], [None]),
        (pa.utf8(), [""], [None]),
        (pa.list_(pa.int32()), [[]], [None]),
        (pa.list_(pa.int32()), [[1], [2]], [[1, 2], []]),
        (pa.list_(pa.int32()), [[None]], [[]]),
        (pa.list_(pa.int32(), 2), [None], [[None, None]]),
        (pa.struct([("a", pa.int8())]), [None], [{"a": None}]),
        (pa.map_(pa.utf8(), pa.int8()), [[("a", 1)]], [[("a", 2)]]),
        (pa.map_(pa.utf8(), pa.int8()), [[("a", 1)]], [[("b", 1)]]),
        (pa.dictionary(pa.int8(), pa.utf8()), ["a"], ["b"]),
        (pa.decimal128(9, 2), [1], [None]),
    ],
    ids=str,
)
def test_comparison_tells_apart(kind, want, got):
    pair = [pa.array(values, kind) for values in (want, got)]
    assert array_difference(pair[0], pair[0], "c") is None
    assert array_difference(*pair, "c") is not None


def test_comparison_forgives_what_means_nothing():
    """Hidden bytes under nulls, offsets of slices and the order of a dictionary."""
    values = pa.array([b"x", b"hidden", b"y"], pa.large_binary())
    under = pa.LargeBinaryArray.from_buffers(pa.large_binary(), 3, [pa.py_buffer(b"\x05"), *values.buffers()[1:]])
    assert array_difference(pa.array([b"x", None, b"y"], pa.large_binary()), under, "c") is None
    lists = pa.array([[9], [1, 2], None, [3]])
    assert array_difference(pa.array([[1, 2], None, [3]]), lists.slice(1), "c") is None
    maps = pa.array([[("z", 0)], [("a", 1)], None], pa.map_(pa.utf8(), pa.int8()))
    assert array_difference(pa.array([[("a", 1)], None], maps.type), maps.slice(1), "c") is None
    one = pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int8()), ["a", "b"])
    two = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), ["b", "a"])
    assert array_difference(one, two, "c") is None


@pytest.mark.parametrize("fixture", golden.names())
def test_oracle_agrees_with_the_fixtures(fixture):
    """What the oracle makes of pylance's scans is what expected.json says, in every face."""
    golden.make_link()
    for snapshot in golden.snapshots(fixture):
        dataset = lance.dataset(str(golden.TABLES / fixture / snapshot.table))
        where = {k: v for k, v in snapshot.where.items() if k in ("version", "tag", "branch")}
        if "branch" in where:
            dataset = dataset.checkout_version((where["branch"], where.get("version")))
        elif where:
            dataset = dataset.checkout_version(next(iter(where.values())))
        expected = oracle.Oracle(dataset, snapshot.bases.paths)
        if not snapshot.count:
            continue
        described = expected.answer(blobs="descriptor")
        assert golden.read_descriptors(described) == golden.expected_descriptors(snapshot)
        assert expected.answer(blobs="descriptor", columns=["_rowid"])["_rowid"].to_pylist() == snapshot.row_ids
        if snapshot.errors:
            continue
        assert golden.read_rows(expected.answer(), described.schema) == golden.expected_rows(snapshot)
        logical = golden.read_logical(expected.answer(blobs="logical"), described.schema)
        assert logical == golden.expected_logical(snapshot.rows, golden.expected_descriptors(snapshot), snapshot.bases)
