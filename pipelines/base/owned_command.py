"""A command whose process ends with the process that starts it, even after `kill -9`.

Linux signals a child when the thread that started it ends (PR_SET_PDEATHSIG); elsewhere only the
owner's own exit ends the child. So the thread that starts the command must live as long as it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

# Run in a fresh interpreter between the owner and the command: gives up root, then asks Linux for
# a signal when the owner ends. The order matters (a change of user forgets the request), and so
# does doing it outside of the owner: code between fork and exec is not safe in a process with
# threads.
_BECOME = """
import ctypes, os, sys
owner, uid, gid, number = (int(word) for word in sys.argv[1:5])
libc = ctypes.CDLL(None) if sys.platform == "linux" else None
if uid >= 0:
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
if libc is not None:
    libc.prctl(1, number)  # PR_SET_PDEATHSIG
    if os.getppid() != owner:
        sys.exit("the owner ended before the start")
os.execv(sys.argv[5], sys.argv[5:])
"""


def owned_command(
    command: Sequence[str], *, ends_by: signal.Signals, uid: int = -1, gid: int = -1
) -> list[str]:
    """The command, for this process to start; Linux sends it `ends_by` when this process ends.

    `uid`, `gid`: the user that it runs as, which only root can choose; -1 for the owner's.
    """
    numbers = [str(int(number)) for number in (os.getpid(), uid, gid, ends_by)]
    # -I -S: nothing of the user's Python settings, and 15 ms instead of 60.
    return [sys.executable, "-I", "-S", "-c", _BECOME, *numbers, *command]
