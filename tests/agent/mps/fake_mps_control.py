"""A control program of MPS v3 that limits nothing: its words as NVIDIA's pages have them, its state in the pipe folder.

The folder `FAKE_MPS` is the world: `gpus` lists those that are there, `clients` has `pid=namespace` of clients; with
`lies` it says that namespaces have other limits than they were given, with `broken` it does not start, with `old` it is
of a driver that has MPS v2 alone.
"""

from __future__ import annotations

import json
import os
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

PIPES = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
STATE = PIPES / "state.json"
WORLD = Path(os.environ["FAKE_MPS"])
SERVER_KEYS = {
    "allowed_devices", "pinned_memory_limit", "active_thread_percentage", "client_priority", "uid",
    "locality_domains", "namespaces", "devices",
}  # fmt: skip
NAMESPACE_KEYS = {"pinned_memory_limit", "active_thread_percentage", "client_priority"}


def refuse(why: str) -> None:
    sys.stderr.write(f"{why}\n")
    sys.exit(1)


def lines(name: str) -> list[str]:
    path = WORLD / name
    return path.read_text().split() if path.exists() else []


def save(servers: dict[str, Any]) -> None:
    for name, server in servers.items():
        for namespace in {"default", *server["namespaces"]}:
            folder = PIPES / name / namespace
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "control").write_text(namespace)
    unfinished = STATE.with_suffix(".new")
    unfinished.write_text(json.dumps(servers))
    unfinished.rename(STATE)


def serve(file: str) -> None:
    """Serve in the foreground until told to quit. Servers of GPUs that do not exist vanish without a word."""
    document = tomllib.loads(Path(file).read_text())
    if document.get("schema_version") != "1.0":
        refuse("schema_version is missing")
    servers = {}
    for name, server in document["servers"].items():
        if unknown := server.keys() - SERVER_KEYS:
            refuse(f"unknown key {sorted(unknown)[0]} of server {name}")
        for namespace, limits in server.setdefault("namespaces", {}).items():
            if unknown := limits.keys() - NAMESPACE_KEYS:
                refuse(f"unknown key {sorted(unknown)[0]} of namespace {namespace}")
        if set(server["allowed_devices"].split(",")) <= set(lines("gpus")):
            servers[name] = server
    if (WORLD / "broken").exists():
        refuse("no CUDA-capable device is detected")
    save(servers)
    print(f"To connect CUDA applications to this daemon, set CUDA_MPS_PIPE_DIRECTORY={PIPES}", flush=True)
    while STATE.exists():
        time.sleep(0.02)


def answer(module: str, verb: str, *words: str) -> str:
    if not STATE.exists():
        refuse("cannot connect to the MPS control daemon")
    servers: dict[str, Any] = json.loads(STATE.read_text())
    flags = dict(word[2:].split("=", 1) for word in words if word.startswith("--") and "=" in word)
    plain = [word for word in words if not word.startswith("--")]
    if module == "client":
        return client(verb, plain)
    name = flags["server"] if "server" in flags else plain[1] if module == "namespace" else plain[0]
    if name not in servers:
        refuse(f"server {name} was not found")
    server = servers[name]
    if module == "server":
        known = {"status": "Ready", "pid": "4711", "allowed-devices": str(server["allowed_devices"])}
        row = f"{name},1000,4711,Ready,{PIPES / name},{server['allowed_devices']},-"
        return row if verb == "list" else known[plain[1]]
    spaces = server["namespaces"]
    if verb == "list":
        return "\n".join(row_of(one, name, limits) for one, limits in {**spaces, "default": server}.items())
    if verb == "create":
        spaces[plain[0]] = {}
    elif plain[0] not in spaces:
        refuse(f"namespace {plain[0]} was not found")
    elif verb == "set":
        spaces[plain[0]] |= {key.replace("-", "_"): value for key, value in flags.items() if key != "server"}
    elif verb == "delete":
        if plain[0] in {one.split("=")[1] for one in lines("clients")}:
            refuse(f"namespace {plain[0]} has active clients")
        del spaces[plain[0]]
    else:
        refuse(f"unknown command {module} {verb}")
    save(servers)
    return ""


def client(verb: str, words: list[str]) -> str:
    clients = dict(one.split("=") for one in lines("clients"))
    if verb == "list":
        return "\n".join(f"{pid},gpu,0,{namespace},python train.py --a,b" for pid, namespace in clients.items())
    if words[0] not in clients:
        refuse(f"client {words[0]} was not found")
    return {"maws-ns": clients[words[0]], "pid": words[0]}[words[1]]


def row_of(namespace: str, server: str, limits: dict[str, Any]) -> str:
    memory, threads = limits.get("pinned_memory_limit", "-"), limits.get("active_thread_percentage", "-")
    threads = "100" if (WORLD / "lies").exists() else threads
    shown = threads if threads == "-" else f"{float(threads):.2f}"
    return f"{namespace},{server},Ready,{memory},{shown},0,{PIPES / server / namespace}"


def main(arguments: list[str]) -> None:
    if (WORLD / "old").exists():
        refuse("MPS v2 does not know these words")
    elif arguments[:3] == ["-f", "-p", "3"]:
        serve(arguments[-1])
    elif arguments == ["-q"]:
        if not STATE.exists():
            refuse("cannot connect to the MPS control daemon")
        STATE.unlink()
    elif arguments[:2] == ["-p", "3"]:
        print(answer(*arguments[2:]))
    else:
        refuse(f"unknown arguments {arguments}")


if __name__ == "__main__":
    main(sys.argv[1:])
