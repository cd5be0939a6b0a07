"""What the tests share. CLEF names the command; CLEF_SHARED a folder with oracle/models and data; --all runs what needs
torch, transformers, sentence-transformers or langchain-core."""
import os
import subprocess
from pathlib import Path

import pytest

import clef_cl as clef

ROOT = Path(os.environ.get("CLEF_SOURCE", Path(__file__).resolve().parents[2]))
COMMAND = os.environ.get("CLEF", str(ROOT / "build" / "clef"))
SHARED = Path(os.environ.get("CLEF_SHARED", ROOT.parent / "shared"))
ORACLE = SHARED / "oracle" / "models"
FAMILIES = sorted(p.name for p in ORACLE.iterdir()) if ORACLE.is_dir() else []


def pytest_addoption(parser):
    parser.addoption("--all", action="store_true", help="a package that a test needs and that is missing is a failure")


def run_command(*arguments):
    return subprocess.run([COMMAND, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def needs(request):
    """needs("torch"): the module, or the test is skipped; with --all it fails."""
    def find(name):
        if request.config.getoption("--all"):
            return __import__(name)
        return pytest.importorskip(name)

    return find


@pytest.fixture(scope="session")
def device():
    with clef.Device() as device:
        yield device


@pytest.fixture(scope="module")
def demo(device):
    with clef.Model(device=device) as model:
        yield model
