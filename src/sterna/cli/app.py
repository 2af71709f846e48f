"""The commands and their options; what they do is in the module of the same name."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sterna.errors import SternaError

__all__ = ["app"]

app = typer.Typer(
    name="sterna",
    help="Python kernels that migrate: compiled once, stored, loaded in a fresh process with no compiler there.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
cache_app = typer.Typer(help="The user's cache of kernel images.", no_args_is_help=True)
app.add_typer(cache_app, name="cache")


def _fail(error: Exception) -> typer.Exit:
    # typer.echo rather than rich: a compile error's caret must not be wrapped
    typer.echo(f"sterna: {error}", err=True)
    return typer.Exit(1)


@app.command()
def demo(
    picture: Annotated[
        Path | None, typer.Argument(help="Any image; by default the portrait in matplotlib's sample data.")
    ] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for what it writes.")] = Path("sterna-demo"),
    monochrome: Annotated[bool, typer.Option("--monochrome", help="Develop on monochrome film.")] = False,
) -> None:
    """Develop a photograph, then again in a fresh process where nothing can be compiled."""
    from sterna.cli.demo import DemoError, run_demo

    try:
        run_demo(picture, output, monochrome, Console())
    except (DemoError, SternaError) as error:
        raise _fail(error) from None


@app.command()
def info(
    as_json: Annotated[bool, typer.Option("--json", help="Print plain data.")] = False,
) -> None:
    """Show versions, targets, devices, store locations, hits and misses."""
    import sterna
    from sterna.cli.info import show

    facts = sterna.stats()
    if as_json:
        import json

        typer.echo(json.dumps(facts, indent=2))
    else:
        show(facts, Console())


@app.command()
def inspect(
    kernel: Annotated[str, typer.Argument(help="module:kernel, or path/to/file.py:kernel")],
    types: Annotated[str, typer.Option("--types", "-t", help="Argument types: 'float32[:], float32[:, :], int'")] = "",
    form: Annotated[
        str, typer.Option("--as", help="ir, llvm, asm, ptx, sass, spirv, msl, types, image or relocations.")
    ] = "ir",
    over: Annotated[int, typer.Option("--over", help="Axes of an over(shape) launch; 0: explicit blocks.")] = 0,
    arch: Annotated[str, typer.Option("--arch", help="Build for this architecture, with no device: sm_90.")] = "",
) -> None:
    """Compile a kernel for given argument types and print what was built."""
    from sterna.cli.inspect import InspectError, inspect_kernel

    try:
        typer.echo(inspect_kernel(kernel, types, form, over, arch))
    except (InspectError, SternaError) as error:
        raise _fail(error) from None


@app.command()
def check(
    package: Annotated[str, typer.Argument(help="A package or module to import, or a path/to/package.")],
    least: Annotated[int, typer.Option("--least", help="Fail if fewer functions than this were compiled.")] = 0,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show what was not compiled, and why.")] = False,
) -> None:
    """Find functions of devices that a package's host code needs; exit code 1 if there are any.

    Every function whose parameters are annotated with device types is compiled for the CPU as code of the host.
    """
    from sterna.cli.check import importable, show
    from sterna.leaks import check_package

    try:
        found = check_package(importable(package))
    except (ImportError, SternaError) as error:
        raise _fail(error) from None
    show(found, verbose, Console())
    if len(found.compiled) < least:
        raise _fail(ValueError(f"{len(found.compiled)} functions were compiled, at least {least} are asked for"))
    if found.leaks:
        raise typer.Exit(1)


@cache_app.command("path")
def cache_path() -> None:
    """Print where the cache is."""
    from sterna.cli.cache import cache_folder

    typer.echo(cache_folder() or "no cache: it is switched off, or there is no folder for it")


@cache_app.command("clear")
def cache_clear() -> None:
    """Remove every image and index entry of the cache."""
    from sterna.cli.cache import clear_cache

    removed, folder = clear_cache()
    typer.echo(f"removed {removed} files from {folder}" if folder else "no cache to clear")
