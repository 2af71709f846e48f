"""A kernel whose threads meet, for hardware where a barrier waits for *every* thread of the block.

The kernel is a tree of steps (`sterna.compiler.passes.split_regions`).  Each hardware thread walks all of it: it runs
a region only while it is *active*, and comes to every meeting whether it is or not, so a thread that has returned or
failed keeps nobody waiting.  What a thread does is in its masks, one byte each on its stack: `alive`, and one for each
divergent construct around the step.

Votes and warp operations go through shared memory: threads leave their operands there, meet, and compute
(`sterna.compiler.codegen.llvm.warps`), so a warp is 32 neighbouring threads whatever the hardware's own is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.llvm.blocks import block_assign, block_for, block_if
from sterna.compiler.codegen.llvm.intrinsics import linear_thread
from sterna.compiler.codegen.llvm.layout import Value
from sterna.compiler.codegen.llvm.statements import emit_body
from sterna.compiler.codegen.llvm.warps import warp_operation
from sterna.compiler.codegen.simt.entry import EntryEmitter, is_inside, read_state
from sterna.compiler.ir import nodes as ir
from sterna.compiler.passes import split_regions as S
from sterna.compiler.passes.placement import all_steps

if TYPE_CHECKING:
    from sterna.compiler.codegen.simt.entry import SimtContext
    from sterna.compiler.passes.placement import Program

__all__ = ["emit_stepped"]

_MAX_THREADS = 1024
_BYTES = {"i8": 1, "i16": 2, "i32": 4, "i64": 8, "float": 4, "double": 8}


class StepEmitter(EntryEmitter):
    """Emits an entry function as steps.

    Attributes
    ----------
    position : str
        Linear number of the thread in its block.
    masks : list of (str, str)
        Divergent constructs around the current step (``if``, ``loop``, ``turn``) and the slots of their masks,
        innermost last, behind ``("alive", slot)``.
    """

    def __init__(self, context: SimtContext) -> None:
        super().__init__(context)
        self.position = self.threads_total = "0"
        self.masks: list[tuple[str, str]] = []
        self.block_loops: list[tuple[str, str]] = []
        self.block_done = ""
        self.can_leave = True
        self.uniform: frozenset[str] = frozenset()
        self._published: dict[str, list[tuple[str, str, str]]] = {}
        self._phase = ""

    # ---- masks -------------------------------------------------------------------------------

    def new_mask(self, start: str) -> str:
        """A slot that holds the i1 `start`."""
        slot = self.b.slot("i8")
        self.set_mask(slot, start)
        return slot

    def set_mask(self, slot: str, test: str) -> None:
        """Write a mask's slot."""
        self.b.emit(f"store i8 {self.b.op(f'zext i1 {test} to i8')}, ptr {slot}")

    def test_mask(self, slot: str) -> str:
        """Whether the thread is in a mask, as i1."""
        return self.b.icmp("ne", 8, self.b.op(f"load i8, ptr {slot}"), "0")

    @property
    def is_masked(self) -> bool:
        """Whether some threads may not be active at this step."""
        return self.can_leave or len(self.masks) > 1

    def active(self) -> str:
        """Whether the thread takes part in the current step, as i1."""
        return self.test_mask(self.masks[-1][1]) if self.is_masked else "true"

    def drop(self, kind: str) -> None:
        """The thread leaves (``return``), breaks or continues: take it out of the masks concerned."""
        for inner, slot in reversed(self.masks):
            self.b.emit(f"store i8 0, ptr {slot}")
            if (kind, inner) in (("break", "loop"), ("continue", "turn")):
                return

    def when_active(self, body: Callable[[], None]) -> None:
        """Run `body` in the threads that take part."""
        if not self.is_masked:
            body()
            return
        go, done = self.b.label("active"), self.b.label("passive")
        self.b.branch(self.active(), go, done)
        self.b.place(go)
        body()
        self.b.place(done)

    # ---- meeting -----------------------------------------------------------------------------

    def meet(self) -> None:
        """All threads of the block come here."""
        self.profile.barrier(self)

    def open_votes(self) -> None:
        """Counters for `count_threads`: three in turn, so that one meeting a vote is enough."""
        counters = self._shared("sterna_votes", "i32", 3)
        self._phase = self.b.slot("i64")
        self.b.emit(f"store i64 0, ptr {self._phase}")
        first, done = self.b.label("first"), self.b.label("counted")
        self.b.branch(self.b.icmp("eq", 64, self.position, "0"), first, done)
        self.b.place(first)
        for number in range(3):
            self.b.emit(f"store i32 0, ptr {self._at(counters, 'i32', str(number))}")
        self.b.place(done)
        self.meet()

    def count_threads(self, test: str) -> str:
        """Number of threads of the block for which the i1 `test` holds, as i32; all meet.

        The counter is the next but one vote's predecessor: nobody reads it any more once all have met.
        """
        b, space = self.b, self.profile.shared_space
        counters = self._shared("sterna_votes", "i32", 3)
        phase = b.op(f"load i64, ptr {self._phase}")
        add, met = b.label("vote"), b.label("voted")
        own = b.op(f"getelementptr inbounds i32, ptr {space}{counters}, i64 {phase}")
        b.branch(test, add, met)
        b.place(add)
        b.op(f"atomicrmw add ptr {space}{own}, i32 1 {self.profile.atomic_scope}monotonic")
        b.place(met)
        self.meet()
        total = b.op(f"load volatile i32, ptr {space}{own}")
        last = b.op(f"urem i64 {b.op(f'add i64 {phase}, 2')}, 3")
        clear, done = b.label("reset"), b.label("counted")
        b.branch(b.icmp("eq", 64, self.position, "0"), clear, done)
        b.place(clear)
        b.emit(f"store i32 0, ptr {self._at(counters, 'i32', last)}")
        b.place(done)
        following = b.op(f"urem i64 {b.op(f'add i64 {phase}, 1')}, 3")
        b.emit(f"store i64 {following}, ptr {self._phase}")
        return total

    def any_thread(self, test: str) -> str:
        """Whether the i1 `test` holds for any thread of the block, as i1; all meet."""
        return self.b.icmp("ne", 32, self.count_threads(test), "0")

    # ---- shared memory -----------------------------------------------------------------------

    def _shared(self, name: str, kind: str, count: int) -> str:
        space = self.profile.shared_space
        if self.context.helper(name, f"@{name} = internal {space}global [{count} x {kind}] undef, align 16"):
            self.context.shared_bytes += -(-count * _BYTES[kind] // 16) * 16
        return f"@{name}"

    def _at(self, array: str, kind: str, index: str) -> str:
        """Address of an element, generic."""
        space = self.profile.shared_space
        place = self.b.op(f"getelementptr inbounds {kind}, ptr {space}{array}, i64 {index}")
        return self.b.op(f"addrspacecast ptr {space}{place} to ptr")

    def publish(self, name: str) -> None:
        """Leave this thread's value of a local where others read it."""
        arrays = []
        for number, (slot, part) in enumerate(zip(self.locals[name], self.read(name), strict=True)):
            memory = "i8" if slot.type == "i1" else slot.type
            array = self._shared(f"sterna_lanes_{number}_{memory}", memory, _MAX_THREADS)
            value = part if memory == slot.type else self.b.op(f"zext {slot.type} {part} to {memory}")
            self.b.emit(f"store {memory} {value}, ptr {self._at(array, memory, self.position)}")
            arrays.append((array, memory, slot.type))
        self._published = {name: arrays}

    def read_kept(self, name: str, position: str) -> Value:
        """Value that the thread number `position` has in a local: this one, or one that published it."""
        if position == self.position or name not in self._published:
            return self.read(name)
        parts = []
        for array, memory, kind in self._published[name]:
            part = self.b.op(f"load {memory}, ptr {self._at(array, memory, position)}")
            parts.append(part if memory == kind else self.b.op(f"trunc {memory} {part} to {kind}"))
        return tuple(parts)

    def note_taking_part(self, test: str) -> str:
        """An array that says of every thread whether it takes part in a warp operation."""
        array = self._shared("sterna_taking", "i8", _MAX_THREADS)
        byte = self.b.op(f"zext i1 {test} to i8")
        self.b.emit(f"store i8 {byte}, ptr {self._at(array, 'i8', self.position)}")
        return array

    def mask_at(self, array: str, position: str) -> str:
        """Whether the thread number `position` exists and takes part."""
        exists = self.b.icmp("ult", 64, position, self.threads_total)
        byte = self.b.op(f"load i8, ptr {self._at(array, 'i8', position)}")
        return self.b.both(exists, self.b.icmp("ne", 8, byte, "0"))


def emit_stepped(context: SimtContext, program: Program) -> str:
    """Text of the entry function of a kernel whose threads meet."""
    kernel = context.module.functions[context.module.entry]
    e = StepEmitter(context)
    e.types = kernel.locals
    debug = e.open_scope(kernel)
    values = e.arguments()
    read_state(e)
    e.position = linear_thread(e)
    nx, ny, nz = (e.frame.dim(e, "block_dim", axis) for axis in range(3))
    e.threads_total = e.b.op(f"mul nuw nsw i64 {e.b.op(f'mul nuw nsw i64 {nx}, {ny}')}, {nz}")
    inside = "true"
    for axis in range(context.options.over):
        inside = e.b.both(inside, is_inside(e, axis))
    e.uniform = program.placement.uniform
    e.can_leave = program.placement.can_leave or inside != "true"
    e.masks = [("alive", e.new_mask(inside))]
    e.declare_locals(program.types, values)
    if any(_votes(e, step) for step in all_steps(program.steps)):
        e.open_votes()
    e.block_done = e.b.label("block.end")
    _steps(e, program.steps)
    e.b.place(e.block_done)
    e.b.end("ret void")
    return e.text(debug)


def _votes(e: StepEmitter, step: S.Step) -> bool:
    """Whether threads are counted at a step."""
    if isinstance(step, S.Collective):
        return step.operation.name.startswith("syncthreads_")
    return isinstance(step, S.MaskedIf | S.MaskedLoop) or (isinstance(step, S.BlockWhile) and e.can_leave)


def _steps(e: StepEmitter, steps: Sequence[S.Step]) -> None:
    for step in steps:
        if not e.b.open:
            return
        _EMIT[type(step)](e, step)


# ---- regions -------------------------------------------------------------------------------------


def _region(e: StepEmitter, step: S.Region) -> None:
    """Statements of an active thread; one that leaves them goes on with the others, as a passive one."""
    b = e.b
    run, gone, broken, continued, done = (b.label(h) for h in ("run", "gone", "broken", "continued", "ran"))
    if e.is_masked:
        b.branch(e.active(), run, done)
        b.place(run)
    outer_leave, outer_loops, outer_failure = e.leave, e.loops, e.failure
    e.leave, e.loops, e.failure = gone, [(broken, continued)], None
    e.failure_label = b.label("raise")
    emit_body(e, step.body)
    b.jump(done)
    e.place_failure()
    for label, kind in ((gone, "return"), (broken, "break"), (continued, "continue")):
        b.place(label)
        if kind == "return" or _has_mask(e, kind):
            e.drop(kind)
        b.jump(done)
    e.leave, e.loops, e.failure = outer_leave, outer_loops, outer_failure
    b.place(done)


def _has_mask(e: StepEmitter, kind: str) -> bool:
    wanted = "loop" if kind == "break" else "turn"
    return any(inner == wanted for inner, _ in e.masks)


# ---- block level ---------------------------------------------------------------------------------


def _block_if(e: StepEmitter, step: S.BlockIf) -> None:
    block_if(e, step, lambda steps: _steps(e, steps))


def _block_for(e: StepEmitter, step: S.BlockFor) -> None:
    block_for(e, step, lambda steps: _steps(e, steps))


def _block_while(e: StepEmitter, step: S.BlockWhile) -> None:
    b = e.b
    test, turn, done = b.label("block.while"), b.label("block.do"), b.label("block.done")
    b.place(test)
    go = e.one(step.test)
    if e.can_leave:  # a loop nobody is left in would never see its test change
        go = b.both(go, e.any_thread(e.test_mask(e.masks[0][1])))
    b.branch(go, turn, done)
    b.place(turn)
    e.block_loops.append((done, test))
    _steps(e, step.body)
    e.block_loops.pop()
    b.jump(test)
    b.place(done)


def _jump(e: StepEmitter, step: S.Jump) -> None:
    if len(e.masks) > 1:
        e.when_active(lambda: e.drop(step.kind))
    elif step.kind == "return":
        e.b.jump(e.block_done)
    else:
        e.b.jump(e.block_loops[-1][0 if step.kind == "break" else 1])


# ---- divergence ----------------------------------------------------------------------------------


def _masked_if(e: StepEmitter, step: S.MaskedIf) -> None:
    """Both arms, each for the threads that take it; one that none takes is skipped by all."""
    for arm, wanted in ((step.then, True), (step.orelse, False)):
        if not arm:
            continue
        (test,) = e.read(step.test)
        if not wanted:
            test = e.b.op(f"xor i1 {test}, true")
        mask = e.new_mask(e.b.both(e.active(), test))
        some, none = e.b.label("some"), e.b.label("none")
        e.b.branch(e.any_thread(e.test_mask(mask)), some, none)
        e.b.place(some)
        e.masks.append(("if", mask))
        _steps(e, arm)
        e.masks.pop()
        e.b.place(none)


def _masked_loop(e: StepEmitter, step: S.MaskedLoop) -> None:
    b = e.b
    staying, turning = e.new_mask(e.active()), b.slot("i8")
    test, turn, done = b.label("masked.loop"), b.label("masked.do"), b.label("masked.done")
    e.masks.append(("loop", staying))
    b.place(test)
    _steps(e, step.head)
    going = b.both(e.test_mask(staying), e.read(step.test)[0])
    e.set_mask(staying, going)
    e.set_mask(turning, going)
    b.branch(e.any_thread(e.test_mask(staying)), turn, done)
    b.place(turn)
    e.masks.append(("turn", turning))
    _steps(e, step.body)
    e.masks.pop()
    b.jump(test)
    b.place(done)
    e.masks.pop()


# ---- collectives ---------------------------------------------------------------------------------


def _collective(e: StepEmitter, step: S.Collective) -> None:
    _COLLECTIVES.get(step.operation.name, _warp)(e, step)


def _barrier(e: StepEmitter, step: S.Collective) -> None:
    e.meet()


def _vote(e: StepEmitter, step: S.Collective) -> None:
    """``syncthreads_count``, ``_and``, ``_or``: count the threads that say yes (or no, for ``and``)."""
    kind = step.operation.name.rpartition("_")[2]
    (vote,) = e.value(step.operation.args[0])
    if kind == "and":
        vote = e.b.op(f"xor i1 {vote}, true")
    count = e.b.op(f"zext i32 {e.count_threads(e.b.both(e.active(), vote))} to i64")
    if kind != "count":
        count = e.b.op(f"zext i1 {e.b.icmp('eq' if kind == 'and' else 'ne', 64, count, '0')} to i64")
    target = step.target
    if target is not None and target in e.uniform:  # it must be right in passive threads too
        e.write(target, (count,))
    elif target is not None:
        e.when_active(lambda: e.write(target, (count,)))


def _warp(e: StepEmitter, step: S.Collective) -> None:
    operation, target = step.operation, step.target
    everyone = operation.name == "activemask"
    taking = e.note_taking_part(e.test_mask(e.masks[0][1]) if everyone else e.active())
    if len(operation.args) > 1 and isinstance(operation.args[1], ir.Local):
        e.publish(operation.args[1].name)
    e.meet()
    if target is not None:
        e.when_active(lambda: e.write(target, warp_operation(e, operation, taking)))
    e.meet()


_EMIT: dict[type, Callable[[StepEmitter, Any], None]] = {
    S.Region: _region, S.Collective: _collective, S.BlockAssign: block_assign, S.BlockIf: _block_if,
    S.BlockFor: _block_for, S.BlockWhile: _block_while, S.MaskedIf: _masked_if, S.MaskedLoop: _masked_loop,
    S.Jump: _jump,
}  # fmt: skip


_COLLECTIVES = {
    **dict.fromkeys(("syncthreads", "syncwarp"), _barrier),
    **dict.fromkeys(("syncthreads_count", "syncthreads_and", "syncthreads_or"), _vote),
}
"""Collective → how its threads meet; the others are the warp's."""
