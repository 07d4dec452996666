"""The examples of the frameworks beside what the demo leaves running, on the smallest machine it is promised for."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from cotenant.api.resources.trainingjobs import TrainingJob
from cotenant.controller.settings import Settings

ROOT = Path(__file__).parents[3]
EXAMPLES = sorted((ROOT / "examples").glob("*/*.yaml"))
CORES_MILLI, MEMORY_MIB = 2000, 7600
"""Two cores, and 8 GB without what the kernel keeps."""


def requests(values: dict[str, Any]) -> tuple[int, int]:
    asked = values["resources"]["requests"]
    return int(asked["cpu"].removesuffix("m")), int(asked["memory"].removesuffix("Mi"))


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_an_example_fits_beside_operator_and_agent_on_two_cores(path: Path) -> None:
    values = yaml.safe_load((ROOT / "charts" / "cotenant" / "values.yaml").read_text())
    (operator_cpu, operator_memory), (agent_cpu, agent_memory) = requests(values["operator"]), requests(values["agent"])
    replicas = values["operator"]["replicas"]
    document = next(one for one in yaml.safe_load_all(path.read_text()) if one["kind"] == "TrainingJob")
    spec = TrainingJob.model_validate(document).spec
    server = spec.runtime.parameter_server
    assert isinstance(spec.workers, int)
    cpu = spec.workers * spec.resources.cpu
    memory = spec.workers * spec.resources.memory // 2**20 + Settings().reserve_head_mib
    if server is not None:
        cpu += server.servers * server.resources.cpu
        memory += server.servers * server.resources.memory // 2**20
    assert replicas * operator_cpu + agent_cpu + cpu <= CORES_MILLI
    assert replicas * operator_memory + agent_memory + memory <= MEMORY_MIB
