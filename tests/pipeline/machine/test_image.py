"""A run records the image it was made in."""

import json

import pytest

from pipeline.machine import environment

DESCRIPTION = {"target": "cpu", "base": "debian", "content_sha256": "c", "commit": None, "dirty": False}


@pytest.mark.parametrize("digest", [None, "sha256:d"])
def test_an_images_identity_combines_its_build_description_and_its_digest(tmp_path, monkeypatch, digest):
    monkeypatch.setattr(environment, "IMAGE", tmp_path / "image.json")
    environment.IMAGE.write_text(json.dumps(DESCRIPTION))
    monkeypatch.delenv("IMAGE_DIGEST", raising=False)
    if digest:
        monkeypatch.setenv("IMAGE_DIGEST", digest)
    assert environment.image_identity() == DESCRIPTION | {"digest": digest}
