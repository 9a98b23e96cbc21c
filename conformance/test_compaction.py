"""Compaction beside pylance, both ways: it judges tables that it wrote and we compacted, and we read the reverse."""

import contextlib
import datetime
import json
import random
import shutil
import subprocess
import threading

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pytest
from referee import crafted, golden, oracle, tables
from referee.client import Client
from referee.compare import difference
from referee.house import Statements
from referee.server import Server

RULES = "RWR-1 RWR-2 RWR-3 RWR-6 NUL-11"
LAYOUTS = ("fragments", "deletions", "added", "stable")


def pytest_generate_tests(metafunc):
    if "case" in metafunc.fixturenames:
        full = metafunc.config.getoption("--full")
        chosen = [c for c in tables.covering(3 if full else 2) if c.layout in LAYOUTS and 3 < c.rows <= 20000]
        metafunc.parametrize(
            ("case", "managed"),
            [
                pytest.param(c, managed, id=f"{c} {'managed ' if managed else ''}{rules_of(c)}".strip())
                for c in chosen
                for managed in ((False, True) if c.group == "blobs" else (False,))
            ],
        )


def rules_of(case):
    if case.group != "blobs":
        return ""
    return RULES if case.version >= "2.2" else "LEG-10"


@pytest.fixture(scope="module")
def maker(tmp_path_factory, seed):
    return tables.Maker(tmp_path_factory.mktemp("compaction") / "root", seed)


@pytest.fixture(scope="module")
def server(binary, maker):
    with Server(binary, maker.root, external=["*"]) as running:
        yield running
        running.check_panics()


@pytest.fixture(scope="module")
def client(server):
    connection = Client(server.uri)
    yield connection
    connection.close()


@pytest.fixture(scope="module")
def house(server):
    with dbapi.connect(server.uri, autocommit=True) as connection:
        yield Statements(connection)


def compact(house, name, **options):
    """One CALL: what it answers."""
    given = "".join(f", {k} := {json.dumps(v) if not isinstance(v, str) else repr(v)}" for k, v in options.items())
    (row,) = house.table(f"CALL compact('{name}'{given})").to_pylist()
    return row


def rows_of(dataset):
    """What pylance reads, with row ids where they are stable."""
    dataset.validate()
    table = oracle.Oracle(dataset, {tables.BASE: "/"}).answer()
    if dataset.has_stable_row_ids:
        names = ["_rowid", "_row_created_at_version", "_row_last_updated_at_version"]
        lineage = dataset.to_table(columns=["id", *names])
        for name in names:
            table = table.append_column(name, lineage[name])
    return table


def values_only(table):
    """Without metadata, which columns of older files lose when they become Blob v2."""
    return table.cast(pa.schema([f.remove_metadata() for f in table.schema]))


def test_compacted_here(house, client, maker, case, managed):
    """All kinds of columns: pylance reads the same rows, then deletes, appends, compacts and cleans up, and we read
    what it made of that."""
    name = maker.make(case)
    path = str(maker.root / f"{name}.lance")
    try:
        if managed:
            lance.dataset(path).update_schema_metadata({"lance.blob.managed": "true"})
        before = lance.dataset(path)
        want, fragments = rows_of(before), len(before.get_fragments())
        options = {} if case.version >= "2.2" else {"data_storage_version": "2.2"}
        answer = compact(house, name, **options)
        assert (answer["fragments_removed"], answer["fragments_added"], answer["rows"]) == (fragments, 1, len(want))
        after = lance.dataset(path)
        assert (after.version, len(after.get_fragments())) == (before.version + 2, 1)
        got = rows_of(after)
        if case.version < "2.2" and case.group == "blobs":
            want, got = values_only(want), values_only(got)
        assert difference(want, got) is None
        goes_on(client, maker, name, after, options)
    finally:
        shutil.rmtree(path, ignore_errors=True)


def goes_on(client, maker, name, dataset, options):
    """Changes by pylance of a table that was compacted here, read here."""
    n = dataset.count_rows()
    dataset.delete("id % 3 = 1")
    dataset.optimize.compact_files(**options)
    dataset.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    dataset = lance.dataset(dataset.uri)
    dataset.validate()
    assert dataset.count_rows() < n
    told = difference(oracle.Oracle(dataset, {tables.BASE: str(maker.external)}).answer(), client.get(table=name))
    assert told is None, told


