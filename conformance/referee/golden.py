"""The golden fixtures: what `expected.json` of each says, and answers turned into the same words.

No pylance here: the files are the reference. See fixtures/README.md for the words.
"""

import datetime
import functools
import hashlib
import json
import os
import pathlib
import urllib.parse

import pyarrow as pa

from .oracle import Bases

HERE = pathlib.Path(__file__).resolve().parent.parent
FIXTURES = HERE / "fixtures"
TABLES = FIXTURES / "tables"
LINK = pathlib.Path("/tmp/flightblob-fixtures")  # the fixtures were written below it, and some tables name it


def contents(folder):
    """Relative path and size of every file below a folder."""
    return {
        (os.path.relpath(os.path.join(at, name), folder), os.path.getsize(os.path.join(at, name)))
        for at, _, names in os.walk(folder)
        for name in names
    }


def make_link():
    """Makes LINK lead to the fixtures, or uses one that leads to the same; never removes it.

    Others on this machine may read through it at the same time, so it is made in one step, and only a dangling one is
    replaced.
    """
    if LINK.is_symlink() and not LINK.exists():
        fresh = LINK.with_name(f"{LINK.name}.{os.getpid()}")
        os.symlink(FIXTURES, fresh)
        os.replace(fresh, LINK)
    try:
        os.symlink(FIXTURES, LINK)
    except FileExistsError:
        pass
    if LINK.resolve() == FIXTURES:
        return
    if not (LINK / "tables").is_dir() or contents(LINK / "tables") != contents(TABLES):
        raise RuntimeError(f"{LINK} exists and does not lead to the fixtures of {FIXTURES}; move it away")


@functools.cache
def names():
    return sorted(p.name for p in TABLES.iterdir() if (p / "expected.json").is_file())


@functools.cache
def load(fixture):
    return json.loads((TABLES / fixture / "expected.json").read_text())


@functools.cache
def rules(fixture):
    """Rule identifiers that the fixture proves."""
    for line in (HERE / "fixture_rules.txt").read_text().splitlines():
        name, *found = line.split()
        if name == fixture:
            return found
    raise KeyError(f"fixture_rules.txt does not name {fixture}")


class Snapshot:
    """One version of one table (or of a branch of it), with what it must answer."""

    def __init__(self, fixture, table, entry, manifest, where):
        self.fixture, self.table = fixture, table
        self.rows = entry["rows"]
        self.descriptors = entry["descriptors"]
        self.row_ids = entry["row_ids"]
        self.row_addresses = entry["row_addresses"]
        self.errors = {(e["row"], e["column"]) for e in entry.get("read_errors", [])}
        self.count = entry["row_count"]
        self.columns = [f["name"] for f in manifest["fields"] if f["parent_id"] == -1]
        self.bases = Bases({b["id"]: b["path"] for b in manifest["base_paths"]})
        self.manifest = manifest
        self.where = {"catalog": fixture, "schema": "main", "table": table.removesuffix(".lance"), **where}

    def __str__(self):
        return " ".join(f"{k}={v}" for k, v in self.where.items())


def snapshots(fixture):
    """All snapshots of a fixture: every version of every table and branch, and every tag."""
    for table, entry in load(fixture)["tables"].items():
        manifests = {m["version"]: m for m in entry["versions"]}
        for version, found in entry["snapshots"].items():
            yield Snapshot(fixture, table, found, manifests[int(version)], {"version": int(version)})
        latest = entry["latest_version"]
        yield Snapshot(fixture, table, entry["snapshots"][str(latest)], manifests[latest], {})
        for name, branch in entry["branches"].items():
            own = {m["version"]: m for m in branch["versions"]}
            for version, found in branch["snapshots"].items():
                yield Snapshot(fixture, table, found, own[int(version)], {"branch": name, "version": int(version)})
            last = branch["latest_version"]
            yield Snapshot(fixture, table, branch["snapshots"][str(last)], own[last], {"branch": name})
        for name, tag in entry["tags"].items():
            source, known = entry, manifests
            if tag["branch"]:
                source = entry["branches"][tag["branch"]]
                known = {m["version"]: m for m in source["versions"]}
            version = tag["version"]
            yield Snapshot(fixture, table, source["snapshots"][str(version)], known[version], {"tag": name})


# ---------------------------------------------------------------- answers in the words of expected.json


def digest(value):
    return None if value is None else {"len": len(value), "sha256": hashlib.sha256(value).hexdigest()}


