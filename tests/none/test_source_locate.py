"""Locating sources: files, edited files, rewritten code, and every way to have no file at all."""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.abc
import importlib.util
import linecache
import os
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.modules import write_module
from sterna.errors import SourceError
from sterna.source import index
from sterna.source.facts import facts_of
from sterna.source.locate import locate, note_import, remember_source, statement_line

SOURCE_ROOT = Path(__import__("sterna").__file__).parents[1]


@pytest.fixture(autouse=True)
def _empty_memory() -> Iterator[None]:
    index.forget()
    installed = list(index._stores)
    index.set_stores(None)
    yield
    index._stores[:] = installed


def returned(function: Any) -> str:
    """Source of what the located function returns, normalised."""
    node = locate(function).node
    body = node.body if isinstance(node, ast.Lambda) else node.body[-1].value  # type: ignore[attr-defined]
    return ast.unparse(body)


# ---- files ---------------------------------------------------------------------------------------


def test_functions_of_a_file(tmp_path: Path) -> None:
    module = write_module(
        tmp_path,
        "import functools\n"
        "def deco(f):\n"
        "    @functools.wraps(f)\n"
        "    def wrapper(x):\n"
        "        return f(x) + 100\n"
        "    return wrapper\n"
        "@deco\n"
        "@deco\n"
        "def twice(x):\n"
        "    return x + 1\n"
        "class C:\n"
        "    def m(self):\n"
        "        return self.__p + 2\n"
        "def outer(k):\n"
        "    def inner(x):\n"
        "        return x + k\n"
        "    return inner, lambda y: y * k\n"
        "if True:\n"
        "    def same(x):\n"
        "        return 3\n"
        "first = same\n"
        "def same(x):\n"
        "    return 4\n",
    )
    assert returned(module.outer(1)[0]) == "x + k"
    assert returned(module.outer(1)[1]) == "y * k"
    assert returned(module.C.m) == "self._C__p + 2"
    assert (returned(module.first), returned(module.same)) == ("3", "4")
    # what a call runs is the wrapper; what it wraps is a captured function of its own
    assert returned(module.twice) == "f(x) + 100"
    assert returned(module.twice.__wrapped__.__wrapped__) == "x + 1"
    assert locate(module.twice.__wrapped__.__wrapped__).def_line == 9
    assert all(locate(f).exact for f in (module.twice, module.same, module.C.m))


LAMBDAS = """
pair = [lambda x: x + 1, lambda x: x + 2]; nested = lambda a: (lambda b: a * b)
swapped = (lambda x: x - 1) if not pair else (lambda x: x - 2)
multi = (lambda x:
    x if x > 0
    else -x)
twins = [lambda x: x + 1.5, lambda x: x + 1.5]
with_default = lambda x, f=lambda y: y + 7: f(x)
"""