# ---------------------------------------------------------------- golden tables, bases, branches, clones

GOLDEN = {
    "kinds_basic_v22": "",
    "kinds_basic_v23": "",
    "kinds_external_absolute": "",
    "external_bases": "",
    "nested_v22": "NUL-11",
    "nested_managed_compacted": "NUL-11 RWR-2",
    "sidecars_in_bases": "RWR-6",
    "sidecars_in_bases_adopted": "RWR-6",
    "managed_registered_base_plain": "RWR-6",
    "managed_registered_base_root": "RWR-6",
    "managed_optout_compacted": "RWR-1",
    "managed_lifecycle": "RWR-1",
    "managed_prepared": "RWR-1",
    "column_added_later": "RWR-2",
    "column_dropped": "RWR-2",
    "fragments_and_deletions": "RWR-2",
    "deletion_bitmap": "RWR-2",
    "stable_row_ids": "RWR-2",
    "legacy_mixed": "LEG-10",
}


@pytest.mark.parametrize("fixture", [pytest.param(f, id=f"{f} {rules}".strip()) for f, rules in GOLDEN.items()])
def test_golden_tables(client, house, maker, fixture):
    """Every fragment of the newest version becomes one by a row of its own that goes; the others stay as they were."""
    source = golden.TABLES / fixture / "table.lance"
    name = f"golden_{fixture}"
    path = str(maker.root / f"{name}.lance")
    shutil.copytree(source, path)
    dataset = lance.dataset(path)
    options = {} if dataset.data_storage_version >= "2.2" else {"data_storage_version": "2.2"}
    if len(dataset.get_fragments()) == 1:
        options["materialize_deletions_threshold"] = 0
        dataset.delete("_rowoffset = 1")
        dataset = lance.dataset(path)
    face = dataset.scanner(blob_handling="all_binary", with_row_id=dataset.has_stable_row_ids)
    want = face.to_table()
    compact(house, name, **options)
    dataset = lance.dataset(path)
    dataset.validate()
    assert len(dataset.get_fragments()) == 1
    assert all(f.base_id is None for f in dataset.get_fragments()[0].data_files()), "RWR-6"
    got = dataset.scanner(blob_handling="all_binary", with_row_id=dataset.has_stable_row_ids).to_table()
    assert difference(values_only(want), values_only(got)) is None
    told = difference(values_only(want.select(dataset.schema.names)), values_only(client.get(table=name)))
    assert told is None, told


@pytest.mark.parametrize("managed", [False, True], ids=["DIFF-3 plain", "DIFF-3 RWR-2 managed"])
def test_literal_descriptors(house, maker, managed):
    """Descriptors that no honest writer makes, of objects that need not exist: External ones are kept to the letter,
    also where the length is unknown from a start on (NUL-9); values that cannot be resolved stop a compaction."""
    name = f"literal_{managed}"
    path = str(maker.root / f"{name}.lance")
    schema = pa.schema([("id", pa.int64()), lance.blob_field("blob")])
    whole = pa.table([[0, 1], lance.blob_array([b"a" * 100, None])], schema=schema)
    bases = [lance.DatasetBasePath(str(maker.external), "outside", False, 4)]
    lance.write_dataset(whole, path, data_storage_version="2.2", initial_bases=bases)
    if managed:
        lance.dataset(path).update_schema_metadata({"lance.blob.managed": "true"})
    external = [
        (3, 7, 0, 0, "file:///nowhere/at%20all"),
        (3, 0, 0, 4, "object.bin"),
        (3, 2**40, 10, 4, "a/b c"),
        (3, 5, 0, 4, "object.bin"),
    ]
    crafted.append_descriptors(path, [*external, (0, 4096, 0, 0, ""), (1, 9, 0, 0, "")])
    compact(house, name)
    dataset = lance.dataset(path)
    dataset.validate()
    described = dataset.scanner(columns=["blob"], blob_handling="blobs_descriptions").to_table()["blob"].to_pylist()
    assert described[1] is None
    assert [tuple(d.values()) for d in described[2:6]] == external
    assert [(d["kind"], d["size"]) for d in described[6:]] == [(0, 0), (0, 0)]
    crafted.append_descriptors(path, [(9, 0, 1, 0, "")], "unknown.lance")
    with pytest.raises(dbapi.Error, match="kind 9"):
        compact(house, name)
    assert lance.dataset(path).version == dataset.version + 1


