"""The judge before anything is spent: it serves the model, and answers a text, a picture and a file with a verdict."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

from client.judge.errors import JudgeAwayError, JudgeError, JudgeHttpError, JudgeTimeout
from client.judge.http import JudgeHttp, check_status
from client.judge.judge import body_of, image_part, user_message, video_part
from client.judge.parsing import Kind, read_reply
from client.judge.prompts import content_text, correction_text, temporal_text
from client.judge.replies import reply_of
from client.judge.settings import JudgeSettings
from conformance.live.layers import MAX_BODY_BYTES, model_names, require_model
from conformance.live.problem import Problem, Step
from scenarios.clips import make_frames
from scenarios.model import Clip

SEEN = "A grey square is shown."


async def check_judge(settings: JudgeSettings, clip: Path | None) -> list[Step]:
    """Ask the judge once in each way that an evaluation will.

    Args:
        clip: a video file that the judge must be able to open, in `video_url` mode; None: none is at hand.
    Raises Problem: naming the request that failed.
    """
    steps = [await _served(settings)]
    async with JudgeHttp(settings, random.Random(0)) as http:
        text = correction_text(instruction="Say what you see.", reference=SEEN, answer=SEEN)
        steps.append(await _asked(http, "judge text", "chat", text, ()))
        (jpeg,) = make_frames(Clip(seconds=1.0), 0, "preflight")
        text = temporal_text(start_s=0.0, end_s=1.0, instruction="Say what you see.", sentence=SEEN)
        steps.append(await _asked(http, "judge image", "temporal", text, (image_part(jpeg),)))
        if settings.video_mode == "video_url":
            steps.append(await _asked_of_file(http, clip))
    return steps


async def _served(settings: JudgeSettings) -> Step:
    base = JudgeHttp(settings, random.Random(0)).url.removesuffix("/chat/completions")
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    headers = {"Authorization": f"Bearer {settings.api_key}"}
    try:
        async with (
            aiohttp.ClientSession(trust_env=False) as http,
            asyncio.timeout(10.0),
            http.get(
                f"{base}/models", headers=headers, allow_redirects=False, ssl=settings.tls or True
            ) as answer,
        ):
            status, body = answer.status, await answer.content.read(MAX_BODY_BYTES)
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise Problem(
            "judge",
            f"{base} does not answer ({type(error).__name__})",
            "is the judge running, and --judge-url right?",
        ) from error
    if status in (401, 403):
        raise Problem("judge", f"{status}: it wants another key", "give --judge-api-key-env VAR")
    names = model_names(body) if status == 200 else None
    if names is None:
        return Step("judge models", f"/models answers {status}; the model was not checked", warns=True)
    require_model(settings.model, names, "judge", "--judge-model")
    return Step("judge models", f"{settings.model} is served", loop.time() - since_s)


async def _asked(http: JudgeHttp, layer: str, kind: Kind, text: str, parts: Sequence[Any]) -> Step:
    loop = asyncio.get_running_loop()
    since_s = loop.time()
    try:
        answer = await http.exchange(body_of(http.settings, [user_message(text, parts)]), "preflight")
        check_status(answer)
        verdict = read_reply(reply_of(answer.body), kind)
    except JudgeTimeout as error:
        raise Problem(layer, str(error), "the judge is overloaded or loading") from error
    except JudgeAwayError as error:
        raise Problem(layer, str(error), "is it running, and --judge-url right?") from error
    except JudgeHttpError as error:
        told = http.masked(error.body[:200])
        raise Problem(layer, f"HTTP {error.status}: {told}", _hint(layer, error.status)) from error
    except JudgeError as error:
        raise Problem(
            layer,
            http.masked(str(error)),
            "the reply is no verdict: is it a chat model that follows a format? is max_tokens enough?",
        ) from error
    score = next(iter(verdict.values()))
    return Step(layer, f"a verdict ({score:g}) after {loop.time() - since_s:.2f} s", loop.time() - since_s)


def _hint(layer: str, status: int) -> str:
    if status in (401, 403):
        return "give --judge-api-key-env VAR"
    if layer == "judge image":
        return "the judge takes no pictures: is it a multimodal model? are images allowed (--limit-mm-per-prompt)?"
    if layer == "judge video":
        return (
            "it cannot open our files: start it with --allowed-local-media-path, share the folder, "
            "or use --judge-video-mode frame-sample"
        )
    return "see the judge's log"


async def _asked_of_file(http: JudgeHttp, clip: Path | None) -> Step:
    text = content_text(evidence="video_url", instruction="Say what you see.", answer=SEEN, references=())
    with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
        path = clip if clip is not None else tiny_video(Path(folder) / "preflight.mp4")
        if path is None:
            return Step("judge video", "not tried: no video at hand (give --dataset)", warns=True)
        return await _asked(http, "judge video", "content", text, (video_part(path.resolve().as_uri()),))


def tiny_video(path: Path) -> Path | None:
    """One second of grey, as a file; None: the library that writes video is not installed."""
    try:
        import av
    except ImportError:
        return None
    import numpy as np

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=5)
        stream.width, stream.height, stream.pix_fmt = 64, 64, "yuv420p"
        for _ in range(5):
            frame = av.VideoFrame.from_ndarray(np.full((64, 64, 3), 128, dtype=np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
