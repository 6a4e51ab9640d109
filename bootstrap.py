"""Set-up with nothing but a system Python: `.venv` becomes what `requirements.lock` says.

Run by `make`; needs Python 3.11 to 3.13 and either `ensurepip` or `pip`. True at any time:

* `.venv` is usable if and only if `.venv/medusa.json`, written last, holds the fingerprints of
  the lock, the project file, the Python version and this folder; then a run changes nothing.
* An interrupted run is continued by the next one; two runs at once wait for each other.
* Only what the lock names is installed, checked by hash; pip's words go to
  `.medusa/logs/setup.log`.

The text can be parsed by Python 3.6, so that an old Python can say that it is too old.
Exit codes: 0 done, 2 refused, 4 something is missing now, 70 a bug of ours, 130 interrupted.
"""

import hashlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

OLDEST, NEWEST = (3, 11), (3, 13)
OTHER_NAMES = ("python3.13", "python3.12", "python3.11")


def _switch_python_or_refuse() -> None:
    """Continue with another Python of this machine if this one is too old or too new."""
    if not os.environ.get("MEDUSA_BOOTSTRAP_SWITCHED"):
        for name in OTHER_NAMES:
            path = shutil.which(name)
            # A name on PATH may be a shim that only prints an error, so it has to prove itself.
            probe = "import sys; print('python%d.%d' % sys.version_info[:2])"
            if path and _output_of(path, "-c", probe) == name:
                os.environ["MEDUSA_BOOTSTRAP_SWITCHED"] = name
                os.execv(path, [path, os.path.abspath(__file__)] + sys.argv[1:])
    print(
        "Medusa needs Python 3.11, 3.12 or 3.13, but %s is Python %d.%d; install one of these "
        "(then `make PYTHON=/path/to/python3.12 demo`, if it is not on PATH)."
        % ((sys.executable,) + sys.version_info[:2]),
        file=sys.stderr,
    )
    sys.exit(2)


def _output_of(*command: str) -> str:
    found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return found.stdout.decode().strip()


if not OLDEST <= sys.version_info[:2] <= NEWEST:
    _switch_python_or_refuse()
if os.name != "posix":
    print("Medusa runs on Linux and macOS (on Windows: inside WSL).", file=sys.stderr)
    sys.exit(2)

# From here on this is Python 3.11 or newer, in syntax that 3.6 can still parse.

import contextlib
import fcntl
import traceback
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent
VENV = ROOT / ".venv"
VENV_PYTHON = VENV / "bin" / "python"
STAMP = VENV / "medusa.json"
LOCK = ROOT / "requirements.lock"
LOG = ROOT / ".medusa" / "logs" / "setup.log"
# pyspark comes as source only: what builds it (and this project) must be there before it.
BUILD_TOOLS = ("packaging", "setuptools", "wheel")
DISK_BYTES_MIN = 2_800_000_000
NO_INDEX = re.compile(
    "NewConnectionError|NameResolutionError|name resolution|ConnectTimeout|Connection refused"
    "|Max retries|ProxyError|SSLError|No route to host|Read timed out|Network is unreachable"
)


class Stop(Exception):
    """The set-up cannot go on: one sentence that says what to do, and an exit code."""

    def __init__(self, sentence: str, exit_code: int = 4) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


# ---------------------------------------------------------------- what there is, what is wanted


def expected_stamp() -> dict[str, str]:
    """Return what `.venv/medusa.json` says when nothing is left to do."""
    digests = {}
    for name, path in (("lock", LOCK), ("project", ROOT / "pyproject.toml")):
        try:
            digests[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise Stop(f"{path.name} cannot be read ({error.strerror}); restore it.", 2) from None
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    # Scripts in .venv/bin hold absolute paths, so a folder that was moved or copied is made anew.
    return {"made_for": f"Python {version} in {ROOT}", "archives": "removed", **digests}


def read_stamp() -> dict[str, str]:
    try:
        stamp = json.loads(STAMP.read_text())
    except (OSError, ValueError):
        return {}
    return stamp if isinstance(stamp, dict) and VENV_PYTHON.exists() else {}


def write_stamp(stamp: dict[str, str]) -> None:
    unfinished = STAMP.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(stamp, indent=1))
    os.replace(unfinished, STAMP)


def require_room() -> None:
    if not os.access(ROOT, os.W_OK):
        raise Stop(f"{ROOT} is not writable for this user; copy the project to a folder of yours.")
    free = shutil.disk_usage(ROOT).free
    if free < DISK_BYTES_MIN and not VENV.exists():
        raise Stop(
            f"{ROOT} has {free / 1e9:.1f} GB free, but {DISK_BYTES_MIN / 1e9:.1f} GB are needed; "
            "make room and run the same command again."
        )