BLOB = lance.blob_field("img")
PICTURES = pa.schema([("id", pa.int64()), ("name", pa.string()), BLOB])


def picture(n):
    return None if n % 7 == 3 else bytes([n % 251]) * (n % 50) * (1 if n % 3 else 3000)


def pictures(numbers):
    numbers = list(numbers)
    return pa.table(
        [pa.array(numbers, pa.int64()), [f"n{n % 10}" for n in numbers], lance.blob_array(list(map(picture, numbers)))],
        schema=PICTURES,
    )


def contents(dataset):
    """Row by row, sorted: the order of fragments may change."""
    table = dataset.scanner(columns=["id", "name", "img"], blob_handling="all_binary").to_table()
    return sorted(zip(*(c.to_pylist() for c in table.columns), strict=True))


def expected(numbers):
    return sorted((n, f"n{n % 10}", picture(n)) for n in numbers)


def written(maker, name, fragments=6, rows=100, **options):
    path = str(maker.root / f"{name}.lance")
    options = {"data_storage_version": "2.2", **options}
    lance.write_dataset(pictures(range(fragments * rows)), path, max_rows_per_file=rows, **options)
    return path


def kinds(dataset):
    table = dataset.scanner(columns=["img"], blob_handling="blobs_descriptions").to_table()
    return {d["kind"] for d in table["img"].to_pylist() if d is not None and d["size"]}


def test_branches_and_clones(house, maker, client):
    """CLN-3 CLN-6: a branch and a shallow clone are compacted into their own folders; what lies in the source stays
    there and is named by the base, 0, that leads to it."""
    path = written(maker, "source")
    source = lance.dataset(path)
    source.update_schema_metadata({"lance.blob.managed": "true"})
    lance.write_dataset(pictures(range(600, 700)), path, mode="append")
    source = lance.dataset(path)
    branch = source.create_branch("dev")
    lance.write_dataset(pictures(range(700, 800)), branch, mode="append")
    clone = source.shallow_clone(str(maker.root / "cloned.lance"), source.version)
    version = source.version

    answer = compact(house, "source", branch="dev")
    assert (answer["fragments_removed"], answer["rows"]) == (8, 800)
    branch = lance.dataset(path).checkout_version(("dev", None))
    branch.validate()
    assert contents(branch) == expected(range(800))
    assert kinds(branch) == {0, 4, 5}
    answer = compact(house, "cloned")
    assert (answer["fragments_removed"], answer["rows"]) == (7, 700)
    clone = lance.dataset(clone.uri)
    clone.validate()
    assert contents(clone) == expected(range(700))
    assert kinds(clone) == {0, 5}
    bases = clone.scanner(columns=["img"], blob_handling="blobs_descriptions").to_table()["img"].to_pylist()
    assert {d["blob_id"] for d in bases if d and d["kind"] == 5} == {0}
    assert lance.dataset(path).version == version
    for name, ref, n in [("source", {"branch": "dev"}, 800), ("cloned", {}, 700), ("source", {}, 700)]:
        got = client.get(table=name, **ref)
        assert sorted(zip(*(c.to_pylist() for c in got.columns), strict=True)) == expected(range(n))


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_indexes(house, maker, stable):
    """Indexes of pylance's answer right afterwards. Those that name rows by ids know the new fragment at once, others
    (B-trees do so always) from the next optimize_indices on."""
    name = f"indexed_{stable}"
    path = written(maker, name, enable_stable_row_ids=stable)
    dataset = lance.dataset(path)
    dataset.create_scalar_index("id", "BTREE")
    dataset.create_scalar_index("name", "BITMAP")
    lance.write_dataset(pictures(range(600, 700)), path, mode="append")
    lance.dataset(path).delete("id % 4 = 1")
    left = [n for n in range(700) if n % 4 != 1]
    answer = compact(house, name)
    removed_added = answer["fragments_removed"], answer["fragments_added"]
    assert removed_added == (7, 2), "what the indexes know and what they do not stays apart"
    assert answer["notice"].startswith("2 of the indexes")

    def ask():
        dataset = lance.dataset(path)
        dataset.validate()
        probes = random.Random(1).sample(range(700), 40)
        found = dataset.to_table(columns=["id"], filter=f"id in ({', '.join(map(str, probes))})")["id"].to_pylist()
        assert sorted(found) == sorted(set(left) & set(probes))
        named = dataset.to_table(columns=["id"], filter="name = 'n3'")["id"].to_pylist()
        assert sorted(named) == [n for n in left if n % 10 == 3]
        ours = house.table(f"SELECT id FROM {name} WHERE id IN ({', '.join(map(str, probes))}) ORDER BY id")
        assert ours["id"].to_pylist() == sorted(found)
        assert house.table(f"SELECT count(*) AS n FROM {name} WHERE name = 'n3'")["n"].to_pylist() == [len(named)]
        return [index.num_rows_indexed for index in dataset.describe_indices()]

    assert ask() == ([0, 450] if stable else [0, 0])
    lance.dataset(path).optimize.optimize_indices()
    assert ask() == [525, 525]
    lance.dataset(path).delete("id % 4 = 2")
    left = [n for n in left if n % 4 != 2]
    lance.dataset(path).optimize.compact_files()
    ask()


