"""Current use of GPUs under the names, units and labels of NVIDIA's DCGM exporter, so that its dashboards and alerts
work.

There is one series for each GPU; the use by pods has series of its own. Names and units are those of the exporter's
`default-counters.csv`. A value that the driver does not show has no series.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric

from cotenant_agent.gpus.readings import Gpu, GpuSample
from cotenant_agent.reports.node_view import NodeView

LABELS: Final = ("gpu", "UUID", "device", "modelName", "Hostname")
Read = Callable[[Gpu, GpuSample], float | None]

GAUGES: Final[tuple[tuple[str, str, Read], ...]] = (
    ("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %)", lambda _, one: one.utilization_percent),
    ("DCGM_FI_DEV_FB_USED", "Frame buffer memory used (in MiB)", lambda _, one: one.used_mib),
    (
        "DCGM_FI_DEV_FB_FREE",
        "Frame buffer memory free (in MiB)",
        lambda gpu, one: None if one.used_mib is None else max(0, gpu.memory_mib - one.used_mib),
    ),
    (
        "DCGM_FI_DEV_POWER_USAGE",
        "Power draw (in W)",
        lambda _, one: None if one.power_milliwatts is None else one.power_milliwatts / 1000,
    ),
    ("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C)", lambda _, one: one.temperature_c),
)


def dcgm_metrics(view: NodeView, node: str) -> Iterator[Metric]:
    """The series. There are none for simulated GPUs, which draw no power, for MIG instances, which the exporter labels
    otherwise, and for devices of other makers.
    """
    if view.inventory.simulated or view.inventory.resource:
        return
    for name, text, read in GAUGES:
        family = GaugeMetricFamily(name, text, labels=LABELS)
        for gpu in view.inventory.gpus:
            sample = view.samples.get(gpu.uuid)
            value = None if sample is None or gpu.parent else read(gpu, sample)
            if value is not None:
                device = f"nvidia{gpu.index if gpu.minor is None else gpu.minor}"
                family.add_metric([str(gpu.index), gpu.uuid, device, gpu.product, node], value)
        yield family
