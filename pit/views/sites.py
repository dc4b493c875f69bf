"""Sites: whether they take jobs, and the allocations that they were asked for."""

from pit.head.client import Head
from pit.ui import output
from pit.ui.render import records
from pit.ui.sanitize import sanitize
from pit.ui.tables import Column, Section
from pit.ui.times import local_time
from pit_protocol.answers.sites import Site, SiteAllocation

STYLES = {"online": "green", "offline": "red", "paused": "yellow", "in trouble": "yellow"}
COLUMNS = (
    Column("SITE", importance=9),
    Column("KIND", importance=5),
    Column("STATE", styles=STYLES, importance=9),
    Column("RUNS AS", importance=4),
    Column("RUNNING", importance=6),
    Column("WAITING", importance=6),
    Column("PROPERTIES", flexible=True, importance=3),
)


def show_sites(head: Head, as_json: bool) -> None:
    answer = head.sites()
    if as_json:
        output.show_json(answer)
    else:
        notes = {place: sanitize(site.trouble) for place, site in enumerate(answer.sites) if site.trouble}
        output.show_table(COLUMNS, [Section("", [_row(site) for site in answer.sites], notes=notes)])


def show_site(head: Head, name: str, as_json: bool) -> None:
    site = head.site(name)
    if as_json:
        output.show_json(site)
    else:
        output.show(_text(site))


def _row(site: Site) -> tuple[str, ...]:
    running = sum(each.state == "running" for each in site.allocations)
    return (
        sanitize(site.name),
        sanitize(site.kind),
        _state(site),
        sanitize(site.account or "-"),
        str(running),
        str(len(site.allocations) - running),
        _properties(site) or "-",
    )


def _state(site: Site) -> str:
    return "in trouble" if site.state == "online" and site.trouble else sanitize(site.state)


def _properties(site: Site) -> str:
    return sanitize(", ".join(f"{name}={value}" for name, value in site.properties.items()))


def _text(site: Site) -> str:
    pairs = [
        ("Site name", sanitize(site.name)),
        ("Kind", sanitize(site.kind)),
        ("State", _state(site).upper()),
        *([("Trouble", sanitize(site.trouble))] if site.trouble else []),
        ("Agent heard", local_time(site.since) if site.since else "never"),
        ("Jobs run as", sanitize(site.account or "-")),
        ("Properties", _properties(site) or "-"),
        ("Allocations", "" if site.allocations else "-"),
        *((f"  {sanitize(each.id or '-')}", _allocation(each)) for each in site.allocations),
    ]
    return records(pairs)


def _allocation(each: SiteAllocation) -> str:
    job = f"job {each.job}" if each.job is not None else f"a job of {each.user}"
    times = ""
    if each.ends_at:
        times = f", ends {local_time(each.ends_at)}"
    elif each.starts_at:
        times = f", about {local_time(each.starts_at)}"
    says = f"; {each.says}" if each.says else ""
    return sanitize(f"{each.state} for {job}: {each.text}{times}{says}")
