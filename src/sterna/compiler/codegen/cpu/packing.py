"""Reading launch arguments in native code: tests what they are and writes their fields, or says that they are others.

::

    pack(args, plan, out)      0, with the fields of all arguments at `out`; 1 where one is not as the plan has it

`args` is the tuple of arguments itself.  NumPy arrays, Python floats and ints are read where CPython and NumPy keep
what they are made of (`PyArrayObject_fields` of NumPy's C interface), which the caller has compared with what Python
says of such objects (`sterna.targets.cpu.packing`).  The caller holds the GIL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sterna.abi import KEY_FLAGS
from sterna.host_abi import PACK, PACK_ARGUMENT, PACK_HEAD, PACK_KINDS, PACK_WORDS

if TYPE_CHECKING:
    from sterna.compiler.codegen.cpu.profile import CpuProfile

__all__ = ["pack_text"]

_TEXT = """\
define i64 @{pack}(ptr %args, ptr %plan, ptr %out) {attributes} {{
entry:
  %overflow = alloca i32
  %given.at = getelementptr inbounds i8, ptr %args, i64 16
  %given = load i64, ptr %given.at
  %count.at = getelementptr inbounds i64, ptr %plan, i64 {head[count]}
  %count = load i64, ptr %count.at
  %items.at = getelementptr inbounds i64, ptr %plan, i64 {head[items]}
  %items.offset = load i64, ptr %items.at
  %items = getelementptr inbounds i8, ptr %args, i64 %items.offset
  %right = icmp eq i64 %given, %count
  br i1 %right, label %next, label %other
next:
  %n = phi i64 [0, %entry], [%n.next, %packed]
  %n.next = add nuw nsw i64 %n, 1
  %end = icmp eq i64 %n, %count
  br i1 %end, label %all, label %argument
argument:
  %item.at = getelementptr inbounds ptr, ptr %items, i64 %n
  %item = load ptr, ptr %item.at
  %place = mul nuw nsw i64 %n.next, {words}
  %wanted = getelementptr inbounds i64, ptr %plan, i64 %place
  %class.at = getelementptr inbounds i8, ptr %item, i64 8
  %class = load ptr, ptr %class.at
  %type.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[type]}
  %type = load ptr, ptr %type.at
  %offset.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[offset]}
  %offset = load i64, ptr %offset.at
  %to = getelementptr inbounds i8, ptr %out, i64 %offset
  %same.type = icmp eq ptr %class, %type
  br i1 %same.type, label %what, label %other
what:
  %kind.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[kind]}
  %kind = load i64, ptr %kind.at
  switch i64 %kind, label %array [i64 {kinds[float]}, label %float i64 {kinds[int]}, label %int]
float:
  %float.at = getelementptr inbounds i8, ptr %item, i64 16
  %number = load double, ptr %float.at
  store double %number, ptr %to, align 1
  br label %packed
int:
  %integer.at = getelementptr inbounds i64, ptr %plan, i64 {head[integer]}
  %integer = load ptr, ptr %integer.at
  %value = call i64 %integer(ptr %item, ptr %overflow)
  %over = load i32, ptr %overflow
  %fits = icmp eq i32 %over, 0
  store i64 %value, ptr %to, align 1
  br i1 %fits, label %packed, label %other
array:
  %descr.at = getelementptr inbounds i8, ptr %item, i64 56
  %descr = load ptr, ptr %descr.at
  %dtype.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[dtype]}
  %dtype = load ptr, ptr %dtype.at
  %same.dtype = icmp eq ptr %descr, %dtype
  %nd.at = getelementptr inbounds i8, ptr %item, i64 24
  %nd.int = load i32, ptr %nd.at
  %nd = sext i32 %nd.int to i64
  %ndim.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[ndim]}
  %ndim = load i64, ptr %ndim.at
  %same.ndim = icmp eq i64 %nd, %ndim
  %flags.at = getelementptr inbounds i8, ptr %item, i64 64
  %flags.int = load i32, ptr %flags.at
  %flags.key = and i32 %flags.int, {flags}
  %flags = zext i32 %flags.key to i64
  %wanted.flags.at = getelementptr inbounds i64, ptr %wanted, i64 {argument[flags]}
  %wanted.flags = load i64, ptr %wanted.flags.at
  %same.flags = icmp eq i64 %flags, %wanted.flags
  %same.two = and i1 %same.dtype, %same.ndim
  %same = and i1 %same.two, %same.flags
  br i1 %same, label %address, label %other
address:
  %data.at = getelementptr inbounds i8, ptr %item, i64 16
  %data = load i64, ptr %data.at
  store i64 %data, ptr %to, align 1
  %extents.at = getelementptr inbounds i8, ptr %item, i64 32
  %extents = load ptr, ptr %extents.at
  %strides.at = getelementptr inbounds i8, ptr %item, i64 40
  %strides = load ptr, ptr %strides.at
  %is.strided = icmp eq i64 %kind, {kinds[strided]}
  %first = getelementptr inbounds i8, ptr %to, i64 8
  br label %axis
axis:
  %from = phi ptr [%extents, %address], [%from, %copy], [%strides, %again]
  %words.at = phi ptr [%first, %address], [%words.at, %copy], [%second, %again]
  %more = phi i1 [%is.strided, %address], [%more, %copy], [false, %again]
  %a = phi i64 [0, %address], [%a.next, %copy], [0, %again]
  %last = icmp eq i64 %a, %ndim
  br i1 %last, label %row, label %copy
copy:
  %word.at = getelementptr inbounds i64, ptr %from, i64 %a
  %word = load i64, ptr %word.at
  %word.to = getelementptr inbounds i64, ptr %words.at, i64 %a
  store i64 %word, ptr %word.to, align 1
  %a.next = add nuw nsw i64 %a, 1
  br label %axis
row:
  br i1 %more, label %again, label %packed
again:
  %second = getelementptr inbounds i64, ptr %words.at, i64 %ndim
  br label %axis
packed:
  br label %next
all:
  ret i64 0
other:
  ret i64 1
}}
"""


def pack_text(profile: CpuProfile) -> str:
    """LLVM IR of the function for a kind of processor."""
    head, argument, kinds = ({name: n for n, name in enumerate(x)} for x in (PACK_HEAD, PACK_ARGUMENT, PACK_KINDS))
    return _TEXT.format(
        pack=PACK, words=PACK_WORDS, flags=KEY_FLAGS, head=head, argument=argument, kinds=kinds,
        attributes=profile.call_attributes(),
    )  # fmt: skip
