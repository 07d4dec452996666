"""CRI v1 ImageService over the catalogue: listed images are present, others are refused with the list."""

import os
import time
from collections.abc import AsyncIterator
from typing import Any

from cotenant_local.runtime.containers.images import Image
from cotenant_local.runtime.cri.grpc_errors import with_status_codes
from cotenant_local.runtime.cri.node_runtime import NodeRuntime
from cotenant_local.runtime.interface import proto


class ImageService:
    """One method per call of the interface, named as there."""

    def __init__(self, runtime: NodeRuntime) -> None:
        self.runtime = runtime

    def _message(self, image: Image) -> Any:
        pb = proto.pb
        return pb.Image(
            id=image.id,
            repo_tags=[f"{image.name}:latest"],
            repo_digests=[f"{image.name}@{image.id}"],
            size=1,  # it takes no room of its own: the machine's folders are shown
            uid=pb.Int64Value(value=image.uid),
            spec=pb.ImageSpec(image=image.id),
            pinned=True,
        )

    def _images(self, request: Any) -> list[Any]:
        asked = request.filter.image.image
        if asked:
            found = self.runtime.catalogue.find(asked)
            return [self._message(found)] if found else []
        return [self._message(image) for image in self.runtime.catalogue.images.values()]

    @with_status_codes
    async def ListImages(self, request: Any) -> Any:  # noqa: N802 (the interface's names, in this class)
        return proto.pb.ListImagesResponse(images=self._images(request))

    async def StreamImages(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        for image in self._images(request):
            yield proto.pb.StreamImagesResponse(images=[image])

    @with_status_codes
    async def ImageStatus(self, request: Any) -> Any:  # noqa: N802
        found = self.runtime.catalogue.find(request.image.image)
        return proto.pb.ImageStatusResponse(image=self._message(found) if found else None)

    @with_status_codes
    async def PullImage(self, request: Any) -> Any:  # noqa: N802
        found = self.runtime.catalogue.find(request.image.image)
        if found is None:
            raise KeyError(self.runtime.catalogue.pull_error(request.image.image))
        return proto.pb.PullImageResponse(image_ref=found.id)

    @with_status_codes
    async def RemoveImage(self, request: Any) -> Any:  # noqa: N802
        """Nothing to remove: an image is an entry of the catalogue, and takes no room."""
        return proto.pb.RemoveImageResponse()

    @with_status_codes
    async def ImageFsInfo(self, request: Any) -> Any:  # noqa: N802
        pb = proto.pb
        folder = self.runtime.storage()
        room = os.statvfs(folder)
        usage = pb.FilesystemUsage(
            timestamp=time.time_ns(),
            fs_id=pb.FilesystemIdentifier(mountpoint=str(folder)),
            used_bytes=pb.UInt64Value(value=(room.f_blocks - room.f_bfree) * room.f_frsize),
            inodes_used=pb.UInt64Value(value=room.f_files - room.f_ffree),
        )
        return pb.ImageFsInfoResponse(image_filesystems=[usage], container_filesystems=[usage])
