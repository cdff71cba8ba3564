"""aiperf: a short run of streamed chats must end without a failed request."""
import os
import pathlib
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as folder:
    tokenizer = str(pathlib.Path(__file__).parents[1] / "data/tiny/llama_tied")  # for counting only
    command = [str(pathlib.Path(sys.executable).parent / "aiperf"), "profile", "--model", "smollm2",
               "--url", os.environ["QUIRE_URL"], "--endpoint-type", "chat", "--streaming", "--tokenizer", tokenizer,
               "--request-count", "5", "--concurrency", "2", "--isl", "32", "--osl", "8", "--ui", "none",
               "--api-key", os.environ["QUIRE_KEY"], "--output-artifact-dir", folder]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert any(pathlib.Path(folder).rglob("*.csv")), "no report was written"
