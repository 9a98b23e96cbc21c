"""Clones in both directions: pylance's are ours to read, change and compact, and ours are pylance's."""

import datetime
import pathlib
import shutil
import subprocess

import lance
import pyarrow as pa
import pytest
from adbc_driver_flightsql import dbapi
from lance import DatasetBasePath
from referee.client import Client
from referee.s3 import S3
from referee.server import Server

MINIMAL = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
COMPLETE = pa.struct([*MINIMAL, pa.field("position", pa.uint64()), pa.field("size", pa.uint64())])
MARK = {
    "ARROW:extension:name": "lance.blob.v2",
    "lance-encoding:blob-inline-size-threshold": "10",
    "lance-encoding:blob-dedicated-size-threshold": "1000",
}
PAGES = pa.list_(pa.field("item", pa.struct([pa.field("no", pa.int32()), pa.field("scan", COMPLETE, metadata=MARK)])))
SCHEMA = pa.schema([pa.field("id", pa.int64()), pa.field("b", COMPLETE, metadata=MARK), pa.field("pages", PAGES)])
OPT_IN = {"lance.blob.managed": "true"}
NOTHING_OLD = {"older_than": datetime.timedelta(0), "delete_unverified": True}


@pytest.fixture(scope="module")
def house(binary, tmp_path_factory):
    """A root, a server over it, and places beside it for bases."""
    top = tmp_path_factory.mktemp("clones")
    (top / "root").mkdir()
    with Server(binary, top / "root", external=[str(top)]) as server:
        client = Client(server.uri)
        yield House(top, client, binary)
        client.close()
        server.check_panics()


class House:
    def __init__(self, top, client, binary):
        self.top, self.client, self.binary = top, client, binary

    def path(self, name):
        return str(self.top / "root" / f"{name}.lance")

    def open(self, name, **pin):
        return lance.dataset(self.path(name), **pin)

    def clone(self, name, to, **arguments):
        return self.client.action("clone", table=name, to=to, **arguments)[0]


