"""Images are those of the catalogue, under any tag; what is not in it is refused with what is."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from cotenant_local.runtime.containers.images import Image, ImageCatalogue
from cotenant_local.runtime.cri.image_service import ImageService
from local.tests.runtime.cri.test_grpc_errors import AbortedError, Context
from local.tests.runtime.cri_messages import Message

pytestmark = pytest.mark.usefixtures("cri_classes")

WORKER, TOOLS = Image("ghcr.io/cotenant/worker", uid=65532), Image("tools")


@pytest.fixture
def service(tmp_path: Path) -> ImageService:
    catalogue = ImageCatalogue(tmp_path / "images.yaml", {image.name: image for image in (WORKER, TOOLS)})
    runtime: Any = SimpleNamespace(catalogue=catalogue, storage=lambda: tmp_path)
    return ImageService(runtime)


def asked(reference: str) -> Message:
    return Message(image=Message(image=reference), filter=Message(image=Message(image=reference)))


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("", [WORKER.id, TOOLS.id]),
        ("ghcr.io/cotenant/worker:v2", [WORKER.id]),
        (TOOLS.id, [TOOLS.id]),
        ("docker.io/library/tools", [TOOLS.id]),
        ("absent", []),
    ],
)
async def test_a_list_has_all_of_them_or_the_one_that_is_meant(
    service: ImageService, reference: str, found: list[str]
) -> None:
    listed = await service.ListImages(asked(reference), Context())
    streamed = [answer.images[0].id async for answer in service.StreamImages(asked(reference), Context())]
    assert ([image.id for image in listed.images], streamed) == (found, found)


async def test_an_image_says_whose_it_is_and_that_it_is_not_to_be_collected(service: ImageService) -> None:
    image = (await service.ImageStatus(asked("ghcr.io/cotenant/worker:v1"), Context())).image
    assert (image.uid.value, image.pinned, image.repo_tags) == (65532, True, ["ghcr.io/cotenant/worker:latest"])
    assert (await service.ImageStatus(asked("absent"), Context())).image is None


async def test_pulling_finds_what_is_there_and_refuses_the_rest_with_the_list(service: ImageService) -> None:
    assert (await service.PullImage(asked("tools:latest"), Context())).image_ref == TOOLS.id
    with pytest.raises(AbortedError) as refusal:
        await service.PullImage(asked("nginx:1.27"), Context())
    code, message = refusal.value.args
    assert code is grpc.StatusCode.NOT_FOUND
    assert "'nginx:1.27' is not on this machine" in message
    assert "ghcr.io/cotenant/worker, tools" in message


async def test_the_room_for_images_is_that_of_the_nodes_storage(service: ImageService, tmp_path: Path) -> None:
    answer = await service.ImageFsInfo(Message(), Context())
    assert [one.fs_id.mountpoint for one in answer.image_filesystems] == [str(tmp_path)]
    assert answer.image_filesystems[0].used_bytes.value > 0
