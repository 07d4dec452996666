"""Tables with a header: what is read of a line, what is left out, and what is said about it."""

from __future__ import annotations

import pytest

from cotenant.simulator.traces.tables import read_helios, read_openb, read_plain
from cotenant.simulator.traces.trace import TraceError, TraceJob

OPENB = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
)
HELIOS = "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n"


def test_a_plain_table_needs_three_columns_and_takes_more() -> None:
    lines = [
        "submit,duration,gpus,queue,user,name,declared,priority,gpu_milli\n",
        "60,90.5,2,red,ada,train-1,120,5,300\n",
        "0,10,1,,,,,,250\n",
    ]
    trace = read_plain(lines)
    assert trace.jobs == (
        TraceJob(name="job-2", submitted_at=0.0, duration_s=10.0, gpus=1, gpu_milli=250),
        TraceJob(
            name="train-1",
            submitted_at=60.0,
            duration_s=90.5,
            gpus=2,
            queue="red",
            user="ada",
            declared_s=120,
            priority=5,
        ),
    )
    assert trace.notes == ()


def test_a_published_table_with_other_column_names_is_read_and_unused_columns_are_named() -> None:
    trace = read_plain(
        [
            "timestamp,duration,num_gpus,gpu_time,cluster\n",
            "2017-11-06 00:01:00,66.0,1,66.0,11cb48\n",
            "2017-11-06 00:02:00,0,1,0,11cb48\n",
            "2017-11-06 00:03:00,5,0,0,11cb48\n",
        ]
    )
    assert [(job.submitted_at, job.queue, job.name) for job in trace.jobs] == [(1509926460.0, "11cb48", "job-1")]
    assert trace.notes == (
        "columns that are not used: gpu_time",
        "1 × not used: asks for no GPU",
        "1 × not used: never ran, or has no run time",
    )


def test_openb_runs_from_its_start_to_its_deletion_with_its_share_and_its_classes() -> None:
    trace = read_openb(
        [
            OPENB,
            "openb-pod-0000,12000,16384,1,460,V100M16|V100M32,LS,Running,100,1100,400\n",
            "openb-pod-0001,6000,12288,2,1000,,BE,Succeeded,50,60,\n",
            "openb-pod-0002,6000,12288,0,0,,BE,Succeeded,50,60,55\n",
        ]
    )
    assert trace.jobs == (
        TraceJob(
            name="openb-pod-0000",
            submitted_at=100.0,
            duration_s=700.0,
            gpus=1,
            queue="ls",
            gpu_milli=460,
            gpu_classes=("V100M16", "V100M32"),
            cpu_milli=12_000,
            memory_mib=16_384,
        ),
    )
    assert len(trace.notes) == 2


def test_helios_runs_for_its_duration_in_its_virtual_cluster() -> None:
    line = "7,u1,vc3,8,40,1,COMPLETED,2020-07-01 00:00:10,2020-07-01 00:01:00,2020-07-01 01:01:00,3600,50\n"
    trace = read_helios([HELIOS, line])
    assert trace.jobs == (
        TraceJob(
            name="7", submitted_at=1593561610.0, duration_s=3600.0, gpus=8, queue="vc3", user="u1", cpu_milli=40_000
        ),
    )


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["duration,gpus\n", "1,1\n"], "no column 'submit'"),
        ([], "it has none"),
        (["submit,duration,gpus\n", "0,1,1\n", "yesterday,1,1\n"], "line 3 of the trace"),
        (["submit,duration,gpus\n", "0,long,1\n"], "line 2 of the trace"),
        (["submit,duration,gpus\n", "0,1\n"], "line 2 of the trace"),
        (["submit,duration,gpus\n", "0,1,0\n"], "no job of the trace can be played"),
    ],
)
def test_an_error_in_a_table_names_its_line(lines: list[str], says: str) -> None:
    with pytest.raises(TraceError, match=says):
        read_plain(lines)