def test_rows_that_an_index_still_names_elsewhere(house, maker):
    """A table whose indexes pylance left behind at a compaction of its own is not compacted, and says why."""
    path = written(maker, "deferred")
    lance.dataset(path).create_scalar_index("id", "BTREE")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=300, defer_index_remap=True)
    version = lance.dataset(path).version
    with pytest.raises(dbapi.Error, match=r"__lance_frag_reuse.*drop its indexes"):
        compact(house, "deferred")
    assert lance.dataset(path).version == version
    lance.dataset(path).drop_index("id_idx")
    assert compact(house, "deferred")["fragments_added"] == 1
    dataset = lance.dataset(path)
    dataset.validate()
    assert contents(dataset) == expected(range(600))
    dataset.create_scalar_index("id", "BTREE")
    dataset.delete("id < 100")
    dataset.optimize.compact_files(defer_index_remap=True)
    assert lance.dataset(path).to_table(columns=["id"], filter="id in (99, 100, 599)")["id"].to_pylist() == [100, 599]


def test_configured(house, maker):
    """Options of the table's configuration, as pylance sets them, and options of the call, which beat them."""
    path = written(maker, "configured")
    dataset = lance.dataset(path)
    prefix = "lance.compaction."
    dataset.update_config(
        {"lance.compaction.target_rows_per_fragment": "200", "lance.compaction.max_source_rows": "400"}
    )
    answer = compact(house, "configured", dry_run=True)
    assert (answer["fragments_removed"], answer["files_removed"], answer["rows"]) == (4, 4, 400)
    assert answer["version"] == lance.dataset(path).version
    answer = compact(house, "configured")
    assert (answer["fragments_removed"], answer["fragments_added"]) == (4, 2)
    answer = compact(house, "configured", target_rows_per_fragment=1000, max_source_rows=10000)
    assert (answer["fragments_removed"], answer["fragments_added"]) == (4, 1)
    dataset = lance.dataset(path)
    assert contents(dataset) == expected(range(600))
    dataset.update_config({prefix + "materialize_deletions": "perhaps"})
    with pytest.raises(dbapi.Error, match=r"lance\.compaction\.materialize_deletions"):
        compact(house, "configured")


