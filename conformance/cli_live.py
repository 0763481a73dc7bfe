"""Commands for a live server: `preflight` (docs/live.md)."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from conformance.exits import Exit

if TYPE_CHECKING:
    from client.judge.settings import JudgeSettings
    from conformance.live.server import LiveServer

Url = Annotated[str | None, typer.Option(help="ws:// or wss:// URL of the realtime endpoint.")]
Model = Annotated[str, typer.Option(help="Name of the model that sessions ask for.")]
RefAudio = Annotated[Path | None, typer.Option("--ref-audio", metavar="WAV", help="Reference voice.")]
ApiKeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="VAR", help="Variable that holds the API key.")
]
CaFile = Annotated[
    Path | None, typer.Option("--ca-file", metavar="PEM", help="Trust these instead of the system's.")
]
Header = Annotated[
    list[str] | None,
    typer.Option(metavar="'NAME: VALUE'", help="Sent with every request; VALUE may be env:VARIABLE."),
]
JudgeUrl = Annotated[str | None, typer.Option("--judge-url", help="Base URL of the judge.")]
JudgeModel = Annotated[str, typer.Option("--judge-model", help="Name of the judge model.")]
JudgeKeyEnv = Annotated[
    str | None, typer.Option("--judge-api-key-env", metavar="VAR", help="Variable that holds its key.")
]
JudgeVideoMode = Annotated[str, typer.Option("--judge-video-mode", help="video_url or frame-sample.")]
MODEL = "openbmb/MiniCPM-o-4_5"
JUDGE_MODEL = "judge-model"


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("preflight")(preflight)


def _refused(message: str) -> typer.Exit:
    print(f"conformance: {message}", file=sys.stderr)
    return typer.Exit(int(Exit.USAGE))


def server_of(
    url: str | None, model: str, api_key_env: str | None, ca_file: Path | None, header: list[str] | None
) -> LiveServer:
    """The server of a command line; the environment is read here and nowhere below.

    Raises ConfigurationError: see `conformance.live.server.live_server`.
    """
    from conformance.live.server import live_server

    return live_server(
        url,
        model,
        api_key_env=api_key_env,
        ca_file=ca_file,
        header=header or [],
        environment=os.environ,
    )


def judge_of(url: str | None, model: str, key_env: str | None, video_mode: str) -> JudgeSettings | None:
    """The judge of a command line; None: none was named.

    Raises ConfigurationError: a setting that cannot work.
    """
    from client.judge.settings import JudgeSettings
    from conformance.live.server import secret_of
    from conformance.options import ConfigurationError

    if url is None:
        return None
    key = secret_of("--judge-api-key-env", key_env, os.environ) if key_env is not None else "EMPTY"
    settings = JudgeSettings(
        base_url=url,
        model=model,
        api_key=key,
        timeout_s=30.0,
        video_mode=video_mode,  # type: ignore[arg-type]  # checked below
    )
    try:
        settings.check()
    except ValueError as error:
        raise ConfigurationError(f"--judge-…: {error}") from None
    return settings


def preflight(
    url: Url = None,
    model: Model = MODEL,
    ref_audio: RefAudio = None,
    api_key_env: ApiKeyEnv = None,
    ca_file: CaFile = None,
    header: Header = None,
    dataset: Annotated[
        list[Path] | None, typer.Option(metavar="PATH", help="A dataset folder to open; may be repeated.")
    ] = None,
    judge_url: JudgeUrl = None,
    judge_model: JudgeModel = JUDGE_MODEL,
    judge_api_key_env: JudgeKeyEnv = None,
    judge_video_mode: JudgeVideoMode = "video_url",
    json: Annotated[bool, typer.Option("--json", help="The report as one JSON object.")] = False,
) -> None:
    """Look at a live server, layer by layer, before anything is spent on it; a minute at most."""
    import asyncio

    from conformance.live.preflight import Inputs, fly
    from conformance.options import ConfigurationError

    try:
        server = server_of(url, model, api_key_env, ca_file, header)
        judge = judge_of(judge_url, judge_model, judge_api_key_env, judge_video_mode)
    except ConfigurationError as error:
        raise _refused(str(error)) from None
    report = asyncio.run(fly(server, Inputs(ref_audio, tuple(dataset or ()), judge)))
    if json:
        import orjson

        print(orjson.dumps(report.to_json(), option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join(report.lines()))
    if report.problem is not None:
        raise typer.Exit(int(Exit.USAGE if report.problem.usage else Exit.UNAVAILABLE))
