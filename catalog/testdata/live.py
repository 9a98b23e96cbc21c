"""A root as pylance's directory namespace makes it, with the states that a reader must cope with. Usage: live.py ROOT"""
import os, shutil, sys

import lance
import pyarrow as pa
from lance.namespace import DirectoryNamespace
from lance_namespace import CreateNamespaceRequest, DeclareTableRequest, DeregisterTableRequest

root = sys.argv[1]
ns = DirectoryNamespace(root=root)


def rows(n):
    return pa.table({"a": pa.array(range(n))})


for path in (["ns"], ["ns", "sub"], ["empty"]):
    ns.create_namespace(CreateNamespaceRequest(id=path))
lance.write_dataset(rows(1), namespace_client=ns, table_id=["registered"])
lance.write_dataset(rows(2), namespace_client=ns, table_id=["ns", "t"])
lance.write_dataset(rows(3), namespace_client=ns, table_id=["ns", "sub", "t"])
lance.write_dataset(rows(4), f"{root}/plain.lance")
lance.write_dataset(rows(5), f"{root}/Plain.lance")
# not tables: only declared, registered without a folder, taken off the list, a file, other folders
ns.declare_table(DeclareTableRequest(id=["declared"]))
lance.write_dataset(rows(6), namespace_client=ns, table_id=["ghost"])
shutil.rmtree(f"{root}/ghost.lance")
lance.write_dataset(rows(7), f"{root}/hidden.lance")
open(f"{root}/hidden.lance/.lance-deregistered", "w").close()
os.makedirs(f"{root}/half.lance/data")
open(f"{root}/half.lance/data/x.lance", "w").close()
open(f"{root}/file.lance", "w").close()
lance.write_dataset(rows(8), f"{root}/folder/inside.lance")
# at the root deregistering takes the row and leaves the folder, which stays listed
lance.write_dataset(rows(9), namespace_client=ns, table_id=["off"])
ns.deregister_table(DeregisterTableRequest(id=["off"]))
