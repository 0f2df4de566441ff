"""Worker processes, and the scratch folder that they share. A worker has one run at a time and one thread.

A worker is `python -c` with tasks on its standard input and answers on its standard output, both pickled. It ends as soon as its standard
input does, in the middle of a run too: when the parent is killed, no worker lives on. One that is killed is replaced, and takes no other
run with it. It imports the modules that have registered solvers of their own. The scratch folder is removed by a small process beside it,
should this one be killed.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from dualgap.solvers import REGISTRY

__all__ = ["Killed", "Scratch", "run_in_workers", "serve"]


# One thread a worker: with BLAS on every core, the runs would slow each other down and their times would mean nothing.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS"),
    "1",
)
ATTEMPTS = 2  # how often a task is given to a worker that then dies


class Killed:
    """The answer to a task whose workers died, in place of what the task would have returned."""

    def __init__(self, code: int | None) -> None:
        self.code = code

    def __str__(self) -> str:
        how = f"by signal {-self.code}" if self.code is not None and self.code < 0 else f"with exit code {self.code}"
        return f"its worker process ended {how}, {ATTEMPTS} times; is there enough memory? --jobs 1 runs one at a time"


def serve() -> None:
    """Answer the tasks that come on standard input, until it ends. What tasks print goes to standard error."""
    tasks: queue.Queue[Any] = queue.Queue()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb")

    def listen() -> None:
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            while True:
                tasks.put(pickle.load(source))
        os._exit(0)  # the parent has closed the pipe, or is no more

    threading.Thread(target=listen, daemon=True).start()
    while True:
        function, arguments = tasks.get()
        try:
            answer = (True, function(*arguments))
        except BaseException as error:
            answer = (False, f"{type(error).__name__}: {error}")
        pickle.dump(answer, answers)
        answers.flush()


class Worker:
    """One process, started when it is first needed and again after it died."""

    def __init__(self) -> None:
        self.process: Any = None
        self.closed = False

    def ask(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """Return the task's answer, or Killed."""
        code = None
        for _ in range(ATTEMPTS):
            if self.closed:
                break
            if self.process is None or self.process.poll() is not None:
                self._close_pipes()
                self._start()
            try:
                pickle.dump((function, arguments), self.process.stdin)
                self.process.stdin.flush()
                fine, answer = pickle.load(self.process.stdout)
            except (EOFError, BrokenPipeError, pickle.UnpicklingError):
                code = self.process.wait()
                continue
            if not fine:
                raise RuntimeError(answer)
            return answer
        return Killed(code)

    def _start(self) -> None:
        own = sorted({cls.__module__ for cls in REGISTRY.values() if cls.__module__.split(".")[0] not in ("dualgap", "__main__")})
        start = (
            f"import importlib; [importlib.import_module(name) for name in {own!r}]; from dualgap.lab.workers import serve; serve()"
        )
        path = os.pathsep.join(filter(None, [os.environ.get("PYTHONPATH", ""), *sys.path]))
        environment = {**os.environ, **ONE_THREAD, "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-c", start], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True
        )

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.closed = True
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self._close_pipes()

    def _close_pipes(self) -> None:
        for pipe in () if self.process is None else (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()


def run_in_workers(tasks: Iterable[tuple[Any, Callable[..., Any], tuple[Any, ...]]], jobs: int) -> Iterator[tuple[Any, Any]]:
    """Yield (name, answer) of each task (name, function, arguments) as it ends; tasks are taken from the iterable as workers get free.

    An answer is what the function returned, or Killed. However the iteration ends, no worker is left.
    """
    waiting: queue.Queue[Any] = queue.Queue()
    done: queue.Queue[tuple[Any, Any]] = queue.Queue()
    workers = [Worker() for _ in range(jobs)]

    def work(worker: Worker) -> None:
        while (task := waiting.get()) is not None:
            name, function, arguments = task
            try:
                done.put((name, worker.ask(function, arguments)))
            except BaseException as error:
                done.put((name, error))

    threads = [threading.Thread(target=work, args=(worker,), daemon=True) for worker in workers]
    for thread in threads:
        thread.start()
    try:
        source, running = iter(tasks), 0
        while True:
            while running < jobs and (task := next(source, None)) is not None:
                waiting.put(task)
                running += 1
            if not running:
                return
            name, answer = done.get()
            running -= 1
            if isinstance(answer, BaseException):
                raise answer
            yield name, answer
    finally:
        for _ in threads:
            waiting.put(None)
        for worker in workers:
            worker.close()
        for thread in threads:
            thread.join(5)


# Its standard input ends when the process at the other end does, whatever ended that. Workers may still be writing for a moment.
KEEPER = """
import shutil, sys, time
sys.stdin.buffer.read()
for _ in range(50):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    try:
        import os
        os.stat(sys.argv[1])
    except FileNotFoundError:
        break
    time.sleep(0.1)
"""


class Scratch:
    """A temporary folder, as a context manager: it is gone afterwards, also after SIGKILL."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="dualgap-"))
        # A session of its own: Ctrl-C in the terminal does not reach it.
        self.keeper: Any = subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", KEEPER, str(self.folder)], stdin=subprocess.PIPE, start_new_session=True
        )

    def __enter__(self) -> Path:
        return self.folder

    def __exit__(self, *_: Any) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.keeper.stdin.close()
        self.keeper.wait()
