"""A program for tests: one short session on the blocking client of `websockets`, without any pause of its own."""

import base64
import json
import os
import sys
from pathlib import Path

from websockets.sync.client import connect

url, out = os.environ["CONFORMANCE_URL"], Path(os.environ["CONFORMANCE_OUT"])
print("secret:", os.environ.get("AN_API_KEY", "none"), "asked for:", os.environ.get("LAB_SETTING", "none"))
print("argv:", *sys.argv[1:])
opening = {
    "model": os.environ["CONFORMANCE_MODEL"],
    "modalities": ["text"],
    "extra_body": {"auto_response": True, "minicpmo45_native_duplex": True},
}
with connect(f"{url}?duplex=1&autostart=0&minicpmo45_native_duplex=1", compression=None, proxy=None) as ws:

    def send(kind, **fields):
        ws.send(json.dumps({"type": kind, **fields}))

    def wait_for(kind):
        while json.loads(ws.recv(timeout=20))["type"] != kind:
            pass

    send("session.update", session=opening)
    wait_for("session.created")
    row = json.loads(Path(os.environ["CONFORMANCE_SAMPLES"]).read_text())
    pictures = [
        (Path(os.environ["CONFORMANCE_SAMPLES"]).parent / name).read_bytes() for name in row["frames"]
    ]
    for number in range(1, max(4, len(pictures) + 1)):
        audio = base64.b64encode(bytes(32000)).decode()
        picture = {"video_frames": [base64.b64encode(pictures[number - 1]).decode()]} if pictures else {}
        send(
            "input_audio_buffer.append", audio=audio, duration_ms=1000, audio_end_ms=1000 * number, **picture
        )
    send("session.close")
    wait_for("session.closed")
(out / "RTD_Omni").mkdir()
(out / "RTD_Omni" / "1.json").write_text("[]")
