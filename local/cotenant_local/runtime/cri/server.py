"""The gRPC server of one node's runtime: starts, serves until SIGTERM, leaves the containers running."""

import asyncio
import contextlib
import logging
import signal
from typing import Any

import grpc

from cotenant_local.runtime.cri.image_service import ImageService
from cotenant_local.runtime.cri.node_runtime import NodeRuntime
from cotenant_local.runtime.cri.runtime_service import RuntimeService
from cotenant_local.runtime.cri.stats_service import StatsService
from cotenant_local.runtime.interface import proto
from cotenant_local.runtime.interface.config import RuntimeConfig

log = logging.getLogger(__name__)
MESSAGE_BYTES = 32 << 20  # ExecSync may answer with twice 16 MiB less its frame


class CombinedServicer:
    """One servicer out of several. Calls that none of them has answer UNIMPLEMENTED, like the generated one."""

    def __init__(self, generated: object, *services: object) -> None:
        self.services = (*services, generated)

    def __getattr__(self, name: str) -> Any:
        return getattr(next(service for service in self.services if hasattr(service, name)), name)


async def serve(config: RuntimeConfig) -> None:
    """Serve until SIGTERM or SIGINT."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    node = NodeRuntime.open(config)
    await node.streams.start()
    options = [("grpc.max_send_message_length", MESSAGE_BYTES), ("grpc.max_receive_message_length", MESSAGE_BYTES)]
    server = grpc.aio.server(options=options)
    runtime = CombinedServicer(proto.rpc.RuntimeServiceServicer(), RuntimeService(node), StatsService(node))
    proto.rpc.add_RuntimeServiceServicer_to_server(runtime, server)
    images = CombinedServicer(proto.rpc.ImageServiceServicer(), ImageService(node))
    proto.rpc.add_ImageServiceServicer_to_server(images, server)
    config.socket.parent.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        config.socket.unlink()
    server.add_insecure_port(f"unix://{config.socket}")
    await server.start()
    log.info("serving %s on %s, pods in %s", config.node, config.socket, config.pod_cidr)
    await stop.wait()
    await server.stop(grace=1)
    await node.streams.stop()
    node.zygote.stop()
