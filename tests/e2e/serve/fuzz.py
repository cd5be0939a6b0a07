"""Requests that are nearly right, from tests/fuzz/fuzz_serve.py: the server answers each, and goes on."""
import os
import subprocess
import sys

from serving import Server, check, finish, same

SOURCE = os.environ["CLEF_SOURCE"]


def fuzz(n, model, *flags):
    with Server(*flags, "--header-timeout", "1", "-q", model=model) as server:
        got = subprocess.run([sys.executable, os.path.join(SOURCE, "tests", "fuzz", "fuzz_serve.py"), str(server.port), str(n)],
                             capture_output=True, text=True, check=False)
        check(f"{n} requests", got.returncode == 0, got.stdout + got.stderr + server.log[-1000:])
        check("none is left", server.until(server.idle))
        same("it ends with 0", 0, server.stop())


fuzz(6000, None, "--chat-template", "chatml", "--tool-format", "hermes", "--ollama")
fuzz(600, os.path.join(SOURCE, "tests", "fixtures", "whisper"))
finish()
