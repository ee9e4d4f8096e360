"""Two agents, each with a model, one a tool of the other. Shows: tools, model. Prints: the answer and its caller."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from hobus import Agent, Cluster

thorough = Agent("thorough", instructions="Answer at length.", model="second/offline-rules-1")
quick = Agent("quick", instructions="Answer in one word.", tools=[thorough], model="offline/offline-rules-1")

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / "home"
        (home / "config").mkdir(parents=True)
        model = dict.fromkeys(("input_usd_per_million", "output_usd_per_million", "cached_usd_per_million"), 0.0)
        second = {  # as `hobus provider add` would write it for a server of yours
            "kind": "offline", "latency_ms": 0, "any_model": False, "concurrency_max": 8,
            "models": [{"model_id": "offline-rules-1", "sees": False, **model}],
        }  # fmt: skip
        settings = {"gateway": {"providers": {"second": second}}}
        (home / "config" / "admin_config.json").write_text(json.dumps(settings))
        with Cluster(home, agents=[quick, thorough]) as cluster:
            print(cluster.ask("use THOROUGH for hello").text)
            cost = [sys.executable, "-m", "hobus", "cost", "--home", str(home), "--by", "agent,model", "--json"]
            report = json.loads(subprocess.run(cost, capture_output=True, check=True).stdout)
            for row in report["rows"]:
                print(row["agent"], row["model"])
