"""The fused step's kernels on a CPU: files of `tests/interpreted`, each in a process of its own.

Triton reads whether to interpret when it is imported, and nothing else in a test process may see it that way. By hand:
TRITON_INTERPRET=1 python -m pytest tests/interpreted/attention_kernel.py
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("name", ["attention_kernel", "fused_step"])
def test_kernels_compute_what_torch_does(name: str) -> None:
    path = f"tests/interpreted/{name}.py"
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", path]
    variables = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, cwd=ROOT, env=variables, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
