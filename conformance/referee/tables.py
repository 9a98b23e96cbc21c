"""Cases of the matrix: what kind of table, written by pylance in one long-lived process.

A case is data: a value for each dimension. Its table follows from case and seed alone.
"""

import dataclasses
import itertools
import pathlib
import zlib

import lance
import numpy as np
import pyarrow as pa

from . import blobs, columns

DIMENSIONS = {
    "group": ("plain", "nested", "encoded", "blobs"),
    "version": ("2.0", "2.1", "2.2", "2.3"),
    "rows": (1, 5, 1000, 20000, 70000),
    "pattern": columns.PATTERNS,
    "nulls": tuple(columns.NULLS),
    "layout": ("single", "batches", "pages", "fragments", "deletions", "added", "stable"),
}
BASE = 3  # identifier of the base that External values of the matrix lie in
COLUMNS = {
    "plain": columns.plain_fields,
    "nested": columns.nested_fields,
    "encoded": columns.encoded_fields,
    "blobs": blobs.blob_fields,
}


@dataclasses.dataclass(frozen=True)
class Case:
    group: str
    version: str
    rows: int
    pattern: str
    nulls: str
    layout: str

    def __str__(self):
        return "-".join(str(v) for v in dataclasses.astuple(self))


def covering(strength, dimensions=DIMENSIONS, case=Case):
    """Few cases in which every `strength` values of different dimensions meet. The choice is always the same."""
    axes = list(dimensions.values())
    places = list(itertools.combinations(range(len(axes)), strength))
    missing = {(at, values) for at in places for values in itertools.product(*(axes[i] for i in at))}
    waiting = sorted(missing, key=str)
    rng = np.random.default_rng(7)
    rng.shuffle(waiting)
    chosen = []
    while waiting:
        best = None
        for _ in range(30):
            row = [axis[int(rng.integers(len(axis)))] for axis in axes]
            for i, value in zip(*waiting[-1]):
                row[i] = value
            met = {(at, tuple(row[i] for i in at)) for at in places} & missing
            rank = (len(met), -dimensions["rows"].index(row[2]))  # of equals the one with fewer rows
            if best is None or rank > best[0]:
                best = (rank, row, met)
        chosen.append(case(*best[1]))
        missing -= best[2]
        while waiting and waiting[-1] not in missing:
            waiting.pop()
    return chosen


# ---------------------------------------------------------------- what the reference cannot do


def holds_map(kind):
    return pa.types.is_map(kind) or any(holds_map(kind.field(i).type) for i in range(kind.num_fields))


def fields_of(case):
    """Columns of the case without those that the file version does not know, or that pylance cannot read back."""
    if case.group == "blobs":
        if case.version < "2.2":
            return blobs.legacy_fields()
        fields = blobs.blob_fields()
        if case.nulls in ("all", "inner"):  # a list of blobs without one visible element panics in pylance
            fields = [f for f in fields if not blobs.in_list(f)]
        return fields
    fields = COLUMNS[case.group]()
    if case.version < "2.2":
        fields = [f for f in fields if not holds_map(f.type)]
    if case.version == "2.0":
        fields = [without_struct_nulls(f) for f in fields if f.name != "text_fsst"]  # its writer panics on nulls
    if case.version == "2.3" and case.nulls in ("all", "inner", "most"):
        # pylance 2.3 cannot read wide fixed-size lists whose items are all null
        fields = [f for f in fields if f.name not in ("vector4", "vector_i8", "vector_f16", "matrix")]
    return fields


def without_struct_nulls(field):
    """Files of 2.0 keep no validity of structs: such columns get none."""
    kind = field.type
    if pa.types.is_struct(kind):
        made = pa.struct([without_struct_nulls(f) for f in kind])
        return pa.field(field.name, made, field.nullable, {**(field.metadata or {}), b"referee": b"no nulls"})
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(without_struct_nulls(kind.value_field)))
    if pa.types.is_large_list(kind):
        return field.with_type(pa.large_list(without_struct_nulls(kind.value_field)))
    return field


# ---------------------------------------------------------------- writing


