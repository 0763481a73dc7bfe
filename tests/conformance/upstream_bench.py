"""A stand-in for the upstream benchmark's command line (evaluation.md 21): the same options, the same files.

Behind it works the complete client of docs/examples. It refuses what upstream refuses, makes its readiness and warm-up
sessions before the measured ones, and leaves its answers under `run-*`.
"""

import argparse
import asyncio
import importlib.util
import json
import math
import sys
import types
import uuid
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "complete_client.py"
PREFIX = "--duplex-eval-"


def positive(text):
    """A finite number above zero."""
    value = float(text)
    if not (math.isfinite(value) and value > 0):
        raise argparse.ArgumentTypeError(f"{text}: expected a finite number above 0")
    return value


def parser():
    """The options that evaluation.md 21 names, and those of the benchmark it belongs to that are used with them."""
    options = argparse.ArgumentParser(prog="vllm bench serve", allow_abbrev=False)
    options.add_argument("command", choices=["bench"])
    options.add_argument("subcommand", choices=["serve"])
    for name in ("--model", "--base-url", "--dataset-path"):
        options.add_argument(name, required=True)
    options.add_argument("--backend", required=True, choices=["openai-realtime-duplex"])
    options.add_argument("--endpoint", required=True, choices=["/v1/realtime"])
    options.add_argument("--dataset-name", required=True, choices=["omni-duplex-eval"])
    options.add_argument("--num-prompts", type=int, default=3)
    options.add_argument("--num-warmups", type=int, default=0)
    options.add_argument("--max-concurrency", type=int, default=1)
    options.add_argument("--ready-check-timeout-sec", type=float, default=600)
    options.add_argument("--omni-request-timeout-s", type=float, default=900)
    options.add_argument("--seed", type=int, default=0)
    for name in ("--disable-shuffle", "--save-result", "--save-detailed", f"{PREFIX}evaluate"):
        options.add_argument(name, action="store_true")
    options.add_argument("--result-dir", default=".")
    options.add_argument("--result-filename", default="result.json")
    options.add_argument(f"{PREFIX}ref-audio", required=True)
    options.add_argument(f"{PREFIX}response-root", required=True)
    for name in ("split", "family", "media-root", "judge-base-url", "judge-model", "judge-api-key"):
        options.add_argument(PREFIX + name)
    options.add_argument(f"{PREFIX}ids", nargs="*")
    for name in ("fps", "judge-timeout-s", "judge-fps", "window-size", "eval-workers"):
        options.add_argument(PREFIX + name, type=positive)
    options.add_argument(f"{PREFIX}judge-video-mode", choices=["video_url", "frame-sample"])
    return options


def checked(options):
    """The options, or the program ends as upstream's does."""
    asked = options.parse_args()
    if asked.num_prompts < 0 or asked.max_concurrency <= 0:
        options.error("negative --num-prompts or non-positive --max-concurrency")
    if not Path(asked.duplex_eval_ref_audio).is_file():
        options.error(f"{PREFIX}ref-audio: no file {asked.duplex_eval_ref_audio}")
    if asked.duplex_eval_evaluate and not asked.duplex_eval_judge_model:
        options.error(f"{PREFIX}evaluate needs {PREFIX}judge-model")
    return asked


async def serve(asked, client):
    """The benchmark: sessions one after another, artifacts when the last is over, the result."""
    root = Path(asked.duplex_eval_response_root) / f"run-{uuid.uuid4().hex[:12]}"
    job = types.SimpleNamespace(
        url=asked.base_url.replace("http", "ws", 1) + asked.endpoint,
        model=asked.model,
        ref_audio=asked.duplex_eval_ref_audio,
        samples=asked.dataset_path,
        out=str(root),
    )
    samples = client.samples_of(job)[: asked.num_prompts or None]
    before = asked.num_warmups + (1 if asked.ready_check_timeout_sec > 0 else 0)
    unpublished = types.SimpleNamespace(**{**vars(job), "out": str(root / ".warm-up")})
    for _ in range(before):
        await client.answer(unpublished, samples[0])
    metas = [await client.answer(job, sample) for sample in samples]
    errors = [meta["error"] for meta in metas]
    block = {
        "response_root": str(root),
        "published": errors.count(""),
        "artifact_errors": [],
        "duplex_retried_samples": sum(meta["retry_count"] > 0 for meta in metas),
        "duplex_retry_count": sum(meta["retry_count"] for meta in metas),
    }
    (root / "duplex_metrics.json").write_text(json.dumps({"duplex_request_metrics": []}))
    result = {
        "completed": errors.count(""),
        "failed": len(metas) - errors.count(""),
        "omni_duplex_eval": block,
    }
    if asked.save_detailed:
        result["errors"] = errors
    if asked.save_result:
        (Path(asked.result_dir) / asked.result_filename).write_text(json.dumps(result))


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("complete_client", EXAMPLE)
    complete = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(complete)
    asyncio.run(serve(checked(parser()), complete))
    sys.exit(0)