def test_three_ways(binary, house, client, maker):
    """CALL, DoAction and the command line tell the same."""
    for way in ("call", "action", "command"):
        path = written(maker, way)
        lance.dataset(path).delete("id < 50")
        if way == "call":
            answer = compact(house, way)
        elif way == "action":
            (answer,) = client.action("compact", table=way)
        else:
            done = subprocess.run(
                [binary, "compact", way, "--root", str(maker.root)], capture_output=True, text=True, check=True
            )
            first, *lines = done.stdout.strip().splitlines()
            answer = {k.strip().replace(" ", "_"): int(v) for k, v in (line.split(": ") for line in lines)}
            answer["version"] = int(first.split()[-1])
        assert answer["version"] == 4
        counts = [answer[k] for k in ("fragments_removed", "fragments_added", "files_removed", "rows", "skipped")]
        assert counts == [6, 1, 7, 550, 0]
        assert contents(lance.dataset(path)) == expected(range(50, 600))


@pytest.mark.parametrize("version", ["2.0", "2.1"], ids="LEG-5 LEG-10 {}".format)
def test_formats_in_one_table(house, client, maker, version):
    """Rows of format 2.2 that we put into a table of an older one, whose blob column changes with them; pylance reads,
    appends in the old format, and both compact it to 2.2."""
    name = f"mixed_{version[-1]}"
    path = str(maker.root / f"{name}.lance")
    marked = pa.field("img", pa.large_binary(), metadata={"lance-encoding:blob": "true"})
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), marked])

    def legacy(numbers):
        columns = [
            pa.array(numbers, pa.int64()),
            [f"n{n % 10}" for n in numbers],
            [picture(n) or b"-" for n in numbers],
        ]
        return pa.table(columns, schema=schema)

    def held(numbers, old):
        return sorted((n, f"n{n % 10}", picture(n) or b"-" if n in old else picture(n)) for n in numbers)

    lance.write_dataset(legacy(range(40)), path, data_storage_version=version)
    assert client.put(pictures(range(40, 60)), table=name, mode="append", file_version="2.2")["version"] == 2
    dataset = lance.dataset(path)
    dataset.validate()
    assert contents(dataset) == held(range(60), range(40))
    lance.write_dataset(legacy(range(60, 80)), path, mode="append")
    old = [*range(40), *range(60, 80)]
    with pytest.raises(dbapi.Error, match=r"data_storage_version.*LEG-10"):
        compact(house, name)
    assert compact(house, name, data_storage_version="2.2")["fragments_removed"] == 3
    dataset = lance.dataset(path)
    dataset.validate()
    assert contents(dataset) == held(range(80), old)
    dataset.delete("id = 3")
    dataset.optimize.compact_files(data_storage_version="2.2", materialize_deletions_threshold=0.0)
    got = client.get(table=name)
    left = [n for n in range(80) if n != 3]
    assert sorted(zip(*(c.to_pylist() for c in got.columns), strict=True)) == held(left, old)


@pytest.mark.parametrize("managed", [False, True], ids=["plain", "managed"])
def test_compacted_by_pylance(house, maker, client, managed):
    """What we wrote in many fragments, pylance compacts; we read it, and compact it again."""
    name = f"ours_{managed}"
    options = f'managed = {json.dumps(managed)}, "img.inline" = 100'
    house.run(f"CREATE TABLE {name} (id BIGINT, name VARCHAR, img LANCE_BLOB) WITH ({options})")
    for start in range(0, 120, 20):
        house.many(
            f"INSERT INTO {name} VALUES (?, ?, ?)", [(n, f"n{n % 10}", picture(n)) for n in range(start, start + 20)]
        )
    path = str(maker.root / f"{name}.lance")
    lance.dataset(path).optimize.compact_files(target_rows_per_fragment=60)
    assert len(lance.dataset(path).get_fragments()) == 2
    got = client.get(table=name)
    assert sorted(zip(*(c.to_pylist() for c in got.columns), strict=True)) == expected(range(120))
    compact(house, name)
    dataset = lance.dataset(path)
    dataset.validate()
    assert len(dataset.get_fragments()) == 1
    assert contents(dataset) == expected(range(120))
    assert kinds(dataset) == ({0, 4} if managed else {0, 1})


