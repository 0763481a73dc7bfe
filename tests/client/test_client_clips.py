"""Frames of a clip at any time (evaluation.md 2, 16.2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

av = pytest.importorskip("av")

import numpy as np  # noqa: E402

from client.clips import FrameStore, VideoClip  # noqa: E402
from client.frames import extract_at, probe_duration_s  # noqa: E402
from client.input_errors import MediaError  # noqa: E402
from client.media import MediaSource  # noqa: E402


def video(path: Path, seconds: int = 4, rate: int = 2) -> Path:
    """A clip whose picture k has the grey value 40 + 20 k."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=rate)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for k in range(seconds * rate):
            picture = av.VideoFrame.from_ndarray(np.full((48, 64, 3), 40 + 20 * k, np.uint8), format="rgb24")
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))
    return path


def grey(jpeg: bytes) -> int:
    with av.open(__import__("io").BytesIO(jpeg), format="mjpeg") as image:
        (picture,) = image.decode(video=0)
        return round(float(picture.to_ndarray(format="gray").mean()))


def number(jpeg: bytes) -> int:
    return round((grey(jpeg) - 40) / 20)


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return video(tmp_path_factory.mktemp("clip") / "c.mp4")


def test_each_time_gets_the_first_picture_at_or_after_it_and_the_last_beyond_the_end(clip: Path) -> None:
    found = extract_at(clip, "c", [3.99, 0.0, 0.01, 1.0, 1.2, 0.0])

    assert {t_s: number(jpeg) for t_s, jpeg in found.items()} == {0.0: 0, 0.01: 1, 1.0: 2, 1.2: 3, 3.99: 7}
    assert probe_duration_s(clip, "c") == pytest.approx(4.0, abs=0.3)


def test_bytes_serve_as_well_as_a_file(clip: Path) -> None:
    assert list(extract_at(clip.read_bytes(), "c", [1.0])) == [1.0]


@pytest.mark.parametrize("content", [b"", b"no video at all"])
def test_what_is_no_video_is_named(content: bytes) -> None:
    with pytest.raises(MediaError, match="c: cannot be opened as video"):
        extract_at(content, "c", [0.0])


def test_a_clip_is_decoded_once_for_all_times_the_store_does_not_hold(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[list[float]] = []

    def spy(source: Any, name: str, times_s: list[float]) -> dict[float, bytes]:
        decoded.append(list(times_s))
        return extract_at(source, name, times_s)

    monkeypatch.setattr("client.clips.extract_at", spy)
    store = FrameStore()
    store.put(("s", "1"), [(1.0, b"from the session")])
    shown = VideoClip("s", "1", MediaSource("c", clip, ".mp4"), tmp_path, store)

    assert shown.held([1.0, 0.0]) is None
    frames = shown.frames([1.0, 0.0, 2.0, 1.0])
    assert (frames[1.0], number(frames[0.0]), number(frames[2.0])) == (b"from the session", 0, 4)
    assert shown.held([2.0, 0.0, 0.0]) == {0.0: frames[0.0], 2.0: frames[2.0]}
    assert shown.frames([2.0, 0.0]) == {0.0: frames[0.0], 2.0: frames[2.0]}
    assert decoded == [[0.0, 2.0]]


def test_a_file_is_shown_where_it_lies_and_bytes_are_materialised(clip: Path, tmp_path: Path) -> None:
    by_file = VideoClip("s", "1", MediaSource("c", clip, ".mp4"), tmp_path / "m")
    by_bytes = VideoClip("s", "ü 1", MediaSource("c", clip.read_bytes, ".mp4"), tmp_path / "m")

    assert by_file.uri() == clip.resolve().as_uri()
    assert by_bytes.uri() == (tmp_path / "m" / "ü 1.mp4").resolve().as_uri()
    assert (tmp_path / "m" / "ü 1.mp4").read_bytes() == clip.read_bytes()
    assert by_bytes.seconds() == by_file.seconds()
