"""The ``evr`` command: one module per subcommand, nothing heavy imported before a command runs.

Exit codes: 0 done, 1 a fault (with its traceback), 2 something the user can mend (one message), 130 interrupted.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from evr_apps.commands import cache, config, demo, evaluate, merge, preprocess, report, sft, train
from evr_apps.errors import user_message

app = typer.Typer(
    name="evr",
    help="Reinforcement-learning post-training of video-language models, and their evaluation.",
    epilog="Start with: evr demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(demo.app, name="demo")
app.command("preprocess", epilog=preprocess.EXAMPLE)(preprocess.preprocess)
app.command("sft", epilog=sft.EXAMPLE)(sft.sft)
app.command("train", epilog=train.EXAMPLE)(train.train)
app.command("eval", epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command("merge", epilog=merge.EXAMPLE)(merge.merge)
app.command("report", epilog=report.EXAMPLE)(report.report)
app.add_typer(config.app, name="config")
app.add_typer(cache.app, name="cache")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"evr {version('evr-apps')}")
        raise typer.Exit


@app.callback()
def _root(
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Log what happens, on standard error.")] = False,
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    import logging

    logging.basicConfig(
        level=logging.INFO if verbose else logging.WARNING, format="%(levelname)s %(name)s: %(message)s"
    )


def main() -> None:
    """Runs the command line; the entry point of ``evr``."""
    try:
        app()
    except (ValueError, OSError) as error:
        message = user_message(error)
        if message is None:
            raise
        from evr_apps.commands.console import complain

        complain(message)
        sys.exit(2)
