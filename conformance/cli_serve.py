"""`conformance serve`: the mock server for humans and for other clients (docs/serve.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance.exits import Exit


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    scenario: Annotated[
        str | None, typer.Option(help="Play this scenario (id or file) on every connection.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="How the server behaves; default: as the scenario says, or july.")
    ] = None,
    pace: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=NUMBER", help="rtf, first_token_ms or jitter_ms; may be repeated."),
    ] = None,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", min=1, max=1000, help="Sessions at a time.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to bind; loopback by default.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: a free one, printed.")] = 0,
    judge_port: Annotated[
        int, typer.Option("--judge-port", min=0, max=65535, help="Of the judge; 0: a free one, printed.")
    ] = 0,
    journal: Annotated[
        Path | None, typer.Option(help="Write what the server sees and does as NDJSON.")
    ] = None,
    token_env: Annotated[
        str | None,
        typer.Option(
            "--token-env",
            metavar="VAR",
            help="Variable that holds the token of the control API; none is needed on loopback.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="PEM", help="Sessions by wss, with this certificate.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="PEM", help="Its key.")] = None,
    api_key_env: Annotated[
        str | None,
        typer.Option("--api-key-env", metavar="VAR", help="Variable that holds the key that sessions need."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of ids and jitter.", min=0)] = 1,
) -> None:
    """The mock server, the judge and a control API, on the real clock, for any client. Ctrl-C stops them."""
    from conformance.options import ConfigurationError
    from conformance.serve_options import ServeOptions
    from conformance.serving import serve_until_stopped
    from scenarios import ScenarioError

    options = ServeOptions(
        scenario=scenario,
        profile=profile,
        pace=pace or [],
        max_sessions=max_sessions,
        host=host,
        port=port,
        judge_port=judge_port,
        journal=journal,
        token_env=token_env,
        tls_cert=tls_cert,
        tls_key=tls_key,
        api_key_env=api_key_env,
        seed=seed,
    )
    try:
        code = serve_until_stopped(options)
    except (ScenarioError, ConfigurationError) as error:
        typer.echo(f"conformance: {error}", err=True)
        raise typer.Exit(int(Exit.USAGE)) from None
    raise typer.Exit(int(code))
