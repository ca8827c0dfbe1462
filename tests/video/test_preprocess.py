"""Filling the cache for sample sets."""

from __future__ import annotations

import pytest

from evr_core import DataType, ProblemType, Sample
from evr_video import FrameCache, PreprocessError, preprocess_samples


def sample(name, videos=(), images=(), **fields):
    kind = DataType.VIDEO if videos else DataType.IMAGE if images else DataType.TEXT
    return Sample(name, "?", "x", ProblemType.OPEN_ENDED, kind, tuple(images), tuple(videos), **fields)


@pytest.fixture
def samples(media):
    plain, odd, picture = media / "plain.mp4", media / "odd.mp4", media / "picture.png"
    return [
        sample("a", [plain]),
        sample("b", [odd, plain], [picture]),
        sample("c"),
        sample("d", [plain], video_start_s=1.0),
    ]


def test_every_medium_is_decoded_once(samples, cache, budget, geometry):
    seen = []
    result = preprocess_samples(
        samples, cache, budget, geometry, workers=2, on_progress=lambda done, total: seen.append((done, total))
    )
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert (cache.hits, cache.misses, result.num_media, result.failures) == (0, 4, 4, ())
    a, b, c, d = result.handles
    assert [handle.kind for handle in b] == ["video", "video", "image"]
    assert b[1] == a[0]
    assert c == ()
    assert d[0].key != a[0].key
    assert min(d[0].plan.frame_indices) == 8

    again = FrameCache(cache.root)
    assert preprocess_samples(samples, again, budget, geometry).handles == result.handles
    assert (again.hits, again.misses) == (4, 0)


def test_bad_media_stop_the_run_with_one_message(samples, tmp_path, cache, budget, geometry):
    bad = []
    for number in range(13):
        path = tmp_path / f"bad{number}.mp4"
        path.write_text("text" if number % 2 else "")
        bad.append(sample(f"bad{number}", [path]))
    with pytest.raises(PreprocessError) as caught:
        preprocess_samples([*samples, *bad], cache, budget, geometry, workers=2)
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("13 media files cannot be used")
    assert len(lines) == 12
    assert lines[1].endswith("bad0.mp4: the file is empty (sample bad0)")
    assert "not a readable video" in lines[2]
    assert lines[-1] == "  ... and 3 more"
    assert cache.misses == 4  # what is good is there already


def test_bad_media_can_be_skipped_and_are_listed(samples, tmp_path, cache, budget, geometry):
    missing = tmp_path / "missing.mp4"
    short = sample("short", [samples[0].videos[0]], video_start_s=2.9)
    mixed = [sample("m", [missing, samples[0].videos[0]]), samples[0], short]
    result = preprocess_samples(mixed, cache, budget, geometry, skip_errors=True)
    assert result.handles[0] is None
    assert result.handles[1] is not None
    assert result.handles[2] is None
    assert [(failure.path, failure.sample_ids) for failure in result.failures] == [
        (str(missing), ("m",)),
        (str(samples[0].videos[0]), ("short",)),
    ]
    assert result.failures[0].reason == "no such file"
