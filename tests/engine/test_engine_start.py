"""What an engine imports when it starts, and what waits for the first model."""

from __future__ import annotations

from apart import run_apart


def test_an_engine_starts_without_transformers_and_compilers() -> None:
    late = ("transformers", "torch._dynamo", "sympy", "triton", "torch.distributed.tensor")
    printed = run_apart(f"import sys, engines.engine\nprint([name for name in {late} if name in sys.modules])")
    assert printed == "[]"


def test_the_first_load_counts_the_import_of_transformers() -> None:
    printed = run_apart(
        "import sys\n"
        "from engines.loading.warm_models import WarmModels\n"
        "from engines.loading.weights import load_model\n"
        "from evprof.core.vocabulary.generation import ModelChoice\n"
        "from threading import Event\n"
        "warm = WarmModels(load_model, 10.0)\n"
        "warm.import_libraries()\n"
        "print('transformers.models.clip.modeling_clip' in sys.modules)\n"
        "model = warm.get(ModelChoice('evprof-tiny-eventgpt'), 'draft', lambda done, total: None, Event())\n"
        "print(model.setup.import_ms > 10.0)"
    )
    assert printed.splitlines() == ["True", "True"]
