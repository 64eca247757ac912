"""The entry point: which commands there are, found and imported only when asked for."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from anomaly import __version__
from anomaly.cli.failures import exit_code_of
from anomaly.cli.options import UMASK

COMMANDS: dict[str, str] = {
    "init": "anomaly.cli.init",
    "check": "anomaly.cli.check",
    "run": "anomaly.cli.run",
    "collect": "anomaly.cli.collect",
    "score": "anomaly.cli.score",
    "train": "anomaly.cli.train",
    "backtest": "anomaly.cli.backtest",
    "drill": "anomaly.cli.drill",
    "demo": "anomaly.cli.demo",
    "incidents": "anomaly.cli.incidents",
    "explain": "anomaly.cli.explain",
    "why": "anomaly.cli.why",
    "mark": "anomaly.cli.mark",
    "close": "anomaly.cli.close",
    "offenders": "anomaly.cli.offenders",
    "report": "anomaly.cli.report",
    "doctor": "anomaly.cli.doctor",
}
"""Command → the module that holds it under the name `command`, in the order of the help page."""

COMPLETE = "_ANOMALY_COMPLETE"
"""Set by the shell that wants a command line completed."""


class Program(click.Group):
    """Loads commands lazily, suggests the nearest one, and turns every error into a paragraph and an exit code."""

    debug = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        found: click.Command = import_module(COMMANDS[cmd_name]).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            near = get_close_matches(name, COMMANDS, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
            raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)
        return super().resolve_command(ctx, args)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "anomaly",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> NoReturn:
        words = list(sys.argv[1:] if args is None else args)
        name = prog_name or "anomaly"
        # State is its user's alone, DuckDB's write-ahead log included, which follows the umask.
        before = os.umask(0o077)

        def call() -> Any:
            if COMPLETE in os.environ:  # the shell asks, not a person: click answers by itself
                return click.Group.main(self, words, name, complete_var, standalone_mode, **extra)
            try:
                with self.make_context(name, words, **extra) as ctx:
                    ctx.meta[UMASK] = before
                    return self.invoke(ctx)
            except click.exceptions.Exit as done:
                return done.exit_code

        self.debug = os.environ.get("ANOMALY_DEBUG", "") not in ("", "0")
        try:
            sys.exit(exit_code_of(call, lambda: self.debug))
        finally:
            os.umask(before)


def _debug(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value and isinstance(ctx.command, Program):
        ctx.command.debug = True


def _colour() -> bool | None:
    """False or True as the environment says; None: only on a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


@click.group(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Data goes to standard output, everything else to standard error. Exit codes: 0 ok, 1 failed, 2 usage, "
    "3 configuration, 4 Prometheus or a receiver does not answer as it should. Shell completion: "
    'eval "$(_ANOMALY_COMPLETE=bash_source anomaly)", likewise zsh_source and fish_source.',
)
@click.version_option(__version__, "--version", message="anomaly %(version)s")
@click.option(
    "--debug",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_debug,
    help="Show where in the program an error came from (also ANOMALY_DEBUG=1).",
)
@click.pass_context
def main(ctx: click.Context) -> None:
    """Which node of a GPU training cluster is bad, since when, why, and who else is affected.

    Begin with `anomaly demo`, which needs nothing, or with `anomaly check PIPELINE --against` on your own Prometheus.
    """
    ctx.color = _colour()


if __name__ == "__main__":
    main()
