"""A device plugin with two gadgets, run as a pod: registers with the kubelet and answers Allocate. Needs the stubs."""

import os
import time
from concurrent import futures
from typing import Any

import grpc
from cotenant_device_plugin import api_pb2, api_pb2_grpc

FOLDER = "/var/lib/kubelet/device-plugins"
ENDPOINT = "gadgets.sock"


class Gadgets(api_pb2_grpc.DevicePluginServicer):  # type: ignore[misc]
    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:  # noqa: N802
        return api_pb2.DevicePluginOptions()

    def ListAndWatch(self, request: Any, context: Any) -> Any:  # noqa: N802
        devices = [api_pb2.Device(ID=f"gadget-{index}", health="Healthy") for index in range(2)]
        yield api_pb2.ListAndWatchResponse(devices=devices)
        while context.is_active():
            time.sleep(1)

    def Allocate(self, request: Any, context: Any) -> Any:  # noqa: N802
        answers = [
            api_pb2.ContainerAllocateResponse(envs={"GADGETS": ",".join(sorted(wanted.devices_ids))})
            for wanted in request.container_requests
        ]
        return api_pb2.AllocateResponse(container_responses=answers)


def main() -> None:
    path = f"{FOLDER}/{ENDPOINT}"
    if os.path.exists(path):
        os.unlink(path)
    server = grpc.server(futures.ThreadPoolExecutor(4))
    api_pb2_grpc.add_DevicePluginServicer_to_server(Gadgets(), server)
    server.add_insecure_port(f"unix://{path}")
    server.start()
    with grpc.insecure_channel(f"unix://{FOLDER}/kubelet.sock") as kubelet:
        request = api_pb2.RegisterRequest(version="v1beta1", endpoint=ENDPOINT, resource_name="example.com/gadget")
        api_pb2_grpc.RegistrationStub(kubelet).Register(request)
    print("registered", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