# ---------------------------------------------------------------- other programs


def environment() -> dict[str, str]:
    """Return pip's environment: the user's index and proxy, but nothing that leads elsewhere."""
    env = dict(os.environ)
    for name in ("PYTHONPATH", "PYTHONHOME", "PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON"):
        env.pop(name, None)
    env.update(PIP_USER="0", PIP_NO_INPUT="1", PIP_DISABLE_PIP_VERSION_CHECK="1")
    env.update(PIP_NO_COLOR="1", PYTHONUNBUFFERED="1", PYTHONNOUSERSITE="1")
    cache = env.get("PIP_CACHE_DIR") or os.path.join(
        env.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "pip"
    )
    try:
        os.makedirs(cache, exist_ok=True)
        is_usable = os.access(cache, os.W_OK | os.X_OK)
    except OSError:
        is_usable = False
    if not is_usable:
        env["PIP_NO_CACHE_DIR"] = "1"
    return env


class Progress:
    """What pip does, as one line that changes on a terminal and as a line every 10 s elsewhere."""

    def __init__(self, packages_total: int) -> None:
        self.packages_total = packages_total
        self.packages_seen = 0
        self.reported_s = time.monotonic()
        self.on_terminal = sys.stdout.isatty()

    def hear(self, line: str) -> None:
        words = line.split()
        urgent = False
        if line.startswith(("Collecting ", "Requirement already satisfied")):
            self.packages_seen += 1
            name = words[1 if words[0] == "Collecting" else 3].split("==")[0]
            text = f"  package {self.packages_seen} of about {self.packages_total}: {name}"
        elif len(words) > 1 and words[0] == "Downloading":
            text = f"  downloading {words[1].split('/')[-1]} {' '.join(words[2:4])}"
        elif line.startswith("Building wheel for") and line.endswith("started"):
            text, urgent = f"  building {words[3]}", True
        elif line.startswith("Installing collected"):
            text, urgent = "  unpacking everything into .venv", True
        elif "Retrying (" in line:
            text, urgent = "  the package index does not answer; trying again", True
        else:
            return
        if self.on_terminal:
            sys.stdout.write(f"\r\033[K{text[:78]}")
            sys.stdout.flush()
        elif urgent or time.monotonic() - self.reported_s > 10:
            self.reported_s = time.monotonic()
            print(text, flush=True)

    def end(self) -> None:
        if self.on_terminal:
            sys.stdout.write("\r\033[K")
            sys.stdout.flush()


def run(command: list[str], lock: int, progress: Progress) -> str:
    """Run a command to its end, everything it says into the log; return what it said if it failed.

    The child keeps the folder's lock: if this process is killed, the next run waits for the child.
    """
    lines = []
    LOG.parent.mkdir(parents=True, exist_ok=True)
    with LOG.open("a", encoding="utf-8") as log:
        log.write(f"$ {' '.join(command)}\n")
        child = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            pass_fds=(lock,),
        )
        assert child.stdout is not None
        try:
            for line in child.stdout:
                log.write(line)
                lines.append(line)
                progress.hear(line.strip())
            child.wait()
        finally:
            progress.end()
            if child.poll() is None:
                child.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(timeout=10)
                if child.poll() is None:
                    child.kill()
                    child.wait()
    return "" if child.returncode == 0 else "".join(lines) or f"exit code {child.returncode}"


def explain_failure(lines: str) -> Stop:
    """Return the one sentence for what pip said when it failed."""
    log = os.path.relpath(LOG, ROOT)
    if "No space left on device" in lines:
        return Stop(f"The disk is full; make room and run the same command again (see {log}).")
    if "DO NOT MATCH THE HASHES" in lines:
        return Stop(f"A package differs from what requirements.lock promises (see {log}).", 2)
    if NO_INDEX.search(lines):
        return Stop(
            "The package index cannot be reached; check the network (or pip's index and proxy "
            f"settings) and run the same command again, it goes on where it stopped (see {log})."
        )
    absent = re.search(r"requirement (\S+).*\(from versions: none\)", lines)
    if absent:
        return Stop(
            f"{absent[1]} was not found: the package index cannot be reached or has nothing for "
            f"this machine; check the network and run the same command again (see {log})."
        )
    errors = [line[7:] for line in lines.splitlines() if line.startswith("ERROR: ")]
    reason = errors[-1].rstrip(".") if errors else lines.strip().splitlines()[-1]
    return Stop(f"Installing failed: {reason}; the whole story is in {log}.")


# ---------------------------------------------------------------- making .venv


