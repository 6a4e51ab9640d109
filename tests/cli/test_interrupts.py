"""Ctrl-C and SIGTERM end a command wherever they meet it, and once."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from medusa_core.errors import Refused
from pipelines.base.exit_codes import Ending, end_of
from tests.sweeps import long_but

# The command waits for longer than a test may: only its interrupt ends it.
WAIT = "time.sleep(600)"
WHERE_NOTHING_CAN_BE_RAISED = """
import argparse, ctypes, os, signal, sys, time, types, weakref
import pipelines.cli.main as cli

class Thing:
    def __getattr__(self, name):
        os.kill(os.getpid(), signal.{name})

def in_a_callback():
    thing = Thing()
    kept = weakref.ref(thing, lambda gone: os.kill(os.getpid(), signal.{name}))
    del thing

def in_c_code():
    ctypes.pythonapi.PyObject_HasAttrString(ctypes.py_object(Thing()), b"anything")

def command(options, settings):
    {where}()
    try:
        {then}
        return 0
    finally:
        os.kill(os.getpid(), signal.{name})
        time.sleep(0.5)
        print("cleaned up", flush=True)

def parser(only):
    made = argparse.ArgumentParser()
    made.set_defaults(command="wait")
    return made

cli.parser = parser
cli.COMMANDS = {{"wait": types.SimpleNamespace(run=command)}}
sys.exit(cli.main([]))
"""


@pytest.mark.parametrize(
    ("ending", "where"),
    long_but(
        1,
        [
            (signal.SIGINT, "in_a_callback"),
            (signal.SIGTERM, "in_a_callback"),
            (signal.SIGTERM, "in_c_code"),
        ],
    ),
)
def test_an_interrupt_that_would_be_lost_ends_the_command_and_a_second_not_its_clean_up(
    ending: signal.Signals, where: str
) -> None:
    program = WHERE_NOTHING_CAN_BE_RAISED.format(name=ending.name, where=where, then=WAIT)
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 130, done.stderr
    assert done.stdout == "cleaned up\n"
    assert done.stderr.splitlines() == [
        "medusa: ending what was started; this takes a moment",
        "medusa: interrupted; what was committed stays",
    ]


TIMED = """
import signal
from pipelines.cli.interrupts import interruptible

signal.alarm(240)
with interruptible():
    pass
print(signal.getitimer(signal.ITIMER_REAL)[0] > 0)
"""


@pytest.mark.long
def test_a_command_that_ends_before_its_interrupt_comes_again_is_interrupted_all_the_same() -> None:
    program = WHERE_NOTHING_CAN_BE_RAISED.format(name="SIGINT", where="in_a_callback", then="pass")
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 130, done.stderr
    assert done.stderr.splitlines()[-1] == "medusa: interrupted; what was committed stays"


def test_what_an_interrupted_library_raises_is_no_error_of_the_data() -> None:
    def interrupted() -> int:
        try:
            try:
                raise KeyboardInterrupt
            finally:
                raise OSError("Broken pipe")  # as of a job's result, which PySpark reads to its end
        except OSError as error:
            raise Refused("the step failed on its data: Broken pipe") from error

    assert end_of(interrupted) == Ending(130, "interrupted; what was committed stays")


def test_a_timer_of_the_caller_goes_on() -> None:
    done = subprocess.run(
        [sys.executable, "-c", TIMED], capture_output=True, text=True, timeout=240
    )
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
