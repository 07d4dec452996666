"""Sinks of reported metrics besides the job's status: TensorBoard event files, an MLflow server. In rank 0's pod only.

Stdlib only: an event file consists of records with two checksums around a small protobuf, and MLflow speaks JSON over
HTTP. Both block, and raise any error; `tracking` runs them in a thread in which neither matters to the job.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cotenant.contract import Contract

_MOST_BYTES = 1 << 20
"""Bytes that are read of an answer. Those that matter have some hundred."""


class Sink(Protocol):
    name: str

    def write(self, step: int, metrics: Mapping[str, float]) -> None: ...

    def close(self, succeeded: bool) -> None: ...


def sinks_of(contract: Contract) -> list[Sink]:
    """The sinks that `runtime.tracking` asks for."""
    asked = contract.platform.get("tracking") or {}
    found: list[Sink] = []
    if (board := asked.get("tensorBoard")) is not None:
        # Without a checkpoint volume the files live as long as the pod; an address is not a directory.
        local = contract.checkpoint is not None and "://" not in contract.checkpoint.path
        root = Path(contract.checkpoint.path) if local and contract.checkpoint else Path("/tmp")
        found.append(TensorBoard(root / str(board.get("path", "tensorboard")) / contract.job))
    if (flow := asked.get("mlflow")) is not None:
        run = f"{contract.job}-{contract.attempt}"
        found.append(MLflow(str(flow["trackingUri"]), str(flow.get("experiment") or contract.namespace), run))
    return found


# -- TensorBoard ---------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class TensorBoard:
    directory: Path
    name: str = "TensorBoard"
    _file: Any = None

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if self._file is None:
            self.directory.mkdir(parents=True, exist_ok=True)
            path = self.directory / f"events.out.tfevents.{int(time.time())}.{socket.gethostname()}.{os.getpid()}"
            self._file = path.open("wb")
            self._file.write(record(_double(1, time.time()) + _bytes(3, b"brain.Event:2")))
        values = b"".join(_bytes(1, _bytes(1, name.encode()) + _float(2, value)) for name, value in metrics.items())
        self._file.write(record(_double(1, time.time()) + _varint_field(2, step) + _bytes(5, values)))
        self._file.flush()

    def close(self, succeeded: bool) -> None:
        if self._file is not None:
            self._file.close()


def record(data: bytes) -> bytes:
    """A TFRecord: length, its checksum, the data, its checksum."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", _masked(length)) + data + struct.pack("<I", _masked(data))


def _masked(data: bytes) -> int:
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for index in range(256):
        value = index
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_CRC = _table()


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_field(number: int, value: int) -> bytes:
    return _varint(number << 3) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _float(number: int, value: float) -> bytes:
    return _varint(number << 3 | 5) + struct.pack("<f", value)


# -- MLflow --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class MLflow:
    address: str
    experiment: str
    run: str
    name: str = "MLflow"
    _run_id: str = ""

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if not self._run_id:
            self._begin()
        now = int(time.time() * 1000)
        rows = [{"key": name, "value": value, "timestamp": now, "step": step} for name, value in metrics.items()]
        self._call("runs/log-batch", {"run_id": self._run_id, "metrics": rows})

    def close(self, succeeded: bool) -> None:
        if self._run_id:
            status = "FINISHED" if succeeded else "FAILED"
            self._call("runs/update", {"run_id": self._run_id, "status": status, "end_time": int(time.time() * 1000)})

    def _begin(self) -> None:
        try:
            query = urllib.parse.urlencode({"experiment_name": self.experiment})
            experiment = self._call(f"experiments/get-by-name?{query}", None)["experiment"]["experiment_id"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            experiment = self._call("experiments/create", {"name": self.experiment})["experiment_id"]
        body = {"experiment_id": experiment, "run_name": self.run, "start_time": int(time.time() * 1000)}
        self._run_id = self._call("runs/create", body)["run"]["info"]["run_id"]

    def _call(self, path: str, body: Mapping[str, Any] | None) -> dict[str, Any]:
        request = urllib.request.Request(
            f"{self.address.rstrip('/')}/api/2.0/mlflow/{path}",
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Content-Type": "application/json"},
            method="POST" if body is not None else "GET",
        )
        with urllib.request.urlopen(request, timeout=10) as answer:
            found = json.loads(answer.read(_MOST_BYTES) or b"{}")
        if not isinstance(found, dict):
            raise ValueError(f"{path}: the answer is no JSON object")
        return found