@pytest.mark.parametrize("flags", [(), ("-X", "no_debug_ranges")], ids=["columns", "no columns"])
def test_lambdas_of_one_line(tmp_path: Path, flags: tuple[str, ...]) -> None:
    (tmp_path / "lambdas.py").write_text(LAMBDAS)
    script = (
        "import ast, sys\nsys.path[:0] = sys.argv[1:]\nimport lambdas as m\nfrom sterna.source.locate import locate\n"
        "for f in (*m.pair, m.nested, m.nested(1), m.swapped, m.multi, *m.twins, m.with_default,"
        " m.with_default.__defaults__[0]):\n"
        "    found = locate(f); assert found.exact; print(ast.unparse(found.node.body))\n"
    )
    command = [sys.executable, *flags, "-c", script, str(tmp_path), str(SOURCE_ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == [
        "x + 1", "x + 2", "lambda b: a * b", "a * b", "x - 2", "x if x > 0 else -x", "x + 1.5", "x + 1.5",
        "f(x)", "y + 7", "",
    ]  # fmt: skip


def test_statement_line_follows_the_file(tmp_path: Path) -> None:
    text = "def f(x):\n    '''Doc.'''\n    y = x\n    if y:\n        return y\n    return 0\n"
    module = write_module(tmp_path, text)
    assert [statement_line(module.f, n) for n in range(5)] == [3, 4, 5, 6, None]
    Path(module.__file__).write_text("# a new comment\n\n" + text)
    assert [statement_line(module.f, n) for n in range(4)] == [5, 6, 7, 8]


def test_edits_elsewhere_in_the_file_do_not_matter(tmp_path: Path) -> None:
    module = write_module(tmp_path, "def f(x):\n    return x + 1\n")
    Path(module.__file__).write_text("import os\n\ndef g(x):\n    return 7\n\n\ndef f(x):\n    return x + 1\n")
    assert returned(module.f) == "x + 1"


@pytest.mark.parametrize("noted", [True, False])
@pytest.mark.parametrize("same_stamp", [True, False])
def test_an_edited_function_is_refused(tmp_path: Path, noted: bool, same_stamp: bool) -> None:
    module = write_module(tmp_path, "def f(x):\n    return x + 1\n")
    path = Path(module.__file__)
    if noted:
        note_import(module.f)
    before = path.stat()
    path.write_text("def f(x):\n    return x + 2\n")
    if same_stamp:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(SourceError, match="changed since it was imported"):
        facts_of(module.f)


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    module = write_module(tmp_path, "def f(x):\n    return x + 1\n")
    Path(module.__file__).write_text("def f(x:\n")
    with pytest.raises(SourceError, match="no longer parses"):
        locate(module.f)


def test_a_reloaded_module_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    path = tmp_path / "reloaded_module.py"
    path.write_text("def f(x):\n    return x + 1\n")
    module = importlib.import_module("reloaded_module")
    note_import(module.f)
    first = facts_of(module.f)
    path.write_text("def f(x):\n    return x + 12345\n")
    module = importlib.reload(module)
    note_import(module.f)
    assert returned(module.f) == "x + 12345"
    assert facts_of(module.f) != first


def test_rewritten_code_is_found_but_not_persisted(tmp_path: Path) -> None:
    """An import hook that changes asserts, as pytest's does."""

    class Loader(importlib.abc.SourceLoader):
        def get_filename(self, name: str) -> str:
            return str(tmp_path / "rewritten.py")

        def get_data(self, path: str) -> bytes:
            return Path(path).read_bytes()

        def source_to_code(self, data: Any, path: Any, **_: Any) -> types.CodeType:  # type: ignore[override]
            tree = ast.parse(data)
            for node in ast.walk(tree):
                if isinstance(node, ast.Assert):
                    node.msg = ast.copy_location(ast.Constant("rewritten"), node.test)
            return compile(tree, path, "exec")  # type: ignore[no-any-return]

    (tmp_path / "rewritten.py").write_text("def f(x):\n    assert x\n    return x + 1\ndef g(x):\n    return x\n")
    spec = importlib.util.spec_from_loader("rewritten", Loader())
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    assert spec.loader is not None
    spec.loader.exec_module(module)
    kept: dict[str, Any] = {}
    index.set_stores(lambda fingerprint, module: kept.get(fingerprint), kept.__setitem__)
    note_import(module.f)
    assert not locate(module.f).exact
    assert facts_of(module.f).names == ()
    assert kept == {}
    assert locate(module.g).exact
    facts_of(module.g)
    assert len(kept) == 1
    (tmp_path / "rewritten.py").write_text("def f(x):\n    assert x\n    return x + 2\n")
    with pytest.raises(SourceError, match="changed"):
        locate(module.f)


def test_this_module_which_pytest_rewrites() -> None:
    def local(x: int) -> int:
        assert x > 0
        return x + 1

    assert returned(local) == "x + 1"


def test_assert_is_nothing_under_minus_o(tmp_path: Path) -> None:
    (tmp_path / "asserting.py").write_text("def f(x):\n    assert x > LIMIT\n    return x\n")
    script = (
        "import sys\nsys.path[:0] = sys.argv[1:]\nimport asserting\nfrom sterna.source.facts import facts_of\n"
        "print(facts_of(asserting.f).names)"
    )
    for flags, expected in (((), "('LIMIT',)"), (("-O",), "()")):
        command = [sys.executable, *flags, "-c", script, str(tmp_path), str(SOURCE_ROOT)]
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == expected


# ---- facts without a source ----------------------------------------------------------------------


def test_bytecode_only(tmp_path: Path) -> None:
    import compileall

    # put together from parts, or the text would be found on this very stack
    (tmp_path / "shipped.py").write_text("\n".join(["SCALE = 2.0", "def f(x):", "    return x * SCALE", ""]))
    module = _import_from(tmp_path / "shipped.py")
    kept: dict[str, Any] = {}
    index.set_stores(lambda fingerprint, module: kept.get(fingerprint), kept.__setitem__)
    facts = facts_of(module.f)
    compileall.compile_dir(str(tmp_path), legacy=True, quiet=1)
    (tmp_path / "shipped.py").unlink()
    index.forget()
    module = _import_from(tmp_path / "shipped.pyc")
    assert facts_of(module.f) == facts
    with pytest.raises(SourceError, match="only its bytecode"):
        locate(module.f)
    index.forget()
    index.set_stores(None)
    with pytest.raises(SourceError, match="only its bytecode"):
        facts_of(module.f)


def test_known_facts_touch_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = write_module(tmp_path, "def f(x):\n    return x + 1\n")
    kept: dict[str, Any] = {}
    index.set_stores(lambda fingerprint, module: kept.get(fingerprint), kept.__setitem__)
    facts = facts_of(module.f)
    index.forget()
    Path(module.__file__).unlink()
    monkeypatch.setattr("sterna.source.locate.locate", None)
    assert facts_of(module.f) == facts


INJECTED = {"schema": 1, "digest": "0" * 64, "names": ["np.__class__ or exit()"]}


@pytest.mark.parametrize(
    "damage", [{}, {"schema": 1}, {"schema": 99}, {"schema": 1, "digest": 3, "names": []}, INJECTED]
)
def test_damaged_stored_facts_are_a_miss(tmp_path: Path, damage: dict[str, Any]) -> None:
    module = write_module(tmp_path, "def f(x):\n    return x + 1\n")
    good = facts_of(module.f)
    index.forget()
    index.set_stores(lambda fingerprint, module: damage)
    assert facts_of(module.f) == good


def _import_from(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# ---- no file -------------------------------------------------------------------------------------

KERNEL = "def helper(x):\n    return x * {0}\n\n@decorate\ndef f(x):\n    return helper(x) + {0}\n"


def keep(function: Callable[..., Any]) -> Callable[..., Any]:
    note_import(function)  # type: ignore[arg-type]
    return function


def test_exec_with_the_text_in_a_local_and_no_module_name() -> None:
    for constant in (1, 2):
        text = KERNEL.format(constant)
        scope: dict[str, Any] = {"decorate": keep}
        exec(text, scope)
        del text
        assert returned(scope["f"]) == f"helper(x) + {constant}"
        assert returned(scope["helper"]) == f"x * {constant}"


def test_exec_of_a_constant_and_of_an_indented_text() -> None:
    scope: dict[str, Any] = {"keep": keep}
    exec("@keep\ndef f(x):\n    return x + 71\n", scope)
    assert returned(scope["f"]) == "x + 71"
    indented = """
        @keep
        def f(x):
            return x + 72
        """
    import textwrap

    exec(textwrap.dedent(indented), scope)
    assert returned(scope["f"]) == "x + 72"


def test_an_evaluated_lambda() -> None:
    text = "[lambda x: x + 81, lambda x: x + 82]"
    functions = eval(text)
    for function in functions:
        remember_source(function)
    del text
    assert [returned(f) for f in functions] == ["x + 81", "x + 82"]


def test_exec_of_a_lost_text_says_why_and_the_way_out() -> None:
    scope: dict[str, Any] = {}
    exec("".join(["def f(x):\n", "    return x + ", str(91), "\n"]), scope)
    with pytest.raises(SourceError, match=r"no file holds it.*linecache\.cache"):
        locate(scope["f"])


def test_linecache_is_the_way_out() -> None:
    text, name = "def f(x):\n    return x + 92\n", "<generated 92>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope: dict[str, Any] = {}
    exec(compile(text + "", name, "exec"), scope)
    assert returned(scope["f"]) == "x + 92"


def test_a_cell_redefined_with_another_constant() -> None:
    """What IPython does: each cell has a name of its own and its lines are in `linecache`."""
    scope: dict[str, Any] = {"decorate": keep, "__name__": "__main__"}
    seen = []
    for number, constant in enumerate((10, 20)):
        text, name = KERNEL.format(constant), f"/tmp/ipykernel_1/{number}.py"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), scope)
        seen.append((returned(scope["f"]), facts_of(scope["f"]).digest))
    assert [s[0] for s in seen] == ["helper(x) + 10", "helper(x) + 20"]
    assert seen[0][1] != seen[1][1]


def test_a_cell_with_the_name_of_another() -> None:
    scope: dict[str, Any] = {"decorate": keep}
    name = "<cell>"
    functions = []
    for constant in (11, 22):
        text = KERNEL.format(constant)
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), scope)
        functions.append(scope["f"])
    assert [returned(f) for f in functions] == ["helper(x) + 11", "helper(x) + 22"]


