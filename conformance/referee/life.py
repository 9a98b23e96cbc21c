"""The life of one table: random operations by this project and by pylance in turn, against a model in memory.

The model is a dictionary of rows for every version of every branch. After each step both implementations read every
version that still exists, on every branch, and every clone; each must say what the model says. All choices follow from
one seed, so a failure is replayed by giving it again.
"""

import dataclasses
import datetime
import pathlib
import random
import shutil
import typing

import lance
import pyarrow as pa
from lance import DatasetBasePath

from .blobs import KEYS, blob
from .client import Client

OURS, THEIRS = "flightblob", "pylance"
EXTERNAL = 3  # the kind
OBJECT = 5000  # bytes of an external object
SIZES = (0, 1, 40, 64, 65, 200, 512, 513, 3000)  # around the thresholds, which change too
MAIN = None


@dataclasses.dataclass(frozen=True)
class Value:
    """A blob: its bytes, and the range of the external object if it lies there."""

    data: bytes
    place: tuple | None = None  # uri, position, size; the range may be None


@dataclasses.dataclass(frozen=True)
class State:
    """What one version holds. Rows are shared between states and never changed."""

    extra: tuple = ()  # names of added columns
    rows: dict = dataclasses.field(default_factory=dict)  # id → row

    def with_rows(self, changed):
        return dataclasses.replace(self, rows={**self.rows, **changed})

    def without(self, ids):
        return dataclasses.replace(self, rows={k: v for k, v in self.rows.items() if k not in ids})


def columns(keys):
    """The columns that are always there. Rows that are put later state no thresholds: the table's count (WRT-8)."""
    return [
        pa.field("id", pa.int64()),
        pa.field("note", pa.utf8()),
        blob("img", metadata=keys),
        pa.field("st", pa.struct([pa.field("no", pa.int32()), blob("scan", complete=False, metadata=keys)])),
        pa.field("pages", pa.list_(pa.struct([pa.field("no", pa.int32()), blob("scan", metadata=keys)]))),
    ]


NAMES = [field.name for field in columns({})]


def plain(value):
    """What a reader must give for a value."""
    if isinstance(value, Value):
        return value.data
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [plain(v) for v in value]
    return value


def logical(value, complete=True):
    """The logical struct that stands for a value."""
    if value is None:
        return None
    uri, position, size = value.place or (None, None, None)
    made = {"data": None if value.place else value.data, "uri": uri, "position": position, "size": size}
    return made if complete else {k: made[k] for k in ("data", "uri")}


def written(field, value):
    """A value of a column as it is put."""
    if value is None:
        return None
    if field.name == "img":
        return logical(value)
    if field.name == "st":
        return {"no": value["no"], "scan": logical(value["scan"], complete=False)}
    if field.name == "pages":
        return [{"no": item["no"], "scan": logical(item["scan"])} for item in value]
    return value


def values(row, described):
    """The blob values of a row, each with the descriptor in its place."""
    yield row["img"], described["img"]
    if row["st"]:
        yield row["st"]["scan"], described["st"]["scan"]
    for item, other in zip(row["pages"], described["pages"], strict=True):
        yield item["scan"], other["scan"]


class Disagreement(AssertionError):
    pass


