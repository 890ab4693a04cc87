"""What all tests share: two threads, reproducible properties, and the real SmolLM2 where it has been fetched."""

import os

# Some virtual machines announce AMX and then die of it, in the first bfloat16 product.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16")

import hypothesis
import pytest
import torch

from cold.lm import LanguageModel, catalog, load

hypothesis.settings.register_profile("cold", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("cold")


def pytest_sessionstart() -> None:
    torch.set_num_threads(2)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if catalog.find("smollm2") is None:
        missing = pytest.mark.skip(reason="SmolLM2 is not here: run `cold models get smollm2` once")
        for item in items:
            if item.get_closest_marker("lm"):
                item.add_marker(missing)


@pytest.fixture(scope="session")
def smollm2() -> LanguageModel:
    return load("smollm2", device="cpu")