def test_doctest() -> None:
    text = ">>> def f(x):\n...     return x + 93\n>>> check(f)\n'x + 93'\n"
    examples = doctest.DocTestParser().get_doctest(text, {"check": returned}, "sample", "sample.txt", 0)
    assert doctest.DocTestRunner(verbose=False).run(examples).failed == 0


SCRIPT = """
import ast, sys
sys.path.insert(0, {root!r})
from sterna.source.facts import facts_of
from sterna.source.locate import locate, note_import
K = 5
def helper(x):
    return x + K
def keep(f):
    note_import(f); return f
@keep
def f(x):
    return helper(x) * 17
print(ast.unparse(locate(f).node.body[0]), ast.unparse(locate(helper).node.body[0]), facts_of(helper).names)
"""
ANSWER = "return helper(x) * 17 return x + K ('K',)"


def _session(command: list[str], **options: Any) -> str:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, **options)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("form", [["-c"], ["-Xdev", "-c"], ["-Bc"], ["-W", "ignore", "-c"]], ids=" ".join)
def test_command_line(form: list[str]) -> None:
    script = SCRIPT.format(root=str(SOURCE_ROOT))
    assert _session([sys.executable, *form, script, "argument", "-c"]) == ANSWER


def test_stdin_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "script"
    path.write_text(SCRIPT.format(root=str(SOURCE_ROOT)))
    with path.open() as file:
        assert _session([sys.executable, "-"], stdin=file) == ANSWER
    with path.open() as file:
        assert _session([sys.executable], stdin=file) == ANSWER


