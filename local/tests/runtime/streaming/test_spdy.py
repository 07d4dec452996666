"""SPDY/3.1: its dictionary."""

from cotenant_local.runtime.streaming import spdy


def test_the_dictionary_is_the_one_of_the_specification() -> None:
    assert len(spdy.DICTIONARY) == 1423
    assert spdy.DICTIONARY.startswith(b"\0\0\0\x07options\0\0\0\x04head")
    assert spdy.DICTIONARY.endswith(b"charset=iso-8859-1,utf-,*,enq=0.")
