"""guidellm: a short synchronous benchmark must end without a failed request."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    report = pathlib.Path(folder) / "report.json"
    tokenizer = str(pathlib.Path(__file__).parents[1] / "data/tiny/llama_tied")  # for counting only
    data = pathlib.Path(folder) / "prompts.jsonl"
    data.write_text("".join(json.dumps({"prompt": f"Tell me about the number {n}."}) + "\n" for n in range(20)))
    command = [str(pathlib.Path(sys.executable).parent / "guidellm"), "benchmark", "run",
               "--target", os.environ["QUIRE_URL"], "--model", "smollm2", "--processor", tokenizer,
               "--data", str(data), "--rate-type", "synchronous", "--max-requests", "5",
               "--backend-kwargs", json.dumps({"api_key": os.environ["QUIRE_KEY"]}),
               "--output-path", str(report)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    totals = json.loads(report.read_text())["benchmarks"][0]
    requests = totals.get("request_totals") or totals["run_stats"]["requests_made"]
    assert requests["successful"] > 0 and requests["errored"] == 0, requests