@pytest.mark.skipif("CS_GNU_LIBC_VERSION" not in os.confstr_names, reason="reads glibc's buffer")
def test_stdin_from_a_pipe() -> None:
    assert _session([sys.executable, "-"], input=SCRIPT.format(root=str(SOURCE_ROOT))) == ANSWER


def test_a_script_and_runpy(tmp_path: Path) -> None:
    path = tmp_path / "a_script.py"
    path.write_text(SCRIPT.format(root=str(SOURCE_ROOT)))
    assert _session([sys.executable, str(path)]) == ANSWER
    assert _session([sys.executable, "-m", "a_script"], cwd=tmp_path) == ANSWER


def test_a_zip_file(tmp_path: Path) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("zipped.py", "def f(x):\n    return x + 94\n")
    script = (
        f"import ast, sys\nsys.path[:0] = [{str(tmp_path / 'packed.zip')!r}, {str(SOURCE_ROOT)!r}]\nimport zipped\n"
        "from sterna.source.locate import locate\nprint(ast.unparse(locate(zipped.f).node.body[0]))"
    )
    assert _session([sys.executable, "-c", script]) == "return x + 94"


def test_encoding_and_newlines(tmp_path: Path) -> None:
    path = tmp_path / "latin.py"
    path.write_bytes("# -*- coding: latin-1 -*-\r\ndef f(x):\r\n    return 'é', x\r\n".encode("latin-1"))
    assert returned(_import_from(path).f) == "('é', x)"


def test_a_library_function_without_python_source() -> None:
    function = types.FunctionType((lambda x: x).__code__.replace(co_filename="<frozen nowhere>"), {})
    code = function.__code__.replace(co_consts=(None, 4242))
    with pytest.raises(SourceError, match="no file holds it"):
        locate(types.FunctionType(code, {}))


def test_bytecode_by_another_release_of_python_is_not_mistaken_for_an_edit(tmp_path: Path) -> None:
    """A valid ``.pyc`` whose code differs from what this interpreter makes of the unchanged file."""
    import importlib._bootstrap_external as machinery  # type: ignore[import-not-found]

    path = tmp_path / "older_release.py"
    path.write_text("def f(x):\n    return x + 1\n")
    cached = Path(importlib.util.cache_from_source(str(path)))
    cached.parent.mkdir(exist_ok=True, parents=True)
    stamp = path.stat()
    other = compile("def f(x):\n    return 1 + x\n", str(path), "exec")
    cached.write_bytes(machinery._code_to_timestamp_pyc(other, int(stamp.st_mtime), stamp.st_size))
    kept: dict[str, Any] = {}
    index.set_stores(lambda fingerprint, module: kept.get(fingerprint), kept.__setitem__)
    module = _import_from(path)
    assert not locate(module.f).exact
    facts_of(module.f)
    assert kept == {}
    cached.unlink()
    with pytest.raises(SourceError, match="changed since it was imported"):
        locate(module.f)


def test_a_file_is_parsed_once_by_many_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import threading

    from sterna.source import parsed

    count = []
    original = parsed.ParsedSource.__init__

    def counted(self: Any, *args: Any) -> None:
        count.append(1)
        original(self, *args)

    monkeypatch.setattr(parsed.ParsedSource, "__init__", counted)
    module = write_module(tmp_path, "".join(f"def f{n}(x):\n    return x + {n}\n" for n in range(8)))
    threads = [threading.Thread(target=facts_of, args=(getattr(module, f"f{n}"),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(count) == 1
    assert len({facts_of(getattr(module, f"f{n}")).digest for n in range(8)}) == 8