class Maker:
    """Writes the tables of cases below a folder, and tells what External values of them may be read."""

    def __init__(self, root, seed):
        self.root = pathlib.Path(root)
        self.seed = seed
        self.external = self.root.parent / "external"
        self.external.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(parents=True, exist_ok=True)
        self.object = self.external / "object.bin"
        self.object.write_bytes(np.random.default_rng(seed).bytes(blobs.OBJECT))

    def random(self, case):
        return np.random.default_rng([self.seed, zlib.crc32(str(case).encode())])

    def make(self, case):
        """The name of the case's table, written now."""
        rng = self.random(case)
        fields = fields_of(case)
        name = str(case).replace(".", "_")
        path = self.root / f"{name}.lance"
        first, later = (fields[::2], fields[1::2]) if case.layout == "added" and len(fields) > 1 else (fields, [])
        schema = self.schema(case, first)
        sizes = self.batch_sizes(case)
        options = self.options(case)
        batches = [self.batch(case, schema, n, start, rng) for n, start in zip(sizes, columns.ends(sizes)[:-1])]
        lance.write_dataset(
            pa.RecordBatchReader.from_batches(schema, batches), str(path), data_storage_version=case.version, **options
        )
        if later:
            added = pa.schema([self.written(f) for f in later])
            whole = [self.batch(case, added, n, start, rng) for n, start in zip(sizes, columns.ends(sizes)[:-1])]
            lance.dataset(str(path)).add_columns(pa.RecordBatchReader.from_batches(added, whole))
        if case.layout in ("deletions", "stable"):
            self.delete(path, sizes, case, rng)
        return name

    def schema(self, case, fields):
        noted = {"made by": "referee", "case": str(case)}
        return pa.schema([pa.field("id", pa.int64(), False), *map(self.written, fields)], metadata=noted)

    @staticmethod
    def written(field):
        """The field without the referee's own notes."""
        kept = {k: v for k, v in (field.metadata or {}).items() if k != b"referee"}
        return field.with_metadata(kept or None)

    def options(self, case):
        options = {}
        if case.group == "blobs" and case.version >= "2.2":
            options["initial_bases"] = [lance.DatasetBasePath(str(self.external), "outside", False, BASE)]
        if case.layout == "pages":
            options |= {"max_page_bytes": 4096, "data_cache_bytes": 1 << 16}
        if case.layout in ("fragments", "deletions", "added", "stable"):
            options["max_rows_per_file"] = max(1, case.rows // 3)
        if case.layout == "stable":
            options["enable_stable_row_ids"] = True
        return options

    @staticmethod
    def batch_sizes(case):
        if case.layout == "single" or case.rows < 3:
            return np.array([case.rows])
        if case.layout in ("fragments", "deletions", "added", "stable"):
            step = case.rows // 3  # batches end where files end, so each file begins and ends with a visible row
        else:
            step = max(1, case.rows // 9)
        whole = [step] * (case.rows // step)
        return np.array(whole + ([case.rows % step] if case.rows % step else []))

    def batch(self, case, schema, n, start, rng):
        numbers = columns.pattern_seeds(case.pattern, n, rng)
        if case.pattern == "sequential":
            numbers = numbers + np.uint64(start)
        rates = columns.NULLS[case.nulls]
        visible = np.unique([0, n - 1])
        known = {f.name: f for f in fields_of(case)}
        made = []
        for number, field in enumerate(schema):
            own = columns.mixed(numbers, number) if case.pattern != "constant" else numbers
            if field.name == "id" and "id" not in known:
                made.append(pa.array(np.arange(start, start + n)))
            elif blobs.holds(field):
                made.append(blobs.build(field, own, rates, rng, self.object.as_uri(), visible))
            elif case.group == "blobs":
                made.append(blobs.legacy(field, own, rates, rng))
            else:
                made.append(self.plain(known[field.name], field, own, rates, rng))
        return pa.record_batch(made, schema=schema)

    @staticmethod
    def plain(noted, field, numbers, rates, rng):
        array = columns.build(noted, numbers, rates, rng)
        return array.cast(field.type) if array.type != field.type else array

    @staticmethod
    def delete(path, sizes, case, rng):
        """Deletes in every fragment, now a few, now half of the rows; never the first and last of a batch."""
        if case.rows < 5:
            return
        keep = set(np.concatenate([columns.ends(sizes)[:-1], columns.ends(sizes)[1:] - 1]).tolist())
        rows = np.arange(case.rows)
        gone = np.where(rows < case.rows // 2, rng.random(case.rows) < 0.02, rng.random(case.rows) < 0.5)
        gone = [int(i) for i in rows[gone] if i not in keep] or [i for i in range(case.rows) if i not in keep][:1]
        dataset = lance.dataset(str(path))
        for part in np.array_split(gone, len(gone) // 5000 + 1):
            if len(part):
                dataset.delete(f"id in ({','.join(map(str, part.tolist()))})")
