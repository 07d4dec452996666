"""TrainingJob + what its profile stands for → the whole job. Pure: the same profile and spec give the same spec.

What the job writes wins. What it leaves out comes from the profile, part by part: an amount of GPUs is one part, and so
are workers with minWorkers. So numbers of two authors are never mixed into something that neither would have written.
The bounds of the profile, and all rules for TrainingJobs, are checked on the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from cotenant.api.advice.near_names import nearest
from cotenant.api.resources.job_spec.chiefs import ChiefResources
from cotenant.api.resources.job_spec.evaluators import Evaluator
from cotenant.api.resources.job_spec.machine import GpuSpec
from cotenant.api.resources.job_spec.profile import GpuBounds, ProfileBounds, ProfileSpec, ResourceBounds, WorkerBounds
from cotenant.api.resources.job_spec.runtime import Resources, Runtime
from cotenant.api.resources.training_profiles import ClusterTrainingProfile, TrainingProfile
from cotenant.api.resources.trainingjob_status import ProfileStatus
from cotenant.api.resources.trainingjobs import TrainingJob, TrainingJobSpec
from cotenant.api.scalars.quantities import mib_up
from cotenant.api.validation.problems import DocumentError, Problem
from cotenant.api.validation.rules import Model
from cotenant.core.model.formatting import format_gpus, format_mib

Profile: TypeAlias = TrainingProfile | ClusterTrainingProfile
SHOWN: Final = 8
"""Names of profiles that a refusal lists at most."""


@dataclass(frozen=True, slots=True)
class Profiles:
    """All profiles that a job may name."""

    of_namespaces: Mapping[str, TrainingProfile]
    """By namespace/name."""
    of_cluster: Mapping[str, ClusterTrainingProfile]
    """By name."""
    unreadable: Mapping[tuple[str, str], str]
    """(plural, namespace/name or name) → why it cannot be read."""

    def named(self, name: str, namespace: str) -> Profile | None:
        """The namespace's own profile, otherwise the cluster's. One that cannot be read still hides the cluster's."""
        own = f"{namespace}/{name}"
        if own in self.of_namespaces:
            return self.of_namespaces[own]
        if ("trainingprofiles", own) in self.unreadable:
            return None
        return self.of_cluster.get(name)

    def names_in(self, namespace: str) -> list[str]:
        own = {name for there, _, name in (key.partition("/") for key in self.of_namespaces) if there == namespace}
        return sorted(own | self.of_cluster.keys())


NO_PROFILES: Final = Profiles({}, {}, {})


class UnknownProfileError(DocumentError):
    """A job names a profile that does not exist or cannot be read."""


class ProfileRefusedError(DocumentError):
    """The job breaks a bound of its profile, or is incomplete even with it."""


def meaning_of(job: TrainingJob, profiles: Profiles) -> ProfileStatus | None:
    """What the job's profile stands for now; None if it names none. Raises UnknownProfileError."""
    name, namespace = job.spec.profile, job.metadata.namespace or "default"
    if name is None:
        return None
    found = profiles.named(name, namespace)
    if found is None:
        problem = Problem("spec.profile", _unknown(name, namespace, profiles))
        raise UnknownProfileError([problem], f"TrainingJob {job.metadata.name}")
    return ProfileStatus(name=name, kind=found.kind, generation=found.metadata.generation, spec=found.spec)


def _unknown(name: str, namespace: str, profiles: Profiles) -> str:
    for plural, key in (("trainingprofiles", f"{namespace}/{name}"), ("clustertrainingprofiles", name)):
        if (plural, key) in profiles.unreadable:
            return f"the profile {name!r} cannot be read: {profiles.unreadable[plural, key]}"
    known = profiles.names_in(namespace)
    said = f"there is no TrainingProfile {name!r} in namespace {namespace}, and no ClusterTrainingProfile of this name"
    if (meant := nearest(name, known)) is not None:
        return f"{said}; write `spec.profile: {meant}`"
    if not known:
        return f"{said}; there are none at all: leave profile out, and say in gpu what a worker needs"
    more = f" and {len(known) - SHOWN} more" if len(known) > SHOWN else ""
    return f"{said}; there are {', '.join(known[:SHOWN])}{more}"


def with_profile(job: TrainingJob, meaning: ProfileStatus | None) -> TrainingJob:
    """The job with the parts that it left out, and their meaning in its status. Raises ProfileRefusedError."""
    if meaning is None:
        left = job.status.model_copy(update={"profile": None})
        return job if job.status.profile is None else job.model_copy(update={"status": left})
    spec, problems = resolved(job.spec, meaning.spec), list[Problem]()
    if spec.gpu_given is None:
        why = f"is required: the profile {meaning.name!r} names no GPUs; write for example `spec.gpu: {{count: 1}}`"
        problems.append(Problem("spec.gpu", why))
    else:
        problems += _broken_rules(spec)
        problems += _broken_bounds(spec, meaning.spec.allowed or ProfileBounds(), meaning.name)
    if problems:
        raise ProfileRefusedError(problems, f"TrainingJob {job.metadata.name}")
    return job.model_copy(update={"spec": spec, "status": job.status.model_copy(update={"profile": meaning})})


def resolved(spec: TrainingJobSpec, profile: ProfileSpec) -> TrainingJobSpec:
    """The spec completed by the profile. No rule and no bound is checked."""
    found: dict[str, Any] = {"runtime": _runtime(spec.runtime, profile), "gpu_given": _gpu(spec.gpu_given, profile)}
    if spec.workers_given is None:
        found["workers_given"] = profile.workers
        if spec.min_workers is None:
            found["min_workers"] = profile.min_workers
    if spec.resources_given is None:
        found["resources_given"] = profile.resources
        if spec.chief is None or spec.chief.resources is None:
            found["chief"] = profile.chief or spec.chief
    if spec.topology is None:
        found["topology"] = profile.topology
    if spec.spread is None:
        found["spread"] = profile.spread
    if spec.evaluator is not None:
        found["evaluator"] = _evaluator(spec.evaluator, profile)
    return spec.model_copy(update=found)