def value(i, k=0):
    size = (5, 0, None, 100, 2000, 11, 700)[(i + k) % 7]
    return None if size is None else bytes([i % 256, k]) * (size // 2)


def held(data=None, uri=None, position=None, size=None):
    return {"data": data, "uri": uri, "position": position, "size": size}


def rows(first, n, uris=(), metadata=None):
    """Values of all placements at the top and in lists of structs, and references to URIs at the end of each."""
    ids = list(range(first, first + n))
    column = [None if value(i) is None else held(value(i)) for i in ids]
    pages = [
        None
        if i % 6 == 5
        else [{"no": k, "scan": None if value(i, k) is None else held(value(i, k))} for k in range(i % 4)]
        for i in ids
    ]
    for uri in uris:
        ids.append(max(ids) + 1)
        column.append(held(uri=uri))
        pages.append([{"no": 0, "scan": held(uri=uri, position=3, size=20)}])
    return pa.table(
        [pa.array(ids, pa.int64()), pa.array(column, COMPLETE), pa.array(pages, PAGES)],
        schema=SCHEMA.with_metadata(metadata),
    )


def whole(dataset):
    return dataset.to_table(blob_handling="all_binary")


def kinds(dataset):
    """The kinds of all values, nested ones too."""
    found = set()
    table = dataset.to_table(columns=["b", "pages"], blob_handling="all_descriptions")
    for row in table.to_pylist():
        for v in [row["b"], *(p["scan"] for p in row["pages"] or [])]:
            if v is not None:
                found.add(v["kind"])
    return found


def all_kinds(house, name):
    """A table with values of all six kinds, at the top and nested, in its own folder and in bases of both sorts."""
    top = house.top
    ext = top / f"{name}_ext"
    ext.mkdir()
    for file in ("a.bin", "far.bin"):
        (ext / file).write_bytes(bytes(range(200)))
    (top / f"{name}_far").mkdir()
    (ext / "far.bin").rename(top / f"{name}_far" / "far.bin")
    bases = [
        DatasetBasePath(str(top / f"{name}_x"), "x", True, 7),
        DatasetBasePath(str(top / f"{name}_y"), "y", False, 9),
        DatasetBasePath(str(ext), "ext", False, 3),
        DatasetBasePath(str(top / f"{name}_unused"), "unused", False, 12),
    ]
    path = house.path(name)
    lance.write_dataset(rows(0, 12), path, data_storage_version="2.2", initial_bases=bases)
    lance.write_dataset(rows(20, 12), path, mode="append", target_bases=["x"])
    lance.write_dataset(rows(40, 12), path, mode="append", target_bases=["y"])
    far = (top / f"{name}_far" / "far.bin").as_uri()
    lance.write_dataset(
        rows(60, 3, [(ext / "a.bin").as_uri(), far]), path, mode="append", allow_external_blob_outside_bases=True
    )
    house.open(name).update_schema_metadata(OPT_IN)
    for first, where in ((80, None), (100, ["x"]), (120, ["y"])):
        lance.write_dataset(rows(first, 12, metadata=OPT_IN), path, mode="append", target_bases=where)
    dataset = house.open(name)
    dataset.delete("id % 20 = 3 or id = 107")
    dataset.create_scalar_index("id", "BTREE")
    # Sidecars are adopted; others, and objects in a base, follow.
    dataset.optimize.compact_files(target_rows_per_fragment=20)
    lance.write_dataset(rows(140, 12, metadata=OPT_IN), path, mode="append", target_bases=["y"])
    lance.write_dataset(rows(160, 12, metadata=OPT_IN), path, mode="append")
    house.open(name).update_schema_metadata({"lance.blob.managed": "false"})
    lance.write_dataset(rows(180, 12), path, mode="append", target_bases=["x"])
    lance.write_dataset(rows(200, 12), path, mode="append")
    house.open(name).update_schema_metadata(OPT_IN)
    house.open(name).delete("id in (144, 165, 166, 187)")
    return house.open(name)


def sources(house, name):
    """What a deep clone must do without, as opposed to External objects."""
    return [house.top / "root" / f"{name}.lance", *(house.top / f"{name}_{b}" for b in ("x", "y"))]


def lived_in(house, name, want):
    """pylance uses a clone as its own, and we read what it leaves."""
    dataset = house.open(name)
    dataset.validate()
    assert whole(dataset).equals(want)
    version = dataset.version
    dataset = lance.write_dataset(rows(1000, 14, metadata=dataset.schema.metadata), house.path(name), mode="append")
    dataset.delete("id = 1004 or id = 1")
    dataset.update({"id": "id + 5000"}, where="id = 1005")
    assert dataset.version > version
    before = whole(house.open(name)).sort_by("id")
    if dataset.describe_indices():
        assert dataset.count_rows("id = 1006") == 1
    dataset.optimize.compact_files()
    dataset = house.open(name)
    dataset.cleanup_old_versions(**NOTHING_OLD)
    dataset = house.open(name)
    dataset.validate()
    assert whole(dataset).sort_by("id").equals(before)
    ours = house.client.get(table=name, blobs="bytes")
    assert ours.num_rows == before.num_rows
    assert ours.sort_by("id").to_pydict() == before.to_pydict()


def test_deep_all_kinds(house):
    """CLN-5 CLN-7 DIFF-4: all six kinds, nested too, read after source and bases are gone."""
    source = all_kinds(house, "six")
    assert kinds(source) == {0, 1, 2, 3, 4, 5}
    want = whole(source)
    answer = house.clone("six", "six_deep", deep=True)
    assert answer["version"] == source.version
    assert answer["to"] == "lance.main.six_deep"
    assert answer["objects_copied"] > 20
    assert answer["bytes_copied"] > 10000
    for folder in sources(house, "six"):
        folder.rename(f"{folder}.gone")
    deep = house.open("six_deep")
    deep.validate()
    assert whole(deep).equals(want)
    assert 5 not in kinds(deep)
    assert house.client.get(table="six_deep", blobs="bytes").to_pydict() == want.to_pydict()
    for fragment in deep.get_fragments():
        for file in fragment.metadata.files:
            assert file.base_id is None
    assert deep.count_rows("id = 81") == 1
    assert deep.describe_indices()
    named = {str(p.relative_to(house.path("six_deep"))) for p in pathlib.Path(house.path("six_deep")).rglob("*.blob")}
    assert named
    assert all(p.startswith(("_blobs/", "data/")) for p in named)
    deep.delete("id = 81")
    before = whole(house.open("six_deep"))
    house.open("six_deep").cleanup_old_versions(**NOTHING_OLD)
    assert whole(house.open("six_deep")).equals(before)
    lived_in(house, "six_deep", before)


def test_deep_of_pylance_after_source(house):
    """CLN-5: pylance's deep clone is ours to read, compact and clone again when the source is gone."""
    path = house.path("their_source")
    lance.write_dataset(
        rows(0, 14, metadata=OPT_IN),
        path,
        initial_bases=[DatasetBasePath(str(house.top / "their_x"), "x", True, 7)],
        target_bases=["x"],
    )
    source = lance.write_dataset(rows(20, 14, metadata=OPT_IN), path, mode="append")
    want = whole(source)
    source.deep_clone(house.path("their_deep"), source.version)
    shutil.rmtree(path)
    shutil.rmtree(house.top / "their_x")
    assert house.client.get(table="their_deep", blobs="bytes").to_pydict() == want.to_pydict()
    house.client.put(rows(40, 7, metadata=OPT_IN), table="their_deep", mode="append")
    house.client.action("compact", table="their_deep")
    house.clone("their_deep", "their_deep_again", deep=True)
    again = house.open("their_deep_again")
    again.validate()
    assert whole(again).equals(whole(house.open("their_deep")))
    lived_in(house, "their_deep_again", whole(again))


@pytest.mark.parametrize("managed", [False, True], ids=["sidecars", "managed"])
def test_shallow(house, managed):
    """CLN-1 CLN-2 CLN-3: our shallow clone is pylance's to use, and the source stays as it was."""
    name = f"plain_{managed}"
    metadata = OPT_IN if managed else None
    lance.write_dataset(rows(0, 12, metadata=metadata), house.path(name), max_rows_per_file=5)
    source = house.open(name)
    source.delete("id = 3")
    want, version = whole(house.open(name)), house.open(name).version
    answer = house.clone(name, f"{name}_s", tag_source=True)
    assert answer["version"] == version
    assert answer["source_tagged"]
    assert not answer["deep"]
    assert house.open(name).tags.list()[answer["source_tag"]]["version"] == version
    assert answer["source_tag"] == f"clone-{name}_s-v{version}"
    files = {p.name for p in pathlib.Path(house.path(f"{name}_s")).iterdir()}
    assert files == {"_versions", "_transactions"}
    lived_in(house, f"{name}_s", want)
    house.open(name).delete("id < 10")
    house.open(name).optimize.compact_files()
    house.open(name).cleanup_old_versions(**NOTHING_OLD, error_if_tagged_old_versions=False)
    again = house.clone(name, f"{name}_t", tag=answer["source_tag"])
    assert again["version"] == version
    assert again["source_tag"] == answer["source_tag"]
    lived_in(house, f"{name}_t", want)
    assert whole(house.open(name, version=answer["source_tag"])).equals(want)


def test_shallow_of_pylance(house):
    """CLN-1 CLN-2 CLN-3: pylance's shallow clone is ours to read, extend, delete from, compact and clone deep."""
    lance.write_dataset(rows(0, 12, metadata=OPT_IN), house.path("base"), max_rows_per_file=6)
    source = house.open("base")
    source.delete("id = 3")
    source.tags.create("pin", source.latest_version)
    source.shallow_clone(house.path("theirs"), "pin")
    want = whole(house.open("theirs"))
    assert house.client.get(table="theirs", blobs="bytes").to_pydict() == want.to_pydict()
    house.client.put(rows(20, 7, metadata=OPT_IN), table="theirs", mode="append")
    house.open("theirs").validate()
    want = whole(house.open("theirs"))
    house.client.action("compact", table="theirs")
    compacted = house.open("theirs")
    compacted.validate()
    assert whole(compacted).equals(want)
    assert 5 in kinds(compacted)
    house.clone("theirs", "theirs_deep", deep=True)
    shutil.rmtree(house.path("base"))
    shutil.rmtree(house.path("theirs"))
    assert kinds(house.open("theirs_deep")) == {0, 4}
    lived_in(house, "theirs_deep", want)


def test_clone_of_clone(house):
    """CLN-1: bases 0 and 1; DIFF-2: kind 5 of base 0 after pylance's compaction."""
    house.client.put(rows(0, 12), table="first", mode="create", managed=True, file_version="2.2")
    house.clone("first", "second", tag_source=True)
    house.client.put(rows(20, 12), table="second", mode="append")
    house.open("second").delete("id = 4")
    house.clone("second", "third", tag_source=True)
    third = house.open("third")
    third.validate()
    bases = {b: (p.path, p.is_dataset_root) for b, p in third._ds.base_paths().items()}
    assert bases == {0: (house.path("first"), True), 1: (house.path("second"), True)}
    want = whole(third)
    assert want.equals(whole(house.open("second")))
    lived_in(house, "third", want)
    house.clone("third", "fourth", deep=True)
    want = whole(house.open("third"))
    for name in ("first", "second", "third"):
        shutil.rmtree(house.path(name))
    lived_in(house, "fourth", want)


@pytest.mark.parametrize("deep", [False, True], ids=["shallow", "deep"])
def test_branch_and_versions(house, deep):
    """CLN-1 CLN-6: clones of a branch of pylance's, of an old version and of a tag of a branch."""
    name = f"forked_{deep}"
    lance.write_dataset(rows(0, 8, metadata=OPT_IN), house.path(name))
    lance.write_dataset(rows(10, 8, metadata=OPT_IN), house.path(name), mode="append")
    branch = house.open(name).create_branch("dev", 1)
    branch = lance.write_dataset(rows(30, 8, metadata=OPT_IN), branch, mode="append")
    branch.delete("id = 31")
    dev = house.open(name).checkout_version(("dev", None))
    house.open(name).tags.create("mark", ("dev", 2))
    for to, pin, of in (
        ("branch", {"branch": "dev"}, dev),
        ("old", {"version": 1}, house.open(name, version=1)),
        ("tag", {"tag": "mark"}, house.open(name).checkout_version(("dev", 2))),
    ):
        answer = house.clone(name, f"{name}_{to}", deep=deep, **pin)
        made = house.open(f"{name}_{to}")
        assert answer["version"] == made.version == of.version
        if not deep:
            assert answer["source_tagged"] is (to == "tag")
        lived_in(house, f"{name}_{to}", whole(of))
    with pytest.raises(pa.ArrowException, match="exists already"):
        house.clone(name, f"{name}_old", deep=deep)


def test_bases_that_external_values_name(house):
    """DIFF-4: without the managed flag pylance's deep clone loses the bases of External values; ours keeps them."""
    ext = house.top / "kept_ext"
    ext.mkdir()
    (ext / "a.bin").write_bytes(bytes(range(200)))
    bases = [DatasetBasePath(str(ext), "ext", False, 3), DatasetBasePath(str(house.top / "kept_u"), "unused", False, 8)]
    source = lance.write_dataset(rows(0, 3, [(ext / "a.bin").as_uri()]), house.path("kept"), initial_bases=bases)
    want = whole(source)
    source.deep_clone(house.path("kept_theirs"), source.version)
    with pytest.raises(Exception, match="base"):
        whole(house.open("kept_theirs"))
    house.clone("kept", "kept_ours", deep=True)
    shutil.rmtree(house.path("kept"))
    ours = house.open("kept_ours")
    assert {b: p.path for b, p in ours._ds.base_paths().items()} == {3: str(ext)}
    lived_in(house, "kept_ours", want)


def test_statement_and_command(house, binary):
    """CALL answers what it did and what tag would keep the version; the command takes paths, also outside the root."""
    house.client.put(rows(0, 6), table="said", mode="create", file_version="2.2")
    with dbapi.connect(house.client.uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("CALL clone('said', 'said_s', tag_source := true)")
        (answer,) = cursor.fetch_arrow_table().to_pylist()
        assert answer["source_tag"] == "clone-said_s-v1"
        assert answer["source_tagged"]
        cursor.execute("CALL clone('said', 'said_d', deep := true, version := 1)")
        (answer,) = cursor.fetch_arrow_table().to_pylist()
        assert answer["version"] == 1
        assert answer["bytes_copied"] > 0
        assert answer["source_tag"] is None
        cursor.execute("SELECT count(*) FROM said_s JOIN said_d USING (id)")
        assert cursor.fetchone()[0] == 6
        cursor.execute("CREATE SCHEMA below")
        cursor.fetchall()
        for deep in ("true", "false"):
            cursor.execute(f"CALL clone('said', 'below.c_{deep}', deep := {deep})")
            cursor.fetch_arrow_table()
            cursor.execute(f"SELECT count(*) FROM below.c_{deep}")
            assert cursor.fetchone()[0] == 6
            # What the name of the copy does not say is as in the name of the table.
            cursor.execute(f"CALL clone('below.c_{deep}', '\"d.{deep}\"')")
            (answer,) = cursor.fetch_arrow_table().to_pylist()
            assert answer["to"] == f"lance.below.d.{deep}"
            cursor.execute(f'SELECT count(*) FROM below."d.{deep}"')
            assert cursor.fetchone()[0] == 6
        for text, match in (
            ("CALL clone('said', 'absent.c')", "absent"),
            ("CALL clone('said', 'a..b')", "name"),
            ("CALL clone('said', '../out')", "path"),
            ("CALL clone('said', 'said_x', deep := true, tag_source := true)", "tag_source"),
            ("CALL clone('said', 'said_s')", "exists already"),
            ("CALL clone('said', 'said_y', version := 9)", "version 9"),
        ):
            with pytest.raises(Exception, match=match):
                cursor.execute(text)
                cursor.fetch_arrow_table()
    outside = house.top / "outside.lance"
    for to, more in ((str(outside), ["--deep"]), ("said_c", [])):
        done = subprocess.run(
            [str(binary), "clone", "said", to, "--root", str(house.top / "root"), "--json", *more],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
    assert whole(lance.dataset(str(outside))).equals(whole(house.open("said")))
    lived_in(house, "said_c", whole(house.open("said")))


def test_between_stores(binary, tmp_path):
    """CLN-5: deep clones from a disk to S3 and back; a shallow one on S3 over a table on S3."""
    with S3() as s3:
        (tmp_path / "storage.toml").write_text(s3.storage())
        (tmp_path / "disk").mkdir()
        roots = {"disk": str(tmp_path / "disk"), "cloud": f"s3://{s3.bucket}/root"}
        options = s3.options()
        with Server(binary, roots, arguments=["--storage", str(tmp_path / "storage.toml")]) as server:
            client = Client(server.uri)
            path = tmp_path / "disk" / "t.lance"
            lance.write_dataset(
                rows(0, 14, metadata=OPT_IN),
                str(path),
                initial_bases=[DatasetBasePath(str(tmp_path / "disk" / "b"), "b", True, 5)],
                target_bases=["b"],
            )
            lance.write_dataset(rows(20, 14, metadata=OPT_IN), str(path), mode="append")
            lance.dataset(str(path)).delete("id = 5")
            want = whole(lance.dataset(str(path)))
            client.action("clone", catalog="disk", table="t", to="cloud.main.t", deep=True)
            shutil.rmtree(path)
            shutil.rmtree(tmp_path / "disk" / "b")
            cloud = lance.dataset(f"s3://{s3.bucket}/root/t.lance", storage_options=options)
            cloud.validate()
            assert whole(cloud).equals(want)
            client.action("clone", catalog="cloud", table="t", to="s", tag_source=True)
            shallow = lance.dataset(f"s3://{s3.bucket}/root/s.lance", storage_options=options)
            assert whole(shallow).equals(want)
            assert client.get(catalog="cloud", table="s", blobs="bytes").to_pydict() == want.to_pydict()
            lance.write_dataset(rows(40, 5, metadata=OPT_IN), shallow, mode="append", storage_options=options)
            client.action("clone", catalog="cloud", table="s", to="disk.main.back", deep=True)
            back = lance.dataset(str(tmp_path / "disk" / "back.lance"))
            back.validate()
            shallow = lance.dataset(f"s3://{s3.bucket}/root/s.lance", storage_options=options)
            assert whole(back).equals(whole(shallow))
            assert back.version == shallow.version
            client.close()
            server.check_panics()
