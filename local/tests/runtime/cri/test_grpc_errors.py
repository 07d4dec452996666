"""Errors of the runtime as the kubelet hears them: a status code, and the message that the pod's status shows."""

from typing import Any

import grpc
import pytest

from cotenant_local.runtime.containers.container import StateError
from cotenant_local.runtime.cri.grpc_errors import with_status_codes
from cotenant_local.runtime.interface.unsupported import UnsupportedError
from cotenant_local.runtime.isolation.pod_network import PodNetworkError
from cotenant_local.runtime.shim.shim_client import ShimError


class AbortedError(Exception):
    pass


class Context:
    async def abort(self, code: grpc.StatusCode, message: str) -> None:
        raise AbortedError(code, message)


class Service:
    def __init__(self, answer: Any) -> None:
        self.answer = answer

    @with_status_codes
    async def call(self, request: Any) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return (request, self.answer)


async def test_an_answer_goes_out_as_it_is() -> None:
    assert await Service("pods").call("ListPodSandbox", Context()) == ("ListPodSandbox", "pods")


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (UnsupportedError("SELinux"), "INVALID_ARGUMENT", "SELinux"),
        (StateError("not running"), "FAILED_PRECONDITION", "not running"),
        (KeyError("no container 'a'"), "NOT_FOUND", "no container 'a'"),
        (TimeoutError("10 s"), "DEADLINE_EXCEEDED", "10 s"),
        (PodNetworkError("no bridge"), "UNAVAILABLE", "no bridge"),
        (ShimError("gone"), "UNAVAILABLE", "gone"),
        (PermissionError(13, "denied"), "INTERNAL", "[Errno 13] denied"),
        (NotImplementedError("checkpoints"), "UNIMPLEMENTED", "checkpoints"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
async def test_an_error_ends_the_call_with_its_code_and_its_own_words(
    error: Exception, code: str, message: str
) -> None:
    with pytest.raises(AbortedError) as refusal:
        await Service(error).call("request", Context())
    assert refusal.value.args == (grpc.StatusCode[code], message)


async def test_a_defect_is_not_dressed_up_as_one_of_them() -> None:
    with pytest.raises(ZeroDivisionError):
        await Service(ZeroDivisionError()).call("request", Context())


async def test_what_the_kubelet_asks_for_and_is_not_there_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    for error in (KeyError("absent"), NotImplementedError("never"), StateError("not running")):
        with pytest.raises(AbortedError):
            await Service(error).call("request", Context())
    assert [record.getMessage() for record in caplog.records] == ["call: FAILED_PRECONDITION: not running"]