def outer_pip(progress: Progress, lock: int) -> list[str]:
    """Return a pip outside of .venv that can install into it, or stop with what to install."""
    candidates = [[sys.executable, "-m", "pip"]]
    candidates += [[path] for path in map(shutil.which, ("pip3", "pip")) if path]
    for pip in candidates:
        command = [*pip, "--python", str(VENV_PYTHON)]
        if not run([*command, "--version"], lock, progress):
            return command
    raise Stop(
        "Python can make a virtual environment here but has neither ensurepip nor a pip of version "
        "22.3 or newer; install python3-venv or python3-pip (Debian, Ubuntu: "
        "`apt install python3-venv`) and run the same command again."
    )


def find_pip(progress: Progress, lock: int) -> list[str]:
    if any(VENV.glob("lib*/python*/site-packages/pip/__main__.py")):
        return [str(VENV_PYTHON), "-m", "pip"]
    return outer_pip(progress, lock)


def make_venv(stamp: dict[str, str], progress: Progress, lock: int) -> None:
    if importlib.util.find_spec("venv") is None:
        raise Stop(
            f"{sys.executable} has no module venv; install python3-venv (Debian, Ubuntu: "
            "`apt install python3-venv`) and run the same command again."
        )
    if VENV.is_symlink():
        raise Stop(f"{VENV} is a link; remove it and run the same command again.", 2)
    if VENV.exists():
        shutil.rmtree(VENV)
    print(f"  making .venv with Python {sys.version.split()[0]}", flush=True)
    command = [sys.executable, "-m", "venv", str(VENV)]
    failed = "no ensurepip"
    if importlib.util.find_spec("ensurepip") is not None:
        failed = run(command, lock, progress)
    if failed:
        # Debian without python3-venv: the environment itself works, only its pip is missing.
        shutil.rmtree(VENV, ignore_errors=True)
        failed = run([*command, "--without-pip"], lock, progress)
        if failed:
            raise Stop(
                f"{sys.executable} cannot make a virtual environment; install python3-venv and "
                f"run the same command again (see {os.path.relpath(LOG, ROOT)})."
            )
    write_stamp({"made_for": stamp["made_for"]})


def drop_half_installed() -> None:
    """Forget packages that an interrupted pip left.

    Last of all, behind the scripts, pip writes RECORD with its own INSTALLER in it. Before that,
    the package may have the RECORD of its archive.
    """
    for found in VENV.glob("lib*/python*/site-packages/*.dist-info"):
        try:
            is_whole = f"{found.name}/INSTALLER," in (found / "RECORD").read_text(encoding="utf-8")
        except FileNotFoundError:
            is_whole = False
        if not is_whole:
            shutil.rmtree(found)


def drop_archives() -> None:
    """Remove the archives of pyspark and py4j, so that Spark's Python processes read the packages.

    Spark puts the archives first on the path, but skips archives that do not exist, and the same
    modules are installed in .venv. Python does not cache the bytecode of modules in an archive, so
    each process would compile pyspark again, which takes more CPU than all its other imports.
    """
    for name in ("pyspark.zip", "py4j-*-src.zip"):
        for found in VENV.glob(f"lib*/python*/site-packages/pyspark/python/lib/{name}"):
            found.unlink(missing_ok=True)  # lib64 may be another name of lib


def lock_entries() -> dict[str, str]:
    """Return the lock, one entry per package version: first line -> whole text with its hashes."""
    entries = {}
    first = ""
    for line in LOCK.read_text(encoding="utf-8").splitlines(keepends=True):
        if line[0].isalnum():
            first = line
            entries[first] = ""
        if first:
            entries[first] += line
    return entries


def install(pip: list[str], arguments: list[str], progress: Progress, lock: int) -> None:
    command = [*pip, "install", "--no-deps", "--no-build-isolation", *arguments]
    lines = run(command, lock, progress)
    if lines:
        raise explain_failure(lines)


def install_lock(pip: list[str], lock: int) -> None:
    entries = lock_entries()
    names = {re.split("[=;@ ]", first)[0].lower() for first in entries}
    print(f"  installing {len(names)} packages, about 1.2 GB (a minute or two)", flush=True)
    drop_half_installed()
    tools = [text for first, text in entries.items() if first.split("==")[0] in BUILD_TOOLS]
    build_lock = VENV / "build-tools.lock"
    build_lock.write_text("".join(tools), encoding="utf-8")
    for path in [build_lock] * bool(tools) + [LOCK]:
        install(pip, ["--require-hashes", "-r", str(path)], Progress(len(names)), lock)


