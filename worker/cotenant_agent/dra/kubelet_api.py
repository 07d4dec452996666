"""The kubelet's gRPC interfaces for plugins, as tables: messages with field numbers, services with calls.

Source: the files `api.proto` of `pluginregistration/v1`, `dra/v1`, `dra/v1beta1` and `deviceplugin/v1beta1` of
k8s.io/kubelet. The classes are built from the tables at import, so an image needs neither these files nor a compiler
for them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_Fields: TypeAlias = Mapping[str, tuple[int, str]]
"""Field name → number and type. A type is a scalar or a message; `[]` before it means repeated, `{}` a map."""
Call: TypeAlias = Callable[[Any, Any], Any]

_KIND: Final = descriptor_pb2.FieldDescriptorProto
_SCALARS: Final = {
    "string": _KIND.TYPE_STRING,
    "bool": _KIND.TYPE_BOOL,
    "int32": _KIND.TYPE_INT32,
    "int64": _KIND.TYPE_INT64,
}

REGISTRATION: Final[Mapping[str, _Fields]] = {
    "PluginInfo": {"type": (1, "string"), "name": (2, "string"), "endpoint": (3, "string"),
                   "supported_versions": (4, "[]string")},
    "RegistrationStatus": {"plugin_registered": (1, "bool"), "error": (2, "string")},
    "RegistrationStatusResponse": {},
    "InfoRequest": {},
}  # fmt: skip
DRA: Final[Mapping[str, _Fields]] = {
    "Claim": {"namespace": (1, "string"), "uid": (2, "string"), "name": (3, "string")},
    # Only v1 has share_id. A kubelet that speaks v1beta1 skips it.
    "Device": {"request_names": (1, "[]string"), "pool_name": (2, "string"), "device_name": (3, "string"),
               "cdi_device_ids": (4, "[]string"), "share_id": (5, "string")},
    "NodePrepareResourceResponse": {"devices": (1, "[]Device"), "error": (2, "string")},
    "NodePrepareResourcesRequest": {"claims": (1, "[]Claim")},
    "NodePrepareResourcesResponse": {"claims": (1, "{}NodePrepareResourceResponse")},
    "NodeUnprepareResourceResponse": {"error": (1, "string")},
    "NodeUnprepareResourcesRequest": {"claims": (1, "[]Claim")},
    "NodeUnprepareResourcesResponse": {"claims": (1, "{}NodeUnprepareResourceResponse")},
}  # fmt: skip
DEVICE_PLUGIN: Final[Mapping[str, _Fields]] = {
    "DevicePluginOptions": {"pre_start_required": (1, "bool"), "get_preferred_allocation_available": (2, "bool")},
    "RegisterRequest": {"version": (1, "string"), "endpoint": (2, "string"), "resource_name": (3, "string"),
                        "options": (4, "DevicePluginOptions")},
    "Empty": {},
    "NUMANode": {"ID": (1, "int64")},
    "TopologyInfo": {"nodes": (1, "[]NUMANode")},
    "Device": {"ID": (1, "string"), "health": (2, "string"), "topology": (3, "TopologyInfo")},
    "ListAndWatchResponse": {"devices": (1, "[]Device")},
    "ContainerPreferredAllocationRequest": {"available_deviceIDs": (1, "[]string"),
                                            "must_include_deviceIDs": (2, "[]string"), "allocation_size": (3, "int32")},
    "PreferredAllocationRequest": {"container_requests": (1, "[]ContainerPreferredAllocationRequest")},
    "ContainerPreferredAllocationResponse": {"deviceIDs": (1, "[]string")},
    "PreferredAllocationResponse": {"container_responses": (1, "[]ContainerPreferredAllocationResponse")},
    "ContainerAllocateRequest": {"devices_ids": (1, "[]string")},
    "AllocateRequest": {"container_requests": (1, "[]ContainerAllocateRequest")},
    "DeviceSpec": {"container_path": (1, "string"), "host_path": (2, "string"), "permissions": (3, "string")},
    # The fields 1, 2, 4 and 5 (environment, mounts, annotations, CDI names) are never set.
    "ContainerAllocateResponse": {"devices": (3, "[]DeviceSpec")},
    "AllocateResponse": {"container_responses": (1, "[]ContainerAllocateResponse")},
}  # fmt: skip
DRA_VERSIONS: Final = ("v1", "v1beta1")
"""Newest first, in the order in which the kubelet is offered them."""


class Messages:
    """Classes of one package by message name: `messages["Claim"](uid="…")`."""

    def __init__(self, package: str, tables: Mapping[str, _Fields]) -> None:
        self.package = package
        file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
        for name, fields in tables.items():
            _add_message(file.message_type.add(name=name), fields, f".{package}")
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        self._classes = {
            name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in tables
        }

    def __getitem__(self, name: str) -> Any:
        return self._classes[name]

    def handler(
        self, service: str, calls: Mapping[str, tuple[str, Call]], streams: Mapping[str, tuple[str, Call]] | None = None
    ) -> Any:
        """A service for a gRPC server: call → its request type and the function that answers. Calls in `streams` answer
        many times.
        """
        kinds = ((calls, grpc.unary_unary_rpc_method_handler), (streams or {}, grpc.unary_stream_rpc_method_handler))
        answered = {
            call: made(
                function,
                request_deserializer=self[request].FromString,
                # All answers are encoded in one version of the interface. A kubelet of another version skips the fields
                # that it does not know.
                response_serializer=lambda message: message.SerializeToString(),
            )
            for of_kind, made in kinds
            for call, (request, function) in of_kind.items()
        }
        return grpc.method_handlers_generic_handler(f"{self.package}.{service}", answered)


def _add_message(message: Any, fields: _Fields, scope: str) -> None:
    for name, (number, written) in fields.items():
        of_map, kind = written.startswith("{}"), written.removeprefix("{}").removeprefix("[]")
        repeated = of_map or written.startswith("[]")
        field = message.field.add(name=name, number=number)
        field.label = _KIND.LABEL_REPEATED if repeated else _KIND.LABEL_OPTIONAL
        if of_map:
            # On the wire a map is a list of entries with a key and a value.
            entry = message.nested_type.add(name="".join(part.title() for part in name.split("_")) + "Entry")
            entry.options.map_entry = True
            _add_message(entry, {"key": (1, "string"), "value": (2, kind)}, scope)
            field.type, field.type_name = _KIND.TYPE_MESSAGE, f"{scope}.{message.name}.{entry.name}"
        elif kind in _SCALARS:
            field.type = _SCALARS[kind]
        else:
            field.type, field.type_name = _KIND.TYPE_MESSAGE, f"{scope}.{kind}"


registration: Final = Messages("pluginregistration", REGISTRATION)
device_plugin: Final = Messages("v1beta1", DEVICE_PLUGIN)
dra: Final = {version: Messages(f"k8s.io.kubelet.pkg.apis.dra.{version}", DRA) for version in DRA_VERSIONS}
