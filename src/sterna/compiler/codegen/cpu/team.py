"""What the thread pool calls in native code: offering a launch, waiting for its threads, working.

They are host functions (`host`): they know the launch structure (`sterna.abi`) and the board (`sterna.host_abi`), and
no kernel; an entry is called through its address.

::

    offer(args, launch, offer)      put the launch on the board
    run(offer)                      run its entry, then `wait`
    launch(args, launch, offer)     both
    wait(offer)                     withdraw the tickets that are left; how many threads are inside after a little while
    work(board, number, spins)      take tickets and run them; return when there was none for so many turns

A ticket is taken by one compare-and-swap that counts it as a thread inside, so a launch whose state is 0 has been left
by all, and its place may be used again; who still looks at the place then sees another launch, or none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.abi import LAUNCH_FIELDS
from sterna.host_abi import OFFER_FIELDS, TEAM

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.profile import CpuProfile

__all__ = ["team_text"]

_WAIT_SPINS = 2000
"""Turns that a launch waits for the others' last blocks before it leaves native code."""
_INSIDE = (1 << 32) - 1
"""The half of the state that counts threads inside."""
_ENTERING = 1 - (1 << 32)
"""What entering adds to the state: one ticket less, one thread inside."""
_READ = """\
  %args.at = getelementptr inbounds i64, ptr %offer, i64 {offer[args]}
  %args = load ptr, ptr %args.at
  %launch.at = getelementptr inbounds i64, ptr %offer, i64 {offer[launch]}
  %launch = load ptr, ptr %launch.at
  %entry.at = getelementptr inbounds i64, ptr %launch, i64 {launch[entry]}
  %kernel = load ptr, ptr %entry.at
"""
"""What stands at a place: arguments, launch structure, entry."""
_TEXT = """\
define void @{team[offer]}(ptr %args, ptr %launch, ptr %offer) {attributes} {{
entry:
  %parts.at = getelementptr inbounds i64, ptr %launch, i64 {launch[parts]}
  %parts = load i64, ptr %parts.at
  %helpers = sub i64 %parts, 1
  %tickets = shl i64 %helpers, 32
  %args.at = getelementptr inbounds i64, ptr %offer, i64 {offer[args]}
  store ptr %args, ptr %args.at
  %launch.at = getelementptr inbounds i64, ptr %offer, i64 {offer[launch]}
  store ptr %launch, ptr %launch.at
  store atomic i64 %tickets, ptr %offer release, align 8
  ret void
}}
define i64 @{team[run]}(ptr %offer) {attributes} {{
entry:
{read}  call void %kernel(ptr %args, ptr %launch, i64 0)
  %left = call i64 @{team[wait]}(ptr %offer)
  ret i64 %left
}}
define i64 @{team[launch]}(ptr %args, ptr %launch, ptr %offer) {attributes} {{
entry:
  call void @{team[offer]}(ptr %args, ptr %launch, ptr %offer)
  %left = call i64 @{team[run]}(ptr %offer)
  ret i64 %left
}}
define i64 @{team[wait]}(ptr %offer) noinline {attributes} {{
entry:
  %old = atomicrmw and ptr %offer, i64 {inside} acq_rel
  br label %turn
turn:
  %n = phi i64 [0, %entry], [%next, %again]
  %inside = load atomic i64, ptr %offer acquire, align 8
  %out = icmp eq i64 %inside, 0
  %next = add nuw nsw i64 %n, 1
  %tired = icmp ugt i64 %next, {spins}
  %end = or i1 %out, %tired
  br i1 %end, label %done, label %again
again:
  {pause}
  br label %turn
done:
  ret i64 %inside
}}
define i64 @{team[work]}(ptr %board, i64 %number, i64 %spins) {attributes} {{
entry:
  br label %fresh
fresh:
  %done.jobs = phi i64 [0, %entry], [%jobs, %run]
  br label %turn
turn:
  %n = phi i64 [0, %fresh], [%n.next, %again]
  %places = load atomic i64, ptr %board monotonic, align 8
  br label %look
look:
  %p = phi i64 [0, %turn], [%p.next, %other]
  %p.next = add nuw nsw i64 %p, 1
  %over = icmp ugt i64 %p.next, %places
  br i1 %over, label %again, label %read
read:
  %index = mul nuw nsw i64 %p.next, {offer[words]}
  %offer = getelementptr inbounds i64, ptr %board, i64 %index
  %state = load atomic i64, ptr %offer monotonic, align 8
  %ticket = lshr i64 %state, 32
  %none = icmp eq i64 %ticket, 0
  br i1 %none, label %other, label %take
other:
  br label %look
take:
  %entered = add i64 %state, {entering}
  %swap = cmpxchg ptr %offer, i64 %state, i64 %entered acquire monotonic, align 8
  %won = extractvalue {{ i64, i1 }} %swap, 1
  br i1 %won, label %run, label %other
run:
{read}  %parts.at = getelementptr inbounds i64, ptr %launch, i64 {launch[parts]}
  %parts = load i64, ptr %parts.at
  %has.own = icmp ult i64 %number, %parts
  %part = select i1 %has.own, i64 %number, i64 %ticket
  call void %kernel(ptr %args, ptr %launch, i64 %part)
  %left = atomicrmw sub ptr %offer, i64 1 release
  %jobs = add i64 %done.jobs, 1
  br label %fresh
again:
  {pause}
  %n.next = add nuw nsw i64 %n, 1
  %tired = icmp uge i64 %n.next, %spins
  br i1 %tired, label %end, label %turn
end:
  ret i64 %done.jobs
}}
"""


def team_text(profile: CpuProfile) -> str:
    """LLVM IR of the functions for a kind of processor."""
    name, argument = profile.pause
    read = _READ.format(launch=LAUNCH_FIELDS, offer=OFFER_FIELDS)
    text = _TEXT.format(
        read=read, team=TEAM, launch=LAUNCH_FIELDS, offer=OFFER_FIELDS, attributes=profile.call_attributes(),
        spins=_WAIT_SPINS, inside=_INSIDE, entering=_ENTERING, pause=f"call void @{name}({argument})",
    )  # fmt: skip
    return f"{text}declare void @{name}({argument.partition(' ')[0]})\n"
