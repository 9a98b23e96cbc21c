"""Damaged bytes never pass for other rows where it can be known, and never end the process."""

import random
import shutil

import lance
import pytest
from referee import crafted, golden, oracle
from referee.client import Client
from referee.compare import difference
from referee.rpc import Raw, check_text
from referee.server import Server, memory

# What damaged bytes may be called: corrupt, gone, too large, of a newer writer, or a version that does not exist.
DAMAGED = {"DATA_LOSS", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "FAILED_PRECONDITION", "PERMISSION_DENIED"}

SOURCES = ["kinds_basic_v22", "kinds_basic_v23", "nested_v22", "nested_v23", "fragments_and_deletions", "legacy_v20"]
SOURCES += ["legacy_v21", "stable_row_ids", "managed_fresh", "columns_share_ids", "thresholds_default", "many_inline"]


def test_damaged_bytes(binary, tmp_path, seed, full):
    """One injury at a time in a copy of a fixture: an honest error, the right rows, or what pylance reads there too."""
    rng = random.Random(seed)
    root, scratch = tmp_path / "root", tmp_path / "scratch"
    root.mkdir()
    scratch.mkdir()
    answers = {"error": 0, "same": 0, "both": 0}
    wrong = []
    with Server(binary, root, arguments=["--memory", "64MiB"]) as server, Raw(server.uri) as raw:
        client = Client(server.uri)
        right = {}
        for number in range(1500 if full else 150):
            source = rng.choice(SOURCES)
            path = root / f"d{number}.lance"
            shutil.copytree(golden.TABLES / source / "table.lance", path)
            victim = rng.choice(crafted.files(path))
            data, injury = crafted.damage((path / victim).read_bytes(), rng)
            (path / victim).write_bytes(data)
            label = f"{source}, {victim}: {injury} (number {number})"
            for face in ("bytes", "descriptor"):
                if (source, face) not in right:
                    dataset = lance.dataset(str(golden.TABLES / source / "table.lance"))
                    right[source, face] = oracle.Oracle(dataset).answer(blobs=face)
                status = raw.get({"table": f"d{number}", "blobs": face})
                server.check_alive()
                check_text(status, str(root))
                if status.code != "OK":
                    answers["error"] += 1
                    if status.code not in DAMAGED:
                        wrong.append(f"{label}, {face}: {status!r}")
                    continue
                got = client.get(table=f"d{number}", blobs=face)
                if difference(right[source, face], got) is None:
                    answers["same"] += 1
                    continue
                other = crafted.second_opinion(path, face, scratch)
                told = difference(other, got) if other is not None else "pylance reads nothing there"
                if told is None:
                    answers["both"] += 1
                else:
                    wrong.append(f"{label}, {face}: {told}")
            shutil.rmtree(path)
        client.close()
        high = memory(server.pid)["VmHWM"]
    print(answers, f"peak {high >> 20} MiB")
    assert not wrong, "\n".join([f"{len(wrong)} wrong", *wrong[:20]])
    assert min(answers["error"], answers["same"]) > 0, "the injuries prove nothing"
    assert high < 600 << 20, f"damaged bytes made the server take {high >> 20} MiB"


# Injuries of a manifest that need no checksum to be seen: what was there, and what stands there now.
SEEN = {
    "a struct with a column of its own": (b"J\x0dlance.blob.v2", b"J\x0dlance.blob/v2"),
    "a known field of another wire type": (b"int64\x30\x01", b"int64\x10\x01"),
    "a version that is not the file's": (b"LANC", b"LANX"),
}


@pytest.mark.parametrize("injury", SEEN)
def test_injury_that_shows(binary, tmp_path, injury):
    """pylance refuses these, and so does the server, rather than to answer rows of another shape."""
    path = tmp_path / "root" / "t.lance"
    shutil.copytree(golden.TABLES / "many_inline" / "table.lance", path)
    (manifest,) = (path / "_versions").glob("*.manifest")
    before, after = SEEN[injury]
    whole = manifest.read_bytes()
    at = whole.rindex(before)  # the manifest proper stands behind the transaction
    manifest.write_bytes(whole[:at] + after + whole[at + len(before) :])
    with Server(binary, path.parent) as server, Raw(server.uri) as raw:
        answer = raw.get({"table": "t"})
    assert answer.code == "DATA_LOSS", repr(answer)
