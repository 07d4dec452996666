"""The seccomp filter, run as the kernel runs it."""

import struct

import pytest

from cotenant_local.runtime.inside import seccomp


def run_filter(program: bytes, architecture: int, number: int, argument: int = 0) -> int:
    """The filter's answer, by the rules of the kernel's interpreter."""
    data, accumulator, at = {0: number, 4: architecture, 16: argument}, 0, 0
    while True:
        code, yes, no, value = struct.unpack_from("HBBI", program, at * 8)
        at += 1
        if code == seccomp.LOAD:
            accumulator = data[value]
        elif code == seccomp.RETURN:
            return int(value)
        else:
            tests = {seccomp.EQUAL: accumulator == value, seccomp.AT_LEAST: accumulator >= value}
            at += yes if tests.get(code, bool(accumulator & value)) else no


@pytest.mark.parametrize("machine", sorted(seccomp.MACHINES))
def test_the_filter_refuses_what_it_lists_and_allows_the_rest(machine: str) -> None:
    architecture, column, clone = seccomp.MACHINES[machine]
    program = seccomp.program(machine, [])
    refused, missing = seccomp.ERRNO | seccomp.EPERM, seccomp.ERRNO | seccomp.ENOSYS
    numbers = {row[column] for row in seccomp.CALLS.values() if row[column] is not None}
    answers = {number: run_filter(program, architecture, number) for number in range(460)}
    assert {number for number, answer in answers.items() if answer == refused} == numbers
    assert {number for number, answer in answers.items() if answer == missing} == {seccomp.CLONE3}
    assert run_filter(program, architecture, clone, 0x10000000) == refused  # a new user namespace
    assert run_filter(program, architecture, clone, 0x01200011) == seccomp.ALLOW  # fork
    assert run_filter(program, 0x40000003, 20) == refused  # a 32-bit program
    admin = seccomp.program(machine, [seccomp.SYS_ADMIN])
    assert run_filter(admin, architecture, seccomp.CALLS["mount"][column] or 0) == seccomp.ALLOW