def set_up() -> None:
    started_s = time.monotonic()
    expected = expected_stamp()
    if read_stamp() == expected:
        print("Set up already: .venv is what requirements.lock says.")
        return
    require_room()
    with folder_lock() as lock:
        stamp = read_stamp()  # another run may have finished while this one waited
        if stamp != expected:
            progress = Progress(0)
            print(f"Setting up Medusa in {VENV}", flush=True)
            LOG.unlink(missing_ok=True)
            if stamp.get("made_for") != expected["made_for"]:
                make_venv(expected, progress, lock)
                stamp = {}
            pip = find_pip(progress, lock)
            if stamp.get("lock") != expected["lock"]:
                install_lock(pip, lock)
            drop_archives()
            print("  installing Medusa itself", flush=True)
            install(pip, ["--no-index", "--editable", str(ROOT)], progress, lock)
            write_stamp(expected)
    print(f"Set up in {time.monotonic() - started_s:.0f} s.")


@contextlib.contextmanager
def folder_lock() -> Iterator[int]:
    """Hold the only set-up of this folder; the lock is on the folder itself and leaves no file."""
    handle = os.open(ROOT, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another set-up is running in this folder; waiting for it.", flush=True)
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: two runs at once are the user's to avoid
            pass
        yield handle
    finally:
        os.close(handle)


# ---------------------------------------------------------------- clean


def stop_servers(folder: Path) -> None:
    """Stop embedded database servers that still run in a folder (their owner was killed)."""
    for pid_file in folder.glob("**/postmaster.pid"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pid = int(pid_file.read_text().splitlines()[0])
            seen = subprocess.run(
                ["ps", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
            ).stdout
            # A number in a stale file may belong to any program by now.
            if "postgres" in seen and str(pid_file.parent.resolve()) in seen:
                os.kill(pid, signal.SIGINT)
                give_up_s = time.monotonic() + 20
                while pid_file.exists() and time.monotonic() < give_up_s:
                    time.sleep(0.05)


def end_platform(data: Path) -> None:
    """End what `make up` has started, with the command that knows what that is."""
    medusa = VENV / "bin" / "medusa"
    if not ((data / "airflow").is_dir() and medusa.exists()):
        return
    env = {**environment(), "MEDUSA_DIR": str(data), "MEDUSA_CATALOG_URL": ""}
    done = subprocess.run(
        [str(medusa), "down"], env=env, check=False, capture_output=True, text=True
    )
    if done.returncode != 0:
        words = (done.stderr.strip() or f"exit code {done.returncode}").splitlines()[-1]
        raise Stop(f"`medusa down` does not end what runs in {data} ({words}); end it, then again.")


def clean() -> None:
    """Remove everything that the make targets made in this folder."""
    removed = []
    data = ROOT / ".medusa"
    end_platform(data)
    stop_servers(data)
    # As root, a server's files may lie outside, where its user can reach them: see server.py.
    for link in data.glob("**/cluster"):
        outside = link.resolve().parent
        if link.is_symlink() and outside.name.startswith("medusa-server-"):
            stop_servers(outside)
            shutil.rmtree(outside, ignore_errors=True)
    caches = [".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis", "build", "dist"]
    caches += ["spark-warehouse", "metastore_db", "derby.log"]
    found = [VENV, data, *(ROOT / name for name in caches), *ROOT.glob("*.egg-info")]
    tops = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    found += [path for top in tops for path in top.rglob("__pycache__")]
    found += [path for top in tops for path in top.rglob(".ruff_cache")]
    found += [ROOT / "__pycache__"]
    for path in found:
        if path.is_symlink() or path.is_file():
            path.unlink()
        elif path.exists():
            shutil.rmtree(path)
        else:
            continue
        if path.parent == ROOT and path.name != "__pycache__":
            removed.append(path.name)
    print(f"Removed {', '.join(removed)}." if removed else "Nothing to remove.")


# ---------------------------------------------------------------- the command


def leave_own_venv() -> None:
    """Never run on the Python of the .venv that may have to be replaced: use the one behind it."""
    base = getattr(sys, "_base_executable", sys.executable)
    if Path(sys.prefix).resolve() == VENV.resolve() and base != sys.executable:
        os.execv(base, [base, str(ROOT / "bootstrap.py"), *sys.argv[1:]])


def main(arguments: list[str]) -> int:
    actions = {"setup": set_up, "clean": clean}
    action = actions.get(arguments[0] if arguments else "setup")
    if action is None or len(arguments) > 1:
        print("Usage: python3 bootstrap.py [setup|clean]", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        leave_own_venv()
        action()
    except Stop as stop:
        print(stop, file=sys.stderr)
        return stop.exit_code
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"{where}{error.strerror or error}; put that right and run again.", file=sys.stderr)
        return 4
    except KeyboardInterrupt:
        print("\nInterrupted; the same command goes on where this one stopped.", file=sys.stderr)
        return 130
    except Exception:
        LOG.parent.mkdir(parents=True, exist_ok=True)
        with LOG.open("a", encoding="utf-8") as log:
            traceback.print_exc(file=log)
        print(f"A bug in bootstrap.py; please report it with {LOG}.", file=sys.stderr)
        return 70
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
