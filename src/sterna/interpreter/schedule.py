"""Threads of one block, one at a time: plain calls until a thread must wait, then real Python threads.

A *device thread* runs in the launching Python thread as long as none waits.  The first that reaches a
collective operation keeps its Python thread, and another one goes on with the device threads not yet
started.  Exactly one Python thread holds the baton, handed over in the order of device threads, so a run is
deterministic.  When none can go on, waiting threads are matched (`sterna.interpreter.collective`); if nothing
matches, that is a deadlock, reported with the lines at which threads wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Abandoned", "BlockScheduler", "Request", "Resolve", "Task"]


class Abandoned(BaseException):
    """Unwinds a waiting device thread after another one failed; never seen by users."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a device thread waits for.

    Attributes
    ----------
    operation : str
        Table name of the collective operation.
    place : tuple
        Identity of the call in the user's code: code object and instruction.
    shown : str
        ``file:line`` for people.
    mask : int
        Lanes that take part (warp operations).
    value : object
        This thread's contribution.
    """

    operation: str
    place: tuple[Any, ...]
    shown: str
    mask: int = 0
    value: Any = None
    extra: Any = None


@dataclass(slots=True, eq=False)
class Task:
    """One device thread: its body, and where it stands."""

    index: int
    body: Callable[[BlockScheduler, Task], None]
    state: str = "new"
    request: Request | None = None
    result: Any = None
    baton: threading.Event = field(default_factory=threading.Event)


Resolve = Callable[[Sequence[Task]], dict[Task, Any]]
"""Waiting tasks → results of those that may go on; raises when none may."""


class BlockScheduler:
    """Runs the device threads of one block.

    Parameters
    ----------
    bodies : sequence of callable
        One per device thread, in order; each is given this scheduler and its `Task`.
    resolve : callable
        Decides which waiting threads go on, and with what results.
    """

    def __init__(self, bodies: Sequence[Callable[[BlockScheduler, Task], None]], resolve: Resolve) -> None:
        self.tasks = [Task(index, body) for index, body in enumerate(bodies)]
        self._resolve, self._next_new = resolve, 0
        self._ready: list[Task] = []
        self._finished = threading.Event()
        self._failure: BaseException | None = None
        self._workers: list[threading.Thread] = []

    def run(self) -> None:
        """Run all device threads to their end.

        Raises
        ------
        BaseException
            What the first failing device thread raised; the others are abandoned.
        """
        self._run_new_tasks()
        try:
            self._finished.wait()
        except BaseException as error:  # Ctrl-C in the launching thread
            self._fail(error)
        for worker in self._workers:
            worker.join()
        if self._failure is not None:
            raise self._failure

    def wait(self, task: Task, request: Request) -> Any:
        """Called in a device thread: wait until `request` is matched and give its result."""
        task.request, task.state = request, "waiting"
        task.baton.clear()
        self._pass_baton()
        task.baton.wait()
        if self._failure is not None:
            raise Abandoned
        task.state = "running"
        return task.result

    def _run_new_tasks(self) -> None:
        """Run device threads not yet started, in this Python thread, until one waits or all have begun."""
        while self._failure is None and self._next_new < len(self.tasks) and not self._ready:
            task = self.tasks[self._next_new]
            self._next_new += 1
            task.state = "running"
            try:
                task.body(self, task)
            except Abandoned:
                return
            except BaseException as error:
                self._fail(error)
                return
            finally:
                task.state = "done"
        if self._failure is None:
            self._pass_baton()

    def _pass_baton(self) -> None:
        """Let the next device thread go on: a matched one, else a new one, else match those that wait."""
        if not self._ready and self._next_new == len(self.tasks):
            self._match()
        if self._failure is not None:
            return
        if self._ready:
            self._ready.pop(0).baton.set()
        elif self._next_new < len(self.tasks):
            worker = threading.Thread(target=self._run_new_tasks, name="sterna-interpret", daemon=True)
            self._workers.append(worker)
            worker.start()
        else:
            self._finished.set()

    def _match(self) -> None:
        waiting = [task for task in self.tasks if task.state == "waiting"]
        if not waiting:
            return
        try:
            results = self._resolve(waiting)
        except Exception as error:
            self._fail(error)
            return
        for task, result in results.items():
            task.result, task.request, task.state = result, None, "ready"
        self._ready = sorted(results, key=_index)

    def _fail(self, error: BaseException) -> None:
        """Remember the first failure, unwind everything that waits."""
        if self._failure is None:
            self._failure = error
        self._ready.clear()
        self._next_new = len(self.tasks)
        for task in self.tasks:
            task.baton.set()
        self._finished.set()


def _index(task: Task) -> int:
    return task.index
