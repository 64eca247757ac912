"""`anomaly drill`: inject simulated faults and show what was found, when, and what it would have paged."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anomaly.cli import options
from anomaly.cli.progress import progress

if TYPE_CHECKING:
    from anomaly.drill import Drilled

WORKERS = 2


@click.command("drill")
@click.argument("names", nargs=-1, metavar="[NAME]…")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=1, show_default=True, help="Draws everything.")
@click.option("--effect", type=click.IntRange(1, 200), metavar="PERCENT", help="By how much faults slow their job.")
@click.option("--export", type=options.PATH, metavar="DIR", help="Write metrics (OpenMetrics), topology and truth.")
@click.option("--plot", type=options.PATH, metavar="DIR", help="Write a picture per drill.")
@click.option("--notify", type=options.PATH, metavar="PIPELINE", help="Send what is found to its Alertmanager.")
@click.option("--list", "listed", is_flag=True, help="Show what drills there are, and run none.")
@options.output
def command(
    names: tuple[str, ...], seed: int, effect: int | None, export: Path | None, plot: Path | None,
    notify: Path | None, listed: bool, output: str,
) -> int:  # fmt: skip
    """Inject simulated faults into a small cluster and show what is found, when, and how loud.

    Each drill is an hour and more of 16 nodes, through the code that a service runs. Place, onset, effect and duration
    are drawn from the seed; the effect from 5, 10, 20 and 40 % of the step time where none is given. Drills are faults,
    which must be found in time, and expected noise, which must not alert. Without a name all of them run.

    It exits with 1 when a fault is missed or found too late. `small`: not found, and so small (less than a tenth of
    the step time) that nothing is due. `+2`: two more alerts should not have been. With --notify, alerts carry the
    label drill="true" and lapse by themselves.
    """
    from anomaly.drill import DRILLS, drill_all

    if listed:
        click.echo(_list(output))
        return 0
    _known(names, DRILLS)
    for folder in (export, plot):
        if folder is not None:
            _writable(folder)
    if plot is not None:
        from anomaly.drill.picture import available

        available()
    pipeline = None
    if notify is not None:
        from anomaly.config.load import load_pipeline

        pipeline = load_pipeline(notify)
    chosen = list(dict.fromkeys(names)) or list(DRILLS)
    share = None if effect is None else effect / 100
    with progress() as shown:
        shown("drills", 0.0)
        found = drill_all(
            chosen,
            seed,
            share,
            export=export,
            plot=plot,
            workers=WORKERS,
            done=lambda n: shown("drills", n / len(chosen)),
        )
    click.echo(_json(found, seed) if output == "json" else text(found))
    if pipeline is not None:
        from anomaly.clock import system_clock
        from anomaly.drill.notify import notify as send

        count = send(pipeline, [each for drilled in found for each in drilled.incidents], system_clock())
        options.said(f"{count} {'alert' if count == 1 else 'alerts'} labelled drill=true sent")
    return int(any(each.verdict in ("missed", "late") for each in found))


def text(found: Sequence["Drilled"]) -> str:
    """One line a drill, at most 100 columns, and what it comes to."""
    from anomaly.cli.tables import table

    headers = ["DRILL", "EFFECT", "EXPECTED", "FOUND", "AFTER", "LIMIT", "LEVEL", "VERDICT"]
    return f"{table(headers, [_row(each) for each in found], give=2)}\n\n{_summary(found)}"


def _row(each: "Drilled") -> list[str]:
    from anomaly.cli.tables import span

    expected = "nothing"
    if each.where is not None and each.expect != "none":
        expected = f"{each.where} {each.cause_family or 'slow'}"
    said = each.found or (each.wrong[0] if each.wrong else None)
    late = each.delay_s is not None
    return [
        each.name,
        "" if each.effect is None else f"{each.effect:.0%}",
        expected,
        "nothing" if said is None else f"{said.where} {said.cause}",
        span(round(1000 * each.delay_s)) if late and each.delay_s is not None else "",
        "" if each.limit_s is None else span(round(1000 * each.limit_s)),
        "" if said is None else said.loud,
        each.verdict + (f" +{len(each.wrong)}" if each.wrong else ""),
    ]


def _summary(found: Sequence["Drilled"]) -> str:
    faults = [each for each in found if each.where is not None]
    due = [each for each in faults if each.verdict != "small"]
    noise = [each for each in found if each.where is None]
    wrong = [said for each in found for said in each.wrong]
    victims = sum(said.kind == "victim" for said in wrong)
    pages = sum(said.loud == "page" for said in wrong if said.kind != "victim")
    parts = []
    if faults:
        parts.append(f"{sum(each.verdict == 'ok' for each in due)} of {len(due)} faults found in time")
    if noise:
        parts.append(f"{sum(each.verdict == 'ok' for each in noise)} of {len(noise)} kinds of noise left alone")
    tickets = len(wrong) - victims - pages
    parts.append(f"{_many(pages, 'false page')}, {_many(tickets, 'false ticket')}, {_many(victims, 'victim')} blamed")
    return "; ".join(parts)


def _many(count: int, what: str) -> str:
    return f"{count or 'no'} {what}{'' if count == 1 else 's'}"


def _json(found: Sequence["Drilled"], seed: int) -> str:
    return json.dumps({"seed": seed, "drills": [each.to_json() for each in found]}, indent=2, ensure_ascii=False)


def _list(output: str) -> str:
    from anomaly.cli.tables import span, table
    from anomaly.drill.about import about

    known = about()
    if output == "json":
        return json.dumps([vars(each) for each in known], indent=2, ensure_ascii=False)
    rows = [
        [each.name, each.expect, "" if each.limit_s is None else span(each.limit_s * 1000), each.text] for each in known
    ]
    return table(["DRILL", "ALERT", "LIMIT", "WHAT HAPPENS"], rows)


def _known(names: Sequence[str], drills: Sequence[str]) -> None:
    from difflib import get_close_matches

    for name in names:
        if name not in drills:
            near = get_close_matches(name, drills, 1)
            hint = f"did you mean {near[0]!r}?" if near else "`anomaly drill --list` shows them"
            raise click.UsageError(f"there is no drill {name!r}; {hint}")


def _writable(folder: Path) -> None:
    from anomaly.errors import UsageError

    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror}", "give another directory") from None
