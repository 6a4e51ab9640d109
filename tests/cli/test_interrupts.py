"""Ctrl-C and SIGTERM end a command wherever they meet it, and once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

# The command waits for longer than a test may: what ends it is the interrupt.
WAIT = "time.sleep(600)"
WHERE_NOTHING_CAN_BE_RAISED = """
import argparse, os, signal, sys, time, types, weakref
import pipelines.cli.main as cli

class Thing:
    pass

def command(options, settings):
    thing = Thing()
    kept = weakref.ref(thing, lambda gone: os.kill(os.getpid(), signal.{name}))
    del thing
    try:
        {then}
        return 0
    finally:
        os.kill(os.getpid(), signal.{name})
        print("cleaned up", flush=True)

def parser():
    made = argparse.ArgumentParser()
    made.set_defaults(command="wait")
    return made

cli.parser = parser
cli.COMMANDS = {{"wait": types.SimpleNamespace(run=command)}}
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_that_python_would_drop_ends_the_command_and_a_second_not_its_clean_up(
    ending: signal.Signals,
) -> None:
    program = WHERE_NOTHING_CAN_BE_RAISED.format(name=ending.name, then=WAIT)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert done.stdout == "cleaned up\n"
    assert done.stderr.splitlines() == [
        "medusa: ending what was started; this takes a moment",
        "medusa: interrupted; what was committed stays",
    ]


TIMED = """
import signal
from pipelines.cli.interrupts import interruptible

signal.alarm(60)
with interruptible():
    pass
print(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
"""


def test_a_command_that_ends_before_its_interrupt_comes_again_is_interrupted_all_the_same() -> None:
    program = WHERE_NOTHING_CAN_BE_RAISED.format(name="SIGINT", then="pass")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "medusa: interrupted; what was committed stays"


def test_a_timer_of_the_caller_goes_on() -> None:
    done = subprocess.run([sys.executable, "-c", TIMED], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
