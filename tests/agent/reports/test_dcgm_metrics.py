"""Live use under the exporter's names: what is simulated, parted by MIG or not shown has no series."""

from dataclasses import replace
from typing import Any

import pytest

from cotenant_agent.gpus.readings import GpuSample
from cotenant_agent.reports.dcgm_metrics import dcgm_metrics
from cotenant_agent.reports.node_view import NodeView
from tests.agent.reports.observed import NOW, PODS, make_observer


def series(view: NodeView) -> list[tuple[str, str, float]]:
    return [
        (family.name, one.labels["UUID"], one.value) for family in dcgm_metrics(view, "n1") for one in family.samples
    ]


def view(**changed: Any) -> NodeView:
    return make_observer().observe((GpuSample(uuid="GPU-a", used_mib=100, **changed),), PODS, NOW)


@pytest.mark.parametrize(
    ("changed", "more"),
    [
        pytest.param({}, [], id="memory alone"),
        pytest.param(
            {"power_milliwatts": 412_500}, [("DCGM_FI_DEV_POWER_USAGE", "GPU-a", 412.5)], id="power, in watts"
        ),
        pytest.param({"temperature_c": 61}, [("DCGM_FI_DEV_GPU_TEMP", "GPU-a", 61.0)], id="temperature"),
    ],
)
def test_what_the_driver_shows_has_a_series(changed: dict[str, Any], more: list[Any]) -> None:
    memory = [("DCGM_FI_DEV_FB_USED", "GPU-a", 100.0), ("DCGM_FI_DEV_FB_FREE", "GPU-a", 81820.0)]
    assert series(view(**changed)) == [*memory, *more]


def test_simulated_gpus_and_instances_have_none() -> None:
    seen = view()
    assert series(replace(seen, inventory=replace(seen.inventory, simulated=True))) == []
    parts = tuple(replace(gpu, parent="GPU-x") for gpu in seen.inventory.gpus)
    assert series(replace(seen, inventory=replace(seen.inventory, gpus=parts))) == []
