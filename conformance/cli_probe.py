"""`conformance probe` and `conformance probes`: what servers do where the sources are uncertain (docs/probes.md)."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conformance.cli_live import CaFile, Header, server_of
from conformance.exits import Exit

if TYPE_CHECKING:
    from conformance.options import RunOptions
    from conformance.probing.ask import Elsewhere
    from conformance.probing.table import Target
    from scenarios.model import Scenario

Names = Annotated[
    list[str] | None, typer.Argument(metavar="[PROBE]...", help="Ids or globs; default: all probes.")
]
Profiles = Annotated[
    list[str] | None, typer.Option("--profile", help="Of the mock server; may be repeated. Default: all.")
]


def register(app: typer.Typer) -> None:
    """Add the two commands."""
    app.command("probe")(probe)
    app.command("probes")(compare)


def probe(
    names: Names = None,
    profile: Profiles = None,
    url: Annotated[str | None, typer.Option(help="Ask this server instead, on the real clock.")] = None,
    model: Annotated[str | None, typer.Option(help="Model name, with --url.")] = None,
    api_key_env: Annotated[
        str | None, typer.Option("--api-key-env", metavar="VAR", help="Variable that holds the API key.")
    ] = None,
    ca_file: CaFile = None,
    header: Header = None,
    ref_audio: Annotated[Path | None, typer.Option("--ref-audio", metavar="WAV")] = None,
    question: Annotated[
        Path | None, typer.Option(metavar="WAV", help="With --url: spoken instead of the made clips.")
    ] = None,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the facts as JSON.")] = None,
    json: Annotated[bool, typer.Option("--json", help="The same JSON on standard output.")] = False,
    seed: Annotated[int, typer.Option(min=0)] = 1,
) -> None:
    """Ask a server what it does where the sources are uncertain; nothing is asserted."""
    from conformance.options import ConfigurationError, RunOptions
    from conformance.probing import table
    from conformance.report.publish import deliver
    from conformance.session import check_clock, check_outputs
    from scenarios import ScenarioError, load_catalogue, select

    try:
        options = RunOptions(seed=seed, ref_audio=ref_audio, clock="virtual" if url is None else "real")
        check_clock(options)
        check_outputs(None, [out] if out is not None else [])
        chosen = [s for s in select(load_catalogue(), names or []) if s.probe is not None]
        if not chosen:
            raise ConfigurationError(f"no probe among {' '.join(names or [])}; `conformance list 'probes/*'`")
        elsewhere = _elsewhere(url, model, (api_key_env, ca_file, header), question, profile)
        targets = _ask(chosen, options, profile or [], elsewhere)
    except (ScenarioError, ConfigurationError) as error:
        raise _refused(str(error)) from None
    print(table.dumps(targets) if json else "\n".join(table.lines(targets)))
    code = deliver([] if out is None else [(out, partial(table.write, targets=targets))])
    if any(target.failed for target in targets):
        code = max(code, Exit.FAILED if url is None else Exit.UNAVAILABLE)
    raise typer.Exit(int(code))


def compare(
    one: Annotated[Path, typer.Argument(metavar="A", help="A file of `conformance probe --out`.")],
    other: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    json: Annotated[bool, typer.Option("--json", help="The facts that differ, as JSON.")] = False,
) -> None:
    """Compare what two files of probes say; exit code 1 when servers were seen to do different things."""
    import orjson

    from conformance.options import ConfigurationError
    from conformance.probing import table

    try:
        targets = [*table.load(one), *table.load(other)]
    except ConfigurationError as error:
        raise _refused(str(error)) from None
    unlike = table.differing(targets)
    if json:
        rows = [
            {"fact": name, "values": [{"target": t.name, "value": t.facts.get(name)} for t in targets]}
            for name in unlike
        ]
        print(orjson.dumps(rows, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(table.lines(targets)))
        print(f"\n{len(unlike)} of {len(table.facts_of(targets))} facts differ")
    if unlike:
        raise typer.Exit(int(Exit.FAILED))


def _refused(message: str) -> typer.Exit:
    typer.echo(f"conformance: {message}", err=True)
    return typer.Exit(int(Exit.USAGE))


def _ask(
    chosen: list[Scenario], options: RunOptions, profiles: list[str], elsewhere: Elsewhere | None
) -> list[Target]:
    from conformance.options import ConfigurationError
    from conformance.probing.ask import run_probe
    from conformance.probing.table import target_of
    from mockserver.profiles import PROFILES

    if elsewhere is not None:
        return [target_of(elsewhere.url, [run_probe(s, options, elsewhere=elsewhere) for s in chosen])]
    for name in profiles:
        if name not in PROFILES:
            raise ConfigurationError(f"no profile {name!r}; known: {', '.join(PROFILES)}")
    return [
        target_of(f"mock {name}", [run_probe(s, options, profile=name) for s in chosen])
        for name in profiles or PROFILES
    ]


def _elsewhere(
    url: str | None,
    model: str | None,
    access: tuple[str | None, Path | None, list[str] | None],
    question: Path | None,
    profiles: list[str] | None,
) -> Elsewhere | None:
    from client.input_errors import MediaError
    from client.wav import read_pcm16
    from conformance.clients.builtin import MODEL
    from conformance.options import ConfigurationError
    from conformance.probing.ask import Elsewhere

    api_key_env, ca_file, header = access
    if url is None:
        given = (
            ("--model", model),
            ("--api-key-env", api_key_env),
            ("--ca-file", ca_file),
            ("--header", header),
        )
        for name, value in (*given, ("--question", question)):
            if value:
                raise ConfigurationError(f"{name} is for a server elsewhere; give --url")
        return None
    if profiles:
        raise ConfigurationError("--profile is of the mock server; leave it out with --url")
    server = server_of(url, model or MODEL, api_key_env, ca_file, header)
    try:
        pcm = read_pcm16(question, str(question)) if question is not None else None
    except MediaError as error:
        raise ConfigurationError(str(error)) from None
    return Elsewhere(server.url, server.model, server.headers, pcm, server.tls())
