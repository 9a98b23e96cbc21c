"""Cleanup beside pylance, by the names that users call it by, and under kill -9. What is removed for the same policy is
compared file by file in table/maintain."""

import datetime
import json
import pathlib
import random
import shutil
import subprocess
import time

import adbc_driver_flightsql.dbapi as dbapi
import lance
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from referee import stock
from referee.client import Client
from referee.house import Statements
from referee.server import Server

NOW = datetime.timedelta(0)
MANAGED = {"lance.blob.managed": "true"}


def size(identifier):
    """Inline, packed and dedicated values, and empty ones."""
    return (0, 40, 70_000, 4_200_000 if identifier % 40 == 3 else 200)[identifier % 4]


def rows_of(first, count=8):
    ids = range(first, first + count)
    field = pa.field("blob", pa.struct(stock.blobs.COMPLETE), metadata={"ARROW:extension:name": "lance.blob.v2"})
    return pa.table(
        [pa.array(ids, pa.int64()), stock.blob_values(ids, size)],
        schema=pa.schema([pa.field("id", pa.int64()), field], metadata=MANAGED),
    )


def files(path):
    return sorted(str(f.relative_to(path)) for f in pathlib.Path(path).rglob("*") if f.is_file())


def ids_of(dataset):
    """The ids of a version whose values are all those of their ids."""
    table = dataset.scanner(blob_handling="all_binary").to_table()
    assert stock.wrong_values(table, size) is None
    return sorted(table["id"].to_pylist())


def state(path):
    """The ids of every version, tag and branch, as pylance reads them."""
    main = lance.dataset(str(path))
    found = {("main", v["version"]): ids_of(main.checkout_version(v["version"])) for v in main.versions()}
    for name in main.branches.list():
        branch = main.checkout_version((name, None))
        for v in branch.versions():
            found[name, v["version"]] = ids_of(branch.checkout_version((name, v["version"])))
    return found | {("tag", name): ids_of(main.checkout_version(name)) for name in main.tags.list()}


def history(path, versions=6):
    """A table with managed values, of which some versions are tagged or left by a branch."""
    lance.write_dataset(rows_of(0), str(path), data_storage_version="2.2")
    for number in range(1, versions):
        lance.write_dataset(rows_of(8 * number), str(path), mode="append")
        lance.dataset(str(path)).delete(f"id in ({8 * number + 1}, {8 * number - 5})")
    dataset = lance.dataset(str(path))
    dataset.tags.create("kept", 4)
    branch = dataset.create_branch("dev", 5)
    lance.write_dataset(rows_of(1000), branch, mode="append")
    lance.dataset(str(path)).optimize.compact_files()
    lance.write_dataset(rows_of(500), str(path), mode="append")
    return state(path)


def run(binary, *args):
    return subprocess.run([binary, *args], capture_output=True, text=True, timeout=120)


def test_removed_while_it_is_read(binary, tmp_path):
    """A stream whose version goes says that, and not that data was lost."""
    with Server(binary, tmp_path) as server, dbapi.connect(server.uri, autocommit=True) as connection:
        house = Statements(connection)
        client = flight.connect(server.uri)
        house.run("CREATE TABLE t (id BIGINT, img LANCE_BLOB)")
        for ticket in (True, False):
            house.run("INSERT INTO t SELECT i, repeat('x', 5000000)::BLOB FROM range(40) r(i)")
            with connection.cursor() as cursor:
                if ticket:
                    rows = client.do_get(flight.Ticket(b'{"table":"t"}')).to_reader()
                else:
                    cursor.execute("SELECT img FROM t")
                    rows = cursor.fetch_record_batch()
                rows.read_next_batch()
                house.run("UPDATE t SET img = NULL")
                house.table("CALL cleanup('t', older_than := INTERVAL 0 DAY)")
                with pytest.raises((pa.ArrowKeyError, OSError), match="does not exist; the oldest is"):
                    rows.read_all()


