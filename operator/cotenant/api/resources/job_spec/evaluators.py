"""Evaluator of a TrainingJob: a pod beside its ranks that measures what they save."""

from __future__ import annotations

from typing import Annotated, ClassVar, TypeAlias

from pydantic import Field

from cotenant.api.scalars.amounts import CpuAmount, Duration, HostMemory
from cotenant.api.scalars.fields import NULL_IS_ABSENT, Bool, SelectedValue, Str, function_name, label_keys_rule, text
from cotenant.api.validation.rules import Model, Rule

MAX_WORDS = 12
MAX_WORD_CHARS = 64
MAX_LABELS = 4
Word: TypeAlias = Annotated[
    Str,
    *text(
        r"^[ !#-%(-;=?-~]+$",
        "must be a word of plain characters without <, >, & and quotes, such as --every; a script belongs into a file",
        longest=MAX_WORD_CHARS,
    ),
]
"""Short and plain: an object of a job has little room beside the program of its ranks."""


class EvaluatorResources(Model):
    """Amounts of the node from which the requests and limits of the evaluator's pod are made."""

    cpu: CpuAmount = 1000
    """CPUs of the evaluator."""
    memory: HostMemory = 4 * 1024**3
    """Memory of the evaluator."""


NodeSelector = Annotated[dict[Str, SelectedValue], Field(max_length=MAX_LABELS, default_factory=dict), NULL_IS_ABSENT]
LABEL_KEYS = label_keys_rule("nodeSelector", "pool")


class EvaluatorShape(Model):
    """What the evaluator of a profile's jobs has, where a job does not say it itself."""

    resources: EvaluatorResources | None = None
    """Of the node. Default: one CPU and 4Gi."""
    node_selector: NodeSelector
    """Labels that the evaluator's node must carry, all of them."""
    tolerate_gpu_taints: Bool = False
    """True: it may also run on nodes that are tainted for GPU work."""

    RULES: ClassVar[tuple[Rule, ...]] = (LABEL_KEYS,)


class Evaluator(Model):
    """A pod without a GPU and without a rank, started when the ranks run. The kube-scheduler finds it a node."""

    command: Annotated[tuple[Word, ...], Field(min_length=1, max_length=MAX_WORDS)] | None = None
    """Its program with its arguments. Default: the program of the job, which sees COTENANT_ROLE=evaluator."""
    entrypoint: Annotated[Str, *function_name("evaluate:main")] | None = None
    """A Python function instead of a command."""
    resources: EvaluatorResources | None = None
    """Of the node. Default: one CPU and 4Gi."""
    node_selector: NodeSelector
    """Labels that the evaluator's node must carry, all of them. Default: any node; one without GPUs is preferred."""
    tolerate_gpu_taints: Bool = False
    """True: the evaluator may also run on nodes that are tainted for GPU work, as the workers' pods may."""
    finish_within: Duration | None = None
    """How long the evaluator may go on after the job has succeeded, to measure the last checkpoint. The job's GPUs are
    given back before that. Default: it is asked to end at once, and has `gracePeriod`."""

    @property
    def asked(self) -> EvaluatorResources:
        return EvaluatorResources() if self.resources is None else self.resources

    RULES: ClassVar[tuple[Rule, ...]] = (
        LABEL_KEYS,
        Rule(
            "",
            "!(has(self.command) && has(self.entrypoint))",
            "command and entrypoint exclude each other; leave one of the two out, or both to run the job's own program",
            lambda it: it.command is None or it.entrypoint is None,
        ),
    )
