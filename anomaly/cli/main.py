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
    "init": "Write a starter pipeline, model spec and notebooks.",
    "check": "Validate a pipeline file; say what Prometheus has of it.",
    "run": "Run the service: collect, score, deliver on schedule.",
    "collect": "Pull what is new from Prometheus into the store, once.",
    "score": "Score what has been collected, once, and deliver.",
    "train": "Fit the isolation forest on what has been collected, once.",
    "backtest": "Show what would have been said about the past.",
    "drill": "Inject simulated faults and show what is found.",
    "demo": "Show the whole thing on a simulated cluster.",
    "incidents": "List incidents that a service has published.",
    "explain": "Tell one incident: who, since when, why, who else, what next.",
    "why": "Tell why a node was paged, or was not, at some time.",
    "mark": "Label an incident: real, false, maintenance or known.",
    "close": "End an incident by hand; its alert resolves.",
    "offenders": "List the nodes that come back, worst first.",
    "report": "Sum up a period: pages, tickets, labels, what was set aside.",
    "doctor": "Check state, database, clock and all that is talked to.",
}
"""Command → what it does in a line, in the order of the help page; `anomaly.cli.<name>` holds it as `command`."""

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
        found: click.Command = import_module(f"anomaly.cli.{cmd_name}").command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

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