def _evaluator(given: Evaluator, profile: ProfileSpec) -> Evaluator:
    """The evaluator with the profile's resources and nodes, if the job says neither."""
    below, described = profile.evaluator, given.resources or given.node_selector or given.tolerate_gpu_taints
    if below is None or described:
        return given
    return given.model_copy(
        update={
            "resources": below.resources,
            "node_selector": below.node_selector,
            "tolerate_gpu_taints": below.tolerate_gpu_taints,
        }
    )


def _gpu(given: GpuSpec | None, profile: ProfileSpec) -> GpuSpec | None:
    found, bounds, below = given or profile.gpu, profile.allowed or ProfileBounds(), profile.gpu
    if found is None:
        return None
    classes = found.classes or (below.classes if below is not None else ()) or bounds.classes
    zones = found.zones or (below.zones if below is not None else ()) or bounds.zones
    return found.model_copy(update={"classes": classes, "zones": zones})


def _runtime(given: Runtime, profile: ProfileSpec) -> Runtime:
    below = profile.runtime
    if below is None:
        return given
    found: dict[str, Any] = {}
    if given.image is None:
        found["image"] = below.image
    if given.framework is None:
        found["framework"] = below.framework
    if given.servers is not None and given.parameter_server is None:
        found["parameter_server"] = below.parameter_server
    return given.model_copy(update=found)


def _broken_rules(spec: TrainingJobSpec) -> Iterator[Problem]:
    """Broken rules of TrainingJobs: nobody has checked these parts together before."""
    parts: tuple[tuple[str, Model], ...] = (("spec", spec), ("spec.gpu", spec.gpu), ("spec.runtime", spec.runtime))
    for path, part in parts:
        for rule in part.RULES:
            if not rule.check(part):
                yield Problem(f"{path}.{rule.field}" if rule.field else path, rule.said_of(part))


def _span(bounds: WorkerBounds | GpuBounds) -> str:
    return str(bounds.min) if bounds.min == bounds.max else f"{bounds.min} to {bounds.max}"


def _broken_bounds(spec: TrainingJobSpec, bounds: ProfileBounds, name: str) -> Iterator[Problem]:
    """Broken bounds. Each names the field, what was given, and what is allowed."""
    at = f"the profile {name!r} allows"
    if (workers := bounds.workers) is not None:
        given = (("spec.workers", spec.workers), ("spec.minWorkers", spec.min_workers or spec.workers))
        for field, number in given:
            if not workers.min <= number <= workers.max and (field == "spec.workers" or spec.min_workers is not None):
                yield Problem(field, f"{number} was given; {at} {_span(workers)}")
    if (gpus := bounds.gpus) is not None and not _is_within(spec.gpu, gpus):
        several = f"shares of {spec.gpu.count}" if (spec.gpu.count or 1) > 1 else "a share of one"
        asked = several if spec.gpu.is_share else str(spec.gpu.count)
        yield Problem(
            "spec.gpu.count", f"{asked} was given; {at} {_span(gpus)} GPU{'' if gpus.max == 1 else 's'} per worker"
        )
    if spec.resources_given is not None and bounds.resources is not None:
        yield from _above("spec.resources", spec.resources_given, bounds.resources, at)
    if spec.chief is not None and spec.chief.resources is not None and (most := bounds.chief or bounds.resources):
        yield from _above("spec.chief.resources", spec.chief.resources, most, at)
    yield from _outside("spec.gpu.classes", spec.gpu.classes, bounds.classes, at)
    yield from _outside("spec.gpu.zones", spec.gpu.zones, bounds.zones, at)
    image = spec.runtime.image
    if image is not None and bounds.images and not any(_begins_with(image, one) for one in bounds.images):
        yield Problem("spec.runtime.image", f"{image} was given; {at} images of {', '.join(bounds.images)}")


def _is_within(gpu: GpuSpec, gpus: GpuBounds) -> bool:
    """Shares, of any number of GPUs, count as less than one. No one gets shares of more GPUs than the maximum."""
    return gpus.min <= (0 if gpu.is_share else gpu.count or 1) and (gpu.count or 0) <= gpus.max


def _above(field: str, given: Resources | ChiefResources, most: ResourceBounds, at: str) -> Iterator[Problem]:
    if given.cpu is not None and most.cpu is not None and given.cpu > most.cpu:
        asked, limit = format_gpus(given.cpu), format_gpus(most.cpu)
        yield Problem(f"{field}.cpu", f"{asked} was given; {at} at most {limit}")
    for name in ("memory", "scratch"):
        amount, bound = getattr(given, name), getattr(most, name)
        if amount is not None and bound is not None and amount > bound:
            asked, limit = format_mib(mib_up(amount)), format_mib(mib_up(bound))
            yield Problem(f"{field}.{name}", f"{asked} was given; {at} at most {limit}")


def _outside(field: str, given: Sequence[str], allowed: Sequence[str], at: str) -> Iterator[Problem]:
    if allowed and (others := [one for one in given if one not in allowed]):
        yield Problem(field, f"{', '.join(others)} was given; {at} {', '.join(allowed)}")


def _begins_with(image: str, prefix: str) -> bool:
    """True if a name begins with a prefix that ends at the end of a part of the name."""
    rest = image.removeprefix(prefix)
    return image.startswith(prefix) and (not rest or prefix[-1] in "/:@" or re.match(r"[/:@]", rest) is not None)
