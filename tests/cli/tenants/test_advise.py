"""`cotenant advise`: measured shapes beside guessed ones, told apart."""

from __future__ import annotations

from typing import Any

import pytest

from cotenant.cli import main
from tests.cli.tenants.cluster import PlayedCluster

MEASURED = {
    "gpuClass": "A100", "workers": 2, "gpu": "1", "seconds": [1000, 1000], "gpuSeconds": [2000, 2000],
    "basis": "Measured", "runs": 2,
}  # fmt: skip
FAST = {
    "gpuClass": "H100", "workers": 1, "gpu": "1", "seconds": [630, 1217], "gpuSeconds": [630, 1217], "basis": "Guessed"
}  # fmt: skip
FIGURES = {"H100": {"memoryGB": 80, "bandwidthGBs": 3350, "tflops": 989, "source": "a datasheet"}}


def advice(name: str = "train-7", **changes: Any) -> dict[str, Any]:
    status = {
        "template": "train", "runs": 2, "leftOut": 1, "candidates": [MEASURED, FAST], "byMoney": False,
        "quickest": MEASURED, "cheapest": FAST, "figures": FIGURES, "notes": ["T4 has too little memory for it."],
    }  # fmt: skip
    return {"metadata": {"name": name, "namespace": "red"}, "status": status | changes}


def test_advice_on_a_job_tells_what_was_measured_from_what_is_guessed(
    cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.answers["/namespaces/red/advices/train-7"] = advice(advice=["Ask for `gpu.memory: 12Gi`."])
    assert main.main(["advise", "train-7"]) == 0
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == [
        "red/train-7: 2 runs of train measured, 1 left out",
        "    WORKERS   EACH   CLASS   TIME               GPU-HOURS      BASIS",
        "*   2         1      A100    16m40s             0.56           measured (2 runs)",
        "*   1         1      H100    10m30s to 20m17s   0.18 to 0.34   guessed",
        "Quickest: 2 × 1 A100, measured (2 runs).",
        "With the fewest GPU-hours: 1 × 1 H100, guessed.",
        "  T4 has too little memory for it.",
        "  Guessed of H100: 989 TFLOPS, 3350 GB/s (a datasheet).",
        "- Ask for `gpu.memory: 12Gi`.",
    ]


def test_with_prices_it_is_in_money(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    priced = MEASURED | {"costMicros": [1_500_000, 1_500_000]}
    cluster.answers["/namespaces/red/advices/train-7"] = advice(
        candidates=[priced], quickest=priced, cheapest=priced, byMoney=True, currency="EUR", notes=[]
    )
    assert main.main(["advise", "train-7"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[2].split() == ["*", "2", "1", "A100", "16m40s", "0.56", "1.50", "measured", "(2", "runs)"]
    assert shown[3] == "Quickest, with the least EUR: 2 × 1 A100, measured (2 runs)."


def test_without_a_run_it_says_what_is_missing(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    nothing = {"template": "train", "runs": 0, "leftOut": 1, "byMoney": False, "notes": ["No run of it says."]}
    cluster.answers["/namespaces/red/advices/train-7"] = advice() | {"status": nothing}
    assert main.main(["advise", "train-7"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "red/train-7: 0 runs of train measured, 1 left out",
        "  No run of it says.",
    ]


def test_all_jobs_are_a_line_each(cluster: PlayedCluster, capsys: pytest.CaptureFixture[str]) -> None:
    cluster.answers["/namespaces/red/advices"] = {"items": [advice()]}
    cluster.answers["/namespaces/blue/advices"] = {"items": []}
    assert main.main(["advise"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "JOB       RUNS   QUICKEST                        CHEAPEST              BESIDES",
        "train-7   2      2 × 1 A100, measured (2 runs)   1 × 1 H100, guessed   T4 has too little memory for it.",
    ]
    assert main.main(["advise", "-n", "blue"]) == 0
    assert capsys.readouterr().out == "No run of namespace blue is known.\n"
