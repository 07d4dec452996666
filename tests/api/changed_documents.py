"""Good documents with something changed at random: values on and beside the bounds of every field."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cotenant import names
from cotenant.api.conversion.yaml_text import read_documents

# Values on and beside every bound and every grammar of the API. Not 1.0: of that JSON the API server says by its schema
# that it is a whole number and by its CEL that it is none; kubectl, which sends YAML as JSON, sends 1.
ODD: list[Any] = [
    None, True, False, 0, 1, -1, 64, 65, 1000, 1001, 10000, 10001, 2**31, 2**53, 2**63, 10**30, 0.5, 2.5, 1e21,
    [], {}, [None], [""], ["a"], ["a", "a"], {"a": "b"}, {"name": "a"},
    "", "a", "A", "a.b", "a/b", "-a", "a-", "é", "١", "a\n", "a" * 63, "a" * 64, "a" * 253, "a" * 254,
    "0", "1", "0.4", "0.5", "1.0", "00.5", "0.10", "0.1000", "1m", "0m", "1.5m", "1024.001", "1000000.001", "9000001",
    "1Ki", "1Mi", "1.5Gi", "1.0005Gi", "1Ti", "1025Gi", "65Ti", "999999999999999Ti", "1e3", "+1", " 1", "NaN", "inf",
    "1s", "0s", "1h", "8760h", "8761h", "31536001s", "1h1s", "1s1h", "1d", "000001h", "1h\n",
    "x:y", "a.b:c", "a:b:c", "s3://x", "s3:// x", "/a", "/a/", "/a//b", "/tmp", "/tmpx", "/tmp/x", "..", "a/../b",
    "RANK", "NVIDIA_X", "expandable_segments:True", "expandable_segments:True,", "Any", "any", "node",
]  # fmt: skip
ALPHABETS = {
    "cpu": "0125.m", "memory": "0123.KMGTik", "memoryFraction": "0.1459", "computeFraction": "0.159", "limit": "0125.m",
    "guaranteed": "0125.m", "lendable": "015.m", "gpuHours": "0129.m", "maxRuntime": "0125hms", "interval": "01hms",
    "sizeLimit": "0123.KMGTi", "path": "a/.s:", "mountPath": "/a.b", "entrypoint": "ab.:_1", "name": "ab-.A_1",
    "value": "a:,1", "image": "a/:@. ",
}  # fmt: skip


def originals() -> list[dict[str, Any]]:
    files = sorted((Path(__file__).parent / "good").glob("*.yaml"))
    bodies = [one.body for file in files for one in read_documents(file.read_text())]
    return [body | {"apiVersion": names.API_VERSIONS[0]} for body in bodies if "spec" in body]


def places(value: Any, container: Any = None, key: Any = None) -> Iterator[tuple[Any, Any]]:
    """Everything that can be replaced: (what it is in, its key or index)."""
    if container is not None:
        yield container, key
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for inner_key, inner in list(items):
        yield from places(inner, value, inner_key)


def changed(body: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    made = copy.deepcopy(body)
    for _ in range(chance.choice([1, 1, 2])):
        container, key = chance.choice(list(places(made["spec"], made, "spec")))
        if isinstance(key, str) and key in ALPHABETS and chance.random() < 0.6:
            container[key] = "".join(chance.choices(ALPHABETS[key], k=chance.randint(1, 6)))
        elif isinstance(container, dict) and key != "spec" and chance.random() < 0.2:
            del container[key]
        elif isinstance(container, dict) and isinstance(container[key], dict) and chance.random() < 0.3:
            container[key][chance.choice([*ALPHABETS, "workers", "unknown"])] = copy.deepcopy(chance.choice(ODD))
        else:
            container[key] = copy.deepcopy(chance.choice(ODD))
    return made
