"""gRPC status codes for the errors of the runtime. The pod's status shows the message."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import grpc

from cotenant_local.runtime.containers.container import StateError
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation.cdi import CdiError
from cotenant_local.runtime.isolation.cgroup_settings import LimitError
from cotenant_local.runtime.isolation.pod_network import PodNetworkError
from cotenant_local.runtime.shim.shim_client import ShimError
from cotenant_local.runtime.shim.zygote_client import LaunchError

log = logging.getLogger(__name__)
CODES = {
    UnsupportedError: grpc.StatusCode.INVALID_ARGUMENT,
    StateError: grpc.StatusCode.FAILED_PRECONDITION,
    CdiError: grpc.StatusCode.INVALID_ARGUMENT,
    LimitError: grpc.StatusCode.INVALID_ARGUMENT,
    KeyError: grpc.StatusCode.NOT_FOUND,
    TimeoutError: grpc.StatusCode.DEADLINE_EXCEEDED,
    LaunchError: grpc.StatusCode.UNKNOWN,
    PodNetworkError: grpc.StatusCode.UNAVAILABLE,
    ShimError: grpc.StatusCode.UNAVAILABLE,
    OSError: grpc.StatusCode.INTERNAL,
    NotImplementedError: grpc.StatusCode.UNIMPLEMENTED,
}


def with_status_codes(method: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps a method of a service: an error of the runtime that it raises aborts the call with its status code."""

    @functools.wraps(method)
    async def call(self: Any, request: Any, context: Any) -> Any:
        try:
            return await method(self, request)
        except tuple(CODES) as error:
            code = next(code for kind, code in CODES.items() if isinstance(error, kind))
            message = str(error.args[0]) if isinstance(error, KeyError) else str(error)
            if code not in {grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED}:
                log.warning("%s: %s: %s", method.__name__, code.name, message)
            return await context.abort(code, message)

    return call
