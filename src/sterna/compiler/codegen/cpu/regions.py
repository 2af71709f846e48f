"""Runs a kernel's steps for one block (`sterna.compiler.passes.split_regions` says what they mean)."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TYPE_CHECKING, Any

from sterna.compiler.codegen.cpu.clip import Triple, clip_threads
from sterna.compiler.codegen.cpu.collectives import emit_collective
from sterna.compiler.codegen.cpu.kernel import MAX_THREADS
from sterna.compiler.codegen.cpu.strips import emit_strips, find_strips
from sterna.compiler.codegen.llvm.blocks import block_assign, block_for, block_if
from sterna.compiler.codegen.llvm.guards import make_guard
from sterna.compiler.codegen.llvm.ranges import RangeAnalysis
from sterna.compiler.codegen.llvm.statements import emit_body
from sterna.compiler.ir import nodes as ir
from sterna.compiler.ir.rewrite import walk
from sterna.compiler.passes import split_regions as S
from sterna.compiler.passes.placement import all_steps, exposed, regions_of

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.kernel import KernelEmitter
    from sterna.compiler.passes.placement import Program

__all__ = ["emit_block", "prepare_block"]

_LONG = 400
"""Nodes from which a piece is not copied without need."""


def prepare_block(e: KernelEmitter, program: Program, dims: dict[str, tuple[str, str, str]]) -> None:
    """What is set up once for all blocks that a hardware thread runs: stack slots, arrays, masks."""
    kernel = e.context.module.functions[e.context.module.entry]
    e.divided = program.divided
    x, y, z = dims["block_dim"]
    e.threads_total = e.b.op(f"mul nuw nsw i64 {e.b.op(f'mul nuw nsw i64 {x}, {y}')}, {z}")
    changed: set[str] = set(program.placement.uniform)
    for region in regions_of(program.steps):
        changed |= {n.target for n in walk(region.body) if isinstance(n, ir.Assign | ir.ForRange)}
    changed |= set(program.placement.kept)
    e.copied = {name: e.fixed.pop(name) for name, _ in kernel.params if name in changed}
    for name, t in program.types.items():
        if name in changed:
            e.declare(name, t)
    e.place_arrays(walk(kernel.body))
    for name in program.placement.kept:
        e.keep(name, program.types[name])
    if program.divided and program.placement.can_leave:
        e.masks.alive = e.per_thread("i8", 1)
        e.masks.left = e.b.slot("i64")


def emit_block(e: KernelEmitter, program: Program) -> None:
    """Run all steps for the current block."""
    e.block_done = e.b.label("block.end")
    if not program.divided:
        for step in program.steps:
            assert isinstance(step, S.Region)
            _region(e, step, program)
        e.b.place(e.block_done)
        return
    if e.masks.alive is not None:
        e.b.emit(f"call void @llvm.memset.p0.i64(ptr {e.masks.alive}, i8 1, i64 {e.threads_total}, i1 false)")
        e.b.emit(f"store i64 0, ptr {e.masks.left}")
    for name in program.types:
        if name in program.placement.uniform:
            e.clear(name)
    for name, value in e.copied.items():
        if name in program.placement.uniform:
            e.write(name, value)
    kept = [name for name in e.copied if name in e.kept]

    def hand_on() -> None:
        for name in kept:
            e.write_kept(name, e.position, e.copied[name])

    if kept:
        e.thread_loop(hand_on)
    _steps(e, program.steps, program)
    e.b.place(e.block_done)


def _steps(e: KernelEmitter, steps: Sequence[S.Step], program: Program) -> None:
    for step in steps:
        if not e.b.open:
            return
        _EMIT[type(step)](e, step, program)


# ---- regions -----------------------------------------------------------------------------------


def _region(e: KernelEmitter, region: S.Region, program: Program) -> None:
    if e.rarely:
        _slow(e, region, program)
        return
    fixed = e.fixed.keys() | program.placement.uniform
    if e.context.options.opt == 0 or _hands_on(region, program):
        _guarded(e, region, region, program, fixed, [])
        return
    clip = clip_threads(e, _analysis(e, region, fixed), region.body)
    if clip is None:
        _guarded(e, region, region, program, fixed, [])
        return
    go, done = e.b.label("some"), e.b.label("clipped")
    valid = [e.b.op(f"xor i1 {flag}, true") for flag in clip.flags]
    wanted = clip.some
    for flag in clip.flags:
        wanted = e.b.op(f"or i1 {wanted}, {flag}")
    e.b.branch(wanted, go, done)
    e.b.place(go)
    outer = e.starts, e.counts
    e.starts, e.counts = clip.starts, clip.counts
    _guarded(e, region, S.Region(clip.body), program, fixed, valid, outer)
    e.starts, e.counts = outer
    e.b.place(done)


def _hands_on(region: S.Region, program: Program) -> bool:
    """Whether a region sets a local that a later one reads, for all threads."""
    kept = set(program.placement.kept)
    return any(isinstance(n, ir.Assign | ir.ForRange) and n.target in kept for n in walk(region.body))


def _analysis(e: KernelEmitter, region: S.Region, fixed: Set[str]) -> RangeAnalysis:
    return RangeAnalysis(e, region.body, lambda name: name in fixed, e.first_and_last)


def _guarded(
    e: KernelEmitter, whole: S.Region, region: S.Region, program: Program, fixed: Set[str], tests: list[str],
    threads: tuple[Triple, Triple] | None = None,
) -> None:  # fmt: skip
    """A copy of `region` without the checks that hold where `tests` do, and a slow one of the `whole` region.

    `threads` says for which threads (starts and counts) the slow copy runs, if not for those of the fast one.
    """
    guard = None
    if e.context.options.opt > 0 and _gains(e, region):
        guard = make_guard(_analysis(e, region, fixed), frozenset())
    masks = e.masks
    nobody_left = None
    if masks.alive is not None and not masks.stack and (guard is None or guard.complete):
        nobody_left = e.b.icmp("eq", 64, e.b.op(f"load i64, ptr {masks.left}"), "0")
    tests = [*tests, *([guard.test] if guard is not None else [])]
    if not tests and (nobody_left is None or not _is_simple(region)):
        _threads(e, region, program, masked=True)
        return
    tests += [nobody_left] if nobody_left is not None else []
    fast, slow, done = e.b.label("fast"), e.b.label("slow"), e.b.label("ran")
    test = tests[0]
    for another in tests[1:]:
        test = e.b.both(test, another)
    e.b.branch(test, fast, slow)
    e.b.place(fast)
    e.proven = guard.proven if guard is not None else frozenset()
    strips = None
    if guard is not None and not guard.complete and not e.divided:
        strips = find_strips(_analysis(e, region, fixed), region.body, guard.proven)
    if strips is not None:
        emit_strips(e, strips, _thread(e, region, program, masked=False))
    else:
        _threads(e, region, program, masked=nobody_left is None)
    e.proven = frozenset()
    e.b.jump(done)
    e.b.place(slow)
    if e.alone is not None:
        only, divide = e.alone
        single = e.b.label("single")
        e.b.branch(only, single, divide)
        e.b.place(single)
    if threads is not None:
        e.starts, e.counts = threads
    _slow(e, whole, program)
    e.b.place(done)


def _gains(e: KernelEmitter, region: S.Region) -> bool:
    """Whether a second copy without checks pays.

    It is there to be vectorised.  A called function that may fail keeps the loop over threads from that, and then the
    few checks saved are not worth twice the code of a long piece, nor the time to compile it.
    """
    nodes = list(walk(region.body))
    may_fail = any(isinstance(n, ir.Call) and e.context.infos[n.function].may_raise for n in nodes)
    return not may_fail or len(nodes) <= _LONG


def _slow(e: KernelEmitter, region: S.Region, program: Program) -> None:
    """The copy that finds failures and runs at edges: all checks, not optimised for speed."""
    e.run_plain(lambda: _threads(e, region, program, masked=True))


def _is_simple(region: S.Region) -> bool:
    """Whether a second copy without a mask is cheap and worth having: no checks, calls or returns."""
    for count, node in enumerate(walk(region.body)):
        if count > 200 or isinstance(node, ir.Call | ir.Return | ir.Raise):
            return False
        if isinstance(node, ir.Element | ir.Store | ir.View | ir.Atomic) and node.check is not None:
            return False
    return True


def _threads(e: KernelEmitter, region: S.Region, program: Program, masked: bool) -> None:
    e.thread_loop(_thread(e, region, program, masked))


def _thread(e: KernelEmitter, region: S.Region, program: Program, masked: bool) -> Callable[[], None]:
    """Emits a region for one thread."""
    assigned = {n.target for n in walk(region.body) if isinstance(n, ir.Assign | ir.ForRange)}
    read = {n.name for n in walk(region.body) if isinstance(n, ir.Local)}
    escapes = _escapes(region.body)
    early = exposed(region.body)
    used = [n for n in program.placement.kept if n in assigned or n in read]
    certain = {n.target for n in region.body if isinstance(n, ir.Assign)} if not any(escapes) else set()
    load = [n for n in used if n in early or n not in certain]
    save = [n for n in used if n in assigned]
    fresh = [n for n in program.types if n in assigned and n not in program.placement.uniform and n not in load]
    is_masked = masked and (e.masks.current or e.masks.alive) is not None

    def thread() -> None:
        following = e.leave
        if is_masked:
            go = e.b.label("active")
            e.b.branch(e.is_active(e.position), go, following)
            e.b.place(go)
        for name in fresh:
            e.clear(name)
        if not e.divided:
            for name, value in e.copied.items():
                e.write(name, value)
        for name in load:
            e.write(name, e.read_kept(name, e.position))
        _body(e, region, save, escapes)

    return thread


def _body(e: KernelEmitter, region: S.Region, save: list[str], escapes: tuple[bool, bool]) -> None:
    """The statements of one thread, then what it hands on."""
    following = e.leave
    if not e.divided:
        emit_body(e, region.body)
        return
    together, gone = e.b.label("together"), e.b.label("gone")
    broken, continued = e.b.label("broken"), e.b.label("continued")
    e.leave = gone
    outer_loops, e.loops = e.loops, [(broken, continued)]
    emit_body(e, region.body)
    e.loops = outer_loops
    e.b.jump(together)
    e.b.place(gone)
    e.drop("return")
    e.b.jump(following)
    for wanted, label, kind in zip(escapes, (broken, continued), ("break", "continue"), strict=True):
        if wanted:
            e.b.place(label)
            e.drop(kind)
            e.b.jump(together)
    e.b.place(together)
    for name in save:
        e.write_kept(name, e.position, e.read(name))
    e.leave = following


def _escapes(body: Sequence[ir.Stmt]) -> tuple[bool, bool]:
    """Whether a region breaks and continues the block-level loop around it."""
    breaks = continues = False
    for node in body:
        if isinstance(node, ir.Break):
            breaks = True
        elif isinstance(node, ir.Continue):
            continues = True
        elif isinstance(node, ir.If):
            for arm in (node.then, node.orelse):
                found = _escapes(arm)
                breaks, continues = breaks or found[0], continues or found[1]
    return breaks, continues


# ---- block level -------------------------------------------------------------------------------


def _assign(e: KernelEmitter, step: S.BlockAssign, program: Program) -> None:
    block_assign(e, step)


def _block_if(e: KernelEmitter, step: S.BlockIf, program: Program) -> None:
    block_if(e, step, lambda steps: _steps(e, steps, program))


def _block_for(e: KernelEmitter, step: S.BlockFor, program: Program) -> None:
    block_for(e, step, lambda steps: _steps(e, steps, program))


def _block_while(e: KernelEmitter, step: S.BlockWhile, program: Program) -> None:
    b = e.b
    test, turn, done = b.label("block.while"), b.label("block.do"), b.label("block.done")
    b.place(test)
    go = e.one(step.test)
    if e.masks.alive is not None:  # a loop nobody is left in would never see its test change
        x, y, z = e.counts
        total = b.op(f"mul nuw nsw i64 {b.op(f'mul nuw nsw i64 {x}, {y}')}, {z}")
        go = b.both(go, b.icmp("ult", 64, b.op(f"load i64, ptr {e.masks.left}"), total))
    b.branch(go, turn, done)
    b.place(turn)
    e.block_loops.append((done, test))
    _steps(e, step.body, program)
    e.block_loops.pop()
    b.jump(test)
    b.place(done)


def _jump(e: KernelEmitter, step: S.Jump, program: Program) -> None:
    if e.masks.stack:
        _for_active(e, lambda: e.drop(step.kind))
        return
    if step.kind == "return":
        e.b.jump(e.block_done)
    else:
        e.b.jump(e.block_loops[-1][0 if step.kind == "break" else 1])


# ---- masks -------------------------------------------------------------------------------------


def _for_active(e: KernelEmitter, body: Callable[[], None]) -> None:
    def thread() -> None:
        go = e.b.label("active")
        e.b.branch(e.is_active(e.position), go, e.leave)
        e.b.place(go)
        body()

    e.thread_loop(thread)


def _any(e: KernelEmitter, *bodies: Callable[[], str]) -> tuple[str, ...]:
    """Run `bodies` one after the other for every thread; for each, whether it gave true for any."""
    found = [e.b.slot("i8") for _ in bodies]
    for slot in found:
        e.b.emit(f"store i8 0, ptr {slot}")

    def thread() -> None:
        for slot, body in zip(found, bodies, strict=True):
            bit = e.b.op(f"zext i1 {body()} to i8")
            before = e.b.op(f"load i8, ptr {slot}")
            e.b.emit(f"store i8 {e.b.op(f'or i8 {before}, {bit}')}, ptr {slot}")

    e.thread_loop(thread)
    return tuple(e.b.icmp("ne", 8, e.b.op(f"load i8, ptr {slot}"), "0") for slot in found)


def _when(e: KernelEmitter, test: str, body: Callable[[], None]) -> None:
    run, done = e.b.label("some"), e.b.label("none")
    e.b.branch(test, run, done)
    e.b.place(run)
    body()
    e.b.place(done)


def _masked_if(e: KernelEmitter, step: S.MaskedIf, program: Program) -> None:
    """Both arms, each for the threads that take it; one that all threads take has a copy without a mask."""
    for arm, wanted in ((step.then, True), (step.orelse, False)):
        if not arm:
            continue
        mask = e.b.slot("i8", 64, MAX_THREADS)
        whole = not e.masks.stack and _is_small(arm)

        def inside(mask: str = mask, wanted: bool = wanted) -> str:
            return _chosen(e, step.test, mask, wanted)

        def outside(mask: str = mask) -> str:
            return e.b.op(f"xor i1 {e.mask_at(mask, e.position)}, true")

        if whole:
            some, missing = _any(e, inside, outside)
            partly, every, done = e.b.label("partly"), e.b.label("every"), e.b.label("chosen")
            e.b.branch(missing, partly, every)
            e.b.place(every)
            _steps(e, arm, program)
            e.b.jump(done)
            e.b.place(partly)
        else:
            (some,) = _any(e, inside)
        e.masks.stack.append(("if", mask))
        outer, e.rarely = e.rarely, e.rarely or whole
        _when(e, some, lambda arm=arm: _steps(e, arm, program))  # type: ignore[misc]
        e.rarely = outer
        e.masks.stack.pop()
        if whole:
            e.b.place(done)


def _is_small(steps: Sequence[S.Step]) -> bool:
    """Whether a second copy of some steps is cheap: no divergence in them, and not much code."""
    inner = list(all_steps(steps))
    if any(isinstance(s, S.MaskedIf | S.MaskedLoop | S.Jump) for s in inner):
        return False
    return sum(1 for region in regions_of(steps) for _ in walk(region.body)) <= 400


def _chosen(e: KernelEmitter, test: str, mask: str, wanted: bool) -> str:
    value = e.read_kept(test, e.position)[0]
    if not wanted:
        value = e.b.op(f"xor i1 {value}, true")
    inside = e.b.both(e.is_active(e.position), value)
    e.set_mask(mask, e.position, inside)
    return inside


def _masked_loop(e: KernelEmitter, step: S.MaskedLoop, program: Program) -> None:
    b = e.b
    staying, turning = (b.slot("i8", 64, MAX_THREADS) for _ in range(2))
    e.thread_loop(lambda: e.set_mask(staying, e.position, b.op(f"or i1 {e.is_active(e.position)}, false")))
    test, turn, done = b.label("masked.loop"), b.label("masked.do"), b.label("masked.done")
    e.masks.stack.append(("loop", staying))
    b.place(test)
    _steps(e, step.head, program)

    def go_on() -> str:
        inside = b.both(e.mask_at(staying, e.position), e.read_kept(step.test, e.position)[0])
        e.set_mask(staying, e.position, inside)
        e.set_mask(turning, e.position, inside)
        return inside

    b.branch(_any(e, go_on)[0], turn, done)
    b.place(turn)
    e.masks.stack.append(("turn", turning))
    _steps(e, step.body, program)
    e.masks.stack.pop()
    b.jump(test)
    b.place(done)
    e.masks.stack.pop()


def _collective(e: KernelEmitter, step: S.Collective, program: Program) -> None:
    emit_collective(e, step)


_EMIT: dict[type, Callable[[KernelEmitter, Any, Program], None]] = {
    S.Region: _region, S.Collective: _collective, S.BlockAssign: _assign, S.BlockIf: _block_if, S.BlockFor: _block_for,
    S.BlockWhile: _block_while, S.MaskedIf: _masked_if, S.MaskedLoop: _masked_loop, S.Jump: _jump,
}  # fmt: skip
