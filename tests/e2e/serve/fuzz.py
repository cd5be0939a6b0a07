"""Requests that are nearly right, from tests/fuzz/fuzz_serve.py: the server answers each, and goes on."""
import os
import subprocess
import sys

from serving import Server, check, finish, same

with Server("--chat-template", "chatml", "--tool-format", "hermes", "--ollama", "--header-timeout", "1", "-q") as server:
    script = os.path.join(os.environ["CLEF_SOURCE"], "tests", "fuzz", "fuzz_serve.py")
    got = subprocess.run([sys.executable, script, str(server.port), "6000"], capture_output=True, text=True, check=False)
    check("6000 requests", got.returncode == 0, got.stdout + got.stderr + server.log[-1000:])
    check("none is left", server.until(server.idle))
    same("it ends with 0", 0, server.stop())
finish()
