"""A whole simulated world, from a scenario to its quiet end, watched by the invariants at every step."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random
from typing import Final

from cotenant import names
from cotenant.contract import Contract
from cotenant.controller.client.kube import NAMESPACES, QUEUES, TRAINING_JOBS, Resource
from tests.support.simulation.api_server import ApiServer
from tests.support.simulation.composites import CompositePlan
from tests.support.simulation.controllers import collect_garbage, run_programs, watch_nodes
from tests.support.simulation.incidents import strike
from tests.support.simulation.invariants import Invariants, ViolationError
from tests.support.simulation.machine import Machine
from tests.support.simulation.replica import Replica, simulated_surroundings
from tests.support.simulation.running_pod import Program, RunningPod
from tests.support.simulation.scenario import JobPlan, Scenario
from tests.support.simulation.story import Story
from tests.support.simulation.virtual_loop import VirtualLoop

QUIET_S: Final = 150.0
"""Without a write for this long, and with nothing left to run, the desired state is reached and kept."""
END_S: Final = 4 * 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    violation: str
    """Empty where all went well."""
    story: Story
    virtual_s: float

    def report(self) -> str:
        """The violation, and how it came to it in at most so many lines."""
        subjects = re.findall(r"[^ ,:]+[-/][^ ,:]+", self.violation)
        return f"{self.story.told(*subjects)}\n{self.virtual_s:9.3f}  {self.violation}"


class World:
    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.loop = VirtualLoop(self._dice("loop"))
        self.story = Story(self.loop.time)
        self.server = ApiServer(self.loop.time)
        self.programs = {f"{job.queue}/{job.name}": job.program for job in scenario.jobs}
        self.composites = {f"{one.queue}/{one.name}": one for one in scenario.composites}
        self.machines = {
            f"n{index}": Machine(
                name=f"n{index}",
                gpus=gpus,
                server=self.server,
                dice=self._dice(f"n{index}"),
                tell=self.story.tell,
                program_of=self.program_of,
                on_start=self._check_start,
            )
            for index, gpus in enumerate(scenario.machines)
        }
        self.replicas = {
            name: Replica(name, self.server, self._dice(name), self.story.tell)
            for name in ("a", "b")[: scenario.replicas]
        }
        self.invariants = Invariants(
            self.server, self.machines, self.replicas, composites=scenario.composites,
            now=self.loop.time, tell=self.story.tell, fail=self.loop.fail,
        )  # fmt: skip
        self.server.watchers.append(self.invariants.look_at)
        self.server.on_write = self.invariants.check_writer

    def _check_start(self, machine: Machine, pod: RunningPod) -> None:
        self.invariants.check_start(machine, pod)

    def program_of(self, grant: Contract) -> Program:
        if known := self.programs.get(f"{grant.namespace}/{grant.job}"):
            return known
        mine = (one for one in self.composites.values() if one.queue == grant.namespace and one.makes(grant.job))
        return next(mine).program

    def run(self) -> Outcome:
        violation = ""
        with simulated_surroundings(), _quiet_logs():
            try:
                self.loop.run(self._live())
            except ViolationError as found:
                violation = str(found)
        return Outcome(violation, self.story, self.loop.time())

    async def _live(self) -> None:
        self._furnish()
        actors = [asyncio.ensure_future(machine.run()) for machine in self.machines.values()]
        actors += [asyncio.ensure_future(replica.run()) for replica in self.replicas.values()]
        programs, garbage = run_programs(self.machines.values(), self.program_of), collect_garbage(self.server)
        nodes = watch_nodes(self.server, self.machines.values(), self.loop.time)
        actors += [asyncio.ensure_future(one) for one in (programs, garbage, nodes, self._submit())]
        try:
            await self._misfortunes()
            await self._settle(actors)
        finally:
            for replica in self.replicas.values():
                replica.process.kill()
            for actor in actors:
                actor.cancel()
            await asyncio.wait(actors)

    def _furnish(self) -> None:
        for machine in self.machines.values():
            machine.register()
        for name, guaranteed, limit in self.scenario.queues:
            self.server.put("administrator", NAMESPACES, {"metadata": {"name": name}})
            spec = {"namespaces": [name], "quotas": [{"guaranteed": min(guaranteed, limit), "limit": limit}]}
            document = {"apiVersion": names.API_VERSION, "kind": "Queue", "metadata": {"name": name}, "spec": spec}
            self.server.put("administrator", QUEUES, document)

    async def _submit(self) -> None:
        wanted: list[tuple[Resource, JobPlan | CompositePlan]] = [(TRAINING_JOBS, job) for job in self.scenario.jobs]
        wanted += [(one.resource, one) for one in self.scenario.composites]
        for resource, one in sorted(wanted, key=lambda pair: pair[1].at):
            await asyncio.sleep(max(0.0, one.at - self.loop.time()))
            self.story.tell(f"{one} is submitted")
            self.server.put(one.queue, resource, one.document())
        await asyncio.Event().wait()

    async def _misfortunes(self) -> None:
        for incident in self.scenario.incidents:
            await asyncio.sleep(max(0.0, incident.at - self.loop.time()))
            strike(self, incident)
            self.invariants.check_processes()
        await asyncio.sleep(max(0.0, self.scenario.calm_at_s - self.loop.time()))
        self._calm_down()

    def _calm_down(self) -> None:
        """End all faults: from here on everything works."""
        self.story.tell("from here on nothing goes wrong any more")
        for replica in self.replicas.values():
            replica.line.faults.clear()
            replica.line.down_until = 0.0
            replica.process.paused_until = 0.0
            replica.set_clock(0.0)
            replica.feed.quiet_until.clear()
        for machine in self.machines.values():
            machine.cut_off_at, machine.agent_away = None, False

    def _repair_hung_machines(self) -> None:
        for machine in self.machines.values():
            if any(pod.asked_to_end and pod.ends_at == float("inf") for pod in machine.pods.values()):
                machine.lose_power()

    async def _settle(self, actors: Sequence[asyncio.Future[None]]) -> None:
        while self.loop.time() < END_S:
            await asyncio.sleep(5.0)
            self._repair_hung_machines()
            self.invariants.check_processes()
            for actor in actors:
                if actor.done():
                    actor.result()
            quiet = self.loop.time() - self.invariants.written_at >= QUIET_S
            if quiet and not self._runs() and not self.invariants.composites.held_back():
                self.invariants.check_end()
                return
        raise ViolationError(f"it is not quiet after {END_S:.0f} s: {self.invariants.last_write}")

    def _runs(self) -> bool:
        return any(machine.pods for machine in self.machines.values())

    def _dice(self, who: str) -> Random:
        return Random(f"{self.scenario.seed} {who}")


@contextmanager
def _quiet_logs() -> Iterator[None]:
    """What fails is meant to: the story has it, the log need not."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