def test_faces(binary, tmp_path):
    """GC-4 GC-5: CALL, DoAction and the command say and do the same; pylance reads all that is left, and we too."""
    root, saved = tmp_path / "root", tmp_path / "saved"
    path = root / "t.lance"
    before = history(path)
    shutil.copytree(path, saved)
    made = files(path)
    newest = max(version for line, version in before if line == "main")

    def call():
        with Server(binary, root) as server, dbapi.connect(server.uri) as connection:
            house = Statements(connection)
            with pytest.raises(Exception, match="retain_versions is 0"):
                house.table("CALL cleanup('t', retain_versions := 0)")
            (answer,) = house.table("CALL cleanup('t', older_than := INTERVAL 0 DAY)").to_pylist()
            got = house.table("SELECT id, blob FROM t")
            assert stock.wrong_values(got, size) is None
            assert sorted(got["id"].to_pylist()) == before["main", newest]
            return answer

    def action():
        with Server(binary, root) as server:
            client = Client(server.uri)
            (foreseen,) = client.action("cleanup", table="t", older_than="0s", dry_run=True)
            assert files(path) == made
            (answer,) = client.action("cleanup", table="t", older_than="0s")
            assert foreseen["report"].replace("would remove", "removed") == answer["report"]
            client.close()
            return answer

    def command():
        done = run(binary, "cleanup", "t", "--root", str(root), "--older-than", "0", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def pylance():
        lance.dataset(str(path)).cleanup_old_versions(older_than=NOW, error_if_tagged_old_versions=False)

    answers, left = {}, {}
    for clean in (call, action, command, pylance):
        shutil.rmtree(path)  # bases of branches are absolute paths, so each works at the same place
        shutil.copytree(saved, path)
        answer = clean()
        # pylance takes the transaction of a version that it keeps for a branch.
        left[clean] = [f for f in files(path) if not f.startswith("_transactions/")]
        after = state(path)
        assert all(before[key] == ids for key, ids in after.items())
        assert {key for key in after if key[0] != "main"} == {key for key in before if key[0] != "main"}
        if answer:
            counts = ("version", "old_versions", "bytes_removed", "data_files_removed", "blob_files_removed")
            answers[clean] = [answer[c] for c in counts]
            assert answer["old_versions"] > 5
            assert answer["data_files_removed"] > 2
    assert answers[call] == answers[action] == answers[command]
    assert left[call] == left[action] == left[command] == left[pylance]


def test_ours(binary, tmp_path):
    """GC-6 GC-7 GC-9: a table that clients wrote, changed and compacted is cleaned up by both alike."""
    with Server(binary, tmp_path) as server:
        client = Client(server.uri)
        client.put(rows_of(0), table="t", mode="create", managed=True)
        for number in range(1, 5):
            client.put(rows_of(8 * number), table="t", mode="append")
        with dbapi.connect(server.uri) as connection:
            house = Statements(connection)
            assert house.run("DELETE FROM t WHERE id IN (2, 9, 17, 33)") == 4
            house.table("CALL compact('t')")
            assert house.run("DELETE FROM t WHERE id < 8") == 7
            client.action("create_tag", table="t", tag="kept", version=3)
            before = state(tmp_path / "t.lance")
            shutil.copytree(tmp_path / "t.lance", tmp_path / "theirs.lance")
            house.table("CALL cleanup('t', older_than := INTERVAL 0 DAY)")
            lance.dataset(str(tmp_path / "theirs.lance")).cleanup_old_versions(
                older_than=NOW, error_if_tagged_old_versions=False
            )
            assert files(tmp_path / "t.lance") == files(tmp_path / "theirs.lance")
            after = state(tmp_path / "t.lance")
            newest = max(version for line, version in before if line == "main")
            assert after == {key: before[key] for key in (("main", 3), ("tag", "kept"), ("main", newest))}
            for name in ("t", "theirs"):
                got = house.table(f"SELECT id, blob FROM {name}")
                assert stock.wrong_values(got, size) is None
                assert sorted(got["id"].to_pylist()) == after["main", newest]
        client.close()
        server.check_panics()


def test_tagged_source_of_a_clone(binary, tmp_path):
    """CLN-4 GC-4: a clone reads on when its source is cleaned up, if the version that it was made of is tagged."""
    source, clone = tmp_path / "source.lance", tmp_path / "clone.lance"
    dataset = lance.write_dataset(rows_of(0), str(source), data_storage_version="2.2")
    dataset.tags.create("pin", 1)
    dataset.shallow_clone(str(clone), "pin")
    lance.write_dataset(rows_of(8), str(source), mode="overwrite")
    lance.write_dataset(rows_of(16), str(clone), mode="append")
    before = state(clone)
    kept = files(source)
    for name in ("source", "clone"):
        done = run(binary, "cleanup", name, "--root", str(tmp_path), "--older-than", "0", "--delete-unverified")
        assert done.returncode == 0, done.stderr
    assert all(before[key] == ids for key, ids in state(clone).items())
    assert set(kept) - set(files(source)) == set()


@pytest.mark.timeout(600)
def test_kills(binary, tmp_path, full, seed):
    """GC-1 GC-4: whenever a cleanup is killed, every version that pylance lists is whole, and the next one goes on."""
    rng = random.Random(seed)
    print(f"seed {seed}")
    path, made = tmp_path / "t.lance", tmp_path / "made"
    before = history(path, 12)
    shutil.copytree(path, made)
    command = [binary, "cleanup", "t", "--root", str(tmp_path), "--older-than", "0"]
    started = time.monotonic()
    assert subprocess.run(command, capture_output=True, timeout=120).returncode == 0
    takes = time.monotonic() - started
    clean = files(path)
    between = 0
    for _ in range(100 if full else 12):
        shutil.rmtree(path)
        shutil.copytree(made, path)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(rng.uniform(0.2, 1) * takes)
        process.kill()
        process.wait()
        left = files(path)
        between += left != files(made) and left != clean
        after = state(path)
        assert all(before[key] == ids for key, ids in after.items())
        assert {key for key in after if key[0] != "main"} == {key for key in before if key[0] != "main"}
        again = subprocess.run([*command, "--delete-unverified"], capture_output=True, text=True, timeout=120)
        assert again.returncode == 0, again.stderr
        assert files(path) == clean
    print(f"{between} of the kills met a cleanup on its way")
