"""Amounts of documents at their bounds: what is read, what it is in base units, how it is written, what is refused."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from cotenant.api.scalars import amounts

MIB, TIB = 1 << 20, 1 << 40


@pytest.mark.parametrize(
    ("kind", "written", "amount", "shown"),
    [
        (amounts.CpuAmount, 2, 2000, "2"),
        (amounts.CpuAmount, "500m", 500, "500m"),
        (amounts.CpuAmount, "0.001", 1, "1m"),
        (amounts.CpuAmount, 1024, 1_024_000, "1024"),
        (amounts.GpuAmount, 0, 0, "0"),
        (amounts.GpuAmount, "0.5", 500, "0.5"),
        (amounts.GpuAmount, 1_000_000, 1_000_000_000, "1000000"),
        (amounts.GpuHours, "0.5", 500, "0.5"),
        (amounts.GpuHours, 9_000_000, 9_000_000_000, "9000000"),
        (amounts.HostMemory, "1Mi", MIB, "1Mi"),
        (amounts.HostMemory, MIB, MIB, "1Mi"),
        (amounts.HostMemory, "64Ti", 64 * TIB, "64Ti"),
        (amounts.VolumeSize, "1.5Gi", 1536 * MIB, "1536Mi"),
        (amounts.DeviceMemory, "1Ti", TIB, "1Ti"),
        (amounts.PooledMemory, "65536Ti", 65536 * TIB, "65536Ti"),
        (amounts.Fraction, "0.4", 400, "0.4"),
        (amounts.Fraction, "0.001", 1, "0.001"),
        (amounts.Fraction, "0.999", 999, "0.999"),
        (amounts.Duration, "1s", 1, "1s"),
        (amounts.Duration, "2h30m", 9000, "2h30m"),
        (amounts.Duration, "8760h", 31_536_000, "8760h"),
        (amounts.Delay, "0s", 0, "0s"),
    ],
)
def test_an_amount_is_read_in_base_units_and_written_as_kubernetes_does(
    kind: Any, written: object, amount: int, shown: str
) -> None:
    adapter = TypeAdapter(kind)
    assert (adapter.validate_python(written), adapter.dump_python(amount)) == (amount, shown)


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (amounts.CpuAmount, 0),
        (amounts.CpuAmount, "1024.001"),
        (amounts.CpuAmount, True),
        (amounts.CpuAmount, 0.5),
        (amounts.GpuAmount, "1000000.001"),
        (amounts.GpuAmount, -1),
        (amounts.GpuHours, 0),
        (amounts.GpuHours, 9_000_001),
        (amounts.HostMemory, MIB - 1),
        (amounts.HostMemory, "65Ti"),
        (amounts.VolumeSize, MIB),
        (amounts.DeviceMemory, "1025Gi"),
        (amounts.PooledMemory, MIB),
        (amounts.Fraction, "0"),
        (amounts.Fraction, "1"),
        (amounts.Fraction, 0.4),
        (amounts.Duration, "0s"),
        (amounts.Duration, "8761h"),
        (amounts.Duration, 60),
        (amounts.Delay, "8761h"),
        (amounts.Delay, None),
    ],
)
def test_an_amount_beside_its_bounds_or_of_another_type_is_refused(kind: Any, written: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(kind).validate_python(written)


def test_a_refusal_says_what_is_allowed_and_what_was_given() -> None:
    def refusal(kind: Any, written: object) -> str:
        with pytest.raises(ValidationError) as error:
            TypeAdapter(kind).validate_python(written)
        return error.value.errors()[0]["msg"].removeprefix("Value error, ")

    gpus = 'must be a number of GPUs from 0 to 1000000, such as 2 or "0.5", with at most three decimals'
    assert refusal(amounts.GpuAmount, 1_000_001) == f"{gpus}, not 1000001"
    assert refusal(amounts.GpuAmount, None).startswith(f"{gpus}; write it as a whole number or in quotes, not as ")
    time = 'must be a time such as "90s", "15m" or "2h30m", longer than 0s and at most 8760h (a year)'
    assert refusal(amounts.Duration, 60).startswith(f"{time}; write it in quotes, not as ")


def test_the_schema_of_an_amount_takes_whole_numbers_only_where_the_parser_does() -> None:
    schemas = {
        name: TypeAdapter(getattr(amounts, name)).json_schema()
        for name in ("CpuAmount", "GpuAmount", "HostMemory", "VolumeSize", "Fraction", "Duration")
    }
    number = {name for name, schema in schemas.items() if schema.get("x-kubernetes-int-or-string")}
    text = {name for name, schema in schemas.items() if schema.get("type") == "string"}
    assert number == {"CpuAmount", "GpuAmount", "HostMemory"}
    assert text == {"VolumeSize", "Fraction", "Duration"}
    assert {schema["maxLength"] for schema in schemas.values()} == {24}
