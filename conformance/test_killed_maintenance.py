"""kill -9 at random moments of compaction, cleanup, deep clones and merges: every version that is listed is whole,
nothing of the newest is lost, and the same command run again ends what was begun. GC-1 GC-3
"""

import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import lance
import pyarrow as pa
import pytest
from referee.client import Client
from referee.server import Server

ROWS = 240
KEYS = {"inline_size_threshold": 64, "dedicated_size_threshold": 2000, "pack_file_size_threshold": 4000}


def payload(number, edition=0):
    """Nothing, inline, packed or dedicated."""
    size = (0, 30, 700, 5000)[number % 4]
    return None if number % 11 == 5 else bytes([(number + edition) % 251]) * size


def rows(numbers, edition=0):
    field = lance.blob_field("img", **KEYS)
    values = lance.blob_array([payload(n, edition) for n in numbers])
    return pa.table([pa.array(numbers, pa.int64()), values], schema=pa.schema([("id", pa.int64()), field]))


@pytest.fixture(scope="module", params=[False, True], ids=["sidecars", "managed"])
def origin(request, tmp_path_factory):
    """A table of 12 fragments, deleted rows, ten versions and a tag, and its rows."""
    path = tmp_path_factory.mktemp("origin") / "t.lance"
    ds = lance.write_dataset(rows(range(ROWS)), path, max_rows_per_file=20, data_storage_version="2.2")
    if request.param:
        ds.update_schema_metadata({"lance.blob.managed": "true"})
    for number in range(6):
        ds.delete(f"id % 40 = {number}")
    ds.tags.create("kept", 4)
    lance.write_dataset(rows(range(ROWS, ROWS + 20)), ds, mode="append")
    if request.param:  # objects of the first files are now managed ones
        ds = lance.dataset(path)
        ds.optimize.compact_files(target_rows_per_fragment=80)
        lance.write_dataset(rows(range(ROWS + 20, ROWS + 40)), ds, mode="append")
    return path, contents(lance.dataset(path))


def contents(ds):
    table = ds.scanner(blob_handling="all_binary").to_table()
    return dict(zip(*(c.to_pylist() for c in table.columns), strict=True))


def whole(path, newest):
    """Reads every version of a table with pylance. All hold rows as they were written; answers the newest one's."""
    ds = lance.dataset(path)
    ds.validate()
    for version in ds.versions():
        got = contents(ds.checkout_version(version["version"]))
        wrong = {n for n, value in got.items() if value != payload(n)}
        assert not wrong, f"version {version['version']}: rows {sorted(wrong)}"
    assert contents(ds.checkout_version(ds.tags.list()["kept"]["version"])), "the tagged version"
    assert contents(ds) == newest
    return ds


def killed(command, delay):
    """Runs a command and kills it. Whether it came to its end before."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    time.sleep(delay)
    os.kill(process.pid, signal.SIGKILL)
    _, told = process.communicate(timeout=60)
    assert process.returncode in (0, -signal.SIGKILL), told.decode()
    return process.returncode == 0


def finish(command):
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def moments(command, copy, full, seed):
    """Random moments of a command's run, measured on a copy."""
    copy()
    begin = time.monotonic()
    finish(command)
    length = time.monotonic() - begin
    rng = random.Random(f"{seed} {command[1]}")
    for _ in range(60 if full else 10):
        copy()
        yield rng.uniform(0.1, 1.05) * length


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    "operation",
    [["compact", "--target-rows-per-fragment=100"], ["cleanup", "--older-than=0s", "--delete-unverified"]],
    ids=lambda o: o[0],
)
def test_killed(binary, origin, tmp_path, full, seed, operation):
    source, newest = origin
    path = tmp_path / "t.lance"

    def copy():
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(source, path)

    command = [binary, operation[0], str(path), *operation[1:], "--json"]
    ended = kills = 0
    for delay in moments(command, copy, full, seed):
        ended += killed(command, delay)
        kills += 1
        whole(path, newest)
        finish(command)
        finish([binary, "cleanup", str(path), "--older-than=0s", "--delete-unverified", "--json"])
        ds = whole(path, newest)
        named = {f.path for v in ds.versions() for f in files_of(ds.checkout_version(v["version"]))}
        assert {p.name for p in (path / "data").glob("*.lance")} == named, "files that nobody needs"
    assert ended < kills, "no run was killed"


def files_of(ds):
    return [f for fragment in ds.get_fragments() for f in fragment.data_files()]


@pytest.mark.timeout(900)
def test_killed_deep_clone(binary, origin, tmp_path, full, seed):
    """CLN-5"""
    source, newest = origin
    target = tmp_path / "copy.lance"

    def away():
        shutil.rmtree(target, ignore_errors=True)

    command = [binary, "clone", str(source), str(target), "--deep", "--json"]
    ended = kills = 0
    for delay in moments(command, away, full, seed):
        ended += killed(command, delay)
        kills += 1
        if not list((target / "_versions").glob("*.manifest")):
            finish(command)
        assert contents(lance.dataset(target)) == newest
    assert ended < kills, "no run was killed"
    lance.dataset(target).validate()


@pytest.mark.timeout(900)
def test_killed_merge(binary, origin, tmp_path, full, seed):
    """A merge is there as a whole or not at all."""
    source, newest = origin
    rng = random.Random(f"{seed} merge")
    changed = [n for n in newest if n % 3 == 0] + list(range(1000, 1050))
    new = {**newest, **{n: payload(n, 1) for n in changed}}
    seen = set()
    for number in range(40 if full else 8):
        root = tmp_path / str(number)
        shutil.copytree(source, root / "t.lance")
        server = Server(binary, root)
        client = Client(server.uri, timeout=30)
        acknowledged, wrong, dying = [], [], threading.Event()

        def merge(client=client, acknowledged=acknowledged, wrong=wrong, dying=dying):
            try:
                acknowledged.append(client.put(rows(changed, 1), table="t", mode="merge", on=["id"], chunk=20))
            except (pa.ArrowException, OSError) as error:
                if not dying.is_set():
                    wrong.append(error)

        writer = threading.Thread(target=merge)
        writer.start()
        time.sleep(rng.uniform(0, 0.15))
        dying.set()
        os.kill(server.pid, signal.SIGKILL)
        writer.join(60)
        assert not wrong, wrong
        server.process.wait()
        server.log.unlink()
        ds = lance.dataset(root / "t.lance")
        ds.validate()
        got = contents(ds)
        assert got in (newest, new)
        assert got == new or not acknowledged
        seen.add(got == new)
        finish([binary, "cleanup", str(root / "t.lance"), "--older-than=0s", "--delete-unverified", "--json"])
        assert contents(lance.dataset(root / "t.lance")) == got
        shutil.rmtree(root)
    assert False in seen, "every merge was faster than its kill"
    root = tmp_path / "whole"
    shutil.copytree(source, root / "t.lance")
    with Server(binary, root) as server:
        Client(server.uri).put(rows(changed, 1), table="t", mode="merge", on=["id"], chunk=20)
    assert contents(lance.dataset(root / "t.lance")) == new
