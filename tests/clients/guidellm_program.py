"""guidellm 0.8: a short benchmark must end without a failed request."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    report = pathlib.Path(folder) / "report.json"
    tokenizer = pathlib.Path(__file__).parents[1] / "data/tiny/llama_tied"  # for counting only
    prompts = pathlib.Path(folder) / "prompts.jsonl"
    prompts.write_text("".join(
        json.dumps({"prompt": f"Tell me about the number {n}.", "output_tokens_count": 8}) + "\n" for n in range(20)))
    command = [str(pathlib.Path(sys.executable).parent / "guidellm"), "run", "--disable-progress",
               "--backend", f"kind=openai_http,target={os.environ['QUIRE_URL']},model=smollm2,"
                            f"api_key={os.environ['QUIRE_KEY']}",
               "--profile", "kind=synchronous", "--constraint", "kind=max_requests,count=5",
               "--tokenizer", f"kind=hf_auto,model={tokenizer}",
               "--data", f"kind=json_file,path={prompts}", "--output", f"kind=json,path={report}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    requests = json.loads(report.read_text())["benchmarks"][0]["metrics"]["request_totals"]
    assert requests["successful"] > 0 and requests["errored"] == 0, requests
