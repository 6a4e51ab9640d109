"""What is written down of the process of a job."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.waiting import until

ORPHANED = """
import os, time
from pipelines.base.process_table import look_at
from pipelines.platform.jobs.job_processes import own_process
while look_at(os.getsid(0)) is not None:
    time.sleep(0.01)
print(own_process().pid == os.getpid(), flush=True)
"""


def test_a_process_whose_leader_is_not_to_be_seen_stands_for_itself(tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("w") as words:
        subprocess.run(
            ["sh", "-c", '"$0" -c "$1" &', sys.executable, ORPHANED],
            stdout=words, check=True, start_new_session=True,
        )  # fmt: skip
    until(lambda: said.read_text() != "", "it has said who it is")
    assert said.read_text() == "True\n"
