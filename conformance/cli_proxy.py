"""`conformance proxy`: faults in the path of any client to any server (docs/live.md)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from conformance import cli_live as live


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("proxy")(proxy)


def proxy(
    url: live.Url = None,
    scenario: Annotated[
        str | None, typer.Option(help="Play the faults of this scenario (id or file).")
    ] = None,
    model: live.Model = live.MODEL,
    api_key_env: live.ApiKeyEnv = None,
    ca_file: live.CaFile = None,
    header: live.Header = None,
    judge_url: live.JudgeUrl = None,
    judge_model: live.JudgeModel = live.JUDGE_MODEL,
    judge_api_key_env: live.JudgeKeyEnv = None,
    judge_ca_file: live.JudgeCaFile = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Of the proxy; 0: a free one, printed.")] = 0,
    judge_port: Annotated[
        int, typer.Option("--judge-port", min=0, max=65535, help="Of the judge; 0: a free one, printed.")
    ] = 0,
    max_sessions: Annotated[
        int | None, typer.Option("--max-sessions", min=1, max=256, help="Sessions open at a time; more wait.")
    ] = None,
    journal: Annotated[
        Path | None, typer.Option(help="Write what goes by and what is done to it as NDJSON.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of injected ids and of all chance.")] = 1,
) -> None:
    """Stand between any client and a server, and play a scenario's faults in the path. Ctrl-C ends it."""
    from conformance.live.proxying import ProxyOptions, proxy_until_stopped
    from conformance.options import ConfigurationError
    from scenarios import ScenarioError

    try:
        options = ProxyOptions(
            live.server_of(url, model, api_key_env, ca_file, header),
            scenario=scenario,
            judge=live.judge_of(judge_url, judge_model, judge_api_key_env, "video_url", judge_ca_file),
            port=port,
            judge_port=judge_port,
            max_sessions=max_sessions,
            journal=journal,
            seed=seed,
        )
        code = proxy_until_stopped(options)
    except (ScenarioError, ConfigurationError) as error:
        raise live.refused(str(error)) from None
    raise typer.Exit(int(code))
