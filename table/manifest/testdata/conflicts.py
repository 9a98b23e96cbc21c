"""Makes conflicts.txt: pylance commits every pair of operations on one version, and either wins or loses.

    .venv/bin/python table/manifest/testdata/conflicts.py EMPTY-FOLDER > table/manifest/testdata/conflicts.txt

First the transactions by name, as hex; then a row for each operation that came late and a column for each that was
there first, in the same order: "." it was rebased, "R" retryable conflict, "X" incompatible, "!" another error.
"""

import os

os.environ.setdefault("LANCE_LOG", "error")
import shutil
import sys

import lance
import pyarrow as pa
from lance import LanceOperation as Op
from lance.dataset import Index
from lance.fragment import write_fragments

root = sys.argv[1]
base = os.path.join(root, "base")
READ = 4


def data(**columns):
    return pa.table(columns)


def make_base():
    ds = lance.write_dataset(data(id=list(range(12)), s=["a"] * 12, v=[1.0] * 12), base, max_rows_per_file=4)
    ds.update_config({"base": "x"})
    ds.create_scalar_index("id", "BTREE", name="base_idx")
    ds.update_config({"base2": "x"})


def copy(name, source=base):
    to = os.path.join(root, name)
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(source, to, copy_function=os.link)
    return to


def keep(folder):
    """Brings new files of the scratch copy into the base, where later copies find them."""
    to = os.path.join(base, folder)
    os.makedirs(to, exist_ok=True)
    for name in set(os.listdir(os.path.join(root, "scratch", folder))) - set(os.listdir(to)):
        os.link(os.path.join(root, "scratch", folder, name), os.path.join(to, name))


def staged(uri, **columns):
    return write_fragments(data(**columns), uri, mode="append")


def new_rows(uri):
    return staged(uri, id=[90], s=["n"], v=[2.0])


def fragment(version, n):
    return version.get_fragments()[n].metadata


def deleted(n):
    """Fragment n with a deletion file, made in a copy; the file is put into the base."""
    scratch = copy("scratch")
    ds = lance.dataset(scratch)
    ds.delete(f"id = {4 * n}")
    keep("_deletions")
    return next(f.metadata for f in ds.get_fragments() if f.fragment_id == n)


def with_column(n):
    """Fragment n after column v was rewritten in it."""
    scratch = copy("scratch")
    ds = lance.dataset(scratch)
    metadata, fields = ds.get_fragment(n).update_columns(
        data(id=list(range(4 * n, 4 * n + 4)), v=[7.0] * 4), left_on="id", right_on="id"
    )
    keep("data")
    return metadata, fields


def column_file(field):
    table = data(v=[3.0] * 4) if field == 2 else data(s=["r"] * 4)
    scratch = os.path.join(root, "scratch")
    shutil.rmtree(scratch, ignore_errors=True)
    f = write_fragments(table, scratch, mode="append")[0].files[0]
    keep("data")
    f.fields = [field]
    return f


def index(name, field, fragments, uuid):
    return Index(
        uuid=uuid, name=name, fields=[field], dataset_version=READ, fragment_ids=set(fragments), index_version=0
    )


def schema(change):
    """The schema of a copy after a change of its columns, as a LanceSchema."""
    scratch = copy("scratch")
    ds = lance.dataset(scratch)
    change(ds)
    return lance.dataset(scratch).lance_schema


