"""What every process of a cluster runs: its role's actor, wired to its connections, until its launcher is gone."""

import importlib
import sys

if "structlog" not in sys.modules and "rich" not in sys.modules:
    # structlog loads rich wherever it is installed, for tracebacks in colours that no process of a cluster writes:
    # 5 MB and 60 ms in each. A command that wants rich loads it by itself.
    sys.modules["rich"] = None  # type: ignore[assignment]
    importlib.import_module("structlog")
    del sys.modules["rich"]