def plain(value):
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    if isinstance(value, (datetime.date, datetime.datetime)):
        return value.isoformat()
    if isinstance(value, list):
        return [plain(x) for x in value]
    if isinstance(value, dict):
        return {k: plain(x) for k, x in value.items()}
    return value


def is_described(field):
    """A blob column in the descriptor face."""
    return (field.metadata or {}).get(b"lance-encoding:blob") == b"true" and pa.types.is_struct(field.type)


def walk(field, value, leaf, other):
    """A value with `leaf` applied to its blobs and `other` to what holds none, along the descriptor face's field."""
    if is_described(field):
        return leaf(value)
    kind = field.type
    if value is None or not holds_blob(field):
        return other(value)
    if pa.types.is_struct(kind):
        return {f.name: walk(f, value[f.name], leaf, other) for f in kind}
    return [walk(kind.value_field, x, leaf, other) for x in value]


def holds_blob(field):
    if is_described(field):
        return True
    return any(holds_blob(field.type.field(i)) for i in range(field.type.num_fields))


def read_rows(table, schema):
    """Rows of the bytes face, as `rows` of expected.json shows them. `schema` is that of the descriptor face."""
    return [
        {name: walk(schema.field(name), value, digest, plain) for name, value in row.items()}
        for row in table.to_pylist()
    ]


def read_descriptors(table):
    """Rows of the descriptor face, as `descriptors` of expected.json shows them."""
    out = []
    for row in table.to_pylist():
        out.append({f.name: strip(f, row[f.name]) for f in table.schema if holds_blob(f)})
    return out


def strip(field, value):
    """A descriptor value without the children of structs that hold no blob, which expected.json leaves out."""
    if is_described(field) or value is None:
        return value
    kind = field.type
    if pa.types.is_struct(kind):
        return {f.name: strip(f, value[f.name]) for f in kind if holds_blob(f)}
    return [strip(kind.value_field, x) for x in value]


def expected_rows(snapshot):
    """`rows` without the notes on External values, which the descriptors hold too."""
    return forget(snapshot.rows, {"uri", "base_id"})


def forget(value, keys):
    if isinstance(value, list):
        return [forget(x, keys) for x in value]
    if isinstance(value, dict):
        if "sha256" in value:
            return {k: x for k, x in value.items() if k not in keys}
        return {k: forget(x, keys) for k, x in value.items()}
    return value


def expected_descriptors(snapshot):
    """`descriptors` with legacy pairs in five children; what LEG-9 calls null is null (LEG-6)."""
    return five(snapshot.descriptors)


def five(value):
    if isinstance(value, list):
        return [five(x) for x in value]
    if isinstance(value, dict):
        if value.keys() == {"position", "size"}:
            if value["size"] == 0 and value["position"] != 0:
                return None
            return {"kind": 0, **value, "blob_id": 0, "blob_uri": ""}
        return {k: five(x) for k, x in value.items()}
    return value


def expected_logical(rows, descriptors, bases):
    """Both faces of expected.json joined to what the logical face must hold, bytes as digests."""
    if isinstance(descriptors, list):
        return [expected_logical(r, d, bases) for r, d in zip(rows, descriptors, strict=True)]
    if descriptors is None:
        return None
    if "kind" not in descriptors:
        return {k: expected_logical(rows[k], d, bases) for k, d in descriptors.items()}
    if descriptors["kind"] != 3:
        return {"data": forget(rows, {"uri", "base_id"}), "uri": None, "position": None, "size": None}
    if descriptors["blob_id"] and descriptors["blob_id"] not in bases.paths:
        return {"error": True}  # a base that nobody registered (REJ-3)
    whole = descriptors["size"] == 0
    return {
        "data": None,
        "uri": normal(bases.absolute(descriptors["blob_id"], descriptors["blob_uri"])),
        "position": None if whole else descriptors["position"],
        "size": None if whole else descriptors["size"],
    }


def normal(uri):
    """One spelling for a URI: which characters of a path are escaped beyond need is the server's affair."""
    head, _, path = uri.partition("://")
    if not path:
        return uri
    return head.lower() + "://" + urllib.parse.quote(urllib.parse.unquote(path), safe="/")


def read_logical(table, described):
    """Rows of the logical face in the same words; `described` is the schema of the descriptor face."""

    def leaf(value):
        if value is None:
            return None
        uri = value["uri"]
        return {**value, "data": digest(value["data"]), "uri": None if uri is None else normal(uri)}

    out = []
    for row in table.to_pylist():
        out.append({f.name: strip(f, walk(f, row[f.name], leaf, plain)) for f in described if holds_blob(f)})
    return out
