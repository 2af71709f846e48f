"""Fresh processes: each session is a new interpreter with its own modules and a given store.

A session script reports by `report(name=value, …)`; the last report comes back as a dict.  The compiler can be
made unimportable, to show that none is needed: all of it, or only the packages that the slim installation lacks.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PRELUDE = """
import json as _json, sys as _sys
def report(**values):
    print("@@" + _json.dumps(values), flush=True)
"""
_HIDE_ALL = '_hidden = ("llvmlite.", "sterna.compiler")'
_HIDE_PACKAGES = '_hidden = ("llvmlite.",)'
_BLOCK = """
class _Refuse:
    def find_spec(self, name, path=None, target=None):
        if name == "llvmlite" or name.startswith(_hidden):
            raise ImportError(name + " is not available in this session")
_sys.meta_path.insert(0, _Refuse())
"""


@dataclass(slots=True)
class Sessions:
    """A folder of user modules and a store, shared by the sessions started from it."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        """The store all sessions share."""
        return self.folder / "store"

    @property
    def modules(self) -> Path:
        """Where the user's modules are."""
        return self.folder / "modules"

    def write(self, **sources: str) -> None:
        """Write modules; `name="source"` makes ``name.py``."""
        self.modules.mkdir(parents=True, exist_ok=True)
        for name, source in sources.items():
            (self.modules / f"{name}.py").write_text(source)

    def run(
        self,
        script: str,
        *,
        compiler: bool | str = True,
        hash_seed: int | str = "random",
        env: dict[str, str] | None = None,
        python_args: tuple[str, ...] = (),
        check: bool = True,
    ) -> dict[str, Any]:
        """Run `script` in a fresh interpreter; its last report, with ``stderr`` added.

        `compiler` may be ``"slim"``: Sterna is whole, and llvmlite is not installed.
        """
        hide = "" if compiler is True else (_HIDE_PACKAGES if compiler == "slim" else _HIDE_ALL) + _BLOCK
        result = self.start(PRELUDE + hide + script, hash_seed=hash_seed, env=env, python_args=python_args)
        if check and result.returncode != 0:
            raise AssertionError(f"session failed ({result.returncode}):\n{result.stdout}\n{result.stderr}")
        reports = [line[2:] for line in result.stdout.splitlines() if line.startswith("@@")]
        values: dict[str, Any] = json.loads(reports[-1]) if reports else {}
        values["stderr"] = result.stderr
        values["returncode"] = result.returncode
        return values

    def start(
        self,
        script: str,
        *,
        hash_seed: int | str = "random",
        env: dict[str, str] | None = None,
        python_args: tuple[str, ...] = (),
    ) -> subprocess.CompletedProcess[str]:
        """Run a script file as it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        main = self.folder / "session_main.py"
        main.write_text(script)
        return subprocess.run(
            [sys.executable, *python_args, str(main)],
            env=self.environment(hash_seed, env), capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    def environment(self, hash_seed: int | str = "random", env: dict[str, str] | None = None) -> dict[str, str]:
        """Environment of a session: the shared store, the user's modules, nothing of Sterna's from outside."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("STERNA_") and k != "PYTHONUNBUFFERED"}
        package = Path(__import__("sterna").__file__).parent.parent
        path = os.pathsep.join([str(self.modules), str(package)])
        return {
            **inherited,
            "STERNA_CACHE_DIR": str(self.store),
            "PYTHONPATH": path,
            "PYTHONHASHSEED": str(hash_seed),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
            **(env or {}),
        }

    def images(self) -> dict[str, bytes]:
        """All stored images: file name → bytes."""
        return {p.name: p.read_bytes() for p in sorted(self.store.rglob("*.image"))}
