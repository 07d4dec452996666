"""Jobs that are alike: the groups whose run times a job is compared with, the narrowest first.

Most jobs of a training cluster come again: same person, same script, another number behind the name (Helios, SC 2021,
predicts from name, user and GPUs in the same way; Weng et al., NSDI 2022, find 65 % of jobs to recur five times and
more). A group is a text, so that it can be counted and written down.
"""

from __future__ import annotations

import re
from functools import lru_cache

from cotenant.core.model.objects import Job

_NUMBERED = re.compile(r"[-._](?:\d+|(?=[a-f]*\d)[0-9a-f]{6,}|[bcdfghjklmnpqrstvwxz2456789]{5,10})$")
"""What generators put behind a name: a count or a time, a hash, and what Kubernetes draws for `generateName` (five of
its letters, among which are no vowels)."""


def groups_of(job: Job) -> tuple[str, ...]:
    """Narrowest first: template of one person, template, person, size in the queue, queue."""
    gpus = job.workers_min * job.gpu.count
    template = template_of(job.key)
    return (
        f"template of user|{job.queue}|{template}|{gpus}|{job.user}",
        f"template|{job.queue}|{template}",
        f"user|{job.queue}|{gpus}|{job.user}",
        f"size|{job.queue}|{gpus}",
        f"queue|{job.queue}",
    )


def declarers_of(job: Job) -> tuple[str, ...]:
    """Groups whose declarations of run times are alike, narrowest first: template of one person, person, queue."""
    template = template_of(job.key)
    return (
        f"declared by template of user|{job.queue}|{template}|{job.user}",
        f"declared by user|{job.queue}|{job.user}",
        f"declared|{job.queue}",
    )


@lru_cache(maxsize=65_536)
def template_of(key: str) -> str:
    """`team/train-resnet-20260112-7f3a9` → `team/train-resnet`: the key without what makes it unique.

    At most three endings are taken off, and never the whole name.
    """
    namespace, _, name = key.partition("/")
    for _ in range(3):
        shorter = _NUMBERED.sub("", name)
        if shorter == name or not shorter:
            break
        name = shorter
    return f"{namespace}/{name}"
