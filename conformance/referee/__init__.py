"""The referee: what pylance says about a table, what flightblob answers, and how the two are compared.

Importing the package takes Lance's Arrow extension types out of the registry of this process, so that every schema
shows its raw fields and metadata, as they go over the wire.
"""

import lance  # noqa: F401  (registers the types that are taken out here)
import pyarrow as pa

for _name in ("lance.blob.v2", "lance.bfloat16", "lance.json"):
    try:
        pa.unregister_extension_type(_name)
    except KeyError:
        pass