def operations():
    ds = lance.dataset(base)
    fragments = [f.metadata for f in ds.get_fragments()]
    old = ds.describe_indices()[0]
    segment = old.segments[0].uuid if hasattr(old, "segments") else old.uuid
    d0, d1 = deleted(0), deleted(1)
    c0, fields = with_column(0)
    wider = schema(lambda ds: ds.add_columns(pa.schema([pa.field("n", pa.int64())])))
    narrow = schema(lambda ds: ds.drop_columns(["v"]))
    renamed = schema(lambda ds: ds.alter_columns({"path": "v", "name": "w"}))
    uuids = [f"00000000-0000-4000-8000-{i:012d}" for i in range(9)]

    def update_map(replace=False, **entries):
        return Op.UpdateMap(entries, replace)

    return {
        "append": Op.Append(new_rows(base)),
        "delete-0": Op.Delete([d0], [], "x"),
        "delete-1": Op.Delete([d1], [], "x"),
        "delete-all-0": Op.Delete([], [0], "x"),
        "update-0": Op.Update(updated_fragments=[d0], new_fragments=new_rows(base), update_mode="rewrite_rows"),
        "update-1": Op.Update(updated_fragments=[d1], new_fragments=new_rows(base), update_mode="rewrite_rows"),
        "update-all-0": Op.Update(removed_fragment_ids=[0], new_fragments=new_rows(base), update_mode="rewrite_rows"),
        "update-v-0": Op.Update(updated_fragments=[c0], fields_modified=list(fields), update_mode="rewrite_columns"),
        "overwrite": Op.Overwrite(ds.schema, staged(base, id=[1], s=["a"], v=[1.0])),
        "index-s": Op.CreateIndex([index("s_idx", 1, [0, 1, 2], uuids[0])], []),
        "index-v-0": Op.CreateIndex([index("v_idx", 2, [0], uuids[1])], []),
        "index-v-1": Op.CreateIndex([index("w_idx", 2, [1], uuids[2])], []),
        "index-more": Op.CreateIndex([index("base_idx", 0, [2], uuids[3])], []),
        "index-replace": Op.CreateIndex(
            [index("base_idx", 0, [0, 1, 2], uuids[4])], [index("base_idx", 0, [0, 1, 2], segment)]
        ),
        "index-drop": Op.CreateIndex([], [index("base_idx", 0, [0, 1, 2], segment)]),
        "rewrite-01": Op.Rewrite(
            [Op.RewriteGroup(fragments[:2], staged(base, id=list(range(8)), s=["a"] * 8, v=[1.0] * 8))], []
        ),
        "rewrite-2": Op.Rewrite(
            [Op.RewriteGroup(fragments[2:], staged(base, id=list(range(4)), s=["a"] * 4, v=[1.0] * 4))], []
        ),
        "merge": Op.Merge(fragments, wider, True),
        "merge-strict": Op.Merge(fragments, wider, False),
        "project-drop-v": Op.Project(narrow, True),
        "project-rename": Op.Project(renamed, True),
        "project-strict": Op.Project(renamed, False),
        "restore": Op.Restore(1),
        "config-a": Op.UpdateConfig(config_updates=update_map(a="1")),
        "config-b": Op.UpdateConfig(config_updates=update_map(b="1")),
        "config-a-gone": Op.UpdateConfig(config_updates=update_map(a=None)),
        "config-all": Op.UpdateConfig(config_updates=update_map(True, c="1")),
        "config-schema": Op.UpdateConfig(schema_metadata_updates=update_map(a="1")),
        "config-schema-b": Op.UpdateConfig(schema_metadata_updates=update_map(b="1")),
        "config-field-0": Op.UpdateConfig(field_metadata_updates={0: update_map(a="1")}),
        "config-field-1": Op.UpdateConfig(field_metadata_updates={1: update_map(a="1")}),
        "config-table-a": Op.UpdateConfig(table_metadata_updates=update_map(a="1")),
        "config-table-b": Op.UpdateConfig(table_metadata_updates=update_map(b="1")),
        "config-table-all": Op.UpdateConfig(table_metadata_updates=update_map(True, c="1")),
        "replace-v-0": Op.DataReplacement([Op.DataReplacementGroup(0, column_file(2))]),
        "replace-s-0": Op.DataReplacement([Op.DataReplacementGroup(0, column_file(1))]),
        "replace-v-1": Op.DataReplacement([Op.DataReplacementGroup(1, column_file(2))]),
    }


def outcome(uri, op):
    try:
        lance.LanceDataset.commit(uri, op, read_version=READ)
        return "."
    except Exception as e:
        text = str(e)
        if "Retryable commit conflict" in text or "preempted" in text:
            return "R"
        if "is incompatible with" in text or "was removed by concurrent" in text or "was dropped by concurrent" in text:
            return "X"
        print(text, file=sys.stderr)
        return "!"


def main():
    make_base()
    ops = operations()
    print("# pylance", lance.__version__)
    for name, op in ops.items():
        uri = copy("alone")
        before = set(os.listdir(os.path.join(uri, "_transactions")))
        lance.LanceDataset.commit(uri, op, read_version=READ)
        (added,) = set(os.listdir(os.path.join(uri, "_transactions"))) - before
        with open(os.path.join(uri, "_transactions", added), "rb") as f:
            print(name, f.read().hex())
    print()
    rows = {name: "" for name in ops}
    for first in ops.values():
        after = copy("after")
        lance.LanceDataset.commit(after, first, read_version=READ)
        for ours, op in ops.items():
            rows[ours] += outcome(copy("pair", after), op)
    for name, row in rows.items():
        print(f"{name:20}", row)


main()
