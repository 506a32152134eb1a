"""What is compiled for AVX2 gives the same bits as what runs on every processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from maxmargin import _core


def run(capability):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MAXMARGIN_CPU_CAPABILITY": capability}
    command = [sys.executable, str(Path(__file__).parent / "cases" / "cpu_capability.py")]
    found = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300, env=environment)
    return json.loads(found.stdout)


def test_all_kernels_give_the_same_bits_without_avx2():
    default, plain = run("default")
    assert default == "default"
    avx2, fast = run("")
    if avx2 != "avx2":
        pytest.skip("this processor has no AVX2: there is only one form to run")
    assert len(plain) > 30
    assert fast == plain


def test_the_environment_variable_decides_when_the_library_is_loaded():
    wanted = os.environ.get("MAXMARGIN_CPU_CAPABILITY")
    assert _core.cpu_capability() == "default" if wanted == "default" else _core.cpu_capability() in ("avx2", "default")
