"""Studies as `conf/` composes them."""

import hydra
from conftest import REPOSITORY
from omegaconf import OmegaConf


def composed(*overrides: str) -> dict:
    with hydra.initialize_config_dir(str(REPOSITORY / "conf"), version_base=None):
        return OmegaConf.to_container(hydra.compose("config", overrides=list(overrides)))