class Life:
    """One table `t` below a root that a server serves, and its clones."""

    def __init__(self, home, server, seed, stable):
        self.home = pathlib.Path(home)
        self.root = self.home / "root"
        self.client = Client(server.uri)
        self.rng = random.Random(f"life {seed} {stable}")
        self.seed, self.stable = seed, stable
        self.log = []
        self.lines = {MAIN: {}}  # branch → version → state
        self.tags = {}  # name → (branch, version)
        self.parents = {}  # branch → (branch, version)
        self.clones = {}  # table name → state
        self.seen = set()  # kinds of values
        self.husks = set()  # versions of which only the manifest counts
        self.pins = {}  # shallow clone → the tag that keeps its source (CLN-4)
        self.next_id = self.next_name = 0
        self.objects = []
        for folder in ("ext", "store", "outside"):
            (self.home / folder).mkdir()
        for number in range(3):
            path = self.home / ("ext" if number < 2 else "outside") / f"o{number}.bin"
            path.write_bytes(self.rng.randbytes(OBJECT))
            self.objects.append(path)
        self.create()

    # ------------------------------------------------------------ values

    def value(self, external=True, outside=True):
        if external and self.rng.random() < 0.25:
            path = self.rng.choice(self.objects if outside else self.objects[:2])
            data, uri = path.read_bytes(), path.as_uri()
            if self.rng.random() < 0.3:
                return Value(data, (uri, None, None))
            at, size = self.rng.randrange(OBJECT - 300), self.rng.randrange(1, 300)
            return Value(data[at : at + size], (uri, at, size))
        return Value(self.rng.randbytes(self.rng.choice(SIZES)))

    def maybe(self, make):
        return None if self.rng.random() < 0.2 else make()

    def row(self, extra, outside=True):
        def value():
            return self.value(outside=outside)

        # pylance cannot read a list of blobs of which no row of a batch has an element: every list begins with one
        pages = [{"no": 1, "scan": value()}]
        pages += [{"no": n, "scan": self.maybe(value)} for n in range(self.rng.randrange(3))]
        return {
            "note": self.maybe(lambda: f"n{self.rng.randrange(1000)}"),
            "img": self.maybe(value),
            "st": self.maybe(lambda: {"no": 7, "scan": self.maybe(lambda: self.value(external=False))}),
            "pages": pages,
            **{name: self.maybe(lambda: self.rng.randrange(10**6)) for name in extra},
        }

    def fresh(self, count, extra, outside=True):
        rows = {}
        for _ in range(count):
            self.next_id += 1
            rows[self.next_id] = self.row(extra, outside)
        return rows

    def name(self, prefix):
        self.next_name += 1
        return f"{prefix}{self.next_name}"

    def table(self, rows, extra, keys=None):
        fields = [*columns(keys or {}), *(pa.field(name, pa.int64()) for name in extra)]
        arrays = []
        for field in fields:
            values = list(rows) if field.name == "id" else [written(field, row[field.name]) for row in rows.values()]
            arrays.append(pa.array(values, field.type))
        return pa.table(arrays, schema=pa.schema(fields))

    # ------------------------------------------------------------ the table

    def path(self, name="t"):
        return self.root / f"{name}.lance"

    def folder(self, branch):
        return self.path() if branch is MAIN else self.path() / "tree" / branch

    def versions(self, branch):
        """The versions whose manifests lie there, oldest first, told by the names of files alone."""
        names = (p.name.split(".")[0] for p in (self.folder(branch) / "_versions").glob("*.manifest"))
        return sorted(2**64 - 1 - int(n) for n in names if n.isdigit())

    def dataset(self, branch=MAIN, version=None):
        ds = lance.dataset(self.path())
        if branch is MAIN and version is None:
            return ds
        return ds.checkout_version(version if branch is MAIN else (branch, version))

    def head(self, branch):
        line = self.lines[branch]
        return line[max(line)]

    def on(self, branch):
        return {} if branch is MAIN else {"branch": branch}

    def statement(self, sql, branch, rows=None):
        """One statement by us."""
        import adbc_driver_flightsql.dbapi as dbapi
        from adbc_driver_flightsql import DatabaseOptions

        options = {}
        if branch is not MAIN:
            options[DatabaseOptions.RPC_CALL_HEADER_PREFIX.value + "flightblob-branch"] = branch
        with dbapi.connect(self.client.uri, db_kwargs=options, autocommit=True) as connection:
            with connection.cursor() as cursor:
                cursor.execute(sql, rows)

    def create(self):
        rows = self.fresh(8, ())
        lance.write_dataset(
            self.table(rows, (), KEYS),
            self.path(),
            data_storage_version="2.2",
            enable_stable_row_ids=self.stable,
            initial_bases=[
                DatasetBasePath(str(self.home / "ext"), "ext", False, 1),
                DatasetBasePath(str(self.home / "store"), "store", False, 2),
            ],
            allow_external_blob_outside_bases=True,
        )
        self.lines[MAIN][1] = State((), rows)

    # ------------------------------------------------------------ steps: each answers the state of the newest version

    def append(self, actor, branch):
        state = self.head(branch)
        rows = self.fresh(self.rng.randrange(1, 6), state.extra)
        base = self.rng.random() < 0.2
        table = self.table(rows, state.extra)
        if actor is OURS:
            self.client.put(
                table,
                table="t",
                mode="append",
                blobs={"allow_outside_bases": True},
                **({"target_base": "store"} if base else {}),
                **self.on(branch),
            )
        else:
            lance.write_dataset(
                table,
                self.dataset(branch),
                mode="append",
                allow_external_blob_outside_bases=True,
                **({"target_bases": ["store"]} if base else {}),
            )
        return state.with_rows(rows)

    def some(self, state, most):
        return self.rng.sample(sorted(state.rows), min(len(state.rows), self.rng.randrange(1, most)))

    def delete(self, actor, branch):
        state = self.head(branch)
        ids = self.some(state, 4)
        condition = f"id IN ({', '.join(map(str, ids))})"
        if actor is OURS:
            self.statement(f"DELETE FROM t WHERE {condition}", branch)
        else:
            self.dataset(branch).delete(condition)
        return state.without(ids)

    def update(self, actor, branch):
        state = self.head(branch)
        ids = self.some(state, 4)
        note = f"u{self.rng.randrange(1000)}"
        condition = f"id IN ({', '.join(map(str, ids))})"
        if actor is OURS:
            self.statement(f"UPDATE t SET note = '{note}' WHERE {condition}", branch)
        else:
            self.dataset(branch).update({"note": f"'{note}'"}, where=condition)
        return state.with_rows({i: {**state.rows[i], "note": note} for i in ids})

    def update_blob(self, _, branch):
        state = self.head(branch)
        (number,) = self.some(state, 2)
        value = self.value(external=False)
        self.statement("UPDATE t SET img = ? WHERE id = ?", branch, [value.data, number])
        return state.with_rows({number: {**state.rows[number], "img": value}})

    def merge(self, actor, branch):
        state = self.head(branch)
        outside = actor is OURS  # pylance's merge_insert takes no reference outside bases
        rows = {i: self.row(state.extra, outside) for i in self.some(state, 4)}
        rows.update(self.fresh(self.rng.randrange(3), state.extra, outside))
        table = self.table(rows, state.extra)
        if actor is OURS:
            self.client.put(
                table,
                table="t",
                mode="merge",
                on=["id"],
                blobs={"allow_outside_bases": True},
                **self.on(branch),
            )
        else:
            merging = self.dataset(branch).merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merging.execute(table)
        return state.with_rows(rows)

    def add_column(self, actor, branch):
        state = self.head(branch)
        name = self.name("x")
        if actor is OURS and self.rng.random() < 0.5:
            self.statement(f"ALTER TABLE t ADD COLUMN {name} BIGINT", branch)
            values = dict.fromkeys(state.rows)
        elif actor is OURS:
            self.statement(f"ALTER TABLE t ADD COLUMN {name} BIGINT DEFAULT 42", branch)
            values = dict.fromkeys(state.rows, 42)
        else:
            self.dataset(branch).add_columns({name: "id * 2"})
            values = {i: i * 2 for i in state.rows}
        rows = {i: {**row, name: values[i]} for i, row in state.rows.items()}
        return State((*state.extra, name), rows)

    def drop_column(self, actor, branch):
        state = self.head(branch)
        if not state.extra:
            return self.add_column(actor, branch)
        name = self.rng.choice(state.extra)
        if actor is OURS:
            self.statement(f"ALTER TABLE t DROP COLUMN {name}", branch)
        else:
            self.dataset(branch).drop_columns([name])
        rows = {i: {k: v for k, v in row.items() if k != name} for i, row in state.rows.items()}
        return State(tuple(n for n in state.extra if n != name), rows)

    def compact(self, actor, branch):
        place = {number: at for at, (number, _) in enumerate(self.order(branch))}
        threshold = self.rng.choice([0.0, 0.1, 0.5])
        target = self.rng.choice([5, 20, 1000])
        if actor is OURS:
            self.client.action(
                "compact",
                table="t",
                target_rows_per_fragment=target,
                materialize_deletions_threshold=threshold,
                **self.on(branch),
            )
        else:
            self.dataset(branch).optimize.compact_files(
                target_rows_per_fragment=target, materialize_deletions_threshold=threshold
            )
        # Fragments stand by their numbers, and new ones have new numbers: order holds within a fragment (RWR-2).
        last = {}
        for number, address in self.order(branch):
            if place[number] < last.get(address >> 32, 0):
                raise Disagreement(f"compaction moved row {number} before others (RWR-2)")
            last[address >> 32] = place[number]
        return self.head(branch)

    def order(self, branch):
        """Numbers and addresses of the rows, in the order of a scan."""
        rows = self.client.get(table="t", columns=["id", "_rowaddr"], **self.on(branch))
        return list(zip(*(c.to_pylist() for c in rows.columns), strict=True))

    def managed(self, actor, branch):
        on = self.rng.random() < 0.7
        if actor is OURS:
            self.client.action("set", table="t", managed=on, **self.on(branch))
        else:
            self.dataset(branch).update_schema_metadata({"lance.blob.managed": str(on).lower()})
        return self.head(branch)

    def thresholds(self, actor, branch):
        column = self.rng.choice(["img", "st.scan"])
        inline, dedicated = self.rng.choice([(64, 512), (0, 512), (100, 50), (1000, 2000), (10, 100)])
        if actor is OURS:
            self.client.action(
                "set",
                table="t",
                **{f"{column}.inline": inline, f"{column}.dedicated": dedicated},
                **self.on(branch),
            )
        else:
            keys = [k for k in KEYS if "pack" not in k]
            self.dataset(branch).update_field_metadata(
                {column: dict(zip(keys, map(str, (inline, dedicated)), strict=True))}
            )
        return self.head(branch)

    def restore(self, actor, branch):
        version = self.rng.choice(sorted(self.lines[branch]))
        if actor is OURS:
            self.client.action("restore", table="t", version=version, **self.on(branch))
        else:
            self.dataset(branch, version).restore()
        return self.lines[branch][version]

    # ------------------------------------------------------------ steps that make no version of the branch

    def tag(self, actor, branch):
        free = set(self.tags) - set(self.pins.values())
        if free and self.rng.random() < 0.5:
            self.untag(actor, self.rng.choice(sorted(free)))
            return
        name, version = self.name("tag"), self.rng.choice(sorted(self.lines[branch]))
        if actor is OURS:
            self.client.action("create_tag", table="t", tag=name, version=version, **self.on(branch))
        else:
            self.dataset(branch).tags.create(name, version if branch is MAIN else (branch, version))
        self.tags[name] = (branch, version)

    def untag(self, actor, name):
        if actor is OURS:
            self.client.action("delete_tag", table="t", tag=name)
        else:
            self.dataset().tags.delete(name)
        del self.tags[name]

    def fork(self, actor, branch):
        removable = [
            b
            for b in self.parents
            if b not in {p for p, _ in self.parents.values()} and b not in {t for t, _ in self.tags.values()}
        ]
        if removable and (len(self.lines) > 3 or self.rng.random() < 0.4):
            name = self.rng.choice(sorted(removable))
            if actor is OURS:
                self.client.action("delete_branch", table="t", branch=name)
            else:
                self.dataset().branches.delete(name)
            if self.folder(name).exists() and self.versions(name):
                raise Disagreement(f"branch {name} was deleted, and its versions are there")
            del self.lines[name], self.parents[name]
            return
        if len(self.lines) > 3:
            return
        name, version = self.name("b"), self.rng.choice(sorted(self.lines[branch]))
        if actor is OURS:
            source = {} if branch is MAIN else {"from": branch}
            self.client.action("create_branch", table="t", branch=name, version=version, **source)
        else:
            self.dataset(branch).create_branch(name, version if branch is MAIN else (branch, version))
        self.lines[name] = {version: self.lines[branch][version]}
        self.parents[name] = (branch, version)

    def cleanup(self, actor, branch):
        keep = self.rng.choice([1, 2, 3])
        before = self.versions(branch)
        whole = set(self.lines[branch])
        if actor is OURS:
            self.client.action("cleanup", table="t", retain_versions=keep, older_than="0s", **self.on(branch))
        else:
            self.dataset(branch).cleanup_old_versions(
                older_than=datetime.timedelta(0), retain_versions=keep, error_if_tagged_old_versions=False
            )
        after = self.versions(branch)
        must = set(before[-keep:]) & whole | {v for b, v in self.tags.values() if b == branch}
        if not must.issubset(after) or not set(after).issubset(before):
            raise Disagreement(f"cleanup left versions {after} of {before}, {sorted(must)} had to stay")
        may = must | set(before[-keep:]) | {v for b, v in self.parents.values() if b == branch}
        if not set(after).issubset(may):
            raise Disagreement(f"cleanup left versions {after}, of which only {sorted(may)} are protected")
        if actor is THEIRS:
            # Of the version that a branch began at pylance keeps the manifest, and of its files those that the branch
            # still needs.
            self.husks.update((branch, v) for v in set(after) - must)
            after = sorted(must)
        self.lines[branch] = {v: s for v, s in self.lines[branch].items() if v in after}

    def clone(self, actor, branch):
        if len(self.clones) > 2 or (self.clones and self.rng.random() < 0.3):
            name = self.rng.choice(sorted(self.clones))
            shutil.rmtree(self.path(name))
            del self.clones[name]
            if name in self.pins:
                self.untag(actor, self.pins.pop(name))
            return
        name, deep = self.name("c"), self.rng.random() < 0.5
        version = max(self.lines[branch])
        if actor is THEIRS and deep and not self.clonable(branch, version):
            actor = OURS
        if not deep:
            tag = self.name("tag")
            self.client.action("create_tag", table="t", tag=tag, version=version, **self.on(branch))
            self.tags[tag], self.pins[name] = (branch, version), tag
        if actor is OURS:
            self.client.action("clone", table="t", to=name, deep=deep, version=version, **self.on(branch))
        else:
            ds = self.dataset(branch)
            make = ds.deep_clone if deep else ds.shallow_clone
            make(str(self.path(name)), version if branch is MAIN else (branch, version))
        self.clones[name] = self.lines[branch][version]

    def clonable(self, branch, version):
        """Whether pylance makes a whole deep clone: it looks for the data files of plain bases in a folder `data` below
        them, and drops the bases of External values where the table is not managed (DIFF-4)."""
        (told,) = self.client.action("describe", table="t", version=version, **self.on(branch))
        return told["managed"] and not any("base" in file for f in told["fragments"] for file in f["files"])

    def grow_clone(self, actor, _):
        """A clone lives on by itself: rows come, and it is compacted."""
        if not self.clones:
            return
        name = self.rng.choice(sorted(self.clones))
        state = self.clones[name]
        rows = self.fresh(2, state.extra)
        if actor is OURS:
            self.client.put(
                self.table(rows, state.extra), table=name, mode="append", blobs={"allow_outside_bases": True}
            )
            self.client.action("compact", table=name)
        else:
            ds = lance.write_dataset(
                self.table(rows, state.extra),
                self.path(name),
                mode="append",
                allow_external_blob_outside_bases=True,
            )
            ds.optimize.compact_files()
        self.clones[name] = state.with_rows(rows)

    # ------------------------------------------------------------ choosing, and looking

    COMMITS: typing.ClassVar = {
        append: 8,
        delete: 5,
        update: 4,
        update_blob: 2,
        merge: 5,
        add_column: 2,
        drop_column: 2,
        compact: 6,
        managed: 3,
        thresholds: 2,
        restore: 3,
    }
    OTHERS: typing.ClassVar = {tag: 3, fork: 3, cleanup: 4, clone: 3, grow_clone: 2}

    def step(self):
        every = {**self.COMMITS, **self.OTHERS}
        (what,) = self.rng.choices(list(every), list(every.values()))
        actor = self.rng.choice([OURS, THEIRS])
        branch = self.rng.choice(sorted(self.lines, key=str)) if self.rng.random() < 0.4 else MAIN
        if what in self.COMMITS and not self.head(branch).rows:
            what = Life.append
        self.log.append(f"{len(self.log) + 1}: {what.__name__} by {actor} on {branch or 'main'}")
        if what in self.OTHERS:
            what(self, actor, branch)
            return
        newest = max(self.lines[branch])
        before = self.head(branch)
        after = what(self, actor, branch)
        for version in self.versions(branch):
            if version > newest:
                self.lines[branch][version] = before  # reserved fragment numbers, and the like
        if max(self.lines[branch]) > newest:
            self.lines[branch][max(self.lines[branch])] = after
        elif after != before:
            raise Disagreement("no version was made")

    def check(self):
        for branch, line in self.lines.items():
            have = [v for v in self.versions(branch) if (branch, v) not in self.husks]
            if have != sorted(line):
                raise Disagreement(f"{branch or 'main'} has versions {have}, the model {sorted(line)}")
            for version, state in line.items():
                where = f"version {version} of {branch or 'main'}"
                self.compare(state, where, self.ours(table="t", version=version, **self.on(branch)))
                self.compare(state, where, self.theirs(branch, version))
            self.kinds(self.head(branch), branch)
        for name, state in self.clones.items():
            self.compare(state, f"clone {name}", self.ours(table=name))
            self.compare(state, f"clone {name}", self.theirs(path=self.path(name)))
        for name, (branch, version) in self.tags.items():
            self.compare(self.lines[branch][version], f"tag {name}", self.ours(table="t", tag=name))

    def ours(self, **want):
        return OURS, lambda: self.client.get(**want)

    def theirs(self, branch=MAIN, version=None, path=None):
        def read():
            ds = lance.dataset(path) if path else self.dataset(branch, version)
            return ds.scanner(blob_handling="all_binary").to_table()

        return THEIRS, read

    def compare(self, state, where, reading):
        actor, read = reading
        where = f"{where}, read by {actor}"
        try:
            table = read()
        except (OSError, ValueError, pa.ArrowException) as error:
            raise Disagreement(f"{where}: {error}") from error
        names = [*NAMES, *state.extra]
        if table.schema.names != names:
            raise Disagreement(f"{where}: columns {table.schema.names}, want {names}")
        got = {row.pop("id"): row for row in table.to_pylist()}
        if len(got) != table.num_rows or set(got) != set(state.rows):
            raise Disagreement(f"{where}: rows {sorted(got)}, want {sorted(state.rows)}")
        for number, row in state.rows.items():
            want = plain(row)
            if got[number] != want:
                column = next(n for n in names if n != "id" and got[number][n] != want[n])
                told = str(got[number][column])[:300], str(want[column])[:300]
                raise Disagreement(f"{where}: row {number}, {column}: {told[0]}, want {told[1]}")

    def kinds(self, state, branch):
        """External values stay External, whoever rewrote their rows; others never become it."""
        table = self.client.get(table="t", columns=["id", "img", "st", "pages"], blobs="descriptor", **self.on(branch))
        for row in table.to_pylist():
            for value, found in values(state.rows[row["id"]], row):
                if (found is None) != (value is None):
                    raise Disagreement(f"row {row['id']}: descriptor {found}")
                self.seen.add(found and found["kind"])
                if found and (found["kind"] == EXTERNAL) != (value.place is not None):
                    raise Disagreement(f"row {row['id']}: kind {found['kind']} for {value.place or 'bytes'}")

    def told(self):
        return "\n".join([f"seed {self.seed}, stable row ids {self.stable}", *self.log[-40:]])
