"""A run knows the image it was made in."""

import json

import pytest

from pipeline.machine import environment

DESCRIPTION = {"target": "cpu", "base": "debian", "content_sha256": "c", "commit": None, "dirty": False}


@pytest.mark.parametrize("digest", [None, "sha256:d"])
def test_inside_it_is_what_the_build_wrote_and_the_digest_it_was_started_by(tmp_path, monkeypatch, digest):
    monkeypatch.setattr(environment, "IMAGE", tmp_path / "image.json")
    environment.IMAGE.write_text(json.dumps(DESCRIPTION))
    monkeypatch.delenv("IMAGE_DIGEST", raising=False)
    if digest:
        monkeypatch.setenv("IMAGE_DIGEST", digest)
    assert environment.image_identity() == DESCRIPTION | {"digest": digest}
