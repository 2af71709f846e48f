"""The helper function by which a failing thread writes the exception record.

The record (see the CPU ABI): status (0 free, 1 claimed, 2 written), error index, then block, thread and
details as 64-bit words.  The first thread of a launch to claim it wins; others leave without a trace.  Where blocks
run together as one (`sterna.compiler.codegen.cpu.entry`), x and y are brought back to the thread's own block.
"""

from __future__ import annotations

__all__ = ["RAISE_TEXT"]

RAISE_TEXT = (
    """define internal void @sterna_raise(ptr %launch, i32 %error, i64 %bx, i64 %by, i64 %bz, \
i64 %tx, i64 %ty, i64 %tz, i64 %d0, i64 %d1, i64 %d2) cold noinline nounwind {
entry:
  %field = getelementptr inbounds i64, ptr %launch, i64 12
  %record = load ptr, ptr %field
  %none = icmp eq ptr %record, null
  br i1 %none, label %done, label %claim
claim:
  %pair = cmpxchg ptr %record, i32 0, i32 1 acquire monotonic
  %won = extractvalue { i32, i1 } %pair, 1
  br i1 %won, label %write, label %done
write:
  %p1 = getelementptr inbounds i32, ptr %record, i64 1
  store i32 %error, ptr %p1
  %size = getelementptr inbounds i64, ptr %launch, i64 6
  %width = load i64, ptr %size
  %right = udiv i64 %tx, %width
  %block.x = add i64 %bx, %right
  %thread.x = urem i64 %tx, %width
  %size.y = getelementptr inbounds i64, ptr %launch, i64 7
  %height = load i64, ptr %size.y
  %down = udiv i64 %ty, %height
  %block.y = add i64 %by, %down
  %thread.y = urem i64 %ty, %height
"""
    + "".join(
        f"  %w{n} = getelementptr inbounds i64, ptr %record, i64 {n + 1}\n  store i64 %{name}, ptr %w{n}\n"
        for n, name in enumerate(("block.x", "block.y", "bz", "thread.x", "thread.y", "tz", "d0", "d1", "d2"))
    )
    + """  store atomic i32 2, ptr %record release, align 4
  br label %done
done:
  ret void
}"""
)
"""LLVM IR of ``sterna_raise(launch, error, block, thread, details)``."""