@pytest.mark.parametrize("stable", [False, True], ids=["addresses", "stable ids"])
def test_beside_pylance(house, maker, stable):
    """Compactions one after the other while pylance appends, deletes and compacts: nothing is lost or there twice."""
    name = f"busy_{stable}"
    path = written(maker, name, fragments=4, rows=50, enable_stable_row_ids=stable)
    alive, failures, stop = set(range(200)), [], threading.Event()

    def change():
        rng, following = random.Random(3), 200
        try:
            while not stop.is_set():
                what = rng.random()
                if what < 0.1:
                    with contextlib.suppress(OSError):  # it lost to a compaction of ours
                        lance.dataset(path).optimize.compact_files(target_rows_per_fragment=60)
                elif what < 0.6:
                    lance.write_dataset(pictures(range(following, following + 20)), path, mode="append")
                    alive.update(range(following, following + 20))
                    following += 20
                else:
                    gone = rng.randrange(7)
                    lance.dataset(path).delete(f"id % 11 = {gone} and id > {following - 100}")
                    alive.difference_update({n for n in alive if n % 11 == gone and n > following - 100})
        except Exception as problem:  # shown below, by the thread that asserts
            failures.append(problem)

    writer = threading.Thread(target=change)
    writer.start()
    done = lost = 0
    try:
        while done < 12 and lost < 60:
            try:
                answer = compact(house, name, target_rows_per_fragment=100, materialize_deletions_threshold=0.02)
                done += answer["fragments_added"] > 0
            except dbapi.Error as refused:
                if "run it again" not in str(refused):
                    raise
                lost += 1
    finally:
        stop.set()
        writer.join()
    assert not failures
    assert done >= 12, f"{done} compactions, {lost} that lost"
    dataset = lance.dataset(path)
    dataset.validate()
    assert contents(dataset) == expected(alive)
    assert house.table(f"SELECT count(*) AS n, sum(id) AS s FROM {name}").to_pylist() == [
        {"n": len(alive), "s": sum(alive)}
    ]
    dataset.cleanup_old_versions(older_than=datetime.timedelta(0), delete_unverified=True)
    assert contents(lance.dataset(path)) == expected(alive)


@pytest.mark.parametrize("cleaner", ["ours", "pylance"])
def test_adopted_objects_survive_a_cleanup(house, client, maker, cleaner):
    """GC-7: sidecars of older data files, which a managed table refers to after a compaction, stay when those files go;
    what no live row refers to any more goes with a later one."""
    name = f"adopted_{cleaner}"
    path = written(maker, name)
    sidecars = len(list(maker.root.glob(f"{name}.lance/data/*/*.blob")))
    dataset = lance.dataset(path)
    dataset.update_schema_metadata({"lance.blob.managed": "true"})
    compact(house, name)
    assert kinds(lance.dataset(path)) == {0, 4}

    def clean():
        if cleaner == "ours":
            house.table(f"CALL cleanup('{name}', older_than := INTERVAL 0 SECOND, delete_unverified := true)")
        else:
            now = datetime.timedelta(0)
            lance.dataset(path).cleanup_old_versions(older_than=now, delete_unverified=True)

    clean()
    assert len(list(maker.root.glob(f"{name}.lance/data/*.lance"))) == 1
    assert len(list(maker.root.glob(f"{name}.lance/data/*/*.blob"))) == sidecars > 1
    dataset = lance.dataset(path)
    assert len(dataset.versions()) == 1
    assert contents(dataset) == expected(range(600))
    dataset.delete("id >= 200")
    compact(house, name)
    clean()
    assert 0 < len(list(maker.root.glob(f"{name}.lance/data/*/*.blob"))) < sidecars
    assert contents(lance.dataset(path)) == expected(range(200))
    got = client.get(table=name)
    assert sorted(zip(*(c.to_pylist() for c in got.columns), strict=True)) == expected(range(200))


def test_restored(house, maker):
    """A version before a compaction comes back with its fragments, and is compacted again under new ids."""
    path = written(maker, "restored")
    compact(house, "restored")
    dataset = lance.dataset(path)
    dataset.delete("id < 300")
    dataset = lance.dataset(path).checkout_version(1)
    dataset.restore()
    assert compact(house, "restored")["fragments_removed"] == 6
    dataset = lance.dataset(path)
    dataset.validate()
    assert [f.fragment_id for f in dataset.get_fragments()] == [7]
    assert contents(dataset) == expected(range(600))
